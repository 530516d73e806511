// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * A switch with in-band telemetry: at a port's egress, it writes a packet's queueing delay into the packet if the delay
 * exceeds the delays of all earlier hops. This is listing 1 of Poseidon (NSDI 2023) in a Linux router.
 *
 *   TCP   | kind 253 | 8 | 0x5053 | max_hop_delay | echo |      crates/core/wire/src/tcp_option.rs
 *                                   ^^^^^^^^^^^^^
 *   UDP   | ver 1, X D P | int_hops | max_hop_delay |           crates/core/wire/src/shim.rs; destination port 65053
 *                          ^^^^^^^^   ^^^^^^^^^^^^^
 *
 * Contract   Only the underlined fields and the checksum change. A packet without a complete option or shim does not
 *            change. tests/switch.rs tests this with 10^6 malformed packets.
 * Delay      See port.h. The unit is 256 ns, rounded down; 0xffff is 16.777 ms or more (the cast in the paper would
 *            wrap).
 * Checksums  bpf_l4_csum_replace handles complete checksums and checksums that a NIC completes. Only this helper can
 *            tell them apart.
 * Fast path  reads two kinds of IPv4 packets in place: segments as Linux sends them, with timestamps followed by our
 *            option, and datagrams. All other packets take the slow path, with the same result.
 * Segments   A merged segment (GSO, GRO) gets one stamp, which all its packets carry.
 * Left out   CSIG: its tag is an unknown EtherType, which Linux hosts and routers drop.
 */
#include "packet.h"

/* The possible outcomes for a packet. src/switch.rs has the same list. */
enum outcome {
	OUTCOME_TCP_STAMPED,
	OUTCOME_UDP_STAMPED,
	OUTCOME_SWITCHED_OFF,
	OUTCOME_NOT_IP,
	OUTCOME_MALFORMED,
	OUTCOME_FRAGMENT,
	OUTCOME_OTHER_PROTOCOL,
	OUTCOME_NO_OPTION, /* TCP */
	OUTCOME_NO_SHIM,   /* UDP: another port, or another version */
	OUTCOME_FROZEN,    /* the shim must not be updated */
	OUTCOME_NO_MEMORY, /* the kernel could not make the packet writable */
	OUTCOMES,
};

struct config {
	u64 bits_per_second; /* for the status; the programs use ns_per_mib */
	u32 ns_per_mib;
	u32 stamps; /* 0: only measure */
};

struct stats {
	u64 outcome[OUTCOMES];
	u64 raised; /* stamped packets whose largest delay is at this hop */
	u64 delay_sum;
	u64 bucket[PORT_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stats);
} stats SEC(".maps");

/* The largest size of TCP options, the size of our option, and the offset of its delay. */
#define MAX_OPTIONS 40
#define OPTION_BYTES 8
#define OPTION_DELAY_OFFSET 4
static const u8 option_header[4] = {253, OPTION_BYTES, 0x50, 0x53};

#define TIMESTAMPS_BYTES 12

#define SHIM_PORT 65053
#define SHIM_OFFSET 8
#define SHIM_FROZEN 0x04

struct shim {
	u8 flags;
	u8 int_hops;
	u16 max_hop_delay;
};

static inline u16 max_u16(u16 a, u16 b)
{
	return a > b ? a : b;
}

/* Swaps the bytes of a word at an odd offset, because the checksum adds 16-bit words at even offsets. */
static inline u16 swap_bytes_if(int odd, u16 word)
{
	return odd ? (u16)(word << 8 | word >> 8) : word;
}

struct option_walk {
	u8 options[MAX_OPTIONS + OPTION_BYTES]; /* zero-filled, which ends the list */
	u32 bytes;
	u32 offset;
	u32 found;
};

/* Visits the next option; returns 1 to stop. RFC 9293 section 3.1: kind 0 ends the list, kind 1 has no length. */
static long visit_option(u64 index, struct option_walk *walk)
{
	u32 offset = walk->offset;
	const u8 *option;

	if (offset >= walk->bytes || offset >= MAX_OPTIONS)
		return 1;
	option = &walk->options[offset];
	if (option[0] == 0)
		return 1;
	if (option[0] == 1) {
		walk->offset = offset + 1;
		return 0;
	}
	if (offset + OPTION_BYTES <= walk->bytes && option[0] == option_header[0] && option[1] == option_header[1] &&
	    option[2] == option_header[2] && option[3] == option_header[3]) {
		walk->found = 1;
		return 1;
	}
	/* A length below 2 is invalid. */
	if (option[1] < 2)
		return 1;
	walk->offset = offset + option[1];
	return 0;
}

