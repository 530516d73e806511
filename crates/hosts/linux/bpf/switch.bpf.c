// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * A switch with in-band telemetry: at the egress of a port it writes how long a packet will wait there, if that is more than
 * every hop before it wrote. Listing 1 of Poseidon (NSDI 2023), in a Linux router.
 *
 *   TCP   | kind 253 | 8 | 0x5053 | max_hop_delay | echo |      crates/core/wire/src/tcp_option.rs
 *                                   ^^^^^^^^^^^^^
 *   UDP   | ver 1, X D P | int_hops | max_hop_delay |           crates/core/wire/src/shim.rs; destination port 65053
 *                          ^^^^^^^^   ^^^^^^^^^^^^^
 *
 * Contract   what is underlined and the checksum over it; no other byte of any packet is written, and none at all where the
 *            option or the shim is not whole and ours. tests/switch.rs sends it 10^6 hostile packets.
 * Delay      port.h. One step is 256 ns, rounded down; 0xffff is 16.777 ms or more (the paper's cast would wrap).
 * Checksums  bpf_l4_csum_replace is right for finished checksums and for those that a NIC will finish. Only it knows which.
 * Fast way   segments as Linux sends them, with a timestamp and then ours, and datagrams, in IPv4: read where they lie. All others take
 *            the long way, which gives the same.
 * Segments   what the kernel has merged (GSO, GRO) gets one stamp, which all its segments then carry.
 * Left out   CSIG: its tag makes an unknown EtherType, which a Linux host or router drops before anybody reads it.
 */
#include "packet.h"

/* What becomes of a packet. src/switch.rs has the same list. */
enum fate {
	FATE_TCP_STAMPED,
	FATE_UDP_STAMPED,
	FATE_SWITCHED_OFF,
	FATE_NOT_IP,
	FATE_MALFORMED,
	FATE_FRAGMENT,
	FATE_OTHER_PROTOCOL,
	FATE_NO_OPTION, /* TCP */
	FATE_NO_SHIM,   /* UDP: another port, or another version */
	FATE_FROZEN,    /* the shim asks not to be updated */
	FATE_NO_MEMORY, /* the kernel could not make the packet writable */
	FATES,
};

struct config {
	u64 bits_per_second; /* for whoever asks later; only the next is computed with */
	u32 ns_per_mib;
	u32 stamps; /* 0: measure, but write nothing */
};

struct stats {
	u64 fate[FATES];
	u64 raised; /* of those stamped: the worst hop so far is this one */
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

/* Most bytes of TCP options; of one option of ours; where its delay is. */
#define MOST_OPTIONS 40
#define OPTION_BYTES 8
#define OPTION_DELAY_AT 4
static const u8 option_begins[4] = {253, OPTION_BYTES, 0x50, 0x53};

#define TIMESTAMPS_BYTES 12

#define SHIM_PORT 65053
#define SHIM_AT 8
#define SHIM_FROZEN 0x04

struct shim {
	u8 flags;
	u8 int_hops;
	u16 max_hop_delay;
};

static inline u16 larger(u16 a, u16 b)
{
	return a > b ? a : b;
}

/* Another byte order for what lies at an odd byte: there each byte is in the other half of its checksummed word. */
static inline u16 swap_if(int odd, u16 word)
{
	return odd ? (u16)(word << 8 | word >> 8) : word;
}

struct walk {
	u8 options[MOST_OPTIONS + OPTION_BYTES]; /* zeros behind the last: they end the list */
	u32 bytes;
	u32 at;
	u32 found;
};

/* One option of the list; 1 ends the walk. RFC 9293 section 3.1: kind 0 ends the list, kind 1 has no length. */
static long walk_on(u64 index, struct walk *walk)
{
	u32 at = walk->at;
	const u8 *option;

	if (at >= walk->bytes || at >= MOST_OPTIONS)
		return 1;
	option = &walk->options[at];
	if (option[0] == 0)
		return 1;
	if (option[0] == 1) {
		walk->at = at + 1;
		return 0;
	}
	if (at + OPTION_BYTES <= walk->bytes && option[0] == option_begins[0] && option[1] == option_begins[1] &&
	    option[2] == option_begins[2] && option[3] == option_begins[3]) {
		walk->found = 1;
		return 1;
	}
	/* A length below 2 would not even cover itself. */
	if (option[1] < 2)
		return 1;
	walk->at = at + option[1];
	return 0;
}

/* Writes the delay into the option at this byte of the options, if it is more than what is there. */
static __always_inline enum fate raise_tcp(struct __sk_buff *skb, u32 transport, u32 at, u16 old, u16 code, u32 *raised)
{
	u16 new = bpf_htons(code);

	if (code <= old)
		return FATE_TCP_STAMPED;
	old = bpf_htons(old);
	/* First what lies further back: once this is writable the checksum is too, so that both change or neither. */
	if (bpf_skb_store_bytes(skb, transport + TCP_HEADER_BYTES + at + OPTION_DELAY_AT, &new, sizeof(new), 0))
		return FATE_NO_MEMORY;
	bpf_l4_csum_replace(skb, transport + TCP_CHECKSUM_AT, swap_if(at & 1, old), swap_if(at & 1, new), sizeof(new));
	*raised = 1;
	return FATE_TCP_STAMPED;
}

static inline enum fate stamp_tcp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct walk walk = {};
	u32 header_bytes;
	u16 word, old;

	header_bytes = packet_tcp_header(skb, packet, &word);
	if (!header_bytes)
		return FATE_MALFORMED;
	walk.bytes = header_bytes - TCP_HEADER_BYTES;
	if (walk.bytes < OPTION_BYTES || walk.bytes > MOST_OPTIONS)
		return FATE_NO_OPTION;
	if (bpf_skb_load_bytes(skb, packet->transport + TCP_HEADER_BYTES, walk.options, walk.bytes))
		return FATE_MALFORMED;
	/* At most one step per byte: a list of NOPs. */
	bpf_loop(MOST_OPTIONS, walk_on, &walk, 0);
	if (!walk.found || walk.at > MOST_OPTIONS - OPTION_BYTES)
		return FATE_NO_OPTION;
	old = (u16)(walk.options[walk.at + OPTION_DELAY_AT] << 8 | walk.options[walk.at + OPTION_DELAY_AT + 1]);
	return raise_tcp(skb, packet->transport, walk.at, old, code, raised);
}

/* Timestamps as Linux writes them, with two NOPs before. */
static inline int is_timestamps(const u8 *option)
{
	return *(const u32 *)option == bpf_htonl(0x0101080a);
}

static inline int is_ours_here(const u8 *option)
{
	return *(const u32 *)option == bpf_htonl(0xfd085053);
}

struct udp {
	u16 source, destination, bytes, checksum;
	struct shim shim;
};

/* Counts this hop and writes the delay, if it is more than what is there. */
static inline enum fate raise_udp(struct __sk_buff *skb, u32 transport, struct shim old, u16 code, u32 *raised)
{
	struct shim new = old;

	if (old.flags & SHIM_FROZEN)
		return FATE_FROZEN;
	new.max_hop_delay = bpf_htons(larger(code, bpf_ntohs(old.max_hop_delay)));
	if (old.int_hops != 0xff)
		new.int_hops++;
	/* As in TCP; zero stays "no checksum", and a sum of zero is sent as 0xffff. */
	if (bpf_skb_store_bytes(skb, transport + SHIM_AT, &new, sizeof(new), 0))
		return FATE_NO_MEMORY;
	bpf_l4_csum_replace(skb, transport + UDP_CHECKSUM_AT, *(u32 *)&old, *(u32 *)&new,
			    BPF_F_MARK_MANGLED_0 | sizeof(u32));
	*raised = code > bpf_ntohs(old.max_hop_delay);
	return FATE_UDP_STAMPED;
}

static inline int is_our_shim(const struct udp *udp)
{
	return udp->destination == bpf_htons(SHIM_PORT) && udp->shim.flags >> 4 == 1;
}

static inline enum fate stamp_udp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct udp udp;
	u32 here = packet->end - packet->transport, bytes;

	if (here < sizeof(udp))
		return here < SHIM_AT ? FATE_MALFORMED : FATE_NO_SHIM;
	if (!packet_load(skb, packet->transport, &udp))
		return FATE_MALFORMED;
	bytes = bpf_ntohs(udp.bytes);
	/* A first fragment says how long all fragments are together. */
	if (bytes < SHIM_AT || (bytes > here && !packet->is_first_fragment))
		return FATE_MALFORMED;
	if (bytes < sizeof(udp) || !is_our_shim(&udp))
		return FATE_NO_SHIM;
	return raise_udp(skb, packet->transport, udp.shim, code, raised);
}

