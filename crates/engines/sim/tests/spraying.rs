//! Laws that follow a delay, when each packet takes another path.
//!
//! `cargo test -p poseidon-sim --release --test spraying -- --ignored --nocapture` prints the table of
//! `docs/ai-fabrics.md`.

mod common;

use common::{run, us};
use poseidon_plan::switch::{DelayCarrier, PerQueue, Red, SlowPort, Stamp, Trim};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Mixed, Oblivious, PathFilter, Recovery};
use poseidon_plan::{Link, Plan, Report, Topology};
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, Nanos, Picos, PortId, SwitchId};

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
/// A packet with its header.
const PACKET: u64 = 4_150;

/// The traffic of a run.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// Every host sends 2 MB to a host in another pod.
    Permutation,
    /// A quarter of the hosts send 500 kB to one host.
    Incast,
}

/// Returns a plan for a fat tree with `k` ports per switch, in which switches trim and the hosts spray.
fn plan(k: u32, law: &str, traffic: Traffic, slow: bool) -> Plan {
    let topology = Topology::fat_tree(k, LINK);
    let hosts = topology.hosts();
    let (ends, bytes): (Vec<_>, _) = match traffic {
        Traffic::Permutation => {
            // A step that is coprime to the number of hosts and leaves the pod.
            let step = hosts / 2 + 1;
            ((0..hosts).map(|from| (from, (from + step) % hosts)).collect(), 2_000_000)
        }
        Traffic::Incast => ((0..hosts / 4).map(|i| (hosts / 2 + i, 0)).collect(), 500_000),
    };
    let mut plan = plans::plan(topology, law, &ends);
    plan.stop = us(20_000);
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
    plan.switch.priorities = 2;
    plan.switch.trim = Some(Trim { size: Bytes::new(64) });
    plan.switch.buffer = PerQueue { size: Bytes::new(215 * PACKET) }.into();
    plan.switch.mark = Red {
        min: Bytes::new(9 * PACKET),
        max: Bytes::new(35 * PACKET),
        probability: Fraction::ONE,
        ..Red::default()
    }
    .into();
    plan.transport.mtu = Bytes::new(PACKET - 64);
    plan.transport.header = Bytes::new(64);
    plan.transport.min_rto = Nanos::from_micros(500);
    plan.transport.recovery = Recovery::TrimNacks;
    plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(16_384) };
    plan.transport.ack_priority = Some(0);
    plan.transport.load_balancing = Oblivious { paths: 64 }.into();
    plan.connections.iter_mut().for_each(|connection| connection.priority = 1);
    let message = |index| Message {
        connection: ConnectionId::from_index(index),
        start: Picos::ZERO,
        amount: Amount::Exactly(Bytes::new(bytes)),
    };
    plan.messages = (0..ends.len()).map(message).collect();
    if slow {
        // The first core switch: its link to the receivers' pod has a quarter of its rate.
        let core = k * k;
        plan.slow_ports = vec![SlowPort { switch: SwitchId::new(core), port: PortId::new(0), divisor: 4 }];
    }
    plan
}

/// Returns the median and the largest completion time in microseconds, and the report.
fn completion(plan: &Plan) -> (f64, f64, Report) {
    let (rows, report) = run(plan);
    assert_eq!(rows.messages.len(), plan.messages.len(), "{report:?}");
    let mut times: Vec<_> = rows.messages.iter().map(|row| row.acknowledged.get()).collect();
    times.sort_unstable();
    let us = |index: usize| times[index] as f64 * 1e-6;
    (us(times.len() / 2), us(times.len() - 1), report)
}

#[test]
fn filters_only_matter_where_paths_differ() {
    for filter in [PathFilter::Median, PathFilter::Max] {
        let mut plan = plan(4, "poseidon", Traffic::Permutation, false);
        plan.transport.load_balancing = AnyPathPolicy::ECMP;
        let each = completion(&plan).1;
        plan.transport.path_filter = filter;
        let filtered = completion(&plan).1;
        println!("{filter:?}: {filtered} us instead of {each} us");
        assert!(filtered < 1.5 * each && each < 1.5 * filtered, "{filter:?}: {filtered} {each}");
    }
}

#[test]
#[ignore = "prints the table of docs/ai-fabrics.md"]
fn table_of_laws_and_filters() {
    println!("law paths filter traffic slow median-us tail-us trimmed");
    let print = |law: &str, paths: AnyPathPolicy, filter, traffic, slow| {
        let mut plan = plan(8, law, traffic, slow);
        (plan.transport.load_balancing, plan.transport.path_filter) = (paths, filter);
        let (median, tail, report) = completion(&plan);
        let (paths, trimmed) = (paths.name(), report.trimmed);
        println!("{law} {paths} {filter:?} {traffic:?} {slow} {median:.0} {tail:.0} {trimmed}");
    };
    let oblivious: AnyPathPolicy = Oblivious { paths: 64 }.into();
    let mixed: AnyPathPolicy = Mixed { paths: 64 }.into();
    for (traffic, slow) in [
        (Traffic::Permutation, false),
        (Traffic::Permutation, true),
        (Traffic::Incast, false),
        (Traffic::Incast, true),
    ] {
        for law in ["nscc", "poseidon", "swift"] {
            print(law, AnyPathPolicy::ECMP, PathFilter::Each, traffic, slow);
            for paths in [oblivious, mixed] {
                for filter in [PathFilter::Each, PathFilter::Median, PathFilter::Max] {
                    print(law, paths, filter, traffic, slow);
                }
            }
        }
    }
}
