//! Measures simulator performance: packet-hops per second of CPU time, memory per host and per packet, and
//! the effect of threads and records.
//!
//! `cargo run --release -p poseidon-sim --example packet_hops [ROW...]`
//!
//! The example reproduces the table in `docs/simulator.md` in a few minutes. A row is a number of hosts, a
//! law name, `hpcc-320`, `uet`, `uet-8-mb` (only if named), `threads`, `records` or `memory`. `--quick`
//! measures part of the table in less than a minute. `--json` prints one JSON object per row.
//!
//! The networks are fat trees with 100 Gbps links that have a delay of 1 us. The traffic is a permutation of
//! endless flows with 1500 B packets. Every packet carries telemetry, goes through a marking decision and is
//! acknowledged. Switches share their buffers with dynamic thresholds. The rows `uet` run the networks of
//! uet-htsim with NSCC, trimming and paths: a fat tree with 128 hosts, and a leaf-spine network with 8192
//! hosts at 400 Gbps. Other processes disturb the measurement, so runs of different rows alternate, and each
//! result is the median of five runs (three with `--quick`).

use core::num::NonZeroU32;
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Report, SwitchPort, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{UetControl, UetNetwork, permutation};
use poseidon_types::{BitRate, Bytes, ConnectionId, Picos, PortId, SwitchId};
use std::time::Instant;

