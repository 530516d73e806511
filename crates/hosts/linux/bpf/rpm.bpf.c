// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * RPM, reverse path congestion marking: the router moves CoDel's marks from data packets to the ACKs that return
 * through the same port. The sender thus receives the marks without the delay of the remaining path and the receiver.
 *
 *            data ──> [ egress: CoDel marks ─> R_C[h(flow)]++ ] ── queue ──> wire
 *   sender                                         │                            receiver
 *            ACKs <── [ ingress: R_C[h(flow)]-- and ECE = 1   ] <─────────── wire
 *
 * Contract   Egress writes the ECN bits and the IPv4 header checksum; ingress writes ECE and the TCP checksum. No other
 *            byte changes.
 * Who        ECN-capable TCP segments and UDP datagrams (ECT or CE). The paper has no such rule, since all its hosts
 *            use ECN. A host without ECN would ignore ECE, and another flow would miss the mark. UDP has no ACKs, so
 *            datagrams are marked forward. A flow whose reverse direction was not seen at this port for a second is
 *            also marked forward: its ACKs may take another path, and it must receive a signal (section III-C asks for
 *            this check, which the simulator also performs).
 * When       CoDel decides when a packet is queued, based on its predicted delay (port.h). A decision at the head of
 *            the queue would come later by that delay. `queue_len` is the backlog before the packet, not after it.
 * Which ACK  Any segment with ACK but without SYN or RST, because both directions may carry data (section V-A). A
 *            stored mark expires after a second without an ACK.
 * AccECN     uses ECE as part of a counter; do not use RPM with such hosts.
 * Source     RPM: section III, section V-A and algorithm 1
 */
#include "packet.h"

#include "codel.h"

enum direction {
	FORWARD = 0,          /* CE in the packet itself: CoDel-FWD, the baseline */
	REVERSE_PER_FLOW = 1, /* algorithm 1 */
	REVERSE_PER_PORT = 2, /* one counter: the next ACK of any flow */
};

/* The possible outcomes for a packet. src/rpm.rs has the same list. */
enum outcome {
	/* egress */
	OUTCOME_UNMARKED,
	OUTCOME_MARKED_FORWARD,
	OUTCOME_MARK_STORED,
	OUTCOME_NOT_ECN_CAPABLE,
	OUTCOME_OTHER_OUT,     /* neither TCP nor UDP, a fragment, or malformed */
	OUTCOME_NO_MEMORY_OUT, /* to be marked, but the kernel could not make the packet writable */
	/* ingress */
	OUTCOME_ACK_MARKED,
	OUTCOME_ACK_UNMARKED,
	OUTCOME_OTHER_IN,
	OUTCOME_NO_MEMORY_IN, /* the kernel could not make the ACK writable; the mark is lost */
	OUTCOMES,
};

struct config {
	u64 bits_per_second; /* for the status; the programs use ns_per_mib */
	u32 ns_per_mib;
	u32 direction; /* enum direction */
	u64 seed;      /* hash seed, so that an attacker cannot choose flows that share a counter */
	u64 mark_lifetime; /* how long a mark waits for an ACK, and an ACK proves the reverse path; units of 2^20 ns */
	struct codel_config codel;
};

struct bpf_spin_lock {
	u32 val;
};

struct queue {
	struct bpf_spin_lock lock;
	u32 unused;
	struct codel_state state;
};

struct stats {
	u64 outcome[OUTCOMES];
	u64 expired; /* expired marks */
};

/*
 * R_C: 2^16 counters. Each counter is one word, so that updates are atomic:
 *
 *   63     40 39     16 15      0      times are in 2^20 ns and wrap after 4.9 hours; zero means never
 *   +--------+---------+---------+
 *   | marked | seen    | stored  |      time of the last mark, time of the last packet in reverse, stored marks
 *   +--------+---------+---------+
 */
#define COUNTERS 65536
#define MAX_STORED 0xffff
#define TIME_MASK 0xffffff
/* After this many conflicts with other CPUs, the packet is marked forward, or the mark waits for the next ACK. */
#define MAX_ATTEMPTS 4

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

static inline u64 hash_word(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* h(5-tuple) in algorithm 1, lines 3 and 6: the counter of the flow, or of the reverse flow for an ACK. */
static inline u64 *counter_of(struct __sk_buff *skb, const struct config *config, const struct packet *packet,
			      int is_reverse)
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
	hash = hash_word(hash, is_reverse ? address.destination[0] : address.source[0]);
	hash = hash_word(hash, is_reverse ? address.destination[1] : address.source[1]);
	hash = hash_word(hash, is_reverse ? address.source[0] : address.destination[0]);
	hash = hash_word(hash, is_reverse ? address.source[1] : address.destination[1]);
	hash = hash_word(hash, is_reverse ? (u32)port.destination << 16 | port.source : (u32)port.source << 16 | port.destination);
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

static inline u32 stored_marks(u64 word)
{
	return word & MAX_STORED;
}

static inline u64 word_of(u32 marked, u32 seen, u32 stored)
{
	return (u64)marked << 40 | (u64)seen << 16 | stored;
}

/* Converts a time to counter units. */
static inline u32 counter_time(u64 ns)
{
	u32 now = (u32)(ns >> 20) & TIME_MASK;

	return now ? now : 1;
}

static inline int is_older(u32 now, u32 then, u64 mark_lifetime)
{
	return ((now - then) & TIME_MASK) > mark_lifetime;
}

/* Line 4. Stores a mark. Fails if no ACK is expected, or if too many marks are stored. */
static inline int store_mark(u64 *counter, u32 now, u64 mark_lifetime)
{
	u64 old = *counter, found;

	for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
		u32 seen = seen_at(old);

		if (!seen || is_older(now, seen, mark_lifetime) || stored_marks(old) == MAX_STORED)
			return 0;
		found = __sync_val_compare_and_swap(counter, old, word_of(now, seen, stored_marks(old) + 1));
		if (found == old)
			return 1;
		old = found;
	}
	return 0;
}

