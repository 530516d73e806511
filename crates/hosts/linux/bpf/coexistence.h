/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Coexistence in C: a Poseidon flow keeps its share when it competes with flows that fill the buffer.
 *
 * Model      delay      the law decides
 *            compete    slow start, then the Reno-friendly growth and reductions of RFC 9438
 *            yield      one packet in flight, to test whether the queue drains; if so, no other flow fills it
 * Equal      bit for bit to crates/core/laws/src/coexistence.rs, which explains the design. tests/coexistence.rs
 *            compares the two.
 * Rules      as in law.h.
 */
#ifndef POSEIDON_COEXISTENCE_H
#define POSEIDON_COEXISTENCE_H

#include "law.h"

/* Numbers of round trips. The Rust version explains them. */
#define COEXISTENCE_ROUNDS_BEFORE_COMPETING 32
#define COEXISTENCE_YIELD_INTERVAL 48
#define COEXISTENCE_MIN_YIELD_SPACING 16
#define COEXISTENCE_YIELD_DURATION 6
/* A queue has fallen if it is more than an eighth below its peak. */
#define COEXISTENCE_FALL_SHIFT 3
/* A buffer is full if the delay is at most a quarter below the ceiling. */
#define COEXISTENCE_FULL_SHIFT 2
/* The growth per round trip and the reduction factor of RFC 9438, q24. */
#define COEXISTENCE_ADDITIVE_INCREASE 8881943ULL
#define COEXISTENCE_CUT_FACTOR 11744051ULL
/* Windows, packets q24. */
#define COEXISTENCE_MIN_WINDOW (2 * POSEIDON_ONE)
#define COEXISTENCE_MAX_WINDOW (POSEIDON_ONE << 15)
/* Without a queue, one loss per this many packets, plus a few additional losses, needs no reaction. */
#define COEXISTENCE_TOLERATED_LOSS_RATIO 32
#define COEXISTENCE_TOLERATED_EXTRA_LOSSES 2
/* Counts are halved after this many delivered packets. */
#define COEXISTENCE_LOSS_COUNT_WINDOW 1024

enum coexistence_mode {
	COEXISTENCE_DELAY = 0,
	COEXISTENCE_COMPETE = 1,
	COEXISTENCE_YIELD = 2,
};

/* A flow's state. Times are in ns on the host's clock. */
struct coexistence {
	u64 window;     /* packets, q24, in compete mode */
	u64 threshold;  /* below this window, the window doubles every round trip */
	u64 since;      /* delay: last time within the limit; compete: end of the last yield; yield: its start */
	u64 last_cut;   /* when the window was last cut */
	u64 last_above; /* when the delay was last above the limit */
	u64 round_began; /* start of the current round trip */
	u32 rtt;        /* of the last ACK; in yield mode, of the ACK that started it */
	u32 round_peak; /* the largest delay of the current round trip */
	u32 peak;       /* the largest delay since the last cut or yield */
	u32 ceiling;    /* the largest delay since the flow started to compete: the delay of a full buffer */
	u32 delay;      /* the last delay */
	u32 delivered;
	u32 lost;
	u32 episodes;   /* how often the flow started to compete */
	u8 mode;        /* enum coexistence_mode */
	u8 within_target;     /* the last delay was at or below the target */
	u8 unused[6];
};

/* The inputs from an ACK. */
struct coexistence_ack {
	u64 now;
	u64 rtt;
	u64 delay;      /* the delay that the law compares with its target */
	u64 limit;      /* a delay above this limit is caused by other flows */
	u64 law_window; /* packets, q24 */
	u32 packets;    /* newly acknowledged */
	u32 lost;       /* newly detected losses */
	u8 is_marked;
	u8 app_limited;
	u8 within_target;
	u8 unused[5];
};

_Static_assert(sizeof(struct coexistence) == 88, "the struct has no padding");
_Static_assert(sizeof(struct coexistence_ack) == 56, "the struct has no padding");

