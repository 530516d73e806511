//! What this machine can and cannot do, tried and not guessed.
//!
//! ```text
//! examine ──> Check: name, state, what was found, why it matters, what to do
//!                │ each names the parts that need it
//!                v
//!             able: tcp yes, switch no, …
//! ```
//!
//! Programs are loaded into the kernel and dropped, queues are made in a network namespace that ends with the process that made it,
//! and a cgroup is made and removed. Nothing of it stays.

use crate::tcp::mount_of;
use crate::{InKernel, peers, rpm, switch, tcp};
use core::fmt;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there and works.
    Ok,
    /// It is not there, or does not work.
    Missing,
    /// It could not be tried.
    NotTried,
}

/// What may need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Building this crate.
    Build,
    /// [`crate::tcp`].
    Tcp,
    /// [`crate::switch`].
    Switch,
    /// [`crate::rpm`].
    Rpm,
    /// Hosts and routers as network namespaces of this machine.
    Testbed,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was found, or what went wrong.
    pub says: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to install or to do where it is not there.
    pub fix: &'static str,
    /// What does not work without it; nothing where it is only good to know.
    pub needed_by: &'static [Part],
}

/// Whether a part works here: not where something that it needs is missing, and nobody knows where something was not tried.
pub fn able(part: Part, checks: &[Check]) -> State {
    let needed = checks.iter().filter(|check| check.needed_by.contains(&part)).map(|check| check.state);
    needed.fold(State::Ok, |worst, state| match (worst, state) {
        (State::Missing, _) | (_, State::Missing) => State::Missing,
        (State::NotTried, _) | (_, State::NotTried) => State::NotTried,
        _ => State::Ok,
    })
}

/// Looks at everything. Takes less than a second.
pub fn examine() -> Vec<Check> {
    // What libbpf says of a program that the kernel refuses is in the error too.
    let before = libbpf_rs::set_print(None);
    let may = Permissions::of_this_process();
    let mut checks = machine(&may);
    checks.extend(bpf(&may));
    checks.extend(network(&may));
    checks.extend(TOOLS.iter().map(|(name, needed_by, why, fix)| {
        check(name, needed_by, why, fix, find(name).map_err(Trouble::Missing))
    }));
    checks.extend(build());
    libbpf_rs::set_print(before);
    checks
}

const ALL_BUT_BUILD: &[Part] = &[Part::Tcp, Part::Switch, Part::Rpm, Part::Testbed];
const PORTS: &[Part] = &[Part::Switch, Part::Rpm, Part::Testbed];
const TCP: &[Part] = &[Part::Tcp, Part::Testbed];
const TESTBED: &[Part] = &[Part::Testbed];
const BUILD: &[Part] = &[Part::Build];
const NOTHING: &[Part] = &[];

const AS_ROOT: &str = "run as root: sudo poseidon doctor";
const NEWER: &str =
    "boot a newer kernel; on Debian 12: apt-get install -t bookworm-backports linux-image-amd64";

type Tool = (&'static str, &'static [Part], &'static str, &'static str);

const TOOLS: [Tool; 6] = [
    ("ip", ALL_BUT_BUILD, "says what a device is, and lays wires", "apt-get install iproute2"),
    ("tc", PORTS, "attaches programs to ports, and shapes them", "apt-get install iproute2"),
    (
        "ethtool",
        TESTBED,
        "one packet per stamp: switches off the merging of segments",
        "apt-get install ethtool",
    ),
    ("chrt", TESTBED, "starts senders and delay lines before other work", "apt-get install util-linux"),
    ("unshare", TESTBED, "makes namespaces that end with their process", "apt-get install util-linux"),
    ("nsenter", TESTBED, "starts programs in a namespace", "apt-get install util-linux"),
];

enum Trouble {
    Missing(String),
    NotTried(String),
}

fn check(
    name: &'static str,
    needed_by: &'static [Part],
    why: &'static str,
    fix: &'static str,
    found: Result<String, Trouble>,
) -> Check {
    let (state, says) = match found {
        Ok(says) => (State::Ok, says),
        Err(Trouble::Missing(says)) => (State::Missing, says),
        Err(Trouble::NotTried(says)) => (State::NotTried, says),
    };
    Check { name, state, says, why, fix, needed_by }
}

