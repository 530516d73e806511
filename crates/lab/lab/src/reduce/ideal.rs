//! The latency of a message in an empty network.

use poseidon_plan::Plan;
use poseidon_types::{Bytes, HostId, Picos};

/// Returns the latency of a message in an empty network, in microseconds: see [`ideal_latency`].
pub fn ideal_latency_us(plan: &Plan, from: HostId, to: HostId, size: u64) -> f64 {
    ideal_latency(plan, from, to, size).get() as f64 / 1e6
}

/// Returns the latency of a message in an empty network. Packets are sent back to back on every link, and the ACK for
/// the last packet follows the ACK for the previous packet.
pub fn ideal_latency(plan: &Plan, from: HostId, to: HostId, size: u64) -> Picos {
    let mtu = plan.transport.mtu.get();
    let packets_before_last = size.div_ceil(mtu).saturating_sub(1);
    let last_size = Bytes::new(size - packets_before_last * mtu) + plan.data_overhead();
    // Arrival times of the last, second-to-last and first packets at the next node. `spacing` is the time between
    // consecutive packets after the first.
    let (mut last, mut before_last, mut first, mut spacing) =
        (Picos::ZERO, Picos::ZERO, Picos::ZERO, Picos::ZERO);
    for (index, link) in plan.topology.links_between(from, to).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let full_packet_time = link.rate.send_time_ceil(plan.data_size());
        spacing = spacing.max(full_packet_time);
        first += pipeline + full_packet_time;
        let link_free =
            packets_before_last.checked_sub(1).map_or(Picos::ZERO, |others| first + spacing * others);
        last = (last + pipeline).max(link_free) + link.rate.send_time_ceil(last_size) + link.delay;
        before_last = link_free + link.delay;
        first += link.delay;
    }
    for (index, link) in plan.topology.links_between(to, from).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let ack_time = link.rate.send_time_ceil(plan.ack_size());
        before_last += pipeline + ack_time;
        last = (last + pipeline).max(before_last) + ack_time + link.delay;
        before_last += link.delay;
    }
    last
}
