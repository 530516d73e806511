//! What a message would take if it were alone.

use poseidon_plan::Plan;
use poseidon_types::{Bytes, Picos};

/// The time that a message takes in an empty network, us: its packets one behind the other on every wire, and the ACK of the last
/// behind that of the one before.
pub fn ideal_us(plan: &Plan, from: u32, to: u32, size: u64) -> f64 {
    let mtu = plan.transport.mtu.get();
    let before_last = size.div_ceil(mtu).saturating_sub(1);
    let last = Bytes::new(size - before_last * mtu) + plan.data_overhead();
    // When the last packet, the one before it and the first reach the next node, and how far apart those behind the first do.
    let (mut reaches, mut before, mut first, mut apart) =
        (Picos::ZERO, Picos::ZERO, Picos::ZERO, Picos::ZERO);
    for (index, link) in plan.topology.links_between(from, to).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let full = link.rate.send_time_ceil(plan.data_size());
        apart = apart.max(full);
        first += pipeline + full;
        let free = before_last.checked_sub(1).map_or(Picos::ZERO, |others| first + apart * others);
        reaches = (reaches + pipeline).max(free) + link.rate.send_time_ceil(last) + link.delay;
        before = free + link.delay;
        first += link.delay;
    }
    for (index, link) in plan.topology.links_between(to, from).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let ack = link.rate.send_time_ceil(plan.ack_size());
        before += pipeline + ack;
        reaches = (reaches + pipeline).max(before) + ack + link.delay;
        before += link.delay;
    }
    reaches.get() as f64 / 1e6
}
