/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The kernel types that our TCP programs use: sockets, congestion control operations, and the sock_ops context.
 * Internal structs are relocated when a program is loaded. `bpf_sock_ops` is part of the kernel interface, so it is
 * declared in full.
 */
#ifndef POSEIDON_KERNEL_TCP_H
#define POSEIDON_KERNEL_TCP_H

#include "vmlinux.h"

enum {
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_F_NO_PREALLOC = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SOL_TCP = 6,
	TCP_CONGESTION = 13,
	TCP_CA_NAME_MAX = 16,
	TCP_CONG_NON_RESTRICTED = 1,
	TCP_CONG_NEEDS_ECN = 2,
	TCP_CA_RECOVERY = 3,
	TCP_CA_LOSS = 4,
	/* A congestion control that sets the window itself does not use slow start. */
	TCP_INFINITE_SSTHRESH = 0x7fffffff,
	ICSK_ACK_NOW = 16,
	/* Outgoing packets carry ECE. */
	TCP_ECN_DEMAND_CWR = 4,
	/* TCP paces packets with its own timer, without a queueing discipline. */
	SK_PACING_NEEDED = 1,
	TCP_FLAG_SYN = 0x02,
	TCP_FLAG_ACK = 0x10,
};

enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15,
	BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 1 << 5,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
	BPF_LOAD_HDR_OPT_TCP_SYN = 1,
};

/* These structs contain only the fields we use. The loader finds their offsets in the running kernel. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	u64 tcp_mstamp; /* us */
	u64 bytes_acked;
	struct minmax rtt_min;
	u32 srtt_us; /* times eight */
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_una;
	u32 snd_nxt;
	u32 rcv_nxt;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u8 ecn_flags;
};

struct rate_sample {
	long rtt_us; /* negative: not measured */
	u32 prior_in_flight;
	u32 acked_sacked;
	s32 delivered_ce;
};

enum tcp_ca_event {
	CA_EVENT_LOSS = 3,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* The start of a TCP header, including its length. */
struct tcp_head {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	u8 length_and_reserved; /* high four bits: length in four-byte words */
	u8 flags;
	__be16 window;
};

struct bpf_sock;

#define POINTER_OF_64_BITS(type, name)                                                                                 \
	union {                                                                                                        \
		type name;                                                                                             \
		u64 : 64;                                                                                              \
	} __attribute__((aligned(8)))

struct bpf_sock_ops {
	u32 op;
	union {
		u32 args[4];
		u32 reply;
		u32 replylong[4];
	};
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 is_fullsock;
	u32 snd_cwnd;
	u32 srtt_us;
	u32 bpf_sock_ops_cb_flags;
	u32 state;
	u32 rtt_min;
	u32 snd_ssthresh;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 mss_cache;
	u32 ecn_flags;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 packets_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 segs_in;
	u32 data_segs_in;
	u32 segs_out;
	u32 data_segs_out;
	u32 lost_out;
	u32 sacked_out;
	u32 sk_txhash;
	u64 bytes_received;
	u64 bytes_acked;
	POINTER_OF_64_BITS(struct bpf_sock *, sk);
	POINTER_OF_64_BITS(void *, skb_data);
	POINTER_OF_64_BITS(void *, skb_data_end);
	u32 skb_len;
	u32 skb_tcp_flags;
	u64 skb_hwtstamp;
};

#endif
