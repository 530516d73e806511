// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays a Swift flow trace: reads the flow and its events, and writes the window after each event.
 */
#include <stdio.h>

#include "swift.h"

struct event {
	u64 now;
	u64 rtt;
	u32 packets;
	u16 app_limited;
	u16 kind; /* 0: ACK, 1: loss, 2: timeout */
};

int main(void)
{
	struct swift_flow flow;
	struct event event;

	if (fread(&flow, sizeof(flow), 1, stdin) != 1)
		return 1;
	while (fread(&event, sizeof(event), 1, stdin) == 1) {
		if (event.kind == 0)
			swift_on_ack(&flow, event.now, event.rtt, event.packets, event.app_limited);
		else if (event.kind == 1)
			swift_on_loss(&flow, event.now);
		else
			swift_on_timeout(&flow, event.now);
		fwrite(&flow.window, sizeof(flow.window), 1, stdout);
	}
	return ferror(stdin) || fflush(stdout) || ferror(stdout);
}
