/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A port of a Linux router, as programs at its egress see it: how long what they are handed now will wait.
 *
 *                            this hook
 *   packet ── routed to ──>  (clsact)  ──>  [ qdisc: so many bytes wait ] ── rate ──> wire
 *
 *   delay = bytes that wait / rate
 *
 * The bytes are the qdisc's own count: no state per packet, no drift, and what is dropped is not in it. The packet itself does
 * not count: a hop's delay is the time from when a packet is queued to when its first bit leaves, as the simulator stamps it
 * (crates/engines/sim/src/switch.rs) and as P4's deq_timedelta has it. A shaper pays for its head packet before it sends it, so the
 * count is about half a packet short: 10 us at 100 Mbit/s.
 * Limits     the first transmit queue stands for the port: right where one qdisc serves all (TBF, HTB), wrong below `mq`.
 */
#ifndef POSEIDON_PORT_H
#define POSEIDON_PORT_H

#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* What libbpf's macros and the helpers want of the kernel's enums. */
enum {
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_F_MARK_MANGLED_0 = 1 << 5,
	/* On to whatever else is attached here. */
	TC_ACT_UNSPEC = -1,
};

/* What a program is handed; its layout is the kernel's promise. */
struct __sk_buff {
	u32 len;
	u32 between[18];
	u32 data; /* what of the packet lies in one piece: both are addresses */
	u32 data_end;
};

#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct gnet_stats_queue {
	u32 backlog;
} KERNEL_STRUCT;

struct Qdisc {
	struct gnet_stats_queue qstats;
} KERNEL_STRUCT;

struct netdev_queue {
	struct Qdisc *qdisc;
} KERNEL_STRUCT;

struct net_device {
	struct netdev_queue *_tx;
} KERNEL_STRUCT;

struct sk_buff {
	struct net_device *dev;
} KERNEL_STRUCT;

/* The packet as the kernel has it, of which every field can be read. Linux 6.2. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* Bytes that a test says wait, set before loading; otherwise those that do. */
#define THE_REAL_QUEUE (~0U)
const volatile u32 pretended_backlog SEC(".rodata.test") = THE_REAL_QUEUE;

/* Bytes that wait in the port's queue. */
static inline u32 port_backlog(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);

	if (pretended_backlog != THE_REAL_QUEUE)
		return pretended_backlog;
	return kernel->dev->_tx->qdisc->qstats.backlog;
}

/* ns until so many bytes are sent, rounded down. The rate is ns per 2^20 bytes: neither division nor, in 64 bits, overflow. */
static inline u64 port_delay(u32 backlog, u32 ns_per_mib)
{
	return ((u64)backlog * ns_per_mib) >> 20;
}

/* Delays are counted in four buckets per power of two, the last being 7.5 s or more: a quantile is right to a fifth. */
#define PORT_BUCKETS 128

/* Of what is not zero, rounded down. BPF has no instruction for it, and what a compiler makes of clz takes three times as many. */
static inline u32 port_log2(u64 x)
{
	u32 log = 0;

	for (u32 step = 32; step; step /= 2) {
		if (x >> step) {
			x >>= step;
			log += step;
		}
	}
	return log;
}

static inline u32 port_bucket(u64 delay)
{
	u32 octave, bucket;

	if (delay < 4)
		return (u32)delay;
	octave = port_log2(delay);
	bucket = (octave - 1) * 4 + ((u32)(delay >> ((octave - 2) & 63)) & 3);
	return bucket < PORT_BUCKETS ? bucket : PORT_BUCKETS - 1;
}

#endif
