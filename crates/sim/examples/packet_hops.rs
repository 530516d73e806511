//! Packet-hops per second of CPU time on fat trees: 100 Gbps, 1 us links, a permutation of endless flows, 1500 B packets,
//! every packet stamped, marked, acknowledged and buffered in shared memory.
//!
//! `cargo run --release -p poseidon-sim --example packet_hops`; `--quick` for the smallest tree only, `--json` for programs, the
//! name of a law or a number of hosts to see only those.

use poseidon_laws::AnyParams;
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{Buffer, Carrier, Mark, Stamp, Switch};
use poseidon_plan::traffic::{Connection, Message};
use poseidon_plan::transport::{Eligibility, Transport};
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};

fn main() {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let all: &[(u32, u64)] = &[(8, 2_000), (16, 400), (32, 60), (64, 12)];
    let asked = |name: &str, others: &[&str]| has(name) || !others.iter().any(|other| has(other));
    let hosts = ["128", "1024", "8192", "65536"];
    let laws = [
        ("poseidon", Stamp::MaxHopDelay(Carrier::Shim)),
        ("swift", Stamp::MaxHopDelay(Carrier::Shim)),
        ("hpcc", Stamp::HopRecords),
    ];
    let sizes: Vec<(u32, u64)> = (all.iter().zip(hosts))
        .filter(|(_, name)| if has("--quick") { *name == "128" } else { asked(name, &hosts) })
        .map(|(size, _)| *size)
        .collect();
    let laws: Vec<_> =
        laws.into_iter().filter(|(name, _)| asked(name, &["poseidon", "swift", "hpcc"])).collect();
    if !has("--json") {
        println!(
            "{:>6} {:<10} {:>12} {:>8} {:>10} {:>12}",
            "hosts", "law", "packet-hops", "ns/hop", "M hops/s", "sim us/s"
        );
    }
    for &(k, us) in &sizes {
        for &(law, stamp) in &laws {
            let plan = permutation(k, law, stamp, us);
            // The run itself, without building the plan; the best of three.
            let runs = (0..3).map(|_| {
                let before = cpu_ns();
                let report = Simulator.run(&plan, &mut Kept::default()).expect("runs");
                (cpu_ns() - before, report.packet_hops)
            });
            let (cpu, hops) = runs.min().expect("three runs");
            let (cpu, hops_f, hosts) = (cpu as f64, hops as f64, k * k * k / 4);
            let (each, rate, speed) = (cpu / hops_f, hops_f / cpu * 1e3, us as f64 / cpu * 1e9);
            if has("--json") {
                println!(
                    "{{\"hosts\":{hosts},\"law\":\"{law}\",\"packet_hops\":{hops},\"cpu_ns\":{cpu},\"ns_per_hop\":{each:.1}}}"
                );
            } else {
                println!("{hosts:>6} {law:<10} {hops:>12} {each:>8.1} {rate:>10.2} {speed:>12.0}");
            }
        }
    }
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
            buffer: Buffer::Shared { total: Bytes::new(32_000_000), alpha: Fraction::ratio(8, 1) },
            mark: Mark::Step { threshold: Bytes::new(300_000) },
            stamp,
        },
        silent_switches: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(1_436),
            header: Bytes::new(64),
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_millis(4),
        },
        laws: vec![law],
        connections: (0..hosts)
            .map(|from| Connection { from, to: (from + hosts / 2 + 1) % hosts, law: 0, entropy: 0 })
            .collect(),
        messages: (0..hosts).map(|connection| Message { connection, at: Picos::ZERO, size: None }).collect(),
        sample_every: Picos::ZERO,
        watched: Vec::new(),
    }
}

/// CPU time of this thread: what a noisy machine cannot inflate much.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number")
}
