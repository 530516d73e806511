#!/usr/bin/env python3
"""Boots Debian's kernels in QEMU and runs `poseidon doctor` and the tests that need a kernel in each of them.

    check.py [--json] [--kernel VERSION]... [--only TEST]... [--accel NAME] [--guests N] [--keep FOLDER]

VERSION is the start of a kernel version, such as 6.1; by default 6.1 and 6.12. The newest package linux-image-amd64 with that
version is fetched from the machine's Debian mirrors and bookworm-backports, with an apt configuration in target/kernels: the
configuration and the packages of the machine do not change. --accel is QEMU's accelerator: tcg, which needs no hardware, or kvm.
--only runs the tests whose names contain TEST. All kernels run at the same time, each in N guests (2) that share its tests. --keep keeps the consoles of the guests in FOLDER.

A guest has no disk. Its initramfs contains the kernel's network modules, the tests and `poseidon` from target/debug, and the
programs of this machine that they start, with their libraries. The time of a guest counts executed instructions, one per
nanosecond. Real packets are therefore not late, however slow or busy this machine is. The tests that send a million
packets one by one send a twentieth.

doctor decides which tests run in a guest: the tests of a part (TCP, switch, RPM) that doctor calls missing are left out. In their
place, the command of the part must fail with a message that names the missing kernel features. A test on real packets runs at
most three times, as in .ci/linux.

Exit codes: 0 all passed, 1 a test failed, 2 usage, 3 the machine lacks something.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / "target/kernels"
KERNELS = ["6.1", "6.12"]
# With -icount, these kernels wait forever for a second processor.
ONE_PROCESSOR = ["6.1."]
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The test programs, the parts that they need, and whether they measure real packets.
PROGRAMS = {
    "equal": ([], False),
    "codel": ([], False),
    "switch": (["switch"], False),
    "rpm": (["rpm"], False),
    "router": (["switch", "rpm"], True),
    "tcp": (["tcp"], True),
    "operator": (["tcp", "switch"], False),
    "liars": (["tcp"], True),
    "undo": (["tcp"], False),
    "peers": (["tcp"], True),
    "leaks": (["tcp", "switch", "rpm"], True),
    "linux": (["tcp", "switch", "rpm"], True),
}
# Steps of other tests, a test of several minutes, and a test of the testbed: in a guest, time is exact and its runs are equal.
NOT_RUN = ["host", "step_in_named_namespace", "undo_long", "with_the_feature::gate_compares_neighbouring_runs_on_real_packets"]
# The commands that must name what the kernel lacks.
COMMANDS = {
    "tcp": "poseidon tcp enable --rate '1 Gbps'",
    "switch": "poseidon switch attach --dev port0",
    "rpm": "poseidon rpm attach --dev port0",
}
ATTEMPTS = 3
TEST_SECONDS, GUEST_SECONDS = 900, 3600

# What the tests, `poseidon` and the guest's /init start.
TOOLS = """sh cat chmod chrt dmesg echo env ethtool false grep id insmod ip kmod ls mkdir modprobe mount nice nsenter ps rm rmdir sed
setpriv sleep ss stat sync sysctl tc taskset timeout touch true umount uname unshare""".split()
PACKAGES = "coreutils ethtool iproute2 kmod procps util-linux"
FOLDERS = "dev etc proc root run sys tmp usr/bin usr/lib usr/lib64 usr/sbin var".split()
# The kernel's modules that the tests load. Without tcp_diag, `ss` prints no round-trip times.
MODULES = """veth tun dummy ifb sch_tbf sch_htb sch_ingress sch_fq cls_bpf act_bpf cls_u32 cls_matchall act_mirred act_gact
tcp_dctcp tcp_bbr inet_diag tcp_diag""".split()

INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 RUST_BACKTRACE=0 POSEIDON_TEST_DIVISOR=20
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
dmesg -n 1
ip link set lo up
modprobe tun
exec 2>&1
sh /run-tests
dmesg -r | grep -E 'WARNING:|BUG:|Oops|general protection' | sed 's/^/@@ warning /'
echo @@ off
sync
sleep 0.2
echo b >/proc/sysrq-trigger
"""


