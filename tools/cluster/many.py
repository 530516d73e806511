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
says = "the link carries data"
metric = "flows.total_gbps"
above = 1.0
paper = "none"
"""


def timed(*arguments, **options):
    began = time.time()
    done = subprocess.run([POSEIDON, *map(str, arguments)], capture_output=True, text=True, **options)
    wall = time.time() - began
    if done.returncode != 0:
        sys.exit(f"many: {arguments}: exit code {done.returncode}\n{done.stderr}")
    return round(wall, 2), done


def main():
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 100_000
    folder = Path(tempfile.mkdtemp(prefix="poseidon-many-", dir=os.environ.get("MANY_FOLDER")))
    try:
        (folder / "many.toml").write_text(STUDY)
        command = ["run", "many.toml", "-o", "out", "--records", "none", "--seeds", runs // CELLS, "--quiet"]
        computing, first = timed(*command, cwd=folder)
        resuming, second = timed(*command, cwd=folder)
        # The results of `--seeds` are those of the folder.
        status, state = timed("status", "out", "--seeds", runs // CELLS, "--json", cwd=folder)
        report, third = timed("report", "out", cwd=folder)
        report_json, fourth = timed("report", "out", "--json", cwd=folder)
        state = json.loads(state.stdout)[0]
        hashes = {line.split()[1].rstrip(";") for text in (first, second, third) for line in text.stdout.splitlines() if line.startswith("result ")}
        row = {
            "test": "many",
            "runs": state["runs"],
            "done": state["done"],
            "hashes": len(hashes | {json.loads(fourth.stdout)["result_hash"]}),
            "computing_s": computing,
            "report_s": report,
            "status_s": status,
            "resuming_s": resuming,
            "report_json_s": report_json,
        }
        # Removing so many files takes minutes.
        print(json.dumps(row), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if max(row["report_s"], row["status_s"], row["resuming_s"]) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
