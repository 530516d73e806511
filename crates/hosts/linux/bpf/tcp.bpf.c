// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Poseidon in Linux TCP: a congestion control that runs law.h, and the TCP option that carries the largest hop delay.
 *
 *             sender                                                    receiver
 *   app ──> TCP ──[ mpd 0 | echo ]──> switch, switch: mpd = max ──> TCP ──> app
 *            ^                                                       │ mpd of data
 *   window,  │ cong_control <── storage <── parse                    v
 *   pacing ──┘                  ^───────────────[ mpd | echo ]── WRITE_HDR_OPT
 *
 * Parts      struct_ops `poseidon`    the law's host: time, RTT, packets in flight, window, pacing, losses
 *            sock_ops                 the option: offered in the SYN, then in every packet if both ends support it
 *            iter                     one row per flow, for user space
 * Coexists   with flows that fill the buffer, if `coexistence` is set: coexistence.h then replaces the law's window.
 * State      struct poseidon_host fits in the 104 bytes that a socket reserves for its congestion control, so it needs
 *            no allocation. struct poseidon_telemetry is in socket storage, which both programs can access. Without
 *            this storage, the law uses the RTT.
 * Signals    A code of zero means an empty queue only if a hop is known to measure delays; the option does not count
 *            hops. A flow therefore uses the RTT (brownfield without reports) until it receives a code above zero. Then
 *            it uses the configured signal. If echoes stop, it uses the RTT again.
 * Trust      A peer or a switch can write any number. A delay that is too high slows down only the flow that carries
 *            it, by at most one cut per round trip and not below the smallest window. guard(), losses and the largest
 *            window limit the effect of a delay that is too low.
 * Window     TCP counts whole packets, so the window is rounded down, as in the simulator, but is at least one. Below
 *            one packet, the pacing timer of TCP sends one packet per gap. TSO segments count as the packets they
 *            contain.
 * Skipped    Some kernels may run TCP without our programs for a moment: a patch keeps other processes' programs out of
 *            the context of process 1. Callbacks that return a value then return data from the stack, which becomes the
 *            window in the case of undo_cwnd(). We cannot prevent that, but the next callback that runs writes the
 *            window again. `missed_acks` counts such ACKs, and `poseidon doctor` recognizes such kernels.
 * Differs    from the simulator: an ACK does not restart a running gap, because TCP computes the time of the next
 *            packet when it sends. TCP does not pace the first ten packets of a connection.
 * Source     Wang et al., NSDI 2023: algorithms 1 and 2, section 4.1. The option: crates/core/wire/src/tcp_option.rs
 */
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#include "mss.h"
#include "tcp.h"

/*
 * After this many consecutive ACKs without an echo, the peer has stopped echoing. ACKs with three SACK blocks have no
 * space for an echo.
 */
#define MAX_ACKS_WITHOUT_ECHO 64
/*
 * If the only packet in flight is acknowledged this late, ns, the delayed-ACK timer of the receiver may be the reason.
 * The timer is 40 ms in Linux and FreeBSD, less one tick of 4 ms, and longer elsewhere. Two packets are acknowledged
 * immediately.
 */
#define MIN_DELAYED_ACK 36000000
/* A receiver that delays ACKs sends one ACK per this many full packets (RFC 5681). */
#define DELAYED_ACK_PACKETS 2
/* The largest window of the law and of coexistence, in packets. */
#define MAX_WINDOW (1 << 15)
/*
 * A receiver of this many full packets per smallest round trip need not acknowledge each packet immediately: see
 * is_fast().
 */
#define FAST_PACKETS 8
/* After this many lost SYNs, the option is no longer offered, because a middlebox may be dropping it. */
#define MAX_OFFERS 2

/* The settings have a separate section, so that user space can find them. */
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

/* The programs do not read this map, but they keep it alive. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[POSEIDON_ABOUT_BYTES]);
} about SEC(".maps");

/* ---- the congestion control ---- */

/* Stored in icsk_ca_priv. */
struct poseidon_host {
	struct poseidon_flow flow;
	u32 mss_cache; /* the value for which the flow was computed */
	u32 mss;       /* payload of a full packet */
	u32 echoes;    /* echoes processed so far */
	u32 acks_without_echo; /* consecutive */
	/* Receiver. */
	u32 last_packet; /* us, low bits: arrival of the last packet */
	u32 round_start; /* us, low bits: start of the current round trip */
	u32 round_seq;   /* the next expected sequence number at that time */
	u8 is_fast;      /* the previous round trip brought FAST_PACKETS */
	/* Sender. */
	u8 delays_acks; /* the peer has delayed an ACK */
	u8 unused[2];
	u32 lost;      /* tp->lost at the last ACK */
	u32 delivered; /* tp->delivered at the last ACK */
};

