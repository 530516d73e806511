#!/usr/bin/env python3
"""Runs a study of 200 cells on a real Slurm of two nodes, injects faults, and compares the result with one machine.

    check.py [--json] [--keep]      needs root, and Debian's packages slurm-wlm and munge

The results folder is a file system of its own (tmpfs), so that it can be full. While `run-study.sh`, the script of the
book, runs the study as an array of eight tasks, this script

- kills a task with SIGKILL,
- starts a task a second time,
- kills a node: its slurmd, its job steps and all tasks on it,
- fills the results folder until a task fails.

Exit codes: 0 the results are complete and the same, 1 they are not, 3 the machine lacks something.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
POSEIDON = Path(os.environ.get("POSEIDON", HERE.parent.parent / "target/release/poseidon")).resolve()
TASKS, CELLS = 8, 200
TMPFS_MB = 512


def note(text):
    print(f"check: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"check: {' '.join(str(word) for word in command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def poseidon(*arguments, **options):
    return run([POSEIDON, *arguments], **options)


def status(results):
    """Returns the state of the study, or None before the first task has written its scenario."""
    done = subprocess.run([POSEIDON, "status", results, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)[0] if done.returncode == 0 else None


def wait_until(results, done, job):
    """Waits until so many runs are done, and returns the state."""
    while job.poll() is None:
        state = status(results)
        if state and state["done"] >= done and state["running_runs"]:
            return state
        time.sleep(0.2)
    sys.exit(f"check: the job ended before {done} runs were done")


def environment(pid):
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def kill_node(name, slurm):
    """Kills the slurmd of a node, its job steps and their processes, as if the machine had lost its power."""
    own = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    tasks = [pid for pid in own if environment(pid).get("SLURMD_NODENAME") == name]
    steps = {step for step in map(parent, tasks) if b"slurmstepd" in Path(f"/proc/{step}/cmdline").read_bytes()}
    kill(int((slurm / f"slurmd-{name}.pid").read_text()))
    for pid in [*steps, *tasks]:
        kill(pid)
    return len(tasks)


def cancel(slurm):
    """Ends all jobs, and waits until their processes have ended."""
    env = {**os.environ, "SLURM_CONF": str(slurm / "slurm.conf")}
    subprocess.run(["scancel", "--quiet", "--user=root"], env=env)
    for _ in range(100):
        done = subprocess.run(["squeue", "--noheader"], env=env, capture_output=True, text=True)
        if not done.stdout.strip():
            return
        time.sleep(0.2)


def failed_tasks(slurm):
    return (slurm / "slurmctld.log").read_text().count("WEXITSTATUS 1")


def fill(results, slurm, job):
    """Fills the results folder until a task fails, and empties it again."""
    before, filler = failed_tasks(slurm), results / "filler"
    with open(filler, "wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"\0" * (1 << 16))
        except OSError as error:
            note(f"the results folder is full: {error.strerror}")
    deadline = time.time() + 60
    while failed_tasks(slurm) == before and time.time() < deadline and job.poll() is None:
        # What a failed write leaves free is taken, too.
        with open(filler, "ab") as file:
            try:
                os.write(file.fileno(), b"\0" * (1 << 20))
            except OSError:
                pass
        time.sleep(0.05)
    filler.unlink()
    return failed_tasks(slurm) - before


def computed(logs):
    """Returns how often the logs say that a run was computed, by run."""
    counts = {}
    for log in logs.glob("*.log"):
        for run_name in re.findall(r"^poseidon: computed (.*) in [0-9.]+ s$", log.read_text(errors="replace"), re.M):
            counts[run_name] = counts.get(run_name, 0) + 1
    return counts


def main():
    if os.geteuid() != 0:
        note("needs root")
        return 3
    missing = [tool for tool in ["slurmctld", "slurmd", "sbatch", "munged"] if not shutil.which(tool)]
    if missing:
        note(f"{', '.join(missing)}: not installed (apt-get install slurm-wlm munge)")
        return 3
    folder = Path(tempfile.mkdtemp(prefix="poseidon-slurm-"))
    slurm, results = folder / "slurm", folder / "results"
    results.mkdir()
    try:
        report = check(folder, slurm, results)
    finally:
        cancel(slurm)
        subprocess.run([HERE / "local-slurm", "stop", slurm])
        if "--keep" in sys.argv:
            note(f"kept {folder}")
        else:
            subprocess.run(["umount", results])
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report) if "--json" in sys.argv else json.dumps(report, indent=2))
    good = report["done"] == CELLS and report["same_hashes"] == CELLS and report["computed_twice"] == 0
    return 0 if good else 1


def check(folder, slurm, results):
    shutil.copy(HERE / "study.toml", folder)
    (folder / "bin").mkdir()
    (folder / "bin/poseidon").symlink_to(POSEIDON)
    run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MB}m", "tmpfs", results])

    note("one machine")
    began = time.time()
    options = ["--records", "none", "--json", "--quiet"]
    alone = json.loads(poseidon("run", "study.toml", "-o", folder / "alone", *options, cwd=folder))
    wall_alone = time.time() - began

    note(f"{wall_alone:.1f} s; a cluster of two nodes")
    run([HERE / "local-slurm", "start", slurm])
    env = {**os.environ, "SLURM_CONF": str(slurm / "slurm.conf"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    script = [HERE / "run-study.sh", "study.toml"]
    began = time.time()
    run([*script, folder / "undisturbed", TASKS], cwd=folder, env=env)
    wall_cluster = time.time() - began

    note(f"{wall_cluster:.1f} s; the same with faults")
    began = time.time()
    with open(folder / "run-study.log", "w") as log:
        job = subprocess.Popen(
            [*script, str(results), str(TASKS)], cwd=folder, env=env, stdout=log, stderr=log
        )
        state = wait_until(results, 20, job)
        victim = state["running_runs"][0]
        kill(victim["pid"])
        note(f"{state['done']} runs done: killed the task of {victim['run']}")

        state = wait_until(results, 40, job)
        command = f"srun poseidon run study.toml --records none --task 3/{TASKS} --jobs 1 -o {results}"
        arguments = ["--job-name=duplicate", "--mem=100M", f"--output={results}/logs/duplicate.log", f"--wrap={command}"]
        run(["sbatch", *arguments], cwd=folder, env=env)
        note(f"{state['done']} runs done: started task 3 a second time")

        state = wait_until(results, 60, job)
        lost = kill_node("n2", slurm)
        note(f"{state['done']} runs done: killed node n2 with {lost} processes")

        state = wait_until(results, 90, job)
        failed = fill(results, slurm, job)
        note(f"{state['done']} runs done: filled the results folder; {failed} tasks failed")
        run([HERE / "local-slurm", "start-node", slurm, "2"])
        note("started node n2 again")
        job.wait()
    wall_faults = time.time() - began

    state = status(results)
    merged = json.loads(poseidon("run", "study.toml", "-o", results, *options, cwd=folder))

    def hashes(report):
        key = lambda run: (json.dumps(run["manifest"]["cell"]), run["manifest"]["seed"])
        return {key(run): run["manifest"]["result_hash"] for run in report["runs"]}

    expected, found = hashes(alone), hashes(merged)
    counts = computed(results / "logs")
    collected = "".join(log.read_text() for log in (results / "logs").glob("collect_*.log"))
    by_collector = re.search(r"computed (\d+) runs?, ", collected)
    return {
        "test": "slurm",
        "cells": len(alone["runs"]),
        "tasks": TASKS,
        "faults": ["task killed", "task started twice", "node killed", "full disk"],
        "failed_on_full_disk": failed,
        "killed_on_node": lost,
        "done": state["done"],
        "same_hashes": sum(found.get(key) == value for key, value in expected.items()),
        "same_result": alone["result_hash"] == merged["result_hash"],
        "computed_by_tasks": sum(counts.values()),
        "computed_by_collector": int(by_collector[1]) if by_collector else 0,
        "computed_twice": sum(count > 1 for count in counts.values()),
        "wall_alone_s": round(wall_alone, 1),
        "wall_cluster_s": round(wall_cluster, 1),
        "wall_faults_s": round(wall_faults, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
