// Simulates a star in which all hosts are connected to one switch by 10 Gbps links with a 1 us delay. Each host sends
// one endless flow. Prints one line of JSON.

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
    cmd.AddValue("hosts", "number of hosts", hosts);
    cmd.AddValue("shift", "host i sends to host i + shift", shift);
    cmd.AddValue("threshold", "marking threshold in packets", threshold);
    cmd.AddValue("segment", "payload of a packet in bytes", segment);
    cmd.AddValue("stop", "end of the run", stop);
    cmd.AddValue("gap", "time between the starts of two flows", gap);
    cmd.AddValue("min-rto", "minimum retransmission timeout", minRto);
    cmd.Parse(argc, argv);
    Time::SetResolution(Time::PS);
    ConfigureTcp("TcpDctcp", true, segment, minRto);

    NodeContainer nodes;
    nodes.Create(hosts);
    Ptr<Node> switchNode = CreateObject<Node>();
    InternetStackHelper internet;
    internet.Install(nodes);
    internet.Install(switchNode);
    TrafficControlHelper control;
    SetStepMarking(control, QueueSize("1000p"), threshold);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::vector<Ipv4Address> hostAddresses;
    for (uint32_t i = 0; i < hosts; ++i)
    {
        NetDeviceContainer devices = ConnectNodes(nodes.Get(i), switchNode, "10Gbps", "1us");
        // Hosts also mark packets. Otherwise, windows would grow without limit and slow down ns-3.
        control.Install(devices);
        hostAddresses.push_back(addresses.Assign(devices).GetAddress(0));
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (uint32_t i = 0; i < hosts; ++i)
    {
        const uint32_t peer = (i + shift) % hosts;
        InstallFlow(nodes.Get(i), nodes.Get(peer), hostAddresses[peer], 5000, segment, gap * i);
    }
    const double wallSeconds = RunUntil(stop);
    std::cout.precision(12);
    std::cout << "{\"packet_hops\":" << g_packetHops << ",\"wall_seconds\":" << wallSeconds << "}" << std::endl;
    return 0;
}
