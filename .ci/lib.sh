# Sourced by .ci/run, by the checks it starts and by .ci/self-test: steps, and the account of what ran and what did not.
# shellcheck shell=bash

# Where the pinned compiler is installed under the name `stable` only, use that one instead of downloading it again.
pinned=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
if command -v rustup >/dev/null && ! (cd / && rustup toolchain list 2>/dev/null) | grep -q "^$pinned-" &&
    (cd / && rustup run stable rustc --version 2>/dev/null) | grep -q "^rustc $pinned "; then
    export RUSTUP_TOOLCHAIN=stable
fi

# What every step that builds tests, benchmarks or examples asks cargo for. With another choice of packages cargo would give the crates we
# depend on other features, and build them anew.
whole=(--locked --workspace --features poseidon-cli/linux,poseidon-cli/quic,poseidon-cli/serve,poseidon-cli/figures-export,poseidon-cli/stacks,poseidon-cli/cloud,poseidon-quic/s2n)
# The same for what is built optimised: the second QUIC stack and its AWS-LC would take five minutes more.
without_s2n=(--locked --workspace --features poseidon-cli/linux,poseidon-cli/quic)

# not_run CHECK REASON: reports what a check leaves out. .ci/run lists it at the end.
not_run() {
    echo "$1: not run: $2"
    if [ -n "${CHECKS_NOT_RUN:-}" ]; then
        echo "$1: $2" >>"$CHECKS_NOT_RUN"
    fi
}

# A step that takes longer is stopped and counts as failed. After run_limit seconds in all, no further step begins.
step_limit=${STEP_LIMIT:-1800}
run_limit=${RUN_LIMIT:-4200}
# The names of the steps to run; empty for all.
only_steps=()

# begin_steps: call once, before the first step.
begin_steps() {
    step_logs=$(mktemp -d)
    export CHECKS_NOT_RUN="$step_logs/not-run"
    : >"$CHECKS_NOT_RUN"
    steps_ran=()
    step_failed=''
    step_status=0
    step_group=''
    # An interrupt ends the step that runs. This shell goes on and lists what was not run.
    trap '[ -z "$step_group" ] || kill -INT -- "-$step_group" 2>/dev/null' INT
    trap 'rm -rf "$step_logs"' EXIT
}

# run_limited SECONDS COMMAND...: runs a command in a process group of its own and stops the whole group after SECONDS. Returns the
# command's exit code, or 124 if it was stopped.
run_limited() {
    local limit=$1 code=0 watchdog timed_out
    timed_out="$step_logs/timed-out"
    rm -f "$timed_out"
    shift
    set -m
    (
        set -e
        "$@"
    ) </dev/null &
    step_group=$!
    (
        sleep "$limit"
        touch "$timed_out"
        kill -TERM -- "-$step_group"
        sleep 10
        kill -KILL -- "-$step_group"
    ) >/dev/null 2>&1 &
    watchdog=$!
    disown "$watchdog"
    set +m
    # An interrupt ends `wait` before the step has ended.
    while :; do
        wait "$step_group"
        code=$?
        kill -0 "$step_group" 2>/dev/null || break
    done
    [ -e "$timed_out" ] && code=124
    kill -KILL -- "-$watchdog" 2>/dev/null || true
    # What the step left in the background ends with it.
    kill -KILL -- "-$step_group" 2>/dev/null || true
    step_group=''
    return "$code"
}

# step NAME COMMAND...: runs a command and notes its seconds. After a step that failed, the others are noted and not run.
# What the command prints is in "$step_logs/NAME" as well.
step() {
    local name=$1 began=$SECONDS limit=$step_limit code=0 how
    shift
    if [ ${#only_steps[@]} -gt 0 ] && [[ " ${only_steps[*]} " != *" $name "* ]]; then
        return
    fi
    if [ -n "$step_failed" ]; then
        echo "$name: $step_failed failed before it" >>"$CHECKS_NOT_RUN"
        return
    fi
    if [ "$SECONDS" -ge "$run_limit" ]; then
        echo "$name: the $run_limit s of the whole run were over" >>"$CHECKS_NOT_RUN"
        return
    fi
    [ "$limit" -le $((run_limit - SECONDS + 300)) ] || limit=$((run_limit - SECONDS + 300))
    echo "== $name"
    # The output goes through a file, because a process that a step leaves behind would hold a pipe open.
    : >"$step_logs/$name"
    tail -n +1 --follow --quiet --sleep-interval=0.2 "$step_logs/$name" 2>/dev/null &
    local shown=$!
    # In a condition, bash would ignore failures inside of functions.
    set +e
    run_limited "$limit" "$@" >>"$step_logs/$name" 2>&1
    code=$?
    set -e
    sleep 0.5
    kill "$shown" 2>/dev/null || true
    wait "$shown" 2>/dev/null || true
    if [ "$code" -ne 0 ]; then
        step_failed=$name
        step_status=$code
        how="FAILED with exit code $code"
        [ "$code" -ne 124 ] || how="FAILED: stopped after $limit s"
        steps_ran+=("$(printf '  %-14s %5d s  %s' "$name" "$((SECONDS - began))" "$how")")
        echo "== $name: $how after $((SECONDS - began)) s"
    else
        steps_ran+=("$(printf '  %-14s %5d s' "$name" "$((SECONDS - began))")")
        echo "== $name: $((SECONDS - began)) s"
    fi
}

# end_steps: prints what ran and what did not, and returns the exit code of the step that failed, or 0.
end_steps() {
    local left_out
    left_out=$(wc -l <"$CHECKS_NOT_RUN")
    echo
    echo "== ran"
    printf '%s\n' ${steps_ran[@]+"${steps_ran[@]}"}
    echo "== not run"
    if [ "$left_out" -gt 0 ]; then
        sed 's/^/  /' "$CHECKS_NOT_RUN"
    else
        echo "  nothing was left out"
    fi
    if [ -n "$step_failed" ]; then
        echo "== $step_failed FAILED after $SECONDS s in all"
    elif [ "$left_out" -gt 0 ]; then
        echo "== no step failed; what is listed under \"not run\" was not checked; $SECONDS s in all"
    else
        echo "== all checks passed in $SECONDS s"
    fi
    return "$step_status"
}
