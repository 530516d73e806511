#!/usr/bin/env python3
"""Installs the Debian packages in a clean system, uses them, removes them, and looks for what is left.

    check.py [--json] [--debs FOLDER]      needs root, mmdebstrap, lintian and systemd-nspawn

FOLDER has the files of `tools/release --only deb`; by default target/release-files. The clean system is a minimal Debian
with systemd in a temporary folder, made by mmdebstrap and started by systemd-nspawn. It has the kernel and the network of
this machine, so Poseidon is enabled in this kernel for some seconds, for a cgroup without processes.

- lintian finds nothing in the packages,
- the services are valid, and their exposure by `systemd-analyze security` is below 4,
- after the installation, no service is enabled and nothing runs,
- the command, its manual page and `poseidon doctor` work,
- the services can be enabled and disabled: TCP and a port get Poseidon, the metrics say so, and both lose it again,
- after a purge while services run, the system has the files that it had before, and the kernel has no pins.

Exit codes: 0 everything as expected, 1 not, 3 the machine lacks something.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PORT = "zz0"
SERVICES = ["poseidon-tcp.service", f"poseidon-switch@{PORT}.service", "poseidon-metrics.service"]
METRICS = "127.0.0.1:19811"
PINS = Path("/sys/fs/bpf/poseidon")
MOST_EXPOSURE = 4.0
# apt and dpkg write these in every installation.
CHANGES_ANYWAY = re.compile(r"^(proc|sys|dev|run|tmp|root)(/|$)|^var/(cache|log)/|^var/lib/(apt|dpkg)/|^etc/ld\.so\.cache$")


def note(text):
    print(f"check: {text}", file=sys.stderr, flush=True)


class Failure(Exception):
    pass


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def files(root):
    """All files of the system, with what links name."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            short = str(path.relative_to(root))
            if not CHANGES_ANYWAY.search(short):
                found[short] = os.readlink(path) if path.is_symlink() else path.is_dir() or path.stat().st_size
        folders[:] = [name for name in folders if not CHANGES_ANYWAY.search(str(Path(folder, name).relative_to(root)))]
    return found


def pins():
    return sorted(str(path) for path in PINS.rglob("*") if not path.is_dir()) if PINS.exists() else []


def settings(root, name):
    """The variables of a file in /etc/default."""
    lines = (root / "etc/default" / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


class System:
    """A system that runs on this machine's kernel and network, with a systemd of its own."""

    def __init__(self, root):
        self.root = root
        nspawn = ["systemd-nspawn", "--directory", root, "--boot", "--register=no", "--keep-unit", "--console=pipe"]
        # What the services may use is up to their own settings.
        options = ["--capability=all", "--system-call-filter=bpf", "--bind=/sys/fs/bpf", "--resolv-conf=replace-host"]
        self.log = open(root.parent / "console.log", "w")
        self.process = subprocess.Popen([*nspawn, *options], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.time() + 120
        while True:
            if time.time() > deadline or self.process.poll() is not None:
                console = (root.parent / "console.log").read_text(errors="replace")[-2000:]
                raise Failure(f"the clean system does not boot:\n{console}")
            time.sleep(0.2)
            children = subprocess.run(["pgrep", "--parent", str(self.process.pid)], capture_output=True, text=True).stdout.split()
            if children:
                self.enter = ["nsenter", "--target", children[0], "--mount", "--pid", "--uts", "--ipc", "--cgroup"]
                state = self.attempt("systemctl", "is-system-running").stdout.strip()
                if state in ("running", "degraded"):
                    break

    def attempt(self, *command):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return subprocess.run([*self.enter, *map(str, command)], env=environment, capture_output=True, text=True)

    def run(self, *command):
        done = self.attempt(*command)
        if done.returncode != 0:
            raise Failure(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}{self.journal()}")
        return done.stdout

    def journal(self):
        return self.attempt("journalctl", "--no-pager", "--lines=20", "--unit=poseidon-*").stdout

    def count(self, question, state):
        """The number of services in a state: systemctl is-enabled, is-active."""
        return sum(self.attempt("systemctl", question, unit).stdout.strip() == state for unit in SERVICES)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def lint(debs):
    text = run(["lintian", "--display-info", "--pedantic", "--allow-root", "--fail-on", "none", *debs])
    found = [line for line in text.splitlines() if re.match(r"[EWIP]: ", line)]
    for line in found:
        note(f"lintian: {line}")
    return found


def exposures(system):
    """The exposure of each service, as the systemd of the clean system judges it."""
    found = {}
    for unit in SERVICES:
        path = f"/lib/systemd/system/{unit.replace(PORT, '')}"
        system.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
        text = system.run("systemd-analyze", "security", "--offline=yes", "--no-pager", path)
        found[unit] = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)[1])
    return found


