#!/usr/bin/env python3
"""A real Prometheus scrapes a real run and fires an alert.

    check.py [--json]      needs root, Debian's package prometheus, and a poseidon with the features linux and quic

Two hosts and a router are network namespaces. The router's port stamps packets, and drains at 50 Mbit/s. First, Poseidon
in TCP and in QUIC keeps the queue short: no alert. Then CUBIC fills the queue: PoseidonQueueDelay fires. The dashboard's
queries are evaluated, and promtool checks the metrics and the rules.

Exit codes: 0 everything as expected, 1 not, 3 the machine lacks something.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
POSEIDON = Path(os.environ.get("POSEIDON", HERE.parent.parent / "target/release/poseidon")).resolve()
NAME = f"pm{os.getpid()}"
A, R, B = f"{NAME}a", f"{NAME}r", f"{NAME}b"
PORT = "e1"
# A sender and a receiver of bulk data over TCP.
SEND = """
import socket, sys, time
s = socket.create_connection(("10.9.2.2", 5001))
end = time.time() + float(sys.argv[1])
while time.time() < end:
    s.send(b"\\0" * 65536)
"""
RECEIVE = """
import socket, threading
l = socket.create_server(("10.9.2.2", 5001))
def drain(c):
    while c.recv(1 << 20):
        pass
while True:
    threading.Thread(target=drain, args=(l.accept()[0],), daemon=True).start()
