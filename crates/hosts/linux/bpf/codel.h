/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * CoDel in C: decides which packets in a standing queue to mark.
 *
 * Model      If the delay exceeds `target` for `interval`, a packet is marked. More marks follow, interval/sqrt(count)
 *            apart.
 * Variants   RFC 8289, and a Tofino program (ralfkundel/p4-codel), on which RPM builds. The latter resets as soon as
 *            one packet's delay is below the target, does not remember the last episode, and has no exception for the
 *            last packet.
 * Equal      bit for bit to crates/core/policies/src/mark/codel_{rfc,tofino}.rs. tests/codel.rs compares them, natively
 *            and in the kernel. Both use times in ps.
 * Differs    Rust computes a table of spacings when a port is attached, so there is no square root here. From the
 *            4095th mark in a row, the spacing is constant at 1/64 of the interval. With intervals of 20 ms, that is 5
 *            s after the first mark. Times wrap after 213 days and are compared by their difference.
 * Rules      as in law.h. The caller holds a lock, so there are no function calls.
 * Source     RFC 8289 section 5; RPM section V-A
 */
#ifndef POSEIDON_CODEL_H
#define POSEIDON_CODEL_H

#if !defined(__VMLINUX_H__) && !defined(__KERNEL__)
#include <stdint.h>
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

/* The table length is a power of two, so that an index can be masked. */
#define CODEL_SPACINGS 4096

enum codel_variant {
	CODEL_RFC = 0,
	CODEL_TOFINO = 1,
};

struct codel_config {
	u64 target;   /* ps */
	u64 interval; /* ps */
	u64 max_packet;  /* size of the largest packet in bytes */
	u64 variant;  /* enum codel_variant */
	u64 spacing[CODEL_SPACINGS]; /* ps; interval/sqrt(index) */
};

struct codel_state {
	u64 first_above; /* when the delay will have exceeded the target for an interval, ps; 0 if it is below */
	u64 next_mark;  /* when a mark is due, ps */
	u32 count;
	u32 last_count;
	u32 marking;
	u32 unused;
};

/* A packet and the state of its queue. */
struct codel_packet {
	u64 now;    /* ps */
	u64 sojourn_time; /* ps */
	u64 queue_len; /* bytes in the queue, excluding this packet */
};

#define CODEL_INLINE static inline __attribute__((always_inline))

CODEL_INLINE u64 codel_spacing(const struct codel_config *config, u32 count)
{
	return config->spacing[count < CODEL_SPACINGS ? count & (CODEL_SPACINGS - 1) : CODEL_SPACINGS - 1];
}

CODEL_INLINE void codel_schedule_next(const struct codel_config *config, struct codel_state *state)
{
	state->count += state->count != ~0U;
	state->next_mark += codel_spacing(config, state->count);
}

CODEL_INLINE int codel_marks_tofino(const struct codel_config *config, struct codel_state *state,
				    const struct codel_packet *packet)
{
	if (packet->sojourn_time < config->target) {
		state->marking = 0;
		return 0;
	}
	if (!state->marking) {
		state->marking = 1;
		state->count = 1;
		state->next_mark = packet->now + config->interval;
		return 0;
	}
	if ((s64)(packet->now - state->next_mark) <= 0)
		return 0;
	codel_schedule_next(config, state);
	return 1;
}

/* Returns whether the delay has exceeded the target for an interval. */
CODEL_INLINE int codel_has_standing_queue(const struct codel_config *config, struct codel_state *state,
			      const struct codel_packet *packet)
{
	if (packet->sojourn_time < config->target || packet->queue_len <= config->max_packet) {
		state->first_above = 0;
		return 0;
	}
	if (!state->first_above) {
		state->first_above = packet->now + config->interval;
		return 0;
	}
	return (s64)(packet->now - state->first_above) >= 0;
}

CODEL_INLINE int codel_marks_rfc(const struct codel_config *config, struct codel_state *state,
				 const struct codel_packet *packet)
{
	int is_standing = codel_has_standing_queue(config, state, packet);

	if (!state->marking) {
		u32 count = state->count > state->last_count ? state->count - state->last_count : 0;

		if (!is_standing)
			return 0;
		/* Section 5.5: soon after the last episode, continue with its count. */
		if (count <= 1 || (s64)(packet->now - state->next_mark) >= (s64)(config->interval * 16))
			count = 1;
		state->count = count;
		state->last_count = count;
		state->marking = 1;
		state->next_mark = packet->now + codel_spacing(config, count);
		return 1;
	}
	if (!is_standing) {
		state->marking = 0;
		return 0;
	}
	if ((s64)(packet->now - state->next_mark) < 0)
		return 0;
	codel_schedule_next(config, state);
	return 1;
}

/* Returns whether the packet is marked. The state belongs to the queue and starts at zero. */
CODEL_INLINE int codel_marks(const struct codel_config *config, struct codel_state *state,
			     const struct codel_packet *packet)
{
	if (config->variant == CODEL_TOFINO)
		return codel_marks_tofino(config, state, packet);
	return codel_marks_rfc(config, state, packet);
}

#endif
