"""Measures runs beside the command, rows to Polars, and laws in Python. Prints JSON, one line per figure.

POSEIDON names the command `poseidon`, built from the same code. Without it, runs are not compared.
"""

import json
import os
import pathlib
import resource
import statistics
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


def run_command(command):
    """The CPU time of one run of the command."""
    with tempfile.TemporaryDirectory() as folder:
        before = cpu_seconds(resource.RUSAGE_CHILDREN)
        arguments = ["run", "fig14b", "--seeds", "1", "--jobs", "1", "--quiet", "-o", folder]
        # One seed may be too few for a claim, so the exit code does not matter.
        subprocess.run([command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert any(pathlib.Path(folder).iterdir()), "the command has written nothing"
        return cpu_seconds(resource.RUSAGE_CHILDREN) - before


def run_package():
    """The CPU time of the same run in this process."""
    before = cpu_seconds(resource.RUSAGE_SELF)
    run = pc.run("fig14b", seeds=1, jobs=1, progress=False)
    assert run.verdicts
    return cpu_seconds(resource.RUSAGE_SELF) - before


def measure_command(rounds=5):
    """CPU time of fig. 14b, one seed on one job: the median over rounds in which both run, in turns."""
    command = os.environ.get("POSEIDON")
    if command is None:
        return
    times = []
    for number in range(rounds + 1):
        package_first = run_package() if number % 2 else None
        command_s = run_command(command)
        times.append((package_first or run_package(), command_s))
    del times[0]  # It fills caches.
    package_s, command_s = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(package / command for package, command in times)
    show(rounds=rounds, command_s=command_s, package_s=package_s, package_over_command=ratio)


def memory_mb(field):
    """A figure of this process's memory: VmRSS now, VmHWM the largest so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def measure_rows(target=10_000_000):
    import polars

    # Samples of all queues, as often as the scenario allows, give many rows in a short time.
    overrides = {"observe.sample": "20 ns", "stop": "20 ms", "claim": [], "figure": []}
    run = pc.run("quickstart", law="fixed", seeds=10, overrides=overrides, progress=False)
    table = run.queues
    run_peak = memory_mb("VmHWM")
    polars.DataFrame({"first": [1]})  # Polars starts its threads.
    forget_peak()
    before = memory_mb("VmRSS")
    began = time.perf_counter()
    frame = polars.DataFrame(table)
    seconds = time.perf_counter() - began
    copied = memory_mb("VmHWM") - before
    assert frame.height == len(table)
    show(rows=frame.height, table_mb=table.nbytes / 1e6, rows_to_polars_s=seconds, copied_mb=copied,
         copied_share=copied / (table.nbytes / 1e6), memory_mb=before, run_peak_mb=run_peak)
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
    measure_rows()
    measure_laws()
    measure_command()
