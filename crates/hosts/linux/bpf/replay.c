// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays flow traces from stdin (replay.h), and writes one outcome per step to stdout:
 *
 *   cc -O2 -o replay replay.c && ./replay <traces >outcomes
 */
#include <stdio.h>

#include "replay.h"

int main(void)
{
	struct replay_start start;

	while (fread(&start, sizeof(start), 1, stdin) == 1) {
		for (u64 done = 0; done < start.steps; done++) {
			struct replay_step step;
			struct replay_outcome outcome;

			if (fread(&step, sizeof(step), 1, stdin) != 1) {
				fprintf(stderr, "replay: the input ends at step %llu of %llu of a trace\n",
					(unsigned long long)done, (unsigned long long)start.steps);
				return 1;
			}
			replay_apply(&start.flow, &step, &outcome);
			fwrite(&outcome, sizeof(outcome), 1, stdout);
		}
	}
	if (ferror(stdin) || fflush(stdout) || ferror(stdout)) {
		perror("replay");
		return 1;
	}
	return 0;
}