/* The fast way; FATES where a packet must go the long one. */
static inline enum fate stamp_plain(struct __sk_buff *skb, u16 code, u32 *raised)
{
	struct packet packet;
	/* Enough of TCP to see that ours is not behind its header; of UDP, all. */
	u8 *above = packet_find_plain(skb, &packet, TCP_HEADER_BYTES);
	u32 header_bytes;
	u16 old;

	if (!above)
		return FATES;
	if (packet.protocol == IP_UDP) {
		struct udp *udp = (void *)above;
		u32 bytes = bpf_ntohs(udp->bytes);

		if (bytes < sizeof(*udp) || bytes > packet.end - packet.transport)
			return FATES;
		return is_our_shim(udp) ? raise_udp(skb, packet.transport, udp->shim, code, raised) : FATE_NO_SHIM;
	}
	if (packet.protocol != IP_TCP)
		return FATES;
	header_bytes = (above[TCP_WORD_AT] >> 4) * 4U;
	if (header_bytes == TCP_HEADER_BYTES)
		return FATE_NO_OPTION;
	if (header_bytes < TCP_HEADER_BYTES + TIMESTAMPS_BYTES || header_bytes > packet.end - packet.transport)
		return FATES;
	above += TCP_HEADER_BYTES;
	if (above + TIMESTAMPS_BYTES > (u8 *)(unsigned long)skb->data_end || !is_timestamps(above))
		return FATES;
	if (header_bytes == TCP_HEADER_BYTES + TIMESTAMPS_BYTES)
		return FATE_NO_OPTION;
	if (header_bytes < TCP_HEADER_BYTES + TIMESTAMPS_BYTES + OPTION_BYTES ||
	    above + TIMESTAMPS_BYTES + OPTION_BYTES > (u8 *)(unsigned long)skb->data_end ||
	    !is_ours_here(above + TIMESTAMPS_BYTES))
		return FATES;
	old = bpf_ntohs(*(u16 *)(above + TIMESTAMPS_BYTES + OPTION_DELAY_AT));
	return raise_tcp(skb, packet.transport, TIMESTAMPS_BYTES, old, code, raised);
}

