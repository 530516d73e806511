// Runs any congestion-control law of libposeidon_laws in ns-3's TCP.
#pragma once

#include "poseidon_laws.h"

#include "ns3/data-rate.h"
#include "ns3/nstime.h"
#include "ns3/random-variable-stream.h"
#include "ns3/sequence-number.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-rate-ops.h"
#include "ns3/tcp-socket-state.h"
#include "ns3/traced-callback.h"

#include <string>

namespace ns3
{

/// A call of the C library and the decision after it.
struct PoseidonCall
{
    enum Kind
    {
        INIT,
        ACK,
        LOSS,
        TIMEOUT
    };

    Kind kind;
    uint64_t nowNs;             ///< For LOSS and TIMEOUT.
    poseidon_ack ack;           ///< For ACK.
    poseidon_path path;         ///< For INIT.
    uint32_t signals;           ///< For INIT.
    poseidon_decision decision; ///< After the call.
};

/// A congestion control whose decisions come from libposeidon_laws.
///
/// The law starts when the socket sends its first data. The class reports every ACK, every entry into fast recovery and every
/// retransmission timeout, and sets the congestion window and the pacing rate.
///
/// ns-3 smooths the round-trip time that it passes to congestion controls. With HopTelemetry on both hosts, the law gets the
/// exact round-trip time from device to device instead, and the marks of each packet.
class TcpPoseidonLaw : public TcpCongestionOps
{
  public:
    static TypeId GetTypeId();
    TcpPoseidonLaw();
    TcpPoseidonLaw(const TcpPoseidonLaw& other);

    std::string GetName() const override;
    void Init(Ptr<TcpSocketState> tcb) override;
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override;
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCongState_t newState) override;
    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override;
    bool HasCongControl() const override;
    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample) override;
    Ptr<TcpCongestionOps> Fork() override;

    /// Assigns a fixed random variable stream and returns the number of streams used.
    int64_t AssignStreams(int64_t stream);
    /// Returns the law's decision after the last call. All zero before the law has started.
    const poseidon_decision& GetDecision() const;

    /// The type of the trace source "Call".
    typedef void (*CallTracedCallback)(const PoseidonCall& call);

  private:
    void Start(Ptr<TcpSocketState> tcb);
    poseidon_ack MakeAck(Ptr<const TcpSocketState> tcb, const TcpRateOps::TcpRateSample& sample);
    void ReportLoss();
    void FinishCall(PoseidonCall& call);
    void Apply(Ptr<TcpSocketState> tcb) const;

    std::string m_lawName;
    std::string m_params;
    DataRate m_lineRate;
    Time m_baseRtt;
    uint32_t m_headerBytes{0};
    bool m_hasTelemetry{false};
    Ptr<UniformRandomVariable> m_random;

    poseidon_law m_law;
    poseidon_decision m_decision;
    bool m_isStarted{false};
    bool m_hasPendingLoss{false};
    /// The payload of a full packet.
    uint32_t m_segmentBytes{0};
    /// The cumulative acknowledgement, in 64 bits.
    uint64_t m_ackedSeq{0};
    SequenceNumber32 m_lastAckedSeq{0};
    TracedCallback<const PoseidonCall&> m_callTrace;
};

} // namespace ns3
