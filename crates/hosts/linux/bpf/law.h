/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Poseidon in C: windows steered by the worst hop.
 *
 * Model      on each ACK    rate   = window * MTU / rtt
 *                           target = T(rate)            falls as the rate rises      (Eq. 3)
 *                           step   = U(target, delay)   1 at the target              (Eq. 4)
 *            delay <= target  grow by (step - 1) per acknowledged packet
 *            delay >  target  shrink by the factor step, at most once per round trip
 *            in log2 both equations are one line: poseidon_log_step()
 * Life       a flow is 64 bytes, constants included. Rust computes them when the flow starts (`Flow` of the crate
 *            poseidon-linux), so that nothing here reads a parameter. Then poseidon_on_ack(), _on_loss(), _on_timeout();
 *            after each, `window` and poseidon_gap() are the decision.
 * Equal      bit for bit the law of crates/core/laws/src/laws/poseidon.rs, which has the reasons and the differences from
 *            the paper. tests/equal.rs holds the two together after every step, natively and in the kernel's BPF.
 * Rules      BPF's: 64 bits at most, no float, no loop, no signed division (mcpu=v3 has none), table indices that
 *            the verifier can see are bounded. Nothing of the kernel: only fixed-width integers, from vmlinux.h or stdint.h.
 * Source     Wang et al., NSDI 2023: algorithms 1 and 2, equations 3 and 4, section 4.1
 * Left out   the targets inv-sqrt-rate and inv-sqrt-cwnd and the updates ratio and aimd: ablations of the paper's
 *            evaluation, which the simulator runs. `Flow` refuses them. Nor is there is_congested(): Linux has a PLB of its own.
 */
#ifndef POSEIDON_LAW_H
#define POSEIDON_LAW_H

#if !defined(__VMLINUX_H__) && !defined(__KERNEL__)
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#endif

#include "tables.h"

/* Fractional bits of windows, logarithms and factors. */
#define POSEIDON_Q 24
/* One in that format: one packet, a factor of one, a logarithm of one. */
#define POSEIDON_ONE (1ULL << POSEIDON_Q)
/* A bound of a step has 12 fractional bits in the flow: multiplied by this it has 24. */
#define POSEIDON_BOUND_UNIT (1 << (POSEIDON_Q - 12))
/* A delay that nobody measured, which is not an empty queue; a cut that never was. As a time it is 584 years. */
#define POSEIDON_UNKNOWN (~0ULL)

/* What `steady` lets one ACK do: a delay 1 ns off moves the next packet by 0.5 ns. 1/2 / ln 2, 24 fractional bits. */
#define POSEIDON_HALF 12102203ULL
/* The most often that a run of ACKs far below the target doubles a step: with more, a product would not fit 64 bits. */
#define POSEIDON_LONGEST_RUN 8
/* The farthest step up or down before a part is taken of it, log2: times a fraction of at most one it fits 64 bits. */
#define POSEIDON_FARTHEST (1LL << 38)
/* strict_paper: one packet of growth by 2^16 is above the largest window, 2^15 packets; a larger step does the same. */
#define POSEIDON_STRICT_UP (16LL << POSEIDON_Q)
/* strict_paper: 2^-26 of the largest window is below the smallest that parameters allow. */
#define POSEIDON_STRICT_DOWN (-26LL * (1LL << POSEIDON_Q))

/* How the window moves towards the target. */
enum poseidon_update {
	POSEIDON_DISTANCE = 0, /* Eq. 4 */
	POSEIDON_STEADY = 1,   /* Eq. 4, and calm below two packets per round trip; not the paper's */
};

/* Which delay is held against the target. */
enum poseidon_signal {
	POSEIDON_MAX_HOP_DELAY = 0, /* of the worst hop on the data path */
	POSEIDON_RTT = 1,           /* all queueing of the round trip */
	POSEIDON_BROWNFIELD = 2,    /* section 4.1: the worst hop, or what no hop reported if that is more */
};

