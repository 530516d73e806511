#!/usr/bin/env python3
"""Measures a results folder with 10^5 runs of one study: how long report, status and a resumed run take.

    many.py [--json] [--runs N]      needs 3 GB of disk and about ten minutes

The runs are real ones: ten cells with ten thousand seeds each, of two flows for 20 us.

Exit codes: 0 everything took less than five seconds, 1 not.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POSEIDON = Path(os.environ.get("POSEIDON", Path(__file__).resolve().parents[2] / "target/release/poseidon")).resolve()
LIMIT_S = 5.0
CELLS = 10
STUDY = """title = "Many short runs"
source = "none"
stop = "20 us"

[topology]
kind = "star"
hosts = 3
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "auto"

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"
spread = "$spread"

[sweep]
law = ["poseidon", "swift"]
spread = ["1 us", "2 us", "3 us", "4 us", "5 us"]

[[claim]]
says = "the link carries packets"
metric = "run.packet_hops"
above = 1.0
paper = "none"
"""


class Measured:
    """A command that has ended: its output, its duration, its processor time and its memory."""

    def __init__(self, *arguments, cwd):
        with tempfile.TemporaryFile("w+") as output:
            began = time.monotonic()
            process = subprocess.Popen([POSEIDON, *map(str, arguments)], stdout=output, cwd=cwd)
            _, status, usage = os.wait4(process.pid, 0)
            self.wall_s = round(time.monotonic() - began, 2)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            self.stdout = output.read()
        if process.returncode != 0:
            sys.exit(f"many: {arguments}: exit code {process.returncode}")
        self.cpu_s = round(usage.ru_utime + usage.ru_stime, 2)
        self.memory_mb = usage.ru_maxrss // 1000


def main():
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 100_000
    folder = Path(tempfile.mkdtemp(prefix="poseidon-many-", dir=os.environ.get("MANY_FOLDER")))
    try:
        (folder / "many.toml").write_text(STUDY)
        command = ["run", "many.toml", "-o", "out", "--records", "none", "--seeds", runs // CELLS, "--quiet"]
        computing = Measured(*command, cwd=folder)
        resuming = Measured(*command, cwd=folder)
        # The results of `--seeds` are those of the folder.
        status = Measured("status", "out", "--seeds", runs // CELLS, "--json", cwd=folder)
        report = Measured("report", "out", cwd=folder)
        report_json = Measured("report", "out", "--json", cwd=folder)
        state = json.loads(status.stdout)[0]
        lines = "".join(command.stdout for command in (computing, resuming, report)).splitlines()
        hashes = {line.split()[1].rstrip(";") for line in lines if line.startswith("result ")}
        row = {
            "test": "many",
            "runs": state["runs"],
            "done": state["done"],
            "hashes": len(hashes | {json.loads(report_json.stdout)["result_hash"]}),
            "computing_s": computing.wall_s,
        }
        commands = {"report": report, "status": status, "resuming": resuming, "report_json": report_json}
        for name, command in commands.items():
            row |= {f"{name}_s": command.wall_s, f"{name}_cpu_s": command.cpu_s, f"{name}_mb": command.memory_mb}
        # Removing so many files takes minutes.
        print(json.dumps(row), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if max(row["report_s"], row["status_s"], row["resuming_s"]) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