static inline enum fate stamp(struct __sk_buff *skb, u64 delay, u32 *raised)
{
	u16 code = delay >> 8 < 0xffff ? (u16)(delay >> 8) : 0xffff;
	struct packet packet = {};
	enum fate fate = stamp_plain(skb, code, raised);

	if (fate != FATES)
		return fate;
	switch (packet_find(skb, &packet)) {
	case PACKET_FOUND:
		break;
	case PACKET_NOT_IP:
		return FATE_NOT_IP;
	case PACKET_FRAGMENT:
		return FATE_FRAGMENT;
	case PACKET_OTHER_PROTOCOL:
		return FATE_OTHER_PROTOCOL;
	default:
		return FATE_MALFORMED;
	}
	if (packet.protocol == IP_TCP)
		return stamp_tcp(skb, &packet, code, raised);
	return stamp_udp(skb, &packet, code, raised);
}

SEC("tc")
int switch_egress(struct __sk_buff *skb)
{
	u32 key = 0, raised = 0, fate = FATE_SWITCHED_OFF;
	struct config *now = bpf_map_lookup_elem(&config, &key);
	struct stats *seen = bpf_map_lookup_elem(&stats, &key);
	u64 delay;

	if (!now || !seen)
		return TC_ACT_UNSPEC;
	delay = port_delay(port_backlog(skb), now->ns_per_mib);
	if (now->stamps)
		fate = stamp(skb, delay, &raised);
	if (fate < FATES)
		seen->fate[fate]++;
	seen->raised += raised;
	seen->delay_sum += delay;
	seen->bucket[port_bucket(delay) & (PORT_BUCKETS - 1)]++;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
