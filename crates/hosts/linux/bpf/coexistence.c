// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Reads flow events, and writes an outcome for each: window, gap, mode, episodes, and the reaction to a loss.
 */
#include <stdio.h>

#include "coexistence.h"

struct event {
	struct coexistence_ack ack; /* a loss and a timeout use only `now` */
	u64 law_gap;
	u64 kind; /* 0: ACK, 1: loss, 2: timeout, 3: a new flow */
};

struct outcome {
	u64 window;
	u64 gap;
	u32 mode;
	u32 episodes;
	u64 law_reacts; /* whether the law must react; always 1 unless the event is a loss */
};

int main(void)
{
	struct coexistence flow = { 0 };
	struct event event;

	while (fread(&event, sizeof(event), 1, stdin) == 1) {
		struct outcome outcome = { .law_reacts = 1 };

		if (event.kind == 0)
			coexistence_on_ack(&flow, &event.ack);
		else if (event.kind == 1)
			outcome.law_reacts = (u64)coexistence_on_loss(&flow, event.ack.now);
		else if (event.kind == 2)
			coexistence_on_timeout(&flow, event.ack.now);
		else
			coexistence_start(&flow, event.ack.now);
		outcome.window = coexistence_window(&flow, event.ack.law_window);
		outcome.gap = coexistence_gap(&flow, event.law_gap);
		outcome.mode = flow.mode;
		outcome.episodes = flow.episodes;
		fwrite(&outcome, sizeof(outcome), 1, stdout);
	}
	return ferror(stdin) || fflush(stdout) || ferror(stdout);
}
