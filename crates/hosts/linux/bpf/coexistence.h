/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Coexistence in C: how a flow under Poseidon keeps its share beside flows that fill the buffer.
 *
 * Model      delay      the law decides
 *            compete    slow start, then the Reno-friendly growth and cuts of RFC 9438
 *            yield      one packet in flight, to see whether the queue drains: then nobody else fills it
 * Equal      bit for bit crates/core/laws/src/parts/coexistence.rs, which has the reasons; tests/coexistence.rs holds the two together.
 * Rules      those of law.h.
 */
#ifndef POSEIDON_COEXISTENCE_H
#define POSEIDON_COEXISTENCE_H

#include "law.h"

/* Round trips: see the constants of the same names in Rust. */
#define COEXISTENCE_PATIENCE 32
#define COEXISTENCE_YIELD_EVERY 48
#define COEXISTENCE_QUIET 16
#define COEXISTENCE_YIELD_FOR 6
/* A queue has fallen when it is below its peak by more than an eighth. */
#define COEXISTENCE_FALL_SHIFT 3
/* A buffer is full when the delay is below the ceiling by no more than a quarter. */
#define COEXISTENCE_FULL_SHIFT 2
/* RFC 9438's growth per round trip and what a cut leaves, q24. */
#define COEXISTENCE_GROWTH 8881943ULL
#define COEXISTENCE_CUT 11744051ULL
/* Windows, packets q24. */
#define COEXISTENCE_SMALLEST (2 * POSEIDON_ONE)
#define COEXISTENCE_LARGEST (POSEIDON_ONE << 15)
/* So many packets per loss, and so many losses more, need no answer while there is no queue. */
#define COEXISTENCE_TOLERATED 32
#define COEXISTENCE_TOLERATED_MORE 2
/* Counts are halved when so many packets have been delivered. */
#define COEXISTENCE_COUNTED 1024

enum coexistence_mode {
	COEXISTENCE_DELAY = 0,
	COEXISTENCE_COMPETE = 1,
	COEXISTENCE_YIELD = 2,
};

/* One flow. Times are ns on the host's clock. */
struct coexistence {
	u64 window;     /* packets, q24, while it competes */
	u64 threshold;  /* below it the window doubles per round trip */
	u64 since;      /* delay: the delay was last within the limit; compete: the last yield ended; yield: it began */
	u64 last_cut;   /* when the window was last cut */
	u64 last_above; /* when the delay was last above the limit */
	u64 round_began; /* when the present round trip began */
	u32 rtt;        /* of the last ACK; of the one that began the yield */
	u32 round_peak; /* the largest delay of the present round trip */
	u32 peak;       /* the largest of a round trip since the last cut or yield */
	u32 ceiling;    /* the same since it began to compete: that of the full buffer */
	u32 delay;      /* the last one */
	u32 delivered;
	u32 lost;
	u32 episodes;   /* how often it began to compete */
	u8 mode;        /* enum coexistence_mode */
	u8 within_target;     /* the last delay was at or below the target */
	u8 unused[6];
};

/* What one ACK tells. */
struct coexistence_ack {
	u64 now;
	u64 rtt;
	u64 delay;      /* that the law holds against its target */
	u64 limit;      /* above it the queue belongs to somebody else */
	u64 law_window; /* packets, q24 */
	u32 packets;    /* newly acknowledged */
	u32 lost;       /* newly found lost */
	u8 is_marked;
	u8 app_limited;
	u8 within_target;
	u8 unused[5];
};

_Static_assert(sizeof(struct coexistence) == 88, "no padding that the compiler chose");
_Static_assert(sizeof(struct coexistence_ack) == 56, "no padding that the compiler chose");

static inline void coexistence_start(struct coexistence *flow, u64 now)
{
	flow->window = COEXISTENCE_SMALLEST;
	flow->threshold = COEXISTENCE_LARGEST;
	flow->since = flow->last_cut = flow->last_above = flow->round_began = now;
	flow->rtt = flow->round_peak = flow->peak = flow->ceiling = flow->delay = flow->delivered = flow->lost = flow->episodes = 0;
	flow->mode = COEXISTENCE_DELAY;
	flow->within_target = 0;
}

/* Whether more than so many round trips have passed. The difference wraps with the clock. */
static inline int coexistence_has_passed(const struct coexistence *flow, u64 since, u64 now, u32 round_trips)
{
	return now - since > (u64)flow->rtt * round_trips;
}

static inline void coexistence_reset_peak(struct coexistence *flow, u64 now)
{
	flow->peak = flow->round_peak = 0;
	flow->round_began = now;
}

/* Whether a round trip has ended whose delays are all below the peak by an eighth. */
static inline int coexistence_has_fallen(struct coexistence *flow, u64 now, u32 delay)
{
	int fallen;

	flow->round_peak = (u32)poseidon_max(flow->round_peak, delay);
	if (!coexistence_has_passed(flow, flow->round_began, now, 1))
		return 0;
	flow->peak = (u32)poseidon_max(flow->peak, flow->round_peak);
	fallen = flow->round_peak < flow->peak - (flow->peak >> COEXISTENCE_FALL_SHIFT);
	flow->round_began = now;
	flow->round_peak = 0;
	return fallen;
}

