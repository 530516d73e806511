#include "tcp-poseidon-law.h"

#include "hop-telemetry.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <limits>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpPoseidonLaw");
NS_OBJECT_ENSURE_REGISTERED(TcpPoseidonLaw);

namespace
{

/// Aborts if the library refuses a call. The class passes only valid arguments after the start.
void
RequireOk(poseidon_status status)
{
    NS_ABORT_MSG_IF(status < 0, "libposeidon_laws: " << poseidon_error_text(status));
}

/// A struct of the library, zero but for its size.
template <typename T>
T
Sized()
{
    T value = {};
    value.struct_size = sizeof(T);
    return value;
}

uint64_t
ToNanoseconds(Time time)
{
    return static_cast<uint64_t>(std::max<int64_t>(0, time.GetNanoSeconds()));
}

} // namespace

TypeId
TcpPoseidonLaw::GetTypeId()
{
    static TypeId id =
        TypeId("ns3::TcpPoseidonLaw")
            .SetParent<TcpCongestionOps>()
            .SetGroupName("Internet")
            .AddConstructor<TcpPoseidonLaw>()
            .AddAttribute("Law",
                          "The law's name, as in the list of poseidon_law_info_get",
                          StringValue("poseidon"),
                          MakeStringAccessor(&TcpPoseidonLaw::m_lawName),
                          MakeStringChecker())
            .AddAttribute("Params",
                          "The law's parameters: name=value, separated by commas",
                          StringValue(""),
                          MakeStringAccessor(&TcpPoseidonLaw::m_params),
                          MakeStringChecker())
            .AddAttribute("LineRate",
                          "The sender's line rate. Required",
                          DataRateValue(DataRate(0)),
                          MakeDataRateAccessor(&TcpPoseidonLaw::m_lineRate),
                          MakeDataRateChecker())
            .AddAttribute("BaseRtt",
                          "The round-trip time of the unloaded path. Required",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&TcpPoseidonLaw::m_baseRtt),
                          MakeTimeChecker())
            .AddAttribute("HeaderBytes",
                          "The headers of a packet on the wire. Laws pace wire bytes, ns-3 paces payload",
                          UintegerValue(54),
                          MakeUintegerAccessor(&TcpPoseidonLaw::m_headerBytes),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("HopTelemetry",
                          "Whether HopTelemetry is installed on the path. Laws that need the maximum hop delay require it",
                          BooleanValue(false),
                          MakeBooleanAccessor(&TcpPoseidonLaw::m_hasTelemetry),
                          MakeBooleanChecker())
            .AddTraceSource("Call",
                            "A call of libposeidon_laws and the decision after it",
                            MakeTraceSourceAccessor(&TcpPoseidonLaw::m_callTrace),
                            "ns3::TcpPoseidonLaw::CallTracedCallback");
    return id;
}

TcpPoseidonLaw::TcpPoseidonLaw()
    : m_random(CreateObject<UniformRandomVariable>()),
      m_law(),
      m_decision(Sized<poseidon_decision>())
{
}

// A law's state has no pointers, so it can be copied.
TcpPoseidonLaw::TcpPoseidonLaw(const TcpPoseidonLaw& other) = default;

std::string
TcpPoseidonLaw::GetName() const
{
    return "TcpPoseidonLaw";
}

void
TcpPoseidonLaw::Init(Ptr<TcpSocketState> tcb)
{
    // Receivers echo the mark of each packet, as for DCTCP.
    tcb->m_ecnMode = TcpSocketState::DctcpEcn;
}

