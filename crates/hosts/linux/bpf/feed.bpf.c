// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Generates packets for a router as fast as possible: the kernel runs this program repeatedly (BPF_PROG_TEST_RUN with
 * live frames) and passes the frames to the network stack, as if received from a device. examples/cost uses the program
 * to measure a router's cost without a sender and a receiver.
 *
 * The kernel reuses frames after the router has changed their TTL and telemetry, so the program rewrites every frame.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

enum { XDP_DROP = 1, XDP_PASS = 2 };

/* The context of a program. Its layout is part of the kernel interface. */
struct xdp_md {
	u32 data;
	u32 data_end;
};

/* Must equal FRAME_BYTES in examples/cost/router.rs. */
#define FRAME_BYTES 80

const volatile u64 frame[FRAME_BYTES / 8] SEC(".rodata.frame") = {};

SEC("xdp")
int feed(struct xdp_md *context)
{
	u64 *to = (void *)(unsigned long)context->data;

	if ((void *)(to + FRAME_BYTES / 8) > (void *)(unsigned long)context->data_end)
		return XDP_DROP;
	for (u32 word = 0; word < FRAME_BYTES / 8; word++)
		to[word] = frame[word];
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