/// What this process is allowed to.
struct Permissions {
    /// As the kernel shows them: one bit each.
    capabilities: u64,
}

/// By their number in the kernel.
const CAPABILITIES: [(u32, &str); 5] =
    [(12, "NET_ADMIN"), (21, "SYS_ADMIN"), (23, "SYS_NICE"), (38, "PERFMON"), (39, "BPF")];

impl Permissions {
    fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Self { capabilities: line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0) }
    }

    fn lacks(&self) -> Vec<&'static str> {
        let lacks = |(bit, name)| (self.capabilities >> bit & 1 == 0).then_some(name);
        CAPABILITIES.into_iter().filter_map(lacks).collect()
    }

    /// Runs what needs them all.
    fn with<E: fmt::Display>(
        &self,
        says: &str,
        attempt: impl FnOnce() -> Result<(), E>,
    ) -> Result<String, Trouble> {
        if !self.lacks().is_empty() {
            return Err(Trouble::NotTried("needs root".to_owned()));
        }
        attempt().map(|()| says.to_owned()).map_err(|why| Trouble::Missing(why.to_string()))
    }
}

fn machine(may: &Permissions) -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let is_new = version(&release) >= Some((6, 10));
    let kernel = if is_new { Ok(release.clone()) } else { Err(Trouble::Missing(release)) };
    let lacks = may.lacks();
    let root = if lacks.is_empty() {
        Ok("all capabilities that are needed".to_owned())
    } else {
        Err(Trouble::Missing(format!("this process lacks {}", lacks.join(", "))))
    };
    let btf = fs::metadata("/sys/kernel/btf/vmlinux").map(|file| format!("{} kB", file.len() / 1_024));
    let btf = btf.map_err(|why| Trouble::Missing(format!("/sys/kernel/btf/vmlinux: {why}")));
    vec![
        check(
            "kernel",
            NOTHING,
            "routers need Linux 6.2, TCP needs 6.10; whether it does is tried below",
            NEWER,
            kernel,
        ),
        check("root", ALL_BUT_BUILD, "loading programs and making namespaces is root's", AS_ROOT, root),
        check(
            "BTF",
            ALL_BUT_BUILD,
            "the types of the running kernel: programs find its fields by them",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as Debian's have it",
            btf,
        ),
    ]
}

/// Some kernels keep programs of others out of the context of process 1, and so out of every interrupt that finds it running. Their programs
/// know who loaded them; no other kernel has that field.
fn programs_always_run() -> Result<String, Trouble> {
    let btf = Btf::from_vmlinux().map_err(|why| Trouble::NotTried(format!("the kernel's types: {why}")))?;
    let program = btf.type_by_name::<Struct<'_>>("bpf_prog_aux");
    let program =
        program.ok_or_else(|| Trouble::NotTried("the kernel's types lack bpf_prog_aux".to_owned()))?;
    if program.iter().any(|member| member.name.is_some_and(|name| name == "init_owned")) {
        return Err(Trouble::Missing(
            "this kernel does not run them where process 1 is interrupted".to_owned(),
        ));
    }
    Ok("nothing keeps them out".to_owned())
}

