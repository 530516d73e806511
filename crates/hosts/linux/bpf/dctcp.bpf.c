// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * DCTCP in Linux TCP, for kernels that have none. A peer to compare with.
 *
 * Model      per window     alpha = (1 - g) alpha + g * (marked packets / packets),  g = 1/16
 *            first mark     ssthresh = window * (1 - alpha/2), once per window: the kernel's own reaction to ECN asks for it
 *            otherwise      Reno, the kernel's
 *            a loss         half, as Reno (RFC 8257 section 3.5)
 * Signals    ECN: the flag TCP_CONG_NEEDS_ECN makes both ends ask for it, if both have this congestion control before they connect
 *            or listen; without it the flow is Reno
 * Receiver   echoes the mark of each packet in an ACK of its own, at once: section 3.2 with one packet per ACK, which needs none of
 *            its state
 * Source     RFC 8257
 * Differs    from crates/core/laws/src/laws/dctcp.rs: the cut comes at the first mark with the alpha of the window before, as in
 *            other stacks; counts packets and not bytes, as the kernel does (delivered, delivered_ce)
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Fractional bits of alpha: 20, so that g of the smallest step is not lost for windows up to 2^16 packets. */
#define ALPHA_Q 20
#define GAIN_SHIFT 4
#define SMALLEST_WINDOW 2U

extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

struct dctcp {
	u32 alpha;
	u32 delivered;     /* when the window began */
	u32 delivered_ce;
	u32 window_end;    /* the sequence number that ends it */
	u32 before_loss;   /* the window, to be restored if it was none */
};

static struct dctcp *dctcp_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static u32 at_least_smallest(u32 window)
{
	return window > SMALLEST_WINDOW ? window : SMALLEST_WINDOW;
}

static void begin_window(struct tcp_sock *tp, struct dctcp *dctcp)
{
	dctcp->delivered = tp->delivered;
	dctcp->delivered_ce = tp->delivered_ce;
	dctcp->window_end = tp->snd_nxt;
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = dctcp_of(sk);

	/* Section 4.2: the first mark is taken as Reno takes it. */
	dctcp->alpha = 1U << ALPHA_Q;
	dctcp->before_loss = 0;
	begin_window(tp, dctcp);
}

/* Section 3.3, steps 1 to 8: once per window. */
SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = dctcp_of(sk);
	u32 packets, marked;

	if ((s32)(tp->snd_una - dctcp->window_end) < 0)
		return;
	packets = tp->delivered - dctcp->delivered;
	marked = tp->delivered_ce - dctcp->delivered_ce;
	if (packets) {
		u64 share = ((u64)(marked < packets ? marked : packets) << ALPHA_Q) / packets;

		dctcp->alpha = dctcp->alpha - (dctcp->alpha >> GAIN_SHIFT) + (u32)(share >> GAIN_SHIFT);
	}
	begin_window(tp, dctcp);
}

/* Section 3.4. */
SEC("struct_ops")
u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = dctcp_of(sk);
	u32 window = tp->snd_cwnd;

	dctcp->before_loss = window;
	return at_least_smallest(window - (u32)(((u64)window * dctcp->alpha) >> (ALPHA_Q + 1)));
}

static void halve(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	dctcp_of(sk)->before_loss = tp->snd_cwnd;
	tp->snd_ssthresh = at_least_smallest(tp->snd_cwnd >> 1);
}

/* The kernel asks for ssthresh before it says that it is a loss. */
SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, u8 state)
{
	if (state == TCP_CA_RECOVERY)
		halve(sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (event == CA_EVENT_LOSS) {
		halve(sk);
		return;
	}
	/* What came with each packet of data. */
	if (event == CA_EVENT_ECN_IS_CE)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else if (event == CA_EVENT_ECN_NO_CE)
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
	else
		return;
	((struct inet_connection_sock *)sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	u32 window = ((struct tcp_sock *)sk)->snd_cwnd, before = dctcp_of(sk)->before_loss;

	return window > before ? window : before;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "dctcp",
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
