#!/usr/bin/env python3
"""Measures Poseidon beside CUBIC and BBR in situations that operators meet: one end only, jumbo frames, many flows, foreign
flows in the same queue, random loss, IPv6 and 10 Gbit/s.

    apt-get install iperf3 nftables
    sudo bench/linux/situations.py --poseidon target/release/poseidon [--time 5] [--repetitions 3] [--only NAME]... [--json]

Three network namespaces form a path: sender, router, receiver. The router's queue towards the receiver is a TBF. The
congestion controls of a situation run in turn, and the order is repeated, so that a slow minute of the machine hits all
of them. The table shows medians. The namespaces, the cgroup and the settings are removed at the end."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

SENDER, ROUTER, RECEIVER = "situations-s", "situations-r", "situations-d"


def cgroup_folder():
    """Returns a folder for the cgroup, in the mounted cgroup2 file system."""
    with open("/proc/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, folder, kind, *_ = line.split()
            if kind == "cgroup2":
                return f"{folder}/poseidon-situations"
    sys.exit("situations: no cgroup2 file system is mounted")


CGROUP = cgroup_folder()
CONTROLS = ("poseidon", "cubic", "bbr")


@dataclass(frozen=True)
class Situation:
    """A row of the table."""

    name: str
    title: str
    # The rate of the router's queue in Mbit/s, or None for flows over the loopback device.
    rate: int | None
    mtu: int = 1500
    flows: int = 1
    both_ends: bool = False
    ipv6: bool = False
    loss_percent: int = 0
    # A congestion control whose single flow shares the queue.
    beside: str | None = None
    # The router stamps telemetry.
    stamps: bool = False
    # The devices carry each segment as a packet of its own, as a wire does.
    single_packets: bool = False
    controls: tuple = field(default=CONTROLS)


SITUATIONS = [
    Situation("loopback", "one end only, loopback, --rate '10 Gbps'", None),
    Situation("jumbo", "one end only, MTU 9000, 1 Gbit/s", 1000, mtu=9000),
    Situation("many", "one end only, 32 flows, 200 Mbit/s", 200, flows=32),
    Situation("beside-cubic", "4 flows beside one CUBIC flow, 1 Gbit/s", 1000, flows=4, both_ends=True, beside="cubic", stamps=True),
    Situation("beside-bbr", "4 flows beside one BBR flow, 1 Gbit/s", 1000, flows=4, both_ends=True, beside="bbr", stamps=True),
    Situation("loss", "1 % random loss, both ends, 1 Gbit/s", 1000, both_ends=True, loss_percent=1, stamps=True),
    Situation("loss-one-end", "1 % random loss, one end only, 1 Gbit/s", 1000, loss_percent=1),
    Situation("loss-single", "1 % random loss of single packets, both ends, 1 Gbit/s", 1000, both_ends=True, loss_percent=1, stamps=True, single_packets=True),
    Situation("loss-single-one-end", "1 % random loss of single packets, one end only, 1 Gbit/s", 1000, loss_percent=1, single_packets=True),
    Situation("ipv4-single", "IPv4, both ends, 1 Gbit/s, single packets", 1000, both_ends=True, stamps=True, single_packets=True),
    Situation("ipv6-single", "IPv6, both ends, 1 Gbit/s, single packets", 1000, both_ends=True, ipv6=True, stamps=True, single_packets=True),
    Situation("cpu-single", "CPU per bit, both ends, 32 flows, 1 Gbit/s, single packets", 1000, flows=32, both_ends=True, stamps=True, single_packets=True),
    Situation("one-flow-single", "CPU per bit, both ends, one flow, 1 Gbit/s, single packets", 1000, both_ends=True, stamps=True, single_packets=True),
    Situation("ipv4", "IPv4, both ends, 1 Gbit/s", 1000, both_ends=True, stamps=True),
    Situation("ipv6", "IPv6, both ends, 1 Gbit/s", 1000, both_ends=True, ipv6=True, stamps=True),
    Situation("fast", "both ends, 10 Gbit/s", 10000, both_ends=True, stamps=True),
    Situation("one-flow", "CPU per bit, both ends, one flow, 1 Gbit/s", 1000, both_ends=True, stamps=True),
    Situation("cpu", "CPU per bit, both ends, 32 flows, 1 Gbit/s", 1000, flows=32, both_ends=True, stamps=True),
]


def run(*command, check=True, **options):
    """Runs a command and returns its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def inside(namespace, *command, **options):
    """Runs a command in a network namespace."""
    return run("ip", "netns", "exec", namespace, *command, **options)


