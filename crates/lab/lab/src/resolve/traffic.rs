//! What is sent.

use crate::scenario::{self, DestinationSpec, OneOrMore, Scenario, TrafficKind, TrafficSpec};
use poseidon_plan::Topology;
use poseidon_plan::patterns::{
    Carried, Class, ClosedLoop, Destinations, Incast, LongFlows, Over, Pattern, Permutation, Phase, Phases,
    PoissonFlows, Racks, Requests, RotatingIncast, SizeDistribution, Stagger, Traffic, UniformRandom,
    WORKLOADS,
};
use poseidon_plan::traffic::Amount;
use poseidon_types::{Fraction, Picos};

/// The most messages of a plan. It has no more connections than messages; with what is measured of them, each takes about 100 bytes, so
/// that the largest plan takes about 1 GB before it runs.
const MAX_MESSAGES: u32 = 10_000_000;

/// What a traffic of some kind sends; `before` are the messages that the plan has already.
pub(super) fn of_kind(
    spec: &TrafficSpec,
    class: &Class,
    scenario: &Scenario,
    (topology, racks): (&Topology, &Racks),
    stop: Picos,
    before: usize,
) -> Result<Traffic, String> {
    refuse_unread(spec)?;
    let make = |pattern: &dyn Pattern| {
        check_size(spec.kind, before as f64 + pattern.expected_messages())?;
        pattern.traffic(class).map_err(|error| error.to_string())
    };
    let needs = |key: &str| format!("{key} is missing");
    let hosts = |key: &str, of: &Option<OneOrMore>| {
        let of = of.as_ref().ok_or_else(|| needs(key))?;
        scenario::hosts(of, racks).map_err(|why| format!("{key}: {why}"))
    };
    let from = || {
        let mut from = hosts("from", &spec.from)?;
        if let Some(count) = spec.count {
            if count as usize > from.len() {
                return Err(format!("count is {count}, but from names {} hosts", from.len()));
            }
            from.truncate(count as usize);
        }
        Ok::<_, String>(from)
    };
    let ends = || {
        let (from, to) = (from()?, hosts("to", &spec.to)?);
        match to.as_slice() {
            [one] => Ok(from.iter().map(|from| (*from, *one)).collect::<Vec<_>>()),
            many if many.len() >= from.len() => Ok(from.into_iter().zip(to).collect()),
            many => Err(format!(
                "{} senders have {} receivers; name one, or one for each",
                from.len(),
                many.len()
            )),
        }
    };
    let size = || spec.size.map(|size| size.0).ok_or_else(|| needs("size"));
    let every = || spec.every.map(|every| every.0).ok_or_else(|| needs("every"));
    let until = spec.until.map_or(stop, |until| until.0.min(stop));
    let start = spec.start.0;
    match spec.kind {
        TrafficKind::LongFlows => {
            let until = spec.until.map_or(Picos::MAX, |until| until.0);
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            make(&LongFlows { ends: ends()?, start, spread, stop: until })
        }
        TrafficKind::Phased => {
            let ends = ends()?;
            let mut phases = Vec::new();
            for phase in scenario.phase.iter().filter(|phase| phase.at < scenario.stop) {
                let flows = phase.flows.get(&spec.name).copied().unwrap_or(0) as usize;
                if flows > ends.len() {
                    return Err(format!("phase {:?} wants {flows} flows of {}", phase.name, ends.len()));
                }
                phases.push(Phase { at: phase.at.0, flows: ends[..flows].to_vec() });
            }
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            make(&Phases { phases, end: stop }).map(|made| spread_out(made, class, spread))
        }
        TrafficKind::Incast => {
            let to = hosts("to", &spec.to)?;
            let [target] = to.as_slice() else { return Err("to names one host".into()) };
            let amount = spec.size.map_or(Amount::ENDLESS, |size| Amount::Exactly(size.0));
            let stagger = match spec.together {
                Some(together) => Stagger { together, every: every()? },
                None => Stagger::NONE,
            };
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            let incast = Incast { senders: from()?, target: *target, amount, start, stagger };
            make(&incast).map(|made| spread_out(made, class, spread))
        }
        TrafficKind::RotatingIncast => {
            let targets = hosts("to", &spec.to)?;
            make(&RotatingIncast { senders: from()?, targets, size: size()?, period: every()?, start, until })
        }
        TrafficKind::UniformRandom => {
            let rate = spec.rate.ok_or_else(|| needs("rate"))?.0;
            let over = match (spec.fresh, spec.partners) {
                (true, _) => Carried::ByItself,
                (false, Some(partners)) => Carried::ByFewPairs(partners),
                (false, None) => Carried::ByPair,
            };
            make(&UniformRandom {
                from: from()?,
                to: hosts("to", &spec.to)?,
                size: size()?,
                rate,
                over,
                start,
                until,
            })
        }
        TrafficKind::PoissonFlows => {
            let name = spec.sizes.as_ref().ok_or_else(|| needs("sizes"))?;
            let sizes = SizeDistribution::named(name).ok_or_else(|| {
                let known: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
                format!("there are no sizes {name:?}; {}", scenario::advice(name, &known))
            })?;
            let load = spec.load.ok_or_else(|| needs("load"))?.0;
            if load > Fraction::ONE {
                return Err(format!(
                    "load is {load}: hosts would offer more than their capacity, and what waits would grow until the end; \
                     write at most 1, or use an incast to overload a queue"
                ));
            }
            let capacity = spec.rate.map_or_else(|| topology.host_link(0).rate, |rate| rate.0);
            let destinations = match spec.destinations {
                None | Some(DestinationSpec::OtherRacks) => Destinations::OtherRacks,
                Some(DestinationSpec::OtherHosts) => Destinations::OtherHosts,
                Some(DestinationSpec::SameAndLaterRacks) => Destinations::SameAndLaterRacks,
            };
            let racks = racks.clone();
            make(&PoissonFlows { racks, destinations, sizes, load, capacity, start, until })
        }
        TrafficKind::Requests => {
            let clients = if spec.from.is_some() { from()? } else { (0..racks.all_hosts()).collect() };
            let fan = spec.fan.ok_or_else(|| needs("fan"))?;
            let racks = racks.clone();
            make(&Requests { clients, racks, fan, size: size()?, every: every()?, start, until })
        }
        TrafficKind::ClosedLoop => {
            let think = spec.think.map_or(Picos::ZERO, |think| think.0);
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            let count = spec.messages.ok_or_else(|| needs("messages"))?;
            let over = if spec.fresh { Over::NewConnections } else { Over::OneConnection };
            make(&ClosedLoop { ends: ends()?, size: size()?, count, think, over, start, spread })
        }
        TrafficKind::Permutation => {
            let amount = spec.size.map_or(Amount::ENDLESS, |size| Amount::Exactly(size.0));
            make(&Permutation { hosts: from()?, amount, start })
        }
    }
}

