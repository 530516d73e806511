/* Lists the laws and their parameters, and shows what is wrong with a configuration. */
#include "poseidon_laws.h"

#include <stdio.h>
#include <string.h>

static void print_law(uint32_t index)
{
    poseidon_law_info law = {.struct_size = sizeof(law)};
    if (poseidon_law_info_get(index, &law) != POSEIDON_OK)
        return;
    printf("%-15.*s %2u parameters, %u presets, needs %#04x\n", (int)law.name.size, law.name.data,
           (unsigned)law.param_count, (unsigned)law.preset_count, (unsigned)law.needs);
}

/* Tries a configuration and points at the error in it. */
static void try_config(const char *name, const char *params)
{
    static poseidon_law law;
    const poseidon_path path = {
        .struct_size = sizeof(path), .mtu_bytes = 1448, .line_rate_bps = 25000000000, .base_rtt_ns = 20000};
    poseidon_error error = {.struct_size = sizeof(error)};
    const uint32_t signals = POSEIDON_SIGNAL_RTT | POSEIDON_SIGNAL_ECN_ECHO;
    const poseidon_status status =
        poseidon_law_init(&law, sizeof(law), name, params, &path, signals, &error);
    if (status == POSEIDON_OK) {
        printf("%s(%s): ok\n", name, params);
        (void)poseidon_law_destroy(&law);
        return;
    }
    printf("%s(%s): error %d: %s\n", name, params, (int)status, error.message);
    if (error.length > 0)
        printf("%*s%.*s\n", (int)(strlen(name) + 1 + error.position), "", (int)error.length,
               "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^");
}

int main(void)
{
    printf("interface version %u\n", (unsigned)poseidon_abi_version());
    for (uint32_t i = 0; i < poseidon_law_count(); i++)
        print_law(i);
    poseidon_param_info param = {.struct_size = sizeof(param)};
    if (poseidon_param_info_get("dctcp", 0, &param) == POSEIDON_OK)
        printf("dctcp: %.*s = %s\n", (int)param.name.size, param.name.data, param.default_value);
    try_config("swift", "preset=vai-sf");
    try_config("dctcp", "");
    try_config("cubic", "beta=2");
    try_config("swift", "preset=vai-sf, base-target=25");
    try_config("poseidon", "max-rate=25 Gbps");
    try_config("reno", "");
    return 0;
}
