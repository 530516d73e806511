#!/usr/bin/env python3
"""Runs one simulation on two hosts with links of several delays, and holds a model of the cost against it.

    check.py [--json] [--repeat N]      measures, prints the model's error for each row, and models up to 64 machines
    check.py --measure FILE             only measures, and appends the rows to FILE
    check.py --model FILE [--json]      only models, from the rows in FILE

The hosts are two network namespaces; each link between them is the testbed's delay line (`two_hosts`, an example of
poseidon-testbed). Each host runs one MPI rank (`scale`, an example of poseidon-sim). No memory is shared.

The model follows every window w of every machine m:

    end(m, w)     = start(m, w) + hops(m, w) x time per hop
    start(m, w+1) = max(end(m, w), latest end of the others + one-way delay) + exchange(bytes(m, w)) + (N - 2) x exchange(0)

So a machine that would wait for a slower one anyway waits for the delay at the same time.

- On two machines, the first term of end() is measured: the same network on two threads, for each window as the median over
  all runs. On more machines, the time per hop comes from these runs, and the hops are counted.
- exchange() is the time beyond the delay. It comes from exchanges without a simulation on the same link.
- Each further machine costs the time of an empty exchange. This is an upper bound that is not measured.
- The hops and bytes of N machines are counted, because they do not depend on time.

No run on two hosts is used to fit the model. It needs root, two cores, and Debian's packages openmpi-bin and
libopenmpi-dev. Exit codes: 0 every row is within 15 % and all hashes are equal, 1 not, 3 the machine lacks something.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
SCALE = TARGET / "release/examples/scale"
TWO_HOSTS = TARGET / "release/examples/two_hosts"
DELAYS_US = [0, 10, 50, 100, 200, 500]
CASES = ["poseidon-128-200", "poseidon-1024-60", "swift-1024-60", "hpcc-1024-60", "poseidon-8192-12"]
EXCHANGES = [0, 20, 60, 100, 400, 1000, 1500, 2000, 3500, 5000, 6500, 10000, 20000, 50000]
MACHINES = [1, 2, 4, 8, 16, 32, 64]
MODELLED_DELAYS_US = [10, 50, 200]
MODELLED = ["poseidon-1024-60", "poseidon-8192-12", "poseidon-65536-12"]
PASS_MARK = 0.15
PACKET_BYTES = 64

# The remote shell of Open MPI: it starts a daemon on a host, with the host's name and network.
AGENT = """#!/bin/sh
host=$1
shift
exec nsenter --net=/run/netns/$host unshare --uts sh -c "hostname $host; $*"
"""


def fail(text, code=1):
    print(f"check: {text}", file=sys.stderr)
    sys.exit(code)


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        fail(f"{' '.join(str(word) for word in command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_machine():
    for program in ("mpirun", "nsenter", "unshare", "ip", "chrt"):
        if not shutil.which(program):
            fail(f"{program} is missing (apt-get install openmpi-bin util-linux iproute2)", 3)
    if os.geteuid() != 0:
        fail("network namespaces need root", 3)
    if len(os.sched_getaffinity(0)) < 2:
        fail("two hosts need two cores", 3)
    for program, build in (
        (SCALE, "cargo build --release -p poseidon-sim --features mpi --example scale"),
        (TWO_HOSTS, "cargo build --release -p poseidon-testbed --example two_hosts"),
    ):
        if not program.exists():
            fail(f"{program.name} is not built: {build}", 3)


# --- Measure


def measure_links(delays, cases, options):
    """Runs the cases on two hosts, once per link. Runs on h0 inside `two_hosts`."""
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder) / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        rows = []
        for number, delay in enumerate(delays):
            mca = {
                "plm_rsh_agent": agent,
                "plm_rsh_no_tree_spawn": 1,
                "btl": "tcp,self",
                "pml": "ob1",
                "btl_tcp_if_include": f"d{number}",
                "oob_tcp_if_include": "ctl",
                "orte_keep_fqdn_hostnames": 1,
            }
            mpirun = ["unshare", "--uts", "sh", "-c", 'hostname h0; exec "$0" "$@"', "mpirun", "--allow-run-as-root"]
            mpirun += ["-n", "2", "--host", "h0:1,h1:1", "--map-by", "node", "--bind-to", "none"]
            mpirun += [word for name, value in mca.items() for word in ("--mca", name, value)]
            mpirun += [word for text in os.environ.get("SCALE_MCA", "").split() for word in ("--mca", *text.split("="))]
            text = run([*mpirun, SCALE, *options, *cases])
            rows += [row | {"delay_us": delay} for row in rows_of(text)]
        return rows


def measure(delays, cases, exchanges, repeat):
    """Returns the rows of all links. Each repetition visits all links, because the machine's speed changes."""
    options = ["--threads", f"--exchange={','.join(map(str, exchanges))}"]
    rows = []
    for number in range(repeat):
        inside = [sys.executable, __file__, "--inside", json.dumps([delays, cases, options])]
        # As on the testbed, other processes of this machine disturb less.
        text = run(["nice", "-n", "-20", TWO_HOSTS, ",".join(map(str, delays)), *inside])
        rows += [row | {"repeat": number} for row in rows_of(text)]
    return rows


