// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays a queue trace in the kernel, after the verifier and the JIT have processed the code. Works like replay.bpf.c.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "codel_replay.h"

/* The number of packets per batch. src/codel.rs uses the same number. */
#define MAX_PACKETS 512

struct input {
	struct codel_start start;
	struct codel_packet packet[MAX_PACKETS];
};

struct output {
	struct codel_outcome outcome[MAX_PACKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct input);
} input SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct output);
} output SEC(".maps");

struct batch {
	struct input *input;
	struct output *output;
};

static long run_packet(u64 index, struct batch *batch)
{
	if (index >= MAX_PACKETS)
		return 1;
	codel_replay(&batch->input->start, &batch->input->packet[index], &batch->output->outcome[index]);
	return 0;
}

SEC("syscall")
int replay(void *context)
{
	u32 key = 0;
	struct batch batch = {
		.input = bpf_map_lookup_elem(&input, &key),
		.output = bpf_map_lookup_elem(&output, &key),
	};

	if (!batch.input || !batch.output)
		return 1;
	bpf_loop((u32)batch.input->start.packets, run_packet, &batch, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
