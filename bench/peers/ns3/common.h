// What both programs share: links, TCP's settings, the count of packet-hops and the clock.
#pragma once

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace peers
{

using namespace ns3;

inline uint64_t g_hops = 0;

inline void CountHop(Ptr<const Packet>)
{
    ++g_hops;
}

/// A cable between two nodes. The device holds one packet, so that everything else waits in the queue disc.
inline NetDeviceContainer Cable(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay)
{
    PointToPointHelper cable;
    cable.SetDeviceAttribute("DataRate", StringValue(rate));
    cable.SetChannelAttribute("Delay", StringValue(delay));
    cable.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
    NetDeviceContainer ends = cable.Install(a, b);
    for (uint32_t i = 0; i < ends.GetN(); ++i)
    {
        ends.Get(i)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountHop));
    }
    return ends;
}

/// TCP as our hosts do it: an ACK per packet, ten packets to start with, buffers that never limit.
inline void ConfigureTcp(const std::string& law, bool ecn, uint32_t segment, Time minRto)
{
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + law)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16'000'000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16'000'000));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(minRto));
    // Our CUBIC has no HyStart, which the RFC leaves open.
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
}

/// A step: RED without memory of the past, nothing below the threshold, everything from it on, as a packet arrives.
inline void SetStepByRed(TrafficControlHelper& control, QueueSize room, uint32_t threshold)
{
    control.SetRootQueueDisc("ns3::RedQueueDisc",
                             "MaxSize",
                             QueueSizeValue(room),
                             "MinTh",
                             DoubleValue(threshold),
                             "MaxTh",
                             DoubleValue(threshold),
                             "QW",
                             DoubleValue(1),
                             "Gentle",
                             BooleanValue(false),
                             "UseEcn",
                             BooleanValue(true),
                             "UseHardDrop",
                             BooleanValue(false));
}

/// An endless flow.
inline void Flow(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, uint32_t segment, Time start)
{
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(to).Start(Seconds(0));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, port));
    source.SetAttribute("SendSize", UintegerValue(segment));
    source.Install(from).Start(start);
}

/// Runs until `stop`; the seconds it took.
inline double Run(Time stop)
{
    Simulator::Stop(stop);
    const auto began = std::chrono::steady_clock::now();
    Simulator::Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

} // namespace peers
