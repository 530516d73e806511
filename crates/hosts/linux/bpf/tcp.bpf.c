// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Poseidon in Linux TCP: a congestion control that runs law.h, and the TCP option that brings it the delay of the worst hop.
 *
 *             sender                                                    receiver
 *   app ──> TCP ──[ mpd 0 | echo ]──> switch, switch: mpd = max ──> TCP ──> app
 *            ^                                                       │ mpd of data
 *   window,  │ cong_control <── storage <── parse                    v
 *   pacing ──┘                  ^───────────────[ mpd | echo ]── WRITE_HDR_OPT
 *
 * Parts      struct_ops `poseidon`    the host around the law: time, RTT, what is in flight, window, pacing, losses
 *            sock_ops                 the option: offered in the SYN, written and read in every packet if both ends speak it
 *            iter                     one row per flow, for user space
 * Coexists   with flows that fill the buffer, if `coexistence` is set: coexistence.h, whose window then holds instead of the law's.
 * State      struct poseidon_host in the socket's own 104 bytes for congestion control: the flow is never allocated.
 *            struct poseidon_telemetry in socket storage, which both programs reach. Where it is missing, the law runs on
 *            the RTT.
 * Signals    A code of zero is an empty queue only if a hop is known to measure; the option does not count hops. So a flow
 *            runs on the RTT (brownfield with nothing reported) until a code above zero has come back, then on the signal
 *            that was chosen, and on the RTT again when echoes stop coming.
 * Trust      A peer or a switch may write any number. A delay that is too high slows the flow that carries it, down to its
 *            smallest window and by at most one cut per round trip. One that is too low is bounded by guard(), by losses
 *            and by the largest window.
 * Window     TCP counts whole packets: the window is rounded down, as the simulator does, and never below one. Below one
 *            packet, one packet per gap, by TCP's own pacing timer. Segments with TSO count as the packets they become.
 * Skipped    A kernel may run TCP without our programs for a moment: one with a patch that keeps programs of others out of the context of
 *            process 1 does, where an interrupt finds that process running. Members that return a value then return what was on the
 *            stack, and undo_cwnd() makes it the window. Nothing here can prevent that; the next member that runs writes the window anew.
 *            `missed_acks` counts, and `poseidon doctor` knows such kernels.
 * Differs    from the simulator: a gap that is running is not measured anew when an ACK comes, because TCP computes the time
 *            of the next packet when it sends. And TCP does not pace the first ten packets of a connection.
 * Source     Wang et al., NSDI 2023: algorithms 1 and 2, section 4.1. The option: crates/core/wire/src/tcp_option.rs
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#include "mss.h"
#include "tcp.h"

/* So many ACKs in a row without an echo: the other end has stopped. ACKs with three SACK blocks have no room for one. */
#define MOST_SILENT_ACKS 64
/*
 * An ACK for the only packet in flight that is so late, ns, may have waited for the receiver's timer and not in a queue: Linux's and
 * FreeBSD's run 40 ms, less one tick of 4 ms; all others run longer. Two packets in flight are acknowledged at once.
 */
#define SHORTEST_DELAYED_ACK 36000000
/* A receiver that delays its ACKs sends one for so many full packets: RFC 5681. */
#define DELAYED_ACK_PACKETS 2
/* No window that we give is larger: 2^15 packets is the largest of the law and of coexistence. */
#define LARGEST_WINDOW (1 << 15)
/* A receiver that gets so many full packets within the smallest round trip need not acknowledge each at once: see is_fast(). */
#define FAST_PACKETS 8
/* So many SYNs were lost: a box on the way may dislike the option. */
#define MOST_OFFERS 2

/* A section of its own, so that user space finds it without knowing where the compiler put it. */
const volatile struct poseidon_settings settings SEC(".rodata.settings") = {};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct poseidon_telemetry);
} telemetry SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct poseidon_totals);
} totals SEC(".maps");

