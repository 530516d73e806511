// Two flows of Poseidon share a 10 Gbps link in ns-3. Prints their rates.
//
// docs/howto/ns3.md explains the program.

#include "hop-telemetry.h"
#include "tcp-poseidon-law.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>

using namespace ns3;

int
main()
{
    // The laws compare nanoseconds, and a 1502-byte packet takes 1201.6 ns at 10 Gbps.
    Time::SetResolution(Time::PS);

    // 1. Every socket runs the law.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpPoseidonLaw::GetTypeId()));
    Config::SetDefault("ns3::TcpPoseidonLaw::Law", StringValue("poseidon"));
    Config::SetDefault("ns3::TcpPoseidonLaw::Params", StringValue("max-rate=10Gbps"));
    Config::SetDefault("ns3::TcpPoseidonLaw::LineRate", StringValue("10Gbps"));
    Config::SetDefault("ns3::TcpPoseidonLaw::BaseRtt", StringValue("6us"));
    Config::SetDefault("ns3::TcpPoseidonLaw::HopTelemetry", BooleanValue(true));

    // 2. TCP of a datacenter: an ACK per packet, large buffers, a short retransmission timeout.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1'000'000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1'000'000));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", StringValue("1ms"));

    // 3. Three hosts at one switch. Hosts add and echo telemetry, devices measure.
    NodeContainer hosts(3);
    Ptr<Node> switchNode = CreateObject<Node>();
    InternetStackHelper internet;
    internet.Install(NodeContainer(hosts, switchNode));
    HopTelemetry::InstallHosts(hosts);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetChannelAttribute("Delay", StringValue("1us"));
    TrafficControlHelper disc;
    disc.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("10000p"));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    Ipv4Address receiver;
    for (uint32_t i = 0; i < hosts.GetN(); ++i)
    {
        NetDeviceContainer devices = link.Install(hosts.Get(i), switchNode);
        HopTelemetry::InstallDevices(devices);
        disc.Install(devices);
        receiver = addresses.Assign(devices).GetAddress(0);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    // 4. The first two hosts send to the third one for 10 ms.
    std::vector<Ptr<PacketSink>> sinks;
    for (uint16_t i = 0; i < 2; ++i)
    {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000 + i));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(hosts.Get(2)).Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(receiver, 5000 + i));
        source.SetAttribute("SendSize", UintegerValue(1448));
        source.Install(hosts.Get(i)).Start(MicroSeconds(100 * i));
    }
    Simulator::Stop(MilliSeconds(10));
    Simulator::Run();
    for (const Ptr<PacketSink>& sink : sinks)
    {
        std::cout << static_cast<double>(sink->GetTotalRx()) * 8 / 0.010 / 1e9 << " Gbps" << std::endl;
    }
    return 0;
}
