#!/usr/bin/env python3
"""Tells .ci/run what a step left out: one line for each in the file that CHECKS_NOT_RUN names, and on stdout.

left_out.py ignored-tests LOG FOLDER...   ignored tests, by the reason in the source; LOG is the output of nextest
left_out.py ignored-doctests LOG          ignored examples; LOG is the output of cargo test --doc
left_out.py claims LIST RESULTS           claims that --quick leaves out; LIST is `poseidon repro … --list --json`
"""

import collections
import json
import os
import pathlib
import re
import sys


def ignored_tests(log, *folders):
    """Tests by the reason for which they are ignored. Those that .ci/linux runs are reported by it."""
    by_reason = collections.defaultdict(list)
    attribute = re.compile(r'#\[ignore(?: = "([^"]*)")?\][^{;]*?\bfn (\w+)', re.S)
    total = 0
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*.rs")):
            for reason, name in attribute.findall(path.read_text()):
                total += 1
                by_reason[reason or "no reason is given"].append(name)
    lines = []
    for reason, names in sorted(by_reason.items()):
        # A process that tests start is not a test; .ci/linux says itself what it did not run.
        if reason.startswith("not a test") or reason.endswith(".ci/linux"):
            continue
        lines.append(f"tests: {', '.join(names)}: {reason}")
    skipped = re.findall(r"(\d+) skipped", pathlib.Path(log).read_text())
    if not skipped or int(skipped[-1]) != total:
        said = skipped[-1] if skipped else "no"
        lines.append(f"tests: nextest skipped {said} tests, and the sources have {total} ignored ones")
    return lines


def ignored_doctests(log):
    ignored = sum(int(number) for number in re.findall(r"; (\d+) ignored;", pathlib.Path(log).read_text()))
    return [f"doctests: {ignored} examples that are marked `ignore`"] if ignored else []


def claims(listed, results):
    lines = []
    for study in json.loads(pathlib.Path(listed).read_text()):
        path = pathlib.Path(results) / study["name"] / "verdicts.json"
        shown = json.loads(path.read_text())
        missing = [verdict for verdict in shown["verdicts"] if verdict["outcome"] == "not-run"]
        if missing:
            cut = (shown.get("cut") or "its cells are not part of a quick run").removeprefix("not run: ")
            what = f"{len(missing)} of {len(shown['verdicts'])} claims"
            lines.append(f"claims: {study['name']}: {what}: {cut}")
    return lines


def main():
    commands = {"ignored-tests": ignored_tests, "ignored-doctests": ignored_doctests, "claims": claims}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    lines = commands[sys.argv[1]](*sys.argv[2:])
    for line in lines:
        print(f"not run: {line}")
    if lines and os.environ.get("CHECKS_NOT_RUN"):
        with open(os.environ["CHECKS_NOT_RUN"], "a") as file:
            file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
