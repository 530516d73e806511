/* Repeats the calls that a run in ns-3 has recorded (call-record.h), and fails if a decision differs.
 *
 *   replay FILE */
#include "poseidon_laws.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FLOWS = 256, LINE = 512 };

typedef struct {
    char law[64], params[256];
    poseidon_law state;
} flow;

static flow flows[FLOWS];

/* Reads an ACK and returns the number of bytes read, or 0. */
static int read_ack(const char *text, poseidon_ack *ack)
{
    unsigned flags, hop_count;
    int used = 0;
    const int fields = sscanf(
        text, "%u %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32 "%n",
        &flags, &hop_count, &ack->now_ns, &ack->rtt_ns, &ack->bytes, &ack->marked_bytes, &ack->acked_seq, &ack->next_seq,
        &ack->max_hop_delay_ns, &ack->reverse_max_hop_delay_ns, &ack->packets, &ack->random, &used);
    ack->flags = (uint16_t)flags;
    ack->hop_count = (uint8_t)hop_count;
    return fields == 12 ? used : 0;
}

/* Makes the call of a line and returns the number of bytes read, or 0 if the line is not a valid call. */
static int make_call(const char *kind, flow *of, const char *text)
{
    int used = 0;
    uint64_t now;
    if (strcmp(kind, "init") == 0) {
        poseidon_path path;
        uint32_t signals;
        memset(&path, 0, sizeof(path));
        path.struct_size = sizeof(path);
        if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 "%n", &path.mtu_bytes, &path.line_rate_bps, &path.base_rtt_ns,
                   &signals, &used) != 4)
            return 0;
        return poseidon_law_init(&of->state, sizeof(of->state), of->law, of->params, &path, signals, NULL) == POSEIDON_OK ? used : 0;
    }
    if (strcmp(kind, "ack") == 0) {
        poseidon_ack ack;
        memset(&ack, 0, sizeof(ack));
        ack.struct_size = sizeof(ack);
        used = read_ack(text, &ack);
        return used > 0 && poseidon_law_on_ack(&of->state, &ack) == POSEIDON_OK ? used : 0;
    }
    if (sscanf(text, "%" SCNu64 "%n", &now, &used) != 1)
        return 0;
    if (strcmp(kind, "loss") == 0) {
        poseidon_loss loss;
        memset(&loss, 0, sizeof(loss));
        loss.struct_size = sizeof(loss);
        loss.now_ns = now;
        return poseidon_law_on_loss(&of->state, &loss) == POSEIDON_OK ? used : 0;
    }
    if (strcmp(kind, "timeout") == 0)
        return poseidon_law_on_timeout(&of->state, now) == POSEIDON_OK ? used : 0;
    return 0;
}

/* Returns 1 if the flow's decision is the one that the rest of the line states. */
static int same_decision(const flow *of, const char *text)
{
    poseidon_decision expected, decision;
    memset(&decision, 0, sizeof(decision));
    decision.struct_size = sizeof(decision);
    expected = decision;
    if (sscanf(text, " = %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu64, &expected.window_q24, &expected.pacing, &expected.gap_ns,
               &expected.rate_bps) != 4)
        return 0;
    return poseidon_law_decision(&of->state, &decision) == POSEIDON_OK && memcmp(&decision, &expected, sizeof(decision)) == 0;
}

static int replay_line(const char *line, unsigned long *calls)
{
    char kind[16];
    unsigned number;
    int used = 0;
    if (sscanf(line, "%15s %u %n", kind, &number, &used) != 2 || number >= FLOWS)
        return 0;
    flow *of = &flows[number];
    if (strcmp(kind, "flow") == 0) {
        of->params[0] = 0;
        return sscanf(line + used, "%63s %255[^\n]", of->law, of->params) >= 1;
    }
    const int read = make_call(kind, of, line + used);
    *calls += 1;
    return read > 0 && same_decision(of, line + used + read);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "replay: name a file that exists\n");
        return 2;
    }
    char line[LINE];
    unsigned long lines = 0, calls = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        lines++;
        if (!replay_line(line, &calls)) {
            fprintf(stderr, "replay: line %lu: not a call, or another decision: %s", lines, line);
            return 1;
        }
    }
    fclose(file);
    if (calls == 0) {
        fprintf(stderr, "replay: the file has no calls\n");
        return 1;
    }
    printf("%lu calls replayed: the same decisions\n", calls);
    return 0;
}
