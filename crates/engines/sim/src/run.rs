//! The window loop, on one or more threads.

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::recording::Recording;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::stack::StackLaw;
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::{MarkDirection, Pause};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report, SwitchPort};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Signals, SwitchId};

use crate::calendar::{Calendar, MAX_PORTS};
use crate::context::{Setup, ShardContext};
use crate::exchange::{Exchange, NEVER, NextStep, Outbox, SingleShard, WindowBarrier};
use crate::host::{Endpoints, Rack};
use crate::impairments::MAX_IMPAIRMENTS;
use crate::memory_estimate::estimate_memory;
use crate::network::Network;
use crate::node::NodeKind;
use crate::packet::Packet;
use crate::pfc::Pfc;
use crate::recorder::check_recording;
use crate::rows;
use crate::schedule::Schedule;
use crate::sender::path_entropy;
use crate::switch::Switches;
use crate::telemetry::{available_signals, unsupported_rate};

/// The simulator. Results depend only on the plan, not on these settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator {
    /// The number of threads, or `None` to let the simulator choose.
    pub threads: Option<NonZeroU32>,
    /// The memory limit. The simulator rejects a run that would exceed it.
    pub memory_limit: Option<Bytes>,
    /// Whether to store telemetry in its wire format and let switches update it in place, instead of storing
    /// decoded values. This is slower but produces the same result.
    pub wire_format_telemetry: bool,
    /// Creates the real transport stacks of plans that use them. If `None`, the simulator rejects such plans.
    pub stacks: Option<&'static dyn StackFactory>,
    /// Supplies the laws that are not in the registry. If `None`, the simulator rejects plans that use them.
    #[cfg(feature = "custom-laws")]
    pub custom_laws: Option<&'static dyn poseidon_laws::custom::CustomLaws>,
}

/// The number of windows between progress reports.
const WINDOWS_PER_PROGRESS: u64 = 1_024;

impl Simulator {
    /// Creates a simulator that uses the given number of threads.
    pub fn with_threads(threads: NonZeroU32) -> Self {
        Self { threads: Some(threads), ..Self::default() }
    }

    /// Estimates the memory that a run needs.
    pub fn estimate_memory(plan: &Plan) -> Bytes {
        estimate_memory(plan)
    }

    /// Validates the plan and builds the state shared by all shards. The number of shards is at most
    /// `max_shards`.
    pub(crate) fn set_up<'a>(
        &self,
        plan: &'a Plan,
        recording: &'a Recording,
        max_shards: u32,
    ) -> Result<Setup<'a>, PlanError> {
        plan.check(self.available_signals(plan))?;
        if let Some(limit) = self.memory_limit {
            let needed = estimate_memory(plan);
            if needed > limit {
                return Err(PlanError::Memory { needed, limit });
            }
        }
        let network = Network::new(plan);
        check_simulator_limits(plan, &network)?;
        Pfc::check_memory(plan, &network)?;
        check_recording(recording, &network)?;
        let stacks = self.check_stacks(plan, recording)?;
        #[cfg(feature = "custom-laws")]
        check_custom_laws(plan, self.custom_laws.is_some())?;
        let schedule = Schedule::new(plan)?;
        let shards = max_shards.min(network.racks);
        let wire_format_telemetry = self.wire_format_telemetry;
        Ok(Setup {
            plan,
            network,
            schedule,
            recording,
            wire_format_telemetry,
            stacks,
            #[cfg(feature = "custom-laws")]
            custom_laws: self.custom_laws,
            shards,
        })
    }

    /// Returns the factory for the plan's real transport stacks, or `None` if the plan has no stacks. Rejects
    /// stacks that cannot run, and features that cannot be combined with stacks.
    fn check_stacks(
        &self,
        plan: &Plan,
        recording: &Recording,
    ) -> Result<Option<&'static dyn StackFactory>, PlanError> {
        if plan.stacks.is_empty() {
            return Ok(None);
        }
        let Some(factory) = self.stacks else {
            return Err(PlanError::Unsupported(
                "real transport stacks in this build; build the command with the feature `stacks`",
            ));
        };
        if plan.switch.mark_direction == MarkDirection::ReversePerPort {
            return Err(PlanError::Unsupported(
                "per-port reverse marking with real transport stacks, because a mark would reach another connection",
            ));
        }
        if !recording.captured_ports.is_empty() {
            return Err(PlanError::Unsupported("packet captures of plans with real transport stacks"));
        }
        check_stack_signals(plan)?;
        factory.check(plan)?;
        Ok(Some(factory))
    }
}