const LAWS: [(&str, Stamp); 3] = [
    ("poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim)),
    ("swift", Stamp::MaxHopDelay(DelayCarrier::Shim)),
    ("hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3)),
];
/// The arity of each fat tree and the simulated time in us.
const TREES: [(u32, u64); 4] = [(8, 1_000), (16, 200), (32, 40), (64, 12)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(case) = arguments.iter().find_map(|argument| argument.strip_prefix("--memory-of=")) {
        println!("{}", run_and_report_memory(case));
        return;
    }
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let bench = Bench {
        rows: arguments.iter().filter(|argument| !argument.starts_with("--")).cloned().collect(),
        repeats: if has_flag("--quick") { 3 } else { 5 },
        quick: has_flag("--quick"),
        json: has_flag("--json"),
    };
    bench.measure_speed();
    bench.measure_hpcc_320();
    bench.measure_uet();
    bench.measure_threads();
    bench.measure_records();
    bench.measure_memory();
}

struct Bench {
    /// The requested rows. An empty list means all rows.
    rows: Vec<String>,
    repeats: usize,
    quick: bool,
    json: bool,
}

/// The result of one run: CPU time in ns, wall time in ns, and the report.
type Run = (f64, f64, Report);

impl Bench {
    fn is_requested(&self, names: &[&str]) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| names.contains(&row.as_str()))
    }

    fn print_row(&self, row: &str, unit: &str, value: f64, note: &str) {
        if self.json {
            println!("{{\"row\":\"{row}\",\"{unit}\":{value:.3}}}");
        } else {
            println!("{row:<44} {value:>9.2} {unit:<22} {note}");
        }
    }

    /// Runs all plans in alternation, `repeats` times. Returns the runs of each plan.
    fn run_alternately(&self, plans: &[(Plan, Simulator)]) -> Vec<Vec<Run>> {
        let mut runs = vec![Vec::new(); plans.len()];
        for _ in 0..self.repeats {
            for (runs, (plan, simulator)) in runs.iter_mut().zip(plans) {
                let (cpu, wall) = (cpu_ns(), now());
                let report = simulator.run(plan, &mut MemorySink::default()).expect("the plan runs");
                runs.push((cpu_ns() - cpu, wall.elapsed().as_nanos() as f64, report));
            }
        }
        runs
    }

    /// Measures the speed for each law and network size.
    fn measure_speed(&self) {
        let mut plans = Vec::new();
        let mut names = Vec::new();
        for (k, us) in TREES {
            let hosts = k * k * k / 4;
            for (law, stamp) in LAWS {
                // The largest networks run with only one law, and --quick runs only the smallest network.
                let is_enabled = if self.quick { k == 8 } else { k < 32 || law == "poseidon" };
                let is_requested = match self.rows.as_slice() {
                    [] => true,
                    rows => rows.iter().all(|row| *row == hosts.to_string() || row == law),
                };
                if is_enabled && is_requested {
                    names.push((hosts, law));
                    plans.push((permutation(Topology::fat_tree(k, LINK), law, stamp, us), one_thread()));
                }
            }
        }
        let mut ns_with_128_hosts = f64::NAN;
        for ((hosts, law), runs) in names.into_iter().zip(self.run_alternately(&plans)) {
            let per_hop = median(runs.iter().map(|(cpu, _, report)| cpu / report.packet_hops as f64));
            if hosts == 128 && law == "poseidon" {
                ns_with_128_hosts = per_hop;
            }
            let slowdown = if law == "poseidon" {
                format!("{:.2} x the time of 128 hosts", per_hop / ns_with_128_hosts)
            } else {
                String::new()
            };
            let note = format!("{per_hop:.0} ns per packet-hop  {slowdown}");
            self.print_row(&format!("{hosts} hosts, {law}"), "M packet-hops/s", 1e3 / per_hop, &note);
        }
    }

    /// Measures 200 us of traffic on HPCC's fat tree with 320 hosts.
    fn measure_hpcc_320(&self) {
        if !self.is_requested(&["hpcc-320"]) {
            return;
        }
        let plan = permutation(Topology::vai_sf_fat_tree(), "hpcc", LAWS[2].1, 200);
        let runs = self.run_alternately(&[(plan, one_thread())]);
        let seconds = median(runs[0].iter().map(|(cpu, ..)| cpu / 1e9));
        let hops = runs[0][0].2.packet_hops;
        self.print_row(
            "hpcc, 320 hosts at 100/400 Gbps, 200 us",
            "s",
            seconds,
            &format!("{hops} packet-hops"),
        );
    }

    /// Measures a permutation under NSCC with trimming and paths, as in uet-htsim.
    fn measure_uet(&self) {
        if self.is_requested(&["uet"]) {
            let mut plans =
                vec![(UetNetwork::fat_tree(8).permutation(UetControl::Nscc, 2_000_000), one_thread())];
            if !self.quick {
                plans.push((
                    UetNetwork::leaf_spine_8192().permutation(UetControl::Nscc, 1_000_000),
                    one_thread(),
                ));
            }
            for ((plan, _), runs) in plans.iter().zip(self.run_alternately(&plans)) {
                let per_hop = median(runs.iter().map(|(cpu, _, report)| cpu / report.packet_hops as f64));
                let name = format!("{} hosts, uet", plan.topology.hosts());
                self.print_row(
                    &name,
                    "M packet-hops/s",
                    1e3 / per_hop,
                    &format!("{per_hop:.0} ns per packet-hop"),
                );
            }
        }
        if self.rows.iter().any(|row| row == "uet-8-mb") {
            let plan = UetNetwork::leaf_spine_8192().permutation(UetControl::Nscc, 8_000_000);
            let start = now();
            let report = one_thread().run(&plan, &mut MemorySink::default()).expect("the plan runs");
            let hops = report.packet_hops;
            let seconds = start.elapsed().as_secs_f64();
            self.print_row("8192 hosts, uet, 8 MB each", "s", seconds, &format!("{hops} packet-hops"));
        }
    }

    /// Compares two threads with one thread.
    fn measure_threads(&self) {
        if !self.is_requested(&["threads"]) || self.quick && self.rows.is_empty() {
            return;
        }
        let plan = permutation(Topology::fat_tree(16, LINK), "poseidon", LAWS[0].1, 200);
        let two_threads = Simulator::with_threads(NonZeroU32::new(2).expect("the number is not zero"));
        let runs = self.run_alternately(&[(plan.clone(), one_thread()), (plan, two_threads)]);
        assert!(
            runs.iter().flatten().all(|run| run.2 == runs[0][0].2),
            "one and two threads must produce the same result"
        );
        let speedup = median(runs[0].iter().zip(&runs[1]).map(|(one, two)| one.1 / two.1));
        self.print_row("1024 hosts, two threads, wall time", "x as fast as one", speedup, "same result");
    }

    /// Measures the cost of sampling every queue every 10 us. Both runs record one row per 100 kB message.
    fn measure_records(&self) {
        if !self.is_requested(&["records"]) {
            return;
        }
        let mut plain = permutation(Topology::fat_tree(8, LINK), "poseidon", LAWS[0].1, 500);
        let mut recorded = plain.clone();
        // There are more messages than the run can send, so both runs send continuously.
        let size = Amount::Exactly(Bytes::new(100_000));
        let messages =
            |connection| (0..80).map(move |_| Message { connection, start: Picos::ZERO, amount: size });
        let connections = (0..plain.connections.len()).map(ConnectionId::from_index);
        plain.messages = connections.flat_map(messages).collect();
        recorded.messages.clone_from(&plain.messages);
        recorded.sample_every = Picos::new(10_000_000);
        let ports =
            |switch| (0..8).map(move |port| SwitchPort::new(SwitchId::new(switch), PortId::new(port)));
        recorded.watched_ports = (0..80).flat_map(ports).collect();
        let runs = self.run_alternately(&[(plain, one_thread()), (recorded, one_thread())]);
        let slowdown_percent =
            median(runs[0].iter().zip(&runs[1]).map(|(off, on)| (on.0 / off.0 - 1.0) * 100.0));
        self.print_row(
            "128 hosts, samples of 640 queues every 10 us",
            "% slower",
            slowdown_percent,
            "flow records in both",
        );
    }

    /// Measures memory in separate processes because a process does not return freed memory to the system.
    fn measure_memory(&self) {
        if !self.is_requested(&["memory"]) || self.quick && self.rows.is_empty() {
            return;
        }
        let peak_memory = |case: &str| -> (f64, f64) {
            let program = std::env::current_exe().expect("the program has a path");
            let output = std::process::Command::new(program).arg(format!("--memory-of={case}")).output();
            let text =
                String::from_utf8(output.expect("the program runs").stdout).expect("the output is UTF-8");
            let (bytes, packets) = text.trim().split_once(' ').expect("the output has two numbers");
            (bytes.parse().expect("bytes is a number"), packets.parse().expect("packets is a number"))
        };
        let (baseline, _) = peak_memory("nothing");
        let (idle, _) = peak_memory("idle");
        let (busy, packets) = peak_memory("busy");
        let (connected, _) = peak_memory("connected");
        self.print_row("65536 hosts, idle", "kB per host", (idle - baseline) / 65_536.0 / 1e3, "");
        let per_packet = (busy - connected) / packets;
        self.print_row(
            "65536 hosts, busy",
            "B per packet in flight",
            per_packet,
            &format!("{packets} packets"),
        );
    }
}

/// Runs a plan. Returns the peak memory of this process in bytes, and the number of packets in flight at the
/// end of the run.
fn run_and_report_memory(case: &str) -> String {
    let tree = Topology::fat_tree(64, LINK);
    let mut plan = permutation(tree, "poseidon", LAWS[0].1, 12);
    match case {
        "idle" => {
            plan.connections.truncate(1);
            plan.messages.truncate(1);
            plan.messages[0].amount = Amount::Exactly(Bytes::new(1));
        }
        // All connections exist, and each sends one byte.
        "connected" => plan.messages.iter_mut().for_each(|m| m.amount = Amount::Exactly(Bytes::new(1))),
        "busy" => {}
        _ => plan = permutation(Topology::fat_tree(4, LINK), "poseidon", LAWS[0].1, 1),
    }
    let report = one_thread().run(&plan, &mut MemorySink::default()).expect("the plan runs");
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs is mounted");
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the status has a VmHWM line");
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("VmHWM is a number");
    format!("{} {}", kib * 1_024, report.in_flight)
}

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

fn one_thread() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "the example measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Returns this thread's CPU time, which is less affected by other processes than wall time.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs is mounted");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("the first field is a number")
}
