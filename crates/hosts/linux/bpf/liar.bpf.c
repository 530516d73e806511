// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Faulty network elements for tests: a switch that forges telemetry, a middlebox that drops unknown options, a switch
 * that marks packets, a path that reorders packets, and a path that loses packets. They support IPv4 without IP
 * options, and expect the TCP option where Linux writes it in an established connection: after the timestamps.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "tcp.h"

/* The TCP port of the packets, and the code to write. A code that does not fit in 16 bits means random values. */
struct lie {
	u32 port;
	u32 code;
};

const volatile struct lie lie SEC(".rodata.lie") = {};

#define TCP_OFFSET (14 + 20)
#define CHECKSUM_OFFSET (TCP_OFFSET + 16)
#define OPTION_OFFSET (TCP_OFFSET + 32)
#define DELAY_OFFSET (OPTION_OFFSET + 4)

static u16 load_16(struct __sk_buff *skb, u32 offset)
{
	__be16 word = 0;

	bpf_skb_load_bytes(skb, offset, &word, sizeof(word));
	return bpf_ntohs(word);
}

/* Writes a forged delay into the option, and updates the checksum. */
SEC("tc")
int liar(struct __sk_buff *skb)
{
	__be16 old, new;

	/* IPv4, TCP, our option: kind and length, experiment. */
	if (load_16(skb, 12) != 0x0800 || (load_16(skb, 14 + 8) & 0xff) != 6)
		return 0;
	if (load_16(skb, OPTION_OFFSET) != (POSEIDON_OPTION_KIND << 8 | POSEIDON_OPTION_BYTES) ||
	    load_16(skb, OPTION_OFFSET + 2) != POSEIDON_OPTION_EXPERIMENT)
		return 0;
	if (load_16(skb, TCP_OFFSET) != lie.port && load_16(skb, TCP_OFFSET + 2) != lie.port)
		return 0;
	old = bpf_htons(load_16(skb, DELAY_OFFSET));
	new = bpf_htons((u16)(lie.code > 0xffff ? bpf_get_prandom_u32() : lie.code));
	bpf_l4_csum_replace(skb, CHECKSUM_OFFSET, old, new, sizeof(new));
	bpf_skb_store_bytes(skb, DELAY_OFFSET, &new, sizeof(new), 0);
	return 0;
}

/* A middlebox that drops SYNs with the option. In a SYN, the option follows twenty bytes of other options. */
SEC("tc")
int dropper(struct __sk_buff *skb)
{
	int is_syn = load_16(skb, TCP_OFFSET + 12) & 0x02;

	if (is_syn && load_16(skb, TCP_OFFSET + 40) == (POSEIDON_OPTION_KIND << 8 | POSEIDON_OPTION_BYTES))
		return 2; /* TC_ACT_SHOT */
	return 0;
}

/* Returns whether the packet carries data, judging by its IPv4 length. */
static int has_data(struct __sk_buff *skb)
{
	return load_16(skb, 14 + 2) >= 200;
}

/* Reorders packets: one data packet in sixteen, at random, leaves through a slower device, whose index is `code`. */
SEC("tc")
int detour(struct __sk_buff *skb)
{
	if (!has_data(skb) || (bpf_get_prandom_u32() & 15))
		return 0;
	return bpf_redirect(lie.code, 0);
}

/* Drops one data packet in a hundred, at random. */
SEC("tc")
int lossy(struct __sk_buff *skb)
{
	return has_data(skb) && bpf_get_prandom_u32() < ~0U / 100 ? 2 : 0; /* TC_ACT_SHOT */
}

/* Marks one ECN-capable packet in eight, at random. */
SEC("tc")
int marker(struct __sk_buff *skb)
{
	if (!(bpf_get_prandom_u32() & 7))
		bpf_skb_ecn_set_ce(skb);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
