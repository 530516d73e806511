// Simulates a chain of switches with the same number of hosts at each one, and flows that run one of Poseidon's laws
// through ns-3's TCP. One switch is a star, two are a dumbbell. Prints one line of JSON. Goodput and queues cover the
// second half of the run.

#include "../../../ns3/call-record.h"
#include "../../../ns3/hop-telemetry.h"
#include "../../../ns3/tcp-poseidon-law.h"
#include "measure.h"

#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

using namespace ns3;
using namespace peers;

NS_OBJECT_ENSURE_REGISTERED(MarkOnDequeueDisc);
NS_OBJECT_ENSURE_REGISTERED(AcksFirstDisc);

namespace
{

struct Flow
{
    uint32_t from, to;
    Time start, baseRtt;
};

/// Parses flows: FROM>TO@START_NS/BASE_RTT_NS, separated by commas.
std::vector<Flow>
ParseFlows(const std::string& text)
{
    std::vector<Flow> flows;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');)
    {
        Flow flow;
        uint64_t start, baseRtt;
        char arrow, at, slash;
        std::istringstream fields(item);
        fields >> flow.from >> arrow >> flow.to >> at >> start >> slash >> baseRtt;
        NS_ABORT_MSG_IF(fields.fail(), "not a flow (FROM>TO@START_NS/BASE_RTT_NS): " << item);
        flow.start = NanoSeconds(start);
        flow.baseRtt = NanoSeconds(baseRtt);
        flows.push_back(flow);
    }
    return flows;
}

/// Gives a flow's socket its law. The socket exists as soon as the application has started.
void
SetLaw(Ptr<BulkSendApplication> source, Ptr<TcpPoseidonLaw> law)
{
    DynamicCast<TcpSocketBase>(source->GetSocket())->SetCongestionControlAlgorithm(law);
}

void
PrintList(const char* name, const std::vector<double>& values)
{
    std::cout << "\"" << name << "\":[";
    for (size_t i = 0; i < values.size(); ++i)
    {
        std::cout << (i == 0 ? "" : ",") << values[i];
    }
    std::cout << "]";
}

/// The network: hosts, switches, and the switches' queues to hosts and to the next switch.
struct Network
{
    NodeContainer hosts, switches;
    std::vector<Ipv4Address> addresses;
    /// For each host, the switch's queue to it. Then, for each link between switches, the left switch's queue.
    std::vector<QueueSampler> queues;
};

/// Connects a host or the next switch to a switch. The switch is the first node.
NetDeviceContainer
Connect(Network& network,
        Ptr<Node> a,
        Ptr<Node> b,
        const std::string& rate,
        const std::string& delay,
        TrafficControlHelper& switchDisc,
        TrafficControlHelper& otherDisc)
{
    NetDeviceContainer devices = ConnectNodes(a, b, rate, delay);
    HopTelemetry::InstallDevices(devices);
    Ptr<QueueDisc> disc = switchDisc.Install(devices.Get(0)).Get(0);
    otherDisc.Install(devices.Get(1));
    Ptr<Queue<Packet>> device = DynamicCast<PointToPointNetDevice>(devices.Get(0))->GetQueue();
    network.queues.push_back({disc, device, Time()});
    return devices;
}

} // namespace

