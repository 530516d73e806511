//! The canonical text of a resolved run, and its hash.
//!
//! Every field is written by name, in a fixed order, in base units (picoseconds, nanoseconds, bytes, bits per second).
//! Structs are destructured without `..`, so a new field breaks the build until this module writes it. The text does
//! not depend on `Debug` formats, on the program version or on the machine. Two programs that resolve a scenario to the
//! same plan compute the same hash.

use crate::manifest::short_hex;
use crate::resolve::{
    MessageClass, PhaseWindow, ResolvedRun, TrafficGroup, WatchedBuffers, WatchedLinks, WatchedQueue,
};
use crate::scenario::{Analytic, Label};
use core::fmt::{self, Display, Write};
use poseidon_laws::AnyParams;
use poseidon_laws::plb::PlbParams;
use poseidon_plan::impairments::LinkImpairment;
use poseidon_plan::joins::{JoinDependent, JoinPrerequisite, Joins};
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::patterns::Group;
use poseidon_plan::rings::Ring;
use poseidon_plan::stack::{Controller, StackLaw};
use poseidon_plan::switch::{
    AnyBufferPolicy, AnyMarkPolicy, DelayCarrier, MarkDirection, Pause, RecordCarrier, SlowPort, Stamp,
    Switch, SwitchOverride, TelemetryOff, Trim,
};
use poseidon_plan::topology::{Chain, Edge, Rails, Rotor, Tiers};
use poseidon_plan::traffic::{Amount, Connection, Dependency, Event, Message};
use poseidon_plan::transport::{
    Acks, AnyPathPolicy, Credits, Echo, Eligibility, PathFilter, Recovery, Transport,
};
use poseidon_plan::{Link, Plan, SwitchPort, Topology};
use poseidon_types::params::ParamInfo;
use sha2::{Digest, Sha256};

/// Returns the hash of a resolved run, which covers its plan and its measurements.
pub fn plan_hash(resolved: &ResolvedRun) -> String {
    let mut hasher = Hasher::default();
    write_resolved(resolved, &mut hasher).expect("writing to the hasher cannot fail");
    short_hex(hasher.finish().as_ref())
}

/// Returns the hash of a closed-form model, which has no plan.
pub fn closed_form_hash(form: Analytic, labels: &[Label]) -> String {
    let mut text = format!("closed-form {}\n", closed_form_name(form));
    for Label { sweep, value } in labels {
        text.push_str(&format!("{sweep:?} {value:?}\n"));
    }
    short_hex(&Sha256::digest(text))
}

/// Returns the canonical text of a resolved run.
pub fn plan_text(resolved: &ResolvedRun) -> String {
    let mut text = String::new();
    write_resolved(resolved, &mut text).expect("writing to a string cannot fail");
    text
}

/// Hashes text as it is written. Short writes are buffered to reduce the number of hash function calls.
#[derive(Default)]
struct Hasher {
    hash: Sha256,
    buffer: String,
}

impl Hasher {
    const BUFFER_SIZE: usize = 1 << 16;

    fn finish(mut self) -> impl AsRef<[u8]> {
        self.hash.update(self.buffer.as_bytes());
        self.hash.finalize()
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.buffer.push_str(text);
        if self.buffer.len() >= Self::BUFFER_SIZE {
            self.hash.update(self.buffer.as_bytes());
            self.buffer.clear();
        }
        Ok(())
    }
}