static inline void coexistence_compete(struct coexistence *flow, const struct coexistence_ack *ack)
{
	flow->mode = COEXISTENCE_COMPETE;
	flow->episodes = poseidon_low_32(flow->episodes + 1ULL);
	/* Up to where it was when it last competed; the first time until a loss tells. */
	flow->threshold = flow->episodes == 1 ? COEXISTENCE_LARGEST : flow->window;
	flow->window = poseidon_min(poseidon_max(ack->law_window, COEXISTENCE_SMALLEST), flow->threshold);
	flow->since = flow->last_cut = ack->now;
	flow->ceiling = poseidon_low_32(ack->delay);
	coexistence_reset_peak(flow, ack->now);
}

static inline void coexistence_follow_law(struct coexistence *flow, u64 now)
{
	flow->mode = COEXISTENCE_DELAY;
	flow->since = now;
}

/* Slow start, then COEXISTENCE_GROWTH per round trip. */
static inline void coexistence_grow(struct coexistence *flow, const struct coexistence_ack *ack)
{
	u64 packets = poseidon_min(ack->packets, 1 << 15);
	u64 growth;

	if (ack->app_limited)
		return;
	if (flow->window < flow->threshold)
		growth = packets << POSEIDON_Q;
	else
		growth = ((COEXISTENCE_GROWTH * packets) << POSEIDON_Q) / poseidon_max(flow->window, 1);
	flow->window = poseidon_min(flow->window + growth, COEXISTENCE_LARGEST);
}

/* At most once per round trip. */
static inline void coexistence_cut(struct coexistence *flow, u64 now)
{
	if (!coexistence_has_passed(flow, flow->last_cut, now, 1))
		return;
	flow->window = poseidon_max((flow->window * (COEXISTENCE_CUT >> 8)) >> (POSEIDON_Q - 8), COEXISTENCE_SMALLEST);
	flow->threshold = flow->window;
	flow->last_cut = now;
	coexistence_reset_peak(flow, now);
}

static inline void coexistence_count(struct coexistence *flow, const struct coexistence_ack *ack)
{
	flow->delivered = poseidon_low_32((u64)flow->delivered + ack->packets);
	flow->lost = poseidon_low_32((u64)flow->lost + ack->lost);
	if (flow->delivered >= COEXISTENCE_COUNTED) {
		flow->delivered /= 2;
		flow->lost /= 2;
	}
}

static inline void coexistence_on_ack(struct coexistence *flow, const struct coexistence_ack *ack)
{
	u32 delay = poseidon_low_32(ack->delay);
	int is_above = ack->delay > ack->limit;

	flow->delay = delay;
	coexistence_count(flow, ack);
	flow->within_target = ack->within_target;
	if (flow->mode != COEXISTENCE_YIELD)
		flow->rtt = (u32)poseidon_max(poseidon_low_32(ack->rtt), 1);
	if (is_above)
		flow->last_above = ack->now;
	if (flow->mode == COEXISTENCE_DELAY) {
		/* A flow that sends little does not back off, so the queue says nothing about it. */
		if (!is_above || ack->app_limited)
			flow->since = ack->now;
		else if (coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_PATIENCE))
			coexistence_compete(flow, ack);
	} else if (flow->mode == COEXISTENCE_COMPETE) {
		int falls;

		flow->ceiling = (u32)poseidon_max(flow->ceiling, delay);
		if (ack->is_marked)
			coexistence_cut(flow, ack->now);
		else
			coexistence_grow(flow, ack);
		falls = coexistence_has_fallen(flow, ack->now, delay) &&
			coexistence_has_passed(flow, flow->last_cut, ack->now, 2) &&
			coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_QUIET);
		if (coexistence_has_passed(flow, flow->last_above, ack->now, 1)) {
			coexistence_follow_law(flow, ack->now);
		} else if (falls || coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_YIELD_EVERY)) {
			flow->mode = COEXISTENCE_YIELD;
			flow->since = ack->now;
		}
	} else {
		if (coexistence_has_passed(flow, flow->last_above, ack->now, 1)) {
			coexistence_follow_law(flow, ack->now);
		} else if (coexistence_has_passed(flow, flow->since, ack->now, COEXISTENCE_YIELD_FOR)) {
			flow->mode = COEXISTENCE_COMPETE;
			flow->since = ack->now;
			flow->threshold = flow->window;
			coexistence_reset_peak(flow, ack->now);
		}
	}
}

static inline int coexistence_loss_rate_is_high(const struct coexistence *flow)
{
	return flow->lost > COEXISTENCE_TOLERATED_MORE + flow->delivered / COEXISTENCE_TOLERATED;
}

/* Fast recovery; whether the law reacts to it. */
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

/* A retransmission timeout. */
static inline void coexistence_on_timeout(struct coexistence *flow, u64 now)
{
	if (flow->mode == COEXISTENCE_DELAY)
		return;
	flow->mode = COEXISTENCE_COMPETE;
	flow->threshold = poseidon_max(flow->window / 2, COEXISTENCE_SMALLEST);
	flow->window = COEXISTENCE_SMALLEST;
	flow->last_cut = now;
	coexistence_reset_peak(flow, now);
}

/* The window that holds, packets q24: `law_window` where the law decides. */
static inline u64 coexistence_window(const struct coexistence *flow, u64 law_window)
{
	if (flow->mode == COEXISTENCE_DELAY)
		return law_window;
	return flow->mode == COEXISTENCE_COMPETE ? flow->window : POSEIDON_ONE;
}

/* Between two packets, ns: `law_gap` where the law decides. */
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
