#!/usr/bin/env python3
"""Pass marks, record and page of .ci/long.

A part prints JSON. `judge` reads its figures, compares them with the part's marks and writes the record and the page.

    long_record.py passed PART                    exit code 0 where PART has passed with this code on this machine
    long_record.py begin PART                     the record says that PART began and did not end
    long_record.py judge PART --exit-code N --seconds S --output FILE
    long_record.py not-run PART --reason TEXT
    long_record.py failed PART --reason TEXT      it could not even start
    long_record.py clean                          exit code 0 where no file but documents differs from the commit
    long_record.py result PART                    prints the result and its reason
    long_record.py summary PART...                prints all; exit code 0 passed, 1 missed or failed, 3 not run
    long_record.py page                           writes the page again from the record

LONG_RECORD and LONG_PAGE name other files than docs/long/record.json and docs/long.md. LONG_SELF_TEST is set by .ci/self-test: it
brings parts of its own and stands for the commit.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = pathlib.Path(os.environ.get("LONG_RECORD") or ROOT / "docs/long/record.json")
PAGE = pathlib.Path(os.environ.get("LONG_PAGE") or ROOT / "docs/long.md")
EXIT_PASSED, EXIT_MISSED, EXIT_NOT_RUN = 0, 1, 3


class NoFigures(Exception):
    """The output of a part lacks what its marks need."""


# --- Figures: from what a part printed to {name: number}.


def objects(text):
    """The JSON objects among the lines. The test harness may have begun a line before one."""
    found = []
    for line in text.splitlines():
        start = line.find('{"')
        if start >= 0:
            try:
                found.append(json.loads(line[start:]))
            except json.JSONDecodeError:
                continue
    return found


def only(rows, count=1):
    if len(rows) != count:
        raise NoFigures(f"{len(rows)} rows of figures instead of {count}")
    return rows


def packet_hops(text):
    figures = {}
    for row in objects(text):
        for unit, value in row.items():
            if unit != "row":
                figures[f"{row['row']}, {unit}"] = value
    small, large = (figures.get(f"{hosts} hosts, poseidon, M packet-hops/s") for hosts in (128, 65536))
    if small and large:
        figures["slow-down from 128 to 65536 hosts"] = small / large
    return figures


def anchors(text):
    rows = objects(text)
    if not rows:
        raise NoFigures("no row of figures")
    return {"rows": len(rows), "rows within ten percent": sum(row["within_tenth"] for row in rows)}


def cost(text):
    return {f"{row['part']}: {row['row']}": row.get("ratio", row.get("ns")) for row in objects(text)}


def median(numbers):
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio(text):
    figures = {}
    for row in objects(text):
        for variant in ("poseidon", "bare_again"):
            for what in ("goodput", "cpu"):
                name = f"{row['mtu']} B, {variant.replace('_', ' ')}, {what}"
                figures[name] = median(row[variant][what])
        figures[f"{row['mtu']} B, bare quinn, Gbps"] = row["bare_gbps"]
    return figures


def hostile(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "hostile"])
    return {key: value for key, value in row.items() if key != "test"}


def undo(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "undo"])
    return {key: value for key, value in row.items() if key != "test"}


def faults(text):
    rows = objects(text)
    if not rows:
        raise NoFigures("no row of figures")
    return {
        "faults": len(rows),
        "found": sum(row["found"] for row in rows),
        "gates that fail without a fault": sum(row["without_fault"] != "pass" for row in rows),
        "failures elsewhere": sum(len(row["elsewhere"]) for row in rows),
        **{f"{row['fault']}: change of {row['scenario']} {row['metric']}": row["change"] for row in rows if row["change"] is not None},
    }


def stacks_speed(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "stacks_speed"])
    return {key: value for key, value in row.items() if key != "test"}


def soak(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "soak"])
    growth = row["late_kib"] / row["early_kib"] - 1
    return {"connections": row["connections"], "most_flows": row["most_flows"], "memory growth": growth}


def identity(text):
    rows = only([row for row in objects(text) if row.get("test") == "identity"], 2)
    return {
        "connections": sum(row["connections"] for row in rows),
        "connection ids": sum(row["connection_ids"] for row in rows),
        "stamps per connection": min(
            min(row["client_stamps"], row["server_stamps"]) / row["connections"] for row in rows
        ),
    }


def vanishing(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "vanishing"])
    first, silent, last = row["mbps"]
    return {
        "longest time without an ACK, median RTTs": row["longest_hole_ns"] / row["median_rtt_ns"],
        "rate without telemetry, of that before": silent / first,
        "rate with telemetry again, of that before": last / first,
    }


def quic_testbed(text):
    rows = objects(text)
    cells = only([row for row in rows if row.get("test") == "one_bottleneck"], 6)
    (two,) = only([row for row in rows if row.get("test") == "two_queues"])
    thirds = only([row for row in rows if "third" in row], 3)
    (holes,) = only([row for row in rows if "longest_hole_after_change_us" in row])
    return {
        "goodput, of CUBIC's, least": min(cell["goodput_ratio"] for cell in cells),
        "queue, times lower than CUBIC's, least": min(cell["queue_ratio"] for cell in cells),
        "Jain's index, least": min(cell["jain"] for cell in cells),
        "drops": sum(cell["drops"] for cell in cells),
        "cells steered by telemetry": sum(cell["by_telemetry"] for cell in cells),
        "share of the flow through two queues": two["victim_share"],
        "Mbit/s while telemetry vanishes, least": min(third["mbps"] for third in thirds),
        "longest time without an ACK after a change, median RTTs": holes["longest_hole_after_change_us"]
        / holes["median_rtt_us"],
    }


def peers_dumbbell(text):
    sides = {}
    for row in objects(text):
        if None in row["shares"]:
            raise NoFigures(f"{row['scenario']}, {row['side']}: nothing arrived")
        sides.setdefault(row["scenario"], {}).setdefault(row["side"], []).append(row)
    figures = {}
    for scenario, runs in sides.items():
        ours, theirs = runs.get("ours", []), runs.get("ns-3", [])
        if not ours or not theirs:
            raise NoFigures(f"{scenario}: one side is missing")

        def shares(rows):
            return [median(row["shares"][flow] for row in rows) for flow in range(len(rows[0]["shares"]))]

        differences = [abs(a - b) for a, b in zip(shares(ours), shares(theirs))]
        queues = [median(row["mean_queue_bytes"] for row in side) for side in (ours, theirs)]
        figures[f"{scenario}: largest difference of a share"] = max(differences)
        figures[f"{scenario}: difference of queues"] = abs(queues[0] / queues[1] - 1)
    return figures


def peers_star(text):
    speed = {(row["hosts"], row["side"]): row["hops_per_second"] for row in objects(text)}
    hosts = sorted({hosts for hosts, _ in speed})
    return {f"{n} hosts: times as fast as ns-3": speed[n, "ours"] / speed[n, "ns-3"] for n in hosts}


def peers_laws(text):
    """The differences between our simulator and the version of ns-3 that differs most."""
    figures = {}
    for row in objects(text):
        if row["side"] != "ours":
            for what, value in (("share", row["share_difference"]), ("queue", abs(row["queue_difference"]))):
                name = f"{row['scenario']}: difference of the {what}"
                figures[name] = max(value, figures.get(name, 0))
    if not figures:
        raise NoFigures("no row from ns-3")
    return figures


def ns3_equality(text):
    lists = [int(count) for count in re.findall(r"^[a-z0-9-]+: (\d+) lists, \d+ decisions, all the same$", text, re.M)]
    if not lists:
        raise NoFigures("no law was compared")
    return {
        "laws and versions": len(lists),
        "lists per law": min(lists, default=0),
        "runs replayed through C": len(re.findall(r"^ns3: .* calls replayed: the same decisions$", text, re.M)),
    }


def capi_equality(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "capi_equality"])
    return {key: value for key, value in row.items() if key != "test"}


def capi_package(text):
    if "capi:" not in text:
        raise NoFigures("no output of .ci/capi")
    return {"installed with cargo-c": text.count("capi: installed with cargo-c and used with pkg-config")}


def slurm(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "slurm"])
    return {
        "cells": row["cells"],
        "faults": len(row["faults"]),
        "done": row["done"],
        "with the hash of one machine": row["same_hashes"],
        "computed": row["computed_by_tasks"] + row["computed_by_collector"],
        "computed twice": row["computed_twice"],
        "tasks failed on the full disk": row["failed_on_full_disk"],
        "processes killed with the node": row["killed_on_node"],
        "one machine s": row["wall_alone_s"],
        "cluster s": row["wall_cluster_s"],
        "cluster with faults s": row["wall_faults_s"],
    }


def many_results(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "many"])
    return {key: value for key, value in row.items() if key != "test"}


def object_store(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "object-store"])
    return {
        "writers": row["writers"],
        "cells": row["cells"],
        "rounds of conditional puts": row["rounds"],
        "rounds with one winner": row["rounds_with_one_winner"],
        "writers killed in a put": row["killed_in_put"],
        "restarts of the server": row["server_restarts"],
        "writers that failed": row["failed_writers"],
        "done": row["done"],
        "torn": row["torn"],
        "with the hash of one machine": row["same_hashes"],
        "computed": row["computed"],
        "computed twice": row["computed_twice"],
        "one machine s": row["wall_alone_s"],
        "16 writers s": row["wall_writers_s"],
    }


def scale(text):
    (row,) = only([row for row in objects(text) if row.get("part") == "scale"])
    worst = {"without delay": 0.0, "10 and 50 us": 0.0, "100 us and more": 0.0}
    for compared in (row for row in objects(text) if row.get("kind") == "compared"):
        delay = compared["delay_us"]
        group = "without delay" if delay == 0 else "10 and 50 us" if delay < 100 else "100 us and more"
        worst[group] = max(worst[group], abs(compared["error"]))
    return {
        "rows": row["rows"],
        "rows within 15 %": row["rows_within"],
        "rows with equal hashes": row["equal_hashes"],
        "largest error": row["worst_error"],
        **{f"largest error, {group}": error for group, error in worst.items()},
    }


def monitoring(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "monitoring"])
    return {
        "scrapes": row["scrapes"],
        "failed scrapes": row["scrapes_failed"],
        "alerts without a queue": len(row["alerts_without_queue"]),
        "alert PoseidonQueueDelay": row["alerts_with_queue"].count("PoseidonQueueDelay"),
        "it fires after s": row["fired_after_s"],
        "p99 without a queue s": row["p99_without_queue_s"],
        "p99 with a queue s": row["p99_with_queue_s"],
        "queries of the dashboard": row["dashboard_queries"],
        "queries without data": len(row["empty_queries"]),
    }


def packages(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "packages"])
    return {
        "findings of lintian": row["lintian"],
        "largest exposure of a service": max(row["exposure"].values()),
        "enabled or running after the installation": row["enabled_by_installation"],
        "services enabled": row["enabled"],
        "services that run": row["active"],
        "TCP and the port in the metrics": row["tcp_in_metrics"] + row["port_in_metrics"],
        "enabled or running after disabling": row["enabled_after_disable"],
        "files of the packages": row["files_installed"],
        "files left after the purge": len(row["left"]),
        "pins left after the purge": len(row["pins_left"]),
    }


def kernels(text):
    rows = objects(text)
    if not rows:
        raise NoFigures("no kernel was tested")
    figures = {}
    for row in rows:
        name = "Linux " + ".".join(row["kernel"].split(".")[:2])
        figures |= {
            f"{name}: tests passed": row["passed"],
            f"{name}: tests failed": len(row["failed"]),
            f"{name}: tests left out": len(row["left_out"]),
            f"{name}: parts that work": sum(state == "ok" for state in row["can"].values()),
            f"{name}: missing features": sum(check["since"] is not None for check in row["lacks"]),
            f"{name}: commands that do not name them": len(row["vague"]),
            f"{name}: kernel warnings": len(row["warnings"]),
            f"{name}: tests that passed at a later attempt": row["repeated"],
            f"{name}: boot s": row["boot_s"],
            f"{name}: whole s": row["seconds"],
        }
    return figures


def release_twice(text):
    same = re.findall(r"^two-folders: the same bytes: (\S+), (\d+) bytes$", text, re.M)
    if not same:
        raise NoFigures("no output of tools/packages/two-folders")
    return {"files with the same bytes in two folders": len(same)}


def python_package(text):
    same = re.findall(r"^python: the same bytes in two folders: (\S+), (\d+) bytes$", text, re.M)
    if not same:
        raise NoFigures("no output of .ci/python --whole")
    (ran,) = only([row for row in objects(text) if row.get("test") == "python" and "notebooks" in row])
    return {
        "files with the same bytes in two folders": len(same),
        "wheel, MB": sum(int(size) for name, size in same if name.endswith(".whl")) / 1e6,
        "auditwheel and abi3audit passed": text.count("python: auditwheel: ") + text.count("python: abi3audit found no symbol"),
        "tests passed": sum(int(count) for count in re.findall(r"^(\d+) passed", text, re.M)),
        "pictures of notebooks": ran["pictures"],
        "left out": len(re.findall(r"^python: not run: ", text, re.M)),
    }


def python_equality(text):
    (row,) = only([row for row in objects(text) if row.get("test") == "python"])
    return {key: value for key, value in row.items() if key != "test"}


def python_speed(text):
    figures = {}
    for row in objects(text):
        if row.pop("test", None) == "python":
            figures.update(row)
    return figures


# --- Marks: the least or the most that a figure may be, and where that is promised.


def at_least(figure, bound, source):
    return {"figure": figure, "must": "at least", "bound": bound, "source": source}


def at_most(figure, bound, source):
    return {"figure": figure, "must": "at most", "bound": bound, "source": source}


FAST = 'docs/simulator.md, "Fast", column "at least"'
SHARES = 'docs/peers.md, "Shares and queues": 5 % of the fair share, 10 % of the queue'
ROUTER = 'docs/cost.md, "A router that stamps", less 0.03 because runs differ by some hundredths'
TRANSFER = 'docs/cost.md, "A TCP transfer"'
RATIO = "crates/hosts/quic/examples/ratio/main.rs, GOODPUT and CPU; docs/howto/quic.md has 0.97 and 1.04"
TESTBED = "crates/hosts/quic/tests/testbed.rs"
PACKAGES = "docs/howto/install.md"
KERNELS = 'docs/reference/linux.md, "Kernels"'
PYTHON = 'docs/howto/python.md, "The wheel"'
LAWS = 'docs/howto/ns3.md, "Comparison with our simulator": 5 % of the fair share, 10 % of the queue'


def same_in_ns3(shares, queues):
    """Marks for the scenarios in which shares agree with ns-3, and for those in which queues do."""
    return [
        *(at_most(f"{scenario}: difference of the share", 0.05, LAWS) for scenario in shares),
        *(at_most(f"{scenario}: difference of the queue", 0.1, LAWS) for scenario in queues),
    ]


# The page names the cause where shares do not agree.
TWO_FLOWS = [f"dumbbell, {law}, 2 flows" for law in ("poseidon", "swift", "dctcp", "theta-powertcp", "cubic", "bbr")]
EIGHT_FLOWS = [f"{network}, {law}, 8 flows" for network in ("dumbbell", "star") for law in ("poseidon", "swift", "dctcp")]
LAWS_IN_NS3 = same_in_ns3([*TWO_FLOWS, "star, poseidon, 2 flows", "star, swift, 8 flows"], [*TWO_FLOWS, *EIGHT_FLOWS])
VICTIMS = [f"fig. {figure}, {law}" for figure in (12, 13) for law in ("poseidon", "swift")]
PHASES = [f"fig. 14, swift, ({first},{second})" for first, second in ((2, 0), (0, 2), (2, 9), (9, 9), (9, 2))]
VICTIMS_IN_NS3 = same_in_ns3(
    [*VICTIMS, *PHASES, "fig. 14, poseidon, (2,0)", "fig. 14, poseidon, (0,2)"],
    [*VICTIMS, *PHASES, *(phase.replace("swift", "poseidon") for phase in PHASES)],
)

PARTS = {
    "packet_hops": {
        "what": "speed and memory of the simulator",
        "figures": packet_hops,
        "marks": [
            *(at_least(f"128 hosts, {law}, M packet-hops/s", 6, FAST) for law in ("poseidon", "swift", "hpcc")),
            *(at_least(f"1024 hosts, {law}, M packet-hops/s", 4.5, FAST) for law in ("poseidon", "swift", "hpcc")),
            at_least("65536 hosts, poseidon, M packet-hops/s", 2, FAST),
            at_most("slow-down from 128 to 65536 hosts", 3.5, FAST),
            at_most("hpcc, 320 hosts at 100/400 Gbps, 200 us, s", 1.5, FAST),
            at_most("65536 hosts, idle, kB per host", 8, FAST),
            at_most("65536 hosts, busy, B per packet in flight", 128, FAST),
            at_least("1024 hosts, two threads, wall time, x as fast as one", 1.5, FAST),
            at_most("128 hosts, samples of 640 queues every 10 us, % slower", 20, FAST),
        ],
    },
    "anchors": {
        "what": "the simulator compared with an earlier simulator of the same evaluation",
        "figures": anchors,
        "marks": [
            at_least("rows", 75, "docs/simulator.md: 75 rows"),
            at_least("rows within ten percent", 53, "docs/simulator.md: 53 are within ten percent"),
        ],
    },
    "cost": {
        "what": "CPU of Poseidon in Linux: a router that stamps, a TCP transfer",
        "figures": cost,
        "marks": [
            at_least("router: TCP with our option", 0.88, ROUTER),
            at_least("router: TCP without it", 0.90, ROUTER),
            at_least("router: UDP with our shim", 0.84, ROUTER),
            at_least("router: UDP without it", 0.90, ROUTER),
            at_least("router: TCP, delay written", 0.84, ROUTER),
            *(
                at_most(f"transfer: {packets}, its defaults for 10 Gbps", 1.0, f"{TRANSFER}: cheaper than cubic")
                for packets in ("packets merged", "packets one by one")
            ),
            *(
                at_most(f"transfer: {packets}, large targets, ACKs delayed", 1.1, f"{TRANSFER}: less than a tenth")
                for packets in ("packets merged", "packets one by one")
            ),
        ],
    },
    "ratio": {
        "what": "goodput and CPU per byte with the QUIC shim and law, compared with plain quinn",
        "figures": ratio,
        "exit codes": [0, 4],
        "marks": [
            mark
            for mtu in (1452, 8900)
            for mark in (
                at_least(f"{mtu} B, poseidon, goodput", 0.95, RATIO),
                at_most(f"{mtu} B, poseidon, cpu", 1.05, RATIO),
            )
        ],
    },
    "faults": {
        "what": "the gate finds faults that are seeded into this program, each in the scenario where it acts",
        "figures": faults,
        "exit codes": [0, 1],
        "marks": [
            at_least("faults", 8, "tools/faults/faults.toml"),
            at_least("found", 8, "tools/faults/faults.toml"),
            at_most("gates that fail without a fault", 0, "tools/faults/run.py"),
            at_most("failures elsewhere", 0, "tools/faults/run.py"),
        ],
    },
    "stacks_speed": {
        "what": "100 connections of quinn share 100 Mbit/s in the simulator",
        "figures": stacks_speed,
        "marks": [at_least("times as fast as real time", 20, "docs/howto/stacks.md")],
    },
    "hostile_long": {
        "what": "a QUIC server under ten million hostile datagrams",
        "figures": hostile,
        "marks": [
            at_least("datagrams", 9_000_000, "crates/hosts/quic/tests/hostile.rs: ten million, less what a full buffer drops"),
            at_least("goodput_ratio", 0.95, "crates/hosts/quic/tests/hostile.rs: honest goodput under attack within 5 %"),
            at_most("most_flows", 8, "crates/hosts/quic/tests/hostile.rs"),
            at_most("resident_growth_kib", 65536, "crates/hosts/quic/tests/hostile.rs: 64 MiB"),
        ],
    },
    "forged_long": {
        "what": "ten million datagrams with forged telemetry from the peer's address against quinn, none accepted",
        "figures": hostile,
        "marks": [
            at_least("datagrams", 9_000_000, "crates/hosts/quic/tests/hostile.rs: ten million, less what a full buffer drops"),
            at_least("goodput_ratio", 0.95, "crates/hosts/quic/tests/hostile.rs: honest goodput under attack within 5 %"),
        ],
    },
    "forged_s2n_long": {
        "what": "the same attack against s2n-quic",
        "figures": hostile,
        "marks": [
            at_least("datagrams", 9_000_000, "crates/hosts/quic/tests/s2n.rs: ten million, less what a full buffer drops"),
            at_least("goodput_ratio", 0.95, "crates/hosts/quic/tests/s2n.rs: honest goodput under attack within 5 %"),
        ],
    },
    "undo_long": {
        "what": "window reductions that Linux TCP undoes, with forged telemetry and while Poseidon is enabled and disabled: no wrong window, no kernel warning",
        "figures": undo,
        "marks": [
            at_least("undos", 100_000, "crates/hosts/linux/tests/undo.rs"),
            at_least("switched", 200, "crates/hosts/linux/tests/undo.rs"),
            at_most("outside", 0, "crates/hosts/linux/tests/undo.rs: windows outside [1, 32768]"),
            at_most("warnings", 0, "crates/hosts/linux/tests/undo.rs: read from the kernel's log"),
        ],
    },
    "soak_long": {
        "what": "ten minutes with 200 concurrent QUIC connections that open and close",
        "figures": soak,
        "marks": [at_most("memory growth", 0.05, "crates/hosts/quic/tests/soak.rs: a twentieth")],
    },
    "identity_long": {
        "what": "each QUIC connection gets the telemetry of its own path only",
        "figures": identity,
        "marks": [
            at_least("connections", 3200, "crates/hosts/quic/tests/identity.rs: 8 x 8 x 40 and 16 x 40"),
            at_least("stamps per connection", 5, "crates/hosts/quic/tests/identity.rs"),
        ],
    },
    "vanishing_long": {
        "what": "telemetry stops for 20 s during a QUIC transfer and resumes",
        "figures": vanishing,
        "marks": [
            at_most("longest time without an ACK, median RTTs", 10, "crates/hosts/quic/tests/telemetry.rs"),
            at_least("rate without telemetry, of that before", 0.5, "crates/hosts/quic/tests/telemetry.rs"),
            at_least("rate with telemetry again, of that before", 0.5, "crates/hosts/quic/tests/telemetry.rs"),
        ],
    },
    "quic_testbed": {
        "what": "QUIC through Linux routers that stamp, compared with quinn's CUBIC",
        "figures": quic_testbed,
        "marks": [
            at_least("goodput, of CUBIC's, least", 0.9, TESTBED),
            at_least("queue, times lower than CUBIC's, least", 10, TESTBED),
            at_least("Jain's index, least", 0.98, TESTBED),
            at_most("drops", 0, TESTBED),
            at_least("cells steered by telemetry", 6, TESTBED),
            at_least("share of the flow through two queues", 0.8, TESTBED),
            at_least("Mbit/s while telemetry vanishes, least", 80, TESTBED),
            at_most("longest time without an ACK after a change, median RTTs", 10, TESTBED),
        ],
    },
    "peers_dumbbell": {
        "what": "shares and queues compared with ns-3",
        "figures": peers_dumbbell,
        "marks": [
            at_most("DCTCP, 2 flows: largest difference of a share", 0.05, SHARES),
            at_most("DCTCP, 8 flows: largest difference of a share", 0.08, "docs/peers.md: the goal of 5 % is not met; 7.7 %"),
            at_most("CUBIC, 2 flows: largest difference of a share", 0.05, SHARES),
            at_most("CUBIC, 8 flows: largest difference of a share", 0.05, SHARES),
            *(
                at_most(f"{law}, {flows} flows: difference of queues", 0.1, SHARES)
                for law in ("DCTCP", "CUBIC")
                for flows in (2, 8)
            ),
        ],
    },
    "peers_laws": {
        "what": "our laws in ns-3 compared with our simulator",
        "figures": peers_laws,
        "marks": LAWS_IN_NS3,
    },
    "peers_victims": {
        "what": "figures 12, 13 and 14 of the Poseidon paper in ns-3",
        "figures": peers_laws,
        "marks": VICTIMS_IN_NS3,
    },
    "ns3_equality": {
        "what": "laws decide in ns-3 as through C",
        "figures": ns3_equality,
        "marks": [
            at_least("laws and versions", 18, "docs/howto/ns3.md: nine laws, two versions of ns-3"),
            at_least("lists per law", 100_000, "docs/howto/ns3.md"),
            at_least("runs replayed through C", 18, "docs/howto/ns3.md"),
        ],
    },
    "capi_equality": {
        "what": "laws decide through C as in Rust",
        "figures": capi_equality,
        "marks": [
            at_least("laws", 13, "docs/howto/c.md: every law"),
            at_least("lists", 100_000, "docs/howto/c.md"),
        ],
    },
    "capi_package": {
        "what": "the C library installed by cargo-c",
        "figures": capi_package,
        "marks": [at_least("installed with cargo-c", 1, "docs/howto/c.md, \"Install\"")],
    },
    "slurm": {
        "what": "a study on a Slurm of two nodes, with a killed task, a task started twice, a killed node and a full disk",
        "figures": slurm,
        "exit codes": [0, 1],
        "marks": [
            at_least("cells", 200, "docs/howto/cluster.md"),
            at_least("faults", 4, "docs/howto/cluster.md"),
            at_least("done", 200, "docs/howto/cluster.md: complete"),
            at_least("with the hash of one machine", 200, "docs/howto/cluster.md: the same results"),
            at_most("computed twice", 0, "docs/howto/cluster.md: no run is computed twice"),
            at_least("tasks failed on the full disk", 1, "tools/cluster/check.py"),
            at_least("processes killed with the node", 1, "tools/cluster/check.py"),
        ],
    },
    "many_results": {
        "what": "report, status and resuming with 10^5 runs in one folder",
        "figures": many_results,
        "exit codes": [0, 1],
        "marks": [
            at_least("done", 100_000, "docs/howto/cluster.md"),
            at_most("hashes", 1, "tools/cluster/many.py: the same results"),
            at_most("report_s", 5, "docs/howto/cluster.md"),
            at_most("status_s", 5, "docs/howto/cluster.md"),
            at_most("resuming_s", 5, "docs/howto/cluster.md"),
        ],
    },
    "object_store": {
        "what": "16 writers on a real S3-compatible server, two of them killed in a put, and a restart of the server",
        "figures": object_store,
        "exit codes": [0, 1],
        "marks": [
            at_least("writers", 16, "docs/howto/cluster.md"),
            at_least("cells", 160, "docs/howto/cluster.md"),
            at_least("rounds with one winner", 20, "docs/howto/cluster.md: the server honours conditional puts"),
            at_least("writers killed in a put", 2, "docs/howto/cluster.md"),
            at_most("writers that failed", 0, "docs/howto/cluster.md"),
            at_least("done", 160, "docs/howto/cluster.md: complete"),
            at_most("torn", 0, "docs/howto/cluster.md"),
            at_least("with the hash of one machine", 160, "docs/howto/cluster.md: the same results"),
        ],
    },
    "scale": {
        "what": "one run on two hosts with added delay, compared with a model that was not fitted to it",
        "figures": scale,
        "exit codes": [0, 1],
        "marks": [
            at_least("rows", 30, "docs/howto/scale.md: five cases, six delays"),
            at_least("rows with equal hashes", 30, "docs/howto/scale.md: the same result as one process"),
            at_most("largest error", 0.15, "docs/howto/scale.md: within 15 %"),
        ],
    },
    "monitoring": {
        "what": "Prometheus scrapes a router, TCP and QUIC, and an alert fires when CUBIC fills the queue",
        "figures": monitoring,
        "exit codes": [0, 1],
        "marks": [
            at_least("scrapes", 60, "tools/monitoring/check.py"),
            at_most("failed scrapes", 0, "docs/howto/metrics.md"),
            at_most("alerts without a queue", 0, "docs/howto/metrics.md"),
            at_least("alert PoseidonQueueDelay", 1, "docs/howto/metrics.md"),
            at_most("queries without data", 0, "tools/monitoring/dashboard.json"),
        ],
    },
    "packages": {
        "what": "the Debian packages in a clean system: installed, enabled, disabled and purged",
        "figures": packages,
        "exit codes": [0, 1],
        "marks": [
            at_most("findings of lintian", 0, PACKAGES),
            at_most("largest exposure of a service", 3.9, "tools/packages/check.py: below 4"),
            at_most("enabled or running after the installation", 0, PACKAGES),
            at_least("services enabled", 3, PACKAGES),
            at_least("services that run", 3, PACKAGES),
            at_least("TCP and the port in the metrics", 2, PACKAGES),
            at_most("enabled or running after disabling", 0, PACKAGES),
            at_most("files left after the purge", 0, PACKAGES),
            at_most("pins left after the purge", 0, PACKAGES),
        ],
    },
    "kernels": {
        "what": "the BPF programs and their tests in Debian's kernels 6.1 and 6.12, in QEMU",
        "figures": kernels,
        "exit codes": [0, 1],
        "marks": [
            at_least("Linux 6.1: tests passed", 2, KERNELS),
            *(at_most(f"Linux {version}: tests failed", 0, KERNELS) for version in ("6.1", "6.12")),
            at_least("Linux 6.1: missing features", 3, f"{KERNELS}: doctor names them"),
            at_most("Linux 6.1: commands that do not name them", 0, KERNELS),
            at_least("Linux 6.12: tests passed", 23, f"{KERNELS}: every test of .ci/linux but those of the testbed"),
            at_most("Linux 6.12: tests left out", 0, KERNELS),
            at_least("Linux 6.12: parts that work", 4, f"{KERNELS}: tcp, switch, rpm and testbed"),
            at_most("Linux 6.12: missing features", 0, KERNELS),
            *(at_most(f"Linux {version}: kernel warnings", 0, KERNELS) for version in ("6.1", "6.12")),
        ],
    },
    "release_twice": {
        "what": "the command, the Debian packages and the image, built in two folders",
        "figures": release_twice,
        "marks": [at_least("files with the same bytes in two folders", 5, "docs/howto/install.md: four files and SHA256SUMS")],
    },
    "python_package": {
        "what": "the wheel and the sdist of the Python package, built twice and tested",
        "figures": python_package,
        "marks": [
            at_least("files with the same bytes in two folders", 2, PYTHON),
            at_least("auditwheel and abi3audit passed", 2, PYTHON),
            at_least("tests passed", 50, PYTHON),
            at_least("pictures of notebooks", 5, PYTHON),
            at_most("left out", 0, ".ci/python"),
        ],
    },
    "python_equality": {
        "what": "laws decide through Python as in Rust",
        "figures": python_equality,
        "marks": [
            at_least("laws", 13, "docs/howto/python.md: every law"),
            at_least("lists_per_law", 100_000, "docs/howto/python.md"),
        ],
    },
    "python_speed": {
        "what": "runs from Python beside the command, rows to Polars, the cost of laws in Python",
        "figures": python_speed,
        "marks": [
            at_most("package_over_command", 1.03, 'docs/howto/python.md, "Speed"'),
            at_least("rows", 10_000_000, 'docs/howto/python.md, "Speed"'),
            at_most("rows_to_polars_s", 1.0, 'docs/howto/python.md, "Speed"'),
            at_most("copied_share", 0.2, 'docs/howto/python.md, "Speed": no copy of the numbers'),
        ],
    },
    "peers_star": {
        "what": "speed compared with ns-3",
        "figures": peers_star,
        "marks": [
            at_least(f"{hosts} hosts: times as fast as ns-3", 100, 'docs/peers.md, "Speed": a hundred and more')
            for hosts in (16, 64, 128)
        ],
    },
}

# Gates of scenarios/linux that fail today. They are recorded and do not count.
KNOWN_TO_FAIL = {
    ("linux/rpm-table2", "RPM is fairer"): 'docs/reality.md, "What RPM brings here"',
    ("linux/rpm-interval", "RPM is fairer"): 'docs/reality.md, "What RPM brings here"',
}

if os.environ.get("LONG_SELF_TEST"):
    SELF = [at_least("speed", 10, "self-test")]
    PARTS = {
        name: {"what": name, "figures": lambda text: (objects(text) or [{}])[0], "marks": SELF}
        for name in ("good", "slow", "silent", "broken", "absent")
    }


def parts():
    """All parts: those above, and every scenario for real packets."""
    known = dict(PARTS)
    if not os.environ.get("LONG_SELF_TEST"):
        for path in sorted((ROOT / "scenarios/linux").glob("*.toml")):
            known[f"linux/{path.stem}"] = {"what": f"scenarios/linux/{path.name} on real packets"}
    return known


def hold(figures, marks):
    """Each mark with the figure and whether it is met."""
    held = []
    for mark in marks:
        value = figures.get(mark["figure"])
        if value is None:
            raise NoFigures(f"the output has no figure \"{mark['figure']}\"")
        met = value >= mark["bound"] if mark["must"] == "at least" else value <= mark["bound"]
        held.append({**mark, "value": value, "met": met})
    return held


def hold_claims(part, text):
    """The gating claims of a scenario on real packets, as marks."""
    try:
        study = json.loads(text)["studies"][0]
    except (json.JSONDecodeError, KeyError, IndexError) as error:
        raise NoFigures("the output is not that of `poseidon run --json`") from error
    if study.get("interrupted") or study.get("cut"):
        raise NoFigures("runs were interrupted or cut")
    held = []
    for verdict in study["verdicts"]:
        if not verdict["gating"]:
            continue
        means = [(cell.get("ours") or {}).get("mean") for cell in verdict["cells"]]
        means = [mean for mean in means if mean is not None]
        known = [why for (name, start), why in KNOWN_TO_FAIL.items() if name == part and verdict["says"].startswith(start)]
        held.append(
            {
                "figure": verdict["says"],
                "must": verdict["must"],
                "value": [min(means), max(means)] if len(means) > 1 else means[0] if means else None,
                "met": verdict["outcome"] == "holds",
                "outcome": verdict["outcome"],
                "source": f"scenarios/{part}.toml",
                **({"known to fail": known[0]} if known else {}),
            }
        )
    if not held:
        raise NoFigures("no gating claim in the output")
    return held


def judge(part, exit_code, text):
    """The result of a part that ended: result, reason, marks, other figures."""
    about = parts()[part]
    try:
        if "figures" in about:
            figures = about["figures"](text)
            held = hold(figures, about["marks"])
            accepted = about.get("exit codes", [0])
        else:
            figures, held = {}, hold_claims(part, text)
            # 4: a gating claim fails, which the marks say.
            accepted = [0, 4]
    except (NoFigures, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        why = str(error) if isinstance(error, NoFigures) else f"the output cannot be read: {error!r}"
        return {"result": "failed", "reason": f"{why}; exit code {exit_code}", "marks": [], "figures": {}}
    names = {mark["figure"] for mark in held}
    others = {name: value for name, value in figures.items() if name not in names}
    missed = [mark["figure"] for mark in held if not mark["met"] and "known to fail" not in mark]
    result, reason = "passed", ""
    if missed:
        result, reason = "missed", "; ".join(missed)
    elif exit_code not in accepted:
        result, reason = "failed", f"all marks are met, but the exit code is {exit_code}"
    return {"result": result, "reason": reason, "marks": held, "figures": others}


# --- Record and page.


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout


def source():
    """The commit, the hash of everything in it but documents, and whether files differ from it."""
    if stand_in := os.environ.get("LONG_SELF_TEST"):
        return {"commit": stand_in, "code": stand_in, "uncommitted changes": False}
    lines = [
        line
        for line in git("ls-tree", "-r", "HEAD").splitlines()
        if not (path := line.split("\t", 1)[1]).startswith("docs/") and not path.endswith(".md")
    ]
    changed = git("status", "--porcelain", "--", ".", ":!docs", ":!*.md")
    return {
        "commit": git("rev-parse", "HEAD").strip(),
        "code": hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16],
        "uncommitted changes": bool(changed.strip()),
    }


def machine():
    cpu = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def load():
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"format": 1, "parts": {}}


def write(record):
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((RECORD, json.dumps(record, indent=1) + "\n"), (PAGE, page(record))):
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(text)
        part.replace(path)


def note(part, entry):
    """Puts a result into the record, with when, where and of what."""
    record = load()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    record["date"] = now
    record["parts"][part] = {**entry, "date": now, **source(), "machine": machine()}
    write(record)


def is_current(entry):
    """Whether an entry is of this code on this machine."""
    return entry.get("code") == source()["code"] and entry.get("machine") == machine()


def has_passed(part):
    entry = load()["parts"].get(part, {})
    is_clean = not entry.get("uncommitted changes") and not source()["uncommitted changes"]
    return entry.get("result") == "passed" and is_clean and is_current(entry)


def number(value):
    if value is None:
        return "none"
    if isinstance(value, list):
        return " to ".join(number(each) for each in value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def short(entry):
    dirty = " and uncommitted changes" if entry["uncommitted changes"] else ""
    return f"{entry['commit'][:9]}{dirty}"


def page(record):
    done = record["parts"]
    lines = [
        "# The long checks\n",
        wrapped(
            "`.ci/long` runs what is too long for `.ci/run`: long tests of the QUIC crate, real packets, ns-3 and "
            "measurements of speed. Each part has pass marks. This page and `long/record.json` are written by it after "
            "every part."
        ),
        "```sh\n"
        ".ci/long --list             # the parts, what they need, how long they take, what has passed\n"
        ".ci/long                    # all that has not passed with this code on this machine\n"
        ".ci/long --only anchors     # one part; --again runs it although it has passed\n"
        "```\n",
        wrapped(
            "Exit codes: 0 all parts passed, 1 a mark was missed or a part failed, 2 usage, 3 a part was not run because "
            "the machine lacks something. A part is not run again where it has passed at the same commit, or at one that "
            "differs in documents only, on the same machine."
        ),
    ]
    if not done:
        lines += ["## Record\n", "Not run yet.\n"]
        return "\n".join(lines)
    machines = []
    for entry in done.values():
        if entry["machine"] not in machines:
            machines.append(entry["machine"])
    lines.append(f"## Record of {record['date'][:10]}\n")
    for place, host in enumerate(machines, 1):
        memory = f"{host['memory_gib']} GiB of memory"
        lines.append(wrapped(f"Machine {place}: {host['cpu']}, {host['cores']} cores, {memory}, {host['kernel']}."))
    lines += ["| part | result | seconds | date | commit | machine |", "|---|---|---:|---|---|---:|"]
    names = [name for name in parts()] + [name for name in done if name not in parts()]
    for name in names:
        entry = done.get(name)
        if entry is None:
            lines.append(f"| `{name}` | not run yet | | | | |")
            continue
        seconds = entry.get("seconds", "")
        where = machines.index(entry["machine"]) + 1
        lines.append(
            f"| `{name}` | {entry['result']} | {seconds} | {entry['date'][:10]} | {short(entry)} | {where} |"
        )
    for name in names:
        entry = done.get(name)
        if entry is None:
            continue
        what = parts().get(name, {}).get("what", "no longer a part")
        lines += [f"\n## {name}\n", wrapped(f"{what[0].upper()}{what[1:]}: {entry['result']}.")]
        if entry.get("reason"):
            lines.append(wrapped(f"Reason: {entry['reason']}."))
        if "load_average" in entry:
            lines.append(wrapped(f"Load average of the machine before it began: {entry['load_average']}."))
        if entry.get("marks"):
            lines += ["| figure | must be | was | | source |", "|---|---|---|---|---|"]
            for mark in entry["marks"]:
                must = f"{mark['must']} {number(mark['bound'])}" if "bound" in mark else mark["must"]
                met = "met" if mark["met"] else "**missed**"
                if not mark["met"] and "known to fail" in mark:
                    met = f"fails, as known: {mark['known to fail']}"
                lines.append(f"| {mark['figure']} | {must} | {number(mark['value'])} | {met} | {mark['source']} |")
            lines.append("")
        if entry.get("figures"):
            lines += ["Without a mark:\n", "| figure | was |", "|---|---:|"]
            lines += [f"| {figure} | {number(value)} |" for figure, value in entry["figures"].items()]
            lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def summary(asked):
    """Prints the result of each part with this code on this machine, and gives the exit code."""
    done = load()["parts"]
    results = []
    for name in asked:
        entry = done.get(name, {})
        if not entry:
            result, reason = "not run", "never started"
        elif not is_current(entry):
            result, reason = "not run", f"the record is of {short(entry)} or of another machine: {entry['result']}"
        else:
            result, reason = entry["result"], entry.get("reason", "")
        results.append(result)
        seconds = f"{entry['seconds']} s" if "seconds" in entry else ""
        print(f"  {name:20} {result:8} {seconds:>8}  {reason}".rstrip())
    if any(result in ("missed", "failed") for result in results):
        return EXIT_MISSED
    return EXIT_PASSED if all(result == "passed" for result in results) else EXIT_NOT_RUN


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("passed", "begin", "result"):
        commands.add_parser(name).add_argument("part")
    command = commands.add_parser("judge")
    command.add_argument("part")
    command.add_argument("--exit-code", type=int, required=True)
    command.add_argument("--seconds", type=int, required=True)
    command.add_argument("--output", type=pathlib.Path, required=True)
    for name in ("not-run", "failed"):
        command = commands.add_parser(name)
        command.add_argument("part")
        command.add_argument("--reason", required=True)
    commands.add_parser("clean")
    commands.add_parser("summary").add_argument("part", nargs="+")
    commands.add_parser("page")
    asked = parser.parse_args()
    if asked.command == "page":
        PAGE.write_text(page(load()))
        return EXIT_PASSED
    if asked.command == "summary":
        return summary(asked.part)
    if asked.command == "clean":
        return EXIT_MISSED if source()["uncommitted changes"] else EXIT_PASSED
    if asked.part not in parts():
        print(f"long_record: there is no part {asked.part}", file=sys.stderr)
        return 2
    if asked.command == "passed":
        return EXIT_PASSED if has_passed(asked.part) else EXIT_MISSED
    if asked.command == "begin":
        busy = round(os.getloadavg()[0], 2)
        note(asked.part, {"result": "failed", "reason": "it was started and did not end", "load_average": busy})
    elif asked.command in ("not-run", "failed"):
        note(asked.part, {"result": asked.command.replace("-", " "), "reason": asked.reason})
    elif asked.command == "judge":
        text = asked.output.read_text(errors="replace")
        begun = load()["parts"].get(asked.part, {})
        busy = {"load_average": begun["load_average"]} if "load_average" in begun else {}
        note(asked.part, {**judge(asked.part, asked.exit_code, text), "seconds": asked.seconds, **busy})
    entry = load()["parts"].get(asked.part, {"result": "not run", "reason": "never started"})
    print(f"{entry['result']}{': ' if entry.get('reason') else ''}{entry.get('reason', '')}")
    return EXIT_PASSED


if __name__ == "__main__":
    sys.exit(main())
