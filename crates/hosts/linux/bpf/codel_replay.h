/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A queue trace as bytes, so that Rust, C and the kernel can process the same packets:
 *
 *   in    codel_start | codel_packet, codel_packet, ...
 *   out   codel_outcome, one per packet
 *
 * Integers use the machine's byte order. src/codel.rs has the same structs.
 */
#ifndef POSEIDON_CODEL_REPLAY_H
#define POSEIDON_CODEL_REPLAY_H

#include "codel.h"

struct codel_start {
	struct codel_config config;
	struct codel_state state;
	u64 packets;
};

struct codel_outcome {
	struct codel_state state;
	u64 marks;
};

CODEL_INLINE void codel_replay(struct codel_start *start, const struct codel_packet *packet,
			       struct codel_outcome *outcome)
{
	outcome->marks = (u64)codel_marks(&start->config, &start->state, packet);
	outcome->state = start->state;
}

#endif
