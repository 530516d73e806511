// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays queue traces from stdin (codel_replay.h), and writes one outcome per packet to stdout:
 *
 *   cc -O2 -o codel_replay codel_replay.c && ./codel_replay <traces >outcomes
 */
#include <stdio.h>

#include "codel_replay.h"

int main(void)
{
	static struct codel_start start;

	while (fread(&start, sizeof(start), 1, stdin) == 1) {
		for (u64 done = 0; done < start.packets; done++) {
			struct codel_packet packet;
			struct codel_outcome outcome;

			if (fread(&packet, sizeof(packet), 1, stdin) != 1) {
				fprintf(stderr, "codel_replay: the input ends at packet %llu of %llu of a trace\n",
					(unsigned long long)done, (unsigned long long)start.packets);
				return 1;
			}
			codel_replay(&start, &packet, &outcome);
			fwrite(&outcome, sizeof(outcome), 1, stdout);
		}
	}
	if (ferror(stdin) || fflush(stdout) || ferror(stdout)) {
		perror("codel_replay");
		return 1;
	}
	return 0;
}
