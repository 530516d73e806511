//! Estimates what a run costs before it starts: messages, packets, packet-hops and memory.
//!
//! The estimate needs no simulation. It counts every message of a fixed size as sent whole, up to the capacity of the
//! hosts' links. A long flow sends at its max-min fair share. Retransmissions and pause frames do not count. A drain
//! counts separately, because a run ends when its measured messages have finished.

use crate::resolve::ResolvedRun;
use poseidon_plan::patterns::collectives::MAX_EXPANDED_MESSAGES;
use poseidon_plan::rings::{RingLayout, RingTable};
use poseidon_plan::traffic::{Amount, Connection, Dependency, Event, Message};
use poseidon_plan::transport::Acks;
use poseidon_plan::{Backend, Plan};
use poseidon_types::{BitRate, Bytes, Picos};

/// The estimated cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The messages that can start before the measurement ends. A long flow is one message.
    pub messages: u64,
    /// The data packets.
    pub packets: u64,
    /// The data packets and ACKs. A packet counts once for each link that it crosses.
    pub packet_hops: u64,
    /// The additional packet-hops if the whole drain is needed.
    pub drain_packet_hops: u64,
    /// The time that the run covers until the measurement ends.
    pub duration: Picos,
    /// The memory of the run: its plan, the backend and the reducer.
    pub memory: Bytes,
    /// The memory for the message times of the finished run, which stay loaded while the study is judged.
    pub sample_memory: Bytes,
}

/// Bytes per message in the reducer: its times during the run, and its latency at the end.
const REDUCED_MESSAGE: u64 = 96;
/// Bytes per message in the stored message times.
const SAMPLED_MESSAGE: u64 = 40;
/// Bytes per sample of a watched queue.
const QUEUE_SAMPLE: u64 = 24;
/// Bytes per sample of a watched connection.
const CONNECTION_SAMPLE: u64 = 8;
/// Bytes per logged decision.
const DECISION: u64 = 8;
/// Bytes per run for the buffers of row files, and for the program itself.
const BASE: u64 = 12_000_000;

/// Estimates the cost of a run.
pub fn estimate_cost(resolved: &ResolvedRun, backend: &dyn Backend) -> Cost {
    let plan = &resolved.plan;
    let traffic = TrafficEstimate::new(resolved, resolved.measured_until);
    let replies = match plan.transport.acks {
        Acks::EveryPacket => 1.0,
        Acks::Coalesced { packets, .. } => 1.0 / f64::from(packets.max(1)),
        Acks::CoalescedBytes { bytes } => {
            let packets = bytes.get().div_ceil(plan.data_size().get().max(1)).max(1);
            1.0 / packets as f64
        }
    };
    let packet_hops = |traffic: &TrafficEstimate| to_count(traffic.packet_links * (1.0 + replies));
    let drain_packet_hops = if plan.stop > resolved.measured_until {
        packet_hops(&TrafficEstimate::new(resolved, plan.stop)).saturating_sub(packet_hops(&traffic))
    } else {
        0
    };
    let memory = backend.estimate_memory(plan).get().saturating_add(estimate_lab_memory(resolved, &traffic));
    Cost {
        messages: traffic.messages,
        packets: to_count(traffic.packets),
        packet_hops: packet_hops(&traffic),
        drain_packet_hops,
        duration: resolved.measured_until,
        memory: Bytes::new(memory),
        sample_memory: Bytes::new(sampled_messages(plan, traffic.messages).saturating_mul(SAMPLED_MESSAGE)),
    }
}

/// Returns the number of messages whose times are stored. Of a ring with many messages, only a sample is stored.
fn sampled_messages(plan: &Plan, messages: u64) -> u64 {
    let listed = plan.messages.len() as u64;
    messages.min(listed + plan.rings.len() as u64 * MAX_EXPANDED_MESSAGES)
}

/// Rounds a non-negative number to an integer.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and an estimate is not exact")]
fn to_count(value: f64) -> u64 {
    value.round() as u64
}

