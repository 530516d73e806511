// Every law decides the same through TcpPoseidonLaw as through the C functions, on random lists of events.
//
//   equality [--lists=100000]
//
// A list has up to 40 events of one socket: ACKs with random state of the socket, with and without telemetry, losses and
// timeouts. The test fills the arguments of the C functions by itself. It compares the arguments and the decisions bit for bit,
// and the window and the pacing that the class sets in the socket.

#include "hop-telemetry.h"
#include "tcp-poseidon-law.h"

#include "ns3/abort.h"
#include "ns3/boolean.h"
#include "ns3/command-line.h"
#include "ns3/simulator.h"
#include "ns3/string.h"

#include <cstring>
#include <iostream>
#include <random>

using namespace ns3;

namespace
{

/// Each number is independent of the standard library's distributions.
class Random
{
  public:
    explicit Random(uint64_t seed)
        : m_engine(seed)
    {
    }

    /// Returns a number below `bound`.
    uint64_t Below(uint64_t bound)
    {
        return m_engine() % bound;
    }

  private:
    std::mt19937_64 m_engine;
};

template <typename T>
T
Sized()
{
    T value = {};
    value.struct_size = sizeof(T);
    return value;
}

/// A list of events for one law.
class Test
{
  public:
    Test(const std::string& name, uint64_t seed)
        : m_name(name),
          m_seed(seed),
          m_random(seed)
    {
        const uint64_t mtus[] = {536, 1448, 8948};
        const uint64_t rates[] = {10'000'000, 10'000'000'000, 400'000'000'000};
        const uint64_t roundTrips[] = {9'900, 94'000, 200'000'000};
        m_path.mtu_bytes = mtus[m_random.Below(3)];
        m_path.line_rate_bps = rates[m_random.Below(3)];
        m_path.base_rtt_ns = roundTrips[m_random.Below(3)];
        m_hasTelemetry = m_random.Below(4) > 0;
        m_signals = POSEIDON_SIGNAL_RTT | POSEIDON_SIGNAL_ECN_ECHO;
        if (m_hasTelemetry)
        {
            m_signals |=
                POSEIDON_SIGNAL_MAX_HOP_DELAY | POSEIDON_SIGNAL_REVERSE_MAX_HOP_DELAY | POSEIDON_SIGNAL_HOP_COUNT;
        }
        m_params = RandomPreset();
    }

    /// Starts the list. Returns false if ns-3 does not supply what the law needs.
    bool Begin()
    {
        if (poseidon_law_init(&m_law, sizeof(m_law), m_name.c_str(), m_params.c_str(), &m_path, m_signals, nullptr) !=
            POSEIDON_OK)
        {
            return false;
        }
        m_tcb = CreateObject<TcpSocketState>();
        m_tcb->m_segmentSize = static_cast<uint32_t>(m_path.mtu_bytes);
        m_seq = static_cast<uint32_t>(m_random.Below(1ull << 32));
        m_ackedSeq = m_seq;
        m_tcb->m_lastAckedSeq = SequenceNumber32(m_seq);
        m_tcb->m_highTxMark = SequenceNumber32(m_seq);
        m_class = CreateObject<TcpPoseidonLaw>();
        m_class->SetAttribute("Law", StringValue(m_name));
        m_class->SetAttribute("Params", StringValue(m_params));
        m_class->SetAttribute("LineRate", DataRateValue(DataRate(m_path.line_rate_bps)));
        m_class->SetAttribute("BaseRtt", TimeValue(NanoSeconds(m_path.base_rtt_ns)));
        m_class->SetAttribute("HopTelemetry", BooleanValue(m_hasTelemetry));
        m_class->AssignStreams(static_cast<int64_t>(m_seed));
        m_class->TraceConnectWithoutContext("Call", MakeCallback(&Test::OnCall, this));
        m_class->Init(m_tcb);
        m_class->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_TX_START);
        Compare("start");
        Simulator::Schedule(NanoSeconds(m_random.Below(1'000'000)), &Test::RunEvent, this);
        return true;
    }

    uint64_t Compared() const
    {
        return m_compared;
    }