def count(cases, machines):
    return rows_of(run([SCALE, f"--count={','.join(map(str, machines))}", *cases]))


# --- Model


def median(numbers):
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Exchange:
    """The time of an exchange over one link beyond its delay, in us, from exchanges without a simulation."""

    def __init__(self, rows, delay_us):
        times = {}
        for row in rows:
            if row["kind"] == "exchange" and row["delay_us"] == delay_us:
                times.setdefault(row["packets"] * PACKET_BYTES, []).append(row["us"] - delay_us)
        self.points = sorted((size, median(found)) for size, found in times.items())

    def us(self, size):
        """Interpolates between the measured sizes, and beyond the largest."""
        points = self.points
        upper = next((i for i, (known, _) in enumerate(points) if known >= size and i > 0), len(points) - 1)
        (x0, y0), (x1, y1) = points[upper - 1], points[upper]
        return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


def run_time_us(compute, sizes, exchange, delay_us):
    """Returns the modelled time of a run. `compute` (us) and `sizes` (bytes) have a list of windows for each machine."""
    machines = len(compute)
    if machines == 1:
        return sum(compute[0])
    further = (machines - 2) * exchange.us(0)
    starts = [0.0] * machines
    for window in range(len(compute[0])):
        ends = [start + times[window] for start, times in zip(starts, compute)]
        # The latest end of the other machines is the latest one of all, except for the last machine itself.
        second, last = sorted(ends)[-2:]
        others = [second if end == last and ends.count(last) == 1 else last for end in ends]
        starts = [
            max(end, other + delay_us) + exchange.us(size[window]) + further for end, other, size in zip(ends, others, sizes)
        ]
    # The measured time is that of the first machine.
    return starts[0]


def computation_us(runs):
    """Returns the computation of each window of each machine in us, as the median over runs on threads."""
    all_runs = [row["compute_ns"] for row in runs]
    return [[median(ns) / 1e3 for ns in zip(*machine)] for machine in zip(*all_runs)]


def by_case(rows, kind):
    """Returns the rows of one kind by case, smallest networks first."""
    cases = {}
    for row in rows:
        if row["kind"] == kind:
            cases.setdefault(row["case"], []).append(row)
    return dict(sorted(cases.items(), key=lambda item: (int(item[0].split("-")[1]), item[0])))


def compare(rows):
    """Returns one row per case and link: what was measured, what the model says, and the error."""
    threads = by_case(rows, "threads")
    result = []
    for case, runs in by_case(rows, "ranks").items():
        compute, sizes = computation_us(threads[case]), threads[case][0]["bytes"]
        on_threads = median([row["total_s"] for row in threads[case]])
        for delay in sorted({row["delay_us"] for row in runs}):
            on_link = [row for row in runs if row["delay_us"] == delay]
            windows, size = on_link[0]["windows"], on_link[0]["max_bytes"]
            measured = sorted(row["total_s"] * 1e6 / windows for row in on_link)
            model = run_time_us(compute, sizes, Exchange(rows, delay), delay) / windows
            result.append(
                {
                    "case": case,
                    "delay_us": delay,
                    "runs": len(on_link),
                    "bytes_per_window": round(size / windows),
                    "threads_us": round(on_threads * 1e6 / windows, 1),
                    "measured_us": round(median(measured), 1),
                    "fastest_us": round(measured[0], 1),
                    "slowest_us": round(measured[-1], 1),
                    "model_us": round(model, 1),
                    "error": round(model / median(measured) - 1, 4),
                }
            )
    return result


