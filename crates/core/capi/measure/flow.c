/* Counts the instructions and the stack of each call of poseidon_flow_..., by single-stepping a child (x86-64 Linux).
 *
 * Prints the largest numbers over random events, among them extreme values, for the default parameters and for all
 * combinations of target, update and delay. .ci/capi builds and runs it. */
#define _GNU_SOURCE
#include "poseidon_laws.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 3000, FUNCTIONS = 4 };

static const char *const names[FUNCTIONS] = {"on_ack", "decision", "on_loss", "on_timeout"};
static uintptr_t entries[FUNCTIONS];

static uint64_t state = 1;

static uint64_t next_random(void)
{
    uint64_t x = (state += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t value(uint64_t typical)
{
    switch (next_random() % 16) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return next_random() >> (next_random() % 64);
    default:
        return next_random() % typical;
    }
}

static void run_events(poseidon_flow *flow, int count)
{
    uint64_t now = 1000000;
    for (int i = 0; i < count; i++) {
        now += value(40000);
        poseidon_decision decision = {.struct_size = sizeof(decision)};
        const uint64_t kind = next_random() % 16;
        if (kind == 0) {
            const poseidon_loss loss = {.struct_size = sizeof(loss), .now_ns = now};
            (void)poseidon_flow_on_loss(flow, &loss);
        } else if (kind <= 2) {
            (void)poseidon_flow_on_timeout(flow, now);
        } else {
            const poseidon_ack ack = {.struct_size = sizeof(ack),
                                      .flags = (uint16_t)(next_random() % 16),
                                      .hop_count = (uint8_t)next_random(),
                                      .now_ns = now,
                                      .rtt_ns = value(60000),
                                      .max_hop_delay_ns = value(60000),
                                      .reverse_max_hop_delay_ns = value(60000),
                                      .endpoint_delay_ns = value(60000),
                                      .packets = (uint32_t)value(64),
                                      .random = (uint32_t)next_random()};
            (void)poseidon_flow_on_ack(flow, &ack);
        }
        (void)poseidon_flow_decision(flow, &decision);
    }
}

/* The program that is measured. all: every combination of target, update and delay, instead of the default. */
static void run_child(int all)
{
    static poseidon_flow flow;
    const poseidon_path path = {
        .struct_size = sizeof(path), .mtu_bytes = 4096, .line_rate_bps = 200000000000, .base_rtt_ns = 9900};
    const int combinations = all ? 4 * 4 * 3 : 1;
    for (int i = 0; i < combinations; i++) {
        poseidon_flow_params params = {.struct_size = sizeof(params)};
        (void)poseidon_flow_params_default(&params);
        params.target = (uint8_t)(i % 4);
        params.update = (uint8_t)(i / 4 % 4);
        params.delay = (uint8_t)(i / 16);
        if (poseidon_flow_init(&flow, sizeof(flow), &params, &path, 255, NULL) == POSEIDON_OK)
            run_events(&flow, all ? EVENTS / 16 : EVENTS);
    }
}

typedef struct {
    unsigned long calls, instructions, stack;
} record;

static int step(pid_t child, struct user_regs_struct *regs)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return 0;
    return ptrace(PTRACE_GETREGS, child, 0, regs) == 0;
}

/* Counts from the first instruction of a function to its return. */
static int measure_call(pid_t child, struct user_regs_struct *regs, record *result)
{
    const unsigned long entry_stack = regs->rsp;
    unsigned long instructions = 0, lowest = regs->rsp;
    do {
        if (!step(child, regs))
            return 0;
        instructions++;
        if (regs->rsp < lowest)
            lowest = regs->rsp;
    } while (regs->rsp <= entry_stack);
    /* The return address is part of the stack that the call needs. */
    const unsigned long stack = entry_stack + sizeof(void *) - lowest;
    result->calls++;
    if (instructions > result->instructions)
        result->instructions = instructions;
    if (stack > result->stack)
        result->stack = stack;
    return 1;
}

static int measure(int all)
{
    /* Each step switches between the two processes, which is faster on one core. */
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    (void)sched_setaffinity(0, sizeof(core), &core);
    const pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            _exit(2);
        (void)raise(SIGSTOP);
        run_child(all);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
        fprintf(stderr, "this system does not allow ptrace\n");
        return 1;
    }
    record records[FUNCTIONS];
    memset(records, 0, sizeof(records));
    struct user_regs_struct regs;
    int running = step(child, &regs);
    while (running) {
        int function = -1;
        for (int i = 0; i < FUNCTIONS; i++)
            if (regs.rip == entries[i])
                function = i;
        running = function < 0 ? step(child, &regs) : measure_call(child, &regs, &records[function]);
    }
    for (int i = 0; i < FUNCTIONS; i++)
        printf("%-10s %-8s %6lu calls  at most %4lu instructions  %4lu bytes of stack\n", names[i],
               all ? "variants" : "default", records[i].calls, records[i].instructions, records[i].stack);
    return records[0].calls > 0 ? 0 : 1;
}

int main(void)
{
    entries[0] = (uintptr_t)poseidon_flow_on_ack;
    entries[1] = (uintptr_t)poseidon_flow_decision;
    entries[2] = (uintptr_t)poseidon_flow_on_loss;
    entries[3] = (uintptr_t)poseidon_flow_on_timeout;
    return measure(0) != 0 || measure(1) != 0;
}
