//! Checks which features this machine supports by trying them out.
//!
//! ```text
//! run_checks ──> Check: name, state, finding, purpose, remedy
//!                  │ each lists the features that need it
//!                  v
//!                feature_state: tcp ok, switch missing, …
//! ```
//!
//! The checks load programs into the kernel and unload them, create queues in a temporary network namespace, and create
//! and remove a cgroup. They remove everything they create.

use crate::kernel_features::{KernelFeature, KernelTypes, KernelVersion, NEWER_KERNEL};
use crate::mount_namespace::mount_point;
use crate::{KernelReplay, peers, rpm, switch, tcp};
use core::fmt;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The checked item works.
    Ok,
    /// The checked item is missing or does not work.
    Missing,
    /// The check could not be run.
    NotTried,
}

/// A feature of this project that depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Building this crate.
    Build,
    /// [`crate::tcp`].
    Tcp,
    /// [`crate::switch`].
    Switch,
    /// [`crate::rpm`].
    Rpm,
    /// Hosts and routers in network namespaces on this machine.
    Testbed,
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the checked item.
    pub name: &'static str,
    /// The result.
    pub state: State,
    /// What the check found, or why it failed.
    pub finding: String,
    /// Why the item matters.
    pub purpose: &'static str,
    /// What to install or change if the item is missing.
    pub remedy: &'static str,
    /// The first version of Linux that has the item, if it is a feature of the kernel.
    pub since: Option<KernelVersion>,
    /// The features that need the item. Empty if the check is only informative.
    pub needed_by: &'static [Feature],
    /// The features that work without the item, but with a restriction.
    pub restricts: &'static [Feature],
}

impl Check {
    /// Returns whether the item only matters for building this crate.
    pub fn is_for_building(&self) -> bool {
        self.needed_by == BUILD
    }
}

/// Returns whether a feature works on this machine. A feature is missing if any item it needs is missing.
pub fn feature_state(feature: Feature, checks: &[Check]) -> State {
    let needed = checks.iter().filter(|check| check.needed_by.contains(&feature)).map(|check| check.state);
    needed.fold(State::Ok, |worst, state| match (worst, state) {
        (State::Missing, _) | (_, State::Missing) => State::Missing,
        (State::NotTried, _) | (_, State::NotTried) => State::NotTried,
        _ => State::Ok,
    })
}

/// Returns the missing items without which a feature works only with a restriction.
pub fn restrictions(feature: Feature, checks: &[Check]) -> impl Iterator<Item = &Check> {
    checks.iter().filter(move |check| check.state == State::Missing && check.restricts.contains(&feature))
}

/// Runs all checks. This takes less than a second.
pub fn run_checks() -> Vec<Check> {
    // The errors contain libbpf's messages, so libbpf does not need to print them.
    let previous = libbpf_rs::set_print(None);
    let permissions = Permissions::current();
    let mut checks = check_machine(&permissions);
    checks.extend(check_kernel_features());
    checks.extend(check_bpf(&permissions));
    checks.extend(check_file_systems(&permissions));
    checks.extend(check_network(&permissions));
    checks.extend(check_host(&permissions));
    checks.extend(TOOLS.iter().map(|tool| tool.check()));
    checks.extend(check_build());
    libbpf_rs::set_print(previous);
    checks
}

const ALL_BUT_BUILD: &[Feature] = &[Feature::Tcp, Feature::Switch, Feature::Rpm, Feature::Testbed];
const PORTS: &[Feature] = &[Feature::Switch, Feature::Rpm, Feature::Testbed];
const TCP: &[Feature] = &[Feature::Tcp, Feature::Testbed];
const TESTBED: &[Feature] = &[Feature::Testbed];
const BUILD: &[Feature] = &[Feature::Build];
const NONE: &[Feature] = &[];

const RUN_AS_ROOT: &str = "run as root: sudo poseidon doctor";

/// A program in the `PATH`.
struct Tool {
    name: &'static str,
    needed_by: &'static [Feature],
    purpose: &'static str,
    remedy: &'static str,
}

