//! Describes a run's effective configuration as text, with every default filled in.

use crate::resolve::ResolvedRun;
use core::fmt::Display;
use core::fmt::Write as _;
use poseidon_plan::Plan;
use poseidon_plan::impairments::LinkImpairment;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::rings::{RingLayout, RingTable};
use poseidon_plan::switch::{MarkDirection, Pause, SlowPort, Switch, SwitchOverride, TelemetryOff, Trim};
use poseidon_plan::transport::{Acks, PathFilter, Recovery};
use poseidon_types::params::ParamInfo;
use poseidon_types::{Bytes, HostId, Picos};

/// Describes a run's effective configuration, one setting per line.
pub fn describe_run(resolved: &ResolvedRun) -> String {
    let mut lines = Lines(String::new());
    describe_network(resolved, &mut lines);
    describe_switches(&resolved.plan, &mut lines);
    describe_overrides(&resolved.plan, &mut lines);
    describe_link_changes(&resolved.plan, &mut lines);
    describe_transport(&resolved.plan, &mut lines);
    describe_traffic(resolved, &mut lines);
    describe_measurements(resolved, &mut lines);
    lines.0
}

/// The description, one setting per line.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: impl Display, value: impl Display) {
        let (name, value) = (name.to_string(), value.to_string());
        writeln!(self.0, "{name:<22} {value}").expect("writing to a string cannot fail");
    }
}

/// A callback that receives each parameter and its value.
type ParameterVisitor<'a> = dyn FnMut(&'static ParamInfo, &dyn Display) + 'a;

