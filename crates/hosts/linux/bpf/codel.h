/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * CoDel in C: which packets of a standing queue get a mark.
 *
 * Model      a queue that is above `target` for `interval` gets a mark, then more of them, interval/sqrt(count) apart
 * Variants   the RFC's, and that of a Tofino program (ralfkundel/p4-codel), which RPM builds on: it resets the moment a packet is
 *            below the target, has no memory of the last time and no guard for the last packet
 * Equal      bit for bit crates/core/policies/src/mark/codel_{rfc,tofino}.rs; tests/codel.rs holds them together, natively and in the
 *            kernel. Times are ps, as there.
 * Differs    spacings come from a table that Rust computes when a port is attached, so that there is no square root here;
 *            from the 4095th mark in a row on they stay as they are, at 1/64 of the interval, which is 5 s after the first
 *            mark of 20 ms intervals. Times wrap, after 213 days, and are compared by their difference.
 * Rules      as in law.h. The caller holds a lock, so there is no call either.
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

/* Spacings in the table; a power of two, so that an index can be masked. */
#define CODEL_SPACINGS 4096

enum codel_variant {
	CODEL_RFC = 0,
	CODEL_TOFINO = 1,
};

struct codel_config {
	u64 target;   /* ps */
	u64 interval; /* ps */
	u64 largest;  /* bytes of the largest packet */
	u64 variant;  /* enum codel_variant */
	u64 spacing[CODEL_SPACINGS]; /* ps; interval/sqrt(index) */
};

struct codel_memory {
	u64 since; /* when the queue will have stood for an interval, ps; 0: it is below */
	u64 next;  /* when a mark is due, ps */
	u32 count;
	u32 last_count;
	u32 active;
	u32 unused;
};

/* A packet and its queue. */
struct codel_packet {
	u64 now;    /* ps */
	u64 waited; /* ps */
	u64 behind; /* bytes in the queue beside it */
};

#define CODEL_INLINE static inline __attribute__((always_inline))

CODEL_INLINE u64 codel_spacing(const struct codel_config *config, u32 count)
{
	return config->spacing[count < CODEL_SPACINGS ? count & (CODEL_SPACINGS - 1) : CODEL_SPACINGS - 1];
}

CODEL_INLINE void codel_count(const struct codel_config *config, struct codel_memory *memory)
{
	memory->count += memory->count != ~0U;
	memory->next += codel_spacing(config, memory->count);
}

CODEL_INLINE int codel_marks_tofino(const struct codel_config *config, struct codel_memory *memory,
				    const struct codel_packet *packet)
{
	if (packet->waited < config->target) {
		memory->active = 0;
		return 0;
	}
	if (!memory->active) {
		memory->active = 1;
		memory->count = 1;
		memory->next = packet->now + config->interval;
		return 0;
	}
	if ((s64)(packet->now - memory->next) <= 0)
		return 0;
	codel_count(config, memory);
	return 1;
}

/* Whether the queue has stood above the target for an interval. */
CODEL_INLINE int codel_stands(const struct codel_config *config, struct codel_memory *memory,
			      const struct codel_packet *packet)
{
	if (packet->waited < config->target || packet->behind <= config->largest) {
		memory->since = 0;
		return 0;
	}
	if (!memory->since) {
		memory->since = packet->now + config->interval;
		return 0;
	}
	return (s64)(packet->now - memory->since) >= 0;
}

CODEL_INLINE int codel_marks_rfc(const struct codel_config *config, struct codel_memory *memory,
				 const struct codel_packet *packet)
{
	int stands = codel_stands(config, memory, packet);

	if (!memory->active) {
		u32 more = memory->count > memory->last_count ? memory->count - memory->last_count : 0;

		if (!stands)
			return 0;
		/* Section 5.5: soon after the last time, go on where it stopped. */
		if (more <= 1 || (s64)(packet->now - memory->next) >= (s64)(config->interval * 16))
			more = 1;
		memory->count = more;
		memory->last_count = more;
		memory->active = 1;
		memory->next = packet->now + codel_spacing(config, more);
		return 1;
	}
	if (!stands) {
		memory->active = 0;
		return 0;
	}
	if ((s64)(packet->now - memory->next) < 0)
		return 0;
	codel_count(config, memory);
	return 1;
}

/* Whether the packet is marked. The memory is the queue's own, zero at the start. */
CODEL_INLINE int codel_marks(const struct codel_config *config, struct codel_memory *memory,
			     const struct codel_packet *packet)
{
	if (config->variant == CODEL_TOFINO)
		return codel_marks_tofino(config, memory, packet);
	return codel_marks_rfc(config, memory, packet);
}

#endif