/* One flow. Times are ns; q24 is 24 fractional bits. */
struct poseidon_flow {
	u64 window;      /* packets, q24; at most 2^15 packets */
	u64 last_cut;    /* on the host's clock; POSEIDON_UNKNOWN: never */
	u32 rtt;         /* the last raw one */
	s32 rate_offset; /* log2(max rate) - log2(one raw window unit per ns), q24 */
	u32 span;        /* A = log2(max/min), q24 */
	u32 weight;      /* m, q24; 0 where the target is fixed */
	u32 floor;       /* k, the smallest target */
	u32 gain;        /* m*A/p, with 24 + gain_shift fractional bits; below 2^31 */
	u32 min_window;  /* packets, q24 */
	u32 base_rtt;    /* of the unloaded path */
	s16 min_step;    /* log2 of the strongest cut, 12 fractional bits */
	s16 max_step;    /* log2 of the strongest growth, 12 fractional bits */
	u16 max_window;  /* whole packets */
	u8 gain_shift;   /* at most 62 */
	u8 timeouts;     /* in a row */
	u8 reset_after;  /* so many timeouts in a row: the window is the smallest */
	u8 update;       /* enum poseidon_update */
	u8 signal;       /* enum poseidon_signal */
	u8 strict_paper; /* steps without bounds; grow even when the flow does not use its window */
	u8 run;          /* steady: ACKs in a row far below the target */
	s8 jitter;       /* steady: the next packet is early or late by so many 256ths of an RTT */
	u8 unused[2];
};

/* An ACK and what it carried. */
struct poseidon_ack {
	u64 now;                   /* when it came, on the host's clock, ns; may wrap */
	u64 rtt;                   /* raw, of the packet it acknowledges, ns; counts as 4.29 s where it is longer */
	u64 max_hop_delay;         /* of the worst hop on the data path, ns, or POSEIDON_UNKNOWN */
	u64 reverse_max_hop_delay; /* of the worst hop on the way back, ns, or POSEIDON_UNKNOWN */
	u32 packets;               /* newly acknowledged */
	u32 chance;                /* fresh and uniformly random; only steady reads it */
	u8 app_limited;            /* less than half the window was in flight */
	u8 unused[7];
};

_Static_assert(sizeof(struct poseidon_flow) == 64, "a flow is 64 bytes");
_Static_assert(sizeof(struct poseidon_ack) == 48, "no padding that the compiler chose");
_Static_assert((-1LL >> 1) == -1LL, "a right shift keeps the sign, as in Rust");

static inline u64 poseidon_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 poseidon_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline s64 poseidon_clamp(s64 x, s64 low, s64 high)
{
	return x < low ? low : x > high ? high : x;
}

