//! The description of a network that a page embeds, and what a reader must know about its numbers.

use super::encode::Columns;
use super::flows::{Flow, Flows, MAX_FLOWS};
use super::grouping::{BoxKind, Detail, MAX_LINKS, Names};
use super::layout::columns;
use super::network::{Channel, MapNetwork};
use super::sampling::{FlowSpan, MapSamples};
use crate::scenario::GroupedDigits;
use poseidon_plan::transport::AnyPathPolicy;
use poseidon_plan::{Plan, Topology};
use poseidon_types::Picos;
use serde::Serialize;

/// The number of ports with the largest queues of the run that a page lists.
const MAX_PEAKS: usize = 30;

/// Everything that the page needs besides the samples. Indices refer to `boxes` and `channels`.
#[derive(Serialize)]
pub(super) struct Description<'a> {
    detail: &'static str,
    summary: String,
    notes: Vec<String>,
    width: f64,
    height: f64,
    /// The begin of the first step, the duration of a step, and the end of the last step.
    start_ps: u64,
    step_ps: u64,
    end_ps: u64,
    steps: usize,
    queue_unit: u64,
    delay_unit: u64,
    boxes: Vec<BoxEntry<'a>>,
    channels: Vec<ChannelEntry>,
    /// The boxes at both ends, the channels in both directions or -1, and the bend.
    links: Vec<(usize, usize, i64, i64, f64)>,
    groups: Vec<GroupEntry<'a>>,
    flows: Vec<FlowEntry>,
    peaks: Vec<PeakEntry>,
}

#[derive(Serialize)]
struct BoxEntry<'a> {
    name: &'a str,
    kind: &'static str,
    tier: u32,
    /// Left, top, width, height.
    place: [f64; 4],
    hosts: usize,
    switches: usize,
    /// The columns of the cells, and the channel of the first cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<(usize, usize)>,
    /// The channel to the hosts of a rack that is one box.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<usize>,
}

#[derive(Serialize)]
struct ChannelEntry {
    /// The names of both ends.
    names: [String; 2],
    /// The boxes at both ends.
    ends: [usize; 2],
    ports: usize,
    bps: u64,
}

#[derive(Serialize)]
struct GroupEntry<'a> {
    name: &'a str,
    law: &'a str,
    connections: usize,
}

#[derive(Serialize)]
struct FlowEntry {
    id: usize,
    group: usize,
    names: [String; 2],
    /// The boxes of the sender and the receiver.
    ends: [usize; 2],
    /// The cells of the sender and the receiver in their boxes.
    cells: [usize; 2],
    route: Vec<usize>,
    /// When the first message starts and when the last message is acknowledged, in picoseconds.
    start: Option<u64>,
    end: Option<u64>,
    /// The bytes of the finished messages, if all of them are recorded.
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct PeakEntry {
    channel: usize,
    names: [String; 2],
    bytes: u64,
    ps: u64,
}

impl<'a> Description<'a> {
    pub(super) fn new(
        plan: &Plan,
        network: &'a MapNetwork,
        flows: &'a Flows,
        samples: &MapSamples,
        data: &Columns,
    ) -> Self {
        let names = Names::new(&plan.topology, &network.wiring);
        let index =
            |channel: Option<usize>| channel.and_then(|channel| i64::try_from(channel).ok()).unwrap_or(-1);
        Self {
            detail: match network.detail() {
                Detail::Hosts => "hosts",
                Detail::Cells => "cells",
                Detail::Racks => "racks",
            },
            summary: summary(network, flows, samples),
            notes: notes(plan, network, flows, samples),
            width: network.layout.width,
            height: network.layout.height,
            start_ps: samples.from.get(),
            step_ps: samples.step.get(),
            end_ps: samples.steps.last().map_or(0, |step| step.end.get()),
            steps: samples.steps.len(),
            queue_unit: data.queue_unit,
            delay_unit: data.delay_unit,
            boxes: boxes(network),
            channels: channels(network, &names),
            links: network
                .links
                .iter()
                .map(|link| (link.a, link.b, index(link.forward), index(link.backward), round(link.bend)))
                .collect(),
            groups: flows
                .groups
                .iter()
                .map(|group| GroupEntry {
                    name: &group.name,
                    law: &group.law,
                    connections: group.connections,
                })
                .collect(),
            flows: flows.flows.iter().map(|flow| flow_entry(flow, network, samples, &names)).collect(),
            peaks: peaks(network, samples, &names),
        }
    }
}

/// Rounds a coordinate to a tenth.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn boxes(network: &MapNetwork) -> Vec<BoxEntry<'_>> {
    // The channel of the first cell of each box, and the channel to the hosts of each rack.
    let (mut first_cell, mut inside) = (vec![None; network.boxes().len()], vec![None; network.boxes().len()]);
    for (index, channel) in network.channels.iter().enumerate() {
        first_cell[channel.to].get_or_insert(index);
        if channel.from == channel.to {
            inside[channel.to] = Some(index);
        }
    }
    let mut entries = Vec::new();
    for (index, (one, place)) in network.boxes().iter().zip(&network.layout.places).enumerate() {
        entries.push(BoxEntry {
            name: &one.name,
            kind: one.kind.name(),
            tier: one.tier,
            place: [place.x, place.y, place.width, place.height].map(round),
            hosts: one.hosts.len(),
            switches: one.switches.len(),
            cells: (one.kind == BoxKind::Hosts).then_some(columns(one.hosts.len())).zip(first_cell[index]),
            inside: inside[index],
        });
    }
    entries
}

