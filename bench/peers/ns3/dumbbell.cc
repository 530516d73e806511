// N senders, N receivers, one link between their switches. Prints one line of JSON; goodput and queue are over the second
// half of the run, goodput in slices of it.

#include "common.h"

#include <iostream>
#include <vector>

using namespace ns3;
using namespace peers;

namespace
{

/// A FIFO that marks a packet as it leaves if more than a threshold waits behind it, as Poseidon's switches do. ns-3's own
/// marking disc, RED, decides as a packet arrives.
class LeavingMarkDisc : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("peers::LeavingMarkDisc")
                               .SetParent<QueueDisc>()
                               .AddConstructor<LeavingMarkDisc>()
                               .AddAttribute("MaxSize",
                                             "Packets that may wait",
                                             QueueSizeValue(QueueSize("1000p")),
                                             MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                                             MakeQueueSizeChecker())
                               .AddAttribute("Threshold",
                                             "Packets behind a packet that mark it",
                                             UintegerValue(65),
                                             MakeUintegerAccessor(&LeavingMarkDisc::m_threshold),
                                             MakeUintegerChecker<uint32_t>());
        return id;
    }

    LeavingMarkDisc()
        : QueueDisc(QueueDiscSizePolicy::SINGLE_INTERNAL_QUEUE)
    {
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        if (GetCurrentSize() + item > GetMaxSize())
        {
            DropBeforeEnqueue(item, "full");
            return false;
        }
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        // The packet goes to the device, which holds one. The one before it goes on the wire at this moment, so what waits
        // then is this packet and what is behind it: the number that Poseidon's switch looks at, one packet earlier.
        if (item && GetInternalQueue(0)->GetNPackets() + 1 > m_threshold)
        {
            Mark(item, "step");
        }
        return item;
    }

    bool CheckConfig() override
    {
        if (GetNInternalQueues() == 0)
        {
            AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize",
                                                                                     QueueSizeValue(GetMaxSize())));
        }
        return GetNInternalQueues() == 1 && GetNQueueDiscClasses() == 0;
    }

    void InitializeParams() override
    {
    }

    uint32_t m_threshold{65};
};

NS_OBJECT_ENSURE_REGISTERED(LeavingMarkDisc);

/// A queue that is looked at again and again.
struct Watch
{
    Ptr<QueueDisc> disc;
    Ptr<Queue<Packet>> device;
    Time every;
    uint64_t samples{0};
    double bytes{0};

    void Look()
    {
        // The disc's packets do not have their two bytes of PPP yet.
        bytes += disc->GetNBytes() + 2.0 * disc->GetNPackets() + device->GetNBytes();
        ++samples;
        Simulator::Schedule(every, &Watch::Look, this);
    }
};

/// What every receiver has got so far, written down again and again.
struct Books
{
    NodeContainer hosts;
    Time every;
    std::vector<std::vector<uint64_t>> bytes;

    void Write()
    {
        std::vector<uint64_t> now;
        for (uint32_t i = 0; i < hosts.GetN(); ++i)
        {
            now.push_back(DynamicCast<PacketSink>(hosts.Get(i)->GetApplication(0))->GetTotalRx());
        }
        bytes.push_back(now);
        Simulator::Schedule(every, &Books::Write, this);
    }
};

} // namespace

