// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Packets for a router, as fast as it takes them: the kernel runs this over and over (BPF_PROG_TEST_RUN with live frames) and hands
 * what it passes to the network stack, as if a device had received it. examples/cost measures with it what a router costs without
 * what sends and what receives.
 *
 * A frame comes back when the router has sent it, with its hop limit and its telemetry changed: so every one is written anew.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

enum { XDP_DROP = 1, XDP_PASS = 2 };

/* What a program is handed; its layout is the kernel's promise. */
struct xdp_md {
	u32 data;
	u32 data_end;
};

/* As in examples/cost/router.rs. */
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
