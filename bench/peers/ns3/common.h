// Code shared by both programs: links, TCP settings, packet-hop counting and wall-clock timing.
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

/// The number of packet transmissions over links. A packet counts once for each link that it crosses.
inline uint64_t g_packetHops = 0;

inline void CountPacketHop(Ptr<const Packet>)
{
    ++g_packetHops;
}

/// Connects two nodes. The device queue holds one packet, so all other packets wait in the queue disc.
inline NetDeviceContainer ConnectNodes(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
    NetDeviceContainer devices = link.Install(a, b);
    for (uint32_t i = 0; i < devices.GetN(); ++i)
    {
        devices.Get(i)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountPacketHop));
    }
    return devices;
}

/// Configures TCP to match Poseidon's simulator: one ACK per packet, an initial window of ten packets, and large
/// buffers.
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
    // Poseidon's CUBIC does not implement HyStart, which is optional in the RFC.
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
}

/// Enables step marking on enqueue. Configures RED without averaging, so that it marks all packets at or above the
/// threshold.
inline void SetStepMarking(TrafficControlHelper& control, QueueSize maxSize, uint32_t threshold)
{
    control.SetRootQueueDisc("ns3::RedQueueDisc",
                             "MaxSize",
                             QueueSizeValue(maxSize),
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

/// Installs an endless TCP flow.
inline void InstallFlow(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, uint32_t segment, Time start)
{
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(to).Start(Seconds(0));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, port));
    source.SetAttribute("SendSize", UintegerValue(segment));
    source.Install(from).Start(start);
}

/// Runs the simulation until `stop` and returns the wall-clock time in seconds.
inline double RunUntil(Time stop)
{
    Simulator::Stop(stop);
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace peers