def predict(rows, counts, delays):
    """Returns the modelled time of a window on 1 to 64 machines."""
    threads = by_case(rows, "threads")
    # A network that was not run on two hosts has the time per hop of the largest that was.
    largest = [case for case in threads if case.startswith("poseidon")][-1]
    result = []
    for row in counts:
        runs = threads.get(row["case"], threads[largest])
        per_hop = sum(map(sum, computation_us(runs))) / sum(map(sum, runs[0]["hops"]))
        compute = [[hops * per_hop for hops in machine] for machine in row["hops"]]
        alone = row["packet_hops"] * per_hop
        for delay in delays:
            total = run_time_us(compute, row["bytes"], Exchange(rows, delay), delay)
            result.append(
                {
                    "case": row["case"],
                    "machines": row["machines"],
                    "delay_us": delay,
                    "compute_us": round(row["max_hops"] * per_hop / row["windows"], 1),
                    "bytes_per_window": round(row["max_bytes"] / row["windows"]),
                    "window_us": round(total / row["windows"], 1),
                    "speedup": round(alone / total, 2),
                    "imbalance": round(row["max_hops"] * row["machines"] / row["packet_hops"], 3),
                    "ns_per_hop": round(per_hop * 1e3, 1),
                }
            )
    return result


def report(rows, counts, as_json):
    compared = compare(rows)
    one = {row["case"]: row["hash"] for row in counts if row["machines"] == 1}
    for row in compared:
        # On two hosts, on two threads and on one thread.
        hashes = {found["hash"] for found in rows if found.get("case") == row["case"]}
        row["equal_hashes"] = hashes == {one.get(row["case"])}
    links = sorted({row["delay_us"] for row in rows if row["kind"] == "exchange"})
    # Only a link that was measured has exchange times.
    delays = [delay for delay in MODELLED_DELAYS_US if delay in links]
    predicted = predict(rows, [row for row in counts if row["case"] in MODELLED], delays)
    points = {delay: Exchange(rows, delay).points for delay in links}
    worst = max(abs(row["error"]) for row in compared)
    summary = {
        "part": "scale",
        "rows": len(compared),
        "rows_within": sum(abs(row["error"]) <= PASS_MARK for row in compared),
        "worst_error": worst,
        "equal_hashes": sum(row["equal_hashes"] for row in compared),
    }
    if as_json:
        for kind, found in (("compared", compared), ("predicted", predicted)):
            for row in found:
                print(json.dumps({"kind": kind} | row))
        print(json.dumps({"kind": "exchange", "points": points}))
        print(json.dumps(summary))
    else:
        print("An exchange without a simulation, beyond the delay:")
        for delay, times in points.items():
            print(f"{delay:>5} us: " + ", ".join(f"{size} B {us:.0f} us" for size, us in times))
        print("\nOne window on two hosts, in us:")
        print(f"{'case':<18} {'delay':>5} {'bytes':>8} {'threads':>9} {'measured':>9} {'fastest':>9} {'slowest':>9} {'model':>9} {'error':>7}")
        for row in compared:
            print(
                f"{row['case']:<18} {row['delay_us']:>5} {row['bytes_per_window']:>8} {row['threads_us']:>9} {row['measured_us']:>9} "
                f"{row['fastest_us']:>9} {row['slowest_us']:>9} {row['model_us']:>9} {row['error']:>7.1%}"
                f"{'' if row['equal_hashes'] else '  the hashes differ'}"
            )
        print("\nModelled, with one rank per machine:")
        print(f"{'case':<18} {'machines':>8} {'delay':>5} {'compute':>9} {'bytes':>9} {'window':>9} {'speedup':>7} {'imbalance':>9}")
        for row in predicted:
            print(
                f"{row['case']:<18} {row['machines']:>8} {row['delay_us']:>5} {row['compute_us']:>9} {row['bytes_per_window']:>9} "
                f"{row['window_us']:>9} {row['speedup']:>7} {row['imbalance']:>9}"
            )
        print(f"\n{summary['rows_within']} of {summary['rows']} rows are within {PASS_MARK:.0%}; the worst error is {worst:.1%}")
    return 0 if worst <= PASS_MARK and summary["equal_hashes"] == len(compared) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", metavar="FILE")
    parser.add_argument("--count", metavar="FILE")
    parser.add_argument("--model", metavar="FILE")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--delays", default=",".join(map(str, DELAYS_US)))
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        for row in measure_links(*json.loads(options.inside)):
            print(json.dumps(row))
        return 0
    delays, cases = [int(text) for text in options.delays.split(",")], options.cases.split(",")
    if options.model:
        rows = rows_of(Path(options.model).read_text())
    else:
        check_machine()
        rows = []
        if not options.count:
            rows += measure(delays, cases, EXCHANGES, options.repeat)
        if not options.measure:
            rows += count(sorted(set(MODELLED) | set(cases)), MACHINES)
        if options.measure or options.count:
            with open(options.measure or options.count, "a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            return 0
    counts = [row for row in rows if row["kind"] == "count"]
    return report([row for row in rows if row["kind"] != "count"], counts, options.json)


if __name__ == "__main__":
    sys.exit(main())
