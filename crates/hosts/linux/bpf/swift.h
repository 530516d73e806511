/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Swift in C: one window per flow, held to a delay target that grows with the path and with the number of flows.
 *
 * Model      target(w) = base + hops * per_hop + clamp(a / sqrt(w) + b, 0, range)
 *            delay < target   w += ai per window
 *            delay >= target  w *= max(1 - beta * (delay - target) / delay, 1 - max_mdf), once per round trip
 * Signals    the RTT of each ACK
 * Source     Kumar et al., SIGCOMM 2020; crates/core/laws/src/laws/swift.rs, whose first law this is: without the endpoint window and
 *            without the mechanisms of VAI + SF
 * Differs    Integers for doubles. Windows have 24 fractional bits. 1/sqrt(w) is 2^(-log2(w)/2) by the tables of Poseidon's law,
 *            within 5e-6 of it. Over lives of 400 random events windows stay within 1e-4 of the law in Rust (tests/peers.rs; 3e-5
 *            seen), unless a delay lies on the very edge of the target. The number of hops is set and not read from the TTL.
 * Rules      BPF's: see law.h
 */
#ifndef POSEIDON_SWIFT_H
#define POSEIDON_SWIFT_H

#include "law.h"

/* One flow, constants included. Times are ns; q24 is 24 fractional bits. */
struct swift_flow {
	u64 window;         /* packets, q24; at most 2^15 packets */
	u64 last_cut;       /* on the host's clock; POSEIDON_UNKNOWN: never */
	u64 scaling_a;      /* of flow scaling, ns; at most 2^32 */
	u64 scaling_b;      /* what is taken from it, ns */
	u32 rtt;            /* the last raw one */
	u32 fixed_target;   /* base + hops * per_hop */
	u32 scaling_range;  /* the most of flow scaling */
	u32 increase;       /* ai, packets, q24; at most 16 */
	u32 beta;           /* q24; at most one */
	u32 strongest_cut;  /* 1 - max_mdf, q24 */
	u32 min_window;     /* packets, q24 */
	u16 max_window;     /* whole packets */
	u8 reset_after;     /* so many timeouts in a row: the window is the smallest */
	u8 timeouts;        /* in a row */
};

_Static_assert(sizeof(struct swift_flow) == 64, "no padding that the compiler chose");

static inline void swift_set(struct swift_flow *flow, u64 window, u64 now)
{
	window = poseidon_max(poseidon_min(window, (u64)flow->max_window << POSEIDON_Q), flow->min_window);
	if (window < flow->window)
		flow->last_cut = now;
	flow->window = window;
}

/* 1/sqrt(window), q24: between 2^-7.5 and 2^5 for windows that the law allows. */
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
	u64 scaling = poseidon_min(poseidon_minus(scaled, flow->scaling_b), flow->scaling_range);

	return flow->fixed_target + scaling;
}

/* Whether a round trip has passed since the last cut; Poseidon wants more than one. */
static inline int swift_may_cut(const struct swift_flow *flow, u64 now, u32 rtt)
{
	return flow->last_cut == POSEIDON_UNKNOWN || now - flow->last_cut >= rtt;
}

static inline void swift_on_ack(struct swift_flow *flow, u64 now, u64 raw_rtt, u32 packets, int app_limited)
{
	u64 delay = poseidon_max(poseidon_low_32(raw_rtt), 1);
	u64 target = swift_target(flow);

	flow->timeouts = 0;
	flow->rtt = (u32)delay;
	if (delay < target) {
		/* ai per window of packets, or per packet below one. 28 bits times 11, shifted by 24, fit 64. */
		u64 acked = poseidon_min(packets, 1 << 11);
		u64 grown = ((u64)flow->increase * acked << POSEIDON_Q) / poseidon_max(flow->window, POSEIDON_ONE);

		if (!app_limited)
			swift_set(flow, flow->window + grown, now);
	} else if (swift_may_cut(flow, now, (u32)delay)) {
		/* 24 bits times 32. */
		u64 excess = flow->beta * (delay - target) / delay;
		u64 factor = poseidon_max(poseidon_minus(POSEIDON_ONE, excess), flow->strongest_cut);

		flow->last_cut = now;
		swift_set(flow, (flow->window * factor) >> POSEIDON_Q, now);
	}
}

/* The strongest cut, at most once per round trip. */
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

/* ns between the starts of two packets, one in flight; 0 from one packet on. */
static inline u64 swift_gap(const struct swift_flow *flow)
{
	return flow->window >= POSEIDON_ONE ? 0 : ((u64)flow->rtt << POSEIDON_Q) / poseidon_max(flow->window, 1);
}

#endif