impl Backend for Simulator {
    fn available_signals(&self, plan: &Plan) -> Signals {
        available_signals(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>> {
        let network = Network::new(plan);
        if max_port_count(&network) > MAX_PORTS {
            // The simulator rejects this plan when it runs.
            return vec![Vec::new(); connections.len()];
        }
        connections.iter().map(|connection| trace_route(&network, connection)).collect()
    }

    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32 {
        Network::new(plan).port_count(switch)
    }

    fn estimate_memory(&self, plan: &Plan) -> Bytes {
        estimate_memory(plan)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        self.record(plan, &Recording::NOTHING, sink)
    }

    fn record(&self, plan: &Plan, recording: &Recording, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        let threads = self.threads.map_or_else(|| choose_thread_count(plan), NonZeroU32::get);
        let setup = self.set_up(plan, recording, threads)?;
        if setup.shards == 1 {
            let result = run_shard(&setup, &mut SingleShard, sink);
            return Ok(merge_results(&[result]));
        }
        let barrier = WindowBarrier::new(setup.shards);
        let results = std::thread::scope(|scope| {
            let handles: Vec<_> = (1..setup.shards)
                .map(|shard| {
                    let (setup, barrier) = (&setup, &barrier);
                    scope.spawn(move || run_shard(setup, &mut barrier.join(shard), &mut NullSink))
                })
                .collect();
            let mut results = vec![run_shard(&setup, &mut barrier.join(0), sink)];
            results.extend(handles.into_iter().map(|handle| handle.join().expect("no shard panics")));
            results
        });
        Ok(merge_results(&results))
    }
}

/// Rejects laws that the program should supply but does not.
#[cfg(feature = "custom-laws")]
fn check_custom_laws(plan: &Plan, is_supplied: bool) -> Result<(), PlanError> {
    let is_custom = |law: &poseidon_laws::AnyParams| matches!(law, poseidon_laws::AnyParams::Custom(_));
    if !is_supplied && plan.laws.iter().any(is_custom) {
        return Err(PlanError::Unsupported(
            "the law `custom`, which only a program that supplies laws can run",
        ));
    }
    Ok(())
}

/// Returns the egress ports along the path of a connection's data packets.
fn trace_route(network: &Network<'_>, connection: &Connection) -> Vec<SwitchPort> {
    let (from, to) = (network.locate(connection.from), network.locate(connection.to));
    let packet = Packet {
        dst_rack: to.rack,
        dst_slot: to.slot,
        dst_pod: to.pod,
        entropy: path_entropy(connection),
        ..Packet::EMPTY
    };
    let (mut switch, mut ports) = (SwitchId::new(from.rack), Vec::new());
    while switch.get() < network.switches() {
        let routes = network.switch_routes(switch);
        let Some(port) = network.route(switch, routes, &packet, 0) else { break };
        ports.push(SwitchPort { switch, port });
        switch = SwitchId::new(network.peer_of(switch, port).node.get());
    }
    ports
}

/// The result of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardResult {
    pub(crate) report: Report,
    /// The shard's [conservation balance](ShardContext::conservation_balance), in packets and payload bytes.
    pub(crate) balance: (i128, i128),
}

/// Runs one shard to completion.
pub(crate) fn run_shard(setup: &Setup<'_>, exchange: &mut dyn Exchange, sink: &mut dyn Sink) -> ShardResult {
    let stop = setup.plan.stop;
    let is_first_shard = exchange.shard() == 0;
    let mut ctx = ShardContext::new(setup, exchange.shard());
    let mut switches = Switches::new(&mut ctx);
    let mut endpoints = Endpoints::new(&ctx);
    let mut racks = build_racks(&mut ctx);
    let (mut inbox, mut finished, mut interrupt) = (Outbox::default(), 0, false);
    for round in 1_u64.. {
        if ctx.calendar.window_start() < stop {
            run_window(&mut ctx, &mut switches, &mut racks, &mut endpoints);
        }
        let window = if ctx.calendar.window_start() >= stop { NEVER } else { ctx.next_window() };
        let proposal = NextStep { window, interrupt };
        exchange.on_window_done(ctx.report.packet_hops);
        let agreed = exchange.exchange(&mut ctx.outboxes, &mut inbox, &mut ctx.rows, proposal);
        ctx.receive_from_other_shards(&inbox);
        inbox.clear();
        if is_first_shard && !rows::is_empty(&ctx.rows) {
            finished += ctx.rows.messages.len() as u64;
            let window_end = ctx.calendar.window_end();
            rows::drain_to_sink(&mut ctx.rows, sink, window_end);
        }
        if agreed.window == NEVER || agreed.interrupt {
            ctx.report.interrupted = agreed.interrupt && agreed.window != NEVER;
            break;
        }
        ctx.calendar.advance_to(agreed.window);
        if is_first_shard && round.is_multiple_of(WINDOWS_PER_PROGRESS) {
            let progress = Progress {
                now: ctx.calendar.window_start().min(stop),
                packet_hops: ctx.report.packet_hops,
                finished,
            };
            interrupt = sink.on_progress(progress) == ControlFlow::Break(());
        }
    }
    switches.record_trims(&mut ctx);
    let end = ctx.calendar.window_start().min(stop);
    switches.record_pauses(&mut ctx, end);
    racks.iter().flatten().for_each(|rack| rack.record_pauses(&mut ctx, end));
    sample_at_stop(&mut ctx, &switches, &racks, &endpoints);
    let end = NextStep { window: NEVER, interrupt: false };
    exchange.exchange(&mut ctx.outboxes, &mut inbox, &mut ctx.rows, end);
    if is_first_shard {
        // Packets that are still on a wire have not arrived.
        let end = ctx.calendar.window_start().min(stop);
        rows::drain_to_sink(&mut ctx.rows, sink, end);
    }
    ctx.report.ended = ctx.calendar.window_start().min(stop);
    ctx.report.in_flight = ctx.in_flight().0;
    endpoints.add_stack_totals(&mut ctx.report);
    ShardResult { report: ctx.report, balance: ctx.conservation_balance() }
}

/// Processes one window: first the switches, then the racks, because a switch can reach a rack within the
/// window.
fn run_window(
    ctx: &mut ShardContext<'_>,
    switches: &mut Switches,
    racks: &mut [Option<Rack>],
    endpoints: &mut Endpoints,
) {
    let active = ctx.calendar.take_active(NodeKind::Switch);
    for node in &active {
        switches.visit(ctx, *node);
    }
    ctx.calendar.recycle_active(NodeKind::Switch, active);
    let active = ctx.calendar.take_active(NodeKind::Rack);
    for node in &active {
        let rack = racks[(node.get() - ctx.network.switches()) as usize].as_mut();
        rack.expect("a shard visits only its own racks").visit(ctx, endpoints);
    }
    ctx.calendar.recycle_active(NodeKind::Rack, active);
}

/// Takes the last sample if one is due at the end of the run.
fn sample_at_stop(
    ctx: &mut ShardContext<'_>,
    switches: &Switches,
    racks: &[Option<Rack>],
    endpoints: &Endpoints,
) {
    let (stop, interval) = (ctx.plan.stop, ctx.plan.sample_every.get());
    if interval > 0 && stop.get().is_multiple_of(interval) && !ctx.report.interrupted {
        switches.sample_all(ctx, stop);
        racks.iter().flatten().for_each(|rack| rack.sample(ctx, endpoints, stop));
    }
}

/// Builds this shard's racks and assigns each host's messages to its rack.
fn build_racks(ctx: &mut ShardContext<'_>) -> Vec<Option<Rack>> {
    let is_local = |rack| ctx.owns(ctx.network.rack_node(rack));
    let mut racks: Vec<Option<Rack>> =
        (0..ctx.network.racks).map(|rack| is_local(rack).then(|| Rack::new(ctx, rack))).collect();
    let mut messages: Vec<Vec<MessageId>> = vec![Vec::new(); racks.len()];
    for (id, message) in (0..).map(MessageId::new).zip(&ctx.plan.messages) {
        let from = ctx.plan.connections[message.connection.index()].from;
        let rack = ctx.network.locate(from).rack as usize;
        if racks[rack].is_some() && !ctx.schedule.has_dependencies(id) {
            messages[rack].push(id);
        }
    }
    add_ring_starts(ctx, &racks, &mut messages);
    for (rack, messages) in racks.iter_mut().zip(messages) {
        if let Some(rack) = rack {
            rack.start(ctx, messages);
        }
    }
    racks
}

/// Adds the first messages of each ring to the message lists of their racks, which are sorted by time.
fn add_ring_starts(ctx: &ShardContext<'_>, racks: &[Option<Rack>], messages: &mut [Vec<MessageId>]) {
    let layouts = ctx.schedule.rings.layouts();
    for (layout, place) in
        layouts.iter().flat_map(|layout| layout.ring.places().map(move |place| (layout, place)))
    {
        let from = ctx.plan.connections[layout.ring.connection(place).index()].from;
        let rack = ctx.network.locate(from).rack as usize;
        if racks[rack].is_some() {
            let first = 0..layout.first_messages_at(place);
            messages[rack].extend(first.map(|index| layout.message_id(place, index)));
        }
    }
    if !layouts.is_empty() {
        let start = |message: &MessageId| ctx.schedule.content(ctx.plan, *message).start;
        messages.iter_mut().for_each(|messages| messages.sort_by_key(start));
    }
}

/// Merges the results from all shards and checks that no packets or bytes appeared or vanished.
pub(crate) fn merge_results(results: &[ShardResult]) -> Report {
    let mut total = Report::default();
    let mut balance = (0, 0);
    for result in results {
        total.add(&result.report);
        balance = (balance.0 + result.balance.0, balance.1 + result.balance.1);
    }
    assert_eq!(balance, (0, 0), "packets or bytes appeared or vanished: {total:?}");
    total
}

fn max_port_count(network: &Network<'_>) -> u32 {
    network.switch_ids().map(|switch| network.port_count(switch)).max().unwrap_or(0)
}

/// Rejects plans that exceed the simulator's limits: port numbers have twelve bits, and some features cannot
/// be combined.
fn check_simulator_limits(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
    if max_port_count(network) > MAX_PORTS {
        return Err(PlanError::Unsupported("a switch with more than 4096 ports"));
    }
    let rates = network.rates().as_slice();
    if rates.len() > usize::from(u16::MAX) {
        return Err(PlanError::Unsupported("more than 65,535 different link rates"));
    }
    if let Some(reason) = rates.iter().find_map(|rate| unsupported_rate(plan.switch.stamp, *rate)) {
        return Err(PlanError::Unsupported(reason));
    }
    for (index, change) in plan.link_changes.iter().enumerate() {
        if change.port.get() >= network.port_count(change.switch) {
            return Err(PlanError::LinkChange { index, reason: "its switch has no such port" });
        }
    }
    for (index, impairment) in plan.link_impairments.iter().enumerate() {
        if impairment.port.get() >= network.port_count(impairment.switch) {
            return Err(PlanError::LinkImpairment { index, reason: "its switch has no such port" });
        }
    }
    check_slow_ports(plan, network)?;
    check_delay_changes(plan, network)?;
    if network.rotor().is_none() {
        return Ok(());
    }
    if !plan.link_impairments.is_empty() {
        return Err(PlanError::Unsupported("link impairments in a rotor"));
    }
    if plan.switch.priorities > 1 || plan.switch.pause != Pause::Off {
        return Err(PlanError::Unsupported("priorities or flow control in a rotor"));
    }
    if !plan.link_changes.is_empty() {
        return Err(PlanError::Unsupported("link changes in a rotor"));
    }
    Ok(())
}

/// Rejects slow ports that do not exist, and changes of their rates.
fn check_slow_ports(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
    for (index, slow) in plan.slow_ports.iter().enumerate() {
        if slow.port.get() >= network.port_count(slow.switch) {
            return Err(PlanError::SlowPort { index, reason: "its switch has no such port" });
        }
        let peer = network.peer_of(slow.switch, slow.port);
        let changes_rate = |change: &LinkChange| {
            let ends = [(slow.switch.into(), slow.port), (peer.node, peer.port)];
            matches!(change.event, LinkEvent::Rate(_)) && ends.contains(&(change.switch.into(), change.port))
        };
        if plan.link_changes.iter().any(changes_rate) {
            return Err(PlanError::SlowPort { index, reason: "the rate of its link changes during the run" });
        }
    }
    if !plan.slow_ports.is_empty() && network.rotor().is_some() {
        return Err(PlanError::Unsupported("slow links in a rotor"));
    }
    Ok(())
}

/// Rejects changes of the delay of host links, and impaired links with PFC, whose headroom depends on the delay.
fn check_delay_changes(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
    let mut has_changes = false;
    for (index, change) in plan.link_changes.iter().enumerate() {
        if matches!(change.event, LinkEvent::Delay(_)) {
            has_changes = true;
            if !network.is_switch(network.peer_of(change.switch, change.port).node) {
                let reason = "the delay of a link to a host cannot change";
                return Err(PlanError::LinkChange { index, reason });
            }
        }
    }
    if plan.switch.pause != Pause::Off && (has_changes || !plan.link_impairments.is_empty()) {
        return Err(PlanError::Unsupported("link impairments and changes of delay with PFC"));
    }
    if plan.link_impairments.len() + 2 * plan.link_changes.len() > MAX_IMPAIRMENTS {
        return Err(PlanError::Unsupported("more than 65,535 impaired links"));
    }
    Ok(())
}

/// Rejects laws that run in a real stack and need a signal that datagrams do not carry.
fn check_stack_signals(plan: &Plan) -> Result<(), PlanError> {
    let signals = available_signals(plan).without(Signals::HOP_RECORDS.union(Signals::CIRCUIT_STATE));
    for (index, connection) in plan.connections.iter().enumerate() {
        let stack = plan.stack_of(ConnectionId::from_index(index));
        if let Some(StackLaw { law, controller: None, .. }) = stack {
            plan.laws[*law as usize]
                .build(&plan.path(connection), signals)
                .map_err(|error| PlanError::Law { connection: index, error })?;
        }
    }
    Ok(())
}

/// The minimum number of packet-hops per window and thread. Below this number, synchronization costs more
/// than an additional thread saves.
const MIN_HOPS_PER_THREAD: u64 = 1_000;

/// Chooses the number of threads: one per core, or fewer if the plan's windows contain too few packet-hops.
/// The estimate assumes that all senders send at line rate.
fn choose_thread_count(plan: &Plan) -> u32 {
    if plan.check(available_signals(plan)).is_err() {
        return 1;
    }
    let network = Network::new(plan);
    let window =
        Calendar::window_length(network.min_delay_into_switch(plan.switch.pause != Pause::Off)).get();
    let mut senders: Vec<(HostId, HostId)> = plan.connections.iter().map(|c| (c.from, c.to)).collect();
    senders.sort_unstable();
    senders.dedup_by_key(|(from, _)| *from);
    let hops_per_window = |(from, to): &(HostId, HostId)| {
        let send_time = plan.topology.line_rate(*from, *to).send_time_ceil(plan.data_size()).get().max(1);
        // Count both the packet and its ACK.
        window / send_time * 2 * u64::from(plan.topology.hops(*from, *to))
    };
    let total: u64 = senders.iter().map(hops_per_window).sum();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    u32::try_from((total / MIN_HOPS_PER_THREAD).clamp(1, cores)).unwrap_or(1)
}

/// A sink that ignores all rows. It is used by all shards except the first, which receives their rows
/// instead.
pub(crate) struct NullSink;

impl Sink for NullSink {}
