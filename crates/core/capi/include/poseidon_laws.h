/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libposeidon_laws: congestion-control laws and telemetry formats.
 *
 * cbindgen generates this file from crates/core/capi. Do not edit it. */

#ifndef POSEIDON_LAWS_H
#define POSEIDON_LAWS_H

#include <stddef.h>
#include <stdint.h>
/* Rules of this interface
 *
 * - The caller owns all memory. The library allocates nothing, keeps no pointer and has no global state.
 * - Functions return POSEIDON_OK (0) or a value above zero on success, and a negative POSEIDON_ERROR_... otherwise.
 *   A function that fails changes nothing, except that it fills a poseidon_error that the caller passes.
 * - Structs that begin with struct_size: set it to sizeof(the struct) and all unused bytes to zero. New versions of the
 *   library add fields at the end, in which zero means the old behaviour. An older program works with a newer library,
 *   and a newer program works with an older library as long as the fields that the library does not know are zero.
 * - A flow's state may be moved or copied with memcpy. It contains no pointers.
 * - Functions are thread-compatible: one thread at a time may use one flow's state.
 * - Text that the library returns is a poseidon_text, which is not terminated by zero. It is valid forever. */


/**
 * Target: falls by the same amount for each doubling of the rate (Eq. 3 of the paper). The default.
 */
#define POSEIDON_TARGET_LOG 0

/**
 * Target: falls as 1/sqrt(rate) (Eq. 18).
 */
#define POSEIDON_TARGET_INV_SQRT_RATE 1

/**
 * Target: falls as 1/sqrt(window) (the counterexample of Fig. 23).
 */
#define POSEIDON_TARGET_INV_SQRT_WINDOW 2

/**
 * Target: the same for every rate (the ablation of Fig. 21a).
 */
#define POSEIDON_TARGET_FIXED 3

/**
 * Update: exponential in the distance between target and delay (Eq. 4). The default.
 */
#define POSEIDON_UPDATE_DISTANCE 0

/**
 * Update: the window is multiplied by (T + m)/(delay + m) (Eq. 13).
 */
#define POSEIDON_UPDATE_RATIO 1

/**
 * Update: one packet per round trip up, Eq. 4 down (the ablation of Fig. 21a).
 */
#define POSEIDON_UPDATE_AIMD 2

/**
 * Update: Eq. 4 with smaller steps below two packets per round trip. Not in the paper.
 */
#define POSEIDON_UPDATE_STEADY 3

/**
 * Delay: the largest at any hop on the data path. The default.
 */
#define POSEIDON_DELAY_MAX_HOP 0

/**
 * Delay: the queueing delay of the whole round trip.
 */
#define POSEIDON_DELAY_RTT 1

/**
 * Delay: the larger of the worst reported hop delay and the delay that no hop reported (section 4.1).
 */
#define POSEIDON_DELAY_BROWNFIELD 2

/**
 * The version of this interface. It increases by one with each addition. An incompatible change also changes the
 * library's soname.
 */
#define POSEIDON_ABI_VERSION 2

/**
 * The size of poseidon_law. The state needs less: see poseidon_law_size.
 */
#define POSEIDON_LAW_SIZE 512

/**
 * An alignment that is always sufficient for poseidon_law and poseidon_flow.
 */
#define POSEIDON_LAW_ALIGN 8

/**
 * The size of poseidon_flow.
 */
#define POSEIDON_FLOW_SIZE 80

/**
 * The largest number of hop records that an ACK can carry.
 */
#define POSEIDON_MAX_HOPS 8

/**
 * The longest text that the library reads, in bytes, without the zero byte at its end.
 */
#define POSEIDON_MAX_TEXT 4096

/**
 * One packet, in the unit of windows: windows have 24 fractional bits.
 */
#define POSEIDON_ONE_PACKET 16777216

/**
 * The number 1, in the unit of gains and factors: they have 32 fractional bits.
 */
#define POSEIDON_ONE 4294967296

/**
 * Signal: the round-trip time of each ACK, from NIC to NIC, without the receiver's processing time.
 */
#define POSEIDON_SIGNAL_RTT 1

/**
 * Signal: the number of acknowledged bytes that carried a congestion mark.
 */
#define POSEIDON_SIGNAL_ECN_ECHO 2

/**
 * Signal: the largest queueing delay at any hop on the data path.
 */
#define POSEIDON_SIGNAL_MAX_HOP_DELAY 4

/**
 * Signal: the largest queueing delay at any hop on the ACK path.
 */
#define POSEIDON_SIGNAL_REVERSE_MAX_HOP_DELAY 8

/**
 * Signal: one record per hop on the data path.
 */
#define POSEIDON_SIGNAL_HOP_RECORDS 16

/**
 * Signal: the time spent inside the two hosts.
 */
#define POSEIDON_SIGNAL_ENDPOINT_DELAY 32

/**
 * Signal: the number of switches on the data path.
 */
#define POSEIDON_SIGNAL_HOP_COUNT 64

/**
 * Signal: whether the optical circuit to the destination is up.
 */
#define POSEIDON_SIGNAL_CIRCUIT_STATE 128

/**
 * Flag of poseidon_ack: max_hop_delay_ns is known. Without this flag, the law ignores the field.
 */
#define POSEIDON_ACK_MAX_HOP_DELAY 1

/**
 * Flag of poseidon_ack: reverse_max_hop_delay_ns is known.
 */
#define POSEIDON_ACK_REVERSE_MAX_HOP_DELAY 2

/**
 * Flag of poseidon_ack: the circuit to the destination is up.
 */
#define POSEIDON_ACK_CIRCUIT_UP 4

/**
 * Flag of poseidon_ack: the flow is application-limited. Less than half of the window was in flight.
 */
#define POSEIDON_ACK_APP_LIMITED 8

/**
 * Flag of poseidon_ack: rtt_ns may belong to another transmission of the packet, as after a retransmission (Karn's
 * rule).
 */
#define POSEIDON_ACK_RTT_AMBIGUOUS 16

