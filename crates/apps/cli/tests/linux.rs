//! Tests the exit codes and output of the commands that need the feature `linux`. Tests that need root are ignored
//! here; `.ci/linux` runs them.

mod output;

use output::run_poseidon;

#[test]
fn invalid_arguments_are_usage_errors() {
    for (args, expected) in [
        (&["tcp"] as &[&str], "poseidon tcp <COMMAND>"),
        (&["tcp", "enable"], "--rate <RATE>"),
        (&["tcp", "enable", "--rate", "100"], "rate without a unit"),
        (&["switch", "attach"], "--dev <DEV>"),
        (&["switch", "set", "--dev", "lo"], "--rate <RATE>|--stamps <STAMPS>"),
        (&["switch", "status", "--dev", "lo", "--json", "--metrics"], "cannot be used with"),
        (&["metrics", "--interval", "15 s"], "--textfile <FILE>"),
        (&["metrics", "--listen", "127.0.0.1:0", "--textfile", "a.prom"], "cannot be used with"),
        (&["rpm", "detach", "--dev", "lo", "--stale"], "cannot be used with"),
        (&["rpm", "attach", "--dev", "lo", "--direction", "back"], "per-flow"),
        (&["rpm", "attach", "--dev", "lo", "--target", "1"], "time without a unit"),
    ] {
        let (code, out, err) = run_poseidon(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn help_lists_every_exit_code() {
    let (code, help, _) = run_poseidon(&["--help"]);
    assert_eq!(code, 0);
    let codes = help.split("Exit codes:").nth(1).expect("the help lists exit codes");
    for text in ["0 success", "1 a run", "2 usage", "3 invalid", "4 a gating", "5 not in this build", "130 "]
    {
        assert!(codes.contains(text), "{text}: {codes}");
    }
}

#[cfg(not(feature = "linux"))]
#[test]
fn a_build_without_the_feature_prints_how_to_get_it() {
    for args in [
        &["tcp", "enable", "--rate", "100 Mbps"] as &[&str],
        &["tcp", "flows", "--json"],
        &["switch", "status", "--dev", "lo", "--metrics"],
        &["rpm", "attach", "--dev", "lo", "--direction", "forward"],
        &["metrics"],
        &["doctor", "--json"],
    ] {
        let (code, out, err) = run_poseidon(args);
        assert_eq!((code, out.as_str()), (5, ""), "{args:?}: {err}");
        for text in
            ["cargo install --path crates/apps/cli --features linux", "clang-19", "libelf-dev", "iproute2"]
        {
            assert!(err.contains(text), "{args:?}: {err}");
        }
    }
}

#[cfg(feature = "linux")]
mod with_the_feature {
    use super::output::POSEIDON;
    use super::run_poseidon;
    use core::time::Duration;
    use serde_json::Value;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs, thread};

    fn json(args: &[&str]) -> Value {
        let (code, out, err) = run_poseidon(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
    }

    #[test]
    fn doctor_reports_features_and_remedies() {
        let report = json(&["doctor", "--json"]);
        let states = ["ok", "missing", "not tried"];
        let features = report["can"].as_object().expect("the report lists features by name");
        assert_eq!(features.keys().collect::<Vec<_>>(), ["tcp", "switch", "rpm", "testbed", "build"]);
        assert!(
            features.values().all(|state| states.contains(&state.as_str().unwrap_or(""))),
            "{features:?}"
        );
        assert_eq!(features["build"], "ok", "this test was built here: {report}");
        let checks = report["checks"].as_array().expect("the report lists checks");
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
        let (code, text, _) = run_poseidon(&["doctor"]);
        assert_eq!(code, 0);
        assert_eq!(text.lines().filter(|line| line.starts_with("build ")).count(), 1, "{text}");
    }

    #[test]
    fn errors_name_the_cause_and_the_remedy() {
        for (code, args, expected) in [
            (2, &["tcp", "enable", "--rate", "1 Gbps", "--set", "x"] as &[&str], "write it as NAME=VALUE"),
            (2, &["tcp", "enable", "--rate", "1 Gbps", "--set", "base-rtt=5"], "write a time"),
            (2, &["tcp", "enable", "--rate", "1 Gbps", "--set", "target-range=40 ms"], "reduce target-range"),
            (1, &["switch", "attach", "--dev", "none0"], "ip -j link show dev none0"),
            (1, &["switch", "status", "--dev", "lo"], "switch is not attached to lo; attach it first"),
            (1, &["rpm", "detach", "--dev", "lo"], "rpm is not attached to lo; attach it first"),
        ] {
            let output = run_poseidon(args);
            assert_eq!((output.0, output.1.as_str()), (code, ""), "{args:?}: {output:?}");
            assert!(
                output.2.starts_with("poseidon: ") && output.2.contains(expected),
                "{args:?}: {output:?}"
            );
        }
    }

    /// Runs the commands that an operator would run. The test restarts itself in private network and mount namespaces;
    /// only the congestion control is visible to the rest of the machine.
    #[test]
    #[ignore = "needs root and a kernel with BPF: .ci/linux"]
    fn commands_enable_and_disable() {
        const INSIDE: &str = "POSEIDON_COMMAND_INSIDE";
        const SELF: &str = "with_the_feature::commands_enable_and_disable";
        if env::var_os(INSIDE).is_some() {
            enable_and_disable_tcp();
            attach_and_detach_ports();
            remove_pins_of_deleted_devices();
            return;
        }
        let status = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c"])
            .arg("mount -t bpf bpf /sys/fs/bpf && ip link set lo up && exec \"$0\" \"$@\"")
            .arg(env::current_exe().expect("a test program has a path"))
            .args(["--ignored", "--exact", SELF, "--nocapture"])
            .env(INSIDE, "1")
            .status();
        assert!(status.expect("unshare is installed (util-linux)").success());
    }

    /// One TCP flow through a link of 50 Mbit/s.
    const LINE: &str = r#"title = "one flow"
source = "none"
stop = "300 ms"

[topology]
kind = "star"
hosts = 2
link = { rate = "50 Mbps", delay = "5 us" }

[switch]
buffer = { policy = "per-queue", size = "100 kB" }
stamp = "off"

[transport]
mtu = "1440 B"

[laws.cubic]
base = "cubic"
preset = "linux"

[[traffic]]
name = "flow"
kind = "long-flows"
from = "host0"
to = "host1"
law = "cubic"

[observe]
sample = "10 ms"
bin = "10 ms"
"#;

    /// Both sides are this program, so the gate passes with a wide margin.
    #[test]
    #[ignore = "needs root and a kernel with BPF: .ci/linux"]
    fn gate_compares_neighbouring_runs_on_real_packets() {
        let folder = env::temp_dir().join(format!("poseidon-gate-on-linux-{}", std::process::id()));
        let [scenario, results] = ["line.toml", "out"].map(|name| folder.join(name));
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        fs::write(&scenario, LINE).expect("the temporary folder is writable");
        let [scenario, results] = [&scenario, &results].map(|path| path.to_str().expect("the path is UTF-8"));
        let args =
            ["gate", scenario, "--on", "linux", "--base-program", POSEIDON, "--seeds", "5", "-o", results];
        let (code, out, err) =
            run_poseidon(&[&args[..], &["--fail-if", "flow.total_gbps < -50%", "--quiet"]].concat());
        let _ = fs::remove_dir_all(&folder);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains("5 pairs") && out.contains("gate: pass (1 comparisons"), "{out}");
    }

    fn enable_and_disable_tcp() {
        let group = Group::new();
        let cgroup = group.0.to_str().expect("the path is UTF-8");
        assert_eq!(json(&["tcp", "status", "--json"])["on"], false);
        let enable = ["tcp", "enable", "--rate", "1 Gbps", "--set", "target-range=2 ms", "--cgroup", cgroup];
        let (code, out, err) = retry_while_name_is_taken(&enable);
        assert_eq!((code, out.trim()), (0, cgroup), "{err}");
        let status = json(&["tcp", "status", "--json"]);
        assert_eq!((&status["on"], &status["flows"]), (&Value::Bool(true), &Value::from(0)), "{status}");
        assert_eq!(status["settings"]["target-range"], "2 ms", "{status}");
        let (code, _, err) = run_poseidon(&enable);
        assert!(code == 1 && err.contains("poseidon is already enabled"), "{err}");

        let connection = group.connection();
        let port = connection.peer_addr().expect("the socket is connected").port();
        let flows = json(&["tcp", "flows", "--json"]);
        let is_sender = |flow: &&Value| flow["remote"] == format!("127.0.0.1:{port}");
        let flow = flows
            .as_array()
            .and_then(|flows| flows.iter().find(is_sender))
            .unwrap_or_else(|| panic!("{flows}"));
        assert_eq!(
            (&flow["speaks_option"], &flow["mode"]),
            (&Value::Bool(true), &Value::from("delay")),
            "{flow}"
        );
        for key in ["target_ns", "rtt_ns", "base_rtt_ns", "mss_bytes", "acked_bytes", "acks_with_echo"] {
            assert!(flow[key].as_u64().is_some_and(|number| number > 0), "{key}: {flow}");
        }
        assert!(flow["window_packets"].as_f64().is_some_and(|window| window > 0.0), "{flow}");
        let (_, table, _) = run_poseidon(&["tcp", "flows"]);
        assert!(table.starts_with("local ") && table.contains(&format!("127.0.0.1:{port}")), "{table}");
        let (_, text, _) = run_poseidon(&["tcp", "status"]);
        assert!(text.contains("2 sockets run the law") && text.contains("target-range=2 ms"), "{text}");
        drop(connection);

        assert_eq!(run_poseidon(&["tcp", "disable"]), (0, String::new(), String::new()));
        assert_eq!(json(&["tcp", "status", "--json"])["on"], false);
        assert_eq!(run_poseidon(&["tcp", "disable"]).2, "poseidon: poseidon is not enabled\n");
        assert_eq!(run_poseidon(&["tcp", "flows"]).0, 1);
        assert!(!Path::new("/sys/fs/bpf/poseidon").exists() && group.0.is_dir());
    }

    fn attach_and_detach_ports() {
        let script = "ip link add d0 type veth peer name d1; ip addr add 10.9.1.1/24 dev d0; ip link set d0 up; ip link set d1 up; \
                      tc qdisc add dev d0 root tbf rate 100mbit burst 10000 limit 1000000";
        assert!(Command::new("sh").args(["-ec", script]).status().expect("a shell is installed").success());
        let run =
            |args: &[&str]| assert_eq!(run_poseidon(args), (0, String::new(), String::new()), "{args:?}");
        run(&["switch", "attach", "--dev", "d0"]);
        run(&["rpm", "attach", "--dev", "d0", "--direction", "per-port", "--target", "2 ms"]);
        let port = &json(&["switch", "status", "--dev", "d0", "--json"])[0];
        assert_eq!(
            (&port["rate_bps"], &port["stamps"]),
            (&Value::from(100_000_000), &Value::Bool(true)),
            "{port}"
        );
        run(&["switch", "set", "--dev", "d0", "--stamps", "off", "--rate", "50 Mbps"]);
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
            let (_, metrics, _) = run_poseidon(&[kind, "status", "--dev", "d0", "--metrics"]);
            assert!(metrics.ends_with("# EOF\n") && metrics.contains("{device=\"d0\""), "{metrics}");
            let (_, text, _) = run_poseidon(&[kind, "status", "--dev", "d0"]);
            assert!(text.starts_with("d0: ") && text.contains("packets: "), "{text}");
        }
        let ports = json(&["switch", "status", "--json"]);
        assert_eq!(ports.as_array().map(Vec::len), Some(1), "all ports are listed: {ports}");
        assert_eq!(ports[0]["device"], "d0");
        let (code, metrics, error) = run_poseidon(&["metrics"]);
        assert_eq!(code, 0, "{error}");
        for expected in [
            "poseidon_build_info{version=",
            "poseidon_tcp_enabled 0",
            "poseidon_switch_stamps{device=\"d0\"} 0",
            "poseidon_rpm_marks_waiting{device=\"d0\"} 0",
        ] {
            assert!(metrics.contains(expected), "{expected} is missing in\n{metrics}");
        }
        let (_, text, _) = run_poseidon(&["switch", "status", "--dev", "d0"]);
        assert!(text.contains("measures only") && text.contains("the queue drains at 100 Mbps"), "{text}");
        run(&["switch", "detach", "--dev", "d0"]);
        run(&["rpm", "detach", "--dev", "d0"]);
        assert_eq!(run_poseidon(&["switch", "status", "--dev", "d0"]).0, 1);
        assert_eq!(json(&["rpm", "status", "--json"]), Value::Array(Vec::new()));
    }

    /// The pins of a deleted device can be listed and removed.
    fn remove_pins_of_deleted_devices() {
        let sh = |script: &str| {
            assert!(Command::new("sh").args(["-ec", script]).status().is_ok_and(|status| status.success()))
        };
        let run =
            |args: &[&str]| assert_eq!(run_poseidon(args), (0, String::new(), String::new()), "{args:?}");
        sh("ip link add s0 type veth peer name s1; ip link set s0 up; \
            tc qdisc add dev s0 root tbf rate 100mbit burst 10000 limit 1000000");
        run(&["switch", "attach", "--dev", "s0"]);
        run(&["switch", "status", "--stale"]);
        sh("ip link del s0");
        let pins = json(&["switch", "status", "--stale", "--json"]);
        let path = pins[0]["path"].as_str().unwrap_or_else(|| panic!("{pins}")).to_owned();
        let (_, text, _) = run_poseidon(&["switch", "status", "--stale"]);
        assert!(text.contains(&path) && text.contains("no longer exists"), "{text}");
        let (_, text, _) = run_poseidon(&["switch", "detach", "--stale"]);
        assert_eq!(text, format!("removed {path}\n"));
        run(&["switch", "status", "--stale"]);
        assert!(!Path::new(&path).exists());
    }

    /// Retries `args`. Congestion control names are unique on the machine, so another test may still be using the name.
    #[expect(clippy::disallowed_methods, reason = "another process needs time to end")]
    fn retry_while_name_is_taken(args: &[&str]) -> (i32, String, String) {
        for _ in 0..60 {
            let output = run_poseidon(args);
            if !output.2.contains("is already registered") {
                return output;
            }
            thread::sleep(Duration::from_millis(500));
        }
        run_poseidon(args)
    }

    /// A cgroup for this test. Dropping this value removes the cgroup.
    struct Group(PathBuf);

    impl Group {
        fn new() -> Self {
            let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
            let device =
                mounts.lines().find_map(|line| line.split(" cgroup2 ").next().filter(|start| *start != line));
            let root = device.and_then(|start| start.split(' ').nth(1)).expect("cgroup v2 is mounted");
            let path = Path::new(root).join(format!("poseidon-command-{}", std::process::id()));
            fs::create_dir(&path).expect("root may change cgroups");
            Self(path)
        }

        /// Opens a connection in the cgroup and sends a megabyte through it.
        fn connection(&self) -> TcpStream {
            let join =
                |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").expect("root may change cgroups");
            join(&self.0);
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let mut stream = TcpStream::connect(listener.local_addr().expect("the listener has an address"))
                .expect("the listener accepts connections");
            join(self.0.parent().expect("the cgroup has a parent"));
            let mut receiver = listener.accept().expect("the socket is connected").0;
            let reader = thread::spawn(move || {
                let mut data = vec![0; 1 << 20];
                receiver.read_exact(&mut data).expect("the sender writes a megabyte");
                receiver
            });
            stream.write_all(&vec![7; 1 << 20]).expect("the receiver reads");
            // Keep the receiver open, because a closed socket has no row in the table.
            Box::leak(Box::new(reader.join().expect("the reader does not panic")));
            stream
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }
}
