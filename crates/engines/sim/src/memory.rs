//! About what a run needs, before it starts.

use poseidon_plan::switch::{RecordCarrier, Stamp};
use poseidon_plan::{Plan, Topology};
use poseidon_types::Bytes;

/// Bytes per host: its place in a rack, its lanes, its share of the racks' queues.
const HOST: u64 = 256;
/// Bytes per port of a switch: the port, one queue, its share of the switch's timers.
const PORT: u64 = 160;
/// Bytes per connection before it sends: both ends.
const CONNECTION: u64 = 128;
/// Bytes per connection that sends: the law's state and what it remembers of packets in flight.
const SENDER: u64 = 1_200;
/// Bytes per message, in the plan's order and the host's list.
const MESSAGE: u64 = 64;
/// Bytes per node of the calendar.
const NODE: u64 = 1_024;

/// About what a run needs: what is built at the start, and the packets that its senders would have on the way if each filled its
/// path twice over. Queues that grow beyond need more.
pub(crate) fn needed(plan: &Plan) -> Bytes {
    let hosts = u64::from(plan.topology.hosts());
    let switches = u64::from(plan.topology.switches());
    let ports = match &plan.topology {
        Topology::Tiers(t) => {
            let racks = u64::from(t.pods) * u64::from(t.racks);
            let up = racks * u64::from(t.aggregation);
            let cores = u64::from(t.pods) * u64::from(t.aggregation) * u64::from(t.cores);
            hosts + 2 * up + 2 * cores
        }
        Topology::Chain(_) => hosts + 2 * switches,
        Topology::Rotor(r) => hosts + u64::from(r.racks) * (u64::from(r.racks) + 3),
        Topology::Edges(e) => 2 * e.edges().len() as u64 + switches * switches / 8,
    };
    let connections = plan.connections.len() as u64;
    let per_packet = 64 + beside(plan.switch.stamp) + 24;
    let mut senders: Vec<(u32, u32)> = plan.connections.iter().map(|c| (c.from, c.to)).collect();
    senders.sort_unstable();
    senders.dedup_by_key(|(from, _)| *from);
    let packets: u64 = senders
        .iter()
        .map(|(from, to)| {
            let packet = plan.topology.host_link(*from).rate.send_time_ceil(plan.data_size()).get().max(1);
            2 * (plan.base_rtt(*from, *to).get() / packet + 1)
        })
        .sum();
    let parts = [
        hosts * HOST,
        ports * PORT * u64::from(plan.switch.priorities),
        (switches + hosts / 16) * NODE,
        connections * CONNECTION,
        connections.min(hosts * 64) * SENDER,
        plan.messages.len() as u64 * MESSAGE,
        packets * per_packet,
    ];
    Bytes::new(parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part)))
}

/// What a packet carries beside itself, and its place in the list of free ones.
const fn beside(stamp: Stamp) -> u64 {
    match stamp {
        Stamp::HopRecords(RecordCarrier::Exact) => 2 * 64 + 4,
        Stamp::HopRecords(RecordCarrier::HpccNs3) => 64 + 4,
        Stamp::MaxHopDelay(_) | Stamp::Off => 0,
    }
}
