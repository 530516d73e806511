/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Poseidon in C: adjusts the window to the largest hop delay.
 *
 * Model      on each ACK    rate   = window * MTU / rtt
 *                           target = T(rate)            falls as the rate rises      (Eq. 3)
 *                           step   = U(target, delay)   1 at the target              (Eq. 4)
 *            delay <= target  grow by (step - 1) per acknowledged packet
 *            delay >  target  shrink by the factor step, at most once per round trip
 *            in log2, both equations combine into one: poseidon_log_step()
 * Use        A flow takes 64 bytes, including constants. Rust computes the constants when the flow starts (`Flow` in
 *            the crate poseidon-linux), so this code reads no parameters. Then call poseidon_on_ack(), _on_loss() and
 *            _on_timeout(). After each call, `window` and poseidon_gap() give the decision.
 * Equal      bit for bit to the law in crates/core/laws/src/laws/poseidon.rs, which explains the design and the
 *            differences from the paper. tests/equal.rs compares the two after every step, natively and as BPF in the
 *            kernel.
 * Rules      of BPF: at most 64 bits, no floats, no loops, no signed division (mcpu=v3 has none), and table indices
 *            that the verifier can bound. This file uses no kernel types, only fixed-width integers from vmlinux.h or
 *            stdint.h.
 * Source     Wang et al., NSDI 2023: algorithms 1 and 2, equations 3 and 4, section 4.1
 * Left out   The targets inv-sqrt-rate and inv-sqrt-cwnd and the updates ratio and aimd: ablations of the paper, which
 *            the simulator runs. `Flow` refuses them. There is no is_congested(), because Linux has its own PLB.
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

/* The number of fractional bits in windows, logarithms and factors. */
#define POSEIDON_Q 24
/* 1.0 in this format. */
#define POSEIDON_ONE (1ULL << POSEIDON_Q)
/* Step bounds are stored with 12 fractional bits. This factor converts them to 24 fractional bits. */
#define POSEIDON_BOUND_UNIT (1 << (POSEIDON_Q - 12))
/* A delay that was not measured, which differs from an empty queue; or a cut that never happened. */
#define POSEIDON_UNKNOWN (~0ULL)

/* The gain of `steady`: an error of 1 ns in the delay moves the next packet by 0.5 ns. (1/2) / ln 2, q24. */
#define POSEIDON_STEADY_LOOP_GAIN 12102203ULL
/* How often a run of ACKs far below the target may double a step. More doublings would overflow 64 bits. */
#define POSEIDON_MAX_RUN 8
/* steady: the bound on log2 U. Its product with a fraction of at most one fits in 64 bits. */
#define POSEIDON_MAX_STEADY_STEP (1LL << 38)
/* strict_paper: growth by 2^16 exceeds the largest window, 2^15 packets, so larger steps have the same effect. */
#define POSEIDON_STRICT_MAX_STEP (16LL << POSEIDON_Q)
/* strict_paper: 2^-26 of the largest window is below the smallest window. */
#define POSEIDON_STRICT_MIN_STEP (-26LL * (1LL << POSEIDON_Q))

/* How the window moves towards the target. */
enum poseidon_update {
	POSEIDON_DISTANCE = 0, /* Eq. 4 */
	POSEIDON_STEADY = 1,   /* Eq. 4, with smaller steps below two packets per round trip; not in the paper */
};

/* The delay that is compared with the target. */
enum poseidon_signal {
	POSEIDON_MAX_HOP_DELAY = 0, /* the largest hop delay on the data path */
	POSEIDON_RTT = 1,           /* the queueing delay of the round trip */
	POSEIDON_BROWNFIELD = 2,    /* section 4.1: the largest hop delay, or the unreported delay if it is larger */
};

