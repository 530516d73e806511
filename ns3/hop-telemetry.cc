#include "hop-telemetry.h"

#include "ns3/abort.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-l4-protocol.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(HopTelemetryTag);
NS_OBJECT_ENSURE_REGISTERED(HopTelemetry);

const Time HopTelemetryTag::NOT_SENT = TimeStep(-1);

TypeId
HopTelemetryTag::GetTypeId()
{
    static TypeId id = TypeId("ns3::HopTelemetryTag").SetParent<Tag>().AddConstructor<HopTelemetryTag>();
    return id;
}

TypeId
HopTelemetryTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint32_t
HopTelemetryTag::GetSerializedSize() const
{
    return 6 * 8 + 3;
}

void
HopTelemetryTag::Serialize(TagBuffer buffer) const
{
    for (const Time& time : {sentAt, arrivedAt, maxDelay, echo.sentAt, echo.maxDelay, echoArrivedAt})
    {
        buffer.WriteU64(static_cast<uint64_t>(time.GetTimeStep()));
    }
    buffer.WriteU8(hops);
    buffer.WriteU8(echo.hops);
    buffer.WriteU8(echo.marked ? 1 : 0);
}

void
HopTelemetryTag::Deserialize(TagBuffer buffer)
{
    for (Time* time : {&sentAt, &arrivedAt, &maxDelay, &echo.sentAt, &echo.maxDelay, &echoArrivedAt})
    {
        *time = TimeStep(static_cast<int64_t>(buffer.ReadU64()));
    }
    hops = buffer.ReadU8();
    echo.hops = buffer.ReadU8();
    echo.marked = buffer.ReadU8() != 0;
}

void
HopTelemetryTag::Print(std::ostream& os) const
{
    os << "hops=" << +hops << " maxDelay=" << maxDelay << " echoHops=" << +echo.hops << " echoMaxDelay=" << echo.maxDelay;
}

namespace
{

/// Replaces a packet's tag. Trace sources pass const packets, but tags do not change a packet's bytes.
void
ReplaceTag(Ptr<const Packet> packet, HopTelemetryTag& tag)
{
    ConstCast<Packet>(packet)->ReplacePacketTag(tag);
}

/// A device begins to send a packet.
void
OnSendBegin(Ptr<const Packet> packet)
{
    HopTelemetryTag tag;
    if (!packet->PeekPacketTag(tag))
    {
        return;
    }
    const Time now = Simulator::Now();
    if (tag.arrivedAt == HopTelemetryTag::NOT_SENT)
    {
        tag.sentAt = now;
        // The round-trip time does not include the time that the receiver held the ACK.
        tag.echo.sentAt += now - tag.echoArrivedAt;
    }
    else
    {
        tag.maxDelay = std::max(tag.maxDelay, now - tag.arrivedAt);
        tag.hops = static_cast<uint8_t>(std::min(tag.hops + 1, 255));
    }
    ReplaceTag(packet, tag);
}

/// A device has received a packet.
void
OnReceiveEnd(Ptr<const Packet> packet)
{
    HopTelemetryTag tag;
    if (packet->PeekPacketTag(tag))
    {
        tag.arrivedAt = Simulator::Now();
        ReplaceTag(packet, tag);
    }
}

/// The echo of the packet that a host processes, and the event to which it belongs. Simulations have one thread.
struct Delivered
{
    HopEcho echo;
    Time time{HopTelemetryTag::NOT_SENT};
    uint32_t context{0};
};

Delivered g_delivered;

} // namespace

TypeId
HopTelemetry::GetTypeId()
{
    static TypeId id = TypeId("ns3::HopTelemetry").SetParent<Object>().AddConstructor<HopTelemetry>();
    return id;
}