  private:
    std::string RandomPreset()
    {
        poseidon_law_info info = Sized<poseidon_law_info>();
        for (uint32_t i = 0; i < poseidon_law_count(); ++i)
        {
            poseidon_law_info_get(i, &info);
            if (std::string(info.name.data, info.name.size) == m_name)
            {
                break;
            }
        }
        poseidon_preset_info preset = Sized<poseidon_preset_info>();
        poseidon_preset_info_get(m_name.c_str(), static_cast<uint32_t>(m_random.Below(info.preset_count)), &preset);
        return "preset=" + std::string(preset.name.data, preset.name.size);
    }

    void OnCall(const PoseidonCall& call)
    {
        if (call.kind == PoseidonCall::ACK)
        {
            m_called = call.ack;
        }
    }

    void RunEvent()
    {
        switch (m_random.Below(16))
        {
        case 0:
            m_class->CongestionStateSet(m_tcb, TcpSocketState::CA_RECOVERY);
            m_lossPending = true;
            break;
        case 1:
            m_class->CongestionStateSet(m_tcb, TcpSocketState::CA_LOSS);
            poseidon_law_on_timeout(&m_law, Now());
            Compare("timeout");
            break;
        case 2: {
            // The socket of an accepted connection is a copy.
            m_class = DynamicCast<TcpPoseidonLaw>(m_class->Fork());
            Compare("copy");
            break;
        }
        default:
            RunAck();
        }
        if (++m_events < 40)
        {
            Simulator::Schedule(NanoSeconds(m_random.Below(100'000)), &Test::RunEvent, this);
        }
    }

    void RunAck()
    {
        const uint64_t mtu = m_path.mtu_bytes;
        TcpRateOps::TcpRateSample sample;
        sample.m_ackedSacked = static_cast<uint32_t>(m_random.Below(4) == 0 ? m_random.Below(65'536) : mtu);
        sample.m_priorInFlight = static_cast<uint32_t>(m_random.Below(64 * mtu));
        const uint32_t advance = static_cast<uint32_t>(m_random.Below(1 << 24));
        const uint32_t flight = static_cast<uint32_t>(m_random.Below(1 << 24));
        m_seq += advance;
        m_ackedSeq += advance;
        m_tcb->m_lastAckedSeq = SequenceNumber32(m_seq);
        m_tcb->m_highTxMark = SequenceNumber32(m_seq + flight);
        const uint64_t smoothed = m_path.base_rtt_ns + m_random.Below(100'000);
        m_tcb->m_lastRtt = NanoSeconds(smoothed);
        bool marked = m_random.Below(4) == 0;
        m_tcb->m_ecnState = marked ? TcpSocketState::ECN_ECE_RCVD : TcpSocketState::ECN_IDLE;

        poseidon_ack ack = Sized<poseidon_ack>();
        ack.now_ns = Now();
        ack.rtt_ns = smoothed;
        ack.bytes = sample.m_ackedSacked;
        ack.packets = static_cast<uint32_t>((ack.bytes + mtu - 1) / mtu);
        ack.acked_seq = m_ackedSeq;
        ack.next_seq = m_ackedSeq + flight;
        poseidon_decision before = Sized<poseidon_decision>();
        poseidon_law_decision(&m_law, &before);
        const uint64_t prior = (sample.m_priorInFlight + mtu - 1) / mtu;
        ack.flags = 2 * prior * POSEIDON_ONE_PACKET < before.window_q24 ? POSEIDON_ACK_APP_LIMITED : 0;
        // An ACK without an echo must not use the previous one.
        HopEcho echo;
        if (m_random.Below(8) > 0)
        {
            marked = AddEcho(echo, ack, marked);
        }
        HopTelemetry::SetDelivered(echo);
        ack.marked_bytes = marked ? std::max<uint64_t>(1, ack.bytes) : 0;
        m_class->CongControl(m_tcb, TcpRateOps::TcpRateConnection(), sample);
        // The class draws the random number. All other fields must be the same, also those that no law in ns-3 reads.
        ack.random = m_called.random;
        NS_ABORT_MSG_UNLESS(std::memcmp(&ack, &m_called, sizeof(ack)) == 0,
                            m_name << " list " << m_seed << ": the class passes another ACK");
        poseidon_law_on_ack(&m_law, &ack);
        if (m_lossPending)
        {
            m_lossPending = false;
            poseidon_loss loss = Sized<poseidon_loss>();
            loss.now_ns = Now();
            poseidon_law_on_loss(&m_law, &loss);
        }
        Compare("ack");
    }

    /// Adds an echo to the packet, and what the law gets of it to the ACK. Returns whether the law gets a mark.
    bool AddEcho(HopEcho& echo, poseidon_ack& ack, bool marked)
    {
        const uint64_t rtt = std::min(ack.now_ns, m_path.base_rtt_ns + m_random.Below(100'000));
        echo.sentAt = NanoSeconds(ack.now_ns - rtt);
        echo.maxDelay = NanoSeconds(m_random.Below(100'000));
        echo.hops = static_cast<uint8_t>(1 + m_random.Below(8));
        echo.marked = m_random.Below(4) == 0;
        echo.reverseMaxDelay = NanoSeconds(m_random.Below(100'000));
        echo.reverseHops = static_cast<uint8_t>(m_random.Below(3));
        if (!m_hasTelemetry)
        {
            return marked;
        }
        ack.rtt_ns = rtt;
        ack.hop_count = echo.hops;
        ack.flags |= POSEIDON_ACK_MAX_HOP_DELAY;
        ack.max_hop_delay_ns = static_cast<uint64_t>(echo.maxDelay.GetNanoSeconds());
        if (echo.reverseHops > 0)
        {
            ack.flags |= POSEIDON_ACK_REVERSE_MAX_HOP_DELAY;
            ack.reverse_max_hop_delay_ns = static_cast<uint64_t>(echo.reverseMaxDelay.GetNanoSeconds());
        }
        return echo.marked;
    }

    void Compare(const char* event)
    {
        poseidon_decision expected = Sized<poseidon_decision>();
        poseidon_law_decision(&m_law, &expected);
        const poseidon_decision& decision = m_class->GetDecision();
        const bool same = decision.window_q24 == expected.window_q24 && decision.pacing == expected.pacing &&
                          decision.gap_ns == expected.gap_ns && decision.rate_bps == expected.rate_bps;
        const uint64_t window = std::max(m_path.mtu_bytes, expected.window_q24 * m_path.mtu_bytes >> 24);
        const bool isPaced = expected.gap_ns > 0 || expected.rate_bps > 0;
        const bool applied = m_tcb->m_cWnd.Get() == std::min<uint64_t>(window, 0xffffffff) && m_tcb->m_pacing == isPaced;
        NS_ABORT_MSG_UNLESS(same && applied, m_name << " list " << m_seed << ": another decision after " << event);
        ++m_compared;
    }

    uint64_t Now() const
    {
        return static_cast<uint64_t>(Simulator::Now().GetNanoSeconds());
    }

    std::string m_name, m_params;
    uint64_t m_seed;
    Random m_random;
    poseidon_path m_path{Sized<poseidon_path>()};
    uint32_t m_signals{0};
    bool m_hasTelemetry{false}, m_lossPending{false};
    poseidon_law m_law;
    Ptr<TcpSocketState> m_tcb;
    Ptr<TcpPoseidonLaw> m_class;
    poseidon_ack m_called;
    uint32_t m_seq{0};
    uint64_t m_ackedSeq{0}, m_compared{0};
    int m_events{0};
};

} // namespace

int
main(int argc, char* argv[])
{
    uint64_t lists = 100'000;
    CommandLine cmd(__FILE__);
    cmd.AddValue("lists", "number of lists per law", lists);
    cmd.Parse(argc, argv);
    for (uint32_t i = 0; i < poseidon_law_count(); ++i)
    {
        poseidon_law_info info = Sized<poseidon_law_info>();
        poseidon_law_info_get(i, &info);
        const std::string name(info.name.data, info.name.size);
        uint64_t ran = 0, compared = 0;
        // Some lists are refused, because the law needs telemetry and the list has none.
        for (uint64_t seed = 0, tries = 0; ran < lists && tries < 4 * lists + 100; ++seed, ++tries)
        {
            Test test(name, seed);
            if (test.Begin())
            {
                Simulator::Run();
                ++ran;
                compared += test.Compared();
            }
            Simulator::Destroy();
        }
        if (ran == 0)
        {
            std::cout << name << ": not in ns-3, which does not supply a signal that it needs" << std::endl;
            continue;
        }
        NS_ABORT_MSG_UNLESS(ran == lists, name << ": only " << ran << " of " << lists << " lists ran");
        std::cout << name << ": " << ran << " lists, " << compared << " decisions, all the same" << std::endl;
    }
    return 0;
}