fn to_seconds(time: Picos) -> f64 {
    time.get() as f64 / 1e12
}

/// The estimated traffic of a run until some time.
struct TrafficEstimate {
    messages: u64,
    packets: f64,
    /// The sum over the data packets of the number of links on the path.
    packet_links: f64,
    /// The packets of the connections whose decisions are logged.
    logged_packets: f64,
}

impl TrafficEstimate {
    fn new(resolved: &ResolvedRun, end: Picos) -> Self {
        let plan = &resolved.plan;
        let ready = (!plan.dependencies.is_empty()).then(|| earliest_starts(plan));
        let starts =
            |index: usize, message: &Message| ready.as_ref().map_or(message.start, |ready| ready[index]);
        let rings = RingTable::new(&plan.rings, plan.transport.mtu);
        let mut loads = HostLoads::new(plan, end, &starts);
        rings.layouts().iter().for_each(|layout| loads.add_ring(plan, layout, end));
        let mut estimate = Self { messages: 0, packets: 0.0, packet_links: 0.0, logged_packets: 0.0 };
        for (index, message) in plan.messages.iter().enumerate() {
            let start = starts(index, message);
            if start >= end {
                continue;
            }
            let connection = plan.connections[message.connection.index()];
            let packets = match message.amount {
                Amount::Exactly(size) => packet_count(plan, size) as f64 * loads.sent_share(&connection),
                Amount::Until(until) => {
                    let bytes = long_flow_bytes(resolved, message, (start, until.min(end)), &loads);
                    bytes / plan.transport.mtu.get().max(1) as f64
                }
            };
            estimate.messages += 1;
            estimate.packets += packets;
            estimate.packet_links += packets * f64::from(plan.topology.hops(connection.from, connection.to));
            let is_watched = || plan.watched_connections.binary_search(&message.connection).is_ok();
            if plan.log_decisions && is_watched() {
                estimate.logged_packets += packets;
            }
        }
        rings.layouts().iter().for_each(|layout| estimate.add_ring(plan, layout, &loads, end));
        estimate
    }

    /// Adds the messages of a ring that can start before the end.
    fn add_ring(&mut self, plan: &Plan, layout: &RingLayout, loads: &HostLoads, end: Picos) {
        let share = ring_share(plan, layout, end);
        self.messages += to_count(layout.message_count() as f64 * share);
        for place in layout.ring.places() {
            let id = layout.ring.connection(place);
            let connection = plan.connections[id.index()];
            let packets = layout.packets_at(place) as f64 * share * loads.sent_share(&connection);
            self.packets += packets;
            self.packet_links += packets * f64::from(plan.topology.hops(connection.from, connection.to));
            if plan.log_decisions && plan.watched_connections.binary_search(&id).is_ok() {
                self.logged_packets += packets;
            }
        }
    }
}

/// Returns the share of a ring's messages that can start before the end of the measurement in an empty network. Each
/// step waits for the slowest connection.
fn ring_share(plan: &Plan, layout: &RingLayout, end: Picos) -> f64 {
    let ring = &layout.ring;
    let Some(available) = end.checked_sub(ring.start).filter(|time| !time.is_zero()) else { return 0.0 };
    let block = ring.size.get() / (u64::from(ring.ranks) * u64::from(ring.channels));
    let step_time = |place| {
        let amount = Amount::Exactly(Bytes::new(block));
        let message = Message { connection: ring.connection(place), start: Picos::ZERO, amount };
        shortest_duration(plan, &message, Event::Received)
    };
    let slowest = ring.places().map(step_time).max().unwrap_or(Picos::ZERO);
    let repetition = slowest.get().saturating_mul(ring.steps.into()).saturating_add(ring.compute_gap.get());
    let repetitions = available.get() as f64 / repetition.max(1) as f64;
    (repetitions / f64::from(ring.repetitions)).min(1.0)
}

/// Returns the number of packets of a message.
fn packet_count(plan: &Plan, size: Bytes) -> u64 {
    size.get().div_ceil(plan.transport.mtu.get().max(1)).max(1)
}