/* A flow. Times are in ns; q24 means 24 fractional bits. */
struct poseidon_flow {
	u64 window;      /* packets, q24; at most 2^15 packets */
	u64 last_cut;    /* on the host's clock; POSEIDON_UNKNOWN: never */
	u32 rtt;         /* the last raw RTT */
	s32 rate_offset; /* log2(max rate) - log2(one raw window unit per ns), q24 */
	u32 span;        /* A = log2(max/min), q24 */
	u32 weight;      /* m, q24; 0 for a fixed target */
	u32 floor;       /* k, the smallest target */
	u32 gain;        /* m*A/p, with 24 + gain_shift fractional bits; below 2^31 */
	u32 min_window;  /* packets, q24 */
	u32 base_rtt;    /* RTT of the unloaded path */
	s16 min_step;    /* log2 of the strongest cut, 12 fractional bits */
	s16 max_step;    /* log2 of the strongest growth, 12 fractional bits */
	u16 max_window;  /* whole packets */
	u8 gain_shift;   /* at most 62 */
	u8 timeouts;     /* consecutive timeouts */
	u8 reset_after;  /* consecutive timeouts that reset the window to the smallest */
	u8 update;       /* enum poseidon_update */
	u8 signal;       /* enum poseidon_signal */
	u8 strict_paper; /* no bounds on steps; grow even if the flow does not use its window */
	u8 run;          /* steady: consecutive ACKs far below the target */
	s8 jitter;       /* steady: offset of the next packet, in 1/256 of an RTT */
	u8 unused[2];
};

/* An ACK and its telemetry. */
struct poseidon_ack {
	u64 now;                   /* arrival time on the host's clock, ns; may wrap */
	u64 rtt;                   /* raw RTT of the acknowledged packet, ns; saturates at 4.29 s */
	u64 max_hop_delay;         /* on the data path, ns, or POSEIDON_UNKNOWN */
	u64 reverse_max_hop_delay; /* on the reverse path, ns, or POSEIDON_UNKNOWN */
	u32 packets;               /* newly acknowledged */
	u32 random;                /* uniformly distributed; only steady uses it */
	u8 app_limited;            /* less than half the window was in flight */
	u8 unused[7];
};

_Static_assert(sizeof(struct poseidon_flow) == 64, "a flow is 64 bytes");
_Static_assert(sizeof(struct poseidon_ack) == 48, "the struct has no padding");
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

/* Returns a - b, or zero if b is larger. */
static inline u64 poseidon_saturating_sub(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Saturates x at 32 bits, which is 4.29 s for a time in ns. */
static inline u32 poseidon_saturate_u32(u64 x)
{
	return (u32)poseidon_min(x, ~0U);
}

/* Returns log2 of x, q24. Zero counts as one. */
static inline s64 poseidon_log2(u64 x)
{
	u32 zeros, index;
	u64 mantissa, remainder, low, high;

	x = poseidon_max(x, 1);
	zeros = (u32)__builtin_clzll(x) & 63;
	/* The leading one moves to bit 63. The bits below are the fraction. */
	mantissa = x << zeros;
	index = (mantissa >> 55) & 255;
	remainder = (mantissa << 9) >> 32;
	low = poseidon_log2_table[index];
	high = poseidon_log2_table[index + 1];
	return (s64)(((u64)(63 - zeros) << POSEIDON_Q) + low + (((high - low) * remainder) >> 32));
}

/* Returns 2^(fraction of x): between one and two, q24. The integer part is x >> 24. */
static inline u64 poseidon_exp2_mantissa(s64 x)
{
	u64 fraction = (u64)x & (POSEIDON_ONE - 1);
	u32 index = (fraction >> 16) & 255;
	u64 low = poseidon_exp2_table[index];
	u64 high = poseidon_exp2_table[index + 1];

	return low + (((high - low) * (fraction & 0xffff)) >> 16);
}

/* Returns 2^x - 1 for x between zero and sixteen, q24. */
static inline u64 poseidon_growth(s64 x)
{
	return (poseidon_exp2_mantissa(x) << ((x >> POSEIDON_Q) & 63)) - POSEIDON_ONE;
}

/* Returns the gap between two packets at this RTT in ns, for windows below one packet. */
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

/* Multiplies the window by 2^step, with a negative step. 2^39 times a mantissa below 2^25 fits in 64 bits. */
static inline void poseidon_cut(struct poseidon_flow *flow, s64 step, u64 now)
{
	u64 product = flow->window * poseidon_exp2_mantissa(step);

	poseidon_shrink_to(flow, product >> ((POSEIDON_Q - (step >> POSEIDON_Q)) & 63), now);
}

/* Returns whether a round trip has passed since the last cut. The difference wraps with the clock. */
static inline int poseidon_may_cut(const struct poseidon_flow *flow, u64 now)
{
	return flow->last_cut == POSEIDON_UNKNOWN || now - flow->last_cut > flow->rtt;
}

/* Applies the strongest cut, at most once per round trip. */
static inline void poseidon_cut_fully(struct poseidon_flow *flow, u64 now)
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
		s64 max_step = (s64)flow->max_step * POSEIDON_BOUND_UNIT;

		poseidon_grow(flow, poseidon_growth(step < max_step ? step : max_step), ack);
	} else if (poseidon_may_cut(flow, ack->now)) {
		/* Line 7. */
		s64 min_step = (s64)flow->min_step * POSEIDON_BOUND_UNIT;

		poseidon_cut(flow, step > min_step ? step : min_step, ack->now);
	}
}

