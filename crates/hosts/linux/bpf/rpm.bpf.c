// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * RPM, reverse path congestion marking: what CoDel would mark at a port is marked on the ACKs that come in by the same port, so that
 * the sender knows without waiting for the rest of the path and its receiver.
 *
 *            data ──> [ egress: CoDel hits ──> R_C[h(flow)]++ ] ── queue ──> wire
 *   sender                                         │                            receiver
 *            ACKs <── [ ingress: R_C[h(flow)]-- and ECE = 1   ] <─────────── wire
 *
 * Contract   egress writes ECN's two bits and IPv4's header checksum; ingress ECE and TCP's checksum. No other byte.
 * Who        TCP segments and UDP datagrams that are ECN-capable (ECT or CE). The paper has no such rule, since all its hosts speak
 *            ECN; a host that does not would ignore ECE, and the mark would be lost to the flow that could have used it.
 *            What cannot be marked on an ACK, because it is not TCP, is marked forward. So is a flow whose other direction has not
 *            been seen at this port for a second: its ACKs may take another way, and it must not be left without a signal
 *            (section III-C asks to check this; the simulator does it the same way).
 * When       CoDel decides when a packet is queued, on the delay that it will have (port.h), so earlier than at the end of the
 *            queue by just that delay. `behind` is what waits before the packet, not after it.
 * Which ACK  any segment with ACK and neither SYN nor RST: section V-A, both directions may carry data. A mark that no ACK has
 *            fetched within a second is forgotten.
 * AccECN     where it is negotiated ECE is part of a counter; keep this away from such hosts.
 * Source     RPM: section III, section V-A and algorithm 1
 */
#include "packet.h"

#include "codel.h"

enum direction {
	FORWARD = 0,          /* CE in the packet itself: CoDel-FWD, what RPM is compared with */
	REVERSE_PER_FLOW = 1, /* algorithm 1 */
	REVERSE_PER_PORT = 2, /* one counter: whichever ACK comes first */
};

/* What becomes of a packet, either way. src/rpm.rs has the same list. */
enum fate {
	/* egress */
	FATE_SPARED,
	FATE_MARKED_FORWARD,
	FATE_MARK_WAITS,
	FATE_NOT_ECN_CAPABLE,
	FATE_OTHER_OUT,     /* neither TCP nor UDP, a fragment, or not sound */
	FATE_NO_MEMORY_OUT, /* a hit, but the kernel could not make the packet writable */
	/* ingress */
	FATE_ACK_MARKED,
	FATE_ACK_PASSED,
	FATE_OTHER_IN,
	FATE_NO_MEMORY_IN, /* as above; its mark is lost */
	FATES,
};

struct config {
	u64 bits_per_second; /* for whoever asks later; only the next is computed with */
	u32 ns_per_mib;
	u32 direction; /* enum direction */
	u64 seed;      /* of the hash: so that nobody can choose flows that share a counter */
	u64 patience;  /* how long a mark waits for an ACK, and how long an ACK vouches for the next; 2^20 ns */
	struct codel_config codel;
};

struct bpf_spin_lock {
	u32 val;
};

struct queue {
	struct bpf_spin_lock lock;
	u32 unused;
	struct codel_memory memory;
};

struct stats {
	u64 fate[FATES];
	u64 forgotten; /* marks */
};

/*
 * R_C: 2^16 counters. One word each, so that it changes as a whole:
 *
 *   63     40 39     16 15      0      times are 2^20 ns and come round every 4.9 hours; zero for never
 *   +--------+---------+---------+
 *   | marked | seen    | waiting |      when the last mark came, when the other direction was last seen, marks that wait
 *   +--------+---------+---------+
 */
#define COUNTERS 65536
#define MOST_WAITING 0xffff
#define TIME_MASK 0xffffff
/* At a counter that other CPUs keep changing a program gives up: the mark goes forward, or waits for the next ACK. */
#define TRIES 4

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queue);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stats);
} stats SEC(".maps");

#define TCP_ECE 0x0040
#define TCP_ACK 0x0010
#define TCP_RST 0x0004
#define TCP_SYN 0x0002

