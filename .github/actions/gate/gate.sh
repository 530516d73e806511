#!/usr/bin/env bash
# Runs the gate with the inputs of the action. Inputs are data: they only ever become arguments.
set -euo pipefail
results=${GATE_RESULTS:-results}
mkdir -p "$results"
arguments=(--format github --write "json=$results/gate.json" --write "junit=$results/gate.xml" --output "$results")
arguments+=(--seeds "$INPUT_SEEDS" --fail-on "$INPUT_FAIL_ON")
[ -z "$INPUT_MARGIN" ] || arguments+=(--margin "$INPUT_MARGIN")
while IFS= read -r rule; do
    [ -z "$rule" ] || arguments+=(--fail-if "$rule")
done <<<"$INPUT_FAIL_IF"
while IFS= read -r law; do
    [ -z "$law" ] || arguments+=(--law "$law")
done <<<"$INPUT_LAW"
if [ -f "$INPUT_BASELINE" ]; then
    arguments+=(--baseline "$INPUT_BASELINE")
else
    arguments+=("--base=$INPUT_BASELINE")
fi
arguments+=(--)
while IFS= read -r pattern; do
    [ -n "$pattern" ] || continue
    # A name that matches no file is a built-in scenario.
    mapfile -t files < <(compgen -G "$pattern" || true)
    if [ ${#files[@]} -gt 0 ]; then
        arguments+=("${files[@]}")
    else
        arguments+=("$pattern")
    fi
done <<<"$INPUT_SCENARIOS"

code=0
"$PROGRAM" gate "${arguments[@]}" || code=$?
if [ "$code" -eq 0 ] || [ "$code" -eq 4 ]; then
    {
        echo "json=$results/gate.json"
        echo "junit=$results/gate.xml"
    } >>"$GITHUB_OUTPUT"
elif [ "$code" -eq 5 ]; then
    # The machine lacks a tool: nothing was measured, so nothing failed.
    echo "::warning title=gate::skipped, because a tool is missing"
    echo "verdict=skipped" >>"$GITHUB_OUTPUT"
    code=0
fi
exit "$code"