/*
 * Lines 7 and 9. Records that the reverse direction was seen, drops expired marks, and returns whether it took a mark.
 */
static inline int take_mark(u64 *counter, u32 now, u64 mark_lifetime, int may_take, u64 *expired)
{
	u64 old = *counter, found;

	for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
		u32 expired_marks = is_older(now, marked_at(old), mark_lifetime) ? stored_marks(old) : 0;
		u32 remaining = stored_marks(old) - expired_marks;
		int taken = may_take && remaining;

		found = __sync_val_compare_and_swap(counter, old, word_of(marked_at(old), now, remaining - (u32)taken));
		if (found == old) {
			*expired += expired_marks;
			return taken;
		}
		old = found;
	}
	return 0;
}

/* Sets CE in the packet. The kernel's helper does not find the IP header after VLAN tags. */
static inline enum outcome mark_forward(struct __sk_buff *skb, const struct packet *packet)
{
	u16 old, new, ce = packet->version == 4 ? 0x0003 : 0x0030;

	if (!packet_load(skb, packet->network, &old))
		return OUTCOME_NO_MEMORY_OUT;
	new = old | bpf_htons(ce);
	/* Write the later field first: if it is writable, so is the earlier field. Both change, or neither does. */
	if (new != old && packet->version == 4 && bpf_l3_csum_replace(skb, packet->network + 10, old, new, sizeof(new)))
		return OUTCOME_NO_MEMORY_OUT;
	if (new != old && bpf_skb_store_bytes(skb, packet->network, &new, sizeof(new), 0))
		return OUTCOME_NO_MEMORY_OUT;
	return OUTCOME_MARKED_FORWARD;
}

static inline enum outcome process_egress(struct __sk_buff *skb, const struct config *config, struct queue *queue)
{
	struct packet packet = {};
	struct codel_packet departure;
	u32 backlog;
	u64 now, *counter;
	int is_marked;

	if (packet_find(skb, &packet) != PACKET_FOUND)
		return OUTCOME_OTHER_OUT;
	if (!(packet.traffic_class & 3))
		return OUTCOME_NOT_ECN_CAPABLE;
	now = bpf_ktime_get_ns();
	backlog = port_backlog(skb);
	departure.now = now * 1000;
	departure.sojourn_time = port_delay(backlog, config->ns_per_mib) * 1000;
	departure.queue_len = backlog;
	bpf_spin_lock(&queue->lock);
	is_marked = codel_marks(&config->codel, &queue->state, &departure);
	bpf_spin_unlock(&queue->lock);
	if (!is_marked)
		return OUTCOME_UNMARKED;
	if (config->direction == FORWARD || packet.protocol != IP_TCP)
		return mark_forward(skb, &packet);
	counter = counter_of(skb, config, &packet, 0);
	if (counter && store_mark(counter, counter_time(now), config->mark_lifetime))
		return OUTCOME_MARK_STORED;
	return mark_forward(skb, &packet);
}

static inline enum outcome process_ingress(struct __sk_buff *skb, const struct config *config, u64 *expired)
{
	struct packet packet = {};
	u64 *counter;
	u16 flags, old, new;
	int is_ack;

	if (config->direction == FORWARD || packet_find(skb, &packet) != PACKET_FOUND || packet.protocol != IP_TCP)
		return OUTCOME_OTHER_IN;
	if (!packet_tcp_header(skb, &packet, &flags))
		return OUTCOME_OTHER_IN;
	is_ack = (flags & (TCP_ACK | TCP_SYN | TCP_RST)) == TCP_ACK;
	counter = counter_of(skb, config, &packet, 1);
	if (!counter || !take_mark(counter, counter_time(bpf_ktime_get_ns()), config->mark_lifetime, is_ack, expired))
		return is_ack ? OUTCOME_ACK_UNMARKED : OUTCOME_OTHER_IN;
	/* Line 8. */
	old = bpf_htons(flags);
	new = bpf_htons(flags | TCP_ECE);
	if (new != old && bpf_l4_csum_replace(skb, packet.transport + TCP_CHECKSUM_OFFSET, old, new, sizeof(new)))
		return OUTCOME_NO_MEMORY_IN;
	if (new != old && bpf_skb_store_bytes(skb, packet.transport + TCP_WORD_OFFSET, &new, sizeof(new), 0))
		return OUTCOME_NO_MEMORY_IN;
	return OUTCOME_ACK_MARKED;
}

SEC("tc")
int rpm_egress(struct __sk_buff *skb)
{
	u32 key = 0;
	struct config *settings = bpf_map_lookup_elem(&config, &key);
	struct queue *state = bpf_map_lookup_elem(&queue, &key);
	struct stats *counts = bpf_map_lookup_elem(&stats, &key);
	u32 outcome;

	if (!settings || !state || !counts)
		return TC_ACT_UNSPEC;
	outcome = process_egress(skb, settings, state);
	if (outcome < OUTCOMES)
		counts->outcome[outcome]++;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int rpm_ingress(struct __sk_buff *skb)
{
	u32 key = 0, outcome;
	struct config *settings = bpf_map_lookup_elem(&config, &key);
	struct stats *counts = bpf_map_lookup_elem(&stats, &key);
	u64 expired = 0;

	if (!settings || !counts)
		return TC_ACT_UNSPEC;
	outcome = process_ingress(skb, settings, &expired);
	if (outcome < OUTCOMES)
		counts->outcome[outcome]++;
	counts->expired += expired;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
