/* The layout of the structs on 64-bit systems. A Rust test asserts the same numbers. */
#include "poseidon_laws.h"

#include <stdio.h>

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define CHECK(name, condition) _Static_assert(condition, #name)
#else
#define CHECK(name, condition) typedef char check_##name[(condition) ? 1 : -1]
#endif

#if UINTPTR_MAX == 0xffffffffffffffffu
CHECK(text, sizeof(poseidon_text) == 16);
CHECK(error, sizeof(poseidon_error) == 256);
CHECK(error_message, offsetof(poseidon_error, message) == 16);
CHECK(path, sizeof(poseidon_path) == 32);
CHECK(path_base_rtt, offsetof(poseidon_path, base_rtt_ns) == 24);
CHECK(hop, sizeof(poseidon_hop) == 32);
CHECK(ack, sizeof(poseidon_ack) == 128);
CHECK(ack_hops, offsetof(poseidon_ack, hops) == 80);
CHECK(ack_packets, offsetof(poseidon_ack, packets) == 112);
CHECK(ack_random, offsetof(poseidon_ack, random) == 116);
CHECK(ack_in_flight, offsetof(poseidon_ack, in_flight_bytes) == 120);
CHECK(loss, sizeof(poseidon_loss) == 16);
CHECK(trim, sizeof(poseidon_trim) == 40);
CHECK(trim_rtt, offsetof(poseidon_trim, rtt_ns) == 32);
CHECK(timeout, sizeof(poseidon_timeout) == 24);
CHECK(decision, sizeof(poseidon_decision) == 32);
CHECK(decision_rate, offsetof(poseidon_decision, rate_bps) == 24);
CHECK(delay_signal, sizeof(poseidon_delay_signal) == 24);
CHECK(law_info, sizeof(poseidon_law_info) == 56);
CHECK(law_info_source, offsetof(poseidon_law_info, source) == 40);
CHECK(param_info, sizeof(poseidon_param_info) == 104);
CHECK(preset_info, sizeof(poseidon_preset_info) == 40);
CHECK(max_hop_delay, sizeof(poseidon_max_hop_delay) == 16);
#endif
CHECK(law, sizeof(poseidon_law) == POSEIDON_LAW_SIZE);
CHECK(flow, sizeof(poseidon_flow) == POSEIDON_FLOW_SIZE);
CHECK(shim, sizeof(poseidon_shim) == 4);
CHECK(reflection, sizeof(poseidon_reflection) == 6);
CHECK(tcp_option, sizeof(poseidon_tcp_option) == 8);

int main(void)
{
    if (poseidon_abi_version() != POSEIDON_ABI_VERSION || poseidon_law_size() > POSEIDON_LAW_SIZE ||
        poseidon_law_align() > POSEIDON_LAW_ALIGN) {
        printf("the library does not match the header\n");
        return 1;
    }
    printf("the library matches the header\n");
    return 0;
}
