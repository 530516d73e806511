"""Replays the operations that the example `decisions` of poseidon-testkit prints, and compares every decision.

cargo run --release -p poseidon-testkit --example decisions -- 1000 | python3 python/tests/equality.py
"""

import json
import sys

from poseidon_cc import Ack, Hop, Law


def optional(text):
    return None if text == "-" else int(text)


def read_ack(fields):
    records = [int(field) for field in fields[18:]]
    hops = [
        Hop(timestamp_ns=records[i], sent_bytes=records[i + 1], queue_bytes=records[i + 2], rate_bps=records[i + 3])
        for i in range(0, len(records), 4)
    ]
    return Ack(
        now_ns=int(fields[0]), rtt_ns=int(fields[1]), packets=int(fields[2]), acked_bytes=int(fields[3]),
        marked_bytes=int(fields[4]), acked_seq=int(fields[5]), next_seq=int(fields[6]),
        in_flight_bytes=int(fields[7]), rtt_ambiguous=fields[8] == "1",
        max_hop_delay_ns=optional(fields[9]), reverse_max_hop_delay_ns=optional(fields[10]),
        wrap_timestamp_ns=int(fields[11]), wrap_sent_bytes=int(fields[12]), endpoint_delay_ns=int(fields[13]),
        hop_count=int(fields[14]), circuit_up=fields[15] == "1", app_limited=fields[16] == "1",
        random=int(fields[17]), hops=hops,
    )


def read_decision(decision):
    if decision.pacing_bps is not None:
        kind, pacing = "rate", decision.pacing_bps
    elif decision.gap_ns is not None:
        kind, pacing = "gap", decision.gap_ns
    else:
        kind, pacing = "off", 0
    return [str(int(decision.window_packets * 2**24)), kind, str(pacing)]


def start(fields):
    name, mtu, rate, rtt, *params = fields
    values = dict(parameter.split("=", 1) for parameter in params)
    params = {name: value.replace("~", " ") for name, value in values.items()}
    try:
        return Law(name, mtu=int(mtu), line_rate=int(rate), base_rtt=int(rtt), params=params)
    except ValueError:
        return None  # Rust refuses it, too: no operation follows.


def main(lines):
    law, counts, operations = None, {}, 0
    for number, line in enumerate(lines, 1):
        event, _, expected = line.partition(" | ")
        kind, *fields = event.split()
        if kind == "law":
            law = start(fields)
            counts[fields[0]] = counts.get(fields[0], 0) + 1
            continue
        operations += 1
        if kind == "ack":
            ack = read_ack(fields)
            found = read_decision(law.on_ack(ack))
            for value in (int(law.is_congested(ack)), law.delay_ns(ack), law.target_ns(ack.hop_count)):
                found.append("-" if value is None else str(value))
        elif kind == "loss":
            found = read_decision(law.on_loss(int(fields[0])))
        elif kind == "timeout":
            found = read_decision(law.on_timeout(int(fields[0]), lost_bytes=int(fields[1])))
        else:
            trimmed, in_flight, last_hop = (int(field) for field in fields[1:4])
            found = read_decision(law.on_trim(
                int(fields[0]), trimmed_bytes=trimmed, in_flight_bytes=in_flight, last_hop=last_hop == 1,
                rtt_ns=optional(fields[4]),
            ))
        if found != expected.split():
            sys.exit(f"line {number}: {law}: expected {expected.strip()}, found {' '.join(found)}")
    if not operations:
        sys.exit("there are no operations on standard input")
    print(json.dumps({"test": "python", "equal_operations": operations, "laws": len(counts), "lists_per_law": min(counts.values())}))


if __name__ == "__main__":
    main(sys.stdin)
