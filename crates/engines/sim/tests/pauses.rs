//! Pause times of ports, and deadlocks of flow control.

use core::num::NonZeroU32;
use poseidon_plan::deadlock::deadlocked_ports;
use poseidon_plan::recording::{NodePort, Recording};
use poseidon_plan::records::{MemorySink, PauseTimeRow};
use poseidon_plan::switch::{Pause, Stamp};
use poseidon_plan::topology::Edges;
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Fraction, Picos};
use std::collections::BTreeMap;

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

/// Returns a plan with PFC, small buffers and endless flows with a large fixed window.
fn plan(topology: Topology, ends: &[(u32, u32)]) -> Plan {
    let mut plan = plans::plan(topology, "fixed", ends);
    plan.laws[0].set("window", "1000 packets").expect("the value is valid");
    plan.stop = us(2_000);
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::Off;
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(400_000), alpha: Fraction::ratio(1, 2), resume: Bytes::new(4_096) };
    plan
}

fn record(plan: &Plan, threads: u32) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let simulator = Simulator::with_threads(NonZeroU32::new(threads).expect("not zero"));
    let recording = Recording { pauses: true, ..Recording::NOTHING };
    let report = simulator.record(plan, &recording, &mut rows).expect("the plan runs");
    (rows, report)
}

/// Adds up the recorded pauses of each port.
fn add_up_pauses(rows: &MemorySink, end: Picos) -> Vec<PauseTimeRow> {
    let mut ports: BTreeMap<NodePort, (Option<Picos>, Picos)> = BTreeMap::new();
    for row in &rows.recorded.pauses {
        let (since, total) = ports.entry(row.port).or_default();
        match (row.paused, since.take()) {
            (true, None) => *since = Some(row.time),
            (false, Some(start)) => *total += row.time - start,
            _ => panic!("a pause begins or ends twice"),
        }
    }
    let total =
        |(since, total): (Option<Picos>, Picos)| total + since.map_or(Picos::ZERO, |since| end - since);
    ports.into_iter().map(|(port, pauses)| PauseTimeRow { port, paused: total(pauses) }).collect()
}

#[test]
fn pause_times_add_up_the_pauses_of_each_port() {
    let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
    let plan = plan(Topology::fat_tree(4, LINK), &ends);
    let (rows, report) = record(&plan, 1);
    assert!(report.pauses > 100 && report.dropped == 0, "{report:?}");
    assert_eq!(rows.pause_times, add_up_pauses(&rows, report.ended));
    // Eight senders share 100 Gbps, so each of their hosts waits most of the time.
    assert!(rows.pause_times.iter().any(|row| row.paused > us(1_000)), "{:?}", rows.pause_times);
    assert_eq!(deadlocked_ports(&rows.pause_waits), []);
    for threads in [2, 4] {
        assert!(record(&plan, threads).0 == rows, "{threads} threads");
    }
}

#[test]
fn ring_of_switches_deadlocks() {
    // Each flow crosses two links of the ring, in the same direction, so each link has twice its capacity to carry.
    let ring = |n: u32| {
        let mut links = String::new();
        for i in 0..n {
            links.push_str(&format!("h{i} s{i} 100 Gbps 1 us\ns{i} s{} 100 Gbps 1 us\n", (i + 1) % n));
        }
        Topology::Edges(Edges::parse(&links).expect("the list is valid"))
    };
    let ends: Vec<_> = (0..5).map(|i| (i, (i + 2) % 5)).collect();
    let plan = plan(ring(5), &ends);
    let (rows, report) = record(&plan, 1);
    let deadlocked = deadlocked_ports(&rows.pause_waits);
    assert_eq!(deadlocked.len(), 5, "{report:?} {:?}", rows.pause_waits);
    let mut later = plan.clone();
    later.stop = us(4_000);
    let (later_rows, later_report) = record(&later, 1);
    assert_eq!(later_report.delivered, report.delivered, "nothing moves any more");
    assert_eq!(deadlocked_ports(&later_rows.pause_waits), deadlocked);
    assert!(record(&plan, 4).0 == rows);
}

#[test]
fn overloaded_chain_does_not_deadlock() {
    let topology = Topology::dumbbell(4, LINK, LINK);
    let (rows, report) = record(&plan(topology, &[(0, 4), (1, 5), (2, 6), (3, 7)]), 1);
    assert!(report.pauses > 10, "{report:?}");
    assert_eq!(deadlocked_ports(&rows.pause_waits), []);
}