/* Writes the delay into the option at `offset` within the options, if it exceeds the old delay. */
static __always_inline enum outcome raise_tcp(struct __sk_buff *skb, u32 transport, u32 offset, u16 old, u16 code, u32 *raised)
{
	u16 new = bpf_htons(code);

	if (code <= old)
		return OUTCOME_TCP_STAMPED;
	old = bpf_htons(old);
	/* Write the later field first: if it is writable, so is the checksum. Both change, or neither does. */
	if (bpf_skb_store_bytes(skb, transport + TCP_HEADER_BYTES + offset + OPTION_DELAY_OFFSET, &new, sizeof(new), 0))
		return OUTCOME_NO_MEMORY;
	bpf_l4_csum_replace(skb, transport + TCP_CHECKSUM_OFFSET, swap_bytes_if(offset & 1, old), swap_bytes_if(offset & 1, new), sizeof(new));
	*raised = 1;
	return OUTCOME_TCP_STAMPED;
}

static inline enum outcome stamp_tcp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct option_walk walk = {};
	u32 header_bytes;
	u16 word, old;

	header_bytes = packet_tcp_header(skb, packet, &word);
	if (!header_bytes)
		return OUTCOME_MALFORMED;
	walk.bytes = header_bytes - TCP_HEADER_BYTES;
	if (walk.bytes < OPTION_BYTES || walk.bytes > MAX_OPTIONS)
		return OUTCOME_NO_OPTION;
	if (bpf_skb_load_bytes(skb, packet->transport + TCP_HEADER_BYTES, walk.options, walk.bytes))
		return OUTCOME_MALFORMED;
	/* A list of NOPs has one option per byte. */
	bpf_loop(MAX_OPTIONS, visit_option, &walk, 0);
	if (!walk.found || walk.offset > MAX_OPTIONS - OPTION_BYTES)
		return OUTCOME_NO_OPTION;
	old = (u16)(walk.options[walk.offset + OPTION_DELAY_OFFSET] << 8 | walk.options[walk.offset + OPTION_DELAY_OFFSET + 1]);
	return raise_tcp(skb, packet->transport, walk.offset, old, code, raised);
}

/* Two NOPs and the header of timestamps, as Linux writes them. */
static inline int is_timestamps(const u8 *option)
{
	return *(const u32 *)option == bpf_htonl(0x0101080a);
}

static inline int is_our_option(const u8 *option)
{
	return *(const u32 *)option == bpf_htonl(0xfd085053);
}

struct udp {
	u16 source, destination, bytes, checksum;
	struct shim shim;
};

/* Counts this hop, and writes the delay if it exceeds the old delay. */
static inline enum outcome raise_udp(struct __sk_buff *skb, u32 transport, struct shim old, u16 code, u32 *raised)
{
	struct shim new = old;

	if (old.flags & SHIM_FROZEN)
		return OUTCOME_FROZEN;
	new.max_hop_delay = bpf_htons(max_u16(code, bpf_ntohs(old.max_hop_delay)));
	if (old.int_hops != 0xff)
		new.int_hops++;
	/* The same order as in TCP. Zero means "no checksum", and a sum of zero is sent as 0xffff. */
	if (bpf_skb_store_bytes(skb, transport + SHIM_OFFSET, &new, sizeof(new), 0))
		return OUTCOME_NO_MEMORY;
	bpf_l4_csum_replace(skb, transport + UDP_CHECKSUM_OFFSET, *(u32 *)&old, *(u32 *)&new,
			    BPF_F_MARK_MANGLED_0 | sizeof(u32));
	*raised = code > bpf_ntohs(old.max_hop_delay);
	return OUTCOME_UDP_STAMPED;
}

static inline int is_our_shim(const struct udp *udp)
{
	return udp->destination == bpf_htons(SHIM_PORT) && udp->shim.flags >> 4 == 1;
}