/**
 * Flag of poseidon_trim: the last switch before the receiver trimmed the packet.
 */
#define POSEIDON_TRIM_LAST_HOP 1

/**
 * Flag of poseidon_trim: rtt_ns is known. Without this flag, the law ignores the field.
 */
#define POSEIDON_TRIM_RTT 2

/**
 * Pacing: none. ACKs clock the flow.
 */
#define POSEIDON_PACING_OFF 0

/**
 * Pacing: gap_ns is the time between the starts of two consecutive packets. If the decision changes while the host
 * waits, the new gap applies, measured from the last send.
 */
#define POSEIDON_PACING_GAP 1

/**
 * Pacing: rate_bps is the largest sending rate.
 */
#define POSEIDON_PACING_RATE 2

/**
 * The step of the delay codes is 2^8 = 256 ns: pass this as step_log2. Slow links need a larger step, which both ends
 * and all switches must share.
 */
#define POSEIDON_STEP_LOG2 8

/**
 * Checksum kind: IPv4, TCP and ICMP.
 */
#define POSEIDON_CHECKSUM_INTERNET 0

/**
 * Checksum kind: UDP. Zero means "no checksum" and stays zero.
 */
#define POSEIDON_CHECKSUM_UDP 1

/**
 * The size of the paper's header.
 */
#define POSEIDON_BARE16_BYTES 2

/**
 * The suggested UDP destination port of packets with a shim.
 */
#define POSEIDON_SHIM_UDP_PORT 65053

/**
 * The size of a shim.
 */
#define POSEIDON_SHIM_BYTES 4

/**
 * The size of a reflection block.
 */
#define POSEIDON_REFLECTION_BYTES 4

/**
 * Flag of shim and reflection block: a hop that supports telemetry could not measure its delay.
 */
#define POSEIDON_SHIM_INCOMPLETE 1

/**
 * Flag of shim and reflection block: hops must not update the shim.
 */
#define POSEIDON_SHIM_FROZEN 2

/**
 * Flag of shim and reflection block: the sender requests path coverage.
 */
#define POSEIDON_SHIM_WANTS_COVERAGE 4

/**
 * Coverage: no hop measured its delay. The sender relies on the end-to-end delay alone.
 */
#define POSEIDON_COVERAGE_NONE 0

/**
 * Coverage: some hops measured their delay.
 */
#define POSEIDON_COVERAGE_PARTIAL 1

/**
 * Coverage: all hops measured their delay.
 */
#define POSEIDON_COVERAGE_FULL 2

/**
 * Coverage: unknown, because the counts are saturated or contradict each other.
 */
#define POSEIDON_COVERAGE_UNKNOWN 3

/**
 * The size of a TCP option.
 */
#define POSEIDON_TCP_OPTION_BYTES 8

/**
 * The TCP option's kind: 253 is reserved for experiments (RFC 6994).
 */
#define POSEIDON_TCP_OPTION_KIND 253

/**
 * The TCP option's experiment identifier.
 */
#define POSEIDON_TCP_OPTION_EXID 20563

/**
 * The result of a function: zero or more on success, a negative error code otherwise.
 */
typedef int32_t poseidon_status;

/**
 * Poseidon's parameters as numbers. Start with poseidon_flow_params_default and change what differs.
 *
 * Factors and gains have 32 fractional bits: POSEIDON_ONE is 1. Windows have 24: POSEIDON_ONE_PACKET is one packet.
 */
typedef struct poseidon_flow_params {
    /**
     * sizeof(poseidon_flow_params).
     */
    uint32_t struct_size;
    /**
     * The number of consecutive timeouts after which the window resets to the smallest: 1 to 255.
     */
    uint32_t reset_after;
    /**
     * p: the range of the target between max_rate and min_rate: 2 us to 1 s.
     */
    uint64_t target_range_ns;
    /**
     * k: the smallest target, used at max_rate and above: 1 ns to 1 s.
     */
    uint64_t target_floor_ns;
    /**
     * m: the share of the logarithmic distance to the fair rate that a round trip covers: 0.001 to 2.
     */
    uint64_t step_q32;
    /**
     * The rate at which the target is largest: above zero, at most a quarter of max_rate.
     */
    uint64_t min_rate_bps;
    /**
     * The rate at which the target is smallest: the line rate of the fabric's fastest NIC. The same for all flows.
     */
    uint64_t max_rate_bps;
    /**
     * The strongest cut: 0.01 to 0.99.
     */
    uint64_t min_decrease_q32;
    /**
     * The largest growth per window: 1.01 to 16.
     */
    uint64_t max_increase_q32;
    /**
     * The initial window: between the smallest and the largest window.
     */
    uint64_t initial_window_q24;
    /**
     * The smallest window: 0.001 to 1 packets.
     */
    uint64_t min_window_q24;
    /**
     * The largest window: 1 to 32768 packets, whole.
     */
    uint64_t max_window_q24;
    /**
     * The target of POSEIDON_TARGET_FIXED: 1 ns to 1 s.
     */
    uint64_t fixed_target_ns;
    /**
     * The network-wide round-trip time of POSEIDON_TARGET_INV_SQRT_WINDOW: 1 ns to 4.29 s.
     */
    uint64_t window_rtt_ns;
    /**
     * The m of POSEIDON_UPDATE_RATIO: at most 1 s.
     */
    uint64_t ratio_delay_ns;
    /**
     * One of the POSEIDON_TARGET_... constants.
     */
    uint8_t target;
    /**
     * One of the POSEIDON_UPDATE_... constants.
     */
    uint8_t update;
    /**
     * One of the POSEIDON_DELAY_... constants.
     */
    uint8_t delay;
    /**
     * 1 to follow Alg. 1 of the paper literally, else 0.
     */
    uint8_t strict_paper;
    /**
     * Zero.
     */
    uint32_t reserved;
} poseidon_flow_params;

/**
 * Memory for the state of one flow that Poseidon controls.
 */
typedef struct poseidon_flow {
    /**
     * Only the library reads and writes this.
     */
    uint64_t opaque[10];
} poseidon_flow;