/// Returns the earliest time at which each message can start, in an empty network.
///
/// Dependencies are sorted by prerequisite, and a prerequisite precedes its dependent message. When the loop reaches a
/// prerequisite, its own start is therefore final.
fn earliest_starts(plan: &Plan) -> Vec<Picos> {
    let mut ready: Vec<Picos> = plan.messages.iter().map(|message| message.start).collect();
    for Dependency { prerequisite, event, dependent } in &plan.dependencies {
        let message = plan.messages[prerequisite.index()];
        let duration = shortest_duration(plan, &message, *event).get();
        let delay = plan.messages[dependent.index()].start.get();
        let finish = ready[prerequisite.index()].get().saturating_add(duration).saturating_add(delay);
        let start = &mut ready[dependent.index()];
        *start = (*start).max(Picos::new(finish));
    }
    ready
}

/// Returns the time from the start of a message until an event, in an empty network: the packets leave one after the
/// other at the line rate, and the last packet crosses the network.
fn shortest_duration(plan: &Plan, message: &Message, event: Event) -> Picos {
    let Connection { from, to, .. } = plan.connections[message.connection.index()];
    let size = message.amount.bytes().unwrap_or(Bytes::ZERO).get();
    let full_packets = packet_count(plan, Bytes::new(size)) - 1;
    let last_payload = size.saturating_sub(full_packets.saturating_mul(plan.transport.mtu.get()));
    let last_size = Bytes::new(last_payload.saturating_add(plan.data_overhead().get()));
    let full_size = Bytes::new(full_packets.saturating_mul(plan.data_size().get()));
    let sending = plan.topology.line_rate(from, to).send_time_ceil(full_size);
    let forward = plan.one_way_delay(from, to, last_size);
    let backward = match event {
        Event::Received => Picos::ZERO,
        Event::Acknowledged => plan.one_way_delay(to, from, plan.ack_size()),
    };
    sending + forward + backward
}

/// The load that messages of fixed sizes offer to each host's link, as a share of its capacity, and the number of long
/// flows on it.
struct HostLoads {
    sent: Vec<LinkLoad>,
    received: Vec<LinkLoad>,
}

#[derive(Clone, Copy, Default)]
struct LinkLoad {
    load: f64,
    long_flows: u32,
}

impl HostLoads {
    fn new(plan: &Plan, end: Picos, starts: &dyn Fn(usize, &Message) -> Picos) -> Self {
        let hosts = plan.topology.hosts() as usize;
        let mut loads =
            Self { sent: vec![LinkLoad::default(); hosts], received: vec![LinkLoad::default(); hosts] };
        let overhead = plan.data_overhead().get() as f64;
        for (index, message) in plan.messages.iter().enumerate() {
            if starts(index, message) >= end {
                continue;
            }
            let connection = plan.connections[message.connection.index()];
            for (link, rate) in loads.links_of(plan, &connection) {
                match message.amount {
                    Amount::Exactly(size) => {
                        let bytes = size.get() as f64 + packet_count(plan, size) as f64 * overhead;
                        let capacity = rate.get() as f64 / 8.0 * to_seconds(end);
                        link.load += bytes / capacity.max(1.0);
                    }
                    Amount::Until(_) => link.long_flows += 1,
                }
            }
        }
        loads
    }

    /// Adds the messages of a ring that can start before the end.
    fn add_ring(&mut self, plan: &Plan, layout: &RingLayout, end: Picos) {
        let payload = layout.ring.size.get() as f64 / f64::from(layout.ring.ranks * layout.ring.channels);
        let payload = payload * f64::from(layout.ring.steps) * f64::from(layout.ring.repetitions);
        let share = ring_share(plan, layout, end);
        for place in layout.ring.places() {
            let connection = plan.connections[layout.ring.connection(place).index()];
            let overhead = layout.packets_at(place) as f64 * plan.data_overhead().get() as f64;
            for (link, rate) in self.links_of(plan, &connection) {
                let capacity = rate.get() as f64 / 8.0 * to_seconds(end);
                link.load += (payload + overhead) * share / capacity.max(1.0);
            }
        }
    }