fn bpf(may: &Permissions) -> Vec<Check> {
    let loads = may.with("a program was loaded", || InKernel::load().map(drop));
    let struct_ops = may.with("Poseidon's programs were loaded", tcp::try_loading);
    let queues = may.with("programs that read a queue were loaded", || {
        switch::try_loading().and_then(|()| rpm::try_loading())
    });
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let dctcp = if available.split(' ').any(|name| name == "dctcp") {
        Ok("in the kernel".to_owned())
    } else {
        may.with("not in the kernel; ours was loaded", peers::try_dctcp)
    };
    vec![
        check(
            "BPF",
            ALL_BUT_BUILD,
            "everything here is programs in the kernel",
            "allow bpf(2): run as root, outside of a container",
            loads,
        ),
        check(
            "struct_ops",
            TCP,
            "the congestion control, with the arguments of Linux 6.10, and the TCP option",
            NEWER,
            struct_ops,
        ),
        check(
            "programs always run",
            NOTHING,
            "a congestion control that is skipped returns a window that nobody computed, and the kernel may warn",
            "use a kernel without this patch; do not use panic_on_warn with this one",
            programs_always_run(),
        ),
        check("queue reading", PORTS, "a port asks its real queue how much waits: Linux 6.2", NEWER, queues),
        check(
            "DCTCP",
            NOTHING,
            "what RPM is compared with",
            "modprobe tcp_dctcp, or what struct_ops needs",
            dctcp,
        ),
        check(
            "bpffs",
            &[Part::Tcp, Part::Switch, Part::Rpm, Part::Testbed],
            "keeps what is on when the command ends",
            "mount -t bpf bpf /sys/fs/bpf",
            bpf_files(may),
        ),
        check(
            "cgroup v2",
            TCP,
            "says whose connections get the law",
            "mount -t cgroup2 none /sys/fs/cgroup",
            cgroups(may),
        ),
    ]
}

fn bpf_files(may: &Permissions) -> Result<String, Trouble> {
    if let Some(place) = mount_of(&read("/proc/self/mounts").unwrap_or_default(), "bpf") {
        return Ok(format!("mounted at {}", place.display()));
    }
    // In a namespace of mounts of its own.
    may.with("not mounted yet, which is done when it is needed", || {
        run("unshare", &["--mount", "mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])
    })
}

fn cgroups(may: &Permissions) -> Result<String, Trouble> {
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    let root =
        mount_of(&mounts, "cgroup2").ok_or_else(|| Trouble::Missing("it is not mounted".to_owned()))?;
    let ours = root.join(format!("poseidon-doctor-{}", std::process::id()));
    may.with(&format!("mounted at {}, and a group was made", root.display()), || {
        fs::create_dir(&ours)?;
        fs::remove_dir(&ours)
    })
}

fn network(may: &Permissions) -> Vec<Check> {
    // The namespace ends with the process, and its devices and queues with it.
    let inside = |script: &str| run("unshare", &["--net", "sh", "-ec", script]);
    let device = "ip link add d0 type veth peer name d1";
    let tries = |says: &str, script: &str| may.with(says, || inside(&format!("{device}; {script}")));
    let namespace = may.with("one was made", || inside("ip link set lo up"));
    let veth = tries("a pair was made", "ip link set d0 up");
    let tbf = tries("one was made", "tc qdisc add dev d0 root tbf rate 100mbit burst 10000 limit 1000000");
    let htb = tries(
        "one was made",
        "tc qdisc add dev d0 root handle 1: htb default 1; tc class add dev d0 parent 1: classid 1:1 htb rate 100mbit",
    );
    // A program of one instruction, in the form that needs no loader: it takes every packet.
    let clsact = tries(
        "a program was attached",
        "tc qdisc add dev d0 clsact; tc filter add dev d0 egress prio 1 bpf bytecode \"1,6 0 0 4294967295,\" ",
    );
    let fifo = may.with("a process ran with it", || run("chrt", &["-f", "10", "true"]));
    let tun = fs::File::open("/dev/net/tun").map(|_| "it can be opened".to_owned()).map_err(|why| {
        let says = format!("/dev/net/tun: {why}");
        if why.kind() == ErrorKind::PermissionDenied {
            Trouble::NotTried(says)
        } else {
            Trouble::Missing(says)
        }
    });
    let ecn = read("/proc/sys/net/ipv4/tcp_ecn").unwrap_or_default();
    let ecn = if ecn == "1" {
        Ok("1: asked for and granted".to_owned())
    } else {
        Err(Trouble::Missing(format!("{ecn}: not asked for")))
    };
    let kernel = "boot a kernel that has it, or modprobe it";
    vec![
        check(
            "namespaces",
            TESTBED,
            "hosts and routers of a testbed",
            "boot a kernel with CONFIG_NET_NS=y, outside of a container",
            namespace,
        ),
        check("veth", TESTBED, "wires of a testbed", kernel, veth),
        check("TBF", TESTBED, "shapes a port to a rate, and says it", kernel, tbf),
        check("HTB", NOTHING, "another shaper that can be read", kernel, htb),
        check("clsact", PORTS, "where programs see the packets of a port", kernel, clsact),
        check(
            "SCHED_FIFO",
            TESTBED,
            "delay lines must not wait for other work",
            "allow real-time scheduling: sysctl kernel.sched_rt_runtime_us=950000",
            fifo,
        ),
        check("TUN", NOTHING, "packets through user space", "modprobe tun", tun),
        check(
            "tcp_ecn",
            NOTHING,
            "hosts whose flows RPM marks must ask for ECN; a testbed sets it inside",
            "sysctl net.ipv4.tcp_ecn=1",
            ecn,
        ),
    ]
}

fn build() -> [Check; 4] {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let compiles = run(&clang, &["-target", "bpf", "-mcpu=v3", "-x", "c", "-c", "/dev/null", "-o", "-"]);
    let header = |name: &str| run("cc", &["-fsyntax-only", "-include", name, "-x", "c", "/dev/null"]);
    let both =
        |first: &str, second: &str| find(first).and_then(|path| Ok(format!("{path}, {}", find(second)?)));
    let is =
        |says: &str, found: Result<(), String>| found.map(|()| says.to_owned()).map_err(Trouble::Missing);
    [
        check(
            "clang",
            BUILD,
            "compiles BPF programs",
            "apt-get install clang-19, or set CLANG",
            is(&format!("{clang} compiled for BPF"), compiles),
        ),
        check(
            "libelf",
            BUILD,
            "reads the objects that clang writes",
            "apt-get install libelf-dev",
            is("its header is there", header("libelf.h")),
        ),
        check(
            "zlib",
            BUILD,
            "reads what is compressed in them",
            "apt-get install zlib1g-dev",
            is("its header is there", header("zlib.h")),
        ),
        check(
            "make",
            BUILD,
            "builds libbpf, with pkg-config",
            "apt-get install make pkg-config",
            both("make", "pkg-config").map_err(Trouble::Missing),
        ),
    ]
}

/// Runs a program to its end; gives the last line of what it complains about.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{program}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).map(str::trim);
    Err(said.map_or_else(|| format!("{program}: {}", output.status), str::to_owned))
}

/// Where a program is.
fn find(program: &str) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.map(|file| file.display().to_string()).ok_or_else(|| format!("no {program} in the PATH"))
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl State {
    /// One word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::NotTried => "not tried",
        }
    }
}

