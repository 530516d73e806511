//! The loop over windows, in as many threads as asked for.

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::switch::Pause;
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report, Topology};
use poseidon_types::{Bytes, Picos, Signals};

use crate::calendar::{Calendar, MOST_PORTS};
use crate::exchange::{Agreed, Alone, Exchange, Mail, MeetingPoint, NEVER};
use crate::host::{Ends, Rack, entropy_of};
use crate::memory;
use crate::network::Network;
use crate::packet::Packet;
use crate::pause::Pauses;
use crate::rows;
use crate::schedule::Schedule;
use crate::stamp::Telemetry;
use crate::switch::Switches;
use crate::world::{Setup, World};

/// The simulator. The result depends on the plan alone, not on any of these settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator {
    /// Threads that share a run; `None` for as many as pay.
    pub threads: Option<NonZeroU32>,
    /// A run that would need more memory is refused before it starts.
    pub memory_limit: Option<Bytes>,
    /// Telemetry lives in the real bytes of its format, which switches update in place, instead of in decoded values: slower,
    /// and the same.
    pub through_bytes: bool,
}

/// The sink is told how far the run is once in so many windows.
const REPORT_EVERY: u64 = 1_024;

impl Simulator {
    /// A simulator that uses this many threads.
    pub fn with_threads(threads: NonZeroU32) -> Self {
        Self { threads: Some(threads), ..Self::default() }
    }

    /// About what a run would need.
    pub fn memory_needed(plan: &Plan) -> Bytes {
        memory::needed(plan)
    }

    /// Checks the plan and builds what all shards share; `shards` is asked for and may become less.
    pub(crate) fn set_up<'a>(&self, plan: &'a Plan, shards: u32) -> Result<Setup<'a>, PlanError> {
        plan.check(self.supplies(plan))?;
        if let Some(limit) = self.memory_limit {
            let needed = memory::needed(plan);
            if needed > limit {
                return Err(PlanError::Memory { needed, limit });
            }
        }
        let network = Network::new(plan);
        refuse_what_does_not_fit(plan, &network)?;
        Pauses::check(plan, &network)?;
        let schedule = Schedule::new(plan)?;
        let shards = shards.min(network.racks);
        Ok(Setup { plan, network, schedule, through_bytes: self.through_bytes, shards })
    }
}

impl Backend for Simulator {
    fn supplies(&self, plan: &Plan) -> Signals {
        supplies(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<(u32, u32)>> {
        let network = Network::new(plan);
        connections.iter().map(|connection| route(&network, connection)).collect()
    }

    fn ports(&self, plan: &Plan, switch: u32) -> u32 {
        Network::new(plan).ports(switch)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        let threads = self.threads.map_or_else(|| threads_that_pay(plan), NonZeroU32::get);
        let setup = self.set_up(plan, threads)?;
        if setup.shards == 1 {
            let done = run_shard(&setup, &mut Alone, sink);
            return Ok(put_together(&[done]));
        }
        let point = MeetingPoint::new(setup.shards);
        let parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..setup.shards)
                .map(|shard| {
                    let (setup, point) = (&setup, &point);
                    scope.spawn(move || run_shard(setup, &mut point.join(shard), &mut Nobody))
                })
                .collect();
            let mut parts = vec![run_shard(&setup, &mut point.join(0), sink)];
            parts.extend(others.into_iter().map(|thread| thread.join().expect("a shard runs to its end")));
            parts
        });
        Ok(put_together(&parts))
    }
}

/// The ports that a connection's packets leave by.
fn route(network: &Network<'_>, connection: &Connection) -> Vec<(u32, u32)> {
    let (from, to) = (network.place(connection.from), network.place(connection.to));
    let packet = Packet {
        to_rack: to.rack,
        to_place: to.place,
        to_pod: to.pod,
        entropy: entropy_of(connection),
        ..Packet::EMPTY
    };
    let (mut at, mut ports) = (from.rack, Vec::new());
    while at < network.switches() {
        let Some(port) = network.route(at, network.crossroads(at), &packet, 0) else { break };
        ports.push((at, port));
        at = network.behind(at, port).1;
    }
    ports
}