_Static_assert(sizeof(struct poseidon_host) <= 104, "a socket has 104 bytes for its congestion control");

static struct poseidon_host *host_of(struct sock *sk)
{
	return (struct poseidon_host *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* Returns TCP's clock in ns. */
static u64 now_of(struct sock *sk)
{
	return ((struct tcp_sock *)sk)->tcp_mstamp * 1000;
}

/* Initializes a flow. Reads are volatile; otherwise, the compiler would use the settings' initial value. */
static void init_flow(struct poseidon_flow *flow)
{
	const volatile u64 *from = (const volatile u64 *)&settings.flow;
	u64 *to = (u64 *)flow;

	for (u32 word = 0; word < sizeof(*flow) / sizeof(u64); word++)
		to[word] = from[word];
}

/*
 * Adapts the flow to the packet size. TCP's mss_cache does not account for the option. The smallest target is at least
 * 2.5 packets at the largest rate, because each packet delays the next packet. Jumbo frames and loopback have long
 * packets.
 */
static __noinline void set_packet_size(struct poseidon_host *host, u32 mss_cache, int negotiated)
{
	u32 mss = negotiated && mss_cache > POSEIDON_OPTION_BYTES ? mss_cache - POSEIDON_OPTION_BYTES : mss_cache;

	mss = poseidon_max(mss, 1);
	host->mss_cache = mss_cache;
	host->mss = mss;
	host->flow.rate_offset = poseidon_rate_offset(settings.flow.rate_offset, mss);
	host->flow.floor = poseidon_saturate_u32(poseidon_max(
		settings.flow.floor, (u64)settings.packet_time * 5 * mss / (2 * POSEIDON_REFERENCE_MSS)));
}

/* Returns whether the peer acknowledges each packet immediately: it supports the option and has not delayed an ACK. */
static int peer_acks_every_packet(struct poseidon_host *host, struct poseidon_telemetry *tel)
{
	return tel && tel->negotiated && !host->delays_acks;
}

/* Applies the decision of the law or of coexistence to TCP. */
static void apply_decision(struct sock *sk, struct poseidon_host *host, struct poseidon_telemetry *tel)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 window = host->flow.window;
	u64 gap = poseidon_gap(&host->flow);
	/* The application may have set a limit; otherwise all bits are one. */
	u64 rate = sk->sk_max_pacing_rate;
	/* A window of zero would never open again. */
	u64 min_cwnd = 1;

	if (tel && settings.coexistence) {
		window = coexistence_window(&tel->coexistence, window);
		gap = coexistence_gap(&tel->coexistence, gap);
	}
	/*
	 * A receiver that acknowledges every second packet delays the ACK of a single packet by 40 ms. The window
	 * therefore allows two packets and the next packet, and pacing limits the rate to that of the real window.
	 */
	if (window < DELAYED_ACK_PACKETS * POSEIDON_ONE && !peer_acks_every_packet(host, tel)) {
		min_cwnd = DELAYED_ACK_PACKETS + 1;
		gap = ((u64)host->flow.rtt << POSEIDON_Q) / poseidon_max(window, 1);
	}
	tp->snd_cwnd = poseidon_min(poseidon_max(window >> POSEIDON_Q, min_cwnd), tp->snd_cwnd_clamp);
	if (gap)
		rate = poseidon_min(rate, poseidon_max(host->mss * 1000000000ULL / gap, 1));
	sk->sk_pacing_rate = rate;
}

/* Returns the configured signal if echoes arrive and a hop is known to measure delays; otherwise the RTT. */
static u8 choose_signal(struct poseidon_telemetry *tel, u32 acks_without_echo)
{
	u8 configured = settings.flow.signal;

	if (configured == POSEIDON_RTT)
		return configured;
	return tel && tel->is_proven && acks_without_echo < MAX_ACKS_WITHOUT_ECHO ? configured : POSEIDON_BROWNFIELD;
}

SEC("struct_ops")
void BPF_PROG(poseidon_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct poseidon_host *host = host_of(sk);
	struct poseidon_telemetry *tel = bpf_sk_storage_get(&telemetry, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	init_flow(&host->flow);
	host->echoes = tel ? tel->echoes : 0;
	host->acks_without_echo = 0;
	host->is_fast = 0;
	host->lost = tp->lost;
	host->delivered = tp->delivered;
	host->delays_acks = 0;
	host->last_packet = host->round_start = (u32)tp->tcp_mstamp;
	host->round_seq = tp->rcv_nxt;
	host->flow.signal = choose_signal(tel, 0);
	set_packet_size(host, tp->mss_cache, tel && tel->negotiated);
	/* The RTT to use until the first ACK. It must be at least 1 us, because the law computes its logarithm. */
	host->flow.rtt = poseidon_saturate_u32(poseidon_max(tp->srtt_us >> 3, 1) * 1000ULL);
	if (tel) {
		tel->has_law = 1;
		coexistence_start(&tel->coexistence, now_of(sk));
	}
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	apply_decision(sk, host, tel);
}

/*
 * Bounds telemetry by the round-trip time, which no node can shorten.
 *
 * Too much   A hop cannot delay a packet for longer than its round-trip time.
 * Too little Half of the queueing delay beyond twice the smallest target counts as the delay of one hop, regardless of
 *            what the ACK reports. This does not affect a flow with two queues on its round trip. All queueing delay
 *            beyond the guard counts. Hosts may delay a single round trip, so the guard uses the smaller of the last
 *            two RTTs. If a receiver reports empty queues, its flow thus settles where half of the queueing delay
 *            equals
 *            its target. Its share exceeds other flows' shares by 2^(A/p * queue/2), but it does not take the whole
 *            link.
 */
static void guard(const struct poseidon_flow *flow, struct poseidon_ack *ack, struct poseidon_telemetry *tel)
{
	u64 max_possible = poseidon_saturating_sub(poseidon_max(ack->rtt, flow->rtt), settings.base_rtt);
	u64 queueing = poseidon_saturating_sub(poseidon_min(ack->rtt, flow->rtt), flow->base_rtt);
	u64 proven = poseidon_max(poseidon_saturating_sub(queueing, settings.delay_guard),
				  poseidon_saturating_sub(queueing, 2ULL * flow->floor) / 2);
	u64 delay;

	if (!tel || flow->signal == POSEIDON_RTT)
		return;
	if (ack->max_hop_delay != POSEIDON_UNKNOWN && ack->max_hop_delay > max_possible) {
		ack->max_hop_delay = max_possible;
		tel->implausible++;
	}
	delay = poseidon_signal_delay(flow, ack);
	if (!proven || delay == POSEIDON_UNKNOWN || delay >= poseidon_saturate_u32(proven))
		return;
	ack->max_hop_delay = proven;
	tel->guarded++;
}

/* Reads the echo of this ACK, if it has one. */
static void read_echo(struct poseidon_host *host, struct poseidon_telemetry *tel, struct poseidon_ack *ack)
{
	if (!tel)
		return;
	if (tel->echoes == host->echoes) {
		tel->acks_without_echo++;
		host->acks_without_echo = poseidon_min(host->acks_without_echo + 1ULL, MAX_ACKS_WITHOUT_ECHO);
	} else {
		tel->acks_with_echo++;
		host->acks_without_echo = 0;
		host->echoes = tel->echoes;
		tel->is_proven |= tel->echo != 0;
		if (tel->is_proven)
			ack->max_hop_delay = (u64)tel->echo << POSEIDON_OPTION_SHIFT;
		if (tel->reverse)
			ack->reverse_max_hop_delay = (u64)tel->reverse << POSEIDON_OPTION_SHIFT;
	}
	tel->echoes_stopped = host->acks_without_echo >= MAX_ACKS_WITHOUT_ECHO;
}

/*
 * Runs the law. The function is not static, so the verifier checks it once instead of once per path: 23,000
 * instructions instead of 776,000. A global function cannot take a socket, so the caller copies the 64 bytes of the
 * flow to the stack and back.
 */
__noinline int step(struct poseidon_flow *flow, struct poseidon_ack *ack)
{
	if (flow && ack)
		poseidon_on_ack(flow, ack);
	return 0;
}

/* Runs coexistence in the same way. */
__noinline int step_coexistence(struct coexistence *flow, struct coexistence_ack *ack)
{
	if (flow && ack)
		coexistence_on_ack(flow, ack);
	return 0;
}

static void update_coexistence(struct tcp_sock *tp, struct poseidon_host *host, struct poseidon_telemetry *tel,
			     const struct poseidon_ack *ack, const struct rate_sample *sample)
{
	struct coexistence_ack input = {
		.now = ack->now,
		.rtt = ack->rtt,
		.delay = tel->delay,
		.limit = settings.delay_limit,
		.law_window = host->flow.window,
		.packets = ack->packets,
		.lost = tp->lost - host->lost,
		.is_marked = sample->delivered_ce > 0,
		.app_limited = ((u64)sample->prior_in_flight << (POSEIDON_Q + 1)) <
			       coexistence_window(&tel->coexistence, host->flow.window),
		.within_target = poseidon_log_step(&host->flow, tel->delay) >= 0,
	};

	step_coexistence(&tel->coexistence, &input);
}

SEC("struct_ops")
void BPF_PROG(poseidon_cong_control, struct sock *sk, u32 acked, int flag, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct poseidon_host *host = host_of(sk);
	struct poseidon_flow flow;
	struct poseidon_telemetry *tel;
	struct poseidon_ack ack = {
		.now = now_of(sk),
		.max_hop_delay = POSEIDON_UNKNOWN,
		.reverse_max_hop_delay = POSEIDON_UNKNOWN,
		.packets = sample->acked_sacked,
	};
	u32 smallest_rtt = tp->rtt_min.s[0].v;

	tel = bpf_sk_storage_get(&telemetry, sk, 0, 0);
	/* TCP calls this for every delivered packet, except for a few when nothing is in flight. */
	if (tel && tp->delivered - host->delivered != ack.packets)
		tel->missed_acks++;
	host->delivered = tp->delivered;
	/* This is a window update or a plain duplicate. Write the window anyway, because TCP may have changed it. */
	if (!ack.packets) {
		apply_decision(sk, host, tel);
		return;
	}
	read_echo(host, tel, &ack);
	if (tp->mss_cache != host->mss_cache)
		set_packet_size(host, tp->mss_cache, tel && tel->negotiated);

	flow = host->flow;
	flow.base_rtt = settings.base_rtt ? settings.base_rtt : poseidon_saturate_u32(smallest_rtt * 1000ULL);
	/* A retransmitted packet has no RTT. */
	ack.rtt = sample->rtt_us > 0 ? (u64)sample->rtt_us * 1000 : flow.rtt;
	/* A delayed ACK is not a queue. Otherwise a flow of one packet would keep its smallest window forever. */
	if (sample->prior_in_flight <= 1 && poseidon_saturating_sub(ack.rtt, flow.base_rtt) >= MIN_DELAYED_ACK) {
		ack.rtt = poseidon_max(flow.base_rtt, 1);
		host->delays_acks = 1;
	}
	flow.signal = choose_signal(tel, host->acks_without_echo);
	guard(&flow, &ack, tel);
	/* Less than half of the window was in flight when the ACK arrived. */
	ack.app_limited = ((u64)sample->prior_in_flight << (POSEIDON_Q + 1)) < flow.window;
	if (flow.update == POSEIDON_STEADY)
		ack.random = bpf_get_prandom_u32();

	step(&flow, &ack);
	host->flow = flow;
	if (tel) {
		u64 delay = poseidon_signal_delay(&flow, &ack);

		if (delay != POSEIDON_UNKNOWN) {
			tel->delay = (u32)delay;
			if (settings.coexistence)
				update_coexistence(tp, host, tel, &ack, sample);
		}
	}
	host->lost = tp->lost;
	apply_decision(sk, host, tel);
}

SEC("struct_ops")
void BPF_PROG(poseidon_set_state, struct sock *sk, u8 state)
{
	struct poseidon_host *host = host_of(sk);
	struct poseidon_telemetry *tel;

	tel = bpf_sk_storage_get(&telemetry, sk, 0, 0);
	if (state == TCP_CA_RECOVERY) {
		if (!tel || !settings.coexistence || coexistence_on_loss(&tel->coexistence, now_of(sk)))
			poseidon_on_loss(&host->flow, now_of(sk));
		else
			tel->ignored_losses++;
		if (tel)
			tel->losses++;
	} else if (state == TCP_CA_LOSS) {
		poseidon_on_timeout(&host->flow, now_of(sk));
		if (tel) {
			coexistence_on_timeout(&tel->coexistence, now_of(sk));
			tel->timeouts++;
		}
	}
	/* Write the window in every state, because undo_cwnd() may have changed it. */
	apply_decision(sk, host, tel);
}

/*
 * Returns whether the sender's window is several packets: FAST_PACKETS arrived within the smallest round trip, and this
 * packet is not late. The smallest RTT does not exceed the current one, so the window is never overestimated. With a
 * window of one packet, packets are a round trip apart, so each packet is late. A window at most halves per round trip,
 * so the receiver notices in time.
 */
static int is_fast(struct tcp_sock *tp, struct poseidon_host *host)
{
	u32 now = (u32)tp->tcp_mstamp, rtt = tp->rtt_min.s[0].v;
	u32 since = now - host->last_packet;

	host->last_packet = now;
	if (now - host->round_start >= rtt) {
		host->is_fast = (u64)(tp->rcv_nxt - host->round_seq) >= (u64)FAST_PACKETS * host->mss;
		host->round_start = now;
		host->round_seq = tp->rcv_nxt;
	}
	return host->is_fast && since < rtt;
}

/*
 * Makes a receiver acknowledge each packet immediately. Each packet's delay is then echoed, and the delayed-ACK timer
 * of 40 ms does not stall a window of one packet. With FAST_PACKETS per round trip, TCP acknowledges every second
 * packet as usual: several delays per round trip are echoed, and more ACKs would cost more than the law and the option
 * together. The kernel reads the bit only if there is something to acknowledge. It calls this function for every packet
 * with our option. Data packets without the option take the kernel's fast path, where ACKs are delayed as usual.
 */
SEC("struct_ops")
void BPF_PROG(poseidon_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (settings.ack_every_packet && !is_fast(tp, host_of(sk)))
		((struct inet_connection_sock *)sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	/* No program sets such a window. If the kernel skipped a program, this corrects the window at the next ACK. */
	if (tp->snd_cwnd - 1 >= MAX_WINDOW)
		tp->snd_cwnd = 1;
}

SEC("struct_ops")
u32 BPF_PROG(poseidon_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

/* Called after a spurious loss. The law grows the window again by itself. */
SEC("struct_ops")
u32 BPF_PROG(poseidon_undo_cwnd, struct sock *sk)
{
	return (u32)poseidon_min(poseidon_max(((struct tcp_sock *)sk)->snd_cwnd, 1), MAX_WINDOW);
}

/* Lets TSO send single packets, so that windows below two packets are possible. */
SEC("struct_ops")
u32 BPF_PROG(poseidon_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops")
void BPF_PROG(poseidon_release, struct sock *sk)
{
	struct poseidon_telemetry *tel = bpf_sk_storage_get(&telemetry, sk, 0, 0);

	if (tel)
		tel->has_law = 0;
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
	/*
	 * Without this flag, a network namespace cannot use this congestion control as its default, and the attempt leaks
	 * a reference until reboot.
	 */
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

/* The search key of bpf_load_hdr_opt(): the kind and the experiment id. */
#define SEARCH                                                                                                         \
	{                                                                                                              \
		.kind = POSEIDON_OPTION_KIND, .length = 4, .experiment = bpf_htons(POSEIDON_OPTION_EXPERIMENT),        \
	}

#define OPTION_CALLBACKS (BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)

/* Finds the option in the current packet, or in the SYN that is answered, and copies it to `option`. */
static int find_option(struct bpf_sock_ops *context, struct option *option, u64 where)
{
	/* An option with another length is not ours. */
	return bpf_load_hdr_opt(context, option, sizeof(*option), where) == POSEIDON_OPTION_BYTES;
}

static void increment(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static void enable_callbacks(struct bpf_sock_ops *context)
{
	bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags | OPTION_CALLBACKS);
}

/* Returns whether this packet carries the option. An established connection has callbacks only if both ends agreed. */
static int should_send_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	u32 flags = context->skb_tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_ACK);

	if (flags == TCP_FLAG_SYN)
		return context->total_retrans < MAX_OFFERS;
	if (flags == (TCP_FLAG_SYN | TCP_FLAG_ACK))
		return find_option(context, &option, BPF_LOAD_HDR_OPT_TCP_SYN);
	return 1;
}

/* Returns the socket's telemetry. A SYN-ACK has no full socket yet. */
static struct poseidon_telemetry *telemetry_of(struct bpf_sock_ops *context)
{
	/* Read the pointer only once, because the verifier requires a check after each read. */
	struct bpf_sock *sk = context->sk;

	return sk ? bpf_sk_storage_get(&telemetry, sk, 0, 0) : 0;
}

static void write_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry *tel = 0;
	u16 echo = POSEIDON_NO_ECHO;

	if (!(context->skb_tcp_flags & TCP_FLAG_SYN))
		tel = telemetry_of(context);
	if (tel)
		echo = tel->received;
	option.length = POSEIDON_OPTION_BYTES;
	option.echo = bpf_htons(echo);
	bpf_store_hdr_opt(context, &option, sizeof(option), 0);
}

/* Returns whether the packet carries data. */
static int has_data(struct bpf_sock_ops *context)
{
	struct tcp_head *head = context->skb_data;

	if ((void *)(head + 1) > context->skb_data_end)
		return 0;
	return context->skb_len > (head->length_and_reserved >> 4) * 4U;
}

/* Fast path: reads the option in place if it directly follows the timestamps, as Linux writes it. */
static int find_option_in_place(struct bpf_sock_ops *context, struct option *option)
{
	struct {
		struct tcp_head head;
		u32 checksum_and_urgent;
		u32 timestamps_header;
		u32 times[2];
		struct option option;
	} *packet = context->skb_data;

	if ((void *)(packet + 1) > context->skb_data_end)
		return 0;
	if ((packet->head.length_and_reserved >> 4) * 4U < sizeof(*packet) || packet->timestamps_header != bpf_htonl(0x0101080a) ||
	    packet->option.kind != option->kind || packet->option.length != POSEIDON_OPTION_BYTES ||
	    packet->option.experiment != option->experiment)
		return 0;
	*option = packet->option;
	return 1;
}

static void read_option(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry *tel;
	u16 delay, echo;

	if (!find_option_in_place(context, &option) && !find_option(context, &option, 0))
		return;
	tel = telemetry_of(context);
	if (!tel)
		return;
	delay = bpf_ntohs(option.max_hop_delay);
	echo = bpf_ntohs(option.echo);
	if (echo != POSEIDON_NO_ECHO) {
		tel->echo = echo;
		tel->reverse = delay;
		tel->echoes++;
	}
	/* A pure ACK's delay belongs to the reverse path, so it is not echoed. */
	if (has_data(context))
		tel->received = poseidon_min(delay, POSEIDON_NO_ECHO - 1);
}

/* Ends the negotiation when the handshake is complete. `context` contains the last packet of the handshake. */
static void finish_negotiation(struct bpf_sock_ops *context)
{
	struct option option = SEARCH;
	struct poseidon_telemetry initial = { .received = POSEIDON_NO_ECHO };
	struct poseidon_telemetry *tel;
	struct poseidon_totals *total;
	struct bpf_sock *sk = context->sk;
	char name[] = "poseidon";
	u32 key = 0;
	int negotiated = find_option(context, &option, 0);

	total = bpf_map_lookup_elem(&totals, &key);
	if (!sk || !total)
		return;
	tel = bpf_sk_storage_get(&telemetry, sk, &initial, BPF_SK_STORAGE_GET_F_CREATE);
	if (negotiated && tel) {
		tel->negotiated = 1;
		increment(&total->agreed);
	} else {
		/* The connection is plain TCP. */
		bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags & ~OPTION_CALLBACKS);
		increment(&total->refused);
	}
	/* Set the congestion control last, because it reads `negotiated`. */
	if (settings.is_default && bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		increment(&total->unchosen);
}

SEC("sockops")
int poseidon_option(struct bpf_sock_ops *context)
{
	switch (context->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		enable_callbacks(context);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		finish_negotiation(context);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (should_send_option(context))
			bpf_reserve_hdr_opt(context, POSEIDON_OPTION_BYTES, 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (should_send_option(context))
			write_option(context);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		read_option(context);
		break;
	}
	return 1;
}

/* ---- the flow table ---- */

SEC("iter/bpf_sk_storage_map")
int poseidon_flows(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct poseidon_telemetry *tel = context->value;
	struct poseidon_row row = {};
	struct inet_connection_sock *icsk;
	struct sock *sk = context->sk;
	struct tcp_sock *tp;

	if (!sk || !tel || !tel->has_law)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	icsk = (struct inet_connection_sock *)tp;
	row.flow = *(struct poseidon_flow *)icsk->icsk_ca_priv;
	row.mss = ((struct poseidon_host *)icsk->icsk_ca_priv)->mss;
	row.telemetry = *tel;
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
