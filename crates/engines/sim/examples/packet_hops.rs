//! How fast and how large: packet-hops per second of CPU time, memory per host and per packet, what threads and records do.
//!
//! `cargo run --release -p poseidon-sim --example packet_hops` runs the whole table of `docs/simulator.md` (some minutes); `--quick` a
//! part of it in less than a minute, `--json` for programs; a number of hosts, the name of a law, `hpcc-320`, `threads`, `records` or
//! `memory` for those rows only.
//!
//! Networks are fat trees of 100 Gbps and 1 us links under a permutation of endless flows, 1500 B packets; every packet is stamped,
//! marked, acknowledged and buffered in shared memory with dynamic thresholds. Runs of different rows take turns, and each number is
//! the median of five (three with `--quick`), because the machine is never quiet.

use core::num::NonZeroU32;
use poseidon_laws::AnyParams;
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Shared, Stamp, Step};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};
use std::time::Instant;

const LAWS: [(&str, Stamp); 3] = [
    ("poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim)),
    ("swift", Stamp::MaxHopDelay(DelayCarrier::Shim)),
    ("hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3)),
];
/// The arity of a fat tree and how many microseconds of it are run.
const TREES: [(u32, u64); 4] = [(8, 1_000), (16, 200), (32, 40), (64, 12)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(which) = arguments.iter().find_map(|argument| argument.strip_prefix("--memory-of=")) {
        println!("{}", memory_of(which));
        return;
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let bench = Bench {
        rows: arguments.iter().filter(|argument| !argument.starts_with("--")).cloned().collect(),
        repeats: if has("--quick") { 3 } else { 5 },
        quick: has("--quick"),
        json: has("--json"),
    };
    bench.speed();
    bench.hpcc_320();
    bench.threads();
    bench.records();
    bench.memory();
}

struct Bench {
    /// The rows that are asked for; all where none is.
    rows: Vec<String>,
    repeats: usize,
    quick: bool,
    json: bool,
}

/// One run: CPU and wall time in ns, and what it did.
type Run = (f64, f64, Report);

impl Bench {
    fn wants(&self, names: &[&str]) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| names.contains(&row.as_str()))
    }

    fn say(&self, row: &str, what: &str, value: f64, more: &str) {
        if self.json {
            println!("{{\"row\":\"{row}\",\"{what}\":{value:.3}}}");
        } else {
            println!("{row:<44} {value:>9.2} {what:<22} {more}");
        }
    }

    /// Runs the plans in turn, `repeats` times; for each, its runs.
    fn in_turn(&self, plans: &[(Plan, Simulator)]) -> Vec<Vec<Run>> {
        let mut runs = vec![Vec::new(); plans.len()];
        for _ in 0..self.repeats {
            for (runs, (plan, simulator)) in runs.iter_mut().zip(plans) {
                let (cpu, wall) = (cpu_ns(), now());
                let report = simulator.run(plan, &mut Kept::default()).expect("runs");
                runs.push((cpu_ns() - cpu, wall.elapsed().as_nanos() as f64, report));
            }
        }
        runs
    }

    fn speed(&self) {
        let mut plans = Vec::new();
        let mut names = Vec::new();
        for (k, us) in TREES {
            let hosts = k * k * k / 4;
            for (law, stamp) in LAWS {
                // The largest with one law; with --quick the smallest only.
                let is_run = if self.quick { k == 8 } else { k < 32 || law == "poseidon" };
                let asked = match self.rows.as_slice() {
                    [] => true,
                    rows => rows.iter().all(|row| *row == hosts.to_string() || row == law),
                };
                if is_run && asked {
                    names.push((hosts, law));
                    plans.push((permutation(Topology::fat_tree(k, LINK), law, stamp, us), one_thread()));
                }
            }
        }
        let mut of_128 = f64::NAN;
        for ((hosts, law), runs) in names.into_iter().zip(self.in_turn(&plans)) {
            let per_hop = median(runs.iter().map(|(cpu, _, report)| cpu / report.packet_hops as f64));
            if hosts == 128 && law == "poseidon" {
                of_128 = per_hop;
            }
            let slower = if law == "poseidon" {
                format!("{:.2} x of 128 hosts", per_hop / of_128)
            } else {
                String::new()
            };
            let more = format!("{per_hop:.0} ns per packet-hop  {slower}");
            self.say(&format!("{hosts} hosts, {law}"), "M packet-hops/s", 1e3 / per_hop, &more);
        }
    }

    /// HPCC's own fat tree of 320 hosts, 200 us.
    fn hpcc_320(&self) {
        if !self.wants(&["hpcc-320"]) {
            return;
        }
        let plan = permutation(Topology::vai_sf_fat_tree(), "hpcc", LAWS[2].1, 200);
        let runs = self.in_turn(&[(plan, one_thread())]);
        let seconds = median(runs[0].iter().map(|(cpu, ..)| cpu / 1e9));
        let hops = runs[0][0].2.packet_hops;
        self.say("hpcc, 320 hosts at 100/400 Gbps, 200 us", "s", seconds, &format!("{hops} packet-hops"));
    }

    fn threads(&self) {
        if !self.wants(&["threads"]) || self.quick && self.rows.is_empty() {
            return;
        }
        let plan = permutation(Topology::fat_tree(16, LINK), "poseidon", LAWS[0].1, 200);
        let two = Simulator::with_threads(NonZeroU32::new(2).expect("two"));
        let runs = self.in_turn(&[(plan.clone(), one_thread()), (plan, two)]);
        assert!(
            runs.iter().flatten().all(|run| run.2 == runs[0][0].2),
            "the same result on one and two threads"
        );
        let faster = median(runs[0].iter().zip(&runs[1]).map(|(one, two)| one.1 / two.1));
        self.say("1024 hosts, two threads, wall time", "x as fast as one", faster, "same result");
    }

    /// A row per message of 100 kB and a sample of every queue every 10 us, against neither.
    fn records(&self) {
        if !self.wants(&["records"]) {
            return;
        }
        let mut plain = permutation(Topology::fat_tree(8, LINK), "poseidon", LAWS[0].1, 500);
        let mut recorded = plain.clone();
        // As many messages as fit the time and a few more: both runs send without a pause.
        let size = Amount::Exactly(Bytes::new(100_000));
        let messages =
            |connection| (0..80).map(move |_| Message { connection, at: Picos::ZERO, amount: size });
        let connections = u32::try_from(plain.connections.len()).expect("few");
        plain.messages = (0..connections).flat_map(messages).collect();
        recorded.messages.clone_from(&plain.messages);
        recorded.sample_every = Picos::new(10_000_000);
        recorded.watched = (0..80).flat_map(|switch| (0..8).map(move |port| (switch, port))).collect();
        let runs = self.in_turn(&[(plain, one_thread()), (recorded, one_thread())]);
        let slower = median(runs[0].iter().zip(&runs[1]).map(|(off, on)| (on.0 / off.0 - 1.0) * 100.0));
        self.say("128 hosts, samples of 640 queues every 10 us", "% slower", slower, "flow records in both");
    }

    /// In processes of their own: what one has used stays with it.
    fn memory(&self) {
        if !self.wants(&["memory"]) || self.quick && self.rows.is_empty() {
            return;
        }
        let measure = |which: &str| -> (f64, f64) {
            let program = std::env::current_exe().expect("this program");
            let output = std::process::Command::new(program).arg(format!("--memory-of={which}")).output();
            let text = String::from_utf8(output.expect("runs").stdout).expect("text");
            let (bytes, packets) = text.trim().split_once(' ').expect("two numbers");
            (bytes.parse().expect("a number"), packets.parse().expect("a number"))
        };
        let (nothing, _) = measure("nothing");
        let (idle, _) = measure("idle");
        let (busy, packets) = measure("busy");
        let (connected, _) = measure("connected");
        self.say("65536 hosts, idle", "kB per host", (idle - nothing) / 65_536.0 / 1e3, "");
        let each = (busy - connected) / packets;
        self.say("65536 hosts, busy", "B per packet in flight", each, &format!("{packets} packets"));
    }
}

/// The most memory that this process used for a plan, in bytes, and the packets in flight at its end.
fn memory_of(which: &str) -> String {
    let tree = Topology::fat_tree(64, LINK);
    let mut plan = permutation(tree, "poseidon", LAWS[0].1, 12);
    match which {
        "idle" => {
            plan.connections.truncate(1);
            plan.messages.truncate(1);
            plan.messages[0].amount = Amount::Exactly(Bytes::new(1));
        }
        // All connections have begun, with one byte each.
        "connected" => plan.messages.iter_mut().for_each(|m| m.amount = Amount::Exactly(Bytes::new(1))),
        "busy" => {}
        _ => plan = permutation(Topology::fat_tree(4, LINK), "poseidon", LAWS[0].1, 1),
    }
    let report = one_thread().run(&plan, &mut Kept::default()).expect("runs");
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    format!("{} {}", kib * 1_024, report.in_flight)
}

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

/// Host `i` sends to host `i + half + 1`, round the end: every flow leaves its rack, most their pod.
fn permutation(topology: Topology, law: &str, stamp: Stamp, us: u64) -> Plan {
    let hosts = topology.hosts();
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    let mut plan = plans::plan(topology, law, &ends);
    plan.laws = vec![AnyParams::of(law).expect("a law")];
    // Poseidon's fabric is as fast as its fastest host; the others have no such parameter.
    let _ = plan.laws[0].set("max-rate", "100 Gbps");
    plan.seed = 1;
    plan.stop = Picos::from_nanos(Nanos::from_micros(us));
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.buffer = Shared { size: Bytes::new(32_000_000), alpha: Fraction::ratio(8, 1) }.into();
    plan.switch.mark = Step { threshold: Bytes::new(300_000) }.into();
    plan.switch.stamp = stamp;
    plan.transport.mtu = Bytes::new(1_436);
    plan.transport.header = Bytes::new(64);
    plan.transport.min_rto = Nanos::from_millis(4);
    plan.transport.first_rto = Nanos::from_millis(4);
    for message in &mut plan.messages {
        message.at = Picos::ZERO;
    }
    plan
}

fn one_thread() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
fn now() -> Instant {
    Instant::now()
}

/// CPU time of this thread, which a noisy machine inflates less than wall time.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}
