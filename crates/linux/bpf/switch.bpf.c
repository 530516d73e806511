// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * A switch with in-band telemetry: at the egress of a port it writes how long a packet will wait there, if that is more than
 * every hop before it wrote. Listing 1 of Poseidon (NSDI 2023), in a Linux router.
 *
 *   TCP   | kind 253 | 8 | 0x5053 | max_hop_delay | echo |      crates/wire/src/tcp_option.rs
 *                                   ^^^^^^^^^^^^^
 *   UDP   | ver 1, X D P | int_hops | max_hop_delay |           crates/wire/src/shim.rs; destination port 65053
 *                          ^^^^^^^^   ^^^^^^^^^^^^^
 *
 * Contract   what is underlined and the checksum over it; no other byte of any packet is written, and none at all where the
 *            option or the shim is not whole and ours. tests/switch.rs sends it 10^6 hostile packets.
 * Delay      port.h. One step is 256 ns, rounded down; 0xffff is 16.777 ms or more (the paper's cast would wrap).
 * Checksums  bpf_l4_csum_replace is right for finished checksums and for those that a NIC will finish. Only it knows which.
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

static inline enum fate stamp_tcp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct walk walk = {};
	u32 header_bytes, option;
	u16 word, old, new;

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
	option = packet->transport + TCP_HEADER_BYTES + walk.at;
	old = (u16)(walk.options[walk.at + OPTION_DELAY_AT] << 8 | walk.options[walk.at + OPTION_DELAY_AT + 1]);
	if (code <= old)
		return FATE_TCP_STAMPED;
	old = bpf_htons(old);
	new = bpf_htons(code);
	/* First what lies further back: once this is writable the checksum is too, so that both change or neither. */
	if (bpf_skb_store_bytes(skb, option + OPTION_DELAY_AT, &new, sizeof(new), 0))
		return FATE_NO_MEMORY;
	bpf_l4_csum_replace(skb, packet->transport + TCP_CHECKSUM_AT, swap_if(walk.at & 1, old),
			    swap_if(walk.at & 1, new), sizeof(new));
	*raised = 1;
	return FATE_TCP_STAMPED;
}

static inline enum fate stamp_udp(struct __sk_buff *skb, const struct packet *packet, u16 code, u32 *raised)
{
	struct {
		u16 source, destination, bytes, checksum;
		struct shim shim;
	} udp;
	struct shim old;
	u32 here = packet->end - packet->transport, bytes;

	if (here < sizeof(udp))
		return here < SHIM_AT ? FATE_MALFORMED : FATE_NO_SHIM;
	if (!packet_load(skb, packet->transport, &udp))
		return FATE_MALFORMED;
	bytes = bpf_ntohs(udp.bytes);
	/* A first fragment says how long all fragments are together. */
	if (bytes < SHIM_AT || (bytes > here && !packet->is_first_fragment))
		return FATE_MALFORMED;
	if (bytes < sizeof(udp) || bpf_ntohs(udp.destination) != SHIM_PORT || udp.shim.flags >> 4 != 1)
		return FATE_NO_SHIM;
	if (udp.shim.flags & SHIM_FROZEN)
		return FATE_FROZEN;
	old = udp.shim;
	udp.shim.max_hop_delay = bpf_htons(larger(code, bpf_ntohs(old.max_hop_delay)));
	if (old.int_hops != 0xff)
		udp.shim.int_hops++;
	/* As in TCP; zero stays "no checksum", and a sum of zero is sent as 0xffff. */
	if (bpf_skb_store_bytes(skb, packet->transport + SHIM_AT, &udp.shim, sizeof(udp.shim), 0))
		return FATE_NO_MEMORY;
	bpf_l4_csum_replace(skb, packet->transport + UDP_CHECKSUM_AT, *(u32 *)&old, *(u32 *)&udp.shim,
			    BPF_F_MARK_MANGLED_0 | sizeof(u32));
	*raised = code > bpf_ntohs(old.max_hop_delay);
	return FATE_UDP_STAMPED;
}

static inline enum fate stamp(struct __sk_buff *skb, u64 delay, u32 *raised)
{
	u16 code = delay >> 8 < 0xffff ? (u16)(delay >> 8) : 0xffff;
	struct packet packet = {};

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