static inline void coexistence_start(struct coexistence *flow, u64 now)
{
	flow->window = COEXISTENCE_MIN_WINDOW;
	flow->threshold = COEXISTENCE_MAX_WINDOW;
	flow->since = flow->last_cut = flow->last_above = flow->round_began = now;
	flow->rtt = flow->round_peak = flow->peak = flow->ceiling = flow->delay = flow->delivered = flow->lost = flow->episodes = 0;
	flow->mode = COEXISTENCE_DELAY;
	flow->within_target = 0;
}

/* Returns whether more than `round_trips` round trips have passed. The difference wraps with the clock. */
static inline int coexistence_has_passed(const struct coexistence *flow, u64 since, u64 now, u32 round_trips)
{
	return now - since > (u64)flow->rtt * round_trips;
}

static inline void coexistence_reset_peak(struct coexistence *flow, u64 now)
{
	flow->peak = flow->round_peak = 0;
	flow->round_began = now;
}

/* Returns whether a round trip has ended in which all delays were more than an eighth below the peak. */
static inline int coexistence_has_fallen(struct coexistence *flow, u64 now, u32 delay)
{
	int has_fallen;

	flow->round_peak = (u32)poseidon_max(flow->round_peak, delay);
	if (!coexistence_has_passed(flow, flow->round_began, now, 1))
		return 0;
	flow->peak = (u32)poseidon_max(flow->peak, flow->round_peak);
	has_fallen = flow->round_peak < flow->peak - (flow->peak >> COEXISTENCE_FALL_SHIFT);
	flow->round_began = now;
	flow->round_peak = 0;
	return has_fallen;
}

static inline void coexistence_compete(struct coexistence *flow, const struct coexistence_ack *ack)
{
	flow->mode = COEXISTENCE_COMPETE;
	flow->episodes = poseidon_saturate_u32(flow->episodes + 1ULL);
	/* Slow start ends at the window of the last episode, or at the first loss. */
	flow->threshold = flow->episodes == 1 ? COEXISTENCE_MAX_WINDOW : flow->window;
	flow->window = poseidon_min(poseidon_max(ack->law_window, COEXISTENCE_MIN_WINDOW), flow->threshold);
	flow->since = flow->last_cut = ack->now;
	flow->ceiling = poseidon_saturate_u32(ack->delay);
	coexistence_reset_peak(flow, ack->now);
}

static inline void coexistence_follow_law(struct coexistence *flow, u64 now)
{
	flow->mode = COEXISTENCE_DELAY;
	flow->since = now;
}

/* Grows the window: slow start, then COEXISTENCE_ADDITIVE_INCREASE per round trip. */
static inline void coexistence_grow(struct coexistence *flow, const struct coexistence_ack *ack)
{
	u64 packets = poseidon_min(ack->packets, 1 << 15);
	u64 growth;

	if (ack->app_limited)
		return;
	if (flow->window < flow->threshold)
		growth = packets << POSEIDON_Q;
	else
		growth = ((COEXISTENCE_ADDITIVE_INCREASE * packets) << POSEIDON_Q) / poseidon_max(flow->window, 1);
	flow->window = poseidon_min(flow->window + growth, COEXISTENCE_MAX_WINDOW);
}

/* Reduces the window, at most once per round trip. */
static inline void coexistence_cut(struct coexistence *flow, u64 now)
{
	if (!coexistence_has_passed(flow, flow->last_cut, now, 1))
		return;
	flow->window = poseidon_max((flow->window * (COEXISTENCE_CUT_FACTOR >> 8)) >> (POSEIDON_Q - 8), COEXISTENCE_MIN_WINDOW);
	flow->threshold = flow->window;
	flow->last_cut = now;
	coexistence_reset_peak(flow, now);
}

static inline void coexistence_count(struct coexistence *flow, const struct coexistence_ack *ack)
{
	flow->delivered = poseidon_saturate_u32((u64)flow->delivered + ack->packets);
	flow->lost = poseidon_saturate_u32((u64)flow->lost + ack->lost);
	if (flow->delivered >= COEXISTENCE_LOSS_COUNT_WINDOW) {
		flow->delivered /= 2;
		flow->lost /= 2;
	}
}

