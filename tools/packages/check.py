#!/usr/bin/env python3
"""Installs the Debian packages in a clean system, uses them, removes them, and looks for what is left.

    check.py [--json] [--debs FOLDER]      needs root, mmdebstrap, lintian and systemd-nspawn

FOLDER has the files of `tools/release --only deb`; by default target/release-files. The clean system is a minimal Debian
with systemd in a temporary folder, made by mmdebstrap and started by systemd-nspawn. It has the kernel and the network of
this machine, so Poseidon is enabled in this kernel for some seconds, for cgroups without connections.

- lintian finds nothing in the packages,
- the services are valid, and their exposure by `systemd-analyze security` is below 4,
- after the installation, no service is enabled and nothing runs,
- the command, its manual page and `poseidon doctor` work,
- without a rate, the service for TCP fails and names the file with its settings,
- the services can be enabled and disabled: TCP and a port get Poseidon, the metrics say so, and both lose it again; the
  port gets its queue from a drop-in, as docs/howto/install.md describes,
- a service in a slice gets Poseidon, as docs/howto/linux.md describes,
- after a purge while services run and ports are attached by hand, the system has the files that it had before, and the
  kernel has no pins and no filters.

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
TBF = ["tbf", "rate", "100mbit", "burst", "10000", "limit", "1000000"]
# A port in a network namespace of the system.
NETNS, NETNS_PORT = "zz", "e0"
SERVICES = ["poseidon-tcp.service", f"poseidon-switch@{PORT}.service", "poseidon-metrics.service"]
# What the administrator writes with `systemctl edit`: the queue of a port (docs/howto/install.md), and a slice
# (docs/howto/linux.md) with a service.
QUEUE = f"[Service]\nExecStartPre=/usr/sbin/tc qdisc replace dev %I root {' '.join(TBF)}\n"
SLICE = {
    "poseidon-tcp.service.d/slice.conf": "[Unit]\nRequires=fast.slice\nAfter=fast.slice\n",
    "zz.service": "[Service]\nExecStart=/bin/sleep infinity\nSlice=fast.slice\n",
}
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
                self.first_process = children[0]
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
    system.run("chmod", "555", cgroup_root(system))
    # Without udev, the system has no units for devices.
    unit = (system.root / "lib/systemd/system/poseidon-switch@.service").read_text()
    unit = "".join(line for line in unit.splitlines(keepends=True) if "sys-subsystem-net-devices" not in line)
    write_runtime_unit(system, "poseidon-switch@.service", unit)
    write_runtime_unit(system, f"poseidon-switch@{PORT}.service.d/queue.conf", QUEUE)
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "enable", "--now", *SERVICES)


def cgroup_root(system):
    return system.run("findmnt", "--noheadings", "--first-only", "--types", "cgroup2", "--output", "TARGET").strip()


def write_runtime_unit(system, name, text):
    path = f"/run/systemd/system/{name}"
    system.run("sh", "-c", 'mkdir -p "${1%/*}"; printf %s "$2" >"$1"', "sh", path, text)


def start_without_rate(system):
    """Returns 1 if the service fails, and its journal names the file with the settings."""
    code = system.attempt("systemctl", "start", "poseidon-tcp.service").returncode
    return int(code != 0 and "set it in /etc/default/poseidon-tcp" in system.journal())


def start_in_slice(system):
    """Returns 1 if Poseidon is enabled for the cgroup of a slice, and a service is in this cgroup."""
    for name, text in SLICE.items():
        write_runtime_unit(system, name, text)
    path = system.root / "etc/default/poseidon-tcp"
    before, group = path.read_text(), f"{cgroup_root(system)}/fast.slice"
    path.write_text(re.sub(r"^OPTIONS=$", f"OPTIONS=--cgroup {group}", before, flags=re.M))
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "start", "poseidon-tcp.service", "zz.service")
    status = json.loads(system.run("poseidon", "tcp", "status", "--json"))
    pids = system.run("cat", f"{group}/zz.service/cgroup.procs").split()
    system.run("systemctl", "stop", "poseidon-tcp.service", "zz.service", "fast.slice")
    for name in SLICE:
        system.run("rm", f"/run/systemd/system/{name}")
    path.write_text(before)
    system.run("systemctl", "daemon-reload")
    return int(status["cgroup"] == group and len(pids) == 1)


def attach_by_hand(system):
    """Attaches RPM to the port of the service, and a port in another network namespace."""
    system.run("poseidon", "rpm", "attach", "--dev", PORT)
    system.run("ip", "netns", "add", NETNS)
    system.run("ip", "-n", NETNS, "link", "add", NETNS_PORT, "type", "veth", "peer", "name", "e1")
    system.run("ip", "-n", NETNS, "link", "set", NETNS_PORT, "up")
    system.run("tc", "-n", NETNS, "qdisc", "replace", "dev", NETNS_PORT, "root", *TBF)
    system.run("nsenter", f"--net=/run/netns/{NETNS}", "poseidon", "switch", "attach", "--dev", NETNS_PORT)


def filters(system):
    """The filters of all ports. The system has lost `tc` with the purge."""
    netns = f"--net=/proc/{system.first_process}/root/run/netns/{NETNS}"
    ports = [(PORT, []), (NETNS_PORT, ["nsenter", netns])]
    show = lambda port, enter, hook: run([*enter, "tc", "filter", "show", "dev", port, hook]).splitlines()
    return [line for port, enter in ports for hook in ("ingress", "egress") for line in show(port, enter, hook)]


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
    report["missing_rate_is_named"] = start_without_rate(system)
    start_services(system)
    report["enabled"] = system.count("is-enabled", "enabled")
    report["active"] = system.count("is-active", "active")
    metrics = fetch_metrics()
    report["tcp_in_metrics"] = int("poseidon_tcp_enabled 1" in metrics.splitlines())
    report["port_in_metrics"] = int(f'device="{PORT}"' in metrics)
    system.run("systemctl", "disable", "--now", *SERVICES)
    report["enabled_after_disable"] = system.count("is-enabled", "enabled") + system.count("is-active", "active")
    report["pins_after_disable"] = len(pins()) - len(pins_before)

    report["service_in_slice"] = start_in_slice(system)

    note("purging, with enabled services that run, and ports attached by hand")
    start_services(system)
    attach_by_hand(system)
    report["filters_before_purge"] = len(filters(system))
    system.run("apt-get", "purge", "--yes", "--autoremove", "poseidon", "poseidon-linux")
    after = files(system.root)
    report["left"] = sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name))
    report["pins_left"] = [pin for pin in pins() if pin not in pins_before]
    report["filters_left"] = filters(system)


def is_good(report):
    return (
        report["lintian"] == report["enabled_by_installation"] == report["pins_by_installation"] == 0
        and report["enabled"] == report["active"] == len(SERVICES)
        and report["tcp_in_metrics"] == report["port_in_metrics"] == 1
        and report["missing_rate_is_named"] == report["service_in_slice"] == 1
        and report["filters_before_purge"] > 0
        and report["enabled_after_disable"] == report["pins_after_disable"] == 0
        and max(report["exposure"].values()) < MOST_EXPOSURE
        and not report["left"]
        and not report["pins_left"]
        and not report["filters_left"]
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
