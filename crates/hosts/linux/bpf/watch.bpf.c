// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * For tests: reads the window of every Poseidon socket at each received packet, from a kernel tracepoint instead of our
 * programs. The tracepoint runs before the packet is processed, so it reads the window after the previous packet.
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct seen {
	u64 samples;
	u64 outside; /* windows of zero, or above the maximum */
	u64 largest;
	u64 last_outside;
};

/* The largest window of the law and of coexistence. */
#define MAX_WINDOW (1 << 15)

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
	struct seen *stats;
	u64 window, name = 0;
	u32 key = 0;

	if (!tp)
		return 0;
	window = tp->snd_cwnd;
	bpf_probe_read_kernel(&name, sizeof(name), ((struct inet_connection_sock *)tp)->icsk_ca_ops->name);
	/* The name starts with "poseidon". */
	if (name != 0x6e6f646965736f70ULL)
		return 0;
	stats = bpf_map_lookup_elem(&seen, &key);
	if (!stats)
		return 0;
	__sync_fetch_and_add(&stats->samples, 1);
	if (window > stats->largest)
		stats->largest = window;
	if (window - 1 >= MAX_WINDOW) {
		__sync_fetch_and_add(&stats->outside, 1);
		stats->last_outside = window;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
