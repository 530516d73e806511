/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The structs that user space shares with the programs in tcp.bpf.c. src/tcp/ has the same structs.
 */
#ifndef POSEIDON_TCP_H
#define POSEIDON_TCP_H

#include "coexistence.h"

/*
 * The TCP option from crates/core/wire/src/tcp_option.rs: kind, length, experiment, this packet's delay, and the echoed
 * delay.
 */
#define POSEIDON_OPTION_KIND 253
#define POSEIDON_OPTION_BYTES 8
#define POSEIDON_OPTION_EXPERIMENT 0x5053
/* One step of a delay code is 2^8 ns. */
#define POSEIDON_OPTION_SHIFT 8
/* The echo value until a delay has been received. Echoed delays are smaller. */
#define POSEIDON_NO_ECHO 0xffff

/* The settings, which all flows share. User space sets them before it loads the programs. */
struct poseidon_settings {
	struct poseidon_flow flow; /* a new flow with packets of POSEIDON_REFERENCE_MSS bytes */
	u64 delay_guard;           /* ns: see guard() */
	u32 base_rtt;              /* ns; 0: the smallest RTT of the connection */
	u32 packet_time;           /* ns: the transmission time of such a packet at the largest rate */
	u32 delay_limit;           /* ns: a queue that stays above it is caused by other flows; see coexistence.h */
	u8 is_default;             /* sockets in the cgroup use this congestion control by default */
	u8 ack_every_packet;       /* a receiver does not delay ACKs, unless packets arrive fast */
	u8 coexistence;            /* keep a share when competing with flows that fill the buffer */
	u8 unused;
};

/* A socket's telemetry. sock_ops writes the first part, and the congestion control writes the second part. */
struct poseidon_telemetry {
	u32 echoes;   /* echoes received; the congestion control counts the echoes it has processed */
	u16 echo;     /* the last echo, a delay code */
	u16 reverse;  /* the delay code of that packet, for the reverse path */
	u16 received; /* the delay code of the last data packet, to be echoed */
	u8 negotiated; /* both ends support the option */
	u8 is_proven; /* a code above zero was echoed, so a hop measures */

	u8 has_law;   /* this congestion control runs on the socket */
	u8 echoes_stopped;
	u8 unused[2];
	u32 delay;    /* ns: the delay last compared with the target */
	u64 acks_with_echo;
	u64 acks_without_echo;
	u64 guarded;  /* ACKs whose telemetry was below the bound of the guard */
	u64 implausible; /* ACKs whose telemetry exceeded the round trip */
	u64 losses;   /* fast recoveries */
	u64 ignored_losses; /* recoveries without a queue, which kept the window */
	u64 timeouts;
	u64 missed_acks; /* ACKs that TCP processed without our programs */
	struct coexistence coexistence;
};

/* A row of the iterator. */
struct poseidon_row {
	struct poseidon_flow flow;
	struct poseidon_telemetry telemetry;
	u8 local[16]; /* an IPv4 address uses the first four bytes */
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u16 family;
	u8 state; /* TCP state; 1 is established */
	u8 unused;
	u32 netns; /* inode number */
	u32 mss;
	u32 snd_cwnd;
	u32 srtt_us;
	u64 bytes_acked;
	u64 pacing_rate; /* bytes per second; all ones: no limit */
};

/* Totals over all connections of the cgroup since the programs were loaded. */
struct poseidon_totals {
	u64 agreed;   /* both ends support the option */
	u64 refused;  /* the peer does not support it */
	u64 unchosen; /* the congestion control could not be set */
};

/* The buffer size for the settings text in the status. */
#define POSEIDON_ABOUT_BYTES 2048

_Static_assert(sizeof(struct poseidon_settings) == 88, "the struct has no padding");
_Static_assert(sizeof(struct poseidon_telemetry) == 176, "the struct has no padding");
_Static_assert(sizeof(struct poseidon_row) == 312, "the struct has no padding");

#endif
