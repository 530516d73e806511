//! The loop over windows, in as many threads as asked for.

use core::num::NonZeroU32;
use poseidon_plan::records::{Kept, Sink};
use poseidon_plan::{Backend, Plan, PlanError, Report};
use poseidon_types::{Picos, Signals};

use crate::calendar::MOST_PORTS;
use crate::connection::Receiver;
use crate::exchange::{Exchange, NEVER};
use crate::host::{Ends, Rack, supplies};
use crate::network::Network;
use crate::switch::Switches;
use crate::world::World;

/// The simulator. The result does not depend on the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Simulator {
    /// Threads that share a run.
    pub threads: NonZeroU32,
}

impl Default for Simulator {
    /// One thread: the fastest for small networks.
    fn default() -> Self {
        Self { threads: NonZeroU32::MIN }
    }
}

impl Backend for Simulator {
    fn supplies(&self, plan: &Plan) -> Signals {
        supplies(plan.switch.stamp)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        plan.check(self.supplies(plan))?;
        let network = Network::new(plan);
        refuse_what_does_not_fit(&network)?;
        let shards = self.threads.get().min(network.racks);
        let exchange = Exchange::new(shards as usize);
        let parts: Vec<(Report, Kept)> = if shards == 1 {
            vec![run_shard(plan, &network, &exchange, 0, 1)]
        } else {
            std::thread::scope(|scope| {
                let start = |shard| {
                    let (network, exchange) = (&network, &exchange);
                    scope.spawn(move || run_shard(plan, network, exchange, shard, shards))
                };
                let threads: Vec<_> = (0..shards).map(start).collect();
                threads.into_iter().map(|thread| thread.join().expect("a shard runs to its end")).collect()
            })
        };
        Ok(put_together(parts, sink))
    }
}

/// Says so if its thread fails.
struct Watch<'a>(&'a Exchange);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// One shard from beginning to end: what it did, and its rows.
fn run_shard(plan: &Plan, network: &Network, exchange: &Exchange, shard: u32, shards: u32) -> (Report, Kept) {
    let _watch = Watch(exchange);
    let mut world = World::new(plan, network, shard, shards);
    let mut switches = Switches::new(&world);
    let mut racks: Vec<Rack> = (0..network.racks).map(|rack| Rack::new(&world, rack)).collect();
    let mut ends = Ends {
        senders: plan.connections.iter().map(|_| None).collect(),
        receivers: vec![Receiver::default(); plan.connections.len()],
    };
    hand_out_messages(&mut world, &mut racks);
    let every = plan.sample_every.get();
    let mut next_sample = every;
    for round in 0.. {
        // Samples lie on the window's edge: what happened before is done, what comes after is not begun.
        while every > 0 && next_sample <= world.calendar.begins().min(plan.stop.get()) {
            switches.sample(&mut world, next_sample);
            next_sample += every;
        }
        if world.calendar.begins() >= plan.stop.get() {
            break;
        }
        let list = world.calendar.take_list(false);
        for switch in &list {
            switches.visit(&mut world, *switch);
        }
        world.calendar.give_back_list(false, list);
        let list = world.calendar.take_list(true);
        for node in &list {
            racks[(*node - network.switches()) as usize].visit(&mut world, &mut ends);
        }
        world.calendar.give_back_list(true, list);
        let next = world.next_window();
        let (inbox, earliest) = exchange.meet(shard as usize, round, &mut world.outbox, next);
        for mail in inbox {
            world.receive(mail);
        }
        if earliest == NEVER {
            break;
        }
        world.calendar.advance_to(earliest);
    }
    world.report.ended = Picos::new(world.calendar.begins()).min(plan.stop);
    world.report.in_flight = world.arena.live();
    (world.report, world.rows)
}

/// Sums of what the shards did; their rows in an order that does not depend on who wrote them.
fn put_together(parts: Vec<(Report, Kept)>, sink: &mut dyn Sink) -> Report {
    let (mut whole, mut rows) = (Report::default(), Kept::default());
    for (part, mut kept) in parts {
        whole.ended = part.ended;
        whole.packet_hops += part.packet_hops;
        whole.sent += part.sent;
        whole.delivered += part.delivered;
        whole.dropped += part.dropped;
        whole.in_flight += part.in_flight;
        whole.decisions += part.decisions;
        whole.decisions_with_telemetry += part.decisions_with_telemetry;
        whole.delivered_bytes += part.delivered_bytes;
        whole.result_hash = whole.result_hash.wrapping_add(part.result_hash);
        rows.messages.append(&mut kept.messages);
        rows.drops.append(&mut kept.drops);
        rows.queues.append(&mut kept.queues);
    }
    check_conservation(&whole);
    rows.messages.sort_unstable_by_key(|row| (row.acknowledged, row.message));
    rows.drops.sort_unstable_by_key(|row| (row.at, row.switch, row.connection));
    rows.queues.sort_unstable_by_key(|row| (row.at, row.switch, row.port));
    rows.messages.into_iter().for_each(|row| sink.message(row));
    rows.drops.into_iter().for_each(|row| sink.drop(row));
    rows.queues.into_iter().for_each(|row| sink.queue(row));
    whole
}

/// Every packet sent was delivered, dropped, or is on the way; an ACK is the packet it acknowledges, turned round.
fn check_conservation(report: &Report) {
    let gone = report.decisions + report.dropped;
    assert_eq!(report.sent, gone + report.in_flight, "packets appeared or vanished: {report:?}");
}

/// Sixteen bits hold a place in a rack and a pod, twelve a port.
fn refuse_what_does_not_fit(network: &Network) -> Result<(), PlanError> {
    let widest = (0..network.switches()).map(|switch| network.ports(switch).len()).max();
    if widest.is_some_and(|ports| ports > MOST_PORTS as usize) || network.hosts_per_rack > MOST_PORTS {
        return Err(PlanError::Unsupported("a switch with more than 4096 ports"));
    }
    Ok(())
}

/// Gives each rack of this shard the messages of its hosts.
fn hand_out_messages(world: &mut World<'_>, racks: &mut [Rack]) {
    let mut of_rack: Vec<Vec<u32>> = vec![Vec::new(); racks.len()];
    for (index, message) in world.plan.messages.iter().enumerate() {
        let from = world.plan.connections[message.connection as usize].from;
        let rack = from / world.network.hosts_per_rack;
        if world.owns(world.rack_node(rack)) {
            of_rack[rack as usize].push(u32::try_from(index).expect("fewer than 2^32 messages"));
        }
    }
    for (rack, messages) in racks.iter_mut().zip(of_rack) {
        rack.start(world, messages);
    }
}