void
HopTelemetry::InstallHost(Ptr<Node> host)
{
    NS_ABORT_MSG_IF(host->GetObject<HopTelemetry>(), "node " << host->GetId() << " has HopTelemetry already");
    Ptr<TcpL4Protocol> tcp = host->GetObject<TcpL4Protocol>();
    Ptr<Ipv4L3Protocol> ip = host->GetObject<Ipv4L3Protocol>();
    NS_ABORT_MSG_UNLESS(tcp && ip,
                        "node " << host->GetId() << " has no TCP over IPv4: call InternetStackHelper::Install before HopTelemetry");
    Ptr<HopTelemetry> telemetry = CreateObject<HopTelemetry>();
    host->AggregateObject(telemetry);
    telemetry->m_downTarget = tcp->GetDownTarget();
    tcp->SetDownTarget(MakeCallback(&HopTelemetry::Send, telemetry));
    ip->TraceConnectWithoutContext("LocalDeliver", MakeCallback(&HopTelemetry::OnDeliver, telemetry));
}

void
HopTelemetry::InstallHosts(const NodeContainer& hosts)
{
    for (uint32_t i = 0; i < hosts.GetN(); ++i)
    {
        InstallHost(hosts.Get(i));
    }
}

void
HopTelemetry::InstallDevices(const NetDeviceContainer& devices)
{
    for (uint32_t i = 0; i < devices.GetN(); ++i)
    {
        NS_ABORT_MSG_UNLESS(DynamicCast<PointToPointNetDevice>(devices.Get(i)),
                            "HopTelemetry supports only point-to-point devices");
        devices.Get(i)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&OnSendBegin));
        devices.Get(i)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&OnReceiveEnd));
    }
}

const HopEcho*
HopTelemetry::GetDelivered()
{
    const bool isCurrent = g_delivered.time == Simulator::Now() && g_delivered.context == Simulator::GetContext();
    return isCurrent && g_delivered.echo.hops > 0 ? &g_delivered.echo : nullptr;
}

void
HopTelemetry::SetDelivered(const HopEcho& echo)
{
    g_delivered.echo = echo;
    g_delivered.time = Simulator::Now();
    g_delivered.context = Simulator::GetContext();
}

void
HopTelemetry::OnDeliver(const Ipv4Header& header, Ptr<const Packet> packet, uint32_t)
{
    if (header.GetProtocol() != TcpL4Protocol::PROT_NUMBER)
    {
        return;
    }
    HopTelemetryTag tag;
    const bool hasTag = packet->PeekPacketTag(tag);
    // Without a tag, this ends the previous packet's echo.
    HopEcho echo = hasTag ? tag.echo : HopEcho();
    echo.reverseMaxDelay = tag.maxDelay;
    echo.reverseHops = tag.hops;
    SetDelivered(echo);
    TcpHeader tcp;
    const uint32_t headerBytes = packet->PeekHeader(tcp);
    if (!hasTag || packet->GetSize() <= headerBytes)
    {
        return;
    }
    const Connection connection{header.GetDestination(), tcp.GetDestinationPort(), header.GetSource(), tcp.GetSourcePort()};
    PendingEcho& pending = m_pending[connection];
    // A delayed ACK reports any mark, and otherwise the newest packet.
    const bool marked = pending.echo.marked || header.GetEcn() == Ipv4Header::ECN_CE;
    pending = {{tag.sentAt, tag.maxDelay, tag.hops, marked, Time(), 0}, tag.arrivedAt};
}

void
HopTelemetry::Send(Ptr<Packet> packet, Ipv4Address source, Ipv4Address destination, uint8_t protocol, Ptr<Ipv4Route> route)
{
    TcpHeader tcp;
    packet->PeekHeader(tcp);
    HopTelemetryTag tag;
    const auto pending = m_pending.find({source, tcp.GetSourcePort(), destination, tcp.GetDestinationPort()});
    if (pending != m_pending.end())
    {
        tag.echo = pending->second.echo;
        tag.echoArrivedAt = pending->second.arrivedAt;
        m_pending.erase(pending);
    }
    ReplaceTag(packet, tag);
    m_downTarget(packet, source, destination, protocol, route);
}

} // namespace ns3
