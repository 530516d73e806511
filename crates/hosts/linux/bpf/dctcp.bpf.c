// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * DCTCP in Linux TCP, for comparison on kernels without it.
 *
 * Model      per window     alpha = (1 - g) alpha + g * (marked packets / packets),  g = 1/16
 *            first mark     ssthresh = window * (1 - alpha/2), once per window, when the ECN code requests it
 *            otherwise      the kernel's Reno
 *            a loss         half of the window, like Reno (RFC 8257 section 3.5)
 * Signals    ECN. The flag TCP_CONG_NEEDS_ECN makes both ends request it, if both choose this congestion control before
 *            they connect or listen. Without ECN, the flow behaves like Reno.
 * Receiver   acknowledges each packet at once and echoes its mark: section 3.2 with one packet per ACK, which needs no
 *            state
 * Source     RFC 8257
 * Differs    from crates/core/laws/src/laws/dctcp.rs: the reduction happens at the first mark, with the alpha of the
 *            previous window, as in other stacks. This port counts packets instead of bytes, like the kernel
 *            (delivered, delivered_ce).
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The number of fractional bits in alpha. With 20, one mark still changes alpha for windows up to 2^16 packets. */
#define ALPHA_Q 20
#define GAIN_SHIFT 4
#define MIN_WINDOW 2U

extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

struct dctcp {
	u32 alpha;
	u32 delivered;     /* at the start of the window */
	u32 delivered_ce;
	u32 window_end;    /* the sequence number at the end of the window */
	u32 before_loss;   /* the window, to be restored after a spurious loss */
};

static struct dctcp *dctcp_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static u32 at_least_min_window(u32 window)
{
	return window > MIN_WINDOW ? window : MIN_WINDOW;
}

static void start_window(struct tcp_sock *tp, struct dctcp *dctcp)
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

	/* Section 4.2: react to the first mark like Reno. */
	dctcp->alpha = 1U << ALPHA_Q;
	dctcp->before_loss = 0;
	start_window(tp, dctcp);
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
	start_window(tp, dctcp);
}

/* Section 3.4. */
SEC("struct_ops")
u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = dctcp_of(sk);
	u32 window = tp->snd_cwnd;

	dctcp->before_loss = window;
	return at_least_min_window(window - (u32)(((u64)window * dctcp->alpha) >> (ALPHA_Q + 1)));
}

static void halve(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	dctcp_of(sk)->before_loss = tp->snd_cwnd;
	tp->snd_ssthresh = at_least_min_window(tp->snd_cwnd >> 1);
}

/* The kernel calls ssthresh() before it reports the loss. */
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
	/* Record the ECN mark of each data packet. */
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
