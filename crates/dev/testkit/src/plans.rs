//! A base plan that tests modify, one plan per simulator feature, and the networks of uet-htsim.

mod feature_plans;
mod uet;

pub use feature_plans::feature_plans;
pub use uet::{UetControl, UetNetwork};

use poseidon_laws::AnyParams;
use poseidon_plan::joins::Joins;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::switch::{AnyMarkPolicy, DelayCarrier, MarkDirection, Pause, Shared, Stamp, Step, Switch};
use poseidon_plan::traffic::{Amount, Connection, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Echo, Eligibility, PathFilter, Recovery, Transport};
use poseidon_plan::{Link, Plan, SwitchPort, Topology};
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, HostId, Nanos, Picos, PortId, SwitchId};

/// The links in Poseidon's evaluation (section 5).
pub const LINK: Link = Link { rate: BitRate::from_gbps(200), delay: Picos::new(245_000) };

/// Returns a plan with the fabric of Poseidon's evaluation (section 5).
///
/// Switches have a latency of 600 ns, a shared 64 MB buffer with dynamic thresholds, and exact telemetry. The packet
/// size is 4096 B. The law uses its default parameters. Connection `i` sends from `endpoints[i].0` to `endpoints[i].1`,
/// starting at `i` us, until the end of the run.
pub fn plan(topology: Topology, law: &str, endpoints: &[(u32, u32)]) -> Plan {
    Plan {
        seed: 7,
        stop: Picos::from_nanos(Nanos::from_millis(20)),
        topology,
        switch: Switch {
            pipeline: Picos::new(600_000),
            priorities: 1,
            buffer: Shared { size: Bytes::new(64_000_000), alpha: Fraction::ratio(8, 1) }.into(),
            trim: None,
            pause: Pause::Off,
            mark: AnyMarkPolicy::OFF,
            mark_host_links: true,
            mark_direction: MarkDirection::Forward,
            stamp: Stamp::MaxHopDelay(DelayCarrier::Exact),
        },
        telemetry_off: Vec::new(),
        switch_overrides: Vec::new(),
        slow_ports: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(4_096),
            header: Bytes::ZERO,
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_micros(250),
            first_rto: Nanos::from_millis(1),
            recovery: Recovery::Selective { reordering: 3 },
            acks: Acks::EveryPacket,
            echo: Echo::Exact,
            ack_priority: None,
            load_balancing: AnyPathPolicy::ECMP,
            plb: None,
            coexistence: false,
            credits: None,
            path_filter: PathFilter::Each,
        },
        laws: vec![AnyParams::for_law(law).expect("the law is registered")],
        stacks: Vec::new(),
        connections: endpoints
            .iter()
            .map(|&(from, to)| Connection {
                from: HostId::new(from),
                to: HostId::new(to),
                law: 0,
                entropy: 0,
                priority: 0,
            })
            .collect(),
        messages: (0..endpoints.len())
            .map(|i| Message {
                connection: ConnectionId::from_index(i),
                start: Picos::from_nanos(Nanos::from_micros(i as u64)),
                amount: Amount::ENDLESS,
            })
            .collect(),
        dependencies: Vec::new(),
        joins: Joins::default(),
        rings: Vec::new(),
        link_changes: Vec::new(),
        link_impairments: Vec::new(),
        sample_every: Picos::ZERO,
        watched_ports: Vec::new(),
        watched_connections: Vec::new(),
        log_decisions: false,
    }
}

/// Returns the plan of the benchmarks: host `i` of `n` sends to host `(i + n / 2 + 1) % n` for `us` microseconds. Every
/// flow leaves its rack, and most leave their pod. Packets have 1500 bytes, and switches share their buffers.
pub fn permutation(topology: Topology, law: &str, stamp: Stamp, us: u64) -> Plan {
    let hosts = topology.hosts();
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    let mut plan = plan(topology, law, &ends);
    plan.laws = vec![AnyParams::for_law(law).expect("the law exists")];
    // Only Poseidon has this parameter, which is the rate of the fastest host.
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
        message.start = Picos::ZERO;
    }
    plan
}

/// Returns the switch ports for the given `(switch, port)` numbers.
pub fn switch_ports(numbers: &[(u32, u32)]) -> Vec<SwitchPort> {
    numbers.iter().map(|(switch, port)| SwitchPort::new(SwitchId::new(*switch), PortId::new(*port))).collect()
}

/// Returns the connection ids for the given numbers.
pub fn connection_ids(numbers: impl IntoIterator<Item = u32>) -> Vec<ConnectionId> {
    numbers.into_iter().map(ConnectionId::new).collect()
}

/// Returns a change to the link at a switch port.
pub const fn link_change(time: Picos, switch: u32, port: u32, event: LinkEvent) -> LinkChange {
    LinkChange { time, switch: SwitchId::new(switch), port: PortId::new(port), event }
}