/// What a host tells a law in this plan.
pub(crate) fn supplies(plan: &Plan) -> Signals {
    let circuit = match plan.topology {
        Topology::Rotor(_) => Signals::CIRCUIT_STATE,
        Topology::Tiers(_) | Topology::Chain(_) | Topology::Edges(_) => Signals::NONE,
    };
    Signals::RTT | Signals::ECN_ECHO | Signals::HOP_COUNT | circuit | Telemetry::supplies(plan.switch.stamp)
}

/// What one shard did, and what its books leave over: packets and payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) report: Report,
    pub(crate) left_over: (i128, i128),
}

/// One shard from beginning to end.
pub(crate) fn run_shard(setup: &Setup<'_>, exchange: &mut dyn Exchange, sink: &mut dyn Sink) -> Done {
    let plan = setup.plan;
    let mut world = World::new(setup, exchange.shard());
    let mut switches = Switches::new(&mut world);
    let mut ends = Ends::new(&world);
    let mut racks = own_racks(&mut world);
    let stop = plan.stop.get();
    let (mut inbox, mut finished, mut break_off) = (Mail::default(), 0, false);
    for round in 1_u64.. {
        if world.calendar.begins() < stop {
            run_window(&mut world, &mut switches, &mut racks, &mut ends);
        }
        let wants = Agreed {
            next: if world.calendar.begins() >= stop { NEVER } else { world.next_window() },
            break_off,
        };
        let agreed = exchange.meet(&mut world.outbox, &mut inbox, &mut world.rows, wants);
        world.receive(&inbox);
        inbox.clear();
        if exchange.shard() == 0 && !rows::is_empty(&world.rows) {
            finished += world.rows.messages.len() as u64;
            rows::hand_over(&mut world.rows, sink);
        }
        if agreed.next == NEVER || agreed.break_off {
            world.report.broken_off = agreed.break_off && agreed.next != NEVER;
            break;
        }
        world.calendar.advance_to(agreed.next);
        if exchange.shard() == 0 && round.is_multiple_of(REPORT_EVERY) {
            let progress = Progress {
                now: Picos::new(world.calendar.begins()).min(plan.stop),
                packet_hops: world.report.packet_hops,
                finished,
            };
            break_off = sink.progress(progress) == ControlFlow::Break(());
        }
    }
    // A last sample at the very end.
    let every = plan.sample_every.get();
    if every > 0 && stop.is_multiple_of(every) && !world.report.broken_off {
        switches.sample_all(&mut world, stop);
        racks.iter().flatten().for_each(|rack| rack.sample(&mut world, &ends, stop));
    }
    exchange.meet(&mut world.outbox, &mut inbox, &mut world.rows, Agreed { next: NEVER, break_off: false });
    if exchange.shard() == 0 {
        rows::hand_over(&mut world.rows, sink);
    }
    world.report.ended = Picos::new(world.calendar.begins()).min(plan.stop);
    world.report.in_flight = world.in_flight().0;
    Done { report: world.report, left_over: world.books() }
}

/// Everything that happens in one window: switches, then the racks that they may reach within it.
fn run_window(world: &mut World<'_>, switches: &mut Switches, racks: &mut [Option<Rack>], ends: &mut Ends) {
    let list = world.calendar.take_list(false);
    for switch in &list {
        switches.visit(world, *switch);
    }
    world.calendar.give_back_list(false, list);
    let list = world.calendar.take_list(true);
    for node in &list {
        let rack = racks[(*node - world.network.switches()) as usize].as_mut();
        rack.expect("only own nodes are listed").visit(world, ends);
    }
    world.calendar.give_back_list(true, list);
}