/* Nothing here reads it; it lives as long as the programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[POSEIDON_ABOUT_BYTES]);
} about SEC(".maps");

/* ---- the congestion control ---- */

/* In icsk_ca_priv. */
struct poseidon_host {
	struct poseidon_flow flow;
	u32 mss_cache; /* that the flow was made for */
	u32 mss;       /* payload of a full packet */
	u32 echoes;    /* seen so far */
	u32 silent;    /* ACKs in a row without an echo */
	/* As a receiver. */
	u32 last;     /* us, low bits: when a packet came last */
	u32 began;    /* us, low bits: a round trip began */
	u32 began_at; /* what was received by then: a sequence number */
	u8 is_fast;   /* the one before brought FAST_PACKETS */
	/* As a sender again. */
	u8 delays_acks; /* the other end has held an ACK back */
	u8 unused[2];
	u32 lost;      /* tp->lost at the last ACK */
	u32 delivered; /* tp->delivered at the last ACK */
};

_Static_assert(sizeof(struct poseidon_host) <= 104, "what a socket has for its congestion control");

static struct poseidon_host *host_of(struct sock *sk)
{
	return (struct poseidon_host *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* On the clock of TCP, ns. */
static u64 now_of(struct sock *sk)
{
	return ((struct tcp_sock *)sk)->tcp_mstamp * 1000;
}

/* A new flow. Word by word, because the compiler would take the initial value of what is read as anything but volatile. */
static void copy_flow(struct poseidon_flow *flow)
{
	const volatile u64 *from = (const volatile u64 *)&settings.flow;
	u64 *to = (u64 *)flow;

	for (u32 word = 0; word < sizeof(*flow) / sizeof(u64); word++)
		to[word] = from[word];
}

/*
 * Adapts the flow to the size of packets. TCP's own size does not know of the option. The smallest target is at least two and a half
 * packets at the largest rate: a packet that is being sent is a queue for the next one, and jumbo frames and loopback have long ones.
 */
static __noinline void measure_packets(struct poseidon_host *host, u32 mss_cache, int speaks)
{
	u32 mss = speaks && mss_cache > POSEIDON_OPTION_BYTES ? mss_cache - POSEIDON_OPTION_BYTES : mss_cache;

	mss = poseidon_max(mss, 1);
	host->mss_cache = mss_cache;
	host->mss = mss;
	host->flow.rate_offset = poseidon_rate_offset(settings.flow.rate_offset, mss);
	host->flow.floor = poseidon_low_32(poseidon_max(
		settings.flow.floor, (u64)settings.packet_time * 5 * mss / (2 * POSEIDON_REFERENCE_MSS)));
}

/* Whether the other end acknowledges each packet at once: it speaks the option, and was not seen to wait. */
static int answers_each_packet(struct poseidon_host *host, struct poseidon_telemetry *seen)
{
	return seen && seen->speaks && !host->delays_acks;
}

/* Gives TCP what the law, or coexistence in its place, has decided. */
static void take_over(struct sock *sk, struct poseidon_host *host, struct poseidon_telemetry *seen)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 window = host->flow.window;
	u64 gap = poseidon_gap(&host->flow);
	/* A limit that the application has set holds as well; it is all ones where it has not. */
	u64 rate = sk->sk_max_pacing_rate;
	/* A window of zero would never be opened again. */
	u64 least = 1;

	if (seen && settings.coexistence) {
		window = coexistence_window(&seen->coexistence, window);
		gap = coexistence_gap(&seen->coexistence, gap);
	}
	/*
	 * A receiver that acknowledges every second packet answers a lone one only after its timer, 40 ms. So there is room for a
	 * pair and for the packet after it, and pacing holds the rate down to what the window allows.
	 */
	if (window < DELAYED_ACK_PACKETS * POSEIDON_ONE && !answers_each_packet(host, seen)) {
		least = DELAYED_ACK_PACKETS + 1;
		gap = ((u64)host->flow.rtt << POSEIDON_Q) / poseidon_max(window, 1);
	}
	tp->snd_cwnd = poseidon_min(poseidon_max(window >> POSEIDON_Q, least), tp->snd_cwnd_clamp);
	if (gap)
		rate = poseidon_min(rate, poseidon_max(host->mss * 1000000000ULL / gap, 1));
	sk->sk_pacing_rate = rate;
}

/* What is held against the target now: what was chosen, if echoes come and a hop is known to measure; else the RTT. */
static u8 choose_signal(struct poseidon_telemetry *seen, u32 silent)
{
	u8 chosen = settings.flow.signal;

	if (chosen == POSEIDON_RTT)
		return chosen;
	return seen && seen->is_proven && silent < MOST_SILENT_ACKS ? chosen : POSEIDON_BROWNFIELD;
}

SEC("struct_ops")
void BPF_PROG(poseidon_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct poseidon_host *host = host_of(sk);
	struct poseidon_telemetry *seen = bpf_sk_storage_get(&telemetry, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	copy_flow(&host->flow);
	host->echoes = seen ? seen->echoes : 0;
	host->silent = 0;
	host->is_fast = 0;
	host->lost = tp->lost;
	host->delivered = tp->delivered;
	host->delays_acks = 0;
	host->last = host->began = (u32)tp->tcp_mstamp;
	host->began_at = tp->rcv_nxt;
	host->flow.signal = choose_signal(seen, 0);
	measure_packets(host, tp->mss_cache, seen && seen->speaks);
	/* Until the first ACK; at least 1, because the law takes its logarithm. */
	host->flow.rtt = poseidon_low_32(poseidon_max(tp->srtt_us >> 3, 1) * 1000ULL);
	if (seen) {
		seen->has_law = 1;
		coexistence_start(&seen->coexistence, now_of(sk));
	}
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	take_over(sk, host, seen);
}

/*
 * What telemetry says, held against the round trip, which nobody on the way can shorten.
 *
 * Too much   A hop cannot have held a packet longer than its round trip took.
 * Too little Half of the round trip's queueing beyond two smallest targets counts as one hop's, whatever the ACK says: a flow with two
 *            queues on its way, there or back, is not touched. And of all queueing beyond the guard nothing is left to telemetry. What
 *            hosts add to a single round trip is no queue, so the shorter one of the last two counts.
 *            So a receiver that reports empty queues has its flow settle where half of the queue is its target: it takes a larger share
 *            than the others, by 2^(A/p * queue/2), and not all of it.
 */
static void guard(const struct poseidon_flow *flow, struct poseidon_ack *ack, struct poseidon_telemetry *seen)
{
	u64 possible = poseidon_minus(poseidon_max(ack->rtt, flow->rtt), settings.base_rtt);
	u64 queueing = poseidon_minus(poseidon_min(ack->rtt, flow->rtt), flow->base_rtt);
	u64 proven = poseidon_max(poseidon_minus(queueing, settings.delay_guard),
				  poseidon_minus(queueing, 2ULL * flow->floor) / 2);
	u64 delay;

	if (!seen || flow->signal == POSEIDON_RTT)
		return;
	if (ack->max_hop_delay != POSEIDON_UNKNOWN && ack->max_hop_delay > possible) {
		ack->max_hop_delay = possible;
		seen->implausible++;
	}
	delay = poseidon_signal_delay(flow, ack);
	if (!proven || delay == POSEIDON_UNKNOWN || delay >= poseidon_low_32(proven))
		return;
	ack->max_hop_delay = proven;
	seen->guarded++;
}

/* Takes the echo that came with this ACK, if one did. */
static void take_echo(struct poseidon_host *host, struct poseidon_telemetry *seen, struct poseidon_ack *ack)
{
	if (!seen)
		return;
	if (seen->echoes == host->echoes) {
		seen->acks_without_echo++;
		host->silent = poseidon_min(host->silent + 1ULL, MOST_SILENT_ACKS);
	} else {
		seen->acks_with_echo++;
		host->silent = 0;
		host->echoes = seen->echoes;
		seen->is_proven |= seen->echo != 0;
		if (seen->is_proven)
			ack->max_hop_delay = (u64)seen->echo << POSEIDON_OPTION_SHIFT;
		if (seen->reverse)
			ack->reverse_max_hop_delay = (u64)seen->reverse << POSEIDON_OPTION_SHIFT;
	}
	seen->is_silent = host->silent >= MOST_SILENT_ACKS;
}

/*
 * The law. Not static: the verifier then walks it once, for any flow and any ACK, and not once for every way that leads to it: 23,000
 * instructions instead of 776,000. In exchange it takes memory and no socket, so the flow is copied: 64 bytes there and back.
 */
__noinline int step(struct poseidon_flow *flow, struct poseidon_ack *ack)
{
	if (flow && ack)
		poseidon_on_ack(flow, ack);
	return 0;
}

/* Coexistence, likewise. */
__noinline int step_coexistence(struct coexistence *flow, struct coexistence_ack *ack)
{
	if (flow && ack)
		coexistence_on_ack(flow, ack);
	return 0;
}

static void update_coexistence(struct tcp_sock *tp, struct poseidon_host *host, struct poseidon_telemetry *seen,
			     const struct poseidon_ack *ack, const struct rate_sample *sample)
{
	struct coexistence_ack input = {
		.now = ack->now,
		.rtt = ack->rtt,
		.delay = seen->delay,
		.limit = settings.delay_limit,
		.law_window = host->flow.window,
		.packets = ack->packets,
		.lost = tp->lost - host->lost,
		.is_marked = sample->delivered_ce > 0,
		.app_limited = ((u64)sample->prior_in_flight << (POSEIDON_Q + 1)) <
			       coexistence_window(&seen->coexistence, host->flow.window),
		.within_target = poseidon_log_step(&host->flow, seen->delay) >= 0,
	};

	step_coexistence(&seen->coexistence, &input);
}

SEC("struct_ops")
void BPF_PROG(poseidon_cong_control, struct sock *sk, u32 acked, int flag, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct poseidon_host *host = host_of(sk);
	struct poseidon_flow flow;
	struct poseidon_telemetry *seen;
	struct poseidon_ack ack = {
		.now = now_of(sk),
		.max_hop_delay = POSEIDON_UNKNOWN,
		.reverse_max_hop_delay = POSEIDON_UNKNOWN,
		.packets = sample->acked_sacked,
	};
	u32 smallest_rtt = tp->rtt_min.s[0].v;

	seen = bpf_sk_storage_get(&telemetry, sk, 0, 0);
	/* Every packet that TCP counts as delivered comes through here, but for a few of connections with nothing in flight. */
	if (seen && tp->delivered - host->delivered != ack.packets)
		seen->missed_acks++;
	host->delivered = tp->delivered;
	/* A window update, or a duplicate that says nothing new. The window is written all the same: what TCP may have put there is not ours. */
	if (!ack.packets) {
		take_over(sk, host, seen);
		return;
	}
	take_echo(host, seen, &ack);
	if (tp->mss_cache != host->mss_cache)
		measure_packets(host, tp->mss_cache, seen && seen->speaks);

	flow = host->flow;
	flow.base_rtt = settings.base_rtt ? settings.base_rtt : poseidon_low_32(smallest_rtt * 1000ULL);
	/* Of a packet that was sent twice there is no RTT. */
	ack.rtt = sample->rtt_us > 0 ? (u64)sample->rtt_us * 1000 : flow.rtt;
	/* Taken for a queue, the timer would hold a flow of one packet at its smallest window for ever. */
	if (sample->prior_in_flight <= 1 && poseidon_minus(ack.rtt, flow.base_rtt) >= SHORTEST_DELAYED_ACK) {
		ack.rtt = poseidon_max(flow.base_rtt, 1);
		host->delays_acks = 1;
	}
	flow.signal = choose_signal(seen, host->silent);
	guard(&flow, &ack, seen);
	/* Less than half of the window was in use when the ACK arrived. */
	ack.app_limited = ((u64)sample->prior_in_flight << (POSEIDON_Q + 1)) < flow.window;
	if (flow.update == POSEIDON_STEADY)
		ack.chance = bpf_get_prandom_u32();

	step(&flow, &ack);
	host->flow = flow;
	if (seen) {
		u64 delay = poseidon_signal_delay(&flow, &ack);

		if (delay != POSEIDON_UNKNOWN) {
			seen->delay = (u32)delay;
			if (settings.coexistence)
				update_coexistence(tp, host, seen, &ack, sample);
		}
	}
	host->lost = tp->lost;
	take_over(sk, host, seen);
}

SEC("struct_ops")
void BPF_PROG(poseidon_set_state, struct sock *sk, u8 state)
{
	struct poseidon_host *host = host_of(sk);
	struct poseidon_telemetry *seen;

	seen = bpf_sk_storage_get(&telemetry, sk, 0, 0);
	if (state == TCP_CA_RECOVERY) {
		if (!seen || !settings.coexistence || coexistence_on_loss(&seen->coexistence, now_of(sk)))
			poseidon_on_loss(&host->flow, now_of(sk));
		else
			seen->ignored_losses++;
		if (seen)
			seen->losses++;
	} else if (state == TCP_CA_LOSS) {
		poseidon_on_timeout(&host->flow, now_of(sk));
		if (seen) {
			coexistence_on_timeout(&seen->coexistence, now_of(sk));
			seen->timeouts++;
		}
	}
	/* In every state: after an undo the window is what undo_cwnd() returned. */
	take_over(sk, host, seen);
}

/*
 * Whether packets come so fast that the sender's window has room for several: FAST_PACKETS within the smallest round trip, and this one
 * is not late. The smallest round trip is no more than the present one, so a window is never taken for a larger one. Packets of a window
 * of one are a round trip apart: each is late. And a window at most halves per round trip, so it is not at one before this is known here.
 */
static int is_fast(struct tcp_sock *tp, struct poseidon_host *host)
{
	u32 now = (u32)tp->tcp_mstamp, rtt = tp->rtt_min.s[0].v;
	u32 since = now - host->last;

	host->last = now;
	if (now - host->began >= rtt) {
		host->is_fast = (u64)(tp->rcv_nxt - host->began_at) >= (u64)FAST_PACKETS * host->mss;
		host->began = now;
		host->began_at = tp->rcv_nxt;
	}
	return host->is_fast && since < rtt;
}

/*
 * A receiver acknowledges each packet at once: then each packet's delay is echoed, and a window of one packet is not held up by the
 * timer of delayed ACKs, 40 ms. From so many packets per round trip on it is TCP's own rule, every second packet: the delay of several per
 * round trip is echoed, and an ACK for each would cost more than the law and the option together. The kernel looks at the bit only if
 * there is something to acknowledge. It calls this for every packet with our option; without it, packets of data take a shorter way, on
 * which ACKs are delayed as ever.
 */
SEC("struct_ops")
void BPF_PROG(poseidon_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (settings.ack_every_packet && !is_fast(tp, host_of(sk)))
		((struct inet_connection_sock *)sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	/* Nobody sets such a window; if one is there, it is an accident and lasts no longer than until the next ACK. */
	if (tp->snd_cwnd - 1 >= LARGEST_WINDOW)
		tp->snd_cwnd = 1;
}

SEC("struct_ops")
u32 BPF_PROG(poseidon_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

/* A loss that was none: the law grows the window again by itself. */
SEC("struct_ops")
u32 BPF_PROG(poseidon_undo_cwnd, struct sock *sk)
{
	return (u32)poseidon_min(poseidon_max(((struct tcp_sock *)sk)->snd_cwnd, 1), LARGEST_WINDOW);
}

/* TSO may send single packets: below the pacing's usual pair a window would have no finer step. */
SEC("struct_ops")
u32 BPF_PROG(poseidon_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops")
void BPF_PROG(poseidon_release, struct sock *sk)
{
	struct poseidon_telemetry *seen = bpf_sk_storage_get(&telemetry, sk, 0, 0);

	if (seen)
		seen->has_law = 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops poseidon = {
	.init = (void *)poseidon_init,
	.cong_control = (void *)poseidon_cong_control,
	.set_state = (void *)poseidon_set_state,
	.in_ack_event = (void *)poseidon_in_ack_event,
	.ssthresh = (void *)poseidon_ssthresh,
	.undo_cwnd = (void *)poseidon_undo_cwnd,
	.min_tso_segs = (void *)poseidon_min_tso_segs,
	.release = (void *)poseidon_release,
	/* Without it a network namespace that makes it its default cannot, and leaks a reference until the machine restarts. */
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "poseidon",
};

/* ---- the option ---- */

struct option {
	u8 kind;
	u8 length;
	__be16 experiment;
	__be16 max_hop_delay;
	__be16 echo;
};

/* What bpf_load_hdr_opt() looks for: the kind and the experiment. Any length has been put in. */
#define SEARCH                                                                                                         \
	{                                                                                                              \
		.kind = POSEIDON_OPTION_KIND, .length = 4, .experiment = bpf_htons(POSEIDON_OPTION_EXPERIMENT),        \
	}

#define OPTION_CALLBACKS (BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)

/* Whether the packet at hand (or the SYN that is answered) carries the option; then `option` holds it. */
static int find_option(struct bpf_sock_ops *context, struct option *option, u64 where)
{
	/* One of another length is not ours, even with our number. */
	return bpf_load_hdr_opt(context, option, sizeof(*option), where) == POSEIDON_OPTION_BYTES;
}

static void count(u64 *total)
{
	__sync_fetch_and_add(total, 1);
}

static void ask_for_callbacks(struct bpf_sock_ops *context)
{
	bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags | OPTION_CALLBACKS);
}

/* Whether this packet gets the option. Once a connection stands, its ends have agreed: otherwise there is no callback. */
static int offers_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	u32 flags = context->skb_tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_ACK);

	if (flags == TCP_FLAG_SYN)
		return context->total_retrans < MOST_OFFERS;
	if (flags == (TCP_FLAG_SYN | TCP_FLAG_ACK))
		return find_option(context, &option, BPF_LOAD_HDR_OPT_TCP_SYN);
	return 1;
}

/* What is kept beside the socket. What answers a SYN has no socket yet. */
static struct poseidon_telemetry *telemetry_of(struct bpf_sock_ops *context)
{
	/* Once: the verifier forgets that it was checked when it is read again. */
	struct bpf_sock *sk = context->sk;

	return sk ? bpf_sk_storage_get(&telemetry, sk, 0, 0) : 0;
}

static void write_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry *seen = 0;
	u16 echo = POSEIDON_NO_ECHO;

	if (!(context->skb_tcp_flags & TCP_FLAG_SYN))
		seen = telemetry_of(context);
	if (seen)
		echo = seen->received;
	option.length = POSEIDON_OPTION_BYTES;
	option.echo = bpf_htons(echo);
	bpf_store_hdr_opt(context, &option, sizeof(option), 0);
}

/* Whether a packet carries data, and not an acknowledgement alone. */
static int has_data(struct bpf_sock_ops *context)
{
	struct tcp_head *head = context->skb_data;

	if ((void *)(head + 1) > context->skb_data_end)
		return 0;
	return context->skb_len > (head->length_and_reserved >> 4) * 4U;
}

/* The same where the option stands as we write it, behind TCP's timestamps: it is read where it lies. */
static int find_plain_option(struct bpf_sock_ops *context, struct option *option)
{
	struct {
		struct tcp_head head;
		u32 checksum_and_urgent;
		u32 begins;
		u32 times[2];
		struct option option;
	} *plain = context->skb_data;

	if ((void *)(plain + 1) > context->skb_data_end)
		return 0;
	if ((plain->head.length_and_reserved >> 4) * 4U < sizeof(*plain) || plain->begins != bpf_htonl(0x0101080a) ||
	    plain->option.kind != option->kind || plain->option.length != POSEIDON_OPTION_BYTES ||
	    plain->option.experiment != option->experiment)
		return 0;
	*option = plain->option;
	return 1;
}

static void read_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry *seen;
	u16 delay, echo;

	if (!find_plain_option(context, &option) && !find_option(context, &option, 0))
		return;
	seen = telemetry_of(context);
	if (!seen)
		return;
	delay = bpf_ntohs(option.max_hop_delay);
	echo = bpf_ntohs(option.echo);
	if (echo != POSEIDON_NO_ECHO) {
		seen->echo = echo;
		seen->reverse = delay;
		seen->echoes++;
	}
	/* The delay of an ACK is not echoed: it is that of the way back. */
	if (has_data(context))
		seen->received = poseidon_min(delay, POSEIDON_NO_ECHO - 1);
}

/* The handshake is over: `context` holds the packet that ended it. */
static void agree(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry fresh = { .received = POSEIDON_NO_ECHO };
	struct poseidon_telemetry *seen;
	struct poseidon_totals *all;
	struct bpf_sock *sk = context->sk;
	char name[] = "poseidon";
	u32 key = 0;
	int speaks = find_option(context, &option, 0);

	all = bpf_map_lookup_elem(&totals, &key);
	if (!sk || !all)
		return;
	seen = bpf_sk_storage_get(&telemetry, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (speaks && seen) {
		seen->speaks = 1;
		count(&all->agreed);
	} else {
		/* Plain TCP from here on. */
		bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags & ~OPTION_CALLBACKS);
		count(&all->refused);
	}
	/* Afterwards: the congestion control asks whether the option is spoken. */
	if (settings.is_default && bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		count(&all->unchosen);
}

SEC("sockops")
int poseidon_option(struct bpf_sock_ops *context)
{
	switch (context->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		ask_for_callbacks(context);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		agree(context);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (offers_option(context))
			bpf_reserve_hdr_opt(context, POSEIDON_OPTION_BYTES, 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (offers_option(context))
			write_option(context);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		read_option(context);
		break;
	}
	return 1;
}

/* ---- the table of flows ---- */

SEC("iter/bpf_sk_storage_map")
int poseidon_flows(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct poseidon_telemetry *seen = context->value;
	struct poseidon_row row = {};
	struct inet_connection_sock *icsk;
	struct sock *sk = context->sk;
	struct tcp_sock *tp;

	if (!sk || !seen || !seen->has_law)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	icsk = (struct inet_connection_sock *)tp;
	row.flow = *(struct poseidon_flow *)icsk->icsk_ca_priv;
	row.mss = ((struct poseidon_host *)icsk->icsk_ca_priv)->mss;
	row.telemetry = *seen;
	row.family = sk->__sk_common.skc_family;
	row.state = sk->__sk_common.skc_state;
	row.local_port = sk->__sk_common.skc_num;
	row.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	if (row.family == AF_INET) {
		*(u32 *)row.local = sk->__sk_common.skc_rcv_saddr;
		*(u32 *)row.remote = sk->__sk_common.skc_daddr;
	} else {
		__builtin_memcpy(row.local, sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8, 16);
		__builtin_memcpy(row.remote, sk->__sk_common.skc_v6_daddr.in6_u.u6_addr8, 16);
	}
	row.netns = sk->__sk_common.skc_net.net->ns.inum;
	row.snd_cwnd = tp->snd_cwnd;
	row.srtt_us = tp->srtt_us >> 3;
	row.bytes_acked = tp->bytes_acked;
	row.pacing_rate = sk->sk_pacing_rate;
	bpf_seq_write(context->meta->seq, &row, sizeof(row));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