impl Part {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Switch, Self::Rpm, Self::Testbed, Self::Build];

    /// As the commands are called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Tcp => "tcp",
            Self::Switch => "switch",
            Self::Rpm => "rpm",
            Self::Testbed => "testbed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_able_where_all_that_it_needs_is_there() {
        let found = |needed_by, found| check("x", needed_by, "", "", found);
        let fine = found(TCP, Ok(String::new()));
        let gone = found(PORTS, Err(Trouble::Missing(String::new())));
        let untried = found(TCP, Err(Trouble::NotTried(String::new())));
        let useless = found(NOTHING, Err(Trouble::Missing(String::new())));
        let able_to = |checks: &[Check]| Part::ALL.map(|part| able(part, checks).name());
        assert_eq!(able_to(&[fine.clone(), useless]), ["ok"; 5]);
        assert_eq!(able_to(&[fine, untried, gone]), ["not tried", "missing", "missing", "missing", "ok"]);
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(version("6.10.0-rc1") >= Some((6, 10)) && version("6.9") < Some((6, 10)));
        assert_eq!((version("6"), version("")), (None, None));
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
    }

    /// Wherever this runs, root or not.
    #[test]
    fn every_answer_says_what_was_found_and_what_to_do() {
        let checks = examine();
        for check in &checks {
            let texts = [check.name, &check.says, check.why, check.fix];
            assert!(texts.iter().all(|text| !text.is_empty()), "{check:?}");
        }
        // This was built here.
        assert_eq!(able(Part::Build, &checks), State::Ok, "{checks:#?}");
    }
}
