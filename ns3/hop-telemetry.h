// The maximum hop delay of a packet's path, in a packet tag: network devices stamp it, receivers echo it to senders.
#pragma once

#include "ns3/ip-l4-protocol.h"
#include "ns3/ipv4-address.h"
#include "ns3/ipv4-header.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/packet.h"
#include "ns3/tag.h"

#include <cstdint>
#include <map>
#include <tuple>

namespace ns3
{

/// What a receiver reports about the data that an ACK acknowledges.
struct HopEcho
{
    Time sentAt;          ///< When the sender's device began to send the data. Later by the time that the receiver held the ACK.
    Time maxDelay;        ///< The largest queueing delay at any hop on the data path.
    uint8_t hops{0};      ///< The number of switches on the data path. Zero: there is no echo.
    bool marked{false};   ///< Whether the data arrived with a congestion mark (CE).
    Time reverseMaxDelay; ///< The largest queueing delay at any hop on the ACK path. Set when the ACK arrives.
    uint8_t reverseHops{0}; ///< The number of switches on the ACK path. Set when the ACK arrives.
};

/// A packet's telemetry. It adds no bytes to the packet.
class HopTelemetryTag : public Tag
{
  public:
    static TypeId GetTypeId();
    TypeId GetInstanceTypeId() const override;
    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer buffer) const override;
    void Deserialize(TagBuffer buffer) override;
    void Print(std::ostream& os) const override;

    Time sentAt;              ///< When the first device began to send the packet.
    Time arrivedAt{NOT_SENT}; ///< When the packet arrived at the last node, or NOT_SENT before the first device.
    Time maxDelay;            ///< The largest time between arrival and departure at any switch.
    uint8_t hops{0};          ///< The number of switches that the packet has left.
    HopEcho echo;             ///< For the peer.
    Time echoArrivedAt;       ///< When the echoed data arrived.

    static const Time NOT_SENT;
};

/// Adds telemetry to a host's TCP packets and echoes what arrives. Supports IPv4 and point-to-point devices.
///
/// Devices measure from a packet's arrival to the start of its departure. This includes the queue disc and the device's own
/// queue. Call InstallHost after InternetStackHelper::Install, and InstallDevices for both ends of every link.
class HopTelemetry : public Object
{
  public:
    static TypeId GetTypeId();
    /// Makes a host add and echo telemetry.
    static void InstallHost(Ptr<Node> host);
    /// Makes hosts add and echo telemetry.
    static void InstallHosts(const NodeContainer& hosts);
    /// Makes point-to-point devices measure.
    static void InstallDevices(const NetDeviceContainer& devices);
    /// Returns the echo that the packet carries which TCP processes now, or null. Valid during the same event.
    static const HopEcho* GetDelivered();
    /// Sets the echo of the packet that TCP processes next. Called when a packet arrives.
    static void SetDelivered(const HopEcho& echo);

  private:
    /// Local and remote address and port.
    using Connection = std::tuple<Ipv4Address, uint16_t, Ipv4Address, uint16_t>;
    struct PendingEcho
    {
        HopEcho echo;
        Time arrivedAt;
    };

    void OnDeliver(const Ipv4Header& header, Ptr<const Packet> packet, uint32_t interface);
    void Send(Ptr<Packet> packet, Ipv4Address source, Ipv4Address destination, uint8_t protocol, Ptr<Ipv4Route> route);

    IpL4Protocol::DownTargetCallback m_downTarget;
    /// The newest data of each connection that is not acknowledged yet.
    std::map<Connection, PendingEcho> m_pending;
};

} // namespace ns3