/// Refuses a plan with more than [`MAX_MESSAGES`]. The sentence begins with the key that makes most of them.
fn check_size(kind: TrafficKind, messages: f64) -> Result<(), String> {
    if messages <= f64::from(MAX_MESSAGES) {
        return Ok(());
    }
    let (key, fix) = match kind {
        TrafficKind::ClosedLoop => ("messages", "lower messages or count"),
        TrafficKind::PoissonFlows => ("load", "lower load, or end earlier with until or stop"),
        TrafficKind::UniformRandom => ("rate", "lower rate, raise size, or end earlier with until or stop"),
        TrafficKind::RotatingIncast | TrafficKind::Requests => {
            ("every", "raise every, or end earlier with until or stop")
        }
        TrafficKind::LongFlows | TrafficKind::Phased | TrafficKind::Incast | TrafficKind::Permutation => {
            ("from", "lower count")
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "an estimate, which saturates")]
    let about = scenario::grouped(messages as u64);
    let most = scenario::grouped(MAX_MESSAGES.into());
    Err(format!(
        "{key} makes a plan of about {about} messages; {most} are the most, which take about 1 GB: {fix}"
    ))
}

/// Refuses what a kind does not read: it would be a wish that nobody hears.
fn refuse_unread(spec: &TrafficSpec) -> Result<(), String> {
    let reads: &[&str] = match spec.kind {
        TrafficKind::LongFlows => &["from", "to", "count", "start", "until", "spread"],
        TrafficKind::Phased => &["from", "to", "count", "spread"],
        TrafficKind::Incast => &["from", "to", "count", "size", "start", "spread", "together", "every"],
        TrafficKind::RotatingIncast => &["from", "to", "count", "size", "every", "start", "until"],
        TrafficKind::UniformRandom => {
            &["from", "to", "count", "size", "rate", "fresh", "partners", "start", "until"]
        }
        TrafficKind::PoissonFlows => &["load", "sizes", "rate", "destinations", "start", "until"],
        TrafficKind::Requests => &["from", "count", "fan", "size", "every", "start", "until"],
        TrafficKind::ClosedLoop => {
            &["from", "to", "count", "size", "messages", "think", "fresh", "spread", "start"]
        }
        TrafficKind::Permutation => &["from", "count", "size", "start"],
    };
    let given = [
        ("from", spec.from.is_some()),
        ("to", spec.to.is_some()),
        ("count", spec.count.is_some()),
        ("start", !spec.start.0.is_zero()),
        ("until", spec.until.is_some()),
        ("spread", spec.spread.is_some()),
        ("together", spec.together.is_some()),
        ("every", spec.every.is_some()),
        ("size", spec.size.is_some()),
        ("rate", spec.rate.is_some()),
        ("fresh", spec.fresh),
        ("partners", spec.partners.is_some()),
        ("fan", spec.fan.is_some()),
        ("messages", spec.messages.is_some()),
        ("think", spec.think.is_some()),
        ("destinations", spec.destinations.is_some()),
        ("load", spec.load.is_some()),
        ("sizes", spec.sizes.is_some()),
    ];
    match given.iter().find(|(key, is_given)| *is_given && !reads.contains(key)) {
        Some((key, _)) => Err(format!("{key} means nothing to this kind, which reads {}", reads.join(", "))),
        None if spec.kind == TrafficKind::Incast && spec.every.is_some() && spec.together.is_none() => {
            Err("every needs together: so many begin, and the next so much later".into())
        }
        None => Ok(()),
    }
}

/// Lets each message begin at a random time within `spread` of its own.
fn spread_out(mut traffic: Traffic, class: &Class, spread: Picos) -> Traffic {
    let chance = class.chance.named("spread");
    for (index, message) in (0..).zip(&mut traffic.messages) {
        let most = u32::try_from(spread.get() / 1_000 + 1).unwrap_or(u32::MAX);
        message.at += Picos::new(u64::from(chance.of(index).below(most)) * 1_000);
    }
    traffic
}
