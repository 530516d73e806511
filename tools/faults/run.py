#!/usr/bin/env python3
"""Seeds faults into a copy of this repository and checks that the gate finds each of them.

    tools/faults/run.py                     all faults
    tools/faults/run.py --only pacing       one fault; can be repeated
    tools/faults/run.py --json              one line of JSON per fault, for the record of .ci/long

faults.toml lists the faults: a text to replace, and the scenario and metric that must fail. All faults are built into
one program, and the environment variable POSEIDON_FAULT turns one of them on. The base is the same program without a
fault. The copy and its build are in target/faults. Exit codes: 0 every fault was found, 1 one was not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "faults"
# True if this fault is turned on. It is a block because laws are compiled without std.
CONDITION = """{{
    extern crate std;
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("POSEIDON_FAULT").is_ok_and(|name| name == "{name}"))
}}"""


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def copy_tree(copy):
    """Copies the files that git knows. Unchanged files keep their times, so a second build is short."""
    files = run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True).stdout.split("\0")
    for name in filter(None, files):
        source, target = ROOT / name, copy / name
        if not source.is_file() or name.startswith(("docs/", "fuzz/")):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            shutil.copy2(source, target)


def find_package(name):
    """Returns the folder of a dependency's source."""
    metadata = run(["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"], cwd=ROOT, capture_output=True)
    packages = [package for package in json.loads(metadata.stdout)["packages"] if package["name"] == name]
    if len(packages) != 1:
        sys.exit(f"faults: {len(packages)} packages are named {name}; one is expected")
    return Path(packages[0]["manifest_path"]).parent


def patch_dependencies(copy, faults):
    """Replaces dependencies that have a fault by copies of their source."""
    names = sorted({fault["package"] for fault in faults if "package" in fault})
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    manifest += "".join(f'\n[patch.crates-io.{name}]\npath = "{name}"\n' for name in names)
    excluded = "exclude = ["
    if excluded not in manifest:
        sys.exit("faults: Cargo.toml no longer has a list of excluded folders")
    manifest = manifest.replace(excluded, excluded + "".join(f'"{name}", ' for name in names), 1)
    for name in names:
        shutil.rmtree(copy / name, ignore_errors=True)
        shutil.copytree(find_package(name), copy / name)
    (copy / "Cargo.toml").write_text(manifest, encoding="utf-8")


def seed_faults(copy, faults):
    texts = {}
    for fault in faults:
        path = copy / fault.get("package", "") / fault["file"]
        text = texts.get(path)
        if text is None:
            # A package was just copied. A file of ours may be patched already.
            source = path if "package" in fault else ROOT / fault["file"]
            text = source.read_text(encoding="utf-8")
        if text.count(fault["find"]) != 1:
            sys.exit(f"faults: {fault['name']}: {fault['file']} must contain this text once:\n{fault['find']}")
        condition = CONDITION.format(name=fault["name"])
        texts[path] = text.replace(fault["find"], fault["replace"].replace("FAULT", condition))
    for path, text in texts.items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def build(faults):
    copy = FOLDER / "tree"
    copy_tree(copy)
    patch_dependencies(copy, faults)
    seed_faults(copy, faults)
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(FOLDER / "build"),
        # The speed of the program does not matter here.
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        "RUSTFLAGS": "--cap-lints=warn",
    }
    run(["cargo", "build", "--release", "--package", "poseidon-cli", "--features", "stacks", "--bin", "poseidon"], cwd=copy, env=environment)
    return FOLDER / "build" / "release" / "poseidon"


def check(program, fault):
    """Runs the gate with a fault in the head, and returns the result as a dictionary."""
    folder = FOLDER / "runs" / fault["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scenarios = [ROOT / "scenarios" / "suite" / f"{name}.toml" for name in [fault["scenario"], *fault.get("unaffected", [])]]
    base = folder / "base"
    base.write_text(f'#!/bin/sh\nunset POSEIDON_FAULT\nexec "{program}" "$@"\n', encoding="utf-8")
    base.chmod(0o755)
    rules = [word for rule in fault["rules"] for word in ("--fail-if", rule)]
    result = {"fault": fault["name"], "law": fault["law"], "scenario": fault["scenario"], "metric": fault["metric"]}
    for name, key in (("none", "without"), (fault["name"], "with")):
        command = [program, "gate", *scenarios, "--law", fault["law"], "--base-program", base, *rules, "--format", "json", "--quiet", "-o", f"out-{key}"]
        environment = {**os.environ, "POSEIDON_FAULT": name}
        ended = subprocess.run([str(word) for word in command], cwd=folder, env=environment, text=True, capture_output=True, check=False)
        if ended.returncode not in (0, 4):
            sys.exit(f"faults: {fault['name']}: the gate ended with {ended.returncode}:\n{ended.stderr}")
        report = json.loads(ended.stdout)
        failing = [row for row in report["comparisons"] if row["verdict"] == "fail"]
        result[f"{key}_fault"] = report["verdict"]
        if key == "with":
            expected_at = f"suite/{fault['scenario']}"
            expected = [row for row in failing if (row["scenario"], row["metric"]) == (expected_at, fault["metric"])]
            result["found"] = bool(expected)
            result["elsewhere"] = sorted({f"{row['scenario']} {row['metric']}" for row in failing if row["scenario"] != expected_at})
            result["change"] = expected[0]["change"] if expected else None
            result["seeds"] = expected[0].get("seeds") if expected else None
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="FAULT")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    faults = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))["fault"]
    unknown = set(arguments.only or []) - {fault["name"] for fault in faults}
    if unknown:
        sys.exit(f"faults: there is no fault {', '.join(sorted(unknown))}; there are {', '.join(fault['name'] for fault in faults)}")
    program = build(faults)
    missed = 0
    for fault in faults:
        if arguments.only and fault["name"] not in arguments.only:
            continue
        result = check(program, fault)
        good = result["found"] and result["without_fault"] == "pass" and not result["elsewhere"]
        missed += not good
        if arguments.json:
            print(json.dumps(result), flush=True)
        else:
            change = "no change" if result["change"] is None else f"{100 * result['change']:+.1f} %"
            print(f"{'found ' if good else 'MISSED'} {fault['name']} ({fault['law']}): {fault['scenario']} {fault['metric']} {change}; "
                  f"without the fault: {result['without_fault']}; elsewhere: {', '.join(result['elsewhere']) or 'nothing'}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
