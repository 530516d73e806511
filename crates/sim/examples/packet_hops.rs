//! Packet-hops per second of CPU time on fat trees: 100 Gbps, 1 us links, a permutation of endless flows, 1500 B packets,
//! every packet stamped, marked, acknowledged and buffered in shared memory.
//!
//! `cargo run --release -p poseidon-sim --example packet_hops`; `--quick` for the smallest tree only, `--json` for programs, the
//! name of a law or a number of hosts to see only those, `--threads=2` for more than one thread.

use core::num::NonZeroU32;
use poseidon_laws::AnyParams;
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, Direction, Pause, RecordCarrier, Shared, Stamp, Step, Switch};
use poseidon_plan::traffic::{Amount, Connection, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};
use std::time::Instant;

fn main() {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let all: &[(u32, u64)] = &[(8, 2_000), (16, 400), (32, 60), (64, 12)];
    let asked = |name: &str, others: &[&str]| has(name) || !others.iter().any(|other| has(other));
    let hosts = ["128", "1024", "8192", "65536"];
    let laws = [
        ("poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim)),
        ("swift", Stamp::MaxHopDelay(DelayCarrier::Shim)),
        ("hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3)),
    ];
    let sizes: Vec<(u32, u64)> = (all.iter().zip(hosts))
        .filter(|(_, name)| if has("--quick") { *name == "128" } else { asked(name, &hosts) })
        .map(|(size, _)| *size)
        .collect();
    let laws: Vec<_> =
        laws.into_iter().filter(|(name, _)| asked(name, &["poseidon", "swift", "hpcc"])).collect();
    let threads = std::env::args()
        .find_map(|arg| arg.strip_prefix("--threads=")?.parse().ok())
        .unwrap_or(NonZeroU32::MIN);
    let simulator = Simulator::with_threads(threads);
    if !has("--json") {
        println!(
            "{:>6} {:<10} {:>7} {:>12} {:>11} {:>8} {:>10}",
            "hosts", "law", "threads", "packet-hops", "cpu ns/hop", "ns/hop", "M hops/s"
        );
    }
    for &(k, us) in &sizes {
        for &(law, stamp) in &laws {
            let plan = permutation(k, law, stamp, us);
            // The run itself, without making the plan; the best of three by wall time.
            let runs = (0..3).map(|_| {
                let (cpu, wall) = (cpu_ns(), now());
                let report = simulator.run(&plan, &mut Kept::default()).expect("runs");
                (wall.elapsed().as_nanos(), cpu_ns() - cpu, report.packet_hops, report.result_hash)
            });
            let (wall, cpu, hops, hash) = runs.min().expect("three runs");
            let hosts = k * k * k / 4;
            let each = |ns: f64| ns / hops as f64;
            let (cpu, wall) = (each(cpu as f64), each(wall as f64));
            if has("--json") {
                println!(
                    "{{\"hosts\":{hosts},\"law\":\"{law}\",\"threads\":{threads},\"packet_hops\":{hops},\"cpu_ns_per_hop\":{cpu:.1},\
                     \"ns_per_hop\":{wall:.1},\"result_hash\":\"{hash:016x}\"}}"
                );
            } else {
                let rate = 1e3 / wall;
                println!("{hosts:>6} {law:<10} {threads:>7} {hops:>12} {cpu:>11.1} {wall:>8.1} {rate:>10.2}");
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
fn now() -> Instant {
    Instant::now()
}

/// Host `i` sends to host `i + half + 1`, round the end: every flow leaves its rack, most their pod.
fn permutation(k: u32, law: &str, stamp: Stamp, us: u64) -> Plan {
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let topology = Topology::fat_tree(k, link);
    let hosts = topology.hosts();
    let mut law = AnyParams::of(law).expect("a law");
    // Poseidon's fabric is as fast as its fastest host; the others have no such parameter.
    let _ = law.set("max-rate", "100 Gbps");
    Plan {
        seed: 1,
        stop: Picos::from_nanos(Nanos::from_micros(us)),
        topology,
        switch: Switch {
            pipeline: Picos::ZERO,
            priorities: 1,
            buffer: Shared { size: Bytes::new(32_000_000), alpha: Fraction::ratio(8, 1) }.into(),
            pause: Pause::Off,
            mark: Step { threshold: Bytes::new(300_000) }.into(),
            marks_go: Direction::Forward,
            stamp,
        },
        silent_switches: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(1_436),
            header: Bytes::new(64),
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_millis(4),
            first_rto: Nanos::from_millis(4),
            recovery: Recovery::Selective { reordering: 3 },
            acks: Acks::EveryPacket,
            echo: Echo::Exact,
            ack_priority: None,
            spread: Spread::PerFlow,
            plb: None,
        },
        laws: vec![law],
        connections: (0..hosts)
            .map(|from| Connection {
                from,
                to: (from + hosts / 2 + 1) % hosts,
                law: 0,
                entropy: 0,
                priority: 0,
            })
            .collect(),
        messages: (0..hosts)
            .map(|connection| Message { connection, at: Picos::ZERO, amount: Amount::ENDLESS })
            .collect(),
        after: Vec::new(),
        changes: Vec::new(),
        sample_every: Picos::ZERO,
        watched: Vec::new(),
        watched_connections: Vec::new(),
        log_decisions: false,
    }
}

/// CPU time of this thread: what a noisy machine cannot inflate much. With more than one it says little.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}
