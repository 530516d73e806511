// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays a flow trace in the kernel, after the verifier and the JIT have processed the code. The program is not
 * attached. BPF_PROG_TEST_RUN runs it once per batch: it reads the map `input` and writes the map `output`.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "replay.h"

/*
 * The number of steps per batch. A batch of 64 KB makes the cost of starting the program negligible.
 * src/kernel_replay.rs uses the same number.
 */
#define MAX_STEPS 512

struct input {
	struct replay_start start;
	struct replay_step step[MAX_STEPS];
};

struct output {
	u64 ns; /* running time of the whole batch */
	struct replay_outcome outcome[MAX_STEPS];
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

/* A callback, which the verifier checks only once. */
static long run_step(u64 index, struct batch *batch)
{
	if (index >= MAX_STEPS)
		return 1;
	replay_apply(&batch->input->start.flow, &batch->input->step[index], &batch->output->outcome[index]);
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
	u64 start;

	if (!batch.input || !batch.output)
		return 1;
	start = bpf_ktime_get_ns();
	bpf_loop((u32)batch.input->start.steps, run_step, &batch, 0);
	batch.output->ns = bpf_ktime_get_ns() - start;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