/* strict_paper: like poseidon_follow(), but the step is bounded only by the smallest and the largest window. */
static inline void poseidon_follow_unbounded(struct poseidon_flow *flow, s64 step, const struct poseidon_ack *ack)
{
	if (step >= 0) {
		/* An ACK covers at most the largest window. Less than 2^41 times 2^15 fits in 64 bits. */
		u64 growth = poseidon_growth(step < POSEIDON_STRICT_MAX_STEP ? step : POSEIDON_STRICT_MAX_STEP);
		u64 packets = poseidon_min(ack->packets, flow->max_window);

		flow->window = poseidon_min(flow->window + growth * packets, (u64)flow->max_window << POSEIDON_Q);
	} else if (poseidon_may_cut(flow, ack->now)) {
		poseidon_cut(flow, step > POSEIDON_STRICT_MIN_STEP ? step : POSEIDON_STRICT_MIN_STEP, ack->now);
	}
}

/* Returns the delay to compare with the target, at most 32 bits, or POSEIDON_UNKNOWN. */
static inline u64 poseidon_signal_delay(const struct poseidon_flow *flow, const struct poseidon_ack *ack)
{
	u64 queueing = poseidon_saturating_sub(ack->rtt, flow->base_rtt);
	u64 forward = ack->max_hop_delay, reverse = ack->reverse_max_hop_delay;

	if (flow->signal == POSEIDON_RTT)
		return poseidon_saturate_u32(queueing);
	if (flow->signal == POSEIDON_BROWNFIELD) {
		/* Section 4.1: the RTT that remains after propagation and the two largest hop delays is unreported. */
		forward = forward == POSEIDON_UNKNOWN ? 0 : forward;
		reverse = reverse == POSEIDON_UNKNOWN ? 0 : reverse;
		forward = poseidon_max(forward, poseidon_saturating_sub(poseidon_saturating_sub(queueing, forward), reverse));
	}
	return forward == POSEIDON_UNKNOWN ? forward : poseidon_saturate_u32(forward);
}

/* Returns log2(max/rate), clamped to [0, A], q24. */
static inline u64 poseidon_log_rate_ratio(const struct poseidon_flow *flow)
{
	s64 log_ratio = flow->rate_offset - poseidon_log2(flow->window) + poseidon_log2(flow->rtt);

	return (u64)poseidon_clamp(log_ratio, 0, flow->span);
}

/* Returns log2 U(T(rate), delay), Eq. 3 and 4, unbounded, q24. It is negative only if the delay exceeds the target. */
static inline s64 poseidon_log_step(const struct poseidon_flow *flow, u32 delay)
{
	/* At most m*A, below 2^7, with 48 fractional bits. */
	u64 rate_part = (poseidon_log_rate_ratio(flow) * flow->weight) >> POSEIDON_Q;
	s64 delay_part = ((s64)flow->floor - (s64)delay) * (s64)flow->gain;

	return (s64)rate_part + (delay_part >> (flow->gain_shift & 63));
}

/*
 * steady, below one packet: adapts the window to the RTT of this ACK, so that the pause after the ACK does not change.
 * Alg. 1 would change the pause by 1/window times the change in the RTT.
 */
