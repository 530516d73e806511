// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * For tests: the window of every socket under Poseidon at every packet that it receives, from the kernel's own tracepoint and not from
 * our programs. It runs before the packet is processed, so it sees what the last one left.
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct seen {
	u64 samples;
	u64 outside; /* windows of zero, or above the largest */
	u64 largest;
	u64 last_outside;
};

/* The law's and coexistence's. */
#define LARGEST_WINDOW (1 << 15)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct seen);
} seen SEC(".maps");

struct sk_buff;

SEC("tp_btf/tcp_probe")
int BPF_PROG(watch, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct seen *all;
	u64 window, name = 0;
	u32 key = 0;

	if (!tp)
		return 0;
	window = tp->snd_cwnd;
	bpf_probe_read_kernel(&name, sizeof(name), ((struct inet_connection_sock *)tp)->icsk_ca_ops->name);
	/* "poseidon" in one word. */
	if (name != 0x6e6f646965736f70ULL)
		return 0;
	all = bpf_map_lookup_elem(&seen, &key);
	if (!all)
		return 0;
	__sync_fetch_and_add(&all->samples, 1);
	if (window > all->largest)
		all->largest = window;
	if (window - 1 >= LARGEST_WINDOW) {
		__sync_fetch_and_add(&all->outside, 1);
		all->last_outside = window;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