const TOOLS: [Tool; 6] = [
    Tool {
        name: "ip",
        needed_by: ALL_BUT_BUILD,
        purpose: "describes devices, and creates links",
        remedy: "apt-get install iproute2",
    },
    Tool {
        name: "tc",
        needed_by: PORTS,
        purpose: "attaches programs to ports, and shapes them",
        remedy: "apt-get install iproute2",
    },
    Tool {
        name: "ethtool",
        needed_by: TESTBED,
        purpose: "turns off the merging of segments, so that each packet has its own stamp",
        remedy: "apt-get install ethtool",
    },
    Tool {
        name: "chrt",
        needed_by: TESTBED,
        purpose: "gives senders and delay lines a real-time priority",
        remedy: "apt-get install util-linux",
    },
    Tool {
        name: "unshare",
        needed_by: TESTBED,
        purpose: "creates namespaces that end with their process",
        remedy: "apt-get install util-linux",
    },
    Tool {
        name: "nsenter",
        needed_by: TESTBED,
        purpose: "starts programs in a namespace",
        remedy: "apt-get install util-linux",
    },
];

impl Tool {
    fn check(&self) -> Check {
        let found = find_program(self.name).map_err(Problem::Missing);
        check(self.name, self.needed_by, self.purpose, self.remedy, found)
    }
}

/// Why a check did not succeed.
enum Problem {
    Missing(String),
    NotTried(String),
}

fn check(
    name: &'static str,
    needed_by: &'static [Feature],
    purpose: &'static str,
    remedy: &'static str,
    result: Result<String, Problem>,
) -> Check {
    let (state, finding) = match result {
        Ok(finding) => (State::Ok, finding),
        Err(Problem::Missing(finding)) => (State::Missing, finding),
        Err(Problem::NotTried(finding)) => (State::NotTried, finding),
    };
    Check { name, state, finding, purpose, remedy, since: None, needed_by, restricts: NONE }
}

/// The process's permissions.
struct Permissions {
    /// The effective capabilities, one bit each.
    capabilities: u64,
}

/// The required capabilities and their kernel numbers.
const CAPABILITIES: [(u32, &str); 5] =
    [(12, "NET_ADMIN"), (21, "SYS_ADMIN"), (23, "SYS_NICE"), (38, "PERFMON"), (39, "BPF")];

impl Permissions {
    fn current() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Self { capabilities: line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0) }
    }

    /// Returns the missing capabilities.
    fn missing(&self) -> Vec<&'static str> {
        let is_missing = |(bit, name)| (self.capabilities >> bit & 1 == 0).then_some(name);
        CAPABILITIES.into_iter().filter_map(is_missing).collect()
    }

    /// Runs `attempt`, which needs all capabilities. Returns `success` if it succeeds.
    fn attempt<E: fmt::Display>(
        &self,
        success: &str,
        attempt: impl FnOnce() -> Result<(), E>,
    ) -> Result<String, Problem> {
        if !self.missing().is_empty() {
            return Err(Problem::NotTried("needs root".to_owned()));
        }
        attempt().map(|()| success.to_owned()).map_err(|error| Problem::Missing(error.to_string()))
    }
}

fn check_machine(permissions: &Permissions) -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let is_recent = version(&release) >= Some((6, 10));
    let kernel = if is_recent { Ok(release.clone()) } else { Err(Problem::Missing(release)) };
    let missing = permissions.missing();
    let root = if missing.is_empty() {
        Ok("all necessary capabilities".to_owned())
    } else {
        Err(Problem::Missing(format!("this process lacks {}", missing.join(", "))))
    };
    let btf = fs::metadata("/sys/kernel/btf/vmlinux").map(|file| format!("{} kB", file.len() / 1_024));
    let btf = btf.map_err(|error| Problem::Missing(format!("/sys/kernel/btf/vmlinux: {error}")));
    vec![
        check(
            "kernel",
            NONE,
            "ports need Linux 6.2, and TCP needs Linux 6.10; the checks below look for each feature",
            NEWER_KERNEL,
            kernel,
        ),
        check("root", ALL_BUT_BUILD, "only root may load programs and create namespaces", RUN_AS_ROOT, root),
        check(
            "BTF",
            ALL_BUT_BUILD,
            "programs find the fields of kernel structs by these types",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, such as a Debian kernel",
            btf,
        ),
    ]
}

