//! A plan in words: the effective configuration, with no default left.

use crate::resolve::Resolved;
use core::fmt::Write as _;
use poseidon_plan::Plan;
use poseidon_plan::switch::{Direction, Pause, Silence};
use poseidon_plan::transport::{Acks, Recovery};
use poseidon_types::{Bytes, Picos};

/// The effective configuration of a run, for people.
pub fn plan(resolved: &Resolved) -> String {
    let plan = &resolved.plan;
    let mut text = String::new();
    let mut say = |name: &str, value: String| {
        writeln!(text, "{name:<22} {value}").expect("a text takes everything");
    };
    say("seed", plan.seed.to_string());
    say("stop", resolved.measured_until.to_string());
    if plan.stop > resolved.measured_until {
        say("drain", format!("until {} at most", plan.stop));
    }
    say("hosts, switches", format!("{}, {}", plan.topology.hosts(), plan.topology.switches()));
    let mut links = plan.topology.links();
    links.dedup();
    for link in links.iter().take(8) {
        say("link", format!("{}, {}", link.rate, link.delay));
    }
    let switch = &plan.switch;
    say("switch pipeline", switch.pipeline.to_string());
    say("priorities", switch.priorities.to_string());
    let mut buffer = switch.buffer.name().to_owned();
    switch.buffer.each(&mut |info, value| write!(buffer, ", {} {value}", info.name).expect("text"));
    say("buffer", buffer);
    say(
        "flow control",
        match switch.pause {
            Pause::Off => "off".into(),
            Pause::Pfc { memory, alpha, resume } => {
                format!("PFC, memory {memory}, alpha {alpha}, resume {resume}")
            }
        },
    );
    let mut mark = switch.mark.name().to_owned();
    switch.mark.each(&mut |info, value| write!(mark, ", {} {value}", info.name).expect("text"));
    say("marks", mark);
    say(
        "marks go",
        match switch.marks_go {
            Direction::Forward => "forward".into(),
            Direction::ReversePerFlow { counters } => format!("reverse, per flow in {counters} counters"),
            Direction::ReversePerPort => "reverse, per port".into(),
        },
    );
    say("telemetry", format!("{:?}", switch.stamp));
    say(
        "switches without it",
        match plan.silences.iter().filter(|silence| **silence == Silence::always(silence.switch)).count() {
            0 => "none".into(),
            some => format!("{some} of {}", plan.topology.switches()),
        },
    );
    for Silence { switch, from, until } in &plan.silences {
        if *until < Picos::MAX {
            say("silent for a while", format!("switch {switch}, from {from} to {until}"));
        }
    }
    let transport = &plan.transport;
    say("payload, header, ACK", format!("{}, {}, {}", transport.mtu, transport.header, transport.ack));
    say("on the wire", format!("data {}, ACK {}", plan.data_size(), plan.ack_size()));
    say("eligibility", format!("{:?}", transport.eligibility));
    say("timeouts", format!("at least {}, first {}", transport.min_rto, transport.first_rto));
    say(
        "recovery",
        match transport.recovery {
            Recovery::Selective { reordering } => format!("selective, after {reordering} later packets"),
            Recovery::GoBackN => "go back n".into(),
        },
    );
    say(
        "ACKs",
        match transport.acks {
            Acks::EveryPacket => "every packet".into(),
            Acks::Coalesced { packets, delay } => format!("every {packets} packets or {delay}"),
        },
    );
    say("echo of marks", format!("{:?}", transport.echo));
    say("ACK priority", transport.ack_priority.map_or_else(|| "that of the data".into(), |p| p.to_string()));
    say("paths", format!("{:?}", transport.spread));
    say("PLB", transport.plb.map_or_else(|| "off".into(), |plb| format!("{plb:?}")));
    say("coexistence", if transport.coexistence { "on".into() } else { "off".into() });
    for law in &plan.laws {
        let mut values = law.law().to_owned();
        law.each(&mut |info, value| write!(values, ", {} {value}", info.name).expect("text"));
        say("law", values);
    }
    for group in &resolved.groups {
        let messages = group.messages.messages.len();
        let connections = group.connections.len();
        let mut told = format!("{connections} connections, {messages} messages, law {}", group.law);
        if let Some(connection) = plan.connections.get(group.connections.start as usize) {
            let rtt = plan.base_rtt(connection.from, connection.to);
            write!(
                told,
                "; the first from host {} to {}, unloaded RTT {rtt}",
                connection.from, connection.to
            )
            .expect("a text takes everything");
        }
        say(&format!("traffic {}", group.name), told);
    }
    if let Some(load) = offered_load(&resolved.plan) {
        say("offered load", load);
    }
    for queue in &resolved.queues {
        let (switch, port) = queue.port;
        say(&format!("queue {}", queue.name), format!("switch {switch} port {port}, {}", queue.rate));
    }
    for buffer in &resolved.buffers {
        say(&format!("buffers {}", buffer.name), format!("{} switches", buffer.switches.len()));
    }
    for class in &resolved.classes {
        let below = if class.below == Bytes::MAX { String::new() } else { format!(" below {}", class.below) };
        say(&format!("messages {}", class.name), format!("from {}{below}", class.from));
    }
    for window in &resolved.phases {
        say(
            &format!("phase {}", window.name),
            format!(
                "{} to {}; rates and queues are measured from {}, messages that start from {} count",
                window.begins,
                window.ends,
                resolved.measured_from(window),
                resolved.messages_from(window)
            ),
        );
    }
    text
}

/// What messages ask of the links of hosts until the run ends, where it is most: sent by one host, and sent to one. Long flows take
/// what they get, and a message that waits for another does not add to what is offered.
fn offered_load(plan: &Plan) -> Option<String> {
    let mut waits = vec![false; plan.messages.len()];
    plan.after.iter().for_each(|after| waits[after.then as usize] = true);
    let hosts = plan.topology.hosts() as usize;
    let (mut sent, mut received) = (vec![0.0; hosts], vec![0.0; hosts]);
    for (message, _) in plan.messages.iter().zip(&waits).filter(|(_, waits)| !**waits) {
        let (Some(size), ends) = (message.amount.bytes(), plan.connections[message.connection as usize])
        else {
            continue;
        };
        sent[ends.from as usize] += size.get() as f64;
        received[ends.to as usize] += size.get() as f64;
    }
    let seconds = plan.stop.get() as f64 / 1e12;
    let most = |bytes: &[f64]| {
        let loads = (0..).zip(bytes).map(|(host, bytes)| {
            (host, bytes * 8.0 / (plan.topology.host_link(host).rate.get() as f64 * seconds))
        });
        loads.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, load)| *load > 0.0)
    };
    let (from, to) = (most(&sent)?, most(&received)?);
    let note = |load: f64| if load > 1.0 { ", more than the link carries" } else { "" };
    Some(format!(
        "at most {:.3} of a host's link sent (host {}{}), {:.3} received (host {}{})",
        from.1,
        from.0,
        note(from.1),
        to.1,
        to.0,
        note(to.1)
    ))
}
