// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Replays the life of a flow in the kernel: the law as the verifier has passed it and the JIT has compiled it. The program is
 * attached to nothing; BPF_PROG_TEST_RUN starts it once per batch, which is in the map `input` and whose outcomes are then in
 * `output`.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "replay.h"

/* Steps of a batch: enough that starting the program costs nothing, and 64 KB to copy. src/replay.rs has the same number. */
#define MOST_STEPS 512

struct input {
	struct replay_start start;
	struct replay_step step[MOST_STEPS];
};

struct output {
	u64 ns; /* that the whole batch took */
	struct replay_outcome outcome[MOST_STEPS];
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

/* A callback, because the verifier walks it once and not once per step. */
static long one_step(u64 index, struct batch *batch)
{
	if (index >= MOST_STEPS)
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
	u64 began;

	if (!batch.input || !batch.output)
		return 1;
	began = bpf_ktime_get_ns();
	bpf_loop((u32)batch.input->start.steps, one_step, &batch, 0);
	batch.output->ns = bpf_ktime_get_ns() - began;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