/**
 * The properties of a path that are known when the flow starts.
 */
typedef struct poseidon_path {
    /**
     * sizeof(poseidon_path).
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * The payload of a full packet: 1 to 65535. Windows count packets of this size.
     */
    uint64_t mtu_bytes;
    /**
     * The sender's line rate, at least 1 Mbit/s.
     */
    uint64_t line_rate_bps;
    /**
     * The configured round-trip time of the unloaded path: 1 ns to 4.29 s.
     */
    uint64_t base_rtt_ns;
} poseidon_path;

/**
 * What was wrong, for a person who reads a log. Pass null to functions that take it if only the code matters.
 */
typedef struct poseidon_error {
    /**
     * sizeof(poseidon_error).
     */
    uint32_t struct_size;
    /**
     * The code that the function also returns.
     */
    poseidon_status code;
    /**
     * The first byte of the parameters that caused the error.
     */
    uint32_t position;
    /**
     * The number of bytes of the parameters that caused the error. Zero if the parameters did not cause it.
     */
    uint32_t length;
    /**
     * The cause and the remedy, terminated by zero. A longer message is cut.
     */
    char message[240];
} poseidon_error;

/**
 * The state of a hop's egress port when a packet leaves it.
 */
typedef struct poseidon_hop {
    /**
     * The dequeue time on the hop's clock. Only timestamps of the same hop are compared.
     */
    uint64_t timestamp_ns;
    /**
     * The number of bytes that the port has sent, without this packet.
     */
    uint64_t sent_bytes;
    /**
     * The port's queue, without this packet.
     */
    uint64_t queue_bytes;
    /**
     * The port's line rate.
     */
    uint64_t rate_bps;
} poseidon_hop;

/**
 * An ACK and the signals that it carries. Fields of signals that the host does not supply are zero.
 */
typedef struct poseidon_ack {
    /**
     * sizeof(poseidon_ack).
     */
    uint32_t struct_size;
    /**
     * POSEIDON_ACK_... flags.
     */
    uint16_t flags;
    /**
     * The number of switches on the data path.
     */
    uint8_t hop_count;
    /**
     * Zero.
     */
    uint8_t reserved;
    /**
     * When the ACK arrived, on the host's clock.
     */
    uint64_t now_ns;
    /**
     * The raw NIC-to-NIC round-trip time of the acknowledged packet, without the receiver's processing time.
     */
    uint64_t rtt_ns;
    /**
     * The number of newly acknowledged bytes.
     */
    uint64_t bytes;
    /**
     * The newly acknowledged bytes that carried a congestion mark.
     */
    uint64_t marked_bytes;
    /**
     * The cumulative acknowledgement: all bytes before this sequence number are acknowledged.
     */
    uint64_t acked_seq;
    /**
     * The sequence number of the next new byte to send. Laws use it to detect the end of a round trip.
     */
    uint64_t next_seq;
    /**
     * The largest queueing delay at any hop on the data path, if the flag says that it is known.
     */
    uint64_t max_hop_delay_ns;
    /**
     * The largest queueing delay at any hop on the ACK path, if the flag says that it is known.
     */
    uint64_t reverse_max_hop_delay_ns;
    /**
     * The time spent inside the two hosts.
     */
    uint64_t endpoint_delay_ns;
    /**
     * One record per hop on the data path, first hop first. Null without such telemetry. Read only during the call.
     */
    const struct poseidon_hop *hops;
    /**
     * The number of records, at most POSEIDON_MAX_HOPS.
     */
    size_t hop_record_count;
    /**
     * The modulus of timestamp_ns in the records. Zero means 2^64.
     */
    uint64_t hop_wrap_timestamp_ns;
    /**
     * The modulus of sent_bytes in the records. Zero means 2^64.
     */
    uint64_t hop_wrap_sent_bytes;
    /**
     * The number of newly acknowledged packets. Zero for a duplicate ACK.
     */
    uint32_t packets;
    /**
     * A uniformly distributed random number, drawn for each ACK.
     */
    uint32_t random;
    /**
     * The bytes in flight after this ACK, without headers.
     */
    uint64_t in_flight_bytes;
} poseidon_ack;

/**
 * A packet loss that starts fast recovery.
 */
typedef struct poseidon_loss {
    /**
     * sizeof(poseidon_loss).
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * When the host detected the loss.
     */
    uint64_t now_ns;
} poseidon_loss;

/**
 * How much the host may send, and how fast.
 */
typedef struct poseidon_decision {
    /**
     * sizeof(poseidon_decision).
     */
    uint32_t struct_size;
    /**
     * One of the POSEIDON_PACING_... constants.
     */
    uint32_t pacing;
    /**
     * How much may be in flight, in packets with 24 fractional bits: never zero, at most 2^15 packets. Below one
     * packet (POSEIDON_ONE_PACKET), at most one packet is in flight and the pacing sets the spacing.
     */
    uint64_t window_q24;
    /**
     * The gap, or zero.
     */
    uint64_t gap_ns;
    /**
     * The rate, or zero.
     */
    uint64_t rate_bps;
} poseidon_decision;

/**
 * Memory for the state of one flow that any law of the registry controls. Declare a variable of this type, or
 * allocate poseidon_law_size() bytes that are aligned to poseidon_law_align().
 */
typedef struct poseidon_law {
    /**
     * Only the library reads and writes this.
     */
    uint64_t opaque[64];
} poseidon_law;

/**
 * Text with a length. It is not terminated by zero: print it with "%.*s". It is valid forever.
 */
typedef struct poseidon_text {
    /**
     * The bytes, in UTF-8. Null if there is no text.
     */
    const char *data;
    /**
     * The number of bytes.
     */
    size_t size;
} poseidon_text;

/**
 * A retransmission timeout.
 */
typedef struct poseidon_timeout {
    /**
     * sizeof(poseidon_timeout).
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * When the timer expired, on the host's clock.
     */
    uint64_t now_ns;
    /**
     * The bytes that the host now considers lost, without headers. Zero if the host does not know them.
     */
    uint64_t bytes;
} poseidon_timeout;