/// Looks for the features that older kernels lack. This needs no permissions.
fn check_kernel_features() -> Vec<Check> {
    let types = KernelTypes::current();
    let check_feature = |feature: KernelFeature| {
        let result = match &types {
            Ok(types) => feature.finding(types).map_err(Problem::Missing),
            Err(error) => Err(Problem::NotTried(format!("the kernel's types: {error}"))),
        };
        let needed_by = match feature {
            KernelFeature::TcpStructOps
            | KernelFeature::StructOpsLink
            | KernelFeature::CongControlArguments => TCP,
            KernelFeature::CastToKernCtx => PORTS,
            KernelFeature::QueueTracepoints => TESTBED,
        };
        Check {
            since: Some(feature.since()),
            ..check(feature.name(), needed_by, feature.purpose(), NEWER_KERNEL, result)
        }
    };
    KernelFeature::ALL.map(check_feature).into()
}

/// Checks that the kernel always runs our programs.
///
/// Some kernels do not run other processes' programs in the context of process 1 or in interrupts of process 1. In
/// these kernels, and in no others, `struct bpf_prog_aux` has a field named `init_owned`.
fn programs_always_run() -> Result<String, Problem> {
    let btf =
        Btf::from_vmlinux().map_err(|error| Problem::NotTried(format!("the kernel's types: {error}")))?;
    let program = btf.type_by_name::<Struct<'_>>("bpf_prog_aux");
    let program =
        program.ok_or_else(|| Problem::NotTried("the kernel's types lack bpf_prog_aux".to_owned()))?;
    if program.iter().any(|member| member.name.is_some_and(|name| name == "init_owned")) {
        return Err(Problem::Missing("this kernel skips programs while process 1 is interrupted".to_owned()));
    }
    Ok("this kernel does not skip programs".to_owned())
}

fn check_bpf(permissions: &Permissions) -> Vec<Check> {
    let loads = permissions.attempt("a program was loaded", || KernelReplay::load().map(drop));
    let struct_ops = permissions.attempt("Poseidon's programs were loaded", tcp::try_loading);
    let queues = permissions.attempt("programs that read a queue were loaded", || {
        switch::try_loading().and_then(|()| rpm::try_loading())
    });
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let dctcp = if available.split(' ').any(|name| name == "dctcp") {
        Ok("in the kernel".to_owned())
    } else {
        permissions.attempt("not in the kernel; our version was loaded", peers::try_loading_dctcp)
    };
    vec![
        check(
            "BPF",
            ALL_BUT_BUILD,
            "all features are BPF programs in the kernel",
            "allow bpf(2): run as root, outside of a container",
            loads,
        ),
        check(
            "struct_ops",
            TCP,
            "the congestion control needs the arguments of Linux 6.10; also the TCP option",
            NEWER_KERNEL,
            struct_ops,
        ),
        Check {
            restricts: TCP,
            ..check(
                "programs always run",
                NONE,
                "if the kernel skips a congestion control, it uses an undefined window, and it may warn",
                "use a kernel without this patch; do not combine this kernel with panic_on_warn",
                programs_always_run(),
            )
        },
        check(
            "queue reading",
            PORTS,
            "a port reads the backlog of its queue, which needs Linux 6.2",
            NEWER_KERNEL,
            queues,
        ),
        check(
            "DCTCP",
            NONE,
            "the baseline for RPM",
            "modprobe tcp_dctcp, or install what struct_ops needs",
            dctcp,
        ),
    ]
}

fn check_file_systems(permissions: &Permissions) -> Vec<Check> {
    vec![
        check(
            "bpffs",
            ALL_BUT_BUILD,
            "keeps programs and maps after the command ends",
            "mount -t bpf bpf /sys/fs/bpf",
            check_bpf_file_system(permissions),
        ),
        check(
            "cgroup v2",
            TCP,
            "selects the processes whose connections get the law",
            "mount -t cgroup2 none /sys/fs/cgroup",
            check_cgroups(permissions),
        ),
    ]
}