class Failure(Exception):
    pass


class Lacking(Exception):
    """The machine lacks something."""


def note(text):
    print(f"kernels: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# --- Kernels


class Apt:
    """An apt configuration in target/kernels, with the Debian mirrors of the machine and bookworm-backports."""

    def __init__(self):
        self.folder = CACHE / "apt"
        for name in ["lists/partial", "cache/archives/partial", "parts"]:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "apt.conf").write_text(
            f'Dir::State::lists "{self.folder}/lists";\nDir::Cache "{self.folder}/cache";\n'
            f'Dir::Etc::sourcelist "{self.folder}/sources.list";\nDir::Etc::sourceparts "{self.folder}/parts";\n'
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\nAcquire::Languages "none";\nAPT::Sandbox::User "root";\n'
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
        )
        self.environment = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}

    def update(self):
        suites = {(f"{SUITE}", "debian"), (f"{SUITE}-backports", "debian"), (f"{SUITE}-security", "debian-security")}
        # The mirrors by their folder: .../debian and .../debian-security.
        text = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Origin: Debian"])
        mirrors = {}
        for line in text.splitlines():
            mirror, release = line.split()
            mirrors["debian-security" if release.endswith("-security") else "debian"] = mirror
        if "debian" not in mirrors:
            raise Lacking("apt knows no mirror of Debian (apt-get update)")
        lines = [f"deb [signed-by={KEYRING}] {mirrors[name]} {suite} main\n" for suite, name in sorted(suites) if name in mirrors]
        (self.folder / "sources.list").write_text("".join(lines))
        try:
            run(["apt-get", "update", "--quiet"], env=self.environment)
        except Failure as error:
            raise Lacking(f"the lists of packages cannot be fetched: {error}") from error

    def find(self, version):
        """Returns the package of the newest kernel whose version begins with `version`, and its own version."""
        text = run(["apt-cache", "madison", "linux-image-amd64"], env=self.environment)
        versions = [line.split("|")[1].strip() for line in text.splitlines() if "Packages" in line]
        # madison lists newer versions first.
        newest = next((name for name in versions if name.startswith(f"{version}.")), None)
        if newest is None:
            raise Lacking(f"no package linux-image-amd64 has the version {version}; there are {', '.join(versions)}")
        text = run(["apt-cache", "show", f"linux-image-amd64={newest}"], env=self.environment)
        return re.search(r"^Depends: (linux-image-\S+) \(= ([^)]+)\)", text, re.M).groups()

    def fetch(self, version):
        """Returns the folder with the unpacked package."""
        package, package_version = self.find(version)
        folder = CACHE / f"{package}_{package_version.replace('~', '-').replace(':', '-')}"
        if not (folder / "boot").exists():
            note(f"fetching {package} {package_version}")
            with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
                try:
                    run(["apt-get", "download", f"{package}={package_version}"], env=self.environment, cwd=temporary)
                except Failure as error:
                    raise Lacking(f"the kernel cannot be fetched: {error}") from error
                (deb,) = Path(temporary).glob("*.deb")
                run(["dpkg-deb", "--extract", deb, Path(temporary, "unpacked")])
                Path(temporary, "unpacked").rename(folder)
        return folder


# --- The guest's files


def build_tests():
    """Builds the command and the tests. Returns the paths by name."""
    note("building the tests")
    names = [word for name in PROGRAMS for word in ("--test", name)]
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", "-p", "poseidon-linux", "-p", "poseidon-cli"]
    command += ["--features", "poseidon-cli/linux", "--bin", "poseidon", *names]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure("the tests cannot be built")
    artifacts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    built = {}
    for artifact in artifacts:
        if artifact.get("executable"):
            is_command = artifact["target"]["name"] == "poseidon" and not artifact["profile"]["test"]
            if is_command or artifact["target"]["name"] in PROGRAMS:
                built[artifact["target"]["name"]] = Path(artifact["executable"])
    return built


