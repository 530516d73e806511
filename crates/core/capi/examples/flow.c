/* Poseidon alone, with numeric parameters: what NIC firmware or a kernel does for each flow. */
#include "poseidon_laws.h"

#include <stdio.h>

int main(void)
{
    /* Once per host: the parameters. All flows that share queues must have the same ones. */
    poseidon_flow_params params = {.struct_size = sizeof(params)};
    if (poseidon_flow_params_default(&params) != POSEIDON_OK)
        return 1;
    params.max_rate_bps = 100000000000; /* the fastest NIC of the fabric */

    /* Once per flow: the state, in memory of the caller. */
    static poseidon_flow flow;
    const poseidon_path path = {
        .struct_size = sizeof(path), .mtu_bytes = 4096, .line_rate_bps = 100000000000, .base_rtt_ns = 10000};
    const uint32_t signals = POSEIDON_SIGNAL_RTT | POSEIDON_SIGNAL_MAX_HOP_DELAY;
    if (poseidon_flow_init(&flow, sizeof(flow), &params, &path, signals, NULL) != POSEIDON_OK)
        return 1;

    /* For each ACK: what it carries, then the decision. Here the worst hop is empty, then it fills up. */
    for (uint32_t i = 0; i < 8; i++) {
        const uint64_t delay = i < 4 ? 1000 : 60000;
        const poseidon_ack ack = {.struct_size = sizeof(ack),
                                  .flags = POSEIDON_ACK_MAX_HOP_DELAY,
                                  .now_ns = 100000 * (i + 1),
                                  .rtt_ns = 10000 + delay,
                                  .max_hop_delay_ns = delay,
                                  .packets = 8};
        poseidon_decision decision = {.struct_size = sizeof(decision)};
        if (poseidon_flow_on_ack(&flow, &ack) != POSEIDON_OK)
            return 1;
        if (poseidon_flow_decision(&flow, &decision) != POSEIDON_OK)
            return 1;
        printf("delay %5u ns: window %7.3f packets\n", (unsigned)delay,
               (double)decision.window_q24 / (double)POSEIDON_ONE_PACKET);
    }

    /* A retransmission timeout, and a window below one packet: then the pacing sets the spacing. */
    for (uint32_t i = 0; i < 3; i++)
        if (poseidon_flow_on_timeout(&flow, 2000000 * (i + 1)) != POSEIDON_OK)
            return 1;
    poseidon_decision decision = {.struct_size = sizeof(decision)};
    if (poseidon_flow_decision(&flow, &decision) != POSEIDON_OK)
        return 1;
    if (decision.pacing == POSEIDON_PACING_GAP)
        printf("after three timeouts: one packet per %u ns\n", (unsigned)decision.gap_ns);

    /* A flow that has ended is refused. */
    if (poseidon_flow_destroy(&flow) != POSEIDON_OK)
        return 1;
    printf("after the end: %s\n", poseidon_error_text(poseidon_flow_on_timeout(&flow, 0)));
    return 0;
}