void
TcpPoseidonLaw::Start(Ptr<TcpSocketState> tcb)
{
    NS_ABORT_MSG_IF(m_lineRate.GetBitRate() == 0 || !m_baseRtt.IsStrictlyPositive(),
                    "ns3::TcpPoseidonLaw: set the attributes LineRate and BaseRtt: the sender's link rate and the "
                    "round-trip time of the unloaded path");
    m_segmentBytes = tcb->m_segmentSize;
    m_lastAckedSeq = tcb->m_lastAckedSeq;
    m_ackedSeq = m_lastAckedSeq.GetValue();
    PoseidonCall call = {};
    call.kind = PoseidonCall::INIT;
    call.path = Sized<poseidon_path>();
    call.path.mtu_bytes = m_segmentBytes;
    call.path.line_rate_bps = m_lineRate.GetBitRate();
    call.path.base_rtt_ns = ToNanoseconds(m_baseRtt);
    call.signals = POSEIDON_SIGNAL_RTT | POSEIDON_SIGNAL_ECN_ECHO;
    if (m_hasTelemetry)
    {
        call.signals |= POSEIDON_SIGNAL_MAX_HOP_DELAY | POSEIDON_SIGNAL_REVERSE_MAX_HOP_DELAY | POSEIDON_SIGNAL_HOP_COUNT;
    }
    poseidon_error error = Sized<poseidon_error>();
    const poseidon_status status =
        poseidon_law_init(&m_law, sizeof(m_law), m_lawName.c_str(), m_params.c_str(), &call.path, call.signals, &error);
    NS_ABORT_MSG_IF(status < 0,
                    "ns3::TcpPoseidonLaw: " << error.message
                                            << (status == POSEIDON_ERROR_MISSING_SIGNALS && !m_hasTelemetry
                                                    ? "; install HopTelemetry and set the attribute HopTelemetry"
                                                    : ""));
    m_isStarted = true;
    FinishCall(call);
}

uint32_t
TcpPoseidonLaw::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t)
{
    // ns-3 does not use it with CongControl. It must not be below two segments.
    return std::max(2 * tcb->m_segmentSize, tcb->m_cWnd.Get());
}

void
TcpPoseidonLaw::IncreaseWindow(Ptr<TcpSocketState>, uint32_t)
{
    // CongControl sets the window.
}

void
TcpPoseidonLaw::CongestionStateSet(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCongState_t newState)
{
    if (!m_isStarted)
    {
        return;
    }
    if (newState == TcpSocketState::CA_RECOVERY)
    {
        // ns-3 processes the ACK that revealed the loss first, and calls CongControl at the end. Laws get the ACK first.
        m_hasPendingLoss = true;
    }
    else if (newState == TcpSocketState::CA_LOSS)
    {
        PoseidonCall call = {};
        call.kind = PoseidonCall::TIMEOUT;
        call.nowNs = ToNanoseconds(Simulator::Now());
        RequireOk(poseidon_law_on_timeout(&m_law, call.nowNs));
        FinishCall(call);
        Apply(tcb);
    }
}

void
TcpPoseidonLaw::CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event)
{
    if (event == TcpSocketState::CA_EVENT_TX_START && !m_isStarted)
    {
        Start(tcb);
        Apply(tcb);
    }
    else if (event == TcpSocketState::CA_EVENT_ECN_NO_CE && tcb->m_ecnMode == TcpSocketState::DctcpEcn &&
             (tcb->m_ecnState == TcpSocketState::ECN_CE_RCVD || tcb->m_ecnState == TcpSocketState::ECN_SENDING_ECE))
    {
        // The receiver of an unmarked packet echoes no mark.
        tcb->m_ecnState = TcpSocketState::ECN_IDLE;
    }
}

bool
TcpPoseidonLaw::HasCongControl() const
{
    return true;
}

