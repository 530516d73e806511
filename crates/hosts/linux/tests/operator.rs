//! Tests situations that operators run into: a service restarts and its cgroup is recreated, another user has created
//! the pin folder, a command runs under `ip netns exec`, or a device is deleted. Needs root; `.ci/linux` runs these
//! tests.

use core::time::Duration;
use poseidon_linux::switch::{self, Options, Switch};
use poseidon_linux::tcp::{self, Settings, TcpError};
use poseidon_netns::{PrivateNetns, sh};
use poseidon_types::BitRate;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::{env, fs};

/// The environment variable that names the step to run under `ip netns exec`.
const STEP: &str = "POSEIDON_OPERATOR_STEP";
const NOBODY: &str = "65534";

/// All cases are in one test, because the congestion control's name is unique on the machine. Inside the private
/// namespaces, every user may create folders in `/sys/fs/bpf`, as on most distributions.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn recreated_cgroups_and_foreign_folders_are_reported() {
    let netns = PrivateNetns::new("POSEIDON_OPERATOR_INSIDE")
        .keep_network()
        .mounts("mount -t bpf -o mode=1777 bpf /sys/fs/bpf");
    if !netns.run_test("recreated_cgroups_and_foreign_folders_are_reported") {
        return;
    }
    recreated_cgroup_is_reported();
    age_is_known_without_sys_admin();
    folder_of_another_user_is_refused();
    live_connections_switch_to_another_control();
}

/// A command under `ip netns exec` has a separate `/sys`. Its pins go to the mount namespace of process 1, so later
/// commands can find them. The pins of deleted devices can be listed and removed.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn ports_of_named_namespaces_keep_their_pins() {
    let netns = format!("poseidon-operator-{}", id());
    let run = |script: &str| sh(script).unwrap_or_else(|error| panic!("{error}"));
    run(&format!(
        "ip netns add {netns}; ip -n {netns} link add d0 type veth peer name d1; ip -n {netns} link set d0 up; \
         tc -n {netns} qdisc add dev d0 root tbf rate 100mbit burst 10000 limit 1000000"
    ));
    let step = |step: &str| {
        let status = Command::new("ip")
            .args(["netns", "exec", &netns])
            .arg(env::current_exe().expect("a test program has a path"))
            .args(["--ignored", "--exact", "step_in_named_namespace", "--nocapture"])
            .env(STEP, step)
            .status()
            .expect("ip is installed (iproute2)");
        assert!(status.success(), "{step}: {status}");
    };
    step("attach");
    step("status");
    step("detach");
    assert_eq!(stale_pins(), 0);
    // The namespace is deleted while a port is attached.
    step("attach");
    run(&format!("ip -n {netns} link del d0"));
    step("stale");
    run(&format!("ip netns del {netns}"));
    assert_eq!(stale_pins(), 1);
    let removed = switch::remove_stale_pins().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((removed.len(), stale_pins()), (1, 0));
    assert!(!removed[0].path.exists());
}

fn stale_pins() -> usize {
    switch::stale_pins().unwrap_or_else(|error| panic!("{error}")).len()
}

/// Not a test: other tests run this function under `ip netns exec` or `setpriv`.
#[test]
#[ignore = "not a test: another test starts it"]
fn step_in_named_namespace() {
    let Ok(step) = env::var(STEP) else { return };
    let attached = || Switch::open("d0").unwrap_or_else(|error| panic!("{error}"));
    match step.as_str() {
        "attach" => drop(Switch::attach("d0", Options::default()).unwrap_or_else(|error| panic!("{error}"))),
        "status" => {
            attached().set_stamps(false).unwrap_or_else(|error| panic!("{error}"));
            let status = attached().status().unwrap_or_else(|error| panic!("{error}"));
            assert!(!status.stamps, "{status:?}");
        }
        "detach" => attached().detach().unwrap_or_else(|error| panic!("{error}")),
        "age" => {
            let status = tcp::status().unwrap_or_else(|error| panic!("{error}"));
            let uptime = status.expect("Poseidon is enabled").uptime;
            assert!(uptime < Duration::from_secs(60), "{uptime:?}");
        }
        // The device is gone, but its namespace still exists.
        "stale" => assert_eq!(stale_pins(), 1),
        other => panic!("unknown step {other}"),
    }
}