def list_tests(built, only):
    """The ignored tests: those that need root and a kernel with BPF."""
    found = []
    for program in PROGRAMS:
        for line in run([built[program], "--list", "--ignored", "--format", "terse"]).splitlines():
            name = line.removesuffix(": test")
            words = [f"{program} {name}".find(word) >= 0 for word in only]
            if name != line and name not in NOT_RUN and (not only or any(words)):
                found.append((program, name))
    return found


def copy_program(path, root, place=None):
    """Copies a program to the same place, with its libraries. A path through /bin or /lib goes to /usr."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True)
    libraries = re.findall(r"(/\S+) \(0x", done.stdout) if done.returncode == 0 else []
    for source, target in [(path, place or path), *((library, library) for library in libraries)]:
        target = re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", str(target)).lstrip("/")
        if not (root / target).exists():
            (root / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / target)


def make_root(root, built):
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for name in ["bin", "sbin", "lib", "lib64"]:
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for tool in TOOLS:
        path = shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if path is None:
            raise Lacking(f"{tool} is missing (apt-get install {PACKAGES})")
        copy_program(path, root)
    for name, path in built.items():
        copy_program(path, root)
        run(["strip", root / str(path).lstrip("/")])
    # The tests find the command where it was built.
    (root / "usr/bin/poseidon").symlink_to(built["poseidon"])
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)


def add_modules(kernel, root):
    """Copies the modules that the tests need, and what these need."""
    (source,) = (kernel / "lib/modules").iterdir()
    target = root / "usr/lib/modules" / source.name
    if not (source / "modules.dep").exists():
        run(["depmod", "--basedir", kernel, source.name])
    needed = dict(line.split(":", 1) for line in (source / "modules.dep").read_text().splitlines())
    by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needed}
    for name in MODULES:
        if path := by_name.get(name):
            for file in [path, *needed[path].split()]:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / file, target / file)
    for file in source.glob("modules.*"):
        if file.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copy(file, target)
    run(["depmod", "--basedir", root / "usr", source.name])
    return source.name


def script(tests):
    """The script that the guest runs: doctor, and a test if doctor says that its parts work."""
    lines = [
        "begin() { echo \"@@ begin $1\"; }",
        "end() { echo; echo \"@@ end $1 $2\"; }",
        # can PART...: whether doctor calls these parts `ok`.
        'can() { for part in "$@"; do grep -q "\\"$part\\": *\\"ok\\"" /tmp/can || return 1; done; }',
        "begin doctor; poseidon doctor --json >/tmp/doctor; code=$?; cat /tmp/doctor; end doctor $code",
        # `can` comes before the list of checks, or after it.
        "sed -n '/\"can\"/,/}/p' /tmp/doctor >/tmp/can",
        "ip link add port0 type veth peer name port1; ip link set port0 up",
        "tc qdisc add dev port0 root tbf rate 100mbit burst 10000 limit 1000000",
    ]
    for part, command in COMMANDS.items():
        lines.append(f"can {part} || {{ begin refused:{part}; {command}; end refused:{part} $?; }}")
    lines.append("ip link del port0")
    for program, name, path in tests:
        parts, measures = PROGRAMS[program]
        title = f"{program}:{name}"
        test = f"timeout {TEST_SECONDS} {shlex.quote(str(path))} --ignored --exact {shlex.quote(name)} --nocapture --test-threads=1"
        attempts = " ".join(map(str, range(1, (ATTEMPTS if measures else 1) + 1)))
        lines += [
            f"if can {' '.join(parts)}; then",
            f"for attempt in {attempts}; do begin {title}; {test}; code=$?; end {title} $code; [ $code -ne 0 ] || break; done",
            f"else echo '@@ left-out {title}'; fi",
        ]
    return "\n".join(lines) + "\n"


def archive(root, target):
    files = run(["find", ".", "-mindepth", "1"], cwd=root)
    with open(target, "wb") as output:
        packed = subprocess.run(
            ["cpio", "--quiet", "--create", "--format=newc", "--owner=0:0"], cwd=root, input=files.encode(), stdout=output
        )
    if packed.returncode != 0:
        raise Failure("cpio cannot write the initramfs")


# --- The guest


def boot(image, initramfs, accel, processors, console):
    """Yields the lines of the guest's console, with the seconds since the start."""
    clock = ["-icount", "shift=0,sleep=off"] if accel == "tcg" else []
    processor = "max" if accel == "tcg" else "host"
    command = ["qemu-system-x86_64", "-accel", accel, "-cpu", processor, *clock, "-smp", processors, "-m", "2048", "-nographic", "-no-reboot"]
    command += ["-nodefaults", "-serial", "stdio", "-kernel", image, "-initrd", initramfs]
    command += ["-append", "console=ttyS0 panic=-1 quiet loglevel=4 random.trust_cpu=on mitigations=off"]
    start = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    watchdog = threading.Timer(GUEST_SECONDS, process.kill)
    watchdog.start()
    try:
        with open(console, "w") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                yield time.monotonic() - start, line.rstrip()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def watch(lines, title):
    """Reads a guest's console: outputs, codes and times of all commands."""
    results, left_out, warnings, current, booted, ended = {}, [], [], None, None, False
    for seconds, line in lines:
        # The firmware writes control codes in front of the first line.
        marker = line.find("@@ ")
        words = line[marker:].split()
        if marker < 0:
            if current:
                current["output"].append(line)
            continue
        if words[1] == "begin":
            booted = seconds if booted is None else booted
            current = results.setdefault(words[2], {"attempts": 0, "seconds": 0.0})
            current |= {"output": [], "began": seconds, "code": None, "attempts": current["attempts"] + 1}
        elif words[1] == "end":
            current["code"] = int(words[3])
            current["seconds"] += seconds - current["began"]
            note(f"{title}: {words[2]}: {'passed' if words[3] == '0' else 'exit code ' + words[3]}, {seconds - current['began']:.0f} s")
            current = None
        elif words[1] == "left-out":
            left_out.append(words[2])
        elif words[1] == "warning":
            warnings.append(" ".join(words[2:]))
        elif words[1] == "off":
            ended = True
    if booted is None:
        raise Failure("the guest does not boot")
    return results, left_out, warnings, booted, ended


