//! Runs `poseidon perf` across Linux routers that stamp packets. The routers are network namespaces with real
//! queues, and the `poseidon-linux` switch is attached to their ports.
//!
//! ```text
//! cargo build --release -p poseidon-cli --features linux,quic          # needs clang-19
//! export POSEIDON=target/release/poseidon
//! cargo test -p poseidon-quic --test testbed -- --ignored --nocapture --test-threads=1
//!
//!   left  ──── r1 ═══════ r2 ═══════ right        ═══ a rate-limited queue with a switch
//!   left2 ──┘     ra  ra2  │  rb
//!              middle ─────┴────── right2
//! ```
//!
//! The test flow goes from left to right, through both queues. A second flow (left2 to right2) shares the first
//! queue, and a third flow (middle to right) shares the second queue. With one bottleneck, all flows go from
//! left to right, and the second queue is ten times as fast.
//!
//! Use an idle machine. On a busy machine, packets also wait for the receiving process, which adds delay that
//! is not queueing delay.
//!
//! Each test re-executes itself in private namespaces. When the test ends, the kernel removes the namespaces.

use core::time::Duration;
use poseidon_netns::{PrivateNetns, path, sh, sh_in};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, fs};

/// The environment variable that marks the re-executed process.
const INSIDE: &str = "POSEIDON_QUIC_INSIDE";
/// The environment variable that holds the path of the `poseidon` command.
const POSEIDON: &str = "POSEIDON";
/// The capacity of each queue in bytes: 40 ms at 100 Mbit/s.
const QUEUE_BYTES: u64 = 500_000;
const DURATION: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn one_bottleneck_against_cubic() {
    if !enter_netns("one_bottleneck_against_cubic") {
        return;
    }
    build_network();
    let mut failures = Vec::new();
    println!(
        "Mbit/s  flows |   goodput, Mbit/s    |   median queue, us    |     Jain      |     drops     | lost, by quinn"
    );
    println!(
        "              | poseidon cubic ratio | poseidon  cubic ratio | posei | cubic | posei | cubic | posei | cubic"
    );
    for rate in [100, 200] {
        configure_queues(rate, rate * 10);
        for flows in [1, 4, 8] {
            // quinn's own CUBIC, without the shim.
            let cubic = Measurement::run("quinn", rate, flows);
            let poseidon = Measurement::run("poseidon", rate, flows);
            let goodput = poseidon.transfer.mbps / cubic.transfer.mbps;
            let queue = cubic.queue_us / poseidon.queue_us.max(1.0);
            println!(
                "{rate:6} {flows:6} | {:8.1} {:5.1} {goodput:5.3} | {:8.0} {:6.0} {queue:5.1} | {:.3} | {:.3} | {:5} | {:5} | {:5} | {:5}",
                poseidon.transfer.mbps,
                cubic.transfer.mbps,
                poseidon.queue_us,
                cubic.queue_us,
                poseidon.transfer.jain,
                cubic.transfer.jain,
                poseidon.drops,
                cubic.drops,
                poseidon.transfer.lost_packets,
                cubic.transfer.lost_packets
            );
            println!(
                "{{\"test\":\"one_bottleneck\",\"mbps\":{rate},\"flows\":{flows},\"goodput_ratio\":{goodput:.4},\
                 \"queue_ratio\":{queue:.2},\"jain\":{:.4},\"drops\":{},\"by_telemetry\":{}}}",
                poseidon.transfer.jain,
                poseidon.drops,
                poseidon.transfer.mode == "telemetry"
            );
            let requirements = [
                (goodput >= 0.9, "goodput below 0.9 of CUBIC's"),
                (queue >= 10.0, "queue more than a tenth of CUBIC's"),
                (poseidon.transfer.jain >= 0.98, "Jain's index below 0.98"),
                (poseidon.drops == 0, "packets dropped"),
                (poseidon.transfer.mode == "telemetry", "not in telemetry mode"),
            ];
            let violated = requirements.iter().filter(|(is_met, _)| !is_met);
            failures.extend(violated.map(|(_, violation)| format!("{rate}/{flows}: {violation}")));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn a_flow_through_two_queues_keeps_its_share() {
    if !enter_netns("a_flow_through_two_queues_keeps_its_share") {
        return;
    }
    build_network();
    configure_queues(100, 100);
    let _servers = [("right", "10.8.2.2"), ("right2", "10.8.4.2")]
        .map(|(host, address)| PerfProcess::start_server(host, address, "poseidon", 100));
    let start_client = |host: &str, server: &str| {
        PerfProcess::start_client(host, server, "poseidon", 100, &["--time", "20 s"])
    };
    let mut clients = [
        start_client("left", "10.8.2.2"),
        start_client("left2", "10.8.4.2"),
        start_client("middle", "10.8.2.2"),
    ];
    let [long_path, first, second] = clients.each_mut().map(|client| client.wait_for_summary().mbps);
    let share = (long_path + first).min(long_path + second) / 2.0;
    println!(
        "two queues {long_path:.1} Mbit/s, one queue {first:.1} and {second:.1}; {:.2} of the fair share",
        long_path / share
    );
    println!("{{\"test\":\"two_queues\",\"victim_share\":{:.4}}}", long_path / share);
    assert!(long_path >= 0.8 * share, "{long_path} of {share}");
}

/// Detaches both switches in the middle of a transfer and attaches them again.
#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn telemetry_vanishes_and_comes_back() {
    if !enter_netns("telemetry_vanishes_and_comes_back") {
        return;
    }
    build_network();
    configure_queues(100, 1_000);
    let drops_before = dropped_packets();
    let qlog = env::temp_dir().join(format!("poseidon-testbed-{}.sqlog", std::process::id()));
    let qlog_path = qlog.to_str().expect("the path is text");
    let _server = PerfProcess::start_server("right", "10.8.2.2", "poseidon", 100);
    let options = ["--time", "10 s", "--interval", "100 ms", "--qlog", qlog_path, "--qlog-interval", "0 ns"];
    let mut client = PerfProcess::start_client("left", "10.8.2.2", "poseidon", 100, &options);
    let third = DURATION.as_secs_f64() / 3.0;
    let mut changes = ["detach", "attach"].into_iter().zip([third, 2.0 * third]).peekable();
    let (mut intervals, mut change_times) = (Vec::new(), Vec::new());
    let summary = loop {
        let report = client.next_report().expect("the client prints a summary");
        let Some(time) = report["to_s"].as_f64() else { break Transfer::parse(&report) };
        let mode = report["flows"][0]["mode"].as_str().expect("the mode is text").to_owned();
        intervals.push((time / third, mode, parse_number(&report["goodput_mbps"])));
        if let Some((command, _)) = changes.next_if(|(_, change_time)| time >= *change_time) {
            change_switches(command);
            change_times.push(time);
        }
    };
    // Check the last part of each third, after the effect of the change has settled but before the next change.
    for (end, mode) in [(1.0, "telemetry"), (2.0, "lost"), (3.0, "telemetry")] {
        let settled = || intervals.iter().filter(|(time, ..)| *time > end - 0.3 && *time < end - 0.05);
        let mbps = settled().map(|(.., mbps)| mbps).sum::<f64>() / settled().count() as f64;
        println!("third {end}: {mode}, {mbps:.1} Mbit/s at its end");
        println!("{{\"test\":\"vanishing\",\"third\":{end},\"mode\":\"{mode}\",\"mbps\":{mbps:.2}}}");
        let is_expected = settled().all(|(_, reported, _)| reported == mode);
        assert!(settled().count() > 3 && is_expected, "{end}: {intervals:?}");
        assert!(mbps > 80.0, "{end}: {intervals:?}");
    }
    let decisions = DecisionStats::read(&qlog);
    fs::remove_file(&qlog).expect("the client has written the file");
    let rtt = decisions.median_rtt_us;
    // The command takes some time, and the host detects lost telemetry after eight ACKs and three round trips.
    let follows_change =
        |time: f64| change_times.iter().any(|change| (*change..change + 1.0).contains(&time));
    let longest_gap = |after_change: bool| {
        let gaps = decisions.ack_gaps.iter();
        let selected = gaps.filter(|gap| follows_change(gap.start_s) == after_change && gap.start_s > 0.2);
        selected.map(|gap| gap.us).fold(0.0, f64::max)
    };
    println!(
        "modes {}; median RTT {rtt} us; longest ACK gap {} us in the second after a change, {} us elsewhere; \
         {} packets dropped, {} declared lost",
        decisions.modes.join(","),
        longest_gap(true),
        longest_gap(false),
        dropped_packets() - drops_before,
        summary.lost_packets
    );
    println!(
        "{{\"test\":\"vanishing\",\"median_rtt_us\":{rtt},\"longest_hole_after_change_us\":{}}}",
        longest_gap(true)
    );
    assert_eq!(decisions.modes, ["delay", "telemetry", "lost", "telemetry"]);
    let gap = longest_gap(true);
    assert!(gap < 10.0 * rtt, "{gap} us without an ACK, median RTT {rtt} us");
}

/// The measurements of one configuration.
struct Measurement {
    transfer: Transfer,
    /// The median delay of the first queue.
    queue_us: f64,
    drops: u64,
}

impl Measurement {
    fn run(law: &str, rate_mbps: u64, flows: u64) -> Self {
        let _server = PerfProcess::start_server("right", "10.8.2.2", law, rate_mbps);
        let (delays_before, drops_before) = (DelayHistogram::read(), dropped_packets());
        let options = ["--time", "10 s", "--connections", &flows.to_string()];
        let transfer =
            PerfProcess::start_client("left", "10.8.2.2", law, rate_mbps, &options).wait_for_summary();
        Self {
            transfer,
            queue_us: DelayHistogram::read().median_since(&delays_before),
            drops: dropped_packets() - drops_before,
        }
    }
}

/// The summary of `poseidon perf client`.
struct Transfer {
    mbps: f64,
    jain: f64,
    mode: String,
    lost_packets: u64,
}

impl Transfer {
    fn parse(summary: &Value) -> Self {
        Self {
            mbps: parse_number(&summary["goodput_mbps"]),
            jain: parse_number(&summary["jain"]),
            mode: summary["flows"][0]["mode"].as_str().expect("the mode is text").to_owned(),
            lost_packets: summary["lost_packets"].as_u64().expect("the value is a number"),
        }
    }
}

fn parse_number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Statistics from the decision log of a transfer.
struct DecisionStats {
    median_rtt_us: f64,
    /// The sequence of modes.
    modes: Vec<String>,
    /// The gaps of more than one millisecond between consecutive ACKs.
    ack_gaps: Vec<AckGap>,
}

struct AckGap {
    us: f64,
    /// The time of the ACK before the gap.
    start_s: f64,
}

impl DecisionStats {
    /// Reads a qlog file with all decisions.
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("the client has written the file");
        let records = text.split('\u{1e}').filter(|record| !record.is_empty());
        let events: Vec<Value> = records
            .map(|record| serde_json::from_str(record).expect("the record is JSON"))
            .filter(|event: &Value| event["name"] == "poseidon:decision")
            .collect();
        let mut rtts: Vec<f64> =
            events.iter().map(|event| parse_number(&event["data"]["rtt_ns"]) / 1e3).collect();
        rtts.sort_unstable_by(f64::total_cmp);
        let mut modes: Vec<String> = events
            .iter()
            .map(|event| event["data"]["mode"].as_str().expect("the mode is text").to_owned())
            .collect();
        modes.dedup();
        let ack_times_ms: Vec<f64> = events
            .iter()
            .filter(|event| event["data"]["acked_bytes"] != 0)
            .map(|event| parse_number(&event["time"]))
            .collect();
        let gaps = ack_times_ms.windows(2).filter(|pair| pair[1] - pair[0] > 1.0);
        let ack_gaps =
            gaps.map(|pair| AckGap { us: (pair[1] - pair[0]) * 1e3, start_s: pair[0] / 1e3 }).collect();
        Self { median_rtt_us: rtts[rtts.len() / 2].floor(), modes, ack_gaps }
    }
}

/// The cumulative delay histogram of the first queue: upper bounds in seconds and packet counts.
struct DelayHistogram(Vec<(f64, u64)>);

impl DelayHistogram {
    fn read() -> Self {
        let text = run_sh(&format!("{} switch status --dev ra --metrics", poseidon().display()));
        let parse_bucket = |line: &str| {
            let rest = line.strip_prefix("poseidon_switch_delay_seconds_bucket{")?;
            let (labels, count) = rest.split_once("} ")?;
            let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
            Some((bound.parse().unwrap_or(f64::INFINITY), count.trim().parse().ok()?))
        };
        let buckets: Vec<(f64, u64)> = text.lines().filter_map(parse_bucket).collect();
        assert!(!buckets.is_empty(), "no histogram in {text}");
        Self(buckets)
    }

    /// Returns the upper bound of the median's bucket, in microseconds.
    fn median_since(&self, before: &Self) -> f64 {
        let count_before = |bound: f64| {
            before.0.iter().filter(|(other, _)| *other <= bound).map(|(_, count)| *count).max().unwrap_or(0)
        };
        let counts: Vec<(f64, u64)> =
            self.0.iter().map(|(bound, count)| (*bound, count - count_before(*bound))).collect();
        let total = counts.last().map_or(0, |(_, count)| *count);
        let median = counts.iter().find(|(_, count)| *count * 2 >= total);
        median.map_or(0.0, |(bound, _)| bound * 1e6)
    }
}

fn dropped_packets() -> u64 {
    let text = run_sh("tc -s qdisc show dev ra");
    let (_, rest) = text.split_once("dropped ").expect("tc reports drops");
    rest.split(',').next().and_then(|count| count.parse().ok()).expect("the count is a number")
}

/// Creates the hosts, the routers and the links between them.
fn build_network() {
    run_sh("ip link set lo up; ip netns add r2; ip -n r2 link set lo up");
    for (host, host_device, router_device, net, router) in [
        ("left", "a0", "la", 1, None),
        ("left2", "a1", "lb", 3, None),
        ("right", "b0", "rb", 2, Some("r2")),
        ("right2", "b1", "rc", 4, Some("r2")),
        ("middle", "m0", "rd", 5, Some("r2")),
    ] {
        let router_ip = router.map_or_else(|| "ip".to_owned(), |router| format!("ip -n {router}"));
        let host_ip = format!("ip -n {host}");
        run_sh(&format!(
            "ip netns add {host}
             {router_ip} link add {router_device} type veth peer name {host_device} netns {host}
             {router_ip} addr add 10.8.{net}.1/24 dev {router_device}
             {router_ip} link set {router_device} up
             {host_ip} link set lo up
             {host_ip} addr add 10.8.{net}.2/24 dev {host_device}
             {host_ip} link set {host_device} up
             {host_ip} route add default via 10.8.{net}.1"
        ));
        disable_offloads(Some(host), host_device);
        disable_offloads(router, router_device);
    }
    run_sh(
        "ip link add ra type veth peer name ra2 netns r2; ip addr add 10.8.9.1/24 dev ra; ip link set ra up",
    );
    run_sh("ip -n r2 addr add 10.8.9.2/24 dev ra2; ip -n r2 link set ra2 up");
    disable_offloads(None, "ra");
    disable_offloads(Some("r2"), "ra2");
    for net in [2, 4, 5] {
        run_sh(&format!("ip route add 10.8.{net}.0/24 via 10.8.9.2"));
    }
    run_sh("ip -n r2 route add default via 10.8.9.1; echo 1 >/proc/sys/net/ipv4/ip_forward");
    run_sh_in("r2", "echo 1 >/proc/sys/net/ipv4/ip_forward");
}

/// Disables offloads, so that each packet gets its own stamp.
fn disable_offloads(netns: Option<&str>, device: &str) {
    let script = format!("ethtool -K {device} tso off gso off gro off tx off");
    match netns {
        Some(netns) => run_sh_in(netns, &script),
        None => run_sh(&script),
    };
}

/// Sets the rates of the two queues and attaches the switches.
fn configure_queues(first_mbps: u64, second_mbps: u64) {
    let poseidon = poseidon().display().to_string();
    // On the first call, no switch is attached yet.
    let script = |device: &str, rate: u64| {
        format!(
            "{poseidon} switch detach --dev {device} 2>/dev/null || true
             tc qdisc replace dev {device} root tbf rate {rate}mbit burst 10000 limit {QUEUE_BYTES}
             tc qdisc show dev {device} | grep -q clsact || tc qdisc add dev {device} clsact
             {poseidon} switch attach --dev {device}"
        )
    };
    run_sh(&script("ra", first_mbps));
    run_sh_in("r2", &script("rb", second_mbps));
}

/// Attaches or detaches both switches.
fn change_switches(command: &str) {
    let poseidon = poseidon().display().to_string();
    run_sh(&format!("{poseidon} switch {command} --dev ra"));
    run_sh_in("r2", &format!("{poseidon} switch {command} --dev rb"));
}

fn poseidon() -> PathBuf {
    let path = env::var_os(POSEIDON).map(PathBuf::from);
    path.expect("POSEIDON must be the path of the command, built with the features linux and quic")
}

/// Re-executes the test in private namespaces. Returns true in the re-executed process.
fn enter_netns(test: &str) -> bool {
    let netns = PrivateNetns::new(INSIDE)
        // The clients and servers use core 0. On the same core, a command that attaches a switch would delay
        // them by milliseconds.
        .wrapper(&["taskset", "-c", "1"])
        .env(POSEIDON, poseidon().canonicalize().expect("the command exists"));
    netns.run_test(test)
}

fn run_sh(script: &str) -> String {
    sh(script).unwrap_or_else(|error| panic!("{error}"))
}

fn run_sh_in(netns: &str, script: &str) -> String {
    sh_in(netns, script).unwrap_or_else(|error| panic!("{error}"))
}

/// A running `poseidon perf` process in a namespace. Dropping the value kills the process.
struct PerfProcess {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl PerfProcess {
    /// Starts a server and waits until it listens.
    fn start_server(netns: &str, address: &str, law: &str, rate_mbps: u64) -> Self {
        let args = ["server", "--listen", &format!("{address}:65053")];
        let mut server = Self::start(netns, law, rate_mbps, &args, Stdio::piped());
        let mut line = String::new();
        let stderr = server.child.stderr.as_mut().expect("stderr is piped");
        BufReader::with_capacity(1, stderr).read_line(&mut line).expect("the message is text");
        assert!(line.starts_with("listening on "), "{line}");
        server
    }

    /// Starts a client. It binds to port 65053, so that the switches also stamp the reverse path.
    fn start_client(netns: &str, server: &str, law: &str, rate_mbps: u64, options: &[&str]) -> Self {
        let server = format!("{server}:65053");
        let args = [&["client", &server, "--bind", "0.0.0.0:65053", "--json"], options].concat();
        Self::start(netns, law, rate_mbps, &args, Stdio::inherit())
    }

    fn start(netns: &str, law: &str, rate_mbps: u64, args: &[&str], stderr: Stdio) -> Self {
        let mut child = Command::new("taskset")
            // The test's own commands use the other core (see `enter_netns`).
            .args(["-c", "0", "nsenter"])
            .arg(format!("--net={}", path(netns).display()))
            .arg(poseidon())
            .arg("perf")
            .args(args)
            .args(["--law", law, "--rate", &format!("{rate_mbps} Mbps")])
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("taskset (util-linux) is installed");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Self { child, stdout }
    }

    /// Waits for the next JSON report. Returns `None` when the process has ended.
    fn next_report(&mut self) -> Option<Value> {
        let line = self.stdout.next()?.expect("the report is text");
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}")))
    }

    /// Waits until the client has printed its summary.
    fn wait_for_summary(&mut self) -> Transfer {
        let reports = core::iter::from_fn(|| self.next_report());
        Transfer::parse(&reports.last().expect("the client prints a summary"))
    }
}

impl Drop for PerfProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
