/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The life of a queue as bytes, so that one list of packets can be given to CoDel wherever it runs:
 *
 *   in    codel_start | codel_packet, codel_packet, ...
 *   out   codel_outcome, one per packet
 *
 * Integers are the machine's own. The same structs are in src/codel.rs.
 */
#ifndef POSEIDON_CODEL_REPLAY_H
#define POSEIDON_CODEL_REPLAY_H

#include "codel.h"

struct codel_start {
	struct codel_config config;
	struct codel_memory memory;
	u64 packets;
};

struct codel_outcome {
	struct codel_memory memory;
	u64 marks;
};

CODEL_INLINE void codel_replay(struct codel_start *start, const struct codel_packet *packet,
			       struct codel_outcome *outcome)
{
	outcome->marks = (u64)codel_marks(&start->config, &start->memory, packet);
	outcome->memory = start->memory;
}

#endif