static inline u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* h(5-tuple) of algorithm 1, lines 3 and 6: the counter of the flow, or of the flow that a packet acknowledges. */
static inline u64 *counter_of(struct __sk_buff *skb, const struct config *config, const struct packet *packet,
			      int is_answer)
{
	struct {
		u64 source[2];
		u64 destination[2];
	} address = {};
	struct {
		u16 source;
		u16 destination;
	} port;
	u64 hash = config->seed + packet->version;
	u32 key = 0;

	if (config->direction == REVERSE_PER_PORT)
		return bpf_map_lookup_elem(&counters, &key);
	if (packet->version == 4) {
		if (bpf_skb_load_bytes(skb, packet->network + 12, &address.source, 4) ||
		    bpf_skb_load_bytes(skb, packet->network + 16, &address.destination, 4))
			return 0;
	} else if (!packet_load(skb, packet->network + 8, &address)) {
		return 0;
	}
	if (!packet_load(skb, packet->transport, &port))
		return 0;
	hash = mix(hash, is_answer ? address.destination[0] : address.source[0]);
	hash = mix(hash, is_answer ? address.destination[1] : address.source[1]);
	hash = mix(hash, is_answer ? address.source[0] : address.destination[0]);
	hash = mix(hash, is_answer ? address.source[1] : address.destination[1]);
	hash = mix(hash, is_answer ? (u32)port.destination << 16 | port.source : (u32)port.source << 16 | port.destination);
	key = hash >> 48;
	return bpf_map_lookup_elem(&counters, &key);
}

static inline u32 marked_at(u64 word)
{
	return (u32)(word >> 40);
}

static inline u32 seen_at(u64 word)
{
	return (u32)(word >> 16) & TIME_MASK;
}

static inline u32 waiting(u64 word)
{
	return word & MOST_WAITING;
}

static inline u64 word_of(u32 marked, u32 seen, u32 waiting)
{
	return (u64)marked << 40 | (u64)seen << 16 | waiting;
}

/* Now, in the units of a counter. */
static inline u32 counter_time(u64 ns)
{
	u32 now = (u32)(ns >> 20) & TIME_MASK;

	return now ? now : 1;
}

static inline int is_longer_ago(u32 now, u32 then, u64 patience)
{
	return ((now - then) & TIME_MASK) > patience;
}

/* Line 4. Whether the mark waits now; not where no ACK may come for it, or too many wait. */
static inline int leave_mark(u64 *counter, u32 now, u64 patience)
{
	u64 old = *counter, found;

	for (int tried = 0; tried < TRIES; tried++) {
		u32 seen = seen_at(old);

		if (!seen || is_longer_ago(now, seen, patience) || waiting(old) == MOST_WAITING)
			return 0;
		found = __sync_val_compare_and_swap(counter, old, word_of(now, seen, waiting(old) + 1));
		if (found == old)
			return 1;
		old = found;
	}
	return 0;
}

/* Lines 7 and 9, and the other direction has been seen. Whether there was a mark to take; those that waited too long are gone. */
static inline int take_mark(u64 *counter, u32 now, u64 patience, int takes, u64 *forgotten)
{
	u64 old = *counter, found;

	for (int tried = 0; tried < TRIES; tried++) {
		u32 late = is_longer_ago(now, marked_at(old), patience) ? waiting(old) : 0;
		u32 left = waiting(old) - late;
		int took = takes && left;

		found = __sync_val_compare_and_swap(counter, old, word_of(marked_at(old), now, left - (u32)took));
		if (found == old) {
			*forgotten += late;
			return took;
		}
		old = found;
	}
	return 0;
}

