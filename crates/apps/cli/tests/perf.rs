//! Tests the exit codes and the output of `poseidon perf`, with and without the feature `quic`.

mod output;

use output::run_poseidon;

#[test]
fn invalid_arguments_are_usage_errors() {
    for (args, message) in [
        (&["perf"] as &[&str], "poseidon perf <COMMAND>"),
        (&["perf", "client"], "<SERVER>"),
        (&["perf", "client", "127.0.0.1:1", "--name", "x"], "--ca <FILE>"),
        (&["perf", "client", "127.0.0.1:1", "--mtu", "576"], "576 is not in"),
        (&["perf", "server", "--cert", "x"], "--key <FILE>"),
        (&["perf", "client", "127.0.0.1:1", "--time", "10"], "time without a unit"),
        (&["perf", "client", "127.0.0.1:1", "--interval", "1 ms"], "the shortest interval is 10 ms"),
        (&["perf", "client", "127.0.0.1:1", "--connections", "0"], "0 is not in"),
        (&["perf", "client", "127.0.0.1:1", "--streams", "101"], "101 is not in"),
        (&["perf", "server", "--rate", "1"], "rate without a unit"),
    ] {
        let (code, out, err) = run_poseidon(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
}

#[cfg(not(feature = "quic"))]
#[test]
fn build_without_quic_prints_how_to_enable_it() {
    for args in [&["perf", "server", "--once"] as &[&str], &["perf", "client", "127.0.0.1:1", "--json"]] {
        let (code, out, err) = run_poseidon(args);
        assert_eq!((code, out.as_str()), (5, ""), "{args:?}: {err}");
        assert!(err.contains("cargo install --path crates/apps/cli --features quic"), "{args:?}: {err}");
    }
}

#[cfg(feature = "quic")]
mod with_quic {
    use crate::output::{POSEIDON, run_poseidon};
    use serde_json::Value;
    use std::io::{BufRead as _, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::{env, fs, process};

    /// A server on a free port. It exits when its client has disconnected, or when it is dropped.
    struct Server {
        child: Child,
        address: String,
    }

    impl Server {
        fn start(options: &[&str]) -> Self {
            Self::start_on("127.0.0.1:0", options)
        }

        fn start_on(listen: &str, options: &[&str]) -> Self {
            let mut child = Command::new(POSEIDON)
                .args(["perf", "server", "--once", "--listen", listen])
                .args(options)
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command starts");
            let mut line = String::new();
            BufReader::new(child.stderr.take().expect("the output is piped"))
                .read_line(&mut line)
                .expect("the output is text");
            let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
            Self { child, address: address.to_owned() }
        }

        fn wait_for_success(mut self) -> bool {
            self.child.wait().expect("the process is a child").success()
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            // The process may have ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn parse_json_lines(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Parses a JSON text sequence (RFC 7464): each text follows a record separator and ends with a line feed.
    fn parse_sequence(file: &Path) -> Vec<Value> {
        let text = fs::read_to_string(file).expect("the file exists");
        assert!(text.ends_with('\n'), "the last record is complete");
        let records =
            text.strip_prefix('\u{1e}').expect("the log starts with a record separator").split('\u{1e}');
        records.map(|record| serde_json::from_str(record).unwrap_or_else(|_| panic!("{record}"))).collect()
    }

    fn log_file(test: &str) -> PathBuf {
        env::temp_dir().join(format!("poseidon-perf-{test}-{}.sqlog", process::id()))
    }

    #[test]
    fn client_prints_intervals_and_a_summary_and_logs_every_decision() {
        let server = Server::start(&["--rate", "100 Mbps"]);
        let file = log_file("intervals");
        let qlog = file.to_str().expect("the path is text");
        let (code, out, err) = run_poseidon(&[
            "perf",
            "client",
            &server.address,
            "--rate",
            "100 Mbps",
            "--connections",
            "2",
            "--streams",
            "3",
            "--time",
            "600 ms",
            "--interval",
            "200 ms",
            "--json",
            "--qlog",
            qlog,
            "--qlog-interval",
            "0 ns",
        ]);
        assert_eq!(code, 0, "{err}");
        assert!(server.wait_for_success());
        let reports = parse_json_lines(&out);
        let (summary, intervals) = reports.split_last().expect("the output has a summary");
        assert_eq!(intervals.len(), 3, "{out}");
        assert!(intervals.windows(2).all(|pair| pair[0]["to_s"] == pair[1]["from_s"]), "{out}");
        assert_eq!(
            (&summary["law"], summary["flows"].as_array().map(Vec::len)),
            (&"poseidon".into(), Some(2))
        );
        let bytes = |flow: &Value| flow["bytes"].as_u64().expect("the value is a number");
        let flow_bytes: Vec<u64> =
            summary["flows"].as_array().expect("there are two flows").iter().map(bytes).collect();
        assert!(flow_bytes.iter().all(|bytes| *bytes > 0), "{summary}");
        assert_eq!(bytes(summary), flow_bytes.iter().sum::<u64>());
        // The server defines the intervals. They add up to the summary, and none is empty.
        let interval_bytes = |interval: &Value| {
            interval["flows"].as_array().expect("there are two flows").iter().map(bytes).sum::<u64>()
        };
        assert_eq!(bytes(summary), intervals.iter().map(interval_bytes).sum::<u64>());
        assert!(intervals.iter().all(|interval| interval_bytes(interval) > 0), "{out}");
        assert_decisions(&file, bytes(summary));
        fs::remove_file(&file).expect("the file exists");
    }

    /// Checks that both laws made decisions, and that the acknowledged bytes cover the counted bytes.
    fn assert_decisions(file: &Path, counted_bytes: u64) {
        let log = parse_sequence(file);
        let [header, decisions @ .., end] = log.as_slice() else { panic!("{log:?}") };
        assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential");
        assert_eq!(header["trace"]["event_schemas"][0], "tag:poseidon,2026:qlog-events");
        assert_eq!(end["name"], "poseidon:end");
        assert_eq!(header["trace"]["vantage_point"]["type"], "client");
        assert_eq!((&end["data"]["lost"], &end["data"]["skipped"]), (&0.into(), &0.into()));
        assert!(decisions.iter().all(|line| line["name"] == "poseidon:decision"));
        let acked = |flow: u64| -> u64 {
            let flow_decisions = decisions.iter().filter(|line| line["data"]["flow"] == flow);
            flow_decisions.filter_map(|line| line["data"]["acked_bytes"].as_u64()).sum()
        };
        assert!(acked(1) > 0 && acked(2) > 0);
        assert!(acked(1) + acked(2) >= counted_bytes, "{} and {} of {counted_bytes}", acked(1), acked(2));
    }

    #[test]
    fn server_is_reachable_by_name_and_by_either_address_family() {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let server = Server::start_on("[::]:0", &[]);
            let (_, port) = server.address.rsplit_once(':').expect("the address has a port");
            let (code, out, err) =
                run_poseidon(&["perf", "client", &format!("{host}:{port}"), "--time", "100 ms"]);
            assert_eq!(code, 0, "{host}: {err}");
            assert!(out.contains("Mbit/s"), "{out}");
            assert!(server.wait_for_success());
        }
    }

    #[test]
    fn jumbo_packets_are_sent_with_a_large_mtu() {
        for law in ["poseidon", "quinn"] {
            let options = ["--law", law, "--mtu", "9000"];
            let server = Server::start(&options);
            let args =
                [&["perf", "client", &server.address, "--time", "500 ms", "--json"], &options as &[&str]]
                    .concat();
            let (code, out, err) = run_poseidon(&args);
            assert_eq!(code, 0, "{law}: {err}");
            let summary = parse_json_lines(&out).pop().expect("the output has a summary");
            assert_eq!(summary["lost_packets"], 0, "{law}: {summary}");
            assert!(server.wait_for_success());
        }
    }

    fn start_client(server: &Server, log: &Path) -> Child {
        let log = log.to_str().expect("the path is text");
        let mut client = Command::new(POSEIDON)
            .args(["perf", "client", &server.address, "--time", "60 s", "--interval", "200 ms", "--json"])
            .args(["--qlog", log])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        // Wait for the first report.
        let mut line = String::new();
        BufReader::with_capacity(1, client.stdout.as_mut().expect("the output is piped"))
            .read_line(&mut line)
            .expect("the output is text");
        assert!(line.contains("from_s"), "{line}");
        client
    }

    #[test]
    fn ctrl_c_prints_the_summary_and_closes_the_log() {
        let (server, log) = (Server::start(&[]), log_file("ctrl-c"));
        let client = start_client(&server, &log);
        let signal = Command::new("kill")
            .args(["-INT", &client.id().to_string()])
            .status()
            .expect("kill is installed");
        assert!(signal.success());
        let output = client.wait_with_output().expect("the process is a child");
        assert_eq!(output.status.code(), Some(130));
        let out = String::from_utf8(output.stdout).expect("the output is text");
        let summary = parse_json_lines(&out).pop().expect("the output has a summary");
        assert!(summary["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{out}");
        assert_eq!(parse_sequence(&log).pop().expect("the log has a last record")["name"], "poseidon:end");
        assert!(server.wait_for_success());
        fs::remove_file(&log).expect("the file exists");
    }

    #[test]
    fn client_ends_after_the_server_is_killed() {
        let (server, log) = (Server::start(&[]), log_file("killed"));
        let client = start_client(&server, &log);
        drop(server);
        let output = client.wait_with_output().expect("the process is a child");
        assert_eq!(output.status.code(), Some(1));
        let err = String::from_utf8(output.stderr).expect("the output is text");
        assert!(err.contains("the connection failed"), "{err}");
        // The client stops after the idle timeout, long before its 60 seconds have passed.
        let intervals =
            parse_json_lines(&String::from_utf8(output.stdout).expect("the output is text")).len();
        assert!(intervals < 60, "{intervals} intervals");
        fs::remove_file(&log).expect("the file exists");
    }

    #[test]
    fn plain_quinn_prints_text() {
        let server = Server::start(&["--law", "quinn"]);
        let (code, out, err) =
            run_poseidon(&["perf", "client", &server.address, "--law", "quinn", "--time", "200 ms"]);
        assert_eq!(code, 0, "{err}");
        assert!(server.wait_for_success());
        let last = out.lines().last().expect("the output has a summary");
        assert!(last.starts_with("quinn-cubic: ") && last.contains("over 1 connections"), "{out}");
    }

    #[test]
    fn unknown_host_name_is_reported() {
        let (code, out, err) = run_poseidon(&["perf", "client", "unknown.invalid"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("cannot resolve \"unknown.invalid\""), "{err}");
        let (code, _, err) = run_poseidon(&["perf", "client", "host:port"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("\"port\" is not a port number"), "{err}");
    }

    #[test]
    fn errors_name_the_cause_and_the_remedy() {
        let client = ["perf", "client", "127.0.0.1:1"];
        for (code, options, message) in [
            (2, &["--law", "unknown"] as &[&str], "there is no law \"unknown\"; there are poseidon"),
            (2, &["--law", "hpcc"], "choose a law that needs only these signals, or another host"),
            (2, &["--set", "x"], "write it as NAME=VALUE"),
            (2, &["--set", "target-range=5"], "without a unit"),
            (2, &["--law", "quinn", "--qlog", "x"], "does not report its decisions"),
            (2, &["--law", "quinn", "--set", "a=b"], "has no parameters"),
            (1, &["--qlog", "/nowhere/x"], "opening the log: No such file"),
            (1, &["--ca", "/nowhere/x"], "/nowhere/x: "),
            (1, &["--bind", "192.0.2.1:0"], "binding the socket"),
        ] {
            let args = [&client as &[&str], options].concat();
            let (exit_code, stdout, stderr) = run_poseidon(&args);
            assert_eq!((exit_code, stdout.as_str()), (code, ""), "{args:?}: {stderr}");
            assert!(stderr.starts_with("poseidon: ") && stderr.contains(message), "{args:?}: {stderr}");
        }
    }
}