/* The difference, or zero where it would be negative. */
static inline u64 poseidon_minus(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Saturates at 32 bits: 4.29 s for a time, beyond any datacenter's. */
static inline u32 poseidon_low_32(u64 x)
{
	return (u32)poseidon_min(x, ~0U);
}

/* log2 of x, q24. Zero has no logarithm; it is read as one. */
static inline s64 poseidon_log2(u64 x)
{
	u32 zeros, index;
	u64 mantissa, rest, left, right;

	x = poseidon_max(x, 1);
	zeros = (u32)__builtin_clzll(x) & 63;
	/* The leading one moves to bit 63; what follows is the fraction. */
	mantissa = x << zeros;
	index = (mantissa >> 55) & 255;
	rest = (mantissa << 9) >> 32;
	left = poseidon_log2_table[index];
	right = poseidon_log2_table[index + 1];
	return (s64)(((u64)(63 - zeros) << POSEIDON_Q) + left + (((right - left) * rest) >> 32));
}

/* 2^x without its whole power of two, which is x >> 24: between one and two, q24. */
static inline u64 poseidon_exp2_mantissa(s64 x)
{
	u64 fraction = (u64)x & (POSEIDON_ONE - 1);
	u32 index = (fraction >> 16) & 255;
	u64 left = poseidon_exp2_table[index];
	u64 right = poseidon_exp2_table[index + 1];

	return left + (((right - left) * (fraction & 0xffff)) >> 16);
}

/* 2^x - 1 for x between zero and sixteen, q24. */
static inline u64 poseidon_growth(s64 x)
{
	return (poseidon_exp2_mantissa(x) << ((x >> POSEIDON_Q) & 63)) - POSEIDON_ONE;
}

/* Between two packets, for windows below one, at this RTT: ns. */
static inline u64 poseidon_gap_at(const struct poseidon_flow *flow, u32 rtt)
{
	return ((u64)rtt << POSEIDON_Q) / poseidon_max(flow->window, 1);
}

/* Alg. 1, lines 18-20. */
static inline void poseidon_shrink_to(struct poseidon_flow *flow, u64 window, u64 now)
{
	window = poseidon_max(window, flow->min_window);
	if (window < flow->window)
		flow->last_cut = now;
	flow->window = window;
}

/* Multiplies the window by 2^step, a step below zero. 2^39 times a mantissa below 2^25 fits 64 bits. */
static inline void poseidon_cut(struct poseidon_flow *flow, s64 step, u64 now)
{
	u64 product = flow->window * poseidon_exp2_mantissa(step);

	poseidon_shrink_to(flow, product >> ((POSEIDON_Q - (step >> POSEIDON_Q)) & 63), now);
}

/* Whether a round trip has passed since the last cut. The difference wraps with the clock. */
static inline int poseidon_may_cut(const struct poseidon_flow *flow, u64 now)
{
	return flow->last_cut == POSEIDON_UNKNOWN || now - flow->last_cut > flow->rtt;
}

/* The strongest cut, if the gate is open. */
static inline void poseidon_strongest_cut(struct poseidon_flow *flow, u64 now)
{
	if (poseidon_may_cut(flow, now))
		poseidon_cut(flow, (s64)flow->min_step * POSEIDON_BOUND_UNIT, now);
}

/* Adds `growth` (q24, below 2^28) per acknowledged packet; Alg. 1, line 18. */
static inline void poseidon_grow(struct poseidon_flow *flow, u64 growth, const struct poseidon_ack *ack)
{
	if (ack->app_limited && !flow->strict_paper)
		return;
	flow->window = poseidon_min(flow->window + growth * ack->packets, (u64)flow->max_window << POSEIDON_Q);
}

/* Moves the window by log2 U: up with each ACK, down at most once per round trip. */
static inline void poseidon_follow(struct poseidon_flow *flow, s64 step, const struct poseidon_ack *ack)
{
	if (step >= 0) {
		/* Line 5: window * (1 + (U - 1)/window * acked). */
		s64 most = (s64)flow->max_step * POSEIDON_BOUND_UNIT;

		poseidon_grow(flow, poseidon_growth(step < most ? step : most), ack);
	} else if (poseidon_may_cut(flow, ack->now)) {
		/* Line 7. */
		s64 least = (s64)flow->min_step * POSEIDON_BOUND_UNIT;

		poseidon_cut(flow, step > least ? step : least, ack->now);
	}
}

/* strict_paper: the same by all of log2 U; only the smallest and the largest window bound it. */
static inline void poseidon_follow_unbounded(struct poseidon_flow *flow, s64 step, const struct poseidon_ack *ack)
{
	if (step >= 0) {
		/* No ACK is for more packets than the largest window. Below 2^41 times 2^15 fits 64 bits. */
		u64 growth = poseidon_growth(step < POSEIDON_STRICT_UP ? step : POSEIDON_STRICT_UP);
		u64 packets = poseidon_min(ack->packets, flow->max_window);

		flow->window = poseidon_min(flow->window + growth * packets, (u64)flow->max_window << POSEIDON_Q);
	} else if (poseidon_may_cut(flow, ack->now)) {
		poseidon_cut(flow, step > POSEIDON_STRICT_DOWN ? step : POSEIDON_STRICT_DOWN, ack->now);
	}
}

/* The delay that is held against the target, at most 32 bits; POSEIDON_UNKNOWN where nothing is known. */
static inline u64 poseidon_signal_delay(const struct poseidon_flow *flow, const struct poseidon_ack *ack)
{
	u64 queueing = poseidon_minus(ack->rtt, flow->base_rtt);
	u64 forward = ack->max_hop_delay, reverse = ack->reverse_max_hop_delay;

	if (flow->signal == POSEIDON_RTT)
		return poseidon_low_32(queueing);
	if (flow->signal == POSEIDON_BROWNFIELD) {
		/* Section 4.1: what the RTT holds beyond propagation and the two worst hops was not reported. */
		forward = forward == POSEIDON_UNKNOWN ? 0 : forward;
		reverse = reverse == POSEIDON_UNKNOWN ? 0 : reverse;
		forward = poseidon_max(forward, poseidon_minus(poseidon_minus(queueing, forward), reverse));
	}
	return forward == POSEIDON_UNKNOWN ? forward : poseidon_low_32(forward);
}

/* log2(max/rate), held within [0, A], q24. */
static inline u64 poseidon_behind(const struct poseidon_flow *flow)
{
	s64 behind = flow->rate_offset - poseidon_log2(flow->window) + poseidon_log2(flow->rtt);

	return (u64)poseidon_clamp(behind, 0, flow->span);
}

/* log2 U(T(rate), delay), Eq. 3 and 4 in one line, unbounded; at least zero when the delay is at most the target. q24. */
static inline s64 poseidon_log_step(const struct poseidon_flow *flow, u32 delay)
{
	/* At most m*A, below 2^7, with 48 fractional bits. */
	u64 rate_part = (poseidon_behind(flow) * flow->weight) >> POSEIDON_Q;
	s64 delay_part = ((s64)flow->floor - (s64)delay) * (s64)flow->gain;

	return (s64)rate_part + (delay_part >> (flow->gain_shift & 63));
}

/*
 * steady, below one packet: writes the window anew for the RTT of this ACK, so that the flow waits as long after it as
 * after the last one. Alg. 1 stretches the wait with the RTT, by 1/window times what the RTT has changed.
 */
static inline void poseidon_keep_wait(struct poseidon_flow *flow, u32 last_rtt)
{
	u64 gap;

	if (flow->window >= POSEIDON_ONE)
		return;
	gap = flow->rtt + poseidon_minus(poseidon_gap_at(flow, last_rtt), last_rtt);
	flow->window = poseidon_max(((u64)flow->rtt << POSEIDON_Q) / poseidon_max(gap, 1), flow->min_window);
}

/* steady: how much of log2 U one ACK may move the window by: at most all, q24. */
static inline s64 poseidon_part(const struct poseidon_flow *flow, int grows)
{
	u64 gap = poseidon_low_32(poseidon_max(poseidon_gap_at(flow, flow->rtt), flow->rtt));
	/* By how much log2 U moves when the delay moves by the gap: both factors have 32 bits. */
	u64 per_gap = (flow->gain * gap) >> (flow->gain_shift & 63);
	u64 most = grows ? POSEIDON_HALF << (flow->run & 15) : POSEIDON_HALF;

	return (s64)poseidon_min((most << POSEIDON_Q) / poseidon_max(per_gap, 1), POSEIDON_ONE);
}

/* steady: moves the window by a part of log2 U: up below one packet, down below two. Otherwise as the paper does. */
static inline void poseidon_follow_steadily(struct poseidon_flow *flow, s64 step, const struct poseidon_ack *ack)
{
	s64 part, most = (s64)flow->max_step * POSEIDON_BOUND_UNIT;

	if (flow->window >= (step >= 0 ? POSEIDON_ONE : 2 * POSEIDON_ONE)) {
		flow->run = 0;
		poseidon_follow(flow, step, ack);
		return;
	}
	part = poseidon_clamp(step, -POSEIDON_FARTHEST, POSEIDON_FARTHEST);
	part = (part * poseidon_part(flow, step >= 0)) >> POSEIDON_Q;
	/* Far is one doubling of the rate: m in log2 U. */
	if (step > (s64)flow->weight)
		flow->run = (u8)poseidon_min(flow->run + 1U, POSEIDON_LONGEST_RUN);
	else
		flow->run = 0;
	if (part >= 0) {
		/* Below one packet each ACK is a round of its own: a factor U. */
		u64 growth = poseidon_growth(part < most ? part : most);

		poseidon_grow(flow, (growth * flow->window) >> POSEIDON_Q, ack);
	} else {
		poseidon_follow(flow, part, ack);
	}
}

/* Alg. 1, ReceiveACK. */
static inline void poseidon_on_ack(struct poseidon_flow *flow, const struct poseidon_ack *ack)
{
	u32 last_rtt = flow->rtt;
	u64 delay;
	s64 step;

	flow->rtt = poseidon_low_32(ack->rtt);
	flow->timeouts = 0;
	if (flow->update == POSEIDON_STEADY) {
		poseidon_keep_wait(flow, last_rtt);
		flow->jitter = (s8)(ack->chance >> 24);
	}
	delay = poseidon_signal_delay(flow, ack);
	if (delay == POSEIDON_UNKNOWN)
		return;
	step = poseidon_log_step(flow, (u32)delay);
	if (flow->update == POSEIDON_STEADY)
		poseidon_follow_steadily(flow, step, ack);
	else if (flow->strict_paper)
		poseidon_follow_unbounded(flow, step, ack);
	else
		poseidon_follow(flow, step, ack);
}

/* Alg. 2, FastRecovery: once per recovery, not once per lost packet. */
static inline void poseidon_on_loss(struct poseidon_flow *flow, u64 now)
{
	flow->timeouts = 0;
	poseidon_strongest_cut(flow, now);
}

/* Alg. 2, RetransmitTimeout. */
static inline void poseidon_on_timeout(struct poseidon_flow *flow, u64 now)
{
	flow->timeouts = (u8)poseidon_min(flow->timeouts + 1U, 255);
	if (flow->timeouts >= flow->reset_after)
		poseidon_shrink_to(flow, 0, now);
	else
		poseidon_strongest_cut(flow, now);
}

/* Alg. 1, lines 18-24: ns between the starts of two packets, one in flight; 0 from one packet on, where ACKs clock the flow. */
static inline u64 poseidon_gap(const struct poseidon_flow *flow)
{
	s64 early_or_late, gap;

	if (flow->window >= POSEIDON_ONE)
		return 0;
	/* Zero but for steady. */
	early_or_late = ((s64)flow->rtt * flow->jitter) >> 8;
	gap = (s64)poseidon_gap_at(flow, flow->rtt) + early_or_late;
	return gap > 0 ? (u64)gap : 0;
}

#endif
