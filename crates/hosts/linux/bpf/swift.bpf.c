// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Swift in Linux TCP, for comparison: swift.h with the host code of tcp.bpf.c, but without telemetry.
 *
 * Limits     Receivers delay ACKs, because packets without an option take a path in the kernel that calls no congestion
 *            control. Two packets in flight are acknowledged immediately, but a single packet waits for the receiver's
 *            timer. For such small windows, set `quickack 1` on the receivers' routes.
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "swift.h"

/* A new flow. The struct has a separate section, so that user space can find it. */
const volatile struct swift_flow settings SEC(".rodata.settings") = {};

static struct swift_flow *flow_of(struct sock *sk)
{
	return (struct swift_flow *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static u64 now_of(struct sock *sk)
{
	return ((struct tcp_sock *)sk)->tcp_mstamp * 1000;
}

static void apply_decision(struct sock *sk, struct swift_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 gap = swift_gap(flow);
	u64 rate = sk->sk_max_pacing_rate;

	tp->snd_cwnd = poseidon_min(poseidon_max(flow->window >> POSEIDON_Q, 1), tp->snd_cwnd_clamp);
	if (gap)
		rate = poseidon_min(rate, poseidon_max(tp->mss_cache * 1000000000ULL / gap, 1));
	sk->sk_pacing_rate = rate;
}

SEC("struct_ops")
void BPF_PROG(swift_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct swift_flow *flow = flow_of(sk);
	const volatile u64 *from = (const volatile u64 *)&settings;

	for (u32 word = 0; word < sizeof(*flow) / sizeof(u64); word++)
		((u64 *)flow)[word] = from[word];
	flow->rtt = poseidon_saturate_u32(poseidon_max(tp->srtt_us >> 3, 1) * 1000ULL);
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	apply_decision(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(swift_cong_control, struct sock *sk, u32 acked, int flag, const struct rate_sample *sample)
{
	struct swift_flow *flow = flow_of(sk);
	u64 rtt = sample->rtt_us > 0 ? (u64)sample->rtt_us * 1000 : flow->rtt;

	if (!sample->acked_sacked)
		return;
	swift_on_ack(flow, now_of(sk), rtt, sample->acked_sacked,
		     ((u64)sample->prior_in_flight << (POSEIDON_Q + 1)) < flow->window);
	apply_decision(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(swift_set_state, struct sock *sk, u8 state)
{
	struct swift_flow *flow = flow_of(sk);

	if (state == TCP_CA_RECOVERY)
		swift_on_loss(flow, now_of(sk));
	else if (state == TCP_CA_LOSS)
		swift_on_timeout(flow, now_of(sk));
	else
		return;
	apply_decision(sk, flow);
}

SEC("struct_ops")
u32 BPF_PROG(swift_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops")
u32 BPF_PROG(swift_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
u32 BPF_PROG(swift_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops swift = {
	.init = (void *)swift_init,
	.cong_control = (void *)swift_cong_control,
	.set_state = (void *)swift_set_state,
	.ssthresh = (void *)swift_ssthresh,
	.undo_cwnd = (void *)swift_undo_cwnd,
	.min_tso_segs = (void *)swift_min_tso_segs,
	/* Without this flag, a network namespace cannot use Swift as its default, and the attempt leaks a reference. */
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "swift",
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
