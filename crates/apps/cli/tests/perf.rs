//! `poseidon perf`: how it ends and what it prints, with the feature `quic` and without.

mod told;

use told::told;

#[test]
fn what_is_written_wrongly_is_a_matter_of_usage() {
    for (args, says) in [
        (&["perf"] as &[&str], "poseidon perf <COMMAND>"),
        (&["perf", "client"], "<SERVER>"),
        (&["perf", "client", "127.0.0.1:1", "--name", "x"], "--ca <FILE>"),
        (&["perf", "client", "127.0.0.1:1", "--mtu", "576"], "576 is not in"),
        (&["perf", "server", "--cert", "x"], "--key <FILE>"),
        (&["perf", "client", "127.0.0.1:1", "--time", "10"], "time without a unit"),
        (&["perf", "client", "127.0.0.1:1", "--interval", "1 ms"], "the shortest is 10 ms"),
        (&["perf", "client", "127.0.0.1:1", "--connections", "0"], "0 is not in"),
        (&["perf", "client", "127.0.0.1:1", "--streams", "101"], "101 is not in"),
        (&["perf", "server", "--rate", "1"], "rate without a unit"),
    ] {
        let (code, out, err) = told(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

#[cfg(not(feature = "quic"))]
#[test]
fn a_build_without_it_says_how_to_get_it() {
    for args in [&["perf", "server", "--once"] as &[&str], &["perf", "client", "127.0.0.1:1", "--json"]] {
        let (code, out, err) = told(args);
        assert_eq!((code, out.as_str()), (5, ""), "{args:?}: {err}");
        assert!(err.contains("cargo install --path crates/apps/cli --features quic"), "{args:?}: {err}");
    }
}

#[cfg(feature = "quic")]
mod with_the_feature {
    use crate::told::{POSEIDON, told};
    use serde_json::Value;
    use std::io::{BufRead as _, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::{env, fs, process};

    /// A server on a port of its own. It ends when its client has gone, or with the test.
    struct Server {
        child: Child,
        at: String,
    }

    impl Server {
        fn start(steering: &[&str]) -> Self {
            Self::start_on("127.0.0.1:0", steering)
        }

        fn start_on(listen: &str, steering: &[&str]) -> Self {
            let mut child = Command::new(POSEIDON)
                .args(["perf", "server", "--once", "--listen", listen])
                .args(steering)
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command");
            let mut line = String::new();
            BufReader::new(child.stderr.take().expect("it is piped")).read_line(&mut line).expect("text");
            let at = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
            Self { child, at }
        }

        fn ended_well(mut self) -> bool {
            self.child.wait().expect("it is ours").success()
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            // It may have ended; then there is nothing to end.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn lines(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// A sequence of JSON texts as RFC 7464 has it: each behind a record separator, with a line's end.
    fn sequence(file: &Path) -> Vec<Value> {
        let text = fs::read_to_string(file).expect("it was written");
        assert!(text.ends_with('\n'), "the last record is whole");
        let records = text.strip_prefix('\u{1e}').expect("a record separator").split('\u{1e}');
        records.map(|record| serde_json::from_str(record).unwrap_or_else(|_| panic!("{record}"))).collect()
    }

    fn log_file(test: &str) -> PathBuf {
        env::temp_dir().join(format!("poseidon-perf-{test}-{}.sqlog", process::id()))
    }

    #[test]
    fn intervals_then_the_whole_and_every_decision() {
        let server = Server::start(&["--rate", "100 Mbps"]);
        let file = log_file("intervals");
        let qlog = file.to_str().expect("its path is text");
        let (code, out, err) = told(&[
            "perf",
            "client",
            &server.at,
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
        assert!(server.ended_well());
        let said = lines(&out);
        let (whole, intervals) = said.split_last().expect("the whole");
        assert_eq!(intervals.len(), 3, "{out}");
        assert!(intervals.windows(2).all(|two| two[0]["to_s"] == two[1]["from_s"]), "{out}");
        assert_eq!((&whole["law"], whole["flows"].as_array().map(Vec::len)), (&"poseidon".into(), Some(2)));
        let bytes = |flow: &Value| flow["bytes"].as_u64().expect("a number");
        let each: Vec<u64> = whole["flows"].as_array().expect("two").iter().map(bytes).collect();
        assert!(each.iter().all(|bytes| *bytes > 0), "{whole}");
        assert_eq!(bytes(whole), each.iter().sum::<u64>());
        // Intervals are the server's: together they are the whole, and none lags behind.
        let in_interval =
            |interval: &Value| interval["flows"].as_array().expect("two").iter().map(bytes).sum::<u64>();
        assert_eq!(bytes(whole), intervals.iter().map(in_interval).sum::<u64>());
        assert!(intervals.iter().all(|interval| in_interval(interval) > 0), "{out}");
        assert_decisions(&file, bytes(whole));
        fs::remove_file(&file).expect("it was written");
    }

    /// Both connections decided; what was acknowledged is at least what the server counted.
    fn assert_decisions(file: &Path, counted: u64) {
        let log = sequence(file);
        let [head, decisions @ .., end] = log.as_slice() else { panic!("{log:?}") };
        assert_eq!((&head["qlog_format"], &end["name"]), (&"JSON-SEQ".into(), &"poseidon:end".into()));
        assert_eq!(head["trace"]["vantage_point"]["type"], "client");
        assert_eq!((&end["data"]["lost"], &end["data"]["skipped"]), (&0.into(), &0.into()));
        assert!(decisions.iter().all(|line| line["name"] == "poseidon:decision"));
        let acked = |flow: u64| -> u64 {
            let of = decisions.iter().filter(|line| line["data"]["flow"] == flow);
            of.filter_map(|line| line["data"]["acked_bytes"].as_u64()).sum()
        };
        assert!(acked(1) > 0 && acked(2) > 0);
        assert!(acked(1) + acked(2) >= counted, "{} and {} of {counted}", acked(1), acked(2));
    }

    #[test]
    fn a_server_is_found_by_name_and_by_either_address() {
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            let server = Server::start_on("[::]:0", &[]);
            let (_, port) = server.at.rsplit_once(':').expect("a port");
            let (code, out, err) = told(&["perf", "client", &format!("{host}:{port}"), "--time", "100 ms"]);
            assert_eq!(code, 0, "{host}: {err}");
            assert!(out.contains("Mbit/s"), "{out}");
            assert!(server.ended_well());
        }
    }

    #[test]
    fn jumbo_packets_are_sent_where_they_are_asked_for() {
        for law in ["poseidon", "quinn"] {
            let more = ["--law", law, "--mtu", "9000"];
            let server = Server::start(&more);
            let args =
                [&["perf", "client", &server.at, "--time", "500 ms", "--json"], &more as &[&str]].concat();
            let (code, out, err) = told(&args);
            assert_eq!(code, 0, "{law}: {err}");
            let whole = lines(&out).pop().expect("the whole");
            assert_eq!(whole["lost_packets"], 0, "{law}: {whole}");
            assert!(server.ended_well());
        }
    }

    fn start_client(server: &Server, log: &Path) -> Child {
        let log = log.to_str().expect("its path is text");
        let mut client = Command::new(POSEIDON)
            .args(["perf", "client", &server.at, "--time", "60 s", "--interval", "200 ms", "--json"])
            .args(["--qlog", log])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        // It has begun.
        let mut line = String::new();
        BufReader::with_capacity(1, client.stdout.as_mut().expect("it is piped"))
            .read_line(&mut line)
            .expect("text");
        assert!(line.contains("from_s"), "{line}");
        client
    }

    #[test]
    fn ctrl_c_prints_the_whole_and_closes_the_log() {
        let (server, log) = (Server::start(&[]), log_file("ctrl-c"));
        let client = start_client(&server, &log);
        let signal = Command::new("kill").args(["-INT", &client.id().to_string()]).status().expect("kill");
        assert!(signal.success());
        let output = client.wait_with_output().expect("it is ours");
        assert_eq!(output.status.code(), Some(130));
        let out = String::from_utf8(output.stdout).expect("text");
        let whole = lines(&out).pop().expect("the whole");
        assert!(whole["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{out}");
        assert_eq!(sequence(&log).pop().expect("an end")["name"], "poseidon:end");
        assert!(server.ended_well());
        fs::remove_file(&log).expect("it was written");
    }

    #[test]
    fn a_killed_server_ends_the_client() {
        let (server, log) = (Server::start(&[]), log_file("killed"));
        let client = start_client(&server, &log);
        drop(server);
        let output = client.wait_with_output().expect("it is ours");
        assert_eq!(output.status.code(), Some(1));
        let err = String::from_utf8(output.stderr).expect("text");
        assert!(err.contains("the connection broke"), "{err}");
        // Some seconds of silence, and not the minute that it was to take.
        let intervals = lines(&String::from_utf8(output.stdout).expect("text")).len();
        assert!(intervals < 60, "{intervals} intervals");
        fs::remove_file(&log).expect("it was written");
    }

    #[test]
    fn people_get_text_and_quinn_can_steer() {
        let server = Server::start(&["--law", "quinn"]);
        let (code, out, err) = told(&["perf", "client", &server.at, "--law", "quinn", "--time", "200 ms"]);
        assert_eq!(code, 0, "{err}");
        assert!(server.ended_well());
        let last = out.lines().last().expect("the whole");
        assert!(last.starts_with("quinn-cubic: ") && last.contains("over 1 connections"), "{out}");
    }

    #[test]
    fn unknown_host_name_is_reported() {
        let (code, out, err) = told(&["perf", "client", "nobody.invalid"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("the address of \"nobody.invalid\" cannot be found"), "{err}");
        let (code, _, err) = told(&["perf", "client", "host:port"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("\"port\" is no port"), "{err}");
    }

    #[test]
    fn what_is_refused_names_cause_and_fix() {
        let client = ["perf", "client", "127.0.0.1:1"];
        for (code, more, says) in [
            (2, &["--law", "nobody"] as &[&str], "there is no law \"nobody\"; there are poseidon"),
            (2, &["--law", "hpcc"], "choose a law that needs no more, or another host"),
            (2, &["--set", "x"], "write it as NAME=VALUE"),
            (2, &["--set", "target-range=5"], "without a unit"),
            (2, &["--law", "quinn", "--qlog", "x"], "tells of no decision"),
            (2, &["--law", "quinn", "--set", "a=b"], "has no parameters"),
            (1, &["--qlog", "/nowhere/x"], "opening the log: No such file"),
            (1, &["--ca", "/nowhere/x"], "/nowhere/x: "),
            (1, &["--bind", "192.0.2.1:0"], "binding the socket"),
        ] {
            let args = [&client as &[&str], more].concat();
            let told = told(&args);
            assert_eq!((told.0, told.1.as_str()), (code, ""), "{args:?}: {told:?}");
            assert!(told.2.starts_with("poseidon: ") && told.2.contains(says), "{args:?}: {told:?}");
        }
    }
}
