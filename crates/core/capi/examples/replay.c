/* Runs every law on the same random events and prints a hash of its decisions. A Rust test computes the same hashes. */
#include "poseidon_laws.h"

#include <stdio.h>
#include <string.h>

static uint64_t state;

/* SplitMix64. */
static uint64_t next_random(void)
{
    uint64_t x = (state += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t below(uint64_t bound)
{
    return next_random() % bound;
}

static void fill_ack(poseidon_ack *ack, poseidon_hop hops[3], uint64_t now, uint64_t seq)
{
    memset(ack, 0, sizeof(*ack));
    ack->struct_size = sizeof(*ack);
    ack->flags = (uint16_t)below(16);
    ack->hop_count = (uint8_t)below(8);
    ack->now_ns = now;
    ack->rtt_ns = 9900 + below(60000);
    ack->bytes = below(65536);
    ack->marked_bytes = below(2);
    ack->marked_bytes *= below(65536);
    ack->acked_seq = seq;
    ack->next_seq = seq + below(200000);
    ack->max_hop_delay_ns = below(50000);
    ack->reverse_max_hop_delay_ns = below(50000);
    ack->endpoint_delay_ns = below(20000);
    ack->packets = (uint32_t)below(16);
    ack->random = (uint32_t)below(4294967296u);
    ack->hop_wrap_timestamp_ns = below(2) << 24;
    ack->hop_wrap_sent_bytes = below(2) << 27;
    for (int i = 0; i < 3; i++) {
        hops[i].timestamp_ns = now + below(1000);
        hops[i].sent_bytes = below(1073741824u);
        hops[i].queue_bytes = below(1048576u);
        hops[i].rate_bps = 100000000000u;
    }
    ack->hops = hops;
    ack->hop_record_count = 3;
}

static poseidon_status run_event(poseidon_law *law, uint64_t now, uint64_t seq)
{
    const uint64_t kind = below(20);
    if (kind == 0) {
        poseidon_loss loss;
        memset(&loss, 0, sizeof(loss));
        loss.struct_size = sizeof(loss);
        loss.now_ns = now;
        return poseidon_law_on_loss(law, &loss);
    }
    if (kind == 1)
        return poseidon_law_on_timeout(law, now);
    poseidon_ack ack;
    poseidon_hop hops[3];
    fill_ack(&ack, hops, now, seq);
    return poseidon_law_on_ack(law, &ack);
}

static uint64_t add(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3u + (hash >> 29);
}

static int run_law(const char *name)
{
    poseidon_law law;
    poseidon_path path;
    memset(&path, 0, sizeof(path));
    path.struct_size = sizeof(path);
    path.mtu_bytes = 4096;
    path.line_rate_bps = 200000000000;
    path.base_rtt_ns = 9900;
    if (poseidon_law_init(&law, sizeof(law), name, NULL, &path, 255, NULL) != POSEIDON_OK)
        return 1;
    uint64_t hash = 0xcbf29ce484222325u, now = 1000000, seq = 0;
    state = 7;
    for (int i = 0; i < 2000; i++) {
        now += below(40000);
        seq += below(65536);
        if (run_event(&law, now, seq) != POSEIDON_OK)
            return 1;
        poseidon_decision decision;
        decision.struct_size = sizeof(decision);
        if (poseidon_law_decision(&law, &decision) != POSEIDON_OK)
            return 1;
        hash = add(add(add(hash, decision.window_q24), decision.gap_ns), decision.rate_bps);
    }
    printf("%s %08x%08x\n", name, (unsigned)(hash >> 32), (unsigned)(hash & 0xffffffffu));
    return 0;
}

int main(void)
{
    for (uint32_t i = 0; i < poseidon_law_count(); i++) {
        poseidon_law_info info;
        char name[32];
        info.struct_size = sizeof(info);
        if (poseidon_law_info_get(i, &info) != POSEIDON_OK || info.name.size >= sizeof(name))
            return 1;
        memcpy(name, info.name.data, info.name.size);
        name[info.name.size] = 0;
        if (run_law(name) != 0)
            return 1;
    }
    return 0;
}