fn enable(cgroup: &Path) -> Result<PathBuf, TcpError> {
    let settings = Settings { cgroup: Some(cgroup.to_owned()), ..Settings::for_rate(BitRate::from_gbps(1)) };
    tcp::enable(&settings)
}

fn is_attached() -> bool {
    tcp::status().unwrap_or_else(|error| panic!("{error}")).expect("Poseidon is enabled").is_attached
}

fn recreated_cgroup_is_reported() {
    let default = tcp::default_cgroup().unwrap_or_else(|error| panic!("{error}"));
    let cgroup = default.with_file_name(format!("poseidon-operator-{}", id()));
    fs::create_dir(&cgroup).expect("root may create cgroups");
    enable(&cgroup).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_attached());
    fs::remove_dir(&cgroup).expect("the cgroup is empty");
    assert!(!is_attached(), "the cgroup does not exist");
    fs::create_dir(&cgroup).expect("root may create cgroups");
    assert!(!is_attached(), "the new cgroup differs from the old cgroup");
    let status = tcp::status().expect("the status is readable").expect("Poseidon is enabled").to_string();
    assert!(status.contains("NOT ATTACHED") && status.contains("poseidon tcp disable"), "{status}");
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    enable(&cgroup).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_attached());
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    fs::remove_dir(&cgroup).expect("the cgroup is empty");
    assert!(
        !tcp::is_root_cgroup(&default)
            && tcp::is_root_cgroup(default.parent().expect("the default cgroup has a parent"))
    );
}

/// The kernel lists the programs and their load times only to processes with CAP_SYS_ADMIN.
fn age_is_known_without_sys_admin() {
    let default = tcp::default_cgroup().unwrap_or_else(|error| panic!("{error}"));
    let cgroup = default.with_file_name(format!("poseidon-operator-age-{}", id()));
    fs::create_dir(&cgroup).expect("root may create cgroups");
    enable(&cgroup).unwrap_or_else(|error| panic!("{error}"));
    let status = Command::new("setpriv")
        .args(["--bounding-set", "-sys_admin"])
        .arg(env::current_exe().expect("a test program has a path"))
        .args(["--ignored", "--exact", "step_in_named_namespace", "--nocapture"])
        .env(STEP, "age")
        .status()
        .expect("setpriv is installed (util-linux)");
    assert!(status.success(), "{status}");
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    fs::remove_dir(&cgroup).expect("the cgroup is empty");
}

fn folder_of_another_user_is_refused() {
    let folder = "/sys/fs/bpf/poseidon";
    let created = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "mkdir", folder])
        .status()
        .expect("setpriv is installed (util-linux)");
    assert!(created.success(), "every user may create folders there");
    let default = tcp::default_cgroup().unwrap_or_else(|error| panic!("{error}"));
    let error = enable(default.parent().expect("the default cgroup has a parent"));
    let error = error.expect_err("the folder belongs to another user").to_string();
    assert!(error.contains("it belongs to user 65534") && error.contains("rm -r"), "{error}");
    fs::remove_dir(folder).expect("root may remove the folder");
}

fn live_connections_switch_to_another_control() {
    let settings = Settings { default: false, ..Settings::for_rate(BitRate::from_gbps(1)) };
    tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let stream = TcpStream::connect(listener.local_addr().expect("the socket is bound"))
        .expect("the listener accepts");
    set_tcp_congestion(&stream, "poseidon").expect("Poseidon is enabled");
    let error =
        tcp::restore_connections("nothing").expect_err("no such congestion control exists").to_string();
    assert!(error.starts_with("connections cannot use \"nothing\"; choose one of these: "), "{error}");
    let count = tcp::restore_connections("cubic").unwrap_or_else(|error| panic!("{error}"));
    assert!(count >= 1, "{count} connections");
    assert_eq!(tcp_congestion(&stream).expect("the stream is a TCP socket"), "cubic");
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
}
