/* A packet crosses three switches that update its shim and its UDP checksum; the receiver echoes the shim. */
#include "poseidon_laws.h"

#include <stdio.h>
#include <string.h>

/* The Internet checksum over a whole packet: zero if the checksum in it is correct. */
static unsigned verify(const uint8_t *bytes, size_t size)
{
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (unsigned)bytes[i] << (i % 2 == 0 ? 8 : 0);
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return 0xffff - sum;
}

int main(void)
{
    /* A UDP header with its checksum at byte 6, a shim at byte 8, and the payload. The pseudo-header is left out. */
    uint8_t packet[16] = {0xfe, 0x1d, 0xfe, 0x1d, 0, 16, 0, 0, 0, 0, 0, 0, 'd', 'a', 't', 'a'};
    uint8_t *const checksum = packet + 6;
    uint8_t *const payload = packet + 8;
    const poseidon_shim empty = {0, 0, 0};
    if (poseidon_shim_emit(&empty, payload, 8) != POSEIDON_OK)
        return 1;
    const unsigned sum = verify(packet, sizeof(packet));
    checksum[0] = (uint8_t)(sum >> 8);
    checksum[1] = (uint8_t)(sum & 0xff);

    /* The switches: each one measured how long the packet waited. */
    const uint64_t delays_ns[3] = {300, 25700, 9000};
    for (size_t i = 0; i < 3; i++) {
        if (poseidon_shim_stamp(payload, 8, delays_ns[i], POSEIDON_STEP_LOG2, checksum) != POSEIDON_OK)
            return 1;
        printf("switch %u: shim %02x%02x%02x%02x, checksum %s\n", (unsigned)i, payload[0], payload[1],
               payload[2], payload[3], verify(packet, sizeof(packet)) == 0 ? "correct" : "wrong");
    }

    /* The receiver echoes what arrived with TTL 60, and the sender reads the signal. */
    poseidon_shim shim;
    poseidon_reflection block;
    poseidon_max_hop_delay signal;
    uint8_t ack[POSEIDON_REFLECTION_BYTES];
    if (poseidon_shim_parse(payload, 8, &shim) != POSEIDON_OK ||
        poseidon_reflection_of_shim(&shim, 60, 64, &block) != POSEIDON_OK ||
        poseidon_reflection_emit(&block, ack, sizeof(ack)) != POSEIDON_OK ||
        poseidon_reflection_parse(ack, sizeof(ack), &block) != POSEIDON_OK ||
        poseidon_reflection_signal(&block, POSEIDON_STEP_LOG2, &signal) != POSEIDON_OK)
        return 1;
    printf("sender: %u ns at the worst of %u hops, %s\n", (unsigned)signal.worst_ns, (unsigned)signal.hops,
           poseidon_reflection_coverage(&block) == POSEIDON_COVERAGE_FULL ? "all hops measured"
                                                                           : "one hop did not measure");

    /* Other payload is refused and stays unchanged. */
    uint8_t other[8] = {'G', 'E', 'T', ' ', '/', 0, 0, 0};
    printf("other payload: %s\n",
           poseidon_error_text(poseidon_shim_stamp(other, 8, 9000, POSEIDON_STEP_LOG2, NULL)));

    /* The same in a TCP option, after two NOPs. */
    uint8_t options[12] = {1, 1, 1, 253, 8, 0x50, 0x53, 0, 0, 0xff, 0xff, 0};
    const poseidon_status stamped =
        poseidon_tcp_option_stamp(options, sizeof(options), POSEIDON_TCP_OPTION_KIND, POSEIDON_TCP_OPTION_EXID,
                                  25600, POSEIDON_STEP_LOG2, NULL);
    printf("TCP option: stamped %d, code %u\n", (int)stamped, (unsigned)(options[7] << 8 | options[8]));
    return memcmp(other, "GET /", 5) == 0 ? 0 : 1;
}