static inline void coexistence_on_ack(struct coexistence *flow, const struct coexistence_ack *ack)
{
	u32 delay = poseidon_saturate_u32(ack->delay);
	int is_above = ack->delay > ack->limit;

	flow->delay = delay;
	coexistence_count(flow, ack);
	flow->within_target = ack->within_target;
	if (flow->mode != COEXISTENCE_YIELD)
		flow->rtt = (u32)poseidon_max(poseidon_saturate_u32(ack->rtt), 1);
	if (is_above)
		flow->last_above = ack->now;
	if (flow->mode == COEXISTENCE_DELAY) {
		/* An application-limited flow does not back off, so its queue is no evidence of other flows. */
		if (!is_above || ack->app_limited)
			flow->since = ack->now;
		else if (coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_ROUNDS_BEFORE_COMPETING))
			coexistence_compete(flow, ack);
	} else if (flow->mode == COEXISTENCE_COMPETE) {
		int queue_fell;

		flow->ceiling = (u32)poseidon_max(flow->ceiling, delay);
		if (ack->is_marked)
			coexistence_cut(flow, ack->now);
		else
			coexistence_grow(flow, ack);
		queue_fell = coexistence_has_fallen(flow, ack->now, delay) &&
			coexistence_has_passed(flow, flow->last_cut, ack->now, 2) &&
			coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_MIN_YIELD_SPACING);
		if (coexistence_has_passed(flow, flow->last_above, ack->now, 1)) {
			coexistence_follow_law(flow, ack->now);
		} else if (queue_fell || coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_YIELD_INTERVAL)) {
			flow->mode = COEXISTENCE_YIELD;
			flow->since = ack->now;
		}
	} else {
		if (coexistence_has_passed(flow, flow->last_above, ack->now, 1)) {
			coexistence_follow_law(flow, ack->now);
		} else if (coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_YIELD_DURATION)) {
			flow->mode = COEXISTENCE_COMPETE;
			flow->since = ack->now;
			flow->threshold = flow->window;
			coexistence_reset_peak(flow, ack->now);
		}
	}
}

static inline int coexistence_loss_rate_is_high(const struct coexistence *flow)
{
	return flow->lost > COEXISTENCE_TOLERATED_EXTRA_LOSSES + flow->delivered / COEXISTENCE_TOLERATED_LOSS_RATIO;
}

/* Handles fast recovery. Returns whether the law must react. */
static inline int coexistence_on_loss(struct coexistence *flow, u64 now)
{
	if (flow->mode == COEXISTENCE_DELAY)
		return !flow->within_target || coexistence_loss_rate_is_high(flow);
	if (flow->mode == COEXISTENCE_COMPETE) {
		if (flow->delay >= flow->ceiling - (flow->ceiling >> COEXISTENCE_FULL_SHIFT) || coexistence_loss_rate_is_high(flow))
			coexistence_cut(flow, now);
		else
			flow->ceiling -= flow->ceiling >> COEXISTENCE_FALL_SHIFT;
	}
	return 1;
}

/* Handles a retransmission timeout. */
static inline void coexistence_on_timeout(struct coexistence *flow, u64 now)
{
	if (flow->mode == COEXISTENCE_DELAY)
		return;
	flow->mode = COEXISTENCE_COMPETE;
	flow->threshold = poseidon_max(flow->window / 2, COEXISTENCE_MIN_WINDOW);
	flow->window = COEXISTENCE_MIN_WINDOW;
	flow->last_cut = now;
	coexistence_reset_peak(flow, now);
}

/* Returns the window in packets, q24. In delay mode, this is `law_window`. */
static inline u64 coexistence_window(const struct coexistence *flow, u64 law_window)
{
	if (flow->mode == COEXISTENCE_DELAY)
		return law_window;
	return flow->mode == COEXISTENCE_COMPETE ? flow->window : POSEIDON_ONE;
}

/* Returns the gap between packets in ns. In delay mode, this is `law_gap`. */
static inline u64 coexistence_gap(const struct coexistence *flow, u64 law_gap)
{
	u64 per_packet;

	if (flow->mode == COEXISTENCE_DELAY)
		return law_gap;
	if (flow->mode == COEXISTENCE_YIELD)
		return flow->rtt;
	per_packet = ((u64)flow->rtt << POSEIDON_Q) / poseidon_max(flow->window, 1);
	return per_packet - (flow->window < flow->threshold ? per_packet / 2 : per_packet / 5);
}

#endif
