# Sourced by .ci/run, by the checks it starts and by .ci/self-test: steps, and the account of what ran and what did not.
# shellcheck shell=bash

# What every step that builds tests, benchmarks or examples asks cargo for. With another choice of packages cargo would give the crates we
# depend on other features, and build them anew.
whole=(--locked --workspace --features poseidon-cli/linux,poseidon-cli/quic,poseidon-quic/s2n)
# The same for what is built optimised: the second QUIC stack and its AWS-LC would take five minutes more.
without_s2n=(--locked --workspace --features poseidon-cli/linux,poseidon-cli/quic)

# not_run CHECK REASON: prints what a check leaves out, and tells .ci/run, which lists it at its end.
not_run() {
    echo "$1: not run: $2"
    if [ -n "${CHECKS_NOT_RUN:-}" ]; then
        echo "$1: $2" >>"$CHECKS_NOT_RUN"
    fi
}

# begin_steps: call once, before the first step.
begin_steps() {
    step_logs=$(mktemp -d)
    export CHECKS_NOT_RUN="$step_logs/not-run"
    : >"$CHECKS_NOT_RUN"
    steps_ran=()
    step_failed=''
    step_status=0
    # A step that is interrupted ends by itself; this shell goes on, to say what was not run.
    trap : INT
    trap 'rm -rf "$step_logs"' EXIT
}

# step NAME COMMAND...: runs a command and notes its seconds. After a step that failed, the others are noted and not run.
# What the command prints is in "$step_logs/NAME" as well.
step() {
    local name=$1 began=$SECONDS
    shift
    if [ -n "$step_failed" ]; then
        echo "$name: $step_failed failed before it" >>"$CHECKS_NOT_RUN"
        return
    fi
    echo "== $name"
    # In a condition, bash would ignore failures inside of functions.
    set +e
    (
        set -e
        "$@"
    ) 2>&1 | tee "$step_logs/$name"
    local code=${PIPESTATUS[0]}
    set -e
    if [ "$code" -ne 0 ]; then
        step_failed=$name
        step_status=$code
        steps_ran+=("$(printf '  %-14s %5d s  FAILED with exit code %d' "$name" "$((SECONDS - began))" "$code")")
        echo "== $name: FAILED with exit code $code after $((SECONDS - began)) s"
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
