//! QUIC through Linux routers that stamp: network namespaces, real queues, and `poseidon-linux`'s switch on their ports.
//!
//! ```text
//! cargo build -p poseidon-cli --features linux          # needs clang-19
//! POSEIDON=target/debug/poseidon cargo test -p poseidon-quic --test testbed -- --ignored --nocapture --test-threads=1
//!
//!   left  ──── r1 ═══════ r2 ═══════ right        ═══ a queue of the rate at hand, with a switch on it
//!   left2 ──┘     ra  ra2  │  rb
//!              middle ─────┴────── right2
//! ```
//!
//! The victim goes from left to right, through both queues; one other flow shares the first with it (left2 to right2) and one the second
//! (middle to right). With one bottleneck, everything goes from left to right and the second queue is ten times as fast.
//!
//! Run it on a machine that does nothing else: a packet that waits for its reader has not waited in the queue.
//!
//! The test starts itself anew in namespaces of its own; when it ends, whichever way, the kernel takes all of it away. Hosts are the
//! same program once more, with a role.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use poseidon_laws::AnyParams;
use poseidon_quic::perf::{ClientArgs, Interval, ServerArgs, Steering, Stop, run, serve};
use poseidon_quic::{Config, Decided, Observer};
use poseidon_types::BitRate;
use poseidon_wire::shim::DEFAULT_UDP_PORT;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

