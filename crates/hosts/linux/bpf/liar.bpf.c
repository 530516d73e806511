// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Bad company on the way, for tests. A switch that lies: writes what it was told into the option of packets to or from one TCP port,
 * and repairs the checksum. A box that drops what it does not know. A switch that marks. A way on which packets overtake
 * each other, and one that loses some. IPv4 without options; the TCP option where
 * Linux puts it in an established connection, behind the timestamps.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "tcp.h"

/* Which packets, and what they are told; above 16 bits: anything, by chance. */
struct lie {
	u32 port;
	u32 code;
};

const volatile struct lie lie SEC(".rodata.lie") = {};

#define TCP_AT (14 + 20)
#define CHECKSUM_AT (TCP_AT + 16)
#define OPTION_AT (TCP_AT + 32)
#define DELAY_AT (OPTION_AT + 4)

static u16 load_16(struct __sk_buff *skb, u32 at)
{
	__be16 word = 0;

	bpf_skb_load_bytes(skb, at, &word, sizeof(word));
	return bpf_ntohs(word);
}

SEC("tc")
int liar(struct __sk_buff *skb)
{
	__be16 old, new;

	/* IPv4, TCP, our option: kind and length, experiment. */
	if (load_16(skb, 12) != 0x0800 || (load_16(skb, 14 + 8) & 0xff) != 6)
		return 0;
	if (load_16(skb, OPTION_AT) != (POSEIDON_OPTION_KIND << 8 | POSEIDON_OPTION_BYTES) ||
	    load_16(skb, OPTION_AT + 2) != POSEIDON_OPTION_EXPERIMENT)
		return 0;
	if (load_16(skb, TCP_AT) != lie.port && load_16(skb, TCP_AT + 2) != lie.port)
		return 0;
	old = bpf_htons(load_16(skb, DELAY_AT));
	new = bpf_htons((u16)(lie.code > 0xffff ? bpf_get_prandom_u32() : lie.code));
	bpf_l4_csum_replace(skb, CHECKSUM_AT, old, new, sizeof(new));
	bpf_skb_store_bytes(skb, DELAY_AT, &new, sizeof(new), 0);
	return 0;
}

/* A box on the way that drops what it does not know: SYNs with the option, which is the sixth there, behind twenty bytes. */
SEC("tc")
int dropper(struct __sk_buff *skb)
{
	int is_syn = load_16(skb, TCP_AT + 12) & 0x02;

	if (is_syn && load_16(skb, TCP_AT + 40) == (POSEIDON_OPTION_KIND << 8 | POSEIDON_OPTION_BYTES))
		return 2; /* TC_ACT_SHOT */
	return 0;
}

/* By the length that IPv4 says. */
static int has_data(struct __sk_buff *skb)
{
	return load_16(skb, 14 + 2) >= 200;
}

/* One packet of data in sixteen, by chance, goes out of another device (`code`), where it waits: packets come out of order. */
SEC("tc")
int detour(struct __sk_buff *skb)
{
	if (!has_data(skb) || (bpf_get_prandom_u32() & 15))
		return 0;
	return bpf_redirect(lie.code, 0);
}

/* Drops one packet of data in a hundred, by chance. */
SEC("tc")
int lossy(struct __sk_buff *skb)
{
	return has_data(skb) && bpf_get_prandom_u32() < ~0U / 100 ? 2 : 0; /* TC_ACT_SHOT */
}

/* Marks one packet in eight, by chance, if it may be marked. */
SEC("tc")
int marker(struct __sk_buff *skb)
{
	if (!(bpf_get_prandom_u32() & 7))
		bpf_skb_ecn_set_ce(skb);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