/**
 * A packet that a switch trimmed to its header, as the receiver's NACK reports it.
 */
typedef struct poseidon_trim {
    /**
     * sizeof(poseidon_trim).
     */
    uint32_t struct_size;
    /**
     * POSEIDON_TRIM_... flags.
     */
    uint32_t flags;
    /**
     * When the NACK arrived, on the host's clock.
     */
    uint64_t now_ns;
    /**
     * The trimmed payload.
     */
    uint64_t bytes;
    /**
     * The bytes in flight without the trimmed packet.
     */
    uint64_t in_flight_bytes;
    /**
     * The time from sending the packet to receiving the NACK, if the flag says that it is known.
     */
    uint64_t rtt_ns;
} poseidon_trim;

/**
 * An ACK's delay as the law interprets it, for hosts whose flows share queues with other laws.
 */
typedef struct poseidon_delay_signal {
    /**
     * sizeof(poseidon_delay_signal).
     */
    uint32_t struct_size;
    /**
     * 1 if the delay is at or below the target, else 0.
     */
    uint32_t within_target;
    /**
     * The delay that the law compares with its target.
     */
    uint64_t delay_ns;
    /**
     * The delay above which other traffic must be filling the queue.
     */
    uint64_t limit_ns;
} poseidon_delay_signal;

/**
 * The records of a packet, in the form that poseidon_ack takes.
 */
typedef struct poseidon_hop_stack {
    /**
     * The records, first hop first.
     */
    struct poseidon_hop hops[8];
    /**
     * The number of records.
     */
    uint32_t count;
    /**
     * 1 if the packet had more records than fit, else 0.
     */
    uint32_t overflow;
    /**
     * The modulus of timestamp_ns, for hop_wrap_timestamp_ns. Zero means 2^64.
     */
    uint64_t wrap_timestamp_ns;
    /**
     * The modulus of sent_bytes, for hop_wrap_sent_bytes. Zero means 2^64.
     */
    uint64_t wrap_sent_bytes;
} poseidon_hop_stack;

/**
 * The units of a P4-INT device. Headers do not carry them.
 */
typedef struct poseidon_int_units {
    /**
     * The tick of the hop latency in ns: 1 for Tofino, 1000 for bmv2. Zero means 2^-32 s.
     */
    uint32_t latency_tick_ns;
    /**
     * The tick of the timestamps in ns. Zero means 2^-32 s.
     */
    uint32_t timestamp_tick_ns;
    /**
     * The unit of the queue occupancy in bytes: 1, or the cell size.
     */
    uint32_t queue_unit_bytes;
    /**
     * The unit of the transmit field in bytes.
     */
    uint32_t transmitted_unit_bytes;
} poseidon_int_units;

/**
 * The largest queueing delay at any hop on a path, as telemetry reports it.
 */
typedef struct poseidon_max_hop_delay {
    /**
     * The largest delay. It means nothing if hops is zero: a delay that no hop measured is unknown, not zero.
     */
    uint64_t worst_ns;
    /**
     * The number of hops that measured a delay. At most 255.
     */
    uint8_t hops;
    /**
     * 1 if a hop that supports telemetry could not measure its delay, else 0.
     */
    uint8_t incomplete;
    /**
     * 1 if the delay exceeds the format's range, so the true delay is worst_ns or more, else 0.
     */
    uint8_t saturated;
    /**
     * Zero.
     */
    uint8_t reserved[5];
} poseidon_max_hop_delay;

/**
 * The line rate of a node's ports, which P4-INT headers do not carry.
 */
typedef struct poseidon_node_rate {
    /**
     * The node's ID.
     */
    uint32_t node_id;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * The line rate.
     */
    uint64_t rate_bps;
} poseidon_node_rate;

/**
 * A law's description.
 */
typedef struct poseidon_law_info {
    /**
     * sizeof(poseidon_law_info).
     */
    uint32_t struct_size;
    /**
     * The number of parameters: see poseidon_param_info_get.
     */
    uint32_t param_count;
    /**
     * The number of presets: see poseidon_preset_info_get.
     */
    uint32_t preset_count;
    /**
     * The signals that the law needs with its default parameters: POSEIDON_SIGNAL_... bits.
     */
    uint32_t needs;
    /**
     * The size of the law's own state, without what all laws share.
     */
    uint64_t state_bytes;
    /**
     * The law's name.
     */
    struct poseidon_text name;
    /**
     * The paper, algorithm and equations that the law implements.
     */
    struct poseidon_text source;
} poseidon_law_info;

/**
 * A parameter's description.
 */
typedef struct poseidon_param_info {
    /**
     * sizeof(poseidon_param_info).
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * The parameter's name. In texts, - and _ are equivalent.
     */
    struct poseidon_text name;
    /**
     * The parameter's meaning and the source of its default value.
     */
    struct poseidon_text description;
    /**
     * The default value, terminated by zero, in the form that poseidon_law_init parses.
     */
    char default_value[64];
} poseidon_param_info;

/**
 * A preset's description. A preset sets all parameters.
 */
typedef struct poseidon_preset_info {
    /**
     * sizeof(poseidon_preset_info).
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * The preset's name.
     */
    struct poseidon_text name;
    /**
     * The source of the values.
     */
    struct poseidon_text description;
} poseidon_preset_info;

/**
 * A parsed shim: four bytes after the UDP header that switches update.
 */
typedef struct poseidon_shim {
    /**
     * POSEIDON_SHIM_... flags.
     */
    uint8_t flags;
    /**
     * The number of hops that measured a delay.
     */
    uint8_t int_hops;
    /**
     * The code of the largest delay, in steps of 2^step_log2 ns.
     */
    uint16_t max_hop_delay;
} poseidon_shim;

/**
 * A parsed reflection block: four bytes in an acknowledgement that echo the received shim to the sender.
 */