    /// Returns the links at both ends of a connection, with their rates.
    fn links_of(&mut self, plan: &Plan, connection: &Connection) -> [(&mut LinkLoad, BitRate); 2] {
        let Connection { from, to, .. } = *connection;
        [
            (&mut self.sent[from.index()], plan.topology.line_rate(from, to)),
            (&mut self.received[to.index()], plan.topology.line_rate(to, from)),
        ]
    }

    /// Returns the larger load of both ends of a connection.
    fn load(&self, connection: &Connection) -> f64 {
        self.sent[connection.from.index()].load.max(self.received[connection.to.index()].load)
    }

    /// Returns the share of a connection's messages that its links can carry.
    fn sent_share(&self, connection: &Connection) -> f64 {
        1.0 / self.load(connection).max(1.0)
    }

    /// Returns a long flow's share of its hosts' links in bits per second, if no other link limits it.
    fn link_share(&self, plan: &Plan, connection: &Connection) -> f64 {
        let share = |rate: BitRate, link: &LinkLoad| rate.get() as f64 / f64::from(link.long_flows.max(1));
        let Connection { from, to, .. } = *connection;
        let sent = share(plan.topology.line_rate(from, to), &self.sent[from.index()]);
        sent.min(share(plan.topology.line_rate(to, from), &self.received[to.index()]))
    }
}

/// Returns the payload that a long flow sends between two times. In each phase, the flow sends at its fair share. Where
/// the fair share is unknown, it sends at its share of the hosts' links. Messages of fixed sizes take their part first.
fn long_flow_bytes(
    resolved: &ResolvedRun,
    message: &Message,
    (start, end): (Picos, Picos),
    loads: &HostLoads,
) -> f64 {
    let plan = &resolved.plan;
    let connection = plan.connections[message.connection.index()];
    let payload_share = plan.transport.mtu.get() as f64 / plan.data_size().get().max(1) as f64;
    let default_rate = loads.link_share(plan, &connection) * payload_share;
    let mut bits = default_rate * to_seconds(end - start);
    for window in &resolved.phases {
        let (from, until) = (start.max(window.start), end.min(window.end));
        let fair_share = window.fair_shares.get(message.connection.index()).copied().unwrap_or(0.0);
        if fair_share > 0.0 && from < until {
            bits += (fair_share - default_rate) * to_seconds(until - from);
        }
    }
    let free_share = (1.0 - loads.load(&connection)).max(0.0);
    (bits * free_share / 8.0).max(0.0)
}

/// Estimates the memory for the plan, and for what the reducer stores.
fn estimate_lab_memory(resolved: &ResolvedRun, traffic: &TrafficEstimate) -> u64 {
    let plan = &resolved.plan;
    let count = |length: usize| length as u64;
    let samples = plan.stop.get().checked_div(plan.sample_every.get()).unwrap_or(0);
    let per_message = size_of::<Message>() as u64 + REDUCED_MESSAGE;
    let per_connection = size_of::<Connection>() as u64 + 8 * (1 + count(resolved.phases.len()));
    let terms = [
        BASE,
        count(plan.messages.len()).saturating_mul(per_message),
        count(plan.rings.len()) * MAX_EXPANDED_MESSAGES * REDUCED_MESSAGE,
        plan.rings.iter().map(|ring| u64::from(ring.repetitions) * u64::from(ring.ranks) * 8).sum(),
        count(plan.connections.len()).saturating_mul(per_connection),
        count(plan.dependencies.len()).saturating_mul(size_of::<Dependency>() as u64),
        count(resolved.queues.len()).saturating_mul(samples).saturating_mul(QUEUE_SAMPLE),
        count(plan.watched_connections.len()).saturating_mul(samples).saturating_mul(CONNECTION_SAMPLE),
        to_count(traffic.logged_packets).saturating_mul(DECISION),
    ];
    terms.iter().fold(0, |sum: u64, term| sum.saturating_add(*term))
}