poseidon_ack
TcpPoseidonLaw::MakeAck(Ptr<const TcpSocketState> tcb, const TcpRateOps::TcpRateSample& sample)
{
    // Sequence numbers of TCP have 32 bits.
    m_ackedSeq += static_cast<uint64_t>(static_cast<int64_t>(tcb->m_lastAckedSeq - m_lastAckedSeq));
    m_lastAckedSeq = tcb->m_lastAckedSeq;
    const uint64_t priorPackets = (sample.m_priorInFlight + m_segmentBytes - 1) / m_segmentBytes;

    poseidon_ack ack = Sized<poseidon_ack>();
    ack.now_ns = ToNanoseconds(Simulator::Now());
    ack.rtt_ns = ToNanoseconds(tcb->m_lastRtt.Get());
    ack.bytes = sample.m_ackedSacked;
    ack.packets = (sample.m_ackedSacked + m_segmentBytes - 1) / m_segmentBytes;
    ack.acked_seq = m_ackedSeq;
    ack.next_seq = m_ackedSeq + static_cast<uint64_t>(static_cast<int64_t>(tcb->m_highTxMark.Get() - m_lastAckedSeq));
    ack.random = m_random->GetInteger(0, std::numeric_limits<uint32_t>::max());
    if (2 * priorPackets * POSEIDON_ONE_PACKET < m_decision.window_q24)
    {
        ack.flags |= POSEIDON_ACK_APP_LIMITED;
    }
    bool marked = tcb->m_ecnState == TcpSocketState::ECN_ECE_RCVD;
    const HopEcho* echo = m_hasTelemetry ? HopTelemetry::GetDelivered() : nullptr;
    if (echo)
    {
        marked = echo->marked;
        ack.rtt_ns = ToNanoseconds(Simulator::Now() - echo->sentAt);
        ack.hop_count = echo->hops;
        ack.flags |= POSEIDON_ACK_MAX_HOP_DELAY;
        ack.max_hop_delay_ns = ToNanoseconds(echo->maxDelay);
        if (echo->reverseHops > 0)
        {
            ack.flags |= POSEIDON_ACK_REVERSE_MAX_HOP_DELAY;
            ack.reverse_max_hop_delay_ns = ToNanoseconds(echo->reverseMaxDelay);
        }
    }
    ack.marked_bytes = marked ? std::max<uint64_t>(1, ack.bytes) : 0;
    return ack;
}

void
TcpPoseidonLaw::CongControl(Ptr<TcpSocketState> tcb,
                            const TcpRateOps::TcpRateConnection&,
                            const TcpRateOps::TcpRateSample& sample)
{
    if (!m_isStarted)
    {
        return;
    }
    PoseidonCall call = {};
    call.kind = PoseidonCall::ACK;
    call.ack = MakeAck(tcb, sample);
    RequireOk(poseidon_law_on_ack(&m_law, &call.ack));
    FinishCall(call);
    if (m_hasPendingLoss)
    {
        m_hasPendingLoss = false;
        ReportLoss();
    }
    Apply(tcb);
}

void
TcpPoseidonLaw::ReportLoss()
{
    PoseidonCall call = {};
    call.kind = PoseidonCall::LOSS;
    call.nowNs = ToNanoseconds(Simulator::Now());
    poseidon_loss loss = Sized<poseidon_loss>();
    loss.now_ns = call.nowNs;
    RequireOk(poseidon_law_on_loss(&m_law, &loss));
    FinishCall(call);
}

void
TcpPoseidonLaw::FinishCall(PoseidonCall& call)
{
    RequireOk(poseidon_law_decision(&m_law, &m_decision));
    call.decision = m_decision;
    m_callTrace(call);
}

void
TcpPoseidonLaw::Apply(Ptr<TcpSocketState> tcb) const
{
    // At most 2^15 packets of 2^16 bytes. ns-3 cannot send below one segment: then, pacing alone sets the rate.
    const uint64_t window = (m_decision.window_q24 * m_segmentBytes) / POSEIDON_ONE_PACKET;
    const uint64_t limit = std::numeric_limits<uint32_t>::max();
    tcb->m_cWnd = static_cast<uint32_t>(std::min(limit, std::max<uint64_t>(window, m_segmentBytes)));
    tcb->m_cWndInfl = tcb->m_cWnd;
    double payloadRate = 0;
    if (m_decision.pacing == POSEIDON_PACING_GAP && m_decision.gap_ns > 0)
    {
        payloadRate = m_segmentBytes * 8e9 / static_cast<double>(m_decision.gap_ns);
    }
    else if (m_decision.pacing == POSEIDON_PACING_RATE)
    {
        payloadRate = static_cast<double>(m_decision.rate_bps) * m_segmentBytes / (m_segmentBytes + m_headerBytes);
    }
    tcb->m_pacing = payloadRate > 0;
    if (tcb->m_pacing)
    {
        tcb->m_pacingRate = DataRate(static_cast<uint64_t>(std::clamp(payloadRate, 1.0, 1e18)));
    }
}

Ptr<TcpCongestionOps>
TcpPoseidonLaw::Fork()
{
    return CopyObject<TcpPoseidonLaw>(this);
}

int64_t
TcpPoseidonLaw::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

const poseidon_decision&
TcpPoseidonLaw::GetDecision() const
{
    return m_decision;
}

} // namespace ns3
