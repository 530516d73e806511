// Simulates a dumbbell with N senders, N receivers and one link between their switches. Prints one line of JSON.
// Goodput and queue length cover the second half of the run. Goodput is reported per time slice.

#include "measure.h"

#include <iostream>
#include <vector>

using namespace ns3;
using namespace peers;

NS_OBJECT_ENSURE_REGISTERED(MarkOnDequeueDisc);

int main(int argc, char* argv[])
{
    uint32_t flows = 2, segment = 1448, buffer = 1000, threshold = 65, slices = 10;
    std::string rate = "10Gbps", hostRate = "40Gbps", delay = "15us";
    std::string law = "TcpDctcp", disc = "leaving", recovery = "TcpPrrRecovery";
    Time stop = MilliSeconds(100), gap = MicroSeconds(1), sampleInterval = MicroSeconds(10), minRto = MilliSeconds(10);
    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "number of senders", flows);
    cmd.AddValue("rate", "rate of the middle link", rate);
    cmd.AddValue("host-rate", "rate of host links", hostRate);
    cmd.AddValue("delay", "propagation delay of every link", delay);
    cmd.AddValue("law", "TcpDctcp or TcpCubic", law);
    cmd.AddValue("disc", "leaving: mark on dequeue; red: mark on enqueue; fifo: never mark", disc);
    cmd.AddValue("recovery", "TcpPrrRecovery (proportional rate reduction) or TcpClassicRecovery", recovery);
    cmd.AddValue("buffer", "buffer of the middle link in packets", buffer);
    cmd.AddValue("threshold", "marking threshold in packets", threshold);
    cmd.AddValue("segment", "payload of a packet in bytes", segment);
    cmd.AddValue("slices", "number of time slices in the second half", slices);
    cmd.AddValue("stop", "end of the run", stop);
    cmd.AddValue("gap", "time between the starts of two flows", gap);
    cmd.AddValue("every", "sampling interval of the queue", sampleInterval);
    cmd.AddValue("min-rto", "minimum retransmission timeout", minRto);
    cmd.Parse(argc, argv);
    // Nanosecond resolution is too coarse: sending 1502 bytes at 10 Gbps takes 1201.6 ns.
    Time::SetResolution(Time::PS);
    ConfigureTcp(law, disc != "fifo", segment, minRto);
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));

    NodeContainer senders, receivers, switches;
    senders.Create(flows);
    receivers.Create(flows);
    switches.Create(2);
    InternetStackHelper internet;
    internet.Install(senders);
    internet.Install(receivers);
    internet.Install(switches);

    // One packet of the buffer is in the device queue.
    const QueueSize maxSize(QueueSizeUnit::PACKETS, buffer - 1);
    TrafficControlHelper control;
    if (disc == "leaving")
    {
        control.SetRootQueueDisc("peers::MarkOnDequeueDisc",
                                 "MaxSize",
                                 QueueSizeValue(maxSize),
                                 "Threshold",
                                 UintegerValue(threshold));
    }
    else if (disc == "red")
    {
        SetStepMarking(control, maxSize, threshold);
    }
    else
    {
        control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(maxSize));
    }

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> firstAddresses;
    const auto connect = [&](Ptr<Node> a, Ptr<Node> b, const std::string& linkRate) {
        NetDeviceContainer devices = ConnectNodes(a, b, linkRate, delay);
        QueueDiscContainer discs = control.Install(devices);
        firstAddresses.push_back(addresses.Assign(devices).GetAddress(0));
        addresses.NewNetwork();
        return std::make_pair(devices, discs);
    };
    const auto middle = connect(switches.Get(0), switches.Get(1), rate);
    firstAddresses.clear();
    for (uint32_t i = 0; i < flows; ++i)
    {
        connect(receivers.Get(i), switches.Get(1), hostRate);
    }
    const std::vector<Ipv4Address> receiverAddresses = firstAddresses;
    for (uint32_t i = 0; i < flows; ++i)
    {
        connect(senders.Get(i), switches.Get(0), hostRate);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < flows; ++i)
    {
        InstallFlow(senders.Get(i), receivers.Get(i), receiverAddresses[i], 5000, segment, gap * i);
    }

    QueueSampler queueSampler{middle.second.Get(0),
                              DynamicCast<PointToPointNetDevice>(middle.first.Get(0))->GetQueue(),
                              sampleInterval};
    const Time slice = stop / (2 * slices);
    ReceiverSampler receiverSampler{receivers, slice, {}};
    Simulator::Schedule(stop / 2, &QueueSampler::Sample, &queueSampler);
    Simulator::Schedule(stop / 2, &ReceiverSampler::Sample, &receiverSampler);
    // Extend the run slightly to include the last sample.
    const double wallSeconds = RunUntil(stop + slice / 1000);
    const QueueDisc::Stats& stats = middle.second.Get(0)->GetStats();

    std::cout.precision(12);
    std::cout << "{\"goodput_bps\":[";
    for (uint32_t sample = 1; sample <= slices; ++sample)
    {
        for (uint32_t i = 0; i < flows; ++i)
        {
            const uint64_t received = receiverSampler.bytes[sample][i] - receiverSampler.bytes[sample - 1][i];
            std::cout << (sample == 1 && i == 0 ? "" : ",") << received * 8 / slice.GetSeconds();
        }
    }
    std::cout << "],\"mean_queue_bytes\":" << queueSampler.totalBytes / queueSampler.samples
              << ",\"drops\":" << stats.nTotalDroppedPackets << ",\"marks\":" << stats.nTotalMarkedPackets
              << ",\"packet_hops\":" << g_packetHops << ",\"wall_seconds\":" << wallSeconds << "}" << std::endl;
    return 0;
}
