#!/usr/bin/env bash
# Writes the output `program`: the program that the input names, or one that is built from the repository of this action.
set -euo pipefail
program=${INPUT_PROGRAM:-}
if [ -z "$program" ]; then
    repository=$(cd "$ACTION_PATH/../../.." && pwd)
    target=${CARGO_TARGET_DIR:-$repository/target}
    cargo build --locked --release --package poseidon-cli --bin poseidon --manifest-path "$repository/Cargo.toml" --target-dir "$target"
    program=$target/release/poseidon
fi
if ! version=$("$program" --version); then
    echo "::error title=gate::the program $program does not run"
    exit 1
fi
echo "$version"
echo "program=$program" >>"$GITHUB_OUTPUT"