def judge(version, results, left_out, warnings, booted, ended):
    """Returns the row of a kernel."""
    try:
        doctor = json.loads("\n".join(results["doctor"]["output"]))
    except (KeyError, ValueError) as error:
        raise Failure(f"{version}: `poseidon doctor --json` printed no report: {results.get('doctor')}") from error
    missing = [check for check in doctor["checks"] if check["state"] == "missing" and set(check["needed_by"]) & set(COMMANDS)]
    tests = {name: result for name, result in results.items() if ":" in name and not name.startswith("refused:")}
    failed = [name for name, result in tests.items() if result["code"] != 0]
    vague = []
    for name, result in results.items():
        if name.startswith("refused:"):
            text = " ".join(result["output"])
            # The command names each feature that the kernel lacks and the version that has it.
            features = [check for check in missing if name.split(":")[1] in check["needed_by"] and check.get("since")]
            named = features and all(check["name"] in text and f"Linux {check['since']}" in text for check in features)
            if result["code"] == 0 or not named:
                vague.append({"command": COMMANDS[name.split(":")[1]], "says": text})
    return {
        "kernel": version,
        "boot_s": round(booted, 1),
        "ended": ended,
        "can": {part: state for part, state in doctor["can"].items() if part != "build"},
        "lacks": [{"check": check["name"], "since": check.get("since"), "says": check["says"]} for check in missing],
        "passed": len(tests) - len(failed),
        "repeated": sum(result["attempts"] > 1 for name, result in tests.items() if name not in failed),
        "failed": {name: "\n".join(tests[name]["output"][-30:]) for name in failed},
        "left_out": left_out,
        "vague": vague,
        "warnings": warnings,
    }


