// n hosts on one switch, 10 Gbps, 1 us; every host sends to another without end. Prints one line of JSON.

#include "common.h"

#include <iostream>
#include <vector>

using namespace ns3;
using namespace peers;

int main(int argc, char* argv[])
{
    uint32_t hosts = 16, shift = 9, segment = 1448, threshold = 65;
    Time stop = MilliSeconds(5), gap = MicroSeconds(1), minRto = MilliSeconds(10);
    CommandLine cmd(__FILE__);
    cmd.AddValue("hosts", "on the switch", hosts);
    cmd.AddValue("shift", "host i sends to host i + shift", shift);
    cmd.AddValue("threshold", "packets; more of them mark", threshold);
    cmd.AddValue("segment", "payload of a packet, bytes", segment);
    cmd.AddValue("stop", "end of the run", stop);
    cmd.AddValue("gap", "between the starts of two flows", gap);
    cmd.AddValue("min-rto", "shortest timeout", minRto);
    cmd.Parse(argc, argv);
    Time::SetResolution(Time::PS);
    ConfigureTcp("TcpDctcp", true, segment, minRto);

    NodeContainer nodes;
    nodes.Create(hosts);
    Ptr<Node> middle = CreateObject<Node>();
    InternetStackHelper internet;
    internet.Install(nodes);
    internet.Install(middle);
    TrafficControlHelper control;
    SetStepByRed(control, QueueSize("1000p"), threshold);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> to;
    for (uint32_t i = 0; i < hosts; ++i)
    {
        NetDeviceContainer ends = Cable(nodes.Get(i), middle, "10Gbps", "1us");
        // Hosts mark too: a window that only its own host limits would grow, and ns-3 slows down with it.
        control.Install(ends);
        to.push_back(addresses.Assign(ends).GetAddress(0));
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < hosts; ++i)
    {
        const uint32_t peer = (i + shift) % hosts;
        Flow(nodes.Get(i), nodes.Get(peer), to[peer], 5000, segment, gap * i);
    }
    const double wall = Run(stop);
    std::cout.precision(12);
    std::cout << "{\"packet_hops\":" << g_hops << ",\"wall_seconds\":" << wall << "}" << std::endl;
    return 0;
}