static inline enum outcome stamp_udp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct udp udp;
	u32 available = packet->end - packet->transport, bytes;

	if (available < sizeof(udp))
		return available < SHIM_OFFSET ? OUTCOME_MALFORMED : OUTCOME_NO_SHIM;
	if (!packet_load(skb, packet->transport, &udp))
		return OUTCOME_MALFORMED;
	bytes = bpf_ntohs(udp.bytes);
	/* The length in a first fragment covers all fragments. */
	if (bytes < SHIM_OFFSET || (bytes > available && !packet->is_first_fragment))
		return OUTCOME_MALFORMED;
	if (bytes < sizeof(udp) || !is_our_shim(&udp))
		return OUTCOME_NO_SHIM;
	return raise_udp(skb, packet->transport, udp.shim, code, raised);
}

/* The fast path. Returns OUTCOMES if the packet needs the slow path. */
static inline enum outcome stamp_fast(struct __sk_buff *skb, u16 code, u32 *raised)
{
	struct packet packet;
	/* The fixed TCP header, or the UDP header with the shim. */
	u8 *segment = packet_find_fast(skb, &packet, TCP_HEADER_BYTES);
	u32 header_bytes;
	u16 old;

	if (!segment)
		return OUTCOMES;
	if (packet.protocol == IP_UDP) {
		struct udp *udp = (void *)segment;
		u32 bytes = bpf_ntohs(udp->bytes);

		if (bytes < sizeof(*udp) || bytes > packet.end - packet.transport)
			return OUTCOMES;
		return is_our_shim(udp) ? raise_udp(skb, packet.transport, udp->shim, code, raised) : OUTCOME_NO_SHIM;
	}
	if (packet.protocol != IP_TCP)
		return OUTCOMES;
	header_bytes = (segment[TCP_WORD_OFFSET] >> 4) * 4U;
	if (header_bytes == TCP_HEADER_BYTES)
		return OUTCOME_NO_OPTION;
	if (header_bytes < TCP_HEADER_BYTES + TIMESTAMPS_BYTES || header_bytes > packet.end - packet.transport)
		return OUTCOMES;
	segment += TCP_HEADER_BYTES;
	if (segment + TIMESTAMPS_BYTES > (u8 *)(unsigned long)skb->data_end || !is_timestamps(segment))
		return OUTCOMES;
	if (header_bytes == TCP_HEADER_BYTES + TIMESTAMPS_BYTES)
		return OUTCOME_NO_OPTION;
	if (header_bytes < TCP_HEADER_BYTES + TIMESTAMPS_BYTES + OPTION_BYTES ||
	    segment + TIMESTAMPS_BYTES + OPTION_BYTES > (u8 *)(unsigned long)skb->data_end ||
	    !is_our_option(segment + TIMESTAMPS_BYTES))
		return OUTCOMES;
	old = bpf_ntohs(*(u16 *)(segment + TIMESTAMPS_BYTES + OPTION_DELAY_OFFSET));
	return raise_tcp(skb, packet.transport, TIMESTAMPS_BYTES, old, code, raised);
}

static inline enum outcome stamp(struct __sk_buff *skb, u64 delay, u32 *raised)
{
	u16 code = delay >> 8 < 0xffff ? (u16)(delay >> 8) : 0xffff;
	struct packet packet = {};
	enum outcome outcome = stamp_fast(skb, code, raised);

	if (outcome != OUTCOMES)
		return outcome;
	switch (packet_find(skb, &packet)) {
	case PACKET_FOUND:
		break;
	case PACKET_NOT_IP:
		return OUTCOME_NOT_IP;
	case PACKET_FRAGMENT:
		return OUTCOME_FRAGMENT;
	case PACKET_OTHER_PROTOCOL:
		return OUTCOME_OTHER_PROTOCOL;
	default:
		return OUTCOME_MALFORMED;
	}
	if (packet.protocol == IP_TCP)
		return stamp_tcp(skb, &packet, code, raised);
	return stamp_udp(skb, &packet, code, raised);
}

SEC("tc")
int switch_egress(struct __sk_buff *skb)
{
	u32 key = 0, raised = 0, outcome = OUTCOME_SWITCHED_OFF;
	struct config *settings = bpf_map_lookup_elem(&config, &key);
	struct stats *counters = bpf_map_lookup_elem(&stats, &key);
	u64 delay;

	if (!settings || !counters)
		return TC_ACT_UNSPEC;
	delay = port_delay(port_backlog(skb), settings->ns_per_mib);
	if (settings->stamps)
		outcome = stamp(skb, delay, &raised);
	if (outcome < OUTCOMES)
		counters->outcome[outcome]++;
	counters->raised += raised;
	counters->delay_sum += delay;
	counters->bucket[port_bucket(delay) & (PORT_BUCKETS - 1)]++;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