def run_guest(kernel, root, tests, accel, console):
    """Boots a guest that runs these tests. Returns what `watch` returns."""
    (image,) = (kernel / "boot").glob("vmlinuz-*")
    (root / "run-tests").write_text(script(tests))
    archive(root, console.with_suffix(".initramfs"))
    shutil.rmtree(root)
    title = kernel.name.removeprefix("linux-image-").split("_")[0]
    processors = 1 if accel == "tcg" and any(title.startswith(version) for version in ONE_PROCESSOR) else 2
    return watch(boot(image, console.with_suffix(".initramfs"), accel, processors, console), title)


def check(kernel, base, tests, folder, accel, guests):
    """Runs the tests in guests at the same time. Returns the row of a kernel."""
    start = time.monotonic()
    programs = sorted({program for program, _, _ in tests}, key=list(PROGRAMS).index)
    shares = [[test for test in tests if programs.index(test[0]) % guests == guest] for guest in range(guests)]
    roots = [folder / f"{kernel.name}-{guest}" for guest in range(guests)]
    consoles = [folder / f"{kernel.name}-{guest}.console" for guest in range(guests)]
    for root in roots:
        shutil.copytree(base, root, symlinks=True)
        version = add_modules(kernel, root)
    note(f"{version}: {len(tests)} tests with -accel {accel}")
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(run_guest, [kernel] * guests, roots, shares, [accel] * guests, consoles))
    results = {name: result for results, *_ in reversed(ends) for name, result in results.items()}
    left_out = [name for _, names, *_ in ends for name in names]
    warnings = [text for _, _, texts, *_ in ends for text in texts]
    row = judge(version, results, left_out, warnings, max(booted for *_, booted, _ in ends), all(ended for *_, ended in ends))
    return row | {"accel": accel, "seconds": round(time.monotonic() - start)}


def is_good(row):
    return row["ended"] and not row["failed"] and not row["vague"] and not row["warnings"]


def main():
    parser = argparse.ArgumentParser(description="Boots Debian's kernels in QEMU and runs the tests that need a kernel.")
    parser.add_argument("--json", action="store_true", help="print one line of JSON per kernel")
    parser.add_argument("--kernel", action="append", metavar="VERSION", help="the start of a kernel version")
    parser.add_argument("--only", action="append", default=[], metavar="TEST", help="only tests whose names contain TEST")
    parser.add_argument("--accel", default="tcg", help="QEMU's accelerator")
    parser.add_argument("--guests", type=int, default=2, metavar="N", help="guests per kernel")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the guests' consoles here")
    options = parser.parse_args()
    tools = ["qemu-system-x86_64", "cpio", "strip", "ldd", "depmod", "apt-get", "dpkg-deb", "cargo"]
    missing = [tool for tool in tools if not shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")]
    if missing:
        note(f"{', '.join(missing)}: not installed (apt-get install qemu-system-x86 cpio binutils kmod)")
        return 3
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        apt = Apt()
        apt.update()
        kernels = [apt.fetch(version) for version in options.kernel or KERNELS]
        built = build_tests()
        tests = [(program, name, built[program]) for program, name in list_tests(built, options.only)]
        with tempfile.TemporaryDirectory(prefix="poseidon-kernels-") as temporary, ThreadPoolExecutor() as pool:
            base = Path(temporary, "base")
            make_root(base, built)
            rows = pool.map(lambda kernel: check(kernel, base, tests, Path(temporary), options.accel, options.guests), kernels)
            rows = list(rows)
            for row in rows:
                print(json.dumps(row, indent=None if options.json else 2), flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                for console in Path(temporary).glob("*.console"):
                    shutil.copy(console, options.keep)
    except Lacking as error:
        note(str(error))
        return 3
    except Failure as error:
        note(str(error))
        return 1
    return 0 if all(is_good(row) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