"""
started = []


def note(text):
    print(f"check: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def start(netns, command, log, **options):
    words = ["ip", "netns", "exec", netns, *(str(word) for word in command)]
    process = subprocess.Popen(words, stdout=log, stderr=log, **options)
    started.append(process)
    return process


def fetch(netns, url, accept="*/*"):
    code = (
        "import sys, urllib.request as u\n"
        "r = u.urlopen(u.Request(sys.argv[1], headers={'Accept': sys.argv[2]}), timeout=5)\n"
        "print(r.headers['Content-Type']); print(r.read().decode(), end='')"
    )
    text = run(["ip", "netns", "exec", netns, sys.executable, "-c", code, url, accept])
    return text.split("\n", 1)


def query(path, **arguments):
    from urllib.parse import urlencode

    return json.loads(fetch(R, f"http://127.0.0.1:9990/api/v1/{path}?{urlencode(arguments)}")[1])["data"]


def firing():
    return sorted({a["labels"]["alertname"] for a in query("alerts")["alerts"] if a["state"] == "firing"})


def build_network():
    for netns in (A, R, B):
        run(["ip", "netns", "add", netns])
        run(["ip", "-n", netns, "link", "set", "lo", "up"])
    for host, port, subnet in ((A, "e0", 1), (B, PORT, 2)):
        run(["ip", "link", "add", "e", "netns", host, "type", "veth", "peer", "name", port, "netns", R])
        run(["ip", "-n", host, "address", "add", f"10.9.{subnet}.2/24", "dev", "e"])
        run(["ip", "-n", R, "address", "add", f"10.9.{subnet}.1/24", "dev", port])
        run(["ip", "-n", host, "link", "set", "e", "up"])
        run(["ip", "-n", R, "link", "set", port, "up"])
        run(["ip", "-n", host, "route", "add", "default", "via", f"10.9.{subnet}.1"])
        for end, device in ((host, "e"), (R, port)):
            subprocess.run(["ip", "netns", "exec", end, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off"], capture_output=True)
    run(["ip", "netns", "exec", R, "sysctl", "-qw", "net.ipv4.ip_forward=1"])
    run(["tc", "-n", R, "qdisc", "replace", "dev", PORT, "root", "tbf", "rate", "50mbit", "burst", "10000", "limit", "400000"])


def main():
    missing = [tool for tool in ("prometheus", "promtool", "ethtool") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        note("needs root" if os.geteuid() != 0 else f"{', '.join(missing)}: not installed")
        return 3
    folder = Path(tempfile.mkdtemp(prefix="poseidon-monitoring-"))
    try:
        with open(folder / "log", "w") as log:
            report = check(folder, log)
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        subprocess.run([POSEIDON, "tcp", "disable"], capture_output=True)
        for netns in (A, R, B):
            subprocess.run(["ip", "netns", "delete", netns], capture_output=True)
        subprocess.run([POSEIDON, "switch", "detach", "--stale"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report) if "--json" in sys.argv else json.dumps(report, indent=2))
    expected = report["alerts_without_queue"] == [] and "PoseidonQueueDelay" in report["alerts_with_queue"]
    return 0 if expected and report["scrapes_failed"] == 0 and not report["empty_queries"] else 1


def check(folder, log):
    run(["promtool", "check", "rules", "alerts.yml"], cwd=HERE)
    rule_tests = run(["promtool", "test", "rules", "alerts_test.yml"], cwd=HERE)
    build_network()
    run(["ip", "netns", "exec", R, POSEIDON, "switch", "attach", "--dev", PORT])
    cgroup = run([POSEIDON, "tcp", "enable", "--rate", "50 Mbps", "--set", "default=true"]).strip().splitlines()[-1]
    start(R, [POSEIDON, "metrics", "--listen", "127.0.0.1:9811"], log)
    start(B, [sys.executable, "-c", RECEIVE], log)
    start(B, [POSEIDON, "perf", "server", "--listen", "10.9.2.2:65053"], log)
    time.sleep(1)

    # The older format, for the textfile collector.
    textfile = folder / "poseidon.prom"
    run(["ip", "netns", "exec", R, POSEIDON, "metrics", "--textfile", textfile])
    linted = run(["promtool", "check", "metrics"], input=textfile.read_text())
    content_type = fetch(R, "http://127.0.0.1:9811/metrics", "application/openmetrics-text")[0]

    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{HERE}/alerts.yml]
scrape_configs:
  - job_name: poseidon
    static_configs: [{{targets: ['127.0.0.1:9811', '10.9.1.2:9812']}}]
""")
    # In the cgroup, sockets get the law.
    enter = lambda: (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    start(A, [sys.executable, "-c", SEND, "70"], log, preexec_fn=enter)
    quic = ["perf", "client", "10.9.2.2", "--time", "70 s", "--rate", "50 Mbps", "--metrics", "10.9.1.2:9812"]
    start(A, [POSEIDON, *quic], log)
    time.sleep(1)
    start(
        R,
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb", "--web.listen-address=127.0.0.1:9990"],
        log,
    )
    note("Poseidon alone for 60 s")
    time.sleep(60)
    before = firing()
    p99 = 'histogram_quantile(0.99, sum by (le) (rate(poseidon_switch_delay_seconds_bucket[30s])))'
    delay_before = float(query("query", query=p99)["result"][0]["value"][1])
    queries = [target["expr"] for panel in json.loads((HERE / "dashboard.json").read_text())["panels"] for target in panel["targets"]]
    concrete = lambda text: text.replace("$__rate_interval", "30s").replace("$instance", ".*")
    # RPM is not attached here, and the kernel does not measure programs by default.
    optional = ("poseidon_rpm_", "poseidon_tcp_program_")
    empty = [text for text in queries if not query("query", query=concrete(text))["result"] and not any(name in text for name in optional)]
    time.sleep(12)

    note("CUBIC for 60 s")
    start(A, [sys.executable, "-c", SEND.replace("end =", "s.setsockopt(socket.IPPROTO_TCP, 13, b'cubic'); end ="), "60"], log)
    began, fired_after, seen = time.time(), None, set()
    while time.time() - began < 60:
        names = firing()
        seen.update(names)
        if "PoseidonQueueDelay" in names and fired_after is None:
            fired_after = round(time.time() - began, 1)
        time.sleep(1)
    delay_after = float(query("query", query=p99)["result"][0]["value"][1])
    scrapes = float(query("query", query='count_over_time(up{job="poseidon",instance="127.0.0.1:9811"}[130s])')["result"][0]["value"][1])
    failed = float(query("query", query='count_over_time((up{instance="127.0.0.1:9811"} == 0)[130s:1s]) or vector(0)')["result"][0]["value"][1])
    return {
        "test": "monitoring",
        "rule_tests": "SUCCESS" in rule_tests,
        "lint": linted.strip(),
        "content_type": content_type,
        "scrapes": int(scrapes),
        "scrapes_failed": int(failed),
        "dashboard_queries": len(queries),
        "empty_queries": empty,
        "p99_without_queue_s": round(delay_before, 6),
        "p99_with_queue_s": round(delay_after, 6),
        "alerts_without_queue": before,
        "alerts_with_queue": sorted(seen),
        "fired_after_s": fired_after,
    }


if __name__ == "__main__":
    sys.exit(main())
