//! The commands that need the feature `linux`: how they end and what they print. What needs root is ignored here, and `.ci/linux` runs
//! it.

mod told;

use told::told;

#[test]
fn what_is_written_wrongly_is_a_matter_of_usage() {
    for (args, says) in [
        (&["tcp"] as &[&str], "poseidon tcp <COMMAND>"),
        (&["tcp", "enable"], "--rate <RATE>"),
        (&["tcp", "enable", "--rate", "100"], "rate without a unit"),
        (&["switch", "attach"], "--dev <DEV>"),
        (&["switch", "set", "--dev", "lo"], "--rate <RATE>|--stamps <STAMPS>"),
        (&["switch", "status", "--dev", "lo", "--json", "--metrics"], "cannot be used with"),
        (&["rpm", "attach", "--dev", "lo", "--direction", "back"], "per-flow"),
        (&["rpm", "attach", "--dev", "lo", "--target", "1"], "time without a unit"),
    ] {
        let (code, out, err) = told(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

#[test]
fn the_help_has_every_exit_code() {
    let (code, help, _) = told(&["--help"]);
    assert_eq!(code, 0);
    let codes = help.split("Exit codes:").nth(1).expect("it lists them");
    for part in ["0 done", "1 a run", "2 usage", "3 a scenario", "4 a gating", "5 not in this build", "130 "]
    {
        assert!(codes.contains(part), "{part}: {codes}");
    }
}

#[cfg(not(feature = "linux"))]
#[test]
fn a_build_without_it_says_how_to_get_it() {
    for args in [
        &["tcp", "enable", "--rate", "100 Mbps"] as &[&str],
        &["tcp", "flows", "--json"],
        &["switch", "status", "--dev", "lo", "--metrics"],
        &["rpm", "attach", "--dev", "lo", "--direction", "forward"],
        &["doctor", "--json"],
    ] {
        let (code, out, err) = told(args);
        assert_eq!((code, out.as_str()), (5, ""), "{args:?}: {err}");
        for part in ["cargo install --path crates/apps/cli --features linux", "clang-19", "libelf-dev", "iproute2"]
        {
            assert!(err.contains(part), "{args:?}: {err}");
        }
    }
}

#[cfg(feature = "linux")]
mod with_the_feature {
    use super::told;
    use core::time::Duration;
    use serde_json::Value;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs, thread};

    fn json(args: &[&str]) -> Value {
        let (code, out, err) = told(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
    }

    #[test]
    fn the_doctor_says_what_can_be_used_and_what_to_do() {
        let found = json(&["doctor", "--json"]);
        let states = ["ok", "missing", "not tried"];
        let can = found["can"].as_object().expect("parts by name");
        assert_eq!(can.keys().collect::<Vec<_>>(), ["tcp", "switch", "rpm", "testbed", "build"]);
        assert!(can.values().all(|state| states.contains(&state.as_str().unwrap_or(""))), "{can:?}");
        assert_eq!(can["build"], "ok", "this was built here: {found}");
        let checks = found["checks"].as_array().expect("a list");
        let names: Vec<_> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
        for name in ["kernel", "root", "BTF", "struct_ops", "clsact", "TBF", "SCHED_FIFO", "ip", "clang"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for check in checks {
            for key in ["name", "state", "says", "why", "fix"] {
                assert!(check[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {check}");
            }
            assert!(states.contains(&check["state"].as_str().unwrap_or("")), "{check}");
        }
        let (code, text, _) = told(&["doctor"]);
        assert_eq!(code, 0);
        assert_eq!(text.lines().filter(|line| line.starts_with("build ")).count(), 1, "{text}");
    }

    #[test]
    fn what_is_refused_names_cause_and_fix() {
        for (code, args, says) in [
            (2, &["tcp", "enable", "--rate", "1 Gbps", "--set", "x"] as &[&str], "write it as NAME=VALUE"),
            (2, &["tcp", "enable", "--rate", "1 Gbps", "--set", "base-rtt=5"], "write a time"),
            (
                2,
                &["tcp", "enable", "--rate", "1 Gbps", "--set", "target-range=40 ms"],
                "make target-range smaller",
            ),
            (1, &["switch", "attach", "--dev", "none0"], "ip -j link show dev none0"),
            (1, &["switch", "status", "--dev", "lo"], "switch is not attached to lo; attach it first"),
            (1, &["rpm", "detach", "--dev", "lo"], "rpm is not attached to lo; attach it first"),
        ] {
            let told = told(args);
            assert_eq!((told.0, told.1.as_str()), (code, ""), "{args:?}: {told:?}");
            assert!(told.2.starts_with("poseidon: ") && told.2.contains(says), "{args:?}: {told:?}");
        }
    }

    /// As a person would do it. What is on is the machine's, but its files and its network are this test's own: it starts itself anew
    /// in namespaces that end with it.
    #[test]
    #[ignore = "needs root and a kernel with BPF: .ci/linux"]
    fn on_and_off_by_the_command() {
        const INSIDE: &str = "POSEIDON_COMMAND_INSIDE";
        const SELF: &str = "with_the_feature::on_and_off_by_the_command";
        if env::var_os(INSIDE).is_some() {
            tcp_on_and_off();
            ports_on_and_off();
            return;
        }
        let status = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c"])
            .arg("mount -t bpf bpf /sys/fs/bpf && ip link set lo up && exec \"$0\" \"$@\"")
            .arg(env::current_exe().expect("a test has a file"))
            .args(["--ignored", "--exact", SELF, "--nocapture"])
            .env(INSIDE, "1")
            .status();
        assert!(status.expect("unshare is in util-linux").success());
    }

    fn tcp_on_and_off() {
        let group = Group::new();
        let cgroup = group.0.to_str().expect("its path is text");
        assert_eq!(json(&["tcp", "status", "--json"])["on"], false);
        let enable = ["tcp", "enable", "--rate", "1 Gbps", "--set", "target-range=2 ms", "--cgroup", cgroup];
        let (code, out, err) = when_free(&enable);
        assert_eq!((code, out.trim()), (0, cgroup), "{err}");
        let status = json(&["tcp", "status", "--json"]);
        assert_eq!((&status["on"], &status["flows"]), (&Value::Bool(true), &Value::from(0)), "{status}");
        assert_eq!(status["settings"]["target-range"], "2 ms", "{status}");
        let (code, _, err) = told(&enable);
        assert!(code == 1 && err.contains("on already; switch it off"), "{err}");

        let connection = group.connection();
        let port = connection.peer_addr().expect("it is connected").port();
        let flows = json(&["tcp", "flows", "--json"]);
        let sends = |flow: &&Value| flow["remote"] == format!("127.0.0.1:{port}");
        let flow =
            flows.as_array().and_then(|all| all.iter().find(sends)).unwrap_or_else(|| panic!("{flows}"));
        assert_eq!(
            (&flow["speaks_option"], &flow["mode"]),
            (&Value::Bool(true), &Value::from("delay")),
            "{flow}"
        );
        for key in ["target_ns", "rtt_ns", "base_rtt_ns", "mss_bytes", "acked_bytes", "acks_with_echo"] {
            assert!(flow[key].as_u64().is_some_and(|number| number > 0), "{key}: {flow}");
        }
        assert!(flow["window_packets"].as_f64().is_some_and(|window| window > 0.0), "{flow}");
        let (_, table, _) = told(&["tcp", "flows"]);
        assert!(table.starts_with("local ") && table.contains(&format!("127.0.0.1:{port}")), "{table}");
        let (_, text, _) = told(&["tcp", "status"]);
        assert!(text.contains("2 sockets run the law") && text.contains("target-range=2 ms"), "{text}");
        drop(connection);

        assert_eq!(told(&["tcp", "disable"]), (0, String::new(), String::new()));
        assert_eq!(json(&["tcp", "status", "--json"])["on"], false);
        assert_eq!(told(&["tcp", "disable"]).2, "poseidon: poseidon is not on\n");
        assert_eq!(told(&["tcp", "flows"]).0, 1);
        assert!(!Path::new("/sys/fs/bpf/poseidon").exists() && group.0.is_dir());
    }

    fn ports_on_and_off() {
        let script = "ip link add d0 type veth peer name d1; ip addr add 10.9.1.1/24 dev d0; ip link set d0 up; ip link set d1 up; \
                      tc qdisc add dev d0 root tbf rate 100mbit burst 10000 limit 1000000";
        assert!(Command::new("sh").args(["-ec", script]).status().expect("a shell").success());
        let done = |args: &[&str]| assert_eq!(told(args), (0, String::new(), String::new()), "{args:?}");
        done(&["switch", "attach", "--dev", "d0"]);
        done(&["rpm", "attach", "--dev", "d0", "--direction", "per-port", "--target", "2 ms"]);
        let port = &json(&["switch", "status", "--dev", "d0", "--json"])[0];
        assert_eq!(
            (&port["rate_bps"], &port["stamps"]),
            (&Value::from(100_000_000), &Value::Bool(true)),
            "{port}"
        );
        done(&["switch", "set", "--dev", "d0", "--stamps", "off", "--rate", "50 Mbps"]);
        let port = &json(&["switch", "status", "--dev", "d0", "--json"])[0];
        assert_eq!(
            (&port["rate_bps"], &port["stamps"]),
            (&Value::from(50_000_000), &Value::Bool(false)),
            "{port}"
        );
        assert!(port["packets"]["switched_off"].is_u64(), "{port}");
        let port = &json(&["rpm", "status", "--dev", "d0", "--json"])[0];
        assert_eq!(
            (&port["direction"], &port["target_ns"]),
            (&"reverse-per-port".into(), &2_000_000.into()),
            "{port}"
        );
        for kind in ["switch", "rpm"] {
            let (_, metrics, _) = told(&[kind, "status", "--dev", "d0", "--metrics"]);
            assert!(metrics.ends_with("# EOF\n") && metrics.contains("{device=\"d0\""), "{metrics}");
            let (_, text, _) = told(&[kind, "status", "--dev", "d0"]);
            assert!(text.starts_with("d0: ") && text.contains("packets: "), "{text}");
        }
        let (_, text, _) = told(&["switch", "status", "--dev", "d0"]);
        assert!(text.contains("measures only") && text.contains("the queue is sent at 100 Mbps"), "{text}");
        done(&["switch", "detach", "--dev", "d0"]);
        done(&["rpm", "detach", "--dev", "d0"]);
        assert_eq!(told(&["switch", "status", "--dev", "d0"]).0, 1);
    }

    /// The name of a congestion control is the machine's: somebody else may have it for a while.
    #[expect(clippy::disallowed_methods, reason = "others end when they end")]
    fn when_free(args: &[&str]) -> (i32, String, String) {
        for _ in 0..60 {
            let told = told(args);
            if !told.2.contains("registering the congestion control") {
                return told;
            }
            thread::sleep(Duration::from_millis(500));
        }
        told(args)
    }

    /// A cgroup of the test's own; its processes go back when it is dropped.
    struct Group(PathBuf);

    impl Group {
        fn new() -> Self {
            let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is there");
            let place =
                mounts.lines().find_map(|line| line.split(" cgroup2 ").next().filter(|at| *at != line));
            let root = place.and_then(|at| at.split(' ').nth(1)).expect("cgroup v2 is mounted");
            let path = Path::new(root).join(format!("poseidon-command-{}", std::process::id()));
            fs::create_dir(&path).expect("root may");
            Self(path)
        }

        /// One that has carried a megabyte. Its ends are made inside of the group.
        fn connection(&self) -> TcpStream {
            let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").expect("root may");
            join(&self.0);
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let mut stream =
                TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
            join(self.0.parent().expect("it has one"));
            let mut other = listener.accept().expect("it is connected").0;
            let reader = thread::spawn(move || {
                let mut all = vec![0; 1 << 20];
                other.read_exact(&mut all).expect("so much is sent");
                other
            });
            stream.write_all(&vec![7; 1 << 20]).expect("somebody reads");
            // Kept open: its end would be a row less.
            Box::leak(Box::new(reader.join().expect("it reads")));
            stream
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }
}