fn check_bpf_file_system(permissions: &Permissions) -> Result<String, Problem> {
    if let Some(path) = mount_point(&read("/proc/self/mounts").unwrap_or_default(), "bpf") {
        return Ok(format!("mounted at {}", path.display()));
    }
    // Try to mount it in a temporary mount namespace.
    permissions.attempt("not mounted yet; it is mounted when it is needed", || {
        run("unshare", &["--mount", "mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])
    })
}

fn check_cgroups(permissions: &Permissions) -> Result<String, Problem> {
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    let root =
        mount_point(&mounts, "cgroup2").ok_or_else(|| Problem::Missing("it is not mounted".to_owned()))?;
    let group = root.join(format!("poseidon-doctor-{}", std::process::id()));
    permissions.attempt(&format!("mounted at {}; a group was created", root.display()), || {
        fs::create_dir(&group)?;
        fs::remove_dir(&group)
    })
}

/// Tries out devices and queues in a network namespace that the kernel removes when its process exits.
fn check_network(permissions: &Permissions) -> Vec<Check> {
    let run_inside = |script: &str| run("unshare", &["--net", "sh", "-ec", script]);
    let device = "ip link add d0 type veth peer name d1";
    let attempt = |success: &str, script: &str| {
        permissions.attempt(success, || run_inside(&format!("{device}; {script}")))
    };
    let namespace = permissions.attempt("one was created", || run_inside("ip link set lo up"));
    let veth = attempt("a pair was created", "ip link set d0 up");
    let tbf =
        attempt("one was created", "tc qdisc add dev d0 root tbf rate 100mbit burst 10000 limit 1000000");
    let htb = attempt(
        "one was created",
        "tc qdisc add dev d0 root handle 1: htb default 1; tc class add dev d0 parent 1: classid 1:1 htb rate 100mbit",
    );
    // The filter is a one-instruction program in text form, so it needs no loader. It accepts every packet.
    let clsact = attempt(
        "a program was attached",
        "tc qdisc add dev d0 clsact; tc filter add dev d0 egress prio 1 bpf bytecode \"1,6 0 0 4294967295,\" ",
    );
    let module = "boot a kernel that has it, or load its module with modprobe";
    vec![
        check(
            "namespaces",
            TESTBED,
            "hosts and routers of a testbed",
            "boot a kernel with CONFIG_NET_NS=y, outside of a container",
            namespace,
        ),
        check("veth", TESTBED, "links of a testbed", module, veth),
        check("TBF", TESTBED, "shapes a port, and reports the rate", module, tbf),
        check("HTB", NONE, "another shaper with a readable backlog", module, htb),
        check("clsact", PORTS, "the hook where programs see the packets of a port", module, clsact),
    ]
}

/// Checks the scheduler, TUN devices and ECN.
fn check_host(permissions: &Permissions) -> Vec<Check> {
    let fifo = permissions.attempt("a process ran with it", || run("chrt", &["-f", "10", "true"]));
    let tun = fs::File::open("/dev/net/tun").map(|_| "it can be opened".to_owned()).map_err(|error| {
        let finding = format!("/dev/net/tun: {error}");
        if error.kind() == ErrorKind::PermissionDenied {
            Problem::NotTried(finding)
        } else {
            Problem::Missing(finding)
        }
    });
    let ecn = read("/proc/sys/net/ipv4/tcp_ecn").unwrap_or_default();
    let ecn = if ecn == "1" {
        Ok("1: requested and accepted".to_owned())
    } else {
        Err(Problem::Missing(format!("{ecn}: not requested")))
    };
    vec![
        check(
            "SCHED_FIFO",
            TESTBED,
            "delay lines must not wait for other work",
            "allow real-time scheduling: sysctl kernel.sched_rt_runtime_us=950000",
            fifo,
        ),
        check("TUN", NONE, "delay lines pass packets through user space", "modprobe tun", tun),
        check(
            "tcp_ecn",
            NONE,
            "hosts whose flows RPM marks must request ECN; a testbed sets it in its namespaces",
            "sysctl net.ipv4.tcp_ecn=1",
            ecn,
        ),
    ]
}

fn check_build() -> [Check; 4] {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let compiles = run(&clang, &["-target", "bpf", "-mcpu=v3", "-x", "c", "-c", "/dev/null", "-o", "-"]);
    let find_both = |first: &str, second: &str| {
        find_program(first).and_then(|path| Ok(format!("{path}, {}", find_program(second)?)))
    };
    let result = |success: &str, result: Result<(), String>| {
        result.map(|()| success.to_owned()).map_err(Problem::Missing)
    };
    [
        check(
            "clang",
            BUILD,
            "compiles BPF programs",
            "apt-get install clang-19, or set CLANG",
            result(&format!("{clang} compiled for BPF"), compiles),
        ),
        check(
            "libelf",
            BUILD,
            "reads the object files of clang",
            "apt-get install gcc libelf-dev",
            find_header("cc", "libelf.h").map_err(Problem::Missing),
        ),
        check(
            "zlib",
            BUILD,
            "decompresses sections of object files",
            "apt-get install gcc zlib1g-dev",
            find_header("cc", "zlib.h").map_err(Problem::Missing),
        ),
        check(
            "make",
            BUILD,
            "builds libbpf, together with pkg-config",
            "apt-get install make pkg-config",
            find_both("make", "pkg-config").map_err(Problem::Missing),
        ),
    ]
}

/// Compiles a file that includes a header. A missing compiler does not mean that the header is missing.
fn find_header(compiler: &str, header: &str) -> Result<String, String> {
    find_program(compiler).map_err(|error| format!("the C compiler is missing ({error})"))?;
    run(compiler, &["-fsyntax-only", "-include", header, "-x", "c", "/dev/null"])?;
    Ok("its header was found".to_owned())
}

/// Runs a program to completion. The error is the last line that the program wrote to stderr.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).map(str::trim);
    Err(last.map_or_else(|| format!("{program}: {}", output.status), str::to_owned))
}

/// Returns the path to a program.
fn find_program(program: &str) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.map(|file| file.display().to_string()).ok_or_else(|| format!("no {program} in the PATH"))
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the major and minor version of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl State {
    /// Returns the state's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::NotTried => "not tried",
        }
    }
}