/// Formats a law or a policy with its parameters.
fn format_with_parameters(name: &str, visit: &dyn Fn(&mut ParameterVisitor<'_>)) -> String {
    let mut text = name.to_owned();
    visit(&mut |info, value| {
        write!(text, ", {} {value}", info.name).expect("writing to a string cannot fail");
    });
    text
}

fn describe_network(resolved: &ResolvedRun, lines: &mut Lines) {
    let plan = &resolved.plan;
    lines.add("seed", plan.seed);
    lines.add("stop", resolved.measured_until);
    if plan.stop > resolved.measured_until {
        lines.add("drain", format_args!("until {} at most", plan.stop));
    }
    lines.add("hosts, switches", format_args!("{}, {}", plan.topology.hosts(), plan.topology.switches()));
    let mut links = plan.topology.links();
    links.dedup();
    for link in links.iter().take(8) {
        lines.add("link", format_args!("{}, {}", link.rate, link.delay));
    }
}

fn describe_switches(plan: &Plan, lines: &mut Lines) {
    let Switch { pipeline, priorities, buffer, trim, pause, mark, mark_host_links, mark_direction, stamp } =
        &plan.switch;
    lines.add("switch pipeline", pipeline);
    lines.add("priorities", priorities);
    lines.add("buffer", format_with_parameters(buffer.name(), &|visitor| buffer.for_each(visitor)));
    if let Some(Trim { size }) = trim {
        lines.add("trimming", format_args!("to {size}"));
    }
    lines.add(
        "flow control",
        match pause {
            Pause::Off => "off".to_owned(),
            Pause::Pfc { memory, alpha, resume } => {
                format!("PFC, memory {memory}, alpha {alpha}, resume {resume}")
            }
        },
    );
    lines.add("marks", format_with_parameters(mark.name(), &|visitor| mark.for_each(visitor)));
    if !mark_host_links {
        lines.add("marks on links to hosts", "off");
    }
    lines.add(
        "direction of marks",
        match mark_direction {
            MarkDirection::Forward => "forward".to_owned(),
            MarkDirection::ReversePerFlow { counters } => format!("reverse, per flow in {counters} counters"),
            MarkDirection::ReversePerPort => "reverse, per port".to_owned(),
        },
    );
    lines.add("telemetry", format_args!("{stamp:?}"));
    let is_always_off = |period: &&TelemetryOff| **period == TelemetryOff::always(period.switch);
    lines.add(
        "switches without it",
        match plan.telemetry_off.iter().filter(is_always_off).count() {
            0 => "none".to_owned(),
            count => format!("{count} of {}", plan.topology.switches()),
        },
    );
    for TelemetryOff { switch, from, until } in &plan.telemetry_off {
        if *until < Picos::MAX {
            let switch = switch.get();
            lines.add("telemetry off", format_args!("switch {switch}, from {from} to {until}"));
        }
    }
}

/// Describes the switches with their own policies. Consecutive switches with the same policies share a line.
fn describe_overrides(plan: &Plan, lines: &mut Lines) {
    let overrides = &plan.switch_overrides;
    let is_next = |a: &SwitchOverride, b: &SwitchOverride| {
        a.switch.get() + 1 == b.switch.get() && (&a.buffer, &a.mark) == (&b.buffer, &b.mark)
    };
    for group in overrides.chunk_by(is_next) {
        let ([first, ..], [.., last]) = (group, group) else { continue };
        let (first, last, SwitchOverride { buffer, mark, .. }) =
            (first.switch.get(), last.switch.get(), first);
        let switches =
            if first == last { format!("switch {first}") } else { format!("switches {first} to {last}") };
        if let Some(buffer) = buffer {
            let buffer = format_with_parameters(buffer.name(), &|visitor| buffer.for_each(visitor));
            lines.add("buffer", format_args!("{switches}: {buffer}"));
        }
        if let Some(mark) = mark {
            let mark = format_with_parameters(mark.name(), &|visitor| mark.for_each(visitor));
            lines.add("marks", format_args!("{switches}: {mark}"));
        }
    }
}

fn describe_link_changes(plan: &Plan, lines: &mut Lines) {
    for LinkChange { time, switch, port, event } in &plan.link_changes {
        let event = match event {
            LinkEvent::Down => "down".to_owned(),
            LinkEvent::Up => "up".to_owned(),
            LinkEvent::Rate(rate) => rate.to_string(),
            LinkEvent::Delay(delay) => format!("delay {delay}"),
        };
        let (switch, port) = (switch.get(), port.get());
        lines.add("link change", format_args!("at {time}, switch {switch} port {port}: {event}"));
    }
    for SlowPort { switch, port, divisor } in &plan.slow_ports {
        let (switch, port) = (switch.get(), port.get());
        lines.add("slow link", format_args!("switch {switch} port {port}: 1/{divisor} of the rate"));
    }
    for LinkImpairment { switch, port, policy } in &plan.link_impairments {
        let policy = format_with_parameters(policy.name(), &|visitor| policy.for_each(visitor));
        let (switch, port) = (switch.get(), port.get());
        lines.add("impairment", format_args!("switch {switch} port {port}: {policy}"));
    }
}

fn describe_transport(plan: &Plan, lines: &mut Lines) {
    let transport = &plan.transport;
    lines.add(
        "payload, header, ACK",
        format_args!("{}, {}, {}", transport.mtu, transport.header, transport.ack),
    );
    lines.add("on the wire", format_args!("data {}, ACK {}", plan.data_size(), plan.ack_size()));
    lines.add("eligibility", format_args!("{:?}", transport.eligibility));
    lines.add("timeouts", format_args!("at least {}, first {}", transport.min_rto, transport.first_rto));
    lines.add(
        "recovery",
        match transport.recovery {
            Recovery::Selective { reordering } => format!("selective, after {reordering} later packets"),
            Recovery::GoBackN => "go back n".to_owned(),
            Recovery::TrimNacks => "selective, after NACKs of trimmed packets and timeouts".to_owned(),
        },
    );
    lines.add(
        "ACKs",
        match transport.acks {
            Acks::EveryPacket => "every packet".to_owned(),
            Acks::Coalesced { packets, delay } => format!("every {packets} packets or {delay}"),
            Acks::CoalescedBytes { bytes } => format!("every {bytes}"),
        },
    );
    lines.add("echo of marks", format_args!("{:?}", transport.echo));
    let same_as_data = || "that of the data".to_owned();
    lines.add(
        "ACK priority",
        transport.ack_priority.map_or_else(same_as_data, |priority| priority.to_string()),
    );
    let paths = &transport.load_balancing;
    lines.add("load balancing", format_with_parameters(paths.name(), &|visitor| paths.for_each(visitor)));
    lines.add("PLB", transport.plb.map_or_else(|| "off".to_owned(), |plb| format!("{plb:?}")));
    if let Some(credits) = &transport.credits {
        lines.add("credits", format_args!("{credits:?}"));
    }
    if transport.path_filter != PathFilter::Each {
        lines.add("path filter", format_args!("{:?}", transport.path_filter));
    }
    lines.add("coexistence", if transport.coexistence { "on" } else { "off" });
}

fn describe_traffic(resolved: &ResolvedRun, lines: &mut Lines) {
    let plan = &resolved.plan;
    for law in &plan.laws {
        lines.add("law", format_with_parameters(law.law_name(), &|visitor| law.for_each(visitor)));
    }
    let rings = RingTable::new(&plan.rings, plan.transport.mtu);
    for group in &resolved.groups {
        let ring = group.collective.as_ref().and_then(|runs| rings.layouts().get(runs.ring?));
        let messages = ring.map_or(group.messages.messages.len() as u64, RingLayout::message_count);
        let connections = group.connections.len();
        let mut text = format!("{connections} connections, {messages} messages, law {}", group.law);
        if let Some(connection) = plan.connections.get(group.connections.start as usize) {
            let rtt = plan.base_rtt(connection.from, connection.to);
            let (from, to) = (connection.from.get(), connection.to.get());
            write!(text, "; the first from host {from} to {to}, unloaded RTT {rtt}")
                .expect("writing to a string cannot fail");
        }
        lines.add(format_args!("traffic {}", group.name), text);
    }
    if let Some(load) = describe_offered_load(plan) {
        lines.add("offered load", load);
    }
}

fn describe_measurements(resolved: &ResolvedRun, lines: &mut Lines) {
    for queue in &resolved.queues {
        let (switch, port) = (queue.port.switch.get(), queue.port.port.get());
        lines.add(
            format_args!("queue {}", queue.name),
            format_args!("switch {switch} port {port}, {}", queue.rate),
        );
    }
    for buffer in &resolved.buffers {
        let switches = buffer.switches.len();
        lines.add(format_args!("buffers {}", buffer.name), format_args!("{switches} switches"));
    }
    for class in &resolved.classes {
        let below = if class.below == Bytes::MAX { String::new() } else { format!(" below {}", class.below) };
        lines.add(format_args!("messages {}", class.name), format_args!("from {}{below}", class.from));
    }
    for window in &resolved.phases {
        let (measured_from, messages_from) = (resolved.measured_from(window), resolved.messages_from(window));
        lines.add(
            format_args!("phase {}", window.name),
            format_args!(
                "{} to {}; rates and queues are measured from {measured_from}, messages that start from \
                 {messages_from} count",
                window.start, window.end
            ),
        );
    }
}

/// Describes the highest load that messages offer to any host link, separately for sending and receiving.
///
/// Long flows do not count, because they adapt to the capacity. Messages that wait for other messages do not count
/// either, because they add no offered load.
fn describe_offered_load(plan: &Plan) -> Option<String> {
    let is_dependent = plan.dependent_mask();
    let hosts = plan.topology.hosts() as usize;
    let (mut sent, mut received) = (vec![0.0; hosts], vec![0.0; hosts]);
    for (message, _) in plan.messages.iter().zip(&is_dependent).filter(|(_, is_dependent)| !**is_dependent) {
        let Some(size) = message.amount.bytes() else { continue };
        let connection = plan.connections[message.connection.index()];
        sent[connection.from.index()] += size.get() as f64;
        received[connection.to.index()] += size.get() as f64;
    }
    let seconds = plan.stop.get() as f64 / 1e12;
    let largest_load = |bytes: &[f64]| {
        let loads = (0..).zip(bytes).map(|(host, bytes)| {
            let rate = plan.topology.host_link(HostId::new(host)).rate;
            (host, bytes * 8.0 / (rate.get() as f64 * seconds))
        });
        loads.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, load)| *load > 0.0)
    };
    let ((sender, sent), (receiver, received)) = (largest_load(&sent)?, largest_load(&received)?);
    let note = |load: f64| if load > 1.0 { ", more than the link carries" } else { "" };
    Some(format!(
        "at most {sent:.3} of a host's link sent (host {sender}{}), {received:.3} received (host {receiver}{})",
        note(sent),
        note(received)
    ))
}
