/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * A flow trace as bytes, so that Rust, C and the kernel can process the same events:
 *
 *   in    replay_start | replay_step, replay_step, ...
 *   out   replay_outcome, one per step
 *
 * Integers use the machine's byte order. src/replay.rs has the same structs.
 */
#ifndef POSEIDON_REPLAY_H
#define POSEIDON_REPLAY_H

#include "law.h"

enum replay_event {
	REPLAY_ACK = 0,
	REPLAY_LOSS = 1,
	REPLAY_TIMEOUT = 2,
};

struct replay_start {
	struct poseidon_flow flow;
	u64 steps;
};

struct replay_step {
	struct poseidon_ack ack; /* a loss and a timeout use only `now` */
	u64 event;               /* enum replay_event */
};

struct replay_outcome {
	struct poseidon_flow flow;
	u64 gap;
};

_Static_assert(sizeof(struct replay_start) == 72, "no padding");
_Static_assert(sizeof(struct replay_step) == 56, "no padding");
_Static_assert(sizeof(struct replay_outcome) == 72, "no padding");

/* Applies a step to the flow, and writes the outcome. */
static inline void replay_apply(struct poseidon_flow *flow, const struct replay_step *step,
				struct replay_outcome *outcome)
{
	if (step->event == REPLAY_ACK)
		poseidon_on_ack(flow, &step->ack);
	else if (step->event == REPLAY_LOSS)
		poseidon_on_loss(flow, step->ack.now);
	else
		poseidon_on_timeout(flow, step->ack.now);
	outcome->flow = *flow;
	outcome->gap = poseidon_gap(flow);
}

#endif