/* CE in the packet itself. The kernel's own helper looks for the IP header where it is not, behind VLAN tags. */
static inline enum fate mark_forward(struct __sk_buff *skb, const struct packet *packet)
{
	u16 old, new, ce = packet->version == 4 ? 0x0003 : 0x0030;

	if (!packet_load(skb, packet->network, &old))
		return FATE_NO_MEMORY_OUT;
	new = old | bpf_htons(ce);
	/* First what lies further back: once this is writable the rest is too, so that both change or neither. */
	if (new != old && packet->version == 4 && bpf_l3_csum_replace(skb, packet->network + 10, old, new, sizeof(new)))
		return FATE_NO_MEMORY_OUT;
	if (new != old && bpf_skb_store_bytes(skb, packet->network, &new, sizeof(new), 0))
		return FATE_NO_MEMORY_OUT;
	return FATE_MARKED_FORWARD;
}

static inline enum fate out(struct __sk_buff *skb, const struct config *config, struct queue *queue)
{
	struct packet packet = {};
	struct codel_packet leaving;
	u32 backlog;
	u64 now, *counter;
	int hit;

	if (packet_find(skb, &packet) != PACKET_FOUND)
		return FATE_OTHER_OUT;
	if (!(packet.traffic_class & 3))
		return FATE_NOT_ECN_CAPABLE;
	now = bpf_ktime_get_ns();
	backlog = port_backlog(skb);
	leaving.now = now * 1000;
	leaving.waited = port_delay(backlog, config->ns_per_mib) * 1000;
	leaving.behind = backlog;
	bpf_spin_lock(&queue->lock);
	hit = codel_marks(&config->codel, &queue->memory, &leaving);
	bpf_spin_unlock(&queue->lock);
	if (!hit)
		return FATE_SPARED;
	if (config->direction == FORWARD || packet.protocol != IP_TCP)
		return mark_forward(skb, &packet);
	counter = counter_of(skb, config, &packet, 0);
	if (counter && leave_mark(counter, counter_time(now), config->patience))
		return FATE_MARK_WAITS;
	return mark_forward(skb, &packet);
}

static inline enum fate in(struct __sk_buff *skb, const struct config *config, u64 *forgotten)
{
	struct packet packet = {};
	u64 *counter;
	u16 flags, old, new;
	int is_ack;

	if (config->direction == FORWARD || packet_find(skb, &packet) != PACKET_FOUND || packet.protocol != IP_TCP)
		return FATE_OTHER_IN;
	if (!packet_tcp_header(skb, &packet, &flags))
		return FATE_OTHER_IN;
	is_ack = (flags & (TCP_ACK | TCP_SYN | TCP_RST)) == TCP_ACK;
	counter = counter_of(skb, config, &packet, 1);
	if (!counter || !take_mark(counter, counter_time(bpf_ktime_get_ns()), config->patience, is_ack, forgotten))
		return is_ack ? FATE_ACK_PASSED : FATE_OTHER_IN;
	/* Line 8. */
	old = bpf_htons(flags);
	new = bpf_htons(flags | TCP_ECE);
	if (new != old && bpf_l4_csum_replace(skb, packet.transport + TCP_CHECKSUM_AT, old, new, sizeof(new)))
		return FATE_NO_MEMORY_IN;
	if (new != old && bpf_skb_store_bytes(skb, packet.transport + TCP_WORD_AT, &new, sizeof(new), 0))
		return FATE_NO_MEMORY_IN;
	return FATE_ACK_MARKED;
}

SEC("tc")
int rpm_egress(struct __sk_buff *skb)
{
	u32 key = 0;
	struct config *now = bpf_map_lookup_elem(&config, &key);
	struct queue *waiting = bpf_map_lookup_elem(&queue, &key);
	struct stats *seen = bpf_map_lookup_elem(&stats, &key);
	u32 fate;

	if (!now || !waiting || !seen)
		return TC_ACT_UNSPEC;
	fate = out(skb, now, waiting);
	if (fate < FATES)
		seen->fate[fate]++;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int rpm_ingress(struct __sk_buff *skb)
{
	u32 key = 0, fate;
	struct config *now = bpf_map_lookup_elem(&config, &key);
	struct stats *seen = bpf_map_lookup_elem(&stats, &key);
	u64 forgotten = 0;

	if (!now || !seen)
		return TC_ACT_UNSPEC;
	fate = in(skb, now, &forgotten);
	if (fate < FATES)
		seen->fate[fate]++;
	seen->forgotten += forgotten;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