def start_services(system):
    """Configures and starts the services as the administrator does."""
    path = system.root / "etc/default/poseidon-tcp"
    path.write_text(re.sub(r"^RATE=$", "RATE=10 Gbps", path.read_text(), flags=re.M))
    path = system.root / "etc/default/poseidon-metrics"
    path.write_text(path.read_text().replace("127.0.0.1:9811", METRICS))
    # The mode of the root of the cgroups, which the system does not see.
    system.run("sh", "-c", "chmod 555 $(findmnt --noheadings --first-only --types cgroup2 --output TARGET)")
    # Without udev, the system has no units for devices.
    unit = (system.root / "lib/systemd/system/poseidon-switch@.service").read_text()
    unit = "".join(line for line in unit.splitlines(keepends=True) if "sys-subsystem-net-devices" not in line)
    system.run("sh", "-c", 'mkdir -p /run/systemd/system; printf %s "$1" >/run/systemd/system/poseidon-switch@.service', "sh", unit)
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "enable", "--now", *SERVICES)


def fetch_metrics():
    for _ in range(50):
        try:
            with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except ConnectionError:
            time.sleep(0.1)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise Failure(f"http://{METRICS}/metrics: {error}") from error
            time.sleep(0.1)
    raise Failure(f"http://{METRICS}/metrics does not answer")


def check(folder, debs):
    root = folder / "system"
    report = {"test": "packages", "lintian": len(lint(debs))}
    note("making a clean system")
    run(["mmdebstrap", "--variant=minbase", "--quiet", "--include=systemd,systemd-sysv", "bookworm", root])
    (root / "packages").mkdir()
    for deb in debs:
        shutil.copy(deb, root / "packages")
    run(["ip", "link", "add", PORT, "type", "veth", "peer", "name", f"{PORT}p"])
    system = None
    try:
        run(["ip", "link", "set", PORT, "up"])
        run(["tc", "qdisc", "replace", "dev", PORT, "root", "tbf", "rate", "100mbit", "burst", "10000", "limit", "1000000"])
        system = System(root)
        use(system, debs, report)
    finally:
        if system:
            system.stop()
        run(["ip", "link", "delete", PORT])
    return report


def use(system, debs, report):
    system.run("apt-get", "update", "--quiet")
    before, pins_before = files(system.root), pins()

    note("installing")
    system.run("apt-get", "install", "--yes", "--no-install-recommends", *(f"/packages/{deb.name}" for deb in debs))
    report["files_installed"] = len(files(system.root)) - len(before)
    report["version"] = system.run("poseidon", "--version").split()[1]
    report["enabled_by_installation"] = system.count("is-enabled", "enabled") + system.count("is-active", "active")
    report["pins_by_installation"] = len(pins()) - len(pins_before)
    report["doctor"] = json.loads(system.run("poseidon", "doctor", "--json"))["can"]
    report["exposure"] = exposures(system)
    report["manual_page_lines"] = len(system.run("zcat", "/usr/share/man/man1/poseidon.1.gz").splitlines())
    # A run in the simulator.
    system.run("poseidon", "run", "quickstart", "--quick", "--quiet", "--output", "/tmp/results")

    note("enabling and disabling")
    start_services(system)
    report["enabled"] = system.count("is-enabled", "enabled")
    report["active"] = system.count("is-active", "active")
    metrics = fetch_metrics()
    report["tcp_in_metrics"] = int("poseidon_tcp_enabled 1" in metrics.splitlines())
    report["port_in_metrics"] = int(f'device="{PORT}"' in metrics)
    system.run("systemctl", "disable", "--now", *SERVICES)
    report["enabled_after_disable"] = system.count("is-enabled", "enabled") + system.count("is-active", "active")
    report["pins_after_disable"] = len(pins()) - len(pins_before)

    note("purging, with enabled services that run")
    start_services(system)
    system.run("apt-get", "purge", "--yes", "--autoremove", "poseidon", "poseidon-linux")
    after = files(system.root)
    report["left"] = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name))
    report["pins_left"] = [pin for pin in pins() if pin not in pins_before]


def is_good(report):
    return (
        report["lintian"] == report["enabled_by_installation"] == report["pins_by_installation"] == 0
        and report["enabled"] == report["active"] == len(SERVICES)
        and report["tcp_in_metrics"] == report["port_in_metrics"] == 1
        and report["enabled_after_disable"] == report["pins_after_disable"] == 0
        and max(report["exposure"].values()) < MOST_EXPOSURE
        and not report["left"]
        and not report["pins_left"]
    )


def main():
    if os.geteuid() != 0:
        note("needs root")
        return 3
    missing = [tool for tool in ["mmdebstrap", "lintian", "systemd-nspawn", "ip", "tc", "nsenter", "pgrep"] if not shutil.which(tool)]
    if missing:
        note(f"{', '.join(missing)}: not installed (apt-get install mmdebstrap lintian systemd-container iproute2 util-linux procps)")
        return 3
    source = Path(sys.argv[sys.argv.index("--debs") + 1]) if "--debs" in sys.argv else REPOSITORY / "target/release-files"
    debs = sorted(source.glob("poseidon*.deb"))
    if len(debs) != 2:
        note(f"{source} has {len(debs)} packages instead of 2: run `tools/release --only deb`")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="poseidon-packages-"))
    try:
        report = check(folder, debs)
    except Failure as error:
        note(str(error))
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report) if "--json" in sys.argv else json.dumps(report, indent=2))
    return 0 if is_good(report) else 1


if __name__ == "__main__":
    sys.exit(main())