/// A function that calls a visitor for each parameter.
type VisitParams<'a> = &'a dyn Fn(&mut dyn FnMut(&'static ParamInfo, &dyn Display));

fn write_resolved(resolved: &ResolvedRun, out: &mut dyn Write) -> fmt::Result {
    let ResolvedRun {
        plan,
        groups,
        phases,
        queues,
        buffers,
        links,
        classes,
        bin,
        measures_pauses,
        messages_from,
        measured_until,
        node_numbers: _,
    } = resolved;
    write_plan(plan, out)?;
    for group in groups {
        write_group(group, out)?;
    }
    for phase in phases {
        // The oracle computes the fair shares from the plan, and the code hash covers the oracle.
        let PhaseWindow { name, start, end, settled_at, fair_shares: _ } = phase;
        let (start, end, settled_at) = (start.get(), end.get(), settled_at.get());
        writeln!(out, "phase {name:?} begins-ps {start} ends-ps {end} settled-ps {settled_at}")?;
    }
    for WatchedQueue { name, port: SwitchPort { switch, port }, rate } in queues {
        let (switch, port, rate) = (switch.get(), port.get(), rate.get());
        writeln!(out, "queue {name:?} switch {switch} port {port} rate-bps {rate}")?;
    }
    for WatchedBuffers { name, switches } in buffers {
        write!(out, "buffers {name:?} switches")?;
        write_list(switches.iter().map(|switch| switch.get()), out)?;
    }
    for WatchedLinks { name, ports } in links {
        write!(out, "links {name:?} ports")?;
        write_list(ports.iter().map(|port| format!("{}:{}", port.switch.get(), port.port.get())), out)?;
    }
    for MessageClass { name, groups, from, below } in classes {
        write!(out, "class {name:?} from-bytes {} below-bytes {} groups", from.get(), below.get())?;
        write_list(groups.iter(), out)?;
    }
    writeln!(out, "bin-ps {}", bin.get())?;
    // Older plans lack this field. A run without it has the same text as before.
    if *measures_pauses {
        writeln!(out, "measures-pauses")?;
    }
    writeln!(out, "messages-from-ps {}", messages_from.get())?;
    writeln!(out, "measured-until-ps {}", measured_until.get())
}

fn write_list(items: impl Iterator<Item = impl Display>, out: &mut dyn Write) -> fmt::Result {
    for item in items {
        write!(out, " {item}")?;
    }
    writeln!(out)
}

fn write_plan(plan: &Plan, out: &mut dyn Write) -> fmt::Result {
    let Plan {
        seed,
        stop,
        topology,
        switch,
        telemetry_off,
        switch_overrides,
        slow_ports,
        transport,
        laws,
        stacks,
        connections,
        messages,
        dependencies,
        joins,
        rings,
        link_changes,
        link_impairments,
        sample_every,
        watched_ports,
        watched_connections,
        log_decisions,
    } = plan;
    writeln!(out, "plan 1")?;
    writeln!(out, "seed {seed}")?;
    writeln!(out, "stop-ps {}", stop.get())?;
    write_topology(topology, out)?;
    write_switch(switch, out)?;
    for TelemetryOff { switch, from, until } in telemetry_off {
        let (switch, from, until) = (switch.get(), from.get(), until.get());
        writeln!(out, "silence switch {switch} from-ps {from} until-ps {until}")?;
    }
    // Older plans lack overrides. A plan without overrides has the same text as before.
    for SwitchOverride { switch, buffer, mark } in switch_overrides {
        writeln!(out, "override switch {}", switch.get())?;
        buffer.as_ref().map_or(Ok(()), |buffer| write_buffer(buffer, out))?;
        mark.as_ref().map_or(Ok(()), |mark| write_mark(mark, out))?;
    }
    // Older plans lack slow ports. A plan without slow ports has the same text as before.
    for SlowPort { switch, port, divisor } in slow_ports {
        writeln!(out, "slow switch {} port {} divisor {divisor}", switch.get(), port.get())?;
    }
    write_transport(transport, out)?;
    for law in laws {
        write_law(law, out)?;
    }
    // Older plans lack stacks. A plan without stacks has the same text as before.
    for StackLaw { law, stack, controller } in stacks {
        let controller = controller.map_or("law", Controller::name);
        writeln!(out, "stack {} law {law} controller {controller}", stack.name())?;
    }
    for connection in connections {
        let Connection { from, to, law, entropy, priority } = connection;
        let (from, to) = (from.get(), to.get());
        writeln!(out, "connection from {from} to {to} law {law} entropy {entropy} priority {priority}")?;
    }
    for Message { connection, start, amount } in messages {
        write!(out, "message connection {} at-ps {} ", connection.get(), start.get())?;
        match amount {
            Amount::Exactly(bytes) => writeln!(out, "bytes {}", bytes.get())?,
            Amount::Until(until) => writeln!(out, "until-ps {}", until.get())?,
        }
    }
    for Dependency { prerequisite, event, dependent } in dependencies {
        let event = event_name(*event);
        writeln!(out, "after message {} {event} then {}", prerequisite.get(), dependent.get())?;
    }
    write_joins(joins, out)?;
    rings.iter().try_for_each(|ring| write_ring(ring, out))?;
    for LinkChange { time, switch, port, event } in link_changes {
        let (time, switch, port) = (time.get(), switch.get(), port.get());
        write!(out, "change at-ps {time} switch {switch} port {port} ")?;
        match event {
            LinkEvent::Down => writeln!(out, "down")?,
            LinkEvent::Up => writeln!(out, "up")?,
            LinkEvent::Rate(rate) => writeln!(out, "rate-bps {}", rate.get())?,
            LinkEvent::Delay(delay) => writeln!(out, "delay-ps {}", delay.get())?,
        }
    }
    // Older plans lack impairments. A plan without impairments has the same text as before.
    for LinkImpairment { switch, port, policy } in link_impairments {
        write!(out, "impaired switch {} port {} ", switch.get(), port.get())?;
        write_params("impair", policy.name(), &|visitor| policy.for_each(visitor), out)?;
    }
    writeln!(out, "sample-every-ps {}", sample_every.get())?;
    for SwitchPort { switch, port } in watched_ports {
        writeln!(out, "watched switch {} port {}", switch.get(), port.get())?;
    }
    write!(out, "watched-connections")?;
    write_list(watched_connections.iter().map(|connection| connection.get()), out)?;
    writeln!(out, "log-decisions {log_decisions}")
}

const fn event_name(event: Event) -> &'static str {
    match event {
        Event::Received => "received",
        Event::Acknowledged => "acknowledged",
    }
}

/// Writes the joins. A plan without joins writes nothing, so the hashes of older plans stay valid.
fn write_joins(joins: &Joins, out: &mut dyn Write) -> fmt::Result {
    let Joins { delays, prerequisites, dependents } = joins;
    for (join, delay) in delays.iter().enumerate() {
        writeln!(out, "join {join} delay-ps {}", delay.get())?;
    }
    for JoinPrerequisite { message, event, join } in prerequisites {
        writeln!(out, "after message {} {} join {}", message.get(), event_name(*event), join.get())?;
    }
    for JoinDependent { join, message } in dependents {
        writeln!(out, "after join {} then {}", join.get(), message.get())?;
    }
    Ok(())
}

/// Writes a ring. Older plans lack rings. A plan without rings has the same text as before.
fn write_ring(ring: &Ring, out: &mut dyn Write) -> fmt::Result {
    let Ring {
        // The numbers of messages follow from the other messages and rings.
        first_message: _,
        first_connection,
        ranks,
        channels,
        ranks_per_server,
        size,
        chunk,
        steps,
        lag,
        repetitions,
        compute_gap,
        start,
    } = ring;
    let (connection, size) = (first_connection.get(), size.get());
    write!(out, "ring connection {connection} ranks {ranks} channels {channels}")?;
    write!(out, " ranks-per-server {ranks_per_server} size-bytes {size}")?;
    if let Some(chunk) = chunk {
        write!(out, " chunk-bytes {}", chunk.get())?;
    }
    let (gap, start) = (compute_gap.get(), start.get());
    writeln!(out, " steps {steps} lag {lag} repetitions {repetitions} gap-ps {gap} at-ps {start}")
}

fn write_link(name: &str, link: &Link, out: &mut dyn Write) -> fmt::Result {
    let Link { rate, delay } = link;
    writeln!(out, "link {name} rate-bps {} delay-ps {}", rate.get(), delay.get())
}

fn write_topology(topology: &Topology, out: &mut dyn Write) -> fmt::Result {
    match topology {
        Topology::Tiers(tiers) => {
            let Tiers { pods, racks, hosts, aggregation, cores, host_link, rack_link, core_link } = tiers;
            writeln!(
                out,
                "topology tiers pods {pods} racks {racks} hosts {hosts} aggregation {aggregation} cores {cores}"
            )?;
            write_link("host", host_link, out)?;
            write_link("rack", rack_link, out)?;
            write_link("core", core_link, out)
        }
        Topology::Chain(Chain { switches, hosts, host_link, middle_link }) => {
            writeln!(out, "topology chain switches {switches} hosts {hosts}")?;
            write_link("host", host_link, out)?;
            write_link("middle", middle_link, out)
        }
        Topology::Rotor(rotor) => {
            let Rotor { racks, hosts, host_link, packet_link, circuit_link, day, night, notice } = rotor;
            let (day, night, notice) = (day.get(), night.get(), notice.get());
            writeln!(
                out,
                "topology rotor racks {racks} hosts {hosts} day-ps {day} night-ps {night} notice-ps {notice}"
            )?;
            write_link("host", host_link, out)?;
            write_link("packet", packet_link, out)?;
            write_link("circuit", circuit_link, out)
        }
        Topology::Rails(rails) => {
            let Rails { servers, gpus, servers_per_leaf, spines, local_link, rail_link, spine_link } = rails;
            writeln!(
                out,
                "topology rails servers {servers} gpus {gpus} servers-per-leaf {servers_per_leaf} spines {spines}"
            )?;
            write_link("local", local_link, out)?;
            write_link("rail", rail_link, out)?;
            write_link("spine", spine_link, out)
        }
        Topology::Edges(edges) => {
            // The link list determines the hosts and ports.
            writeln!(out, "topology edges")?;
            edges
                .edges()
                .iter()
                .try_for_each(|Edge { a, b, link }| write_link(&format!("{a} {b}"), link, out))
        }
    }
}

fn write_switch(switch: &Switch, out: &mut dyn Write) -> fmt::Result {
    let Switch { pipeline, priorities, buffer, trim, pause, mark, mark_host_links, mark_direction, stamp } =
        switch;
    writeln!(out, "switch pipeline-ps {} priorities {priorities}", pipeline.get())?;
    write_buffer(buffer, out)?;
    // Older plans lack trimming. A plan without trimming has the same text as before.
    if let Some(Trim { size }) = trim {
        writeln!(out, "trim size-bytes {}", size.get())?;
    }
    match pause {
        Pause::Off => writeln!(out, "pause off")?,
        Pause::Pfc { memory, alpha, resume } => {
            let (memory, resume) = (memory.get(), resume.get());
            writeln!(out, "pause pfc memory-bytes {memory} alpha {alpha} resume-bytes {resume}")?;
        }
    }
    write_mark(mark, out)?;
    // In older plans, all ports mark. Such a plan has the same text as before.
    if !mark_host_links {
        writeln!(out, "mark-host-links off")?;
    }
    match mark_direction {
        MarkDirection::Forward => writeln!(out, "marks-go forward")?,
        MarkDirection::ReversePerFlow { counters } => {
            writeln!(out, "marks-go reverse-per-flow counters {counters}")?;
        }
        MarkDirection::ReversePerPort => writeln!(out, "marks-go reverse-per-port")?,
    }
    let stamp = match stamp {
        Stamp::Off => "off",
        Stamp::MaxHopDelay(DelayCarrier::Exact) => "max-hop-delay exact",
        Stamp::MaxHopDelay(DelayCarrier::Shim) => "max-hop-delay shim",
        Stamp::HopRecords(RecordCarrier::Exact) => "hop-records exact",
        Stamp::HopRecords(RecordCarrier::HpccNs3) => "hop-records hpcc-ns3",
    };
    writeln!(out, "stamp {stamp}")
}

fn write_buffer(buffer: &AnyBufferPolicy, out: &mut dyn Write) -> fmt::Result {
    write_params("buffer", buffer.name(), &|visitor| buffer.for_each(visitor), out)
}

fn write_mark(mark: &AnyMarkPolicy, out: &mut dyn Write) -> fmt::Result {
    write_params("mark", mark.name(), &|visitor| mark.for_each(visitor), out)
}

fn write_law(law: &AnyParams, out: &mut dyn Write) -> fmt::Result {
    write_params("law", law.law_name(), &|visitor| law.for_each(visitor), out)
}

/// Writes the registry name and all parameters of a law or policy, in the format that scenarios use.
fn write_params(kind: &str, name: &str, visit: VisitParams<'_>, out: &mut dyn Write) -> fmt::Result {
    write!(out, "{kind} {name}")?;
    let mut result = Ok(());
    visit(&mut |info, value| result = result.and_then(|()| write!(out, " {}={value};", info.name)));
    result?;
    writeln!(out)
}

fn write_transport(transport: &Transport, out: &mut dyn Write) -> fmt::Result {
    let Transport {
        mtu,
        header,
        ack,
        eligibility,
        min_rto,
        first_rto,
        recovery,
        acks,
        echo,
        ack_priority,
        load_balancing,
        plb,
        coexistence,
        credits,
        path_filter,
    } = transport;
    let (mtu, header, ack) = (mtu.get(), header.get(), ack.get());
    writeln!(out, "transport mtu-bytes {mtu} header-bytes {header} ack-bytes {ack}")?;
    let eligibility = match eligibility {
        Eligibility::Floor => "floor",
        Eligibility::Ceil => "ceil",
    };
    writeln!(out, "eligibility {eligibility}")?;
    writeln!(out, "rto min-ns {} first-ns {}", min_rto.get(), first_rto.get())?;
    match recovery {
        Recovery::Selective { reordering } => writeln!(out, "recovery selective reordering {reordering}")?,
        Recovery::GoBackN => writeln!(out, "recovery go-back-n")?,
        Recovery::TrimNacks => writeln!(out, "recovery trim-nacks")?,
    }
    match acks {
        Acks::EveryPacket => writeln!(out, "acks every-packet")?,
        Acks::Coalesced { packets, delay } => {
            writeln!(out, "acks coalesced packets {packets} delay-ns {}", delay.get())?;
        }
        Acks::CoalescedBytes { bytes } => writeln!(out, "acks coalesced bytes {}", bytes.get())?,
    }
    match echo {
        Echo::Exact => writeln!(out, "echo exact")?,
        Echo::UntilReduced => writeln!(out, "echo until-reduced")?,
        Echo::Notification { gap } => writeln!(out, "echo notification gap-ns {}", gap.get())?,
    }
    match ack_priority {
        None => writeln!(out, "ack-priority of-data")?,
        Some(priority) => writeln!(out, "ack-priority {priority}")?,
    }
    match load_balancing {
        AnyPathPolicy::Ecmp(_) => writeln!(out, "spread per-flow")?,
        AnyPathPolicy::Spray(_) => writeln!(out, "spread per-packet")?,
        policy => write_params("paths", policy.name(), &|visitor| policy.for_each(visitor), out)?,
    }
    match plb {
        None => writeln!(out, "plb off"),
        Some(PlbParams { congested_share, idle_rounds, busy_rounds, on_timeout, suspend, hop_delay }) => {
            write!(
                out,
                "plb congested-share {congested_share} idle-rounds {idle_rounds} busy-rounds {busy_rounds} \
                 on-timeout {on_timeout} suspend-ns {}",
                suspend.get()
            )?;
            match hop_delay {
                // Older plans lack this field. Omitting it keeps their hashes valid.
                None => writeln!(out),
                Some(delay) => writeln!(out, " hop-delay-ns {}", delay.get()),
            }
        }
    }?;
    // Older plans lack this field. Omitting the field when coexistence is off keeps their hashes valid.
    if *coexistence {
        writeln!(out, "coexistence on")?;
    }
    if let Some(Credits { pull, rate, window, oversubscription, min_rate, network_rtt }) = credits {
        let (pull, rate, window) = (pull.get(), rate.q32(), window.q32());
        write!(out, "credits pull-bytes {pull} rate-q32 {rate} window-q32 {window} ")?;
        write!(out, "oversubscription {oversubscription} min-rate-q32 {} ", min_rate.q32())?;
        writeln!(out, "network-rtt-ns {}", network_rtt.get())?;
    }
    match path_filter {
        PathFilter::Each => Ok(()),
        PathFilter::Median => writeln!(out, "path-filter median"),
        PathFilter::Max => writeln!(out, "path-filter max"),
    }
}

fn write_group(group: &TrafficGroup, out: &mut dyn Write) -> fmt::Result {
    let TrafficGroup { name, law, connections, messages, is_long, has_decisions, has_rates, collective } =
        group;
    let Group { name: pattern, start, messages } = messages;
    writeln!(out, "group {name:?} law {law:?} connections {}..{}", connections.start, connections.end)?;
    writeln!(out, "group-measures long {is_long} decisions {has_decisions} rates {has_rates}")?;
    write!(out, "group-messages {pattern:?} start-ps {}", start.get())?;
    write_list(messages.iter().map(|message| message.get()), out)?;
    let Some(runs) = collective else { return Ok(()) };
    let (algorithm, size) = (runs.info.algorithm, runs.info.size.get());
    write!(out, "collective {algorithm:?} size-bytes {size} repetitions {} ranks", runs.repetitions)?;
    write_list(runs.ranks.iter().map(|rank| rank.get()), out)
}

const fn closed_form_name(form: Analytic) -> &'static str {
    match form {
        Analytic::FairRamp => "fair-ramp",
        Analytic::TargetCurve => "target-curve",
        Analytic::ReactionBySlope => "reaction-by-slope",
        Analytic::ReactionByQueue => "reaction-by-queue",
        Analytic::PhaseVoltage => "phase-voltage",
        Analytic::PhaseGradient => "phase-gradient",
        Analytic::PhasePower => "phase-power",
        Analytic::SamplingDecrease => "sampling-decrease",
        Analytic::ReverseStability => "reverse-stability",
    }
}
