/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * One flow constant depends on the packet size, which TCP does not know until a connection is established. Rust
 * computes a flow for packets of POSEIDON_REFERENCE_MSS bytes. poseidon_rate_offset() returns the constant for another
 * size, bit for bit as Rust would compute it (tests/mss.rs).
 */
#ifndef POSEIDON_MSS_H
#define POSEIDON_MSS_H

#include "law.h"

#define POSEIDON_REFERENCE_MSS 1448

/*
 * Returns log2 of x, q24, rounded to nearest, like log2_slow() in crates/core/laws/src/fixed_math.rs. The function
 * squares the mantissa 25 times and reads one bit of the logarithm each time. The loop contains no branch, because the
 * verifier would follow 2^25 paths.
 */
static inline s64 poseidon_log2_slow(u64 x)
{
	u32 zeros = (u32)__builtin_clzll(x | 1) & 63;
	u64 mantissa = (x | (x == 0)) << zeros;
	u64 fraction = 0;

	for (int bit = 0; bit <= POSEIDON_Q; bit++) {
		/* The square of a 64-bit number, computed from its halves: a^2 2^64 + 2ab 2^32 + b^2. */
		u64 a = mantissa >> 32, b = mantissa & 0xffffffff;
		u64 low = b * b;
		u64 middle = a * b;
		u64 carry = (low >> 32) + ((middle & 0xffffffff) << 1);
		u64 high = a * a + ((middle >> 32) << 1) + (carry >> 32);
		/* The square is in [1, 4) with 126 fractional bits. If it is below two, shift it by one. */
		u64 below_two = 1 - (high >> 63);

		fraction = (fraction << 1) | (high >> 63);
		mantissa = (high << below_two) | (((carry >> 31) & 1) & below_two);
	}
	return (s64)(((u64)(63 - zeros) << POSEIDON_Q) + ((fraction + 1) >> 1));
}

/* One byte per nanosecond, in bit/s: converts a window and an RTT to a rate. */
#define POSEIDON_BYTE_PER_NS 8000000000ULL

/* Converts `rate_offset` from packets of POSEIDON_REFERENCE_MSS bytes to packets of `mss` bytes. */
static inline s32 poseidon_rate_offset(s32 reference_offset, u32 mss)
{
	return (s32)(reference_offset + poseidon_log2_slow(POSEIDON_REFERENCE_MSS * POSEIDON_BYTE_PER_NS) -
		     poseidon_log2_slow(mss * POSEIDON_BYTE_PER_NS));
}

#endif
