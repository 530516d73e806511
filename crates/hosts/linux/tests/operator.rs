//! What happens to a machine while Poseidon is on, or before: a service restarts and its cgroup is made anew; another user was first in the
//! file system for BPF. Needs root; `.ci/linux` runs it, or says why it does not.

use poseidon_linux::tcp::{self, Settings};
use poseidon_types::BitRate;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::{env, fs};

/// Set inside the namespace.
const INSIDE: &str = "POSEIDON_OPERATOR_INSIDE";
const NOBODY: &str = "65534";

/// One test, because the name of the congestion control is the machine's. Inside, `/sys/fs/bpf` is as on most distributions: everybody
/// may make folders in it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn operators_and_other_users() {
    if env::var_os(INSIDE).is_some() {
        recreated_cgroup_is_reported();
        folder_of_another_user_is_refused();
        live_connections_get_another_control();
        return;
    }
    let private = "mount -t bpf -o mode=1777 bpf /sys/fs/bpf && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", private])
        .arg(env::current_exe().expect("a test has a file"))
        .args(["--ignored", "--exact", "operators_and_other_users", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare is in util-linux");
    assert!(status.success(), "{status}");
}

fn enable(cgroup: &Path) -> Result<PathBuf, String> {
    let settings = Settings { cgroup: Some(cgroup.to_owned()), ..Settings::for_rate(BitRate::from_gbps(1)) };
    tcp::enable(&settings).map_err(|error| error.to_string())
}

fn is_attached() -> bool {
    tcp::status().unwrap_or_else(|error| panic!("{error}")).expect("it is on").is_attached
}

fn recreated_cgroup_is_reported() {
    let own = tcp::own_cgroup().unwrap_or_else(|error| panic!("{error}"));
    let cgroup = own.with_file_name(format!("poseidon-operator-{}", id()));
    fs::create_dir(&cgroup).expect("root may");
    enable(&cgroup).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_attached());
    fs::remove_dir(&cgroup).expect("it is empty");
    assert!(!is_attached(), "it is gone");
    fs::create_dir(&cgroup).expect("root may");
    assert!(!is_attached(), "it is another one");
    let status = tcp::status().expect("readable").expect("it is on").to_string();
    assert!(status.contains("NOT ATTACHED") && status.contains("poseidon tcp disable"), "{status}");
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    enable(&cgroup).unwrap_or_else(|error| panic!("{error}"));
    assert!(is_attached());
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    fs::remove_dir(&cgroup).expect("it is empty");
    assert!(!tcp::is_root(&own) && tcp::is_root(own.parent().expect("the root")));
}

fn folder_of_another_user_is_refused() {
    let folder = "/sys/fs/bpf/poseidon";
    let made = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "mkdir", folder])
        .status()
        .expect("setpriv is in util-linux");
    assert!(made.success(), "everybody may make folders there");
    let own = tcp::own_cgroup().unwrap_or_else(|error| panic!("{error}"));
    let refused = enable(own.parent().expect("the root")).expect_err("it is another user's");
    assert!(refused.contains("it belongs to user 65534") && refused.contains("rm -r"), "{refused}");
    fs::remove_dir(folder).expect("root may");
}

fn live_connections_get_another_control() {
    let settings = Settings { default: false, ..Settings::for_rate(BitRate::from_gbps(1)) };
    tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let stream = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
    set_tcp_congestion(&stream, "poseidon").expect("it is on");
    let refused = tcp::restore_connections("nothing").expect_err("no kernel has it").to_string();
    assert!(
        refused.starts_with("connections cannot get \"nothing\"; choose one that the kernel has: "),
        "{refused}"
    );
    let count = tcp::restore_connections("cubic").unwrap_or_else(|error| panic!("{error}"));
    assert!(count >= 1, "{count} connections");
    assert_eq!(tcp_congestion(&stream).expect("a TCP socket"), "cubic");
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
}