typedef struct poseidon_reflection {
    /**
     * The shim's flags.
     */
    uint8_t flags;
    /**
     * The number of hops on the path, from the TTL: at most 15.
     */
    uint8_t hops_seen;
    /**
     * The number of hops that measured a delay: at most 15.
     */
    uint8_t int_hops;
    /**
     * Zero.
     */
    uint8_t reserved;
    /**
     * The shim's code of the largest delay.
     */
    uint16_t max_hop_delay;
} poseidon_reflection;

/**
 * A parsed TCP option: this packet's largest hop delay and an echo of the last one that the peer received.
 */
typedef struct poseidon_tcp_option {
    /**
     * The option's kind: POSEIDON_TCP_OPTION_KIND.
     */
    uint8_t kind;
    /**
     * 1 if the option carries an echo, else 0.
     */
    uint8_t has_echo;
    /**
     * The experiment identifier: POSEIDON_TCP_OPTION_EXID.
     */
    uint16_t exid;
    /**
     * The code of this packet's largest delay, in steps of 2^step_log2 ns.
     */
    uint16_t max_hop_delay;
    /**
     * The code of the last delay that the peer received, if has_echo is 1.
     */
    uint16_t echo;
} poseidon_tcp_option;

/**
 * Success.
 */
#define POSEIDON_OK 0

/**
 * A pointer is null.
 */
#define POSEIDON_ERROR_NULL_POINTER -1

/**
 * A pointer is not aligned for its type.
 */
#define POSEIDON_ERROR_MISALIGNED -2

/**
 * A struct's struct_size is smaller than the first version of the struct.
 */
#define POSEIDON_ERROR_STRUCT_TOO_SMALL -3

/**
 * A struct is larger than this library knows, and a field that the library does not know is not zero.
 */
#define POSEIDON_ERROR_STRUCT_TOO_NEW -4

/**
 * The memory for the state is too small.
 */
#define POSEIDON_ERROR_STATE_TOO_SMALL -5

/**
 * The state is not initialised, was destroyed, or was initialised by another version of this library.
 */
#define POSEIDON_ERROR_NOT_INITIALISED -6

/**
 * A text is longer than POSEIDON_MAX_TEXT or is not UTF-8.
 */
#define POSEIDON_ERROR_TEXT -7

/**
 * There is no law, parameter or preset with this name or index.
 */
#define POSEIDON_ERROR_UNKNOWN_NAME -8

/**
 * The parameters are not a list of name=value, separated by commas.
 */
#define POSEIDON_ERROR_SYNTAX -9

/**
 * A value is not valid for its parameter's type, for example because its unit is missing.
 */
#define POSEIDON_ERROR_VALUE -10

/**
 * A parameter is outside its range.
 */
#define POSEIDON_ERROR_RANGE -11

/**
 * The path is outside the range that laws support.
 */
#define POSEIDON_ERROR_PATH -12

/**
 * The host does not supply a signal that the law needs.
 */
#define POSEIDON_ERROR_MISSING_SIGNALS -13

/**
 * A set of flags has a bit that this library does not know.
 */
#define POSEIDON_ERROR_UNKNOWN_FLAGS -14

/**
 * There are more hop records than POSEIDON_MAX_HOPS, or than the format or the caller's array can hold.
 */
#define POSEIDON_ERROR_TOO_MANY_HOPS -15

/**
 * A buffer is shorter than the header, or than the header says.
 */
#define POSEIDON_ERROR_TRUNCATED -16

/**
 * The header has another version.
 */
#define POSEIDON_ERROR_BAD_VERSION -17

/**
 * The header has another kind, type or option number.
 */
#define POSEIDON_ERROR_BAD_KIND -18

/**
 * The header has another experiment identifier.
 */
#define POSEIDON_ERROR_BAD_IDENTIFIER -19

/**
 * A length in the header contradicts the rest of the header.
 */
#define POSEIDON_ERROR_BAD_LENGTH -20

/**
 * The line rate or its code is not in the format's rate table.
 */
#define POSEIDON_ERROR_UNKNOWN_RATE -21

/**
 * The format limits the number of hops, and the packet has reached the limit. The packet says so now.
 */
#define POSEIDON_ERROR_HOP_LIMIT -22

/**
 * The hop's data does not fit in the packet. The packet says so now.
 */
#define POSEIDON_ERROR_NO_SPACE -23

/**
 * A hop's record is incomplete or the rate of its port is unknown.
 */
#define POSEIDON_ERROR_INCOMPLETE -24

/**
 * Another error of a telemetry format.
 */
#define POSEIDON_ERROR_FORMAT -25

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Writes the parameters of the paper's evaluation on 200 Gbps links. params.struct_size must be set.
 *
 * # Safety
 *
 * params must be null or point to a poseidon_flow_params.
 */
poseidon_status poseidon_flow_params_default(struct poseidon_flow_params *params);

/**
 * Starts a flow that Poseidon controls.
 *
 * flow: the memory; it may hold anything. size: its size, sizeof(poseidon_flow). params: null for the defaults.
 * signals: the POSEIDON_SIGNAL_... bits that the host supplies. error: null, or where to write what is wrong.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_flow_init(struct poseidon_flow *flow,
                                   size_t size,
                                   const struct poseidon_flow_params *params,
                                   const struct poseidon_path *path,
                                   uint32_t signals,
                                   struct poseidon_error *error);

/**
 * Ends a flow: marks its state as not initialised, so that later calls are refused. The memory belongs to the caller.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow.
 */
poseidon_status poseidon_flow_destroy(struct poseidon_flow *flow);

/**
 * Processes an ACK. Poseidon reads no hop records: set hops to null. Ask for the decision afterwards.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow; ack must be null or point to a poseidon_ack that is as large as its
 * struct_size says.
 */
poseidon_status poseidon_flow_on_ack(struct poseidon_flow *flow,
                                     const struct poseidon_ack *ack);

/**
 * Reacts to packet loss. Call it once when the flow enters fast recovery, not once per lost packet.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow; loss must be null or point to a poseidon_loss.
 */
poseidon_status poseidon_flow_on_loss(struct poseidon_flow *flow, const struct poseidon_loss *loss);

/**
 * Reacts to a retransmission timeout at the time now_ns.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow.
 */
