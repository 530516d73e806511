/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * One constant of a flow depends on the size of its packets, which TCP knows only when a connection stands. Rust makes one
 * flow for packets of POSEIDON_REFERENCE_MSS bytes; poseidon_rate_offset() gives the number that Rust would have computed for
 * packets of another size: to the last bit, for every size (tests/mss.rs).
 */
#ifndef POSEIDON_MSS_H
#define POSEIDON_MSS_H

#include "law.h"

#define POSEIDON_REFERENCE_MSS 1448

/*
 * log2 of x, q24, rounded to the nearest: log2_slow() of crates/core/laws/src/parts/fixed_math.rs. It squares 25 times and reads a bit
 * of the logarithm each time. Without a branch inside: the verifier would follow 2^25 ways.
 */
static inline s64 poseidon_log2_slow(u64 x)
{
	u32 zeros = (u32)__builtin_clzll(x | 1) & 63;
	u64 mantissa = (x | (x == 0)) << zeros;
	u64 fraction = 0;

	for (int bit = 0; bit <= POSEIDON_Q; bit++) {
		/* 64 bits squared by halves: a^2 2^64 + 2ab 2^32 + b^2. */
		u64 a = mantissa >> 32, b = mantissa & 0xffffffff;
		u64 low = b * b;
		u64 middle = a * b;
		u64 carry = (low >> 32) + ((middle & 0xffffffff) << 1);
		u64 high = a * a + ((middle >> 32) << 1) + (carry >> 32);
		/* The square is in [1, 4) with 126 fractional bits; where it is below two it moves up by one. */
		u64 below_two = 1 - (high >> 63);

		fraction = (fraction << 1) | (high >> 63);
		mantissa = (high << below_two) | (((carry >> 31) & 1) & below_two);
	}
	return (s64)(((u64)(63 - zeros) << POSEIDON_Q) + ((fraction + 1) >> 1));
}

/* What packets of one byte would have in a nanosecond, bit/s: so that a window of packets and an RTT give a rate. */
#define POSEIDON_BYTE_PER_NS 8000000000ULL

/* `rate_offset` of the flow for packets of `mss` bytes, from that of the flow for POSEIDON_REFERENCE_MSS. */
static inline s32 poseidon_rate_offset(s32 reference_offset, u32 mss)
{
	return (s32)(reference_offset + poseidon_log2_slow(POSEIDON_REFERENCE_MSS * POSEIDON_BYTE_PER_NS) -
		     poseidon_log2_slow(mss * POSEIDON_BYTE_PER_NS));
}

#endif