def build_path(situation):
    """Builds sender - router - receiver."""
    for namespace in (SENDER, ROUTER, RECEIVER):
        run("ip", "netns", "add", namespace)
        inside(namespace, "ip", "link", "set", "lo", "up")
        inside(namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
               "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.accept_dad=0")
    for host, number in ((SENDER, 1), (RECEIVER, 2)):
        device = f"to{number}"
        run("ip", "link", "add", "eth", "netns", host, "type", "veth", "peer", "name", device, "netns", ROUTER)
        for namespace, name, end in ((host, "eth", 2), (ROUTER, device, 1)):
            inside(namespace, "ip", "addr", "add", f"10.53.{number}.{end}/24", "dev", name)
            inside(namespace, "ip", "-6", "addr", "add", f"fd53:{number}::{end}/64", "dev", name, "nodad")
            inside(namespace, "ip", "link", "set", name, "mtu", str(situation.mtu), "up")
        if situation.single_packets:
            # Without this, a veth device carries up to 64 kB as one packet, so a rule that drops one packet in a hundred
            # drops 44 segments at once, and CUBIC pays for one packet where a wire carries 44.
            for namespace, name in ((host, "eth"), (ROUTER, device)):
                inside(namespace, "ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off")
        inside(host, "ip", "route", "add", "default", "via", f"10.53.{number}.1")
        inside(host, "ip", "-6", "route", "add", "default", "via", f"fd53:{number}::1")
    # 4 ms of buffer at the rate of the queue, but at least 400 kB, and a burst of 1 ms.
    limit = max(situation.rate * 1000 // 8 * 4, 400_000)
    burst = max(situation.rate * 1000 // 8, 10 * situation.mtu)
    inside(ROUTER, "tc", "qdisc", "add", "dev", "to2", "root", "tbf", "rate", f"{situation.rate}mbit", "burst", str(burst), "limit", str(limit))
    if situation.loss_percent:
        rules = f"""
            table inet loss {{
                chain forward {{
                    type filter hook forward priority 0;
                    iifname "to1" meta l4proto tcp numgen random mod 100 < {situation.loss_percent} drop
                }}
            }}
        """
        inside(ROUTER, "nft", "-f", "-", input=rules)


def remove_path():
    for namespace in (SENDER, ROUTER, RECEIVER):
        run("ip", "netns", "del", namespace, check=False)


def cpu_ticks():
    """Returns the busy time of the whole machine in clock ticks."""
    with open("/proc/stat", encoding="ascii") as stat:
        values = [int(value) for value in stat.readline().split()[1:9]]
    return sum(values) - values[3] - values[4]


def start(namespace, command, in_cgroup):
    """Starts a process, optionally in the cgroup of Poseidon."""
    prefix = ["ip", "netns", "exec", namespace] if namespace else []

    def enter_cgroup():
        if in_cgroup:
            with open(f"{CGROUP}/cgroup.procs", "w", encoding="ascii") as procs:
                procs.write(str(os.getpid()))

    return subprocess.Popen(prefix + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=enter_cgroup)


def iperf(situation, control, seconds, port, in_cgroup, flows):
    """Starts a server and a client, and returns the client."""
    remote = situation.rate is not None
    server_in_cgroup = in_cgroup and situation.both_ends
    server = start(RECEIVER if remote else None, ["iperf3", "-s", "-1", "-p", str(port)], server_in_cgroup)
    time.sleep(0.3)
    address = "127.0.0.1" if not remote else "fd53:2::2" if situation.ipv6 else "10.53.2.2"
    command = ["iperf3", "-c", address, "-p", str(port), "-t", str(seconds), "-O", "1", "-P", str(flows), "-J"]
    if not in_cgroup:
        command += ["-C", control]
    return server, start(SENDER if remote else None, command, in_cgroup)


def finish(server, client, seconds):
    """Waits for a measurement and returns its goodput in Mbit/s and its flows' mean round-trip time in us."""
    out, error = client.communicate(timeout=seconds + 20)
    server.communicate(timeout=10)
    result = json.loads(out)
    if "error" in result:
        raise RuntimeError(f"iperf3: {result['error']} {error}")
    round_trips = [stream["sender"]["mean_rtt"] for stream in result["end"]["streams"]]
    return result["end"]["sum_received"]["bits_per_second"] / 1e6, statistics.mean(round_trips)


def measure(situation, control, arguments):
    """Returns goodput in Mbit/s, the machine's busy seconds per Gbit, and the mean round-trip time in us."""
    ours = control == "poseidon"
    remote = situation.rate is not None
    try:
        if remote:
            build_path(situation)
        if ours:
            os.makedirs(CGROUP, exist_ok=True)
            rate = f"{situation.rate} Mbps" if remote else "10 Gbps"
            settings = [word for setting in arguments.set for word in ("--set", setting)]
            run(arguments.poseidon, "tcp", "enable", "--rate", rate, "--cgroup", CGROUP, *settings)
        if situation.stamps and ours and not arguments.no_stamps:
            inside(ROUTER, arguments.poseidon, "switch", "attach", "--dev", "to2")
        others = iperf(situation, situation.beside, arguments.time + 2, 5300, False, 1) if situation.beside else None
        if others:
            time.sleep(1)
        busy = cpu_ticks()
        rate, round_trip = finish(*iperf(situation, control, arguments.time, 5301, ours, situation.flows), arguments.time)
        busy = (cpu_ticks() - busy) / os.sysconf("SC_CLK_TCK")
        if others:
            finish(*others, arguments.time + 2)
        # One more second of traffic is left out of the goodput (-O 1), but not of the processor time.
        return rate, busy / (rate * (arguments.time + 1) / 1000), round_trip
    finally:
        if ours:
            run(arguments.poseidon, "tcp", "disable", check=False)
        if situation.stamps and ours and not arguments.no_stamps:
            inside(ROUTER, arguments.poseidon, "switch", "detach", "--dev", "to2", check=False)
        remove_path()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True, help="the command, built with the feature linux")
    parser.add_argument("--time", type=int, default=5, help="seconds per measurement")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", action="append", help="only this situation", choices=[s.name for s in SITUATIONS])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of `poseidon tcp enable`, such as ack-every-packet=false")
    parser.add_argument("--no-stamps", action="store_true", help="the router writes no telemetry")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.poseidon = os.path.abspath(arguments.poseidon)
    missing = [tool for tool in ("iperf3", "nft", "ip", "tc") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        sys.exit(f"situations: needs root and {', '.join(missing) or 'nothing else'} (apt-get install iperf3 nftables iproute2)")
    remove_path()
    rows = []
    for situation in SITUATIONS:
        if arguments.only and situation.name not in arguments.only:
            continue
        rates = {control: [] for control in situation.controls}
        costs = {control: [] for control in situation.controls}
        round_trips = {control: [] for control in situation.controls}
        for _ in range(arguments.repetitions):
            for control in situation.controls:
                rate, cost, round_trip = measure(situation, control, arguments)
                rates[control].append(rate)
                costs[control].append(cost)
                round_trips[control].append(round_trip)
                print(f"{situation.name} {control}: {rate:.1f} Mbit/s, {cost:.3f} s per Gbit, round trip {round_trip:.0f} us", file=sys.stderr, flush=True)
        rows.append({
            "name": situation.name,
            "title": situation.title,
            "goodput_mbps": {control: statistics.median(values) for control, values in rates.items()},
            "cpu_s_per_gbit": {control: statistics.median(values) for control, values in costs.items()},
            "round_trip_us": {control: statistics.median(values) for control, values in round_trips.items()},
            "goodputs_mbps": rates,
        })
    if os.path.isdir(CGROUP):
        os.rmdir(CGROUP)
    if arguments.json:
        json.dump(rows, sys.stdout, indent=1)
        print()
        return
    print("| situation | Poseidon | CUBIC | BBR | Poseidon / CUBIC | processor time per bit / CUBIC |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in rows:
        rate, cost = row["goodput_mbps"], row["cpu_s_per_gbit"]
        print(f"| {row['title']} | {rate['poseidon']:.0f} | {rate['cubic']:.0f} | {rate['bbr']:.0f} "
              f"| {rate['poseidon'] / rate['cubic']:.2f} | {cost['poseidon'] / cost['cubic']:.2f} |")


if __name__ == "__main__":
    main()