fn channels(network: &MapNetwork, names: &Names<'_>) -> Vec<ChannelEntry> {
    let entry = |(index, channel): (usize, &Channel)| ChannelEntry {
        names: network.channel_ends(index, names),
        ends: [channel.from, channel.to],
        ports: channel.ports.len(),
        bps: channel.ports.iter().map(|port| network.wiring.ports[*port].rate.get()).sum(),
    };
    network.channels.iter().enumerate().map(entry).collect()
}

fn flow_entry(flow: &Flow, network: &MapNetwork, samples: &MapSamples, names: &Names<'_>) -> FlowEntry {
    let ends = [flow.from, flow.to];
    let cell = |host| {
        let hosts = &network.boxes()[network.box_of(host)].hosts;
        hosts.iter().position(|other| *other == host).unwrap_or(0)
    };
    let span = samples.spans.get(flow.connection).copied().flatten();
    let is_finished = |span: &FlowSpan| flow.messages.is_none_or(|messages| span.messages == messages);
    let end = span.filter(is_finished).map(|span| span.end.get());
    FlowEntry {
        id: flow.connection,
        group: flow.group,
        names: ends.map(|host| names.host(host)),
        ends: ends.map(|host| network.box_of(host)),
        cells: ends.map(cell),
        route: flow.route.clone(),
        start: span.map(|span| span.start).or(flow.start).map(Picos::get),
        end,
        bytes: flow.messages.and(span).map(|span| span.bytes),
    }
}

/// Returns the ports with the largest queues of the whole run.
fn peaks(network: &MapNetwork, samples: &MapSamples, names: &Names<'_>) -> Vec<PeakEntry> {
    let mut ports: Vec<usize> =
        (0..samples.peaks.len()).filter(|port| !samples.peaks[*port].queued.is_zero()).collect();
    ports.sort_by_key(|port| (core::cmp::Reverse(samples.peaks[*port].queued), *port));
    let entry = |port: usize| PeakEntry {
        channel: network.channel_of_port[port],
        names: network.port_ends(port, names),
        bytes: samples.peaks[port].queued.get(),
        ps: samples.peaks[port].time.get(),
    };
    ports.into_iter().take(MAX_PEAKS).map(entry).collect()
}

fn summary(network: &MapNetwork, flows: &Flows, samples: &MapSamples) -> String {
    let wiring = &network.wiring;
    let links =
        wiring.ports.iter().enumerate().filter(|(index, port)| port.opposite.is_none_or(|o| *index < o));
    let flows: usize = flows.groups.iter().map(|group| group.connections).sum();
    let count = |count: u64, one: &str, many: &str| {
        format!("{} {}", GroupedDigits(count), if count == 1 { one } else { many })
    };
    let parts = [
        count(wiring.hosts.into(), "host", "hosts"),
        count(wiring.switches.into(), "switch", "switches"),
        count(links.count() as u64, "link", "links"),
        count(flows as u64, "flow", "flows"),
    ];
    let end = samples.steps.last().map_or(Picos::ZERO, |step| step.end);
    let drops = match samples.drops {
        0 => "no packet was dropped".to_owned(),
        1 => "one packet was dropped".to_owned(),
        drops => format!("{} packets were dropped", GroupedDigits(drops)),
    };
    let time = if samples.from.is_zero() { end.to_string() } else { format!("{} to {end}", samples.from) };
    format!("{}, {time}; {drops}", parts.join(", "))
}

/// Returns what a reader must know about the numbers on the page.
fn notes(plan: &Plan, network: &MapNetwork, flows: &Flows, samples: &MapSamples) -> Vec<String> {
    let per_step = samples.step.get() / samples.every.get().max(1);
    let mut notes = vec![
        format!(
            "Ports are sampled every {}. A time step lasts {}: its queue and its delay are the largest of {per_step} \
             samples, and its load is the mean.",
            samples.every, samples.step
        ),
        "The load is what a port sent, with headers and ACKs, as a share of what its link can carry. The delay is \
         how long the last departed packet had waited."
            .to_owned(),
        "Only ports of switches are sampled. The direction from a host to its switch has no numbers.".to_owned(),
    ];
    match network.detail() {
        Detail::Hosts => {}
        Detail::Cells => notes.push("The hosts of a rack are cells of one box.".to_owned()),
        Detail::Racks => notes.push(format!(
            "The network has more than {} links, so it is drawn by rack: a box is a rack switch with its hosts, or \
             several switches. The load of a bundle is the sum over its links, and its queue is the worst of them.",
            GroupedDigits::from(MAX_LINKS)
        )),
    }
    if flows.omitted() > 0 {
        notes.push(format!(
            "The list has the first {} flows, shared among the traffic patterns; {} are omitted.",
            GroupedDigits::from(MAX_FLOWS.min(flows.flows.len())),
            GroupedDigits::from(flows.omitted())
        ));
    }
    if plan.transport.load_balancing != AnyPathPolicy::ECMP {
        notes.push("Packets are sprayed. The path of a flow is only one of its equal-cost paths.".to_owned());
    }
    if plan.transport.plb.is_some() || !plan.link_changes.is_empty() {
        notes.push(
            "Flows can change their path during the run. The highlighted path is the first.".to_owned(),
        );
    }
    if matches!(plan.topology, Topology::Rotor(_)) {
        notes.push(
            "A rack's link to the packet switch and its circuit serve the same queues. The path of a flow is the one \
             through the packet switch."
                .to_owned(),
        );
    }
    notes
}
