# The parts of .ci/long, which sources this file. `lacks_X` prints the reason and fails if the machine lacks X.
# shellcheck shell=bash

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n --preserve-env=POSEIDON)
. .ci/lib.sh
# A scenario on real packets runs quinn.
release=(--release "${without_s2n[@]}" --features poseidon-cli/stacks)

build_release() {
    cargo build "${release[@]}" --bin poseidon --bin poseidon-peers \
        --example packet_hops --example anchors --example cost --example ratio
}
# The command with object stores, in a folder of its own, because the other parts use the command without them.
build_cloud() { cargo build --release --locked -p poseidon-cli --features cloud --target-dir target/cloud; }
# MPI ranks, and the hosts on which they run.
build_scale() {
    cargo build --release --locked -p poseidon-sim --features mpi --example scale &&
        cargo build --release --locked -p poseidon-testbed --example two_hosts
}
# Only the command.
build_command() { cargo build "${release[@]}" --bin poseidon; }
# The same features as in .ci/run.
build_tests() { cargo test "${whole[@]}" --no-run --test undo --test soak --test identity --test telemetry --test testbed --test s2n; }
# A release build, so that the attacker can send fast enough.
build_hostile() { cargo test "${release[@]}" --no-run --test hostile; }
# The Debian packages, with the command that the other parts use.
build_debs() { build_command && tools/release --only deb --binary target/release/poseidon; }
# The wheel that is published, in an environment of its own that finds Polars in that of the tools.
build_python() {
    local purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
    rm -rf "$out/wheel" target/python-package
    target/python/bin/python3 python/build --only wheel --out "$out/wheel" &&
        python3 -m venv target/python-package &&
        target/python-package/bin/pip install --quiet --disable-pip-version-check --no-index "$out"/wheel/*.whl &&
        target/python/bin/python3 -c "$purelib" >"$(target/python-package/bin/python -c "$purelib")/tools.pth"
}
# one_test FILE NAME CARGO_ARGUMENTS...: runs one ignored test.
one_test() {
    local binary=$1 test=$2
    shift 2
    cargo test "$@" --test "$binary" -- --ignored --exact "$test" --nocapture --test-threads=1
}

lacks_root() {
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || {
        echo "needs root, or sudo without a password"
        return 1
    }
}
lacks_two_cores() {
    [ "$(nproc)" -ge 2 ] || {
        echo "needs two cores"
        return 1
    }
}
# Real packets need everything that `poseidon doctor` checks.
lacks_testbed() {
    local missing
    lacks_root || return
    # If the build fails, the part fails next.
    build_release >&2 || return 0
    missing=$("${as_root[@]}" target/release/poseidon doctor --json | python3 -c '
import json, sys
checks = json.load(sys.stdin)["checks"]
missing = [check for check in checks if check["state"] != "ok" and "testbed" in check["needed_by"]]
print("; ".join(check["name"] + ": " + check["says"] for check in missing))') || missing="poseidon doctor failed"
    [ -z "$missing" ] || {
        echo "real packets cannot be sent here: $missing"
        return 1
    }
}
# Installs ns-3 if permitted.
lacks_ns3() {
    { bench/peers/install && bench/peers/build; } >"$out/ns3.log" 2>&1 || {
        echo "ns-3 cannot be installed or built here (bench/peers/install, bench/peers/build): $(tail -n 1 "$out/ns3.log")"
        return 1
    }
}

# The same for both versions of ns-3 that ns3/ supports, with Poseidon's laws.
lacks_both_ns3() {
    { ns3/install && ns3/build; } >"$out/ns3-laws.log" 2>&1 || {
        echo "ns-3 cannot be installed or built here (ns3/install, ns3/build): $(tail -n 1 "$out/ns3-laws.log")"
        return 1
    }
}
# Builds for about 20 minutes the first time.
lacks_cargo_c() {
    cargo cinstall --version >/dev/null 2>&1 || cargo install --locked cargo-c@0.10.24 >"$out/cargo-c.log" 2>&1 || {
        echo "cargo-c cannot be installed here (cargo install cargo-c): $(tail -n 1 "$out/cargo-c.log")"
        return 1
    }
}
# lacks_programs PACKAGES PROGRAM...
lacks_programs() {
    local packages=$1 program
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || {
            echo "$program is missing (apt-get install $packages)"
            return 1
        }
    done
}
lacks_slurm() { lacks_programs 'slurm-wlm munge' slurmctld slurmd sbatch munged; }
# Installs the server if permitted.
lacks_seaweedfs() {
    tools/cluster/object_store.py --install >"$out/seaweedfs.log" 2>&1 || {
        echo "SeaweedFS cannot be installed here: $(tail -n 1 "$out/seaweedfs.log")"
        return 1
    }
}
lacks_systemd_nspawn() { lacks_programs 'mmdebstrap lintian systemd-container' mmdebstrap lintian systemd-nspawn; }
# lacks_release_tools: says what tools/release says.
lacks_release_tools() {
    local missing
    missing=$(tools/release --only deb --only image --dry-run 2>&1) || {
        grep 'is missing' <<<"$missing" | sed 's/^release: //'
        return 1
    }
}
lacks_qemu() { lacks_programs 'qemu-system-x86 cpio binutils kmod' qemu-system-x86_64 cpio strip depmod; }
lacks_mpi() {
    lacks_programs 'libopenmpi-dev openmpi-bin libclang-dev' mpicc mpirun && lacks_programs iproute2 ip
}
lacks_prometheus() { lacks_programs prometheus prometheus promtool; }

lacks_python_tools() {
    [ -x target/python/bin/maturin ] || .ci/install >"$out/python-tools.log" 2>&1
    [ -x target/python/bin/maturin ] || {
        echo "maturin cannot be installed here (.ci/install): $(tail -n 1 "$out/python-tools.log")"
        return 1
    }
}

part anchors 1 release ''
part packet_hops 5 release two_cores
part ratio 3 release two_cores
part cost 3 release 'root testbed'
part faults 15 '' ''
part stacks_speed 5 '' two_cores
part hostile_long 6 hostile two_cores
part forged_long 12 hostile two_cores
part forged_s2n_long 12 tests two_cores
part undo_long 4 tests 'root testbed'
part soak_long 11 tests ''
part identity_long 6 tests ''
part vanishing_long 1 tests ''
part quic_testbed 4 'release tests' 'root two_cores testbed'
part peers_star 2 release ns3
part peers_dumbbell 20 release ns3
part peers_laws 25 release both_ns3
part peers_victims 15 release both_ns3
part ns3_equality 10 '' both_ns3
part capi_equality 10 '' ''
part capi_package 5 '' cargo_c
part slurm 10 command 'root slurm'
part scale 10 scale 'root two_cores mpi'
part many_results 10 command ''
part object_store 5 cloud seaweedfs
part monitoring 5 command 'root prometheus'
part packages 5 debs 'root release_tools systemd_nspawn'
part kernels 30 '' qemu
part release_twice 25 '' release_tools
part python_package 15 '' python_tools
part python_equality 15 python python_tools
part python_speed 5 'command python' 'two_cores python_tools'

run_anchors() { target/release/examples/anchors --json; }
run_packet_hops() { target/release/examples/packet_hops --json; }
run_ratio() { target/release/examples/ratio --json; }
run_cost() { "${as_root[@]}" target/release/examples/cost --json; }
run_faults() { tools/faults/run.py --json; }
run_stacks_speed() { cargo test --release --locked -p poseidon-stacks --features quinn,smoltcp --test simulator -- --ignored --nocapture; }
run_hostile_long() { one_test hostile hostile_long "${release[@]}"; }
run_forged_long() { one_test hostile forged_long "${release[@]}"; }
run_forged_s2n_long() { one_test s2n forged_s2n_long "${whole[@]}"; }
run_undo_long() {
    local runner=()
    [ ${#as_root[@]} -eq 0 ] || runner=(--config 'target."cfg(all())".runner = ["sudo", "-n"]')
    one_test undo undo_long "${whole[@]}" ${runner[@]+"${runner[@]}"}
}
run_soak_long() { one_test soak soak_long "${whole[@]}"; }
run_identity_long() { one_test identity identity_long "${whole[@]}"; }
run_vanishing_long() { one_test telemetry vanishing_long "${whole[@]}"; }
run_quic_testbed() {
    local test status=0 runner=()
    [ ${#as_root[@]} -eq 0 ] || runner=(--config 'target."cfg(all())".runner = ["sudo", "-n", "--preserve-env=POSEIDON"]')
    export POSEIDON=$PWD/target/release/poseidon
    for test in one_bottleneck_against_cubic a_flow_through_two_queues_keeps_its_share telemetry_vanishes_and_comes_back; do
        one_test testbed "$test" "${whole[@]}" ${runner[@]+"${runner[@]}"} || status=$?
    done
    return "$status"
}
run_peers_star() { target/release/poseidon-peers star --json; }
run_peers_dumbbell() { target/release/poseidon-peers dumbbell --json; }
run_peers_laws() { target/release/poseidon-peers laws --json; }
run_peers_victims() { target/release/poseidon-peers victims --json; }
run_ns3_equality() { .ci/ns3 --all 100000; }
run_capi_equality() { cargo test --release --locked -p poseidon-capi --test equality -- --ignored --nocapture; }
run_capi_package() { .ci/capi; }
run_slurm() { "${as_root[@]}" tools/cluster/check.py --json; }
run_object_store() { POSEIDON=target/cloud/release/poseidon tools/cluster/object_store.py --json; }
run_scale() { "${as_root[@]}" tools/scale/check.py --json; }
run_many_results() { tools/cluster/many.py --json; }
run_monitoring() { "${as_root[@]}" tools/monitoring/check.py --json; }
run_packages() { "${as_root[@]}" tools/packages/check.py --json; }
run_kernels() { tools/kernels/check.py --json --keep "$out/kernels"; }
run_release_twice() { tools/packages/two-folders --only binary --only deb --only image; }
run_python_package() { .ci/python --whole; }
run_python_equality() {
    cargo run --release --locked --quiet -p poseidon-testkit --example decisions -- 100000 |
        target/python-package/bin/python python/tests/equality.py
}
run_python_speed() { POSEIDON=$PWD/target/release/poseidon target/python-package/bin/python python/tests/measure.py; }

# One part per scenario on real packets. The estimate is the duration of the last published run.
for scenario in scenarios/linux/*.toml; do
    name=$(basename "$scenario" .toml)
    seconds=$(python3 -c 'import json, sys; print(int(json.load(open(sys.argv[1]))["wall_s"]))' "docs/results/linux/$name/verdicts.json" 2>/dev/null || echo 600)
    part "linux/$name" "$((seconds / 60 + 1))" release 'root testbed'
    eval "run_linux_${name//[^a-z0-9_]/_}() { run_scenario $name; }"
done
# An interrupted run resumes. A complete run starts again.
run_scenario() {
    local results="$out/linux/$1" code=0
    [ ! -e "$results/ended" ] || "${as_root[@]}" rm -rf "$results"
    "${as_root[@]}" target/release/poseidon run "scenarios/linux/$1.toml" --on linux --json --quiet --records none --output "$results" || code=$?
    # 130 means interrupted.
    [ "$code" -eq 130 ] || { mkdir -p "$results" && "${as_root[@]}" touch "$results/ended"; }
    return "$code"
}
