// Records the calls of TcpPoseidonLaw as text. replay.c repeats them.
#pragma once

#include "tcp-poseidon-law.h"

#include <cinttypes>
#include <cstdio>
#include <string>

namespace ns3
{

/// Writes one line per call: the flow, the call with its arguments, and the decision after it.
class CallRecord
{
  public:
    explicit CallRecord(const std::string& path)
        : m_file(std::fopen(path.c_str(), "w"))
    {
        NS_ABORT_MSG_UNLESS(m_file, "cannot write " << path);
    }

    ~CallRecord()
    {
        std::fclose(m_file);
    }

    CallRecord(const CallRecord&) = delete;
    CallRecord& operator=(const CallRecord&) = delete;

    /// Records a new flow. The text ends at the end of the line, so it may contain spaces.
    void AddFlow(uint32_t flow, const std::string& law, const std::string& params)
    {
        std::fprintf(m_file, "flow %" PRIu32 " %s %s\n", flow, law.c_str(), params.c_str());
    }

    /// Records a call.
    static void OnCall(CallRecord* record, uint32_t flow, const PoseidonCall& call)
    {
        record->Write(flow, call);
    }

  private:
    void Write(uint32_t flow, const PoseidonCall& call)
    {
        const poseidon_ack& a = call.ack;
        switch (call.kind)
        {
        case PoseidonCall::INIT:
            std::fprintf(m_file,
                         "init %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32,
                         flow,
                         call.path.mtu_bytes,
                         call.path.line_rate_bps,
                         call.path.base_rtt_ns,
                         call.signals);
            break;
        case PoseidonCall::ACK:
            // Hop records and the time inside the hosts are always zero.
            std::fprintf(m_file,
                         "ack %" PRIu32 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                         " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32,
                         flow,
                         +a.flags,
                         +a.hop_count,
                         a.now_ns,
                         a.rtt_ns,
                         a.bytes,
                         a.marked_bytes,
                         a.acked_seq,
                         a.next_seq,
                         a.max_hop_delay_ns,
                         a.reverse_max_hop_delay_ns,
                         a.packets,
                         a.random);
            break;
        case PoseidonCall::LOSS:
            std::fprintf(m_file, "loss %" PRIu32 " %" PRIu64, flow, call.nowNs);
            break;
        case PoseidonCall::TIMEOUT:
            std::fprintf(m_file, "timeout %" PRIu32 " %" PRIu64, flow, call.nowNs);
            break;
        }
        const poseidon_decision& d = call.decision;
        std::fprintf(m_file,
                     " = %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 "\n",
                     d.window_q24,
                     d.pacing,
                     d.gap_ns,
                     d.rate_bps);
    }

    std::FILE* m_file;
};

} // namespace ns3