const INSIDE: &str = "POSEIDON_QUIC_INSIDE";
const ROLE: &str = "POSEIDON_QUIC_ROLE";
const SWITCH: &str = "POSEIDON";
/// What a host says, among the lines of the test harness.
const SAYS: &str = "> ";
/// Room in each queue, bytes: 40 ms at 100 Mbit/s.
const ROOM: u64 = 500_000;
const TIME: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn one_bottleneck_against_cubic() {
    if !enter("one_bottleneck_against_cubic") {
        return;
    }
    build();
    let mut failures = Vec::new();
    println!(
        "Mbit/s  flows |   goodput, Mbit/s    |   median queue, us    |     Jain      |     drops     | lost, by quinn"
    );
    println!(
        "              | poseidon cubic ratio | poseidon  cubic ratio | posei | cubic | posei | cubic | posei | cubic"
    );
    for rate in [100, 200] {
        queues(rate, rate * 10);
        for flows in [1, 4, 8] {
            // quinn's own, without the shim.
            let cubic = cell("quinn", rate, flows);
            let poseidon = cell("poseidon", rate, flows);
            let goodput = poseidon.mbps / cubic.mbps;
            let queue = cubic.queue_us / poseidon.queue_us.max(1.0);
            println!(
                "{rate:6} {flows:6} | {:8.1} {:5.1} {goodput:5.3} | {:8.0} {:6.0} {queue:5.1} | {:.3} | {:.3} | {:5} | {:5} | {:5} | {:5}",
                poseidon.mbps,
                cubic.mbps,
                poseidon.queue_us,
                cubic.queue_us,
                poseidon.jain,
                cubic.jain,
                poseidon.drops,
                cubic.drops,
                poseidon.lost,
                cubic.lost
            );
            println!(
                "{{\"test\":\"one_bottleneck\",\"mbps\":{rate},\"flows\":{flows},\"goodput_ratio\":{goodput:.4},\
                 \"queue_ratio\":{queue:.2},\"jain\":{:.4},\"drops\":{},\"by_telemetry\":{}}}",
                poseidon.jain,
                poseidon.drops,
                poseidon.mode == "telemetry"
            );
            let wanted = [
                (goodput >= 0.9, "goodput below 0.9 of CUBIC's"),
                (queue >= 10.0, "queue not ten times lower"),
                (poseidon.jain >= 0.98, "Jain below 0.98"),
                (poseidon.drops == 0, "drops"),
                (poseidon.mode == "telemetry", "not steered by telemetry"),
            ];
            failures.extend(
                wanted
                    .iter()
                    .filter(|(is_met, _)| !is_met)
                    .map(|(_, what)| format!("{rate}/{flows}: {what}")),
            );
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn a_flow_through_two_queues_keeps_its_share() {
    if !enter("a_flow_through_two_queues_keeps_its_share") {
        return;
    }
    build();
    queues(100, 100);
    let _servers = [("right", "10.8.2.2"), ("right2", "10.8.4.2")]
        .map(|(host, address)| Host::start(host, &format!("serve {address} poseidon 100")));
    let time = TIME.as_secs() * 2;
    let from = |host: &str, to: &str| Host::start(host, &format!("send {to} poseidon 100 1 {time}"));
    let mut flows = [from("left", "10.8.2.2"), from("left2", "10.8.4.2"), from("middle", "10.8.2.2")];
    let [victim, first, second] =
        flows.each_mut().map(|host| Said::parse(&host.next().expect("a result")).mbps);
    let share = (victim + first).min(victim + second) / 2.0;
    println!(
        "victim {victim:.1} Mbit/s, beside it {first:.1} and {second:.1}; {:.2} of its share",
        victim / share
    );
    println!("{{\"test\":\"two_queues\",\"victim_share\":{:.4}}}", victim / share);
    assert!(victim >= 0.8 * share, "{victim} of {share}");
}

/// Both switches are detached in the middle of a transfer, and attached again.
#[test]
#[ignore = "needs root, network namespaces and the switch of poseidon-linux: .ci/long"]
fn telemetry_vanishes_and_comes_back() {
    if !enter("telemetry_vanishes_and_comes_back") {
        return;
    }
    build();
    queues(100, 1_000);
    let switch = switch().display().to_string();
    let both = |what: &str| {
        sh(&format!("{switch} switch {what} --dev ra"));
        on_host("r2", &format!("{switch} switch {what} --dev rb"));
    };
    let drops = dropped();
    let _server = Host::start("right", "serve 10.8.2.2 poseidon 100");
    let mut client = Host::start("left", &format!("watch 10.8.2.2 poseidon 100 1 {}", TIME.as_secs()));
    let third = TIME.as_secs_f64() / 3.0;
    let mut changes = ["detach", "attach"].into_iter().zip([third, 2.0 * third]).peekable();
    let (mut intervals, mut changed) = (Vec::new(), Vec::new());
    let last = loop {
        let said = client.next().expect("a result");
        let Some(interval) = said.strip_prefix("at ") else { break said };
        let words: Vec<&str> = interval.split(' ').collect();
        let at: f64 = words[0].parse().expect("seconds");
        intervals.push((at / third, words[1].to_owned(), words[2].parse::<f64>().expect("Mbit/s")));
        if let Some((what, _)) = changes.next_if(|(_, when)| at >= *when) {
            both(what);
            changed.push(at);
        }
    };
    // Before the end of each third: changes are long over by then, and the transfer is not yet.
    for (end, mode) in [(1.0, "telemetry"), (2.0, "lost"), (3.0, "telemetry")] {
        let settled = || intervals.iter().filter(|(at, ..)| *at > end - 0.3 && *at < end - 0.05);
        let mbps = settled().map(|(.., mbps)| mbps).sum::<f64>() / settled().count() as f64;
        println!("third {end}: {mode}, {mbps:.1} Mbit/s at its end");
        println!("{{\"test\":\"vanishing\",\"third\":{end},\"mode\":\"{mode}\",\"mbps\":{mbps:.2}}}");
        assert!(settled().count() > 3 && settled().all(|(_, told, _)| told == mode), "{end}: {intervals:?}");
        assert!(mbps > 80.0, "{end}: {intervals:?}");
    }
    let words: Vec<&str> = last.split(' ').collect();
    let (rtt, modes, lost): (f64, _, _) = (words[0].parse().expect("microseconds"), words[1], words[2]);
    let holes: Vec<(f64, f64)> = words[3..]
        .iter()
        .filter_map(|hole| hole.split_once('@'))
        .map(|(us, at)| (us.parse().expect("microseconds"), at.parse().expect("seconds")))
        .collect();
    // The command takes a moment, and falling silent is noticed after eight ACKs and three round trips.
    let is_near = |at: f64| changed.iter().any(|change| (*change..change + 1.0).contains(&at));
    let longest = |near: bool| {
        holes
            .iter()
            .filter(|(_, at)| is_near(*at) == near && *at > 0.2)
            .map(|(us, _)| *us)
            .fold(0.0, f64::max)
    };
    println!(
        "modes {modes}; median RTT {rtt} us; longest without an ACK {} us in the second after a change, {} us elsewhere; \
         {} packets dropped, {lost} taken for lost",
        longest(true),
        longest(false),
        dropped() - drops
    );
    println!(
        "{{\"test\":\"vanishing\",\"median_rtt_us\":{rtt},\"longest_hole_after_change_us\":{}}}",
        longest(true)
    );
    assert_eq!(modes, "delay,telemetry,lost,telemetry");
    assert!(longest(true) < 10.0 * rtt, "{} us without an ACK, median RTT {rtt} us", longest(true));
}

/// What one run gave.
struct Cell {
    mbps: f64,
    jain: f64,
    mode: String,
    queue_us: f64,
    drops: u64,
    lost: u64,
}

fn cell(law: &str, rate: u64, flows: u64) -> Cell {
    let _server = Host::start("right", &format!("serve 10.8.2.2 {law} {rate}"));
    let (before, drops) = (Delays::now(), dropped());
    let mut client = Host::start("left", &format!("send 10.8.2.2 {law} {rate} {flows} {}", TIME.as_secs()));
    let said = Said::parse(&client.next().expect("a result"));
    let queue_us = Delays::now().median_since(&before);
    Cell {
        mbps: said.mbps,
        jain: said.jain,
        mode: said.mode,
        queue_us,
        drops: dropped() - drops,
        lost: said.lost,
    }
}

struct Said {
    mbps: f64,
    jain: f64,
    mode: String,
    /// Packets that quinn took for lost.
    lost: u64,
}

impl Said {
    fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        Self {
            mbps: number(0),
            jain: number(1),
            mode: words[2].to_owned(),
            lost: words[3].parse().expect("a number"),
        }
    }
}

/// How many packets waited no longer than so many seconds at the first queue.
struct Delays(Vec<(f64, u64)>);

impl Delays {
    fn now() -> Self {
        let text = sh(&format!("{} switch status --dev ra --metrics", switch().display()));
        let bucket = |line: &str| {
            let rest = line.strip_prefix("poseidon_switch_delay_seconds_bucket{")?;
            let (labels, count) = rest.split_once("} ")?;
            let limit = labels.split("le=\"").nth(1)?.split('"').next()?;
            Some((limit.parse().unwrap_or(f64::INFINITY), count.trim().parse().ok()?))
        };
        let buckets: Vec<(f64, u64)> = text.lines().filter_map(bucket).collect();
        assert!(!buckets.is_empty(), "no histogram in {text}");
        Self(buckets)
    }

    /// Microseconds; the end of the bucket in which the middle packet is.
    fn median_since(&self, before: &Self) -> f64 {
        let seen = |limit: f64| before.0.iter().filter(|(at, _)| *at <= limit).map(|(_, count)| *count).max();
        let counts: Vec<(f64, u64)> =
            self.0.iter().map(|(limit, count)| (*limit, count - seen(*limit).unwrap_or(0))).collect();
        let all = counts.last().map_or(0, |(_, count)| *count);
        let middle = counts.iter().find(|(_, count)| *count * 2 >= all);
        middle.map_or(0.0, |(limit, _)| limit * 1e6)
    }
}

fn dropped() -> u64 {
    let text = sh("tc -s qdisc show dev ra");
    let at = text.find("dropped ").expect("tc counts drops");
    text[at + 8..].split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Lays the wires.
fn build() {
    sh("ip link set lo up; ip netns add r2; ip -n r2 link set lo up");
    for (host, near, far, net, router) in [
        ("left", "a0", "la", 1, None),
        ("left2", "a1", "lb", 3, None),
        ("right", "b0", "rb", 2, Some("r2")),
        ("right2", "b1", "rc", 4, Some("r2")),
        ("middle", "m0", "rd", 5, Some("r2")),
    ] {
        let on_router = router.map_or_else(|| "ip".to_owned(), |router| format!("ip -n {router}"));
        sh(&format!(
            "ip netns add {host}; {on_router} link add {far} type veth peer name {near} netns {host}"
        ));
        sh(&format!("{on_router} addr add 10.8.{net}.1/24 dev {far}; {on_router} link set {far} up"));
        let on = format!("ip -n {host}");
        sh(&format!(
            "{on} link set lo up; {on} addr add 10.8.{net}.2/24 dev {near}; {on} link set {near} up"
        ));
        sh(&format!("{on} route add default via 10.8.{net}.1"));
        plain_packets(Some(host), near);
        plain_packets(router, far);
    }
    sh("ip link add ra type veth peer name ra2 netns r2; ip addr add 10.8.9.1/24 dev ra; ip link set ra up");
    sh("ip -n r2 addr add 10.8.9.2/24 dev ra2; ip -n r2 link set ra2 up");
    plain_packets(None, "ra");
    plain_packets(Some("r2"), "ra2");
    for net in [2, 4, 5] {
        sh(&format!("ip route add 10.8.{net}.0/24 via 10.8.9.2"));
    }
    sh("ip -n r2 route add default via 10.8.9.1; echo 1 >/proc/sys/net/ipv4/ip_forward");
    on_host("r2", "echo 1 >/proc/sys/net/ipv4/ip_forward");
}

/// One stamp per packet: no device hands on several as one.
fn plain_packets(host: Option<&str>, device: &str) {
    let script = format!("ethtool -K {device} tso off gso off gro off tx off");
    match host {
        Some(host) => on_host(host, &script),
        None => sh(&script),
    };
}

/// Sets the rates of the two queues, and the switches on them.
fn queues(first_mbps: u64, second_mbps: u64) {
    let switch = switch().display().to_string();
    // Not attached at first.
    let again = |device: &str, rate: u64| {
        format!(
            "{switch} switch detach --dev {device} 2>/dev/null || true; \
             tc qdisc replace dev {device} root tbf rate {rate}mbit burst 10000 limit {ROOM}; \
             tc qdisc show dev {device} | grep -q clsact || tc qdisc add dev {device} clsact; {switch} switch attach --dev {device}"
        )
    };
    sh(&again("ra", first_mbps));
    on_host("r2", &again("rb", second_mbps));
}

fn switch() -> PathBuf {
    let given = env::var_os(SWITCH).map(PathBuf::from);
    given.expect(
        "POSEIDON is the file of the command, built with the feature linux; see the head of this test",
    )
}

/// Runs the test called `name` in namespaces of its own. True inside of them.
fn enter(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = env::current_exe().expect("a test has a file");
    let private =
        "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf && exec \"$0\" \"$@\"";
    // Beside the hosts, which are on the other core: a command that attaches a switch would keep them from theirs for milliseconds.
    let status = Command::new("taskset")
        .args(["-c", "1", "unshare", "--mount", "--net", "sh", "-c", private])
        .arg(program)
        .args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env(SWITCH, switch().canonicalize().expect("the switch is there"))
        .status()
        .expect("unshare is in util-linux");
    assert!(status.success(), "{name}: {status}");
    false
}

fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().expect("there is a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn on_host(host: &str, script: &str) -> String {
    sh(&format!("nsenter --net=/run/netns/{host} sh -ec '{script}'"))
}

/// A host at work. It is ended when this is dropped.
struct Host {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Host {
    /// Starts a role and waits until it is ready.
    fn start(host: &str, role: &str) -> Self {
        let mut child = Command::new("taskset")
            // All hosts on one core: the commands of the test have the other (see `enter`).
            .args(["-c", "0", "nsenter"])
            .arg(format!("--net=/run/netns/{host}"))
            .arg(env::current_exe().expect("a test has a file"))
            .args(["--ignored", "--exact", "host", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("nsenter is in util-linux");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut host = Self { child, says };
        assert_eq!(host.next().as_deref(), Some("ready"), "{role}");
        host
    }

    /// The next thing that it says; nothing when it has ended.
    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.says.read_line(&mut line).expect("it writes text") > 0 {
            if let Some(said) = line.strip_prefix(SAYS) {
                return Some(said.trim().to_owned());
            }
            line.clear();
        }
        None
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what a host does, if there is a role.
#[test]
#[ignore = "not a test: a host that the tests start"]
fn host() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let address: IpAddr = words[1].parse().expect("an address");
    let mut config = Config::for_rate(BitRate::from_mbps(words[3].parse().expect("a rate")));
    if words[2] != config.law.law() {
        config.law = AnyParams::of(words[2]).unwrap_or(config.law);
    }
    let steering = if words[2] == "quinn" { Steering::Quinn } else { Steering::Law(Box::new(config)) };
    let here = SocketAddr::new(address, DEFAULT_UDP_PORT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match words[0] {
        "serve" => runtime.block_on(async {
            let mut args = ServerArgs::new(steering);
            args.listen = here;
            serve(args, |_| say("ready")).await.expect("it serves");
        }),
        "send" => runtime.block_on(async {
            let mut args = ClientArgs::new(here, steering);
            args.bind = SocketAddr::from(([0; 4], DEFAULT_UDP_PORT));
            args.connections = words[4].parse().expect("a number");
            args.duration = Duration::from_secs(words[5].parse().expect("seconds"));
            say("ready");
            let summary = run(args, &Stop::default(), |_| ()).await.expect("it measures");
            let mode = summary.flows[0].mode;
            let lost = summary.lost_packets;
            say(&format!("{:.3} {:.4} {mode} {lost}", summary.goodput_mbps, summary.jain));
        }),
        "watch" => {
            runtime.block_on(watch(here, steering, Duration::from_secs(words[5].parse().expect("seconds"))))
        }
        other => panic!("no role {other}"),
    }
}

/// Sends, and says every 100 ms what it steers by; at the end, the median round trip, all modes, packets taken for lost, and
/// every millisecond without an ACK: how long, in microseconds, and when, in seconds.
async fn watch(to: SocketAddr, mut steering: Steering, time: Duration) {
    let log = Arc::new(Mutex::new(Vec::<Decided>::new()));
    let write = Arc::clone(&log);
    if let Steering::Law(config) = &mut steering {
        config.observer =
            Some(Observer(Arc::new(move |decided| write.lock().expect("nobody panics").push(*decided))));
    }
    let mut args = ClientArgs::new(to, steering);
    args.bind = SocketAddr::from(([0; 4], DEFAULT_UDP_PORT));
    (args.duration, args.interval) = (time, Duration::from_millis(100));
    say("ready");
    let report = |interval: &Interval| {
        say(&format!("at {:.2} {} {:.2}", interval.to_s, interval.flows[0].mode, interval.goodput_mbps));
    };
    let summary = run(args, &Stop::default(), report).await.expect("it measures");
    let log = log.lock().expect("nobody panics");
    let acks: Vec<u64> =
        log.iter().filter(|decided| !decided.acked.is_zero()).map(|decided| decided.at.get()).collect();
    let mut trips: Vec<u64> = log.iter().map(|decided| decided.rtt.get()).collect();
    trips.sort_unstable();
    let mut modes: Vec<_> = log.iter().map(|decided| decided.mode.name()).collect();
    modes.dedup();
    let mut text = format!("{} {} {}", trips[trips.len() / 2] / 1_000, modes.join(","), summary.lost_packets);
    for two in acks.windows(2).filter(|two| two[1] - two[0] > 1_000_000) {
        text += &format!(" {}@{}", (two[1] - two[0]) / 1_000, two[0] as f64 / 1e9);
    }
    say(&text);
}

fn say(text: &str) {
    // The harness may have begun a line.
    println!("\n{SAYS}{text}");
}
