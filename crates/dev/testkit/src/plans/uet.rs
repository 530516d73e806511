//! The networks of uet-htsim, the public reference of Ultra Ethernet's congestion control, and some of the runs that
//! `scenarios/ai/validate-*.toml` compare with its results.

use super::plan;
use poseidon_plan::switch::{PerQueue, Red, SlowPort, Stamp, Trim};
use poseidon_plan::topology::Tiers;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Credits, Mixed, Oblivious, Recovery, Reps};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, Nanos, Picos, PortId, SwitchId};

/// A packet with its header.
const PACKET: u64 = 4_150;
/// The header, a trimmed packet and an ACK.
const HEADER: u64 = 64;
const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
const FAST_LINK: Link = Link { rate: BitRate::from_gbps(400), delay: Picos::new(1_000_000) };

/// Who controls congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UetControl {
    /// The sender's window alone (NSCC).
    Nscc,
    /// The receiver's credits alone (RCCC).
    Credits,
    /// Both.
    Both,
}

/// A network of uet-htsim. Sizes are in packets of 4150 B with header.
#[derive(Clone, Debug)]
pub struct UetNetwork {
    /// Switches and links. All links are equal.
    pub topology: Topology,
    /// The network's RTT.
    pub rtt: Nanos,
    /// The size of a queue, including the packet on the wire.
    pub queue: u64,
    /// The marking thresholds.
    pub mark: (u64, u64),
}

impl UetNetwork {
    /// Returns the default network: a fat tree at 100 Gbps with `ports` ports per switch.
    pub const fn fat_tree(ports: u32) -> Self {
        Self { topology: Topology::fat_tree(ports, LINK), rtt: Nanos::new(14_023), queue: 43, mark: (9, 35) }
    }

    /// Returns the network of the results for 8192 hosts: leaves with 64 hosts and spines, at 400 Gbps.
    pub const fn leaf_spine_8192() -> Self {
        let topology = Topology::Tiers(Tiers {
            pods: 1,
            racks: 128,
            hosts: 64,
            aggregation: 64,
            cores: 0,
            host_link: FAST_LINK,
            rack_link: FAST_LINK,
            core_link: FAST_LINK,
        });
        Self { topology, rtt: Nanos::new(8_337), queue: 100, mark: (25, 75) }
    }

    /// Returns a plan in which each pair of `ends` sends `bytes` at time zero, over 128 paths of the policy `mixed`.
    pub fn plan(&self, control: UetControl, ends: &[(u32, u32)], bytes: u64) -> Plan {
        let law = if control == UetControl::Credits { "fixed" } else { "nscc" };
        let mut plan = plan(self.topology.clone(), law, ends);
        let rtt = format!("{} ns", self.rtt.get());
        let settings: &[(&str, &str)] = match control {
            UetControl::Nscc => &[("network-rtt", &rtt)],
            UetControl::Credits => &[("window", "32768 packets")],
            UetControl::Both => &[("network-rtt", &rtt), ("credits", "true")],
        };
        for (name, value) in settings {
            plan.laws[0].set(name, value).expect("the law has this parameter");
        }
        plan.stop = Picos::from_nanos(Nanos::from_millis(10));
        plan.switch.pipeline = Picos::ZERO;
        plan.switch.priorities = 2;
        plan.switch.stamp = Stamp::Off;
        plan.switch.trim = Some(Trim { size: Bytes::new(HEADER) });
        // The packet on the wire does not count here.
        plan.switch.buffer = PerQueue { size: Bytes::new((self.queue - 1) * PACKET) }.into();
        let (min, max) = (Bytes::new(self.mark.0 * PACKET), Bytes::new(self.mark.1 * PACKET));
        plan.switch.mark = Red { min, max, probability: Fraction::ONE, ..Red::default() }.into();
        plan.switch.mark_host_links = control == UetControl::Nscc;
        plan.transport.mtu = Bytes::new(PACKET - HEADER);
        plan.transport.header = Bytes::new(HEADER);
        plan.transport.min_rto = Nanos::from_micros(100);
        plan.transport.recovery = Recovery::TrimNacks;
        plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(16_384) };
        plan.transport.ack_priority = Some(0);
        plan.transport.load_balancing = Mixed { paths: 128 }.into();
        plan.transport.credits = (control != UetControl::Nscc).then(|| Credits::uet(self.rtt, false));
        plan.connections.iter_mut().for_each(|connection| connection.priority = 1);
        let message = |connection| Message {
            connection: ConnectionId::from_index(connection),
            start: Picos::ZERO,
            amount: Amount::Exactly(Bytes::new(bytes)),
        };
        plan.messages = (0..ends.len()).map(message).collect();
        plan
    }

    /// Returns a plan like [`Self::plan`] in which every host sends to one other host, most of them in another pod.
    pub fn permutation(&self, control: UetControl, bytes: u64) -> Plan {
        let hosts = self.topology.hosts();
        let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
        self.plan(control, &ends, bytes)
    }
}

/// Returns runs of the validation with their names, with shorter flows.
pub(super) fn uet_plans() -> Vec<(&'static str, Plan)> {
    let network = UetNetwork::fat_tree(4);
    let incast: Vec<_> = (0..15).map(|from| (from, 15)).collect();
    let with_paths = |paths: AnyPathPolicy| {
        let mut plan = network.permutation(UetControl::Nscc, 500_000);
        plan.transport.load_balancing = paths;
        // The first core switch: its link to the first pod has a quarter of its rate.
        plan.slow_ports = vec![SlowPort { switch: SwitchId::new(16), port: PortId::new(0), divisor: 4 }];
        plan
    };
    let mut short_incast = UetNetwork::fat_tree(8).plan(
        UetControl::Nscc,
        &(1..128).map(|from| (from, 0)).collect::<Vec<_>>(),
        50_000,
    );
    short_incast.laws[0].set("initial-window", "50 packets").expect("NSCC has this parameter");
    let mut oversubscribed = UetNetwork {
        topology: Topology::Tiers(Tiers {
            pods: 1,
            racks: 4,
            hosts: 8,
            aggregation: 2,
            cores: 0,
            host_link: LINK,
            rack_link: LINK,
            core_link: LINK,
        }),
        rtt: Nanos::new(9_348),
        queue: 29,
        mark: (6, 24),
    }
    .permutation(UetControl::Credits, 500_000);
    let min_rate = Fraction::ratio(9, 40);
    oversubscribed.transport.credits = Some(Credits { min_rate, ..Credits::uet(Nanos::new(9_348), true) });
    vec![
        ("uet-incast-nscc", network.plan(UetControl::Nscc, &incast, 500_000)),
        ("uet-incast-rccc", network.plan(UetControl::Credits, &incast, 500_000)),
        ("uet-incast-both", network.plan(UetControl::Both, &incast, 500_000)),
        ("uet-incast-short-flows", short_incast),
        ("uet-slow-link-mixed", with_paths(Mixed { paths: 128 }.into())),
        ("uet-slow-link-reps", with_paths(Reps { paths: 128, ..Reps::default() }.into())),
        ("uet-slow-link-oblivious", with_paths(Oblivious { paths: 128 }.into())),
        ("uet-oversubscribed", oversubscribed),
    ]
}
