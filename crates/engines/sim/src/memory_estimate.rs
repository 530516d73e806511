//! Estimates the memory that a run needs.

use poseidon_plan::switch::{RecordCarrier, Stamp};
use poseidon_plan::traffic::Connection;
use poseidon_plan::transport::Recovery;
use poseidon_plan::{Plan, Topology};
use poseidon_policies::path::PathSelector;
use poseidon_types::{Bytes, HostId};

/// Bytes per host, including its transmit queues and its share of the rack's timers.
const HOST: u64 = 256;
/// Bytes per switch port, including one queue and its share of the switch's timers.
const PORT: u64 = 160;
/// Bytes per connection for both ends, before the connection sends.
const CONNECTION: u64 = 128;
/// Bytes per sending connection, for the law's state and the scoreboard.
const SENDER: u64 = 1_200;
/// Bytes per message, in the schedule and in the host's message list.
const MESSAGE: u64 = 64;
/// Bytes per node in the calendar.
const NODE: u64 = 1_024;
/// Bytes per packet, including its share of arrivals and queues.
const PACKET: u64 = 64 + 24;
/// Bytes per connection in a real stack, for both sides and their buffers. The size differs between stacks, so this is
/// an assumption.
const STACK_CONNECTION: u64 = 64_000;
/// Bytes per packet in flight in a scoreboard that records each packet and each transmission.
const SACK_PACKET: u64 = 2 * 16;
/// Bytes per datagram of a real stack in addition to its packet and its bytes: its entry in the arena.
const DATAGRAM: u64 = 24 + 4;

/// Estimates the memory that a run needs: the initial state plus two BDPs of packets per sender. A run with
/// long queues needs more.
pub(crate) fn estimate_memory(plan: &Plan) -> Bytes {
    let hosts = u64::from(plan.topology.hosts());
    let switches = u64::from(plan.topology.switches());
    let connections = plan.connections.len() as u64;
    let terms = [
        hosts * HOST,
        estimate_ports(&plan.topology) * PORT * u64::from(plan.switch.priorities),
        (switches + estimate_racks(&plan.topology)) * NODE,
        connections * CONNECTION,
        connections.min(hosts * 64) * SENDER,
        plan.messages.len() as u64 * MESSAGE,
        plan.rings.iter().map(|ring| u64::from(ring.ranks) * u64::from(ring.channels) * MESSAGE).sum(),
        estimate_packets(plan, |_| true) * (PACKET + record_bytes(plan.switch.stamp)),
        estimate_stacks(plan),
        estimate_path_state(plan),
    ];
    Bytes::new(terms.iter().fold(0, |sum: u64, term| sum.saturating_add(*term)))
}

/// Estimates the number of racks, which are nodes of the calendar.
fn estimate_racks(topology: &Topology) -> u64 {
    match topology {
        Topology::Rails(r) => u64::from(r.servers),
        Topology::Tiers(_) | Topology::Chain(_) | Topology::Rotor(_) | Topology::Edges(_) => {
            u64::from(topology.hosts()) / 16
        }
    }
}

/// Estimates the number of switch ports. For a network described by a list of links, the estimate includes
/// the size of the route tables.
fn estimate_ports(topology: &Topology) -> u64 {
    let hosts = u64::from(topology.hosts());
    let switches = u64::from(topology.switches());
    match topology {
        Topology::Tiers(t) => {
            let racks = u64::from(t.pods) * u64::from(t.racks);
            let uplinks = racks * u64::from(t.aggregation);
            let core_links = u64::from(t.pods) * u64::from(t.aggregation) * u64::from(t.cores);
            hosts + 2 * uplinks + 2 * core_links
        }
        Topology::Chain(_) => hosts + 2 * switches,
        Topology::Rotor(r) => hosts + u64::from(r.racks) * (u64::from(r.racks) + 3),
        Topology::Rails(r) => 3 * hosts + 2 * u64::from(r.leaves()) * u64::from(r.spines),
        Topology::Edges(e) => 2 * e.edges().len() as u64 + switches * switches / 8,
    }
}

/// Estimates the memory of path policies and of the scoreboards that replace the implicit one.
fn estimate_path_state(plan: &Plan) -> u64 {
    let senders = (plan.connections.len() as u64).min(u64::from(plan.topology.hosts()) * 64);
    let paths =
        if plan.transport.load_balancing.is_stateless() { 0 } else { size_of::<PathSelector>() as u64 };
    let is_sack = plan.transport.recovery == Recovery::TrimNacks;
    let packets = if is_sack { estimate_packets(plan, |_| true) * SACK_PACKET } else { 0 };
    senders * paths + packets
}

/// Estimates the memory of connections in real stacks and of their datagrams.
fn estimate_stacks(plan: &Plan) -> u64 {
    if plan.stacks.is_empty() {
        return 0;
    }
    let is_stack = |law| plan.stacks.iter().any(|stack| stack.law == law);
    let connections = plan.connections.iter().filter(|connection| is_stack(connection.law)).count() as u64;
    let datagrams = estimate_packets(plan, |connection| is_stack(connection.law));
    connections * STACK_CONNECTION + datagrams * (DATAGRAM + plan.data_size().get())
}

/// Estimates the number of in-flight packets of some connections as two BDPs per sending host.
fn estimate_packets(plan: &Plan, counts: impl Fn(&Connection) -> bool) -> u64 {
    let connections = plan.connections.iter().filter(|connection| counts(connection));
    let mut senders: Vec<(HostId, HostId)> = connections.map(|c| (c.from, c.to)).collect();
    senders.sort_unstable();
    senders.dedup_by_key(|(from, _)| *from);
    let packets = |(from, to): &(HostId, HostId)| {
        let send_time = plan.topology.line_rate(*from, *to).send_time_ceil(plan.data_size()).get().max(1);
        2 * (plan.base_rtt(*from, *to).get() / send_time + 1)
    };
    senders.iter().map(packets).sum()
}

/// Returns the size of a packet's hop records plus their free-list entry.
const fn record_bytes(stamp: Stamp) -> u64 {
    match stamp {
        Stamp::HopRecords(RecordCarrier::Exact) => 2 * 64 + 4,
        Stamp::HopRecords(RecordCarrier::HpccNs3) => 64 + 4,
        Stamp::MaxHopDelay(_) | Stamp::Off => 0,
    }
}