impl Feature {
    /// All features, in report order.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Switch, Self::Rpm, Self::Testbed, Self::Build];

    /// Returns the feature's name, which is also its command name.
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
    fn a_feature_works_if_all_its_checks_pass() {
        let check = |needed_by, result| check("x", needed_by, "", "", result);
        let passed = check(TCP, Ok(String::new()));
        let missing = check(PORTS, Err(Problem::Missing(String::new())));
        let untried = check(TCP, Err(Problem::NotTried(String::new())));
        let informative = check(NONE, Err(Problem::Missing(String::new())));
        let states = |checks: &[Check]| Feature::ALL.map(|feature| feature_state(feature, checks).name());
        assert_eq!(states(&[passed.clone(), informative]), ["ok"; 5]);
        assert_eq!(states(&[passed, untried, missing]), ["not tried", "missing", "missing", "missing", "ok"]);
    }

    #[test]
    fn a_feature_with_a_restriction_still_works() {
        let restriction = |result| Check { restricts: TCP, ..check("x", NONE, "", "", result) };
        let missing = restriction(Err(Problem::Missing("a reason".to_owned())));
        let untried = restriction(Err(Problem::NotTried(String::new())));
        let checks = [missing, untried, restriction(Ok(String::new()))];
        assert_eq!(feature_state(Feature::Tcp, &checks), State::Ok);
        let findings =
            |feature| restrictions(feature, &checks).map(|check| &check.finding).collect::<Vec<_>>();
        assert_eq!(findings(Feature::Tcp), ["a reason"]);
        assert!(findings(Feature::Switch).is_empty());
    }

    #[test]
    fn a_missing_compiler_is_not_reported_as_a_missing_header() {
        let error = find_header("no-such-compiler", "stdint.h").expect_err("there is no such compiler");
        assert_eq!(error, "the C compiler is missing (no no-such-compiler in the PATH)");
        assert_eq!(find_header("cc", "stdint.h").as_deref(), Ok("its header was found"));
        let error = find_header("cc", "no-such-header.h").expect_err("there is no such header");
        assert!(!error.contains("compiler is missing"), "{error}");
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(version("6.10.0-rc1") >= Some((6, 10)) && version("6.9") < Some((6, 10)));
        assert_eq!((version("6"), version("")), (None, None));
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
    }

    /// This test works with and without root.
    #[test]
    fn every_check_has_a_finding_and_a_remedy() {
        let checks = run_checks();
        for check in &checks {
            let texts = [check.name, &check.finding, check.purpose, check.remedy];
            assert!(texts.iter().all(|text| !text.is_empty()), "{check:?}");
        }
        // This test was built on this machine.
        assert_eq!(feature_state(Feature::Build, &checks), State::Ok, "{checks:#?}");
    }
}
