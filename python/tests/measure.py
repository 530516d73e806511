"""Measures runs beside the command, rows to Polars, and laws in Python. Prints JSON, one line per figure.

POSEIDON names the command `poseidon`, built from the same code. Without it, runs are not compared.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import poseidon_cc as pc


def show(**figures):
    print(json.dumps({"test": "python", **figures}), flush=True)


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def measure_command():
    """CPU time of fig. 14b, Poseidon, three seeds on one job: this package over the command. The best of three rounds."""
    command = os.environ.get("POSEIDON")
    if command is None:
        return
    times = {"command": [], "package": []}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            before = cpu_seconds(resource.RUSAGE_CHILDREN)
            arguments = ["run", "fig14b", "--law", "poseidon", "--seeds", "3", "--jobs", "1", "--quiet", "-o", folder]
            # Gating claims about other laws are not run, so the exit code does not matter.
            subprocess.run([command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            times["command"].append(cpu_seconds(resource.RUSAGE_CHILDREN) - before)
        before = cpu_seconds(resource.RUSAGE_SELF)
        run = pc.run("fig14b", law="poseidon", seeds=3, jobs=1, rows=False, progress=False)
        assert run.verdicts
        times["package"].append(cpu_seconds(resource.RUSAGE_SELF) - before)
    best = {name: min(seconds) for name, seconds in times.items()}
    show(command_s=best["command"], package_s=best["package"], package_over_command=best["package"] / best["command"])


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_rows(target=10_000_000):
    import polars

    # Samples of all queues, as often as the scenario allows, give many rows in a short time.
    overrides = {"observe.sample": "20 ns", "stop": "20 ms", "claim": [], "figure": []}
    run = pc.run("quickstart", law="fixed", seeds=10, overrides=overrides, progress=False)
    table = run.queues
    before = peak_mb()
    began = time.perf_counter()
    frame = polars.DataFrame(table)
    seconds = time.perf_counter() - began
    after = peak_mb()
    assert frame.height == len(table)
    show(rows=frame.height, table_mb=table.nbytes / 1e6, rows_to_polars_s=seconds, peak_mb_before=before,
         peak_mb_after=after)
    if frame.height < target:
        sys.exit(f"there are fewer than {target} rows")


class Constant:
    signals = ["rtt"]

    def __init__(self, path):
        self.window_packets = 64.0

    def on_ack(self, ack):
        return 64.0


class Reading(Constant):
    """Reads five signals of each ACK."""

    def on_ack(self, ack):
        self.seen = ack.now_ns + ack.rtt_ns + ack.packets + ack.acked_bytes + ack.next_seq
        return self.window_packets


def measure_laws():
    options = {"seeds": 1, "overrides": {"stop": "10 ms"}, "rows": False, "progress": False, "jobs": 1}
    rust = pc.run("quickstart", law="fixed", **options)
    for law in (Constant, Reading):
        run = pc.run("quickstart", law=law, **options)
        calls = int(run.python_law_cost.split()[3])
        show(**{f"us_per_ack_{law.__name__.lower()}": 1e6 * (run.cost[1] - rust.cost[1]) / calls, "calls": calls})


if __name__ == "__main__":
    measure_command()
    measure_laws()
    measure_rows()
