//! The canonical text of a resolved plan, and its hash.
//!
//! Every field is written by name, in a fixed order, in base units (picoseconds, nanoseconds, bytes, bits per second). Structs are
//! taken apart without `..`, so a new field does not compile until it is written here. The text does not depend on how a type is printed
//! for debugging, on the program's version or on the machine: two programs that resolve a scenario to the same plan give the same hash.

use crate::resolve::{BufferOf, ClassOf, GroupOf, QueueOf, Resolved, Window};
use crate::scenario::{Analytic, Label};
use crate::store::hex;
use core::fmt::{self, Display, Write};
use poseidon_laws::AnyParams;
use poseidon_laws::parts::plb::PlbParams;
use poseidon_plan::changes::{Change, LinkEvent};
use poseidon_plan::patterns::Group;
use poseidon_plan::switch::{
    AnyBuffer, AnyMark, DelayCarrier, Direction, Pause, RecordCarrier, Silence, Stamp, Switch,
};
use poseidon_plan::topology::{Chain, Edge, Rotor, Tiers};
use poseidon_plan::traffic::{After, Amount, Connection, Event, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::params::ParamInfo;
use sha2::{Digest, Sha256};

/// The hash of a resolved plan: what runs and what is measured in it.
pub fn plan_hash(resolved: &Resolved) -> String {
    let mut hasher = Hasher::default();
    write_resolved(resolved, &mut hasher).expect("hashing does not fail");
    hex(hasher.finish().as_ref())
}

/// The hash of a closed form, which has no plan.
pub fn closed_form_hash(which: Analytic, labels: &[Label]) -> String {
    let mut text = format!("closed-form {}\n", closed_form_name(which));
    for Label { sweep, value } in labels {
        text.push_str(&format!("{sweep:?} {value:?}\n"));
    }
    hex(&Sha256::digest(text))
}

/// The canonical text of a resolved plan.
pub fn plan_text(resolved: &Resolved) -> String {
    let mut text = String::new();
    write_resolved(resolved, &mut text).expect("a text takes everything");
    text
}

/// Hashes text as it is written, many words at a time: words are short, and a call of the hash function is not free.
#[derive(Default)]
struct Hasher {
    hash: Sha256,
    not_hashed: String,
}

impl Hasher {
    const AT_A_TIME: usize = 1 << 16;

    fn finish(mut self) -> impl AsRef<[u8]> {
        self.hash.update(self.not_hashed.as_bytes());
        self.hash.finalize()
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.not_hashed.push_str(text);
        if self.not_hashed.len() >= Self::AT_A_TIME {
            self.hash.update(self.not_hashed.as_bytes());
            self.not_hashed.clear();
        }
        Ok(())
    }
}

/// Shows parameters one by one.
type EachParam<'a> = &'a dyn Fn(&mut dyn FnMut(&'static ParamInfo, &dyn Display));

fn write_resolved(resolved: &Resolved, out: &mut dyn Write) -> fmt::Result {
    let Resolved { plan, groups, phases, queues, buffers, classes, bin, messages_from, measured_until } =
        resolved;
    write_plan(plan, out)?;
    for group in groups {
        write_group(group, out)?;
    }
    for phase in phases {
        // Fair shares follow from the plan by the code of the oracle, which the code's hash covers.
        let Window { name, begins, ends, settled, fair: _ } = phase;
        let (begins, ends, settled) = (begins.get(), ends.get(), settled.get());
        writeln!(out, "phase {name:?} begins-ps {begins} ends-ps {ends} settled-ps {settled}")?;
    }
    for QueueOf { name, port: (switch, port), rate } in queues {
        writeln!(out, "queue {name:?} switch {switch} port {port} rate-bps {}", rate.get())?;
    }
    for BufferOf { name, switches } in buffers {
        write!(out, "buffers {name:?} switches")?;
        write_list(switches.iter(), out)?;
    }
    for ClassOf { name, groups, from, below } in classes {
        write!(out, "class {name:?} from-bytes {} below-bytes {} groups", from.get(), below.get())?;
        write_list(groups.iter(), out)?;
    }
    writeln!(out, "bin-ps {}", bin.get())?;
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
        silences,
        transport,
        laws,
        connections,
        messages,
        after,
        changes,
        sample_every,
        watched,
        watched_connections,
        log_decisions,
    } = plan;
    writeln!(out, "plan 1")?;
    writeln!(out, "seed {seed}")?;
    writeln!(out, "stop-ps {}", stop.get())?;
    write_topology(topology, out)?;
    write_switch(switch, out)?;
    for Silence { switch, from, until } in silences {
        writeln!(out, "silence switch {switch} from-ps {} until-ps {}", from.get(), until.get())?;
    }
    write_transport(transport, out)?;
    for law in laws {
        write_law(law, out)?;
    }
    for connection in connections {
        let Connection { from, to, law, entropy, priority } = connection;
        writeln!(out, "connection from {from} to {to} law {law} entropy {entropy} priority {priority}")?;
    }
    for Message { connection, at, amount } in messages {
        write!(out, "message connection {connection} at-ps {} ", at.get())?;
        match amount {
            Amount::Exactly(bytes) => writeln!(out, "bytes {}", bytes.get())?,
            Amount::Until(until) => writeln!(out, "until-ps {}", until.get())?,
        }
    }
    for After { message, event, then } in after {
        let event = match event {
            Event::Received => "received",
            Event::Acknowledged => "acknowledged",
        };
        writeln!(out, "after message {message} {event} then {then}")?;
    }
    for Change { at, switch, port, what } in changes {
        write!(out, "change at-ps {} switch {switch} port {port} ", at.get())?;
        match what {
            LinkEvent::Down => writeln!(out, "down")?,
            LinkEvent::Up => writeln!(out, "up")?,
            LinkEvent::Rate(rate) => writeln!(out, "rate-bps {}", rate.get())?,
        }
    }
    writeln!(out, "sample-every-ps {}", sample_every.get())?;
    for (switch, port) in watched {
        writeln!(out, "watched switch {switch} port {port}")?;
    }
    write!(out, "watched-connections")?;
    write_list(watched_connections.iter(), out)?;
    writeln!(out, "log-decisions {log_decisions}")
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
        Topology::Edges(edges) => {
            // Hosts and ports follow from the list of links.
            writeln!(out, "topology edges")?;
            edges
                .edges()
                .iter()
                .try_for_each(|Edge { a, b, link }| write_link(&format!("{a} {b}"), link, out))
        }
    }
}

fn write_switch(switch: &Switch, out: &mut dyn Write) -> fmt::Result {
    let Switch { pipeline, priorities, buffer, pause, mark, marks_go, stamp } = switch;
    writeln!(out, "switch pipeline-ps {} priorities {priorities}", pipeline.get())?;
    write_buffer(buffer, out)?;
    match pause {
        Pause::Off => writeln!(out, "pause off")?,
        Pause::Pfc { memory, alpha, resume } => {
            let (memory, resume) = (memory.get(), resume.get());
            writeln!(out, "pause pfc memory-bytes {memory} alpha {alpha} resume-bytes {resume}")?;
        }
    }
    write_mark(mark, out)?;
    match marks_go {
        Direction::Forward => writeln!(out, "marks-go forward")?,
        Direction::ReversePerFlow { counters } => {
            writeln!(out, "marks-go reverse-per-flow counters {counters}")?;
        }
        Direction::ReversePerPort => writeln!(out, "marks-go reverse-per-port")?,
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

fn write_buffer(buffer: &AnyBuffer, out: &mut dyn Write) -> fmt::Result {
    write_params("buffer", buffer.name(), &|show| buffer.each(show), out)
}

fn write_mark(mark: &AnyMark, out: &mut dyn Write) -> fmt::Result {
    write_params("mark", mark.name(), &|show| mark.each(show), out)
}

fn write_law(law: &AnyParams, out: &mut dyn Write) -> fmt::Result {
    write_params("law", law.law(), &|show| law.each(show), out)
}

/// A law or a policy: its name in the registry and each of its parameters, as a scenario would set it.
fn write_params(kind: &str, name: &str, each: EachParam<'_>, out: &mut dyn Write) -> fmt::Result {
    write!(out, "{kind} {name}")?;
    let mut result = Ok(());
    each(&mut |info, value| result = result.and_then(|()| write!(out, " {}={value};", info.name)));
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
        spread,
        plb,
        coexistence,
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
    }
    match acks {
        Acks::EveryPacket => writeln!(out, "acks every-packet")?,
        Acks::Coalesced { packets, delay } => {
            writeln!(out, "acks coalesced packets {packets} delay-ns {}", delay.get())?;
        }
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
    match spread {
        Spread::PerFlow => writeln!(out, "spread per-flow")?,
        Spread::PerPacket => writeln!(out, "spread per-packet")?,
    }
    match plb {
        None => writeln!(out, "plb off"),
        Some(PlbParams { congested_share, idle_rounds, busy_rounds, on_timeout, suspend }) => writeln!(
            out,
            "plb congested-share {congested_share} idle-rounds {idle_rounds} busy-rounds {busy_rounds} \
             on-timeout {on_timeout} suspend-ns {}",
            suspend.get()
        ),
    }?;
    // Scenarios from before it was there keep their text.
    if *coexistence { writeln!(out, "coexistence on") } else { Ok(()) }
}

fn write_group(group: &GroupOf, out: &mut dyn Write) -> fmt::Result {
    let GroupOf { name, law, connections, messages, is_long, has_decisions, has_rates } = group;
    let Group { name: pattern, start, messages } = messages;
    writeln!(out, "group {name:?} law {law:?} connections {}..{}", connections.start, connections.end)?;
    writeln!(out, "group-measures long {is_long} decisions {has_decisions} rates {has_rates}")?;
    write!(out, "group-messages {pattern:?} start-ps {}", start.get())?;
    write_list(messages.iter(), out)
}

const fn closed_form_name(which: Analytic) -> &'static str {
    match which {
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
