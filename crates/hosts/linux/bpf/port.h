/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The queueing delay at a port of a Linux router, for programs at its egress.
 *
 *                            this hook
 *   packet ── routed to ──>  (clsact)  ──>  [ qdisc: backlog in bytes ]   ── rate ──> wire
 *
 *   delay = backlog / rate
 *
 * The qdisc counts its backlog, so there is no per-packet state and no drift, and dropped packets are not included. The
 * packet itself does not count: a hop's delay is the time from enqueue until the first bit leaves, as in the simulator
 * (crates/engines/sim/src/switch.rs) and in P4's deq_timedelta. A shaper takes the tokens for its head packet before it
 * sends the packet, so the backlog is about half a packet too small: 10 us at 100 Mbit/s.
 * Limits     Only the first transmit queue is read. This is correct if one qdisc serves all queues (TBF, HTB), but not
 *            below `mq`.
 */
#ifndef POSEIDON_PORT_H
#define POSEIDON_PORT_H

#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Kernel constants that the libbpf macros and the helpers need. */
enum {
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_F_MARK_MANGLED_0 = 1 << 5,
	/* Continue with the next filter. */
	TC_ACT_UNSPEC = -1,
};

/* The context of a program. Its layout is part of the kernel interface. */
struct __sk_buff {
	u32 len;
	u32 unused[18];
	u32 data; /* addresses of the linear part of the packet */
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

/* Returns the kernel's sk_buff. Requires Linux 6.2. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* A test can set the backlog before it loads the program. */
#define REAL_BACKLOG (~0U)
const volatile u32 test_backlog SEC(".rodata.test") = REAL_BACKLOG;

/* Returns the port's backlog in bytes. */
static inline u32 port_backlog(struct __sk_buff *skb)
{
	struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);

	if (test_backlog != REAL_BACKLOG)
		return test_backlog;
	return kernel_skb->dev->_tx->qdisc->qstats.backlog;
}

/* Returns the time in ns to send the backlog, rounded down. ns_per_mib avoids a division. The product fits in u64. */
static inline u64 port_delay(u32 backlog, u32 ns_per_mib)
{
	return ((u64)backlog * ns_per_mib) >> 20;
}

/* Four buckets per power of two; the last bucket is 7.5 s or more. The error of a percentile is at most a quarter. */
#define PORT_BUCKETS 128

/* Returns log2 of x > 0, rounded down. BPF has no instruction for log2, and clz compiles to three times the code. */
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