int main(int argc, char* argv[])
{
    uint32_t flows = 2, segment = 1448, buffer = 1000, threshold = 65, slices = 10;
    std::string rate = "10Gbps", hostRate = "40Gbps", delay = "15us";
    std::string law = "TcpDctcp", disc = "leaving", recovery = "TcpPrrRecovery";
    Time stop = MilliSeconds(100), gap = MicroSeconds(1), every = MicroSeconds(10), minRto = MilliSeconds(10);
    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "senders", flows);
    cmd.AddValue("rate", "of the link in the middle", rate);
    cmd.AddValue("host-rate", "of the links of hosts", hostRate);
    cmd.AddValue("delay", "of every link, one way", delay);
    cmd.AddValue("law", "TcpDctcp or TcpCubic", law);
    cmd.AddValue("disc", "leaving: mark as a packet leaves; red: mark as it arrives; fifo: never", disc);
    cmd.AddValue("recovery", "TcpPrrRecovery spreads a cut over a round trip; TcpClassicRecovery does not", recovery);
    cmd.AddValue("buffer", "packets that may wait in the middle", buffer);
    cmd.AddValue("threshold", "packets; more of them mark", threshold);
    cmd.AddValue("segment", "payload of a packet, bytes", segment);
    cmd.AddValue("slices", "of the second half", slices);
    cmd.AddValue("stop", "end of the run", stop);
    cmd.AddValue("gap", "between the starts of two flows", gap);
    cmd.AddValue("every", "between two looks at the queue", every);
    cmd.AddValue("min-rto", "shortest timeout", minRto);
    cmd.Parse(argc, argv);
    // 1502 bytes at 10 Gbps take 1201.6 ns.
    Time::SetResolution(Time::PS);
    ConfigureTcp(law, disc != "fifo", segment, minRto);
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));

    NodeContainer left, right, switches;
    left.Create(flows);
    right.Create(flows);
    switches.Create(2);
    InternetStackHelper internet;
    internet.Install(left);
    internet.Install(right);
    internet.Install(switches);

    // The device holds one of the packets that may wait.
    const QueueSize room(QueueSizeUnit::PACKETS, buffer - 1);
    TrafficControlHelper control;
    if (disc == "leaving")
    {
        control.SetRootQueueDisc("peers::LeavingMarkDisc",
                                 "MaxSize",
                                 QueueSizeValue(room),
                                 "Threshold",
                                 UintegerValue(threshold));
    }
    else if (disc == "red")
    {
        SetStepByRed(control, room, threshold);
    }
    else
    {
        control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(room));
    }

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> to;
    const auto connect = [&](Ptr<Node> a, Ptr<Node> b, const std::string& linkRate) {
        NetDeviceContainer ends = Cable(a, b, linkRate, delay);
        QueueDiscContainer discs = control.Install(ends);
        to.push_back(addresses.Assign(ends).GetAddress(0));
        addresses.NewNetwork();
        return std::make_pair(ends, discs);
    };
    const auto middle = connect(switches.Get(0), switches.Get(1), rate);
    to.clear();
    for (uint32_t i = 0; i < flows; ++i)
    {
        connect(right.Get(i), switches.Get(1), hostRate);
    }
    const std::vector<Ipv4Address> receivers = to;
    for (uint32_t i = 0; i < flows; ++i)
    {
        connect(left.Get(i), switches.Get(0), hostRate);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < flows; ++i)
    {
        Flow(left.Get(i), right.Get(i), receivers[i], 5000, segment, gap * i);
    }

    Watch watch{middle.second.Get(0), DynamicCast<PointToPointNetDevice>(middle.first.Get(0))->GetQueue(), every};
    const Time slice = stop / (2 * slices);
    Books books{right, slice, {}};
    Simulator::Schedule(stop / 2, &Watch::Look, &watch);
    Simulator::Schedule(stop / 2, &Books::Write, &books);
    // A moment longer, for the last page of the books.
    const double wall = Run(stop + slice / 1000);
    const QueueDisc::Stats& stats = middle.second.Get(0)->GetStats();

    std::cout.precision(12);
    std::cout << "{\"goodput_bps\":[";
    for (uint32_t at = 1; at <= slices; ++at)
    {
        for (uint32_t i = 0; i < flows; ++i)
        {
            const uint64_t got = books.bytes[at][i] - books.bytes[at - 1][i];
            std::cout << (at == 1 && i == 0 ? "" : ",") << got * 8 / slice.GetSeconds();
        }
    }
    std::cout << "],\"mean_queue_bytes\":" << watch.bytes / watch.samples << ",\"drops\":" << stats.nTotalDroppedPackets
              << ",\"marks\":" << stats.nTotalMarkedPackets << ",\"packet_hops\":" << g_hops << ",\"wall_seconds\":" << wall
              << "}" << std::endl;
    return 0;
}