int
main(int argc, char* argv[])
{
    uint32_t switches = 2, hosts = 2, segment = 1448, buffer = 1000, threshold = 0, slices = 10, sendBuffer = 16'000'000;
    std::string rate = "10Gbps", hostRate = "40Gbps", delay = "15us", lawName = "poseidon", params, lineRate = "10Gbps";
    std::string flowsText = "0>2@0/100000,1>3@1000/100000", watchedText = "4", recordPath;
    Time stop = MilliSeconds(20), sampleInterval = MicroSeconds(10), minRto = MilliSeconds(10);
    CommandLine cmd(__FILE__);
    cmd.AddValue("switches", "number of switches", switches);
    cmd.AddValue("hosts", "number of hosts at each switch", hosts);
    cmd.AddValue("rate", "rate of links between switches", rate);
    cmd.AddValue("host-rate", "rate of host links", hostRate);
    cmd.AddValue("delay", "propagation delay of every link", delay);
    cmd.AddValue("law", "name of the law", lawName);
    cmd.AddValue("params", "parameters of the law", params);
    cmd.AddValue("line-rate", "the senders' line rate, for the law", lineRate);
    cmd.AddValue("flows", "FROM>TO@START_NS/BASE_RTT_NS, separated by commas", flowsText);
    cmd.AddValue("watched", "sampled queue: a host's number, or switches x hosts + i for the link from switch i", watchedText);
    cmd.AddValue("buffer", "buffer of each queue in packets", buffer);
    cmd.AddValue("threshold", "marking threshold of switches in packets, or 0", threshold);
    cmd.AddValue("segment", "payload of a packet in bytes", segment);
    cmd.AddValue("send-buffer", "send buffer of a socket in bytes", sendBuffer);
    cmd.AddValue("slices", "number of time slices in the second half", slices);
    cmd.AddValue("stop", "end of the run", stop);
    cmd.AddValue("every", "sampling interval of the queue", sampleInterval);
    cmd.AddValue("min-rto", "minimum retransmission timeout", minRto);
    cmd.AddValue("record", "file for all calls of the laws", recordPath);
    cmd.Parse(argc, argv);
    const std::vector<Flow> flows = ParseFlows(flowsText);
    // Nanosecond resolution is too coarse: sending 1502 bytes at 10 Gbps takes 1201.6 ns.
    Time::SetResolution(Time::PS);
    ConfigureTcp("TcpPoseidonLaw", threshold > 0, segment, minRto);
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(sendBuffer));

    Network network;
    network.hosts.Create(switches * hosts);
    network.switches.Create(switches);
    InternetStackHelper internet;
    internet.Install(network.hosts);
    internet.Install(network.switches);
    HopTelemetry::InstallHosts(network.hosts);
    // One packet of the buffer is in the device queue.
    TrafficControlHelper switchDisc, hostDisc;
    switchDisc.SetRootQueueDisc("peers::MarkOnDequeueDisc",
                                "MaxSize",
                                QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, buffer - 1)),
                                "Threshold",
                                UintegerValue(threshold > 0 ? threshold : std::numeric_limits<uint32_t>::max()));
    hostDisc.SetRootQueueDisc("peers::AcksFirstDisc");
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    for (uint32_t i = 0; i < switches * hosts; ++i)
    {
        Ptr<Node> node = network.switches.Get(i / hosts);
        NetDeviceContainer devices = Connect(network, node, network.hosts.Get(i), hostRate, delay, switchDisc, hostDisc);
        network.addresses.push_back(addresses.Assign(devices).GetAddress(1));
        addresses.NewNetwork();
    }
    for (uint32_t i = 0; i + 1 < switches; ++i)
    {
        Ptr<Node> left = network.switches.Get(i);
        addresses.Assign(Connect(network, left, network.switches.Get(i + 1), rate, delay, switchDisc, switchDisc));
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::unique_ptr<CallRecord> record = recordPath.empty() ? nullptr : std::make_unique<CallRecord>(recordPath);
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows.size(); ++i)
    {
        const Flow& flow = flows[i];
        Ptr<Node> from = network.hosts.Get(flow.from), to = network.hosts.Get(flow.to);
        InstallFlow(from, to, network.addresses[flow.to], 5000 + i, segment, flow.start);
        sinks.push_back(DynamicCast<PacketSink>(to->GetApplication(to->GetNApplications() - 1)));
        Ptr<TcpPoseidonLaw> law = CreateObject<TcpPoseidonLaw>();
        law->SetAttribute("Law", StringValue(lawName));
        law->SetAttribute("Params", StringValue(params));
        law->SetAttribute("LineRate", StringValue(lineRate));
        law->SetAttribute("BaseRtt", TimeValue(flow.baseRtt));
        law->SetAttribute("HopTelemetry", BooleanValue(true));
        law->AssignStreams(i);
        if (record)
        {
            record->AddFlow(i, lawName, params);
            law->TraceConnectWithoutContext("Call", MakeBoundCallback(&CallRecord::OnCall, record.get(), i));
        }
        Ptr<BulkSendApplication> source = DynamicCast<BulkSendApplication>(from->GetApplication(from->GetNApplications() - 1));
        Simulator::Schedule(flow.start + TimeStep(1), &SetLaw, source, law);
    }

    QueueSampler& queue = network.queues.at(std::stoul(watchedText));
    queue.interval = sampleInterval;
    const Time slice = stop / (2 * slices);
    std::vector<std::vector<uint64_t>> received;
    for (uint32_t sample = 0; sample <= slices; ++sample)
    {
        Simulator::Schedule(stop / 2 + slice * sample, [&]() {
            received.emplace_back();
            for (const Ptr<PacketSink>& sink : sinks)
            {
                received.back().push_back(sink->GetTotalRx());
            }
        });
    }
    Simulator::Schedule(stop / 2, &QueueSampler::Sample, &queue);
    // Extend the run slightly to include the last sample.
    const double wallSeconds = RunUntil(stop + slice / 1000);

    std::vector<double> goodput;
    for (uint32_t sample = 1; sample <= slices; ++sample)
    {
        for (size_t i = 0; i < flows.size(); ++i)
        {
            goodput.push_back((received[sample][i] - received[sample - 1][i]) * 8 / slice.GetSeconds());
        }
    }
    uint64_t drops = 0, marks = 0;
    for (const QueueSampler& sampler : network.queues)
    {
        drops += sampler.disc->GetStats().nTotalDroppedPackets;
        marks += sampler.disc->GetStats().nTotalMarkedPackets;
    }
    std::cout.precision(12);
    std::cout << "{";
    PrintList("goodput_bps", goodput);
    std::cout << ",\"mean_queue_bytes\":" << queue.totalBytes / queue.samples << ",\"drops\":" << drops << ",\"marks\":" << marks
              << ",\"packet_hops\":" << g_packetHops << ",\"wall_seconds\":" << wallSeconds << "}" << std::endl;
    return 0;
}
