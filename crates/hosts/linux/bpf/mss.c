// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/* Reads rate offsets for packets of POSEIDON_REFERENCE_MSS bytes. For each, writes the offsets for 1 to 65535 bytes. */
#include <stdio.h>

#include "mss.h"

int main(void)
{
	s32 reference;

	while (fread(&reference, sizeof(reference), 1, stdin) == 1) {
		for (u32 mss = 1; mss <= 65535; mss++) {
			s32 offset = poseidon_rate_offset(reference, mss);

			fwrite(&offset, sizeof(offset), 1, stdout);
		}
	}
	return ferror(stdin) || fflush(stdout) || ferror(stdout);
}