poseidon_status poseidon_flow_on_timeout(struct poseidon_flow *flow, uint64_t now_ns);

/**
 * Writes how much the flow may send now, and how fast.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow; decision must be null or point to a poseidon_decision.
 */
poseidon_status poseidon_flow_decision(const struct poseidon_flow *flow, struct poseidon_decision *decision);

/**
 * Returns 1 if the ACK's delay is above the target, 0 if not, or an error. Call it after poseidon_flow_on_ack with the
 * same ACK.
 *
 * # Safety
 *
 * As for poseidon_flow_on_ack; hops must point to hop_record_count records.
 */
poseidon_status poseidon_flow_is_congested(const struct poseidon_flow *flow,
                                           const struct poseidon_ack *ack);

/**
 * Writes the target delay at the current window.
 *
 * # Safety
 *
 * flow must be null or point to a poseidon_flow; target_ns must be null or point to a number.
 */
poseidon_status poseidon_flow_target(const struct poseidon_flow *flow, uint64_t *target_ns);

/**
 * Returns the version of the interface that this library implements: POSEIDON_ABI_VERSION of its header.
 */
uint32_t poseidon_abi_version(void);

/**
 * Returns a description of a status: one line that is terminated by zero and valid forever. Never null.
 */
const char *poseidon_error_text(poseidon_status code);

/**
 * Returns the size of the state of any law, in bytes. At most POSEIDON_LAW_SIZE of the library's own header.
 */
size_t poseidon_law_size(void);

/**
 * Returns the alignment of the state of any law, in bytes.
 */
size_t poseidon_law_align(void);

/**
 * Starts a flow: chooses a law by name, sets its parameters and stores its state in the caller's memory.
 *
 * law: the memory; it may hold anything. size: its size, sizeof(poseidon_law). name: for example "poseidon". params:
 * name=value, separated by commas, for example "max-rate=100 Gbps, target-floor=2 us"; "preset=NAME" may come first;
 * null for the defaults, which are the papers' values. signals: the POSEIDON_SIGNAL_... bits that the host supplies; a
 * law that needs another signal is refused. error: null, or where to write what is wrong.
 *
 * # Safety
 *
 * The pointers must be null or valid. The texts must end with a zero byte.
 */
poseidon_status poseidon_law_init(struct poseidon_law *law,
                                  size_t size,
                                  const char *name,
                                  const char *params,
                                  const struct poseidon_path *path,
                                  uint32_t signals,
                                  struct poseidon_error *error);

/**
 * Ends a flow: marks its state as not initialised, so that later calls are refused. The memory belongs to the caller.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law.
 */
poseidon_status poseidon_law_destroy(struct poseidon_law *law);

/**
 * Writes the name of the law that controls the flow.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_law_name(const struct poseidon_law *law, struct poseidon_text *name);

/**
 * Processes an ACK. Ask for the decision afterwards.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law, ack must be null or point to a poseidon_ack that is as large as its
 * struct_size says, and its hops must point to hop_record_count records.
 */
poseidon_status poseidon_law_on_ack(struct poseidon_law *law,
                                    const struct poseidon_ack *ack);

/**
 * Reacts to packet loss. Call it once when the flow enters fast recovery, not once per lost packet.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law; loss must be null or point to a poseidon_loss.
 */
poseidon_status poseidon_law_on_loss(struct poseidon_law *law, const struct poseidon_loss *loss);

/**
 * Reacts to a retransmission timeout at the time now_ns. poseidon_law_on_timeout_event also takes the lost bytes.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law.
 */
poseidon_status poseidon_law_on_timeout(struct poseidon_law *law,
                                        uint64_t now_ns);

/**
 * Reacts to a retransmission timeout, as poseidon_law_on_timeout, and tells the law how much was lost.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law; timeout must be null or point to a poseidon_timeout.
 */
poseidon_status poseidon_law_on_timeout_event(struct poseidon_law *law,
                                              const struct poseidon_timeout *timeout);

/**
 * Reacts to a packet that a switch trimmed. Call it for each trimmed packet. Most laws ignore it, so report the packet
 * as a loss too: poseidon_law_on_loss, once when the flow enters fast recovery.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law; trim must be null or point to a poseidon_trim.
 */
poseidon_status poseidon_law_on_trim(struct poseidon_law *law,
                                     const struct poseidon_trim *trim);

/**
 * Writes how much the flow may send now, and how fast.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law; decision must be null or point to a poseidon_decision.
 */
poseidon_status poseidon_law_decision(const struct poseidon_law *law, struct poseidon_decision *decision);

/**
 * Returns 1 if the ACK indicates congestion, 0 if not, or an error. A host that changes paths (PLB) counts such ACKs.
 * Call it after poseidon_law_on_ack with the same ACK.
 *
 * # Safety
 *
 * As for poseidon_law_on_ack.
 */
poseidon_status poseidon_law_is_congested(const struct poseidon_law *law,
                                          const struct poseidon_ack *ack);

/**
 * Writes the delay that the law compares with its target and returns 1. Returns 0 and writes nothing if the law has no
 * target delay or the ACK carries no delay. Call it after poseidon_law_on_ack with the same ACK.
 *
 * # Safety
 *
 * As for poseidon_law_on_ack; signal must be null or point to a poseidon_delay_signal.
 */
poseidon_status poseidon_law_delay_signal(const struct poseidon_law *law,
                                          const struct poseidon_ack *ack,
                                          struct poseidon_delay_signal *signal);

/**
 * Writes the target delay at the current window and returns 1. Returns 0 and writes nothing if the law has no target
 * delay. hop_count: the number of switches on the path.
 *
 * # Safety
 *
 * law must be null or point to a poseidon_law; target_ns must be null or point to a number.
 */
poseidon_status poseidon_law_target(const struct poseidon_law *law,
                                    uint8_t hop_count,
                                    uint64_t *target_ns);