static inline void poseidon_keep_pause(struct poseidon_flow *flow, u32 last_rtt)
{
	u64 gap;

	if (flow->window >= POSEIDON_ONE)
		return;
	gap = flow->rtt + poseidon_saturating_sub(poseidon_gap_at(flow, last_rtt), last_rtt);
	flow->window = poseidon_max(((u64)flow->rtt << POSEIDON_Q) / poseidon_max(gap, 1), flow->min_window);
}

/* steady: returns the fraction of log2 U that one ACK may apply, at most one, q24. */
static inline s64 poseidon_steady_fraction(const struct poseidon_flow *flow, int is_growing)
{
	u64 gap = poseidon_saturate_u32(poseidon_max(poseidon_gap_at(flow, flow->rtt), flow->rtt));
	/* The change in log2 U if the delay changes by the gap. Both factors have 32 bits. */
	u64 per_gap = (flow->gain * gap) >> (flow->gain_shift & 63);
	u64 max_gain = is_growing ? POSEIDON_STEADY_LOOP_GAIN << (flow->run & 15) : POSEIDON_STEADY_LOOP_GAIN;

	return (s64)poseidon_min((max_gain << POSEIDON_Q) / poseidon_max(per_gap, 1), POSEIDON_ONE);
}

/* steady: applies a fraction of log2 U, up below one packet and down below two packets; otherwise as in the paper. */
static inline void poseidon_follow_steadily(struct poseidon_flow *flow, s64 step, const struct poseidon_ack *ack)
{
	s64 partial, max_step = (s64)flow->max_step * POSEIDON_BOUND_UNIT;

	if (flow->window >= (step >= 0 ? POSEIDON_ONE : 2 * POSEIDON_ONE)) {
		flow->run = 0;
		poseidon_follow(flow, step, ack);
		return;
	}
	partial = poseidon_clamp(step, -POSEIDON_MAX_STEADY_STEP, POSEIDON_MAX_STEADY_STEP);
	partial = (partial * poseidon_steady_fraction(flow, step >= 0)) >> POSEIDON_Q;
	/* "Far below" is one doubling of the rate: m in log2 U. */
	if (step > (s64)flow->weight)
		flow->run = (u8)poseidon_min(flow->run + 1U, POSEIDON_MAX_RUN);
	else
		flow->run = 0;
	if (partial >= 0) {
		/* Below one packet, each ACK is a whole round trip: the factor is U. */
		u64 growth = poseidon_growth(partial < max_step ? partial : max_step);

		poseidon_grow(flow, (growth * flow->window) >> POSEIDON_Q, ack);
	} else {
		poseidon_follow(flow, partial, ack);
	}
}

/* Alg. 1, ReceiveACK. */
static inline void poseidon_on_ack(struct poseidon_flow *flow, const struct poseidon_ack *ack)
{
	u32 last_rtt = flow->rtt;
	u64 delay;
	s64 step;

	flow->rtt = poseidon_saturate_u32(ack->rtt);
	flow->timeouts = 0;
	if (flow->update == POSEIDON_STEADY) {
		poseidon_keep_pause(flow, last_rtt);
		flow->jitter = (s8)(ack->random >> 24);
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
	poseidon_cut_fully(flow, now);
}

/* Alg. 2, RetransmitTimeout. */
static inline void poseidon_on_timeout(struct poseidon_flow *flow, u64 now)
{
	flow->timeouts = (u8)poseidon_min(flow->timeouts + 1U, 255);
	if (flow->timeouts >= flow->reset_after)
		poseidon_shrink_to(flow, 0, now);
	else
		poseidon_cut_fully(flow, now);
}

/* Alg. 1, lines 18-24: returns the gap between packets in ns; 0 for windows of at least one packet (ACK-clocked). */
static inline u64 poseidon_gap(const struct poseidon_flow *flow)
{
	s64 offset, gap;

	if (flow->window >= POSEIDON_ONE)
		return 0;
	/* Only steady has jitter. */
	offset = ((s64)flow->rtt * flow->jitter) >> 8;
	gap = (s64)poseidon_gap_at(flow, flow->rtt) + offset;
	return gap > 0 ? (u64)gap : 0;
}

#endif
