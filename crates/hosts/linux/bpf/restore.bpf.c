// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Switches Poseidon connections to another congestion control, for all sockets in the network namespace of the process
 * that reads the iterator. The iterator writes one byte per changed socket.
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} __attribute__((preserve_access_index));

/* The name of the new congestion control. */
const volatile char wanted[TCP_CA_NAME_MAX] SEC(".rodata.wanted") = {};

SEC("iter/tcp")
int restore(struct bpf_iter__tcp *context)
{
	char name[TCP_CA_NAME_MAX] = {}, changed = 1;
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tp;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 0;
	/* The name must be exactly "poseidon". */
	if (*(u64 *)name != 0x6e6f646965736f70ULL || name[8])
		return 0;
	for (int i = 0; i < TCP_CA_NAME_MAX; i++)
		name[i] = wanted[i];
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		bpf_seq_write(context->meta->seq, &changed, sizeof(changed));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