/**
 * Appends a switch's record to HPCC's stack (figure 7 of the paper) in place, and corrects a checksum.
 *
 * The packet grows by 8 bytes: the caller makes room for them after the stack before the call and updates the length
 * fields of the outer headers. size: the bytes up to the end of that room. checksum: the two bytes of the checksum in
 * the packet, or null. kind: one of the POSEIDON_CHECKSUM_... constants. The rate must be one of HPCC's: 25, 40, 50,
 * 100, 200 or 400 Gbps.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; hop must be null or point to a poseidon_hop; checksum must be null or
 * point to two bytes outside of the stack.
 */
poseidon_status poseidon_hpcc_stamp(uint8_t *bytes,
                                    size_t size,
                                    const struct poseidon_hop *hop,
                                    uint16_t switch_id,
                                    uint8_t *checksum,
                                    uint32_t kind);

/**
 * Parses HPCC's stack. The records carry wrapping counters, and their moduli come with them.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; stack must be null or point to a poseidon_hop_stack.
 */
poseidon_status poseidon_hpcc_parse(const uint8_t *bytes, size_t size, struct poseidon_hop_stack *stack);

/**
 * Pushes a hop's metadata onto a P4-INT stack in place (version 2.1, embed data), and corrects a checksum.
 *
 * Returns the number of bytes by which the packet grew; the caller updates the length fields of the outer headers. The
 * stack grows into the free space at the end of the buffer, so size includes that space. If the packet's hop limit or
 * its space is exhausted, the function says so in the packet and returns POSEIDON_ERROR_HOP_LIMIT or
 * POSEIDON_ERROR_NO_SPACE. hop: the port's state, whose rate is not written. checksum and kind: as for
 * poseidon_hpcc_stamp.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; the other pointers must be null or valid; checksum must point outside of
 * the buffer.
 */
poseidon_status poseidon_int_md_stamp(uint8_t *bytes,
                                      size_t size,
                                      uint32_t node_id,
                                      uint64_t delay_ns,
                                      const struct poseidon_hop *hop,
                                      const struct poseidon_int_units *units,
                                      uint8_t *checksum,
                                      uint32_t kind);

/**
 * Converts a P4-INT stack to the largest hop latency.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; the other pointers must be null or valid.
 */
poseidon_status poseidon_int_md_signal(const uint8_t *bytes,
                                       size_t size,
                                       const struct poseidon_int_units *units,
                                       struct poseidon_max_hop_delay *signal);

/**
 * Converts a P4-INT stack with the instructions of HPCC++ (0xd500) to hop records.
 *
 * rates: the line rates of the nodes, in any order. A packet with a hop that is not in the table, or that lacks a
 * field, is refused with POSEIDON_ERROR_INCOMPLETE.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; rates must be null or point to rate_count entries; the other pointers must
 * be null or valid.
 */
poseidon_status poseidon_int_md_parse(const uint8_t *bytes,
                                      size_t size,
                                      const struct poseidon_int_units *units,
                                      const struct poseidon_node_rate *rates,
                                      size_t rate_count,
                                      struct poseidon_hop_stack *stack);

/**
 * Returns the number of laws.
 */
uint32_t poseidon_law_count(void);

/**
 * Describes the law with this index, below poseidon_law_count().
 *
 * # Safety
 *
 * info must be null or point to a poseidon_law_info.
 */
poseidon_status poseidon_law_info_get(uint32_t index, struct poseidon_law_info *info);

/**
 * Describes a law's parameter with this index, below param_count of the law.
 *
 * # Safety
 *
 * law must be null or a text that ends with a zero byte; info must be null or point to a poseidon_param_info.
 */
poseidon_status poseidon_param_info_get(const char *law, uint32_t index, struct poseidon_param_info *info);

/**
 * Describes a law's preset with this index, below preset_count of the law. Index 0 is "paper", the default values.
 *
 * # Safety
 *
 * law must be null or a text that ends with a zero byte; info must be null or point to a poseidon_preset_info.
 */
poseidon_status poseidon_preset_info_get(const char *law,
                                         uint32_t index,
                                         struct poseidon_preset_info *info);

/**
 * Writes the signals that a law needs with these parameters, as POSEIDON_SIGNAL_... bits.
 *
 * name and params: as for poseidon_law_init. error: null, or where to write what is wrong.
 *
 * # Safety
 *
 * The pointers must be null or valid. The texts must end with a zero byte.
 */
poseidon_status poseidon_law_needs(const char *name,
                                   const char *params,
                                   uint32_t *signals,
                                   struct poseidon_error *error);

/**
 * Corrects a checksum after bytes that it covers have changed.
 *
 * before, after: the bytes before and after the change. size: their number. offset: where they start in the covered
 * data; only whether it is odd matters. checksum: the two bytes of the checksum in the packet. kind: one of the
 * POSEIDON_CHECKSUM_... constants.
 *
 * # Safety
 *
 * The pointers must be null or valid for their sizes.
 */
poseidon_status poseidon_checksum_update(const uint8_t *before,
                                         const uint8_t *after,
                                         size_t size,
                                         size_t offset,
                                         uint8_t *checksum,
                                         uint32_t kind);

/**
 * Updates the paper's 16-bit header in place at a switch that measured delay_ns, and corrects a checksum.
 *
 * checksum: the two bytes of the checksum in the packet, or null. kind: one of the POSEIDON_CHECKSUM_... constants.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; checksum must be null or point to two bytes outside of them.
 */
poseidon_status poseidon_bare16_stamp(uint8_t *bytes,
                                      size_t size,
                                      uint64_t delay_ns,
                                      uint8_t step_log2,
                                      uint8_t *checksum,
                                      uint32_t kind);

/**
 * Converts the paper's 16-bit header to the signal that it carries. The header has no hop count: assumed_hops is the
 * number of telemetry-capable hops on the path.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; signal must be null or point to a poseidon_max_hop_delay.
 */
poseidon_status poseidon_bare16_signal(const uint8_t *bytes,
                                       size_t size,
                                       uint8_t step_log2,
                                       uint8_t assumed_hops,
                                       struct poseidon_max_hop_delay *signal);

/**
 * Parses the shim at the start of a UDP payload.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; parsed must be null or point to a poseidon_shim.
 */
