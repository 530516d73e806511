/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What user space and the programs of tcp.bpf.c hand each other. The same structs are in src/tcp/.
 */
#ifndef POSEIDON_TCP_H
#define POSEIDON_TCP_H

#include "coexistence.h"

/* The TCP option of crates/core/wire/src/tcp_option.rs: kind, length, experiment, this packet's delay, the echoed delay. */
#define POSEIDON_OPTION_KIND 253
#define POSEIDON_OPTION_BYTES 8
#define POSEIDON_OPTION_EXPERIMENT 0x5053
/* One step of a delay code is 2^8 ns. */
#define POSEIDON_OPTION_SHIFT 8
/* What the echo holds where nothing was received yet; an echoed delay stops one below. */
#define POSEIDON_NO_ECHO 0xffff

/* Set before the programs are loaded; the same for all flows. */
struct poseidon_settings {
	struct poseidon_flow flow; /* a new flow with packets of POSEIDON_REFERENCE_MSS bytes */
	u64 delay_guard;           /* ns: see guard() */
	u32 base_rtt;              /* ns; 0: the smallest RTT that the connection has seen */
	u32 packet_time;           /* ns that such a packet takes at the largest rate */
	u32 delay_limit;           /* ns: a queue that stays above it is somebody else's, see coexistence.h */
	u8 is_default;             /* sockets of the cgroup get this congestion control without asking */
	u8 ack_every_packet;       /* a receiver holds no ACK back, unless packets come fast */
	u8 coexistence;            /* keep a share beside flows that fill the buffer */
	u8 unused;
};

/* Beside a socket: what the option said and how often. sock_ops writes the first part, the congestion control the second. */
struct poseidon_telemetry {
	u32 echoes;   /* echoes received; the congestion control remembers how many it has seen */
	u16 echo;     /* the last one, a delay code */
	u16 reverse;  /* the delay code of the packet that brought it: of the way back */
	u16 received; /* the delay code of the last packet with data, to be echoed */
	u8 speaks;    /* both ends speak the option */
	u8 is_proven; /* a code above zero came back: there is a hop that measures */

	u8 has_law;   /* this congestion control runs on the socket */
	u8 is_silent; /* echoes have stopped */
	u8 unused[2];
	u32 delay;    /* ns: the delay last held against the target */
	u64 acks_with_echo;
	u64 acks_without_echo;
	u64 guarded;  /* ACKs whose telemetry said less than the guard allows */
	u64 implausible; /* ACKs whose telemetry said more than the round trip */
	u64 losses;   /* fast recoveries */
	u64 ignored_losses; /* of them, those without a queue: the window stayed */
	u64 timeouts;
	u64 missed_acks; /* ACKs that TCP processed without our programs */
	struct coexistence coexistence;
};

/* One flow, for who reads the iterator. */
struct poseidon_row {
	struct poseidon_flow flow;
	struct poseidon_telemetry telemetry;
	u8 local[16]; /* IPv4 in the first four */
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u16 family;
	u8 state; /* of TCP: 1 is established */
	u8 unused;
	u32 netns; /* inode number */
	u32 mss;
	u32 snd_cwnd;
	u32 srtt_us;
	u64 bytes_acked;
	u64 pacing_rate; /* bytes per second, all ones: none */
};

/* Over all connections of the cgroup since the programs were loaded. */
struct poseidon_totals {
	u64 agreed;   /* both ends speak the option */
	u64 refused;  /* the other end does not */
	u64 unchosen; /* the congestion control could not be set */
};

/* What was set, as text for who asks for the status. */
#define POSEIDON_ABOUT_BYTES 2048

_Static_assert(sizeof(struct poseidon_settings) == 88, "no padding that the compiler chose");
_Static_assert(sizeof(struct poseidon_telemetry) == 176, "no padding that the compiler chose");
_Static_assert(sizeof(struct poseidon_row) == 312, "no padding that the compiler chose");

#endif