/// The racks of this shard, with the messages of their hosts.
fn own_racks(world: &mut World<'_>) -> Vec<Option<Rack>> {
    let mine = |rack| world.owns(world.network.rack_node(rack));
    let mut racks: Vec<Option<Rack>> =
        (0..world.network.racks).map(|rack| mine(rack).then(|| Rack::new(world, rack))).collect();
    let mut messages: Vec<Vec<u32>> = vec![Vec::new(); racks.len()];
    for (index, message) in (0..).zip(&world.plan.messages) {
        let from = world.plan.connections[message.connection as usize].from;
        let rack = world.network.place(from).rack as usize;
        if racks[rack].is_some() && !world.schedule.waits(index) {
            messages[rack].push(index);
        }
    }
    for (rack, messages) in racks.iter_mut().zip(messages) {
        if let Some(rack) = rack {
            rack.start(world, messages);
        }
    }
    racks
}

/// What the shards did together. Every packet and every byte that was sent has been taken in or dropped, or is on the way.
pub(crate) fn put_together(parts: &[Done]) -> Report {
    let mut whole = Report::default();
    let mut left_over = (0, 0);
    for part in parts {
        whole.add(&part.report);
        left_over = (left_over.0 + part.left_over.0, left_over.1 + part.left_over.1);
    }
    assert_eq!(left_over, (0, 0), "packets or bytes appeared or vanished: {whole:?}");
    whole
}

/// Sixteen bits hold a place in a rack and a pod, twelve a port; some things do not go together.
fn refuse_what_does_not_fit(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
    let widest = (0..network.switches()).map(|switch| network.ports(switch)).max().unwrap_or(0);
    if widest > MOST_PORTS {
        return Err(PlanError::Unsupported("a switch with more than 4096 ports"));
    }
    if network.rates().len() > usize::from(u16::MAX) {
        return Err(PlanError::Unsupported("more than 65,535 different link rates"));
    }
    for rate in network.rates() {
        if let Some(why) = Telemetry::cannot_tell(plan.switch.stamp, *rate) {
            return Err(PlanError::Unsupported(why));
        }
    }
    for (index, change) in plan.changes.iter().enumerate() {
        if change.port >= network.ports(change.switch) {
            return Err(PlanError::Change { index, why: "its switch has no such port" });
        }
    }
    if network.rotor().is_none() {
        return Ok(());
    }
    if plan.switch.priorities > 1 || plan.switch.pause != Pause::Off {
        return Err(PlanError::Unsupported("priorities or flow control in a rotor"));
    }
    if !plan.changes.is_empty() {
        return Err(PlanError::Unsupported("link changes in a rotor"));
    }
    Ok(())
}

/// Below about this many packet-hops per window and thread, meeting costs more than sharing saves.
const HOPS_THAT_PAY: u64 = 1_000;

/// As many threads as there are cores, or fewer where the windows of this plan hold too little for them: judged by what its
/// senders could send in a window at the rate of their links.
fn threads_that_pay(plan: &Plan) -> u32 {
    if plan.check(supplies(plan)).is_err() {
        return 1;
    }
    let network = Network::new(plan);
    let window = Calendar::window_length(network.shortest(plan.switch.pause != Pause::Off));
    let mut senders: Vec<(u32, u32)> = plan.connections.iter().map(|c| (c.from, c.to)).collect();
    senders.sort_unstable();
    senders.dedup_by_key(|(from, _)| *from);
    let hops = |(from, to): &(u32, u32)| {
        let packet = plan.topology.host_link(*from).rate.send_time_ceil(plan.data_size()).get().max(1);
        // A packet and its ACK.
        window / packet * 2 * u64::from(plan.topology.hops(*from, *to))
    };
    let per_window: u64 = senders.iter().map(hops).sum();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    u32::try_from((per_window / HOPS_THAT_PAY).clamp(1, cores)).unwrap_or(1)
}

/// Takes no rows: those of a shard go to the first.
struct Nobody;

impl Sink for Nobody {
    fn message(&mut self, _: poseidon_plan::records::MessageRow) {}
    fn received(&mut self, _: poseidon_plan::records::ReceivedRow) {}
    fn drop(&mut self, _: poseidon_plan::records::DropRow) {}
    fn queue(&mut self, _: poseidon_plan::records::QueueRow) {}
    fn sender(&mut self, _: poseidon_plan::records::SenderRow) {}
    fn receiver(&mut self, _: poseidon_plan::records::ReceiverRow) {}
    fn decision(&mut self, _: poseidon_plan::records::DecisionRow) {}
}