poseidon_status poseidon_shim_parse(const uint8_t *bytes, size_t size, struct poseidon_shim *parsed);

/**
 * Writes a shim, as the sender does. A struct of zeros is a new shim.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; header must be null or point to a poseidon_shim.
 */
poseidon_status poseidon_shim_emit(const struct poseidon_shim *header, uint8_t *bytes, size_t size);

/**
 * Updates a shim in place at a switch that measured delay_ns, and corrects the UDP checksum.
 *
 * A frozen shim stays unchanged. udp_checksum: the two bytes of the checksum in the packet, or null.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; udp_checksum must be null or point to two bytes outside of them.
 */
poseidon_status poseidon_shim_stamp(uint8_t *bytes,
                                    size_t size,
                                    uint64_t delay_ns,
                                    uint8_t step_log2,
                                    uint8_t *udp_checksum);

/**
 * Sets the flag POSEIDON_SHIM_INCOMPLETE in place at a switch that could not measure its delay.
 *
 * # Safety
 *
 * As for poseidon_shim_stamp.
 */
poseidon_status poseidon_shim_mark_incomplete(uint8_t *bytes, size_t size, uint8_t *udp_checksum);

/**
 * Sets the flag POSEIDON_SHIM_FROZEN in place at a switch that trims or copies the packet.
 *
 * # Safety
 *
 * As for poseidon_shim_stamp.
 */
poseidon_status poseidon_shim_freeze(uint8_t *bytes, size_t size, uint8_t *udp_checksum);

/**
 * Converts a shim to the signal that it carries.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_shim_signal(const struct poseidon_shim *header,
                                     uint8_t step_log2,
                                     struct poseidon_max_hop_delay *signal);

/**
 * Converts a signal to the shim that carries it.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_shim_from_signal(const struct poseidon_max_hop_delay *signal,
                                          uint8_t step_log2,
                                          struct poseidon_shim *header);

/**
 * Creates the block that a receiver returns for a packet that arrived with this shim and this TTL.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_reflection_of_shim(const struct poseidon_shim *header,
                                            uint8_t received_ttl,
                                            uint8_t initial_ttl,
                                            struct poseidon_reflection *block);

/**
 * Parses a reflection block.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; parsed must be null or point to a poseidon_reflection.
 */
poseidon_status poseidon_reflection_parse(const uint8_t *bytes,
                                          size_t size,
                                          struct poseidon_reflection *parsed);

/**
 * Writes a reflection block. Counts above 15 are written as 15.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; block must be null or point to a poseidon_reflection.
 */
poseidon_status poseidon_reflection_emit(const struct poseidon_reflection *block,
                                         uint8_t *bytes,
                                         size_t size);

/**
 * Converts a reflection block to the signal that it carries.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_reflection_signal(const struct poseidon_reflection *block,
                                           uint8_t step_log2,
                                           struct poseidon_max_hop_delay *signal);

/**
 * Returns how many of the hops on the path measured their delay: one of the POSEIDON_COVERAGE_... constants, or an
 * error.
 *
 * # Safety
 *
 * block must be null or point to a poseidon_reflection.
 */
poseidon_status poseidon_reflection_coverage(const struct poseidon_reflection *block);

/**
 * Finds the option in a TCP option list, which starts at byte 20 of the TCP header. Writes its offset and returns 1, or
 * returns 0 if the option is missing or the list is malformed before it.
 *
 * # Safety
 *
 * options must be null or point to size bytes; offset must be null or point to a number.
 */
poseidon_status poseidon_tcp_option_find(const uint8_t *options,
                                         size_t size,
                                         uint8_t kind,
                                         uint16_t exid,
                                         size_t *offset);

/**
 * Parses the option at the start of a buffer.
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; parsed must be null or point to a poseidon_tcp_option.
 */
poseidon_status poseidon_tcp_option_parse(const uint8_t *bytes,
                                          size_t size,
                                          uint8_t kind,
                                          uint16_t exid,
                                          struct poseidon_tcp_option *parsed);

/**
 * Writes an option. To echo a received option, set has_echo to 1 and echo to the received max_hop_delay; an echo of
 * 65535 is written as 65534, because 65535 means "none".
 *
 * # Safety
 *
 * bytes must be null or point to size bytes; option must be null or point to a poseidon_tcp_option.
 */
poseidon_status poseidon_tcp_option_emit(const struct poseidon_tcp_option *option,
                                         uint8_t *bytes,
                                         size_t size);

/**
 * Finds the option in a TCP option list, updates it in place at a switch that measured delay_ns, and corrects the TCP
 * checksum, also if the option starts at an odd byte. Returns 1, or 0 if the option is missing.
 *
 * options: the list, which starts at byte 20 of the TCP header. tcp_checksum: the two bytes of the checksum, or null.
 *
 * # Safety
 *
 * options must be null or point to size bytes; tcp_checksum must be null or point to two bytes outside of them.
 */
poseidon_status poseidon_tcp_option_stamp(uint8_t *options,
                                          size_t size,
                                          uint8_t kind,
                                          uint16_t exid,
                                          uint64_t delay_ns,
                                          uint8_t step_log2,
                                          uint8_t *tcp_checksum);

/**
 * Converts an option to the signal of the path that the packet took. The option has no hop count: assumed_hops is the
 * number of telemetry-capable hops on the path.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_tcp_option_signal(const struct poseidon_tcp_option *option,
                                           uint8_t step_log2,
                                           uint8_t assumed_hops,
                                           struct poseidon_max_hop_delay *signal);

/**
 * Converts an option's echo to the signal of the path from this host to its peer, and returns 1. Returns 0 if the
 * option carries no echo. A sender gives this signal to its law.
 *
 * # Safety
 *
 * The pointers must be null or valid.
 */
poseidon_status poseidon_tcp_option_echo_signal(const struct poseidon_tcp_option *option,
                                                uint8_t step_log2,
                                                uint8_t assumed_hops,
                                                struct poseidon_max_hop_delay *signal);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POSEIDON_LAWS_H */
