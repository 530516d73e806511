//! Which messages a connection carries, where each ends, and which wait for others: what both ends know before the run.

use poseidon_plan::traffic::{Amount, Event};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::Bytes;

/// The messages of all connections.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Where the messages of each connection begin in `order`; one more at the end.
    first: Vec<u32>,
    /// Messages, connection by connection, in the order of the plan.
    order: Vec<u32>,
    /// By message: the number of the packet behind its last one.
    end: Vec<u32>,
    /// By message: how many others it waits for. Empty where none waits.
    pub(crate) waits_for: Vec<u32>,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan) -> Result<Self, PlanError> {
        let mut first = vec![0; plan.connections.len() + 1];
        for message in &plan.messages {
            first[message.connection as usize + 1] += 1;
        }
        for connection in 0..plan.connections.len() {
            first[connection + 1] += first[connection];
        }
        let mut next = first.clone();
        let mut packets = vec![0; plan.connections.len()];
        let mut order = vec![0; plan.messages.len()];
        let mut end = Vec::with_capacity(plan.messages.len());
        for (index, message) in plan.messages.iter().enumerate() {
            let connection = message.connection as usize;
            order[next[connection] as usize] = u32::try_from(index).unwrap_or(u32::MAX);
            next[connection] += 1;
            let more = match message.amount {
                Amount::Exactly(bytes) => bytes.get().div_ceil(plan.transport.mtu.get()),
                Amount::Until(_) => u64::from(u32::MAX),
            };
            let sum = u64::from(packets[connection]) + more;
            packets[connection] = u32::try_from(sum).map_err(|_| PlanError::Message {
                index,
                why: "its connection carries more than 2^32 packets; spread it over several",
            })?;
            end.push(packets[connection]);
        }
        let mut waits_for = Vec::new();
        if !plan.after.is_empty() {
            waits_for.resize(plan.messages.len(), 0);
            for after in &plan.after {
                waits_for[after.then as usize] += 1;
            }
        }
        Ok(Self { first, order, end, waits_for })
    }

    /// The message at `position` among those of a connection.
    pub(crate) fn message(&self, connection: u32, position: u32) -> Option<u32> {
        let at = self.first[connection as usize] + position;
        (at < self.first[connection as usize + 1]).then(|| self.order[at as usize])
    }

    /// The number of the packet behind a message's last one.
    pub(crate) fn end(&self, message: u32) -> u32 {
        self.end[message as usize]
    }

    /// Whether a message waits for others.
    pub(crate) fn waits(&self, message: u32) -> bool {
        self.waits_for.get(message as usize).is_some_and(|count| *count > 0)
    }
}

/// The messages that wait for `event` of `message`.
pub(crate) fn waiting_for(plan: &Plan, message: u32, event: Event) -> impl Iterator<Item = u32> + '_ {
    let from = plan.after.partition_point(|after| (after.message, after.event) < (message, event));
    let those = plan.after[from..].iter();
    those.take_while(move |after| (after.message, after.event) == (message, event)).map(|after| after.then)
}

/// Payload of the last packet of a message of `size` bytes.
pub(crate) fn last_payload(size: Bytes, mtu: Bytes) -> u16 {
    let rest = size.get() % mtu.get();
    u16::try_from(if rest == 0 { mtu.get() } else { rest }).expect("an MTU fits 16 bits")
}
