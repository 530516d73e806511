/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Swift in C: a window per flow, with a delay target that grows with the path length and the number of flows.
 *
 * Model      target(w) = base + hops * per_hop + clamp(a / sqrt(w) + b, 0, range)
 *            delay < target   w += ai per window
 *            delay >= target  w *= max(1 - beta * (delay - target) / delay, 1 - max_mdf), once per round trip
 * Signals    the RTT of each ACK
 * Source     Kumar et al., SIGCOMM 2020; the basic law in crates/core/laws/src/laws/swift.rs, without the endpoint
 *            window and the VAI + SF mechanisms
 * Differs    Integers instead of doubles. Windows have 24 fractional bits. 1/sqrt(w) is computed as 2^(-log2(w)/2) with
 *            Poseidon's tables, with an error of 5e-6. Over traces of 400 random events, windows stay within 1e-4 of
 *            the Rust law (tests/peers.rs; 3e-5 measured), unless a delay equals the target. The number of hops is
 *            configured, not read from the TTL.
 * Rules      of BPF: see law.h
 */
#ifndef POSEIDON_SWIFT_H
#define POSEIDON_SWIFT_H

#include "law.h"

/* A flow, including constants. Times are in ns; q24 means 24 fractional bits. */
struct swift_flow {
	u64 window;         /* packets, q24; at most 2^15 packets */
	u64 last_cut;       /* on the host's clock; POSEIDON_UNKNOWN: never */
	u64 scaling_a;      /* the factor of flow scaling, ns; at most 2^32 */
	u64 scaling_b;      /* the offset of flow scaling, ns */
	u32 rtt;            /* the last raw RTT */
	u32 fixed_target;   /* base + hops * per_hop */
	u32 scaling_range;  /* the largest flow scaling */
	u32 increase;       /* ai, packets, q24; at most 16 */
	u32 beta;           /* q24; at most one */
	u32 strongest_cut;  /* 1 - max_mdf, q24 */
	u32 min_window;     /* packets, q24 */
	u16 max_window;     /* whole packets */
	u8 reset_after;     /* consecutive timeouts that reset the window to the smallest */
	u8 timeouts;        /* consecutive timeouts */
};

_Static_assert(sizeof(struct swift_flow) == 64, "the struct has no padding");

static inline void swift_set(struct swift_flow *flow, u64 window, u64 now)
{
	window = poseidon_max(poseidon_min(window, (u64)flow->max_window << POSEIDON_Q), flow->min_window);
	if (window < flow->window)
		flow->last_cut = now;
	flow->window = window;
}

/* Returns 1/sqrt(window), q24: between 2^-7.5 and 2^5 for valid windows. */
static inline u64 swift_inverse_root(u64 window)
{
	s64 log = ((s64)(POSEIDON_Q << POSEIDON_Q) - poseidon_log2(window)) >> 1;
	s64 whole = log >> POSEIDON_Q;
	u64 mantissa = poseidon_exp2_mantissa(log);

	return whole >= 0 ? mantissa << (whole & 31) : mantissa >> (-whole & 31);
}

static inline u64 swift_target(const struct swift_flow *flow)
{
	/* At most 2^32 times 2^29. */
	u64 scaled = (flow->scaling_a * swift_inverse_root(flow->window)) >> POSEIDON_Q;
	u64 scaling = poseidon_min(poseidon_saturating_sub(scaled, flow->scaling_b), flow->scaling_range);

	return flow->fixed_target + scaling;
}

/* Returns whether a round trip has passed since the last cut. Poseidon requires more than one round trip. */
static inline int swift_may_cut(const struct swift_flow *flow, u64 now, u32 rtt)
{
	return flow->last_cut == POSEIDON_UNKNOWN || now - flow->last_cut >= rtt;
}

static inline void swift_on_ack(struct swift_flow *flow, u64 now, u64 raw_rtt, u32 packets, int app_limited)
{
	u64 delay = poseidon_max(poseidon_saturate_u32(raw_rtt), 1);
	u64 target = swift_target(flow);

	flow->timeouts = 0;
	flow->rtt = (u32)delay;
	if (delay < target) {
		/* ai per window, or per packet below one packet. 28 bits times 11 bits, shifted by 24, fit in 64 bits. */
		u64 acked = poseidon_min(packets, 1 << 11);
		u64 grown = ((u64)flow->increase * acked << POSEIDON_Q) / poseidon_max(flow->window, POSEIDON_ONE);

		if (!app_limited)
			swift_set(flow, flow->window + grown, now);
	} else if (swift_may_cut(flow, now, (u32)delay)) {
		/* 24 bits times 32 bits. */
		u64 excess = flow->beta * (delay - target) / delay;
		u64 factor = poseidon_max(poseidon_saturating_sub(POSEIDON_ONE, excess), flow->strongest_cut);

		flow->last_cut = now;
		swift_set(flow, (flow->window * factor) >> POSEIDON_Q, now);
	}
}

/* Applies the strongest cut, at most once per round trip. */
static inline void swift_cut_once(struct swift_flow *flow, u64 now)
{
	if (swift_may_cut(flow, now, flow->rtt))
		swift_set(flow, (flow->window * flow->strongest_cut) >> POSEIDON_Q, now);
}

static inline void swift_on_loss(struct swift_flow *flow, u64 now)
{
	flow->timeouts = 0;
	swift_cut_once(flow, now);
}

static inline void swift_on_timeout(struct swift_flow *flow, u64 now)
{
	flow->timeouts = (u8)poseidon_min(flow->timeouts + 1U, 255);
	if (flow->timeouts >= flow->reset_after)
		swift_set(flow, flow->min_window, now);
	else
		swift_cut_once(flow, now);
}

/* Returns the gap between packets in ns; 0 for windows of at least one packet. */
static inline u64 swift_gap(const struct swift_flow *flow)
{
	return flow->window >= POSEIDON_ONE ? 0 : ((u64)flow->rtt << POSEIDON_Q) / poseidon_max(flow->window, 1);
}

#endif
