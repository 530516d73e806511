"""Tests of the figures and marks of long_record.py, on lines as the parts print them."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import long_record


def lines(*rows):
    return "\n".join(json.dumps(row, separators=(",", ":")) for row in rows)


def dumbbell(share, queue, drop=()):
    rows = []
    for law in ("DCTCP", "CUBIC"):
        for flows in (2, 8):
            for side in ("ours", "ns-3"):
                is_ours = side == "ours"
                shares = [1 + share * is_ours, 1 - share * is_ours] + [1.0] * (flows - 2)
                row = {"scenario": f"{law}, {flows} flows", "side": side, "gap_ns": 1, "shares": shares}
                rows.append({**row, "mean_queue_bytes": 1000 * (1 + queue * is_ours)})
    return lines(*(row for row in rows if row["side"] not in drop))


def claims(*outcomes):
    verdicts = [
        {"says": says, "must": "above 1", "gating": gating, "outcome": outcome, "cells": [{"ours": {"mean": 2.0}}]}
        for says, gating, outcome in outcomes
    ]
    return json.dumps({"studies": [{"cut": None, "interrupted": 0, "verdicts": verdicts}]}, indent=2)


SPEEDS = [
    {"row": f"{hosts} hosts, {law}", "M packet-hops/s": 10.0}
    for hosts, law in [(128, "poseidon"), (128, "swift"), (128, "hpcc"), (1024, "poseidon"), (1024, "swift"), (1024, "hpcc")]
]
REST = [
    {"row": "65536 hosts, poseidon", "M packet-hops/s": 5.0},
    {"row": "hpcc, 320 hosts at 100/400 Gbps, 200 us", "s": 0.5},
    {"row": "1024 hosts, two threads, wall time", "x as fast as one": 1.7},
    {"row": "128 hosts, samples of 640 queues every 10 us", "% slower": 1.5},
    {"row": "65536 hosts, idle", "kB per host": 0.8},
    {"row": "65536 hosts, busy", "B per packet in flight": 86.0},
]
BOTTLENECK = {"test": "one_bottleneck", "mbps": 100, "flows": 1, "goodput_ratio": 0.97, "queue_ratio": 20.0, "jain": 0.999, "drops": 0}
VANISHING = [
    *({"test": "vanishing", "third": third, "mode": "lost", "mbps": 90.0} for third in (1, 2, 3)),
    {"test": "vanishing", "median_rtt_us": 1000, "longest_hole_after_change_us": 4000},
]


class Judge(unittest.TestCase):
    def result(self, part, text, exit_code=0):
        return long_record.judge(part, exit_code, text)["result"]

    def test_no_part_passes_without_output(self):
        for part in long_record.parts():
            self.assertEqual(self.result(part, ""), "failed", part)
            self.assertEqual(self.result(part, "{}\nnonsense {\"\n"), "failed", part)

    def test_packet_hops(self):
        self.assertEqual(self.result("packet_hops", lines(*SPEEDS, *REST)), "passed")
        self.assertEqual(self.result("packet_hops", lines(*SPEEDS, *REST), 1), "failed")
        self.assertEqual(self.result("packet_hops", lines(*SPEEDS, *REST[1:])), "failed")
        slow = {"row": "65536 hosts, poseidon", "M packet-hops/s": 2.5}
        judged = long_record.judge("packet_hops", 0, lines(*SPEEDS, slow, *REST[1:]))
        self.assertEqual(judged["reason"], "slow-down from 128 to 65536 hosts")

    def test_scale(self):
        rows = [{"kind": "compared", "delay_us": delay, "error": -0.1} for delay in (0, 50, 500)]
        total = {"part": "scale", "rows": 30, "rows_within": 30, "worst_error": 0.1, "equal_hashes": 30}
        self.assertEqual(self.result("scale", lines(*rows, total)), "passed")
        self.assertEqual(self.result("scale", lines(*rows, {**total, "worst_error": 0.16}), 1), "missed")
        self.assertEqual(self.result("scale", lines(*rows, {**total, "equal_hashes": 29}), 1), "missed")
        self.assertEqual(self.result("scale", lines(*rows)), "failed")

    def test_anchors(self):
        rows = [{"row": str(n), "within_tenth": n < 53} for n in range(75)]
        self.assertEqual(self.result("anchors", lines(*rows)), "passed")
        self.assertEqual(self.result("anchors", lines(*rows[1:], {"row": "x", "within_tenth": False})), "missed")

    def test_ratio_fails_by_its_marks_and_not_by_its_exit_code(self):
        def row(mtu, cpu):
            runs = {"goodput": [0.97, 0.98, 0.96], "cpu": [cpu, cpu, 1.0]}
            return {"mtu": mtu, "bare_gbps": 9.0, "bare_again": runs, "poseidon": runs}

        self.assertEqual(self.result("ratio", lines(row(1452, 1.04), row(8900, 1.04))), "passed")
        self.assertEqual(self.result("ratio", lines(row(1452, 1.04), row(8900, 1.06)), 4), "missed")
        self.assertEqual(self.result("ratio", lines(row(1452, 1.04))), "failed")

    def test_quic_tests_may_share_a_line_with_the_harness(self):
        good = '{"test":"soak","connections":5,"most_flows":2,"early_kib":1000,"late_kib":1040}'
        self.assertEqual(self.result("soak_long", f"running 1 test\ntest soak_long ... {good}\nok\n"), "passed")
        self.assertEqual(self.result("soak_long", good, 101), "failed")
        self.assertEqual(self.result("soak_long", good.replace("1040", "1060"), 101), "missed")
        row = {"test": "hostile", "datagrams": 10**7, "goodput_ratio": 0.97, "pairs": 9, "most_flows": 1, "resident_growth_kib": -5}
        self.assertEqual(self.result("hostile_long", lines(row)), "passed")
        self.assertEqual(self.result("hostile_long", lines({**row, "goodput_ratio": 0.9})), "missed")
        row = {"test": "identity", "connections": 2560, "connection_ids": 9, "client_stamps": 30000, "server_stamps": 30000}
        self.assertEqual(self.result("identity_long", lines(row, {**row, "connections": 640})), "passed")
        self.assertEqual(self.result("identity_long", lines(row)), "failed")
        row = {"test": "vanishing", "longest_hole_ns": 5, "median_rtt_ns": 1, "mbps": [10, 9, 10]}
        self.assertEqual(self.result("vanishing_long", lines(row)), "passed")
        self.assertEqual(self.result("vanishing_long", lines({**row, "mbps": [10, 4, 10]})), "missed")

    def test_quic_testbed(self):
        cells = [{**BOTTLENECK, "by_telemetry": True}] * 6
        rest = [{"test": "two_queues", "victim_share": 0.9}, *VANISHING]
        self.assertEqual(self.result("quic_testbed", lines(*cells, *rest)), "passed")
        self.assertEqual(self.result("quic_testbed", lines(*cells[1:], *rest)), "failed")
        self.assertEqual(self.result("quic_testbed", lines(*cells[1:], {**cells[0], "drops": 1}, *rest)), "missed")

    def test_cost(self):
        rows = [
            {"part": mark["figure"].split(": ", 1)[0], "row": mark["figure"].split(": ", 1)[1], "ratio": mark["bound"]}
            for mark in long_record.PARTS["cost"]["marks"]
        ]
        law = {"part": "calls", "row": "the law, one ACK, repeated", "ns": 30}
        judged = long_record.judge("cost", 0, lines(*rows, law))
        self.assertEqual(judged["result"], "passed")
        self.assertEqual(judged["figures"], {"calls: the law, one ACK, repeated": 30})
        self.assertEqual(self.result("cost", lines({**rows[0], "ratio": 0.5}, *rows[1:])), "missed")

    def test_peers(self):
        self.assertEqual(self.result("peers_dumbbell", dumbbell(0.04, -0.09)), "passed")
        self.assertEqual(self.result("peers_dumbbell", dumbbell(0.06, 0.0)), "missed")
        self.assertEqual(self.result("peers_dumbbell", dumbbell(0.0, -0.2)), "missed")
        self.assertEqual(self.result("peers_dumbbell", dumbbell(0.0, 0.0, drop=("ns-3",))), "failed")

        def star(speed):
            pairs = [(n, side, rate) for n in (16, 64, 128) for side, rate in (("ours", speed), ("ns-3", 1))]
            return lines(*({"hosts": n, "side": side, "hops_per_second": rate} for n, side, rate in pairs))

        self.assertEqual(self.result("peers_star", star(150)), "passed")
        self.assertEqual(self.result("peers_star", star(50)), "missed")

    def test_gates_of_scenarios(self):
        good, bad = ("a", True, "holds"), ("b", True, "fails")
        self.assertEqual(self.result("linux/fig12", claims(good, ("c", False, "fails"))), "passed")
        self.assertEqual(self.result("linux/fig12", claims(good, bad), 4), "missed")
        self.assertEqual(self.result("linux/fig12", claims(good, ("b", True, "not-run"))), "missed")
        self.assertEqual(self.result("linux/fig12", claims(good), 1), "failed")
        self.assertEqual(self.result("linux/fig12", claims(("c", False, "holds"))), "failed")
        known = ("RPM is fairer by 0.02", True, "fails")
        self.assertEqual(self.result("linux/rpm-table2", claims(good, known), 4), "passed")
        self.assertEqual(self.result("linux/fig12", claims(good, known), 4), "missed")


if __name__ == "__main__":
    unittest.main()
