//! From what a scenario says to what a backend is given: a plan without defaults left, and what to measure in it.

use crate::oracle;
use crate::scenario::{
    self, EchoSpec, LinkSpec, MarksGo, OneOrMore, PlbSpec, PolicySpec, Scenario, StampSpec, TopologySpec,
    TrafficKind, TrafficSpec,
};
use core::ops::Range;
use poseidon_laws::params::ParamError;
use poseidon_laws::parts::plb::PlbParams;
use poseidon_laws::{AnyParams, BuildError};
use poseidon_plan::patterns::{
    Carried, Class, Destinations, Group, Incast, LongFlows, Pattern, Permutation, Phase, Phases,
    PoissonFlows, Racks, RotatingIncast, SizeDistribution, Stagger, Traffic, UniformRandom,
};
use poseidon_plan::switch::{
    AnyBuffer, AnyMark, DelayCarrier, Direction, Pause, RecordCarrier, Stamp, Switch,
};
use poseidon_plan::topology::{Chain, Edges, Tiers};
use poseidon_plan::traffic::{Amount, Connection};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Backend, Link, Plan, PlanError, Topology};
use poseidon_types::{Picos, Signals};

/// A cell with a seed: what runs, and what is measured in it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What runs.
    pub plan: Plan,
    /// Traffic by name.
    pub groups: Vec<GroupOf>,
    /// What is measured by itself.
    pub phases: Vec<Window>,
    /// Watched queues by name.
    pub queues: Vec<QueueOf>,
    /// What rates are averaged over.
    pub bin: Picos,
    /// Messages that start before this are not counted.
    pub messages_from: Picos,
}

/// Traffic of one name.
#[derive(Clone, Debug)]
pub struct GroupOf {
    /// Its name.
    pub name: String,
    /// The law of its connections, by its name in the scenario.
    pub law: String,
    /// Its connections.
    pub connections: Range<u32>,
    /// Its messages, in the order of the plan.
    pub messages: Group,
    /// Whether they are long flows: a rate is measured, and they have fair shares.
    pub is_long: bool,
    /// Whether its law is looked at ACK by ACK.
    pub has_decisions: bool,
    /// Whether its rates are looked at.
    pub has_rates: bool,
}

/// A part of a run.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its name.
    pub name: String,
    /// When it begins and ends.
    pub begins: Picos,
    /// See `begins`.
    pub ends: Picos,
    /// From when on it is measured.
    pub settled: Picos,
    /// Per connection: its max-min fair share in payload, bits per second; zero where it does not run all along.
    pub fair: Vec<f64>,
}

/// A watched queue.
#[derive(Clone, Debug)]
pub struct QueueOf {
    /// Its name.
    pub name: String,
    /// Its switch and port.
    pub port: (u32, u32),
    /// The rate of its link.
    pub link: Link,
}

/// Works out a cell with a seed. The error is a sentence that names the key and the fix.
pub fn resolve(scenario: &Scenario, seed: u64, backend: &dyn Backend) -> Result<Resolved, String> {
    let topology =
        topology(scenario.topology.as_ref().ok_or("there is no [topology]; write one with its kind")?)?;
    topology.check().map_err(|why| format!("topology: {why}"))?;
    let racks = Racks::of(&topology);
    let mut laws = Laws { scenario, names: Vec::new(), params: Vec::new() };
    // Those that no traffic runs are only looked at, so that they make no switch write what nobody reads.
    scenario.laws.keys().chain([&scenario.law]).try_for_each(|name| law(scenario, name).map(drop))?;
    let stop = scenario.stop.0;
    let phases = windows(scenario)?;
    let mut traffic = Traffic::default();
    let mut groups = Vec::new();
    for spec in &scenario.traffic {
        let law = spec.law.as_ref().unwrap_or(&scenario.law).clone();
        if groups.iter().any(|group: &GroupOf| group.name == spec.name) {
            return Err(format!("two traffics are called {:?}; give each a name of its own", spec.name));
        }
        let class = Class { law: laws.index(&law)?, priority: spec.priority, ..Class::new(seed, &spec.name) };
        let before = count(traffic.connections.len());
        let made = of_kind(spec, &class, scenario, &topology, &racks, stop)
            .map_err(|why| format!("traffic {:?}: {why}", spec.name))?;
        traffic.add(made);
        let is_long = spec.is_long();
        let rates = scenario.observe.rates.as_ref();
        groups.push(GroupOf {
            name: spec.name.clone(),
            law,
            connections: before..count(traffic.connections.len()),
            messages: Group { name: spec.name.clone(), start: Picos::ZERO, messages: Vec::new() },
            is_long,
            has_decisions: scenario.observe.decisions.contains(&spec.name),
            has_rates: rates.map_or(is_long, |rates| rates.contains(&spec.name)),
        });
    }
    let traffic = traffic.finish();
    for group in &mut groups {
        if let Some(made) = traffic.group(&group.name) {
            group.messages = made.clone();
        }
    }
    let listed = scenario.observe.decisions.iter().chain(scenario.observe.rates.iter().flatten());
    check_names(listed, &groups, "observe")?;
    for phase in &scenario.phase {
        let place = format!("phase {:?}", phase.name);
        check_names(phase.flows.keys(), &groups, &place)?;
        let is_phased = |name: &&String| {
            scenario.traffic.iter().any(|t| t.name == **name && t.kind == TrafficKind::Phased)
        };
        if let Some(name) = phase.flows.keys().find(|name| !is_phased(name)) {
            return Err(format!(
                "{place}: flows are given for {name:?}, which is not of the kind phased; make it so, or leave it out"
            ));
        }
    }
    check_marks(scenario, &groups)?;
    let watched = |group: &&GroupOf| group.has_decisions || group.has_rates;
    let plan = Plan {
        seed,
        stop,
        switch: switch(scenario, &laws.params)?,
        silent_switches: silent(scenario, &topology, &racks)?,
        topology,
        transport: transport(scenario),
        laws: laws.params,
        connections: traffic.connections,
        messages: traffic.messages,
        after: traffic.after,
        changes: Vec::new(),
        sample_every: scenario.observe.sample.0,
        watched: Vec::new(),
        watched_connections: groups
            .iter()
            .filter(watched)
            .flat_map(|group| group.connections.clone())
            .collect(),
        log_decisions: groups.iter().any(|group| group.has_decisions),
    };
    let bin = scenario.observe.bin.0;
    if plan.sample_every.is_zero() || !bin.get().is_multiple_of(plan.sample_every.get()) {
        return Err("observe: bin must be a multiple of sample, and sample above zero".into());
    }
    let mut resolved = Resolved {
        plan,
        groups,
        phases,
        queues: Vec::new(),
        bin,
        messages_from: scenario.observe.messages_from.0,
    };
    resolved.plan.check(backend.supplies(&resolved.plan)).map_err(|error| refusal(&resolved, &error))?;
    share_uplinks(&mut resolved, scenario, backend)?;
    watch_queues(&mut resolved, scenario, backend)?;
    give_fair_shares(&mut resolved, backend);
    Ok(resolved)
}

/// Why a plan is refused, in the words of a scenario.
fn refusal(resolved: &Resolved, error: &PlanError) -> String {
    let connection = match error {
        PlanError::Law { connection, .. } => Some(*connection),
        PlanError::Connection { index, .. } => Some(*index),
        PlanError::Message { index, .. } => {
            resolved.plan.messages.get(*index).map(|message| message.connection as usize)
        }
        _ => None,
    };
    let owner = |group: &&GroupOf| connection.is_some_and(|c| group.connections.contains(&count(c)));
    let Some(group) = resolved.groups.iter().find(owner) else { return error.to_string() };
    let (name, law) = (&group.name, &group.law);
    match error {
        PlanError::Law { error: BuildError::MissingSignals { missing, .. }, .. } => {
            let of_switches = missing.without(Signals::MAX_HOP_DELAY | Signals::HOP_RECORDS).is_empty();
            let fix = if of_switches { "set switch.stamp to \"auto\"" } else { "choose another law" };
            format!("traffic {name:?}: law {law:?} needs {missing}, which nobody tells it; {fix}")
        }
        PlanError::Law { error, .. } => format!("traffic {name:?}: {error}"),
        PlanError::Connection { why, .. } | PlanError::Message { why, .. } => {
            format!("traffic {name:?}: {why}")
        }
        other => other.to_string(),
    }
}

/// The laws of a cell, each once.
struct Laws<'a> {
    scenario: &'a Scenario,
    names: Vec<String>,
    params: Vec<AnyParams>,
}

impl Laws<'_> {
    /// The index of a law by its name in the scenario or in the table.
    fn index(&mut self, name: &str) -> Result<u32, String> {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return Ok(count(index));
        }
        self.params.push(law(self.scenario, name)?);
        self.names.push(name.to_owned());
        Ok(count(self.names.len() - 1))
    }
}

/// A law by its name in a scenario, or in the table of laws.
pub fn law(scenario: &Scenario, name: &str) -> Result<AnyParams, String> {
    let spec = scenario.laws.get(name);
    let base = spec.map_or(name, |spec| spec.base.as_str());
    let mut params = AnyParams::of(base).ok_or_else(|| {
        let mut known: Vec<&str> = poseidon_laws::LAWS.iter().map(|law| law.name).collect();
        known.extend(scenario.laws.keys().map(String::as_str));
        format!("there is no law {base:?}; {}", scenario::advice(base, &known))
    })?;
    let Some(spec) = spec else { return Ok(params) };
    if let Some(preset) = &spec.preset {
        params.preset(preset).map_err(|_| {
            let mut known = vec!["paper"];
            params.presets(&mut |name, _| known.push(name));
            format!("law {name:?} has no preset {preset:?}; {}", scenario::advice(preset, &known))
        })?;
    }
    for (key, value) in &spec.parameters {
        params.set(key, &value.0).map_err(|error| {
            let mut known = Vec::new();
            params.each(&mut |info, _| known.push(info.name));
            refused(&format!("law {name:?}"), key, error, &known)
        })?;
    }
    Ok(params)
}

/// A sentence about a parameter that was refused.
fn refused(owner: &str, key: &str, error: ParamError, known: &[&str]) -> String {
    match error {
        ParamError::UnknownName => {
            let known: Vec<String> = known.iter().map(|name| name.replace('_', "-")).collect();
            format!("{owner} has no parameter {key:?}; {}", scenario::advice(key, &known))
        }
        other => format!("{owner}: {other}"),
    }
}

fn link(spec: LinkSpec) -> Link {
    Link { rate: spec.rate.0, delay: spec.delay.0 }
}

fn topology(spec: &TopologySpec) -> Result<Topology, String> {
    Ok(match spec {
        TopologySpec::PoseidonClos { racks } => Topology::poseidon_clos(*racks),
        TopologySpec::Star { hosts, link: of } => Topology::star(*hosts, link(*of)),
        TopologySpec::Dumbbell { hosts, host_link, middle_link } => {
            Topology::dumbbell(*hosts, link(*host_link), link(*middle_link))
        }
        TopologySpec::Chain { switches, hosts, host_link, middle_link } => Topology::Chain(Chain {
            switches: *switches,
            hosts: *hosts,
            host_link: link(*host_link),
            middle_link: link(*middle_link),
        }),
        TopologySpec::Clos { pods, racks, hosts, aggregation, cores, host_link, rack_link, core_link } => {
            let rack_link = rack_link.unwrap_or(*host_link);
            Topology::Tiers(Tiers {
                pods: *pods,
                racks: *racks,
                hosts: *hosts,
                aggregation: *aggregation,
                cores: *cores,
                host_link: link(*host_link),
                rack_link: link(rack_link),
                core_link: link(core_link.unwrap_or(rack_link)),
            })
        }
        TopologySpec::FatTree { ports, link: of } => Topology::fat_tree(*ports, link(*of)),
        TopologySpec::Links { links } => {
            Topology::Edges(Edges::parse(links).map_err(|error| format!("topology: {error}"))?)
        }
    })
}

fn switch(scenario: &Scenario, laws: &[AnyParams]) -> Result<Switch, String> {
    let spec = &scenario.switch;
    Ok(Switch {
        pipeline: spec.pipeline.0,
        priorities: spec.priorities,
        buffer: buffer(&spec.buffer)?,
        pause: spec.pfc.map_or(Pause::Off, |pfc| Pause::Pfc {
            memory: pfc.memory.0,
            alpha: pfc.alpha.0,
            resume: pfc.resume.0,
        }),
        mark: mark(&spec.mark)?,
        marks_go: match spec.marks_go {
            MarksGo::Forward => Direction::Forward,
            MarksGo::ReversePerFlow => Direction::ReversePerFlow { counters: spec.mark_counters },
            MarksGo::ReversePerPort => Direction::ReversePerPort,
        },
        stamp: stamp(spec.stamp, laws)?,
    })
}

/// A law that waits for marks where no switch makes any would only ever grow.
fn check_marks(scenario: &Scenario, groups: &[GroupOf]) -> Result<(), String> {
    if scenario.switch.mark.policy != "off" {
        return Ok(());
    }
    for group in groups {
        if law(scenario, &group.law)?.needs().supplies(Signals::ECN_ECHO) {
            let known = poseidon_plan::switch::MARKS.iter().map(|policy| policy.name);
            let known: Vec<&str> = known.filter(|name| *name != "off").collect();
            return Err(format!(
                "traffic {:?}: law {:?} needs marks and switch.mark is off; give it a policy: {}",
                group.name,
                group.law,
                known.join(", ")
            ));
        }
    }
    Ok(())
}

/// What the laws of a cell need written into packets.
fn stamp(spec: StampSpec, laws: &[AnyParams]) -> Result<Stamp, String> {
    let needs = laws.iter().fold(Signals::NONE, |needs, law| needs.union(law.needs()));
    let records = needs.supplies(Signals::HOP_RECORDS);
    // Poseidon uses what hops say even where its signal does not need all of them to (section 4.1).
    let delay = needs.supplies(Signals::MAX_HOP_DELAY) || laws.iter().any(|law| law.law() == "poseidon");
    match (spec, records, delay) {
        (StampSpec::Off, ..) | (_, false, false) => Ok(Stamp::Off),
        (_, true, true) => Err("one law needs records of hops and another the largest hop delay; switches write one of them: run them in cells of their own".into()),
        (StampSpec::Auto, true, false) => Ok(Stamp::HopRecords(RecordCarrier::Exact)),
        (StampSpec::Wire, true, false) => Ok(Stamp::HopRecords(RecordCarrier::HpccNs3)),
        (StampSpec::Auto, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Exact)),
        (StampSpec::Wire, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Shim)),
    }
}

fn buffer(spec: &PolicySpec) -> Result<AnyBuffer, String> {
    let mut policy = AnyBuffer::of(&spec.policy).ok_or_else(|| {
        let known: Vec<&str> = poseidon_plan::switch::BUFFERS.iter().map(|policy| policy.name).collect();
        format!("there is no buffer policy {:?}; {}", spec.policy, scenario::advice(&spec.policy, &known))
    })?;
    for (key, value) in &spec.parameters {
        policy.set(key, &value.0).map_err(|error| {
            let mut known = Vec::new();
            policy.each(&mut |info, _| known.push(info.name));
            refused(&format!("buffer policy {:?}", spec.policy), key, error, &known)
        })?;
    }
    Ok(policy)
}

fn mark(spec: &PolicySpec) -> Result<AnyMark, String> {
    let mut policy = AnyMark::of(&spec.policy).ok_or_else(|| {
        let known: Vec<&str> = poseidon_plan::switch::MARKS.iter().map(|policy| policy.name).collect();
        format!("there is no mark policy {:?}; {}", spec.policy, scenario::advice(&spec.policy, &known))
    })?;
    for (key, value) in &spec.parameters {
        policy.set(key, &value.0).map_err(|error| {
            let mut known = Vec::new();
            policy.each(&mut |info, _| known.push(info.name));
            refused(&format!("mark policy {:?}", spec.policy), key, error, &known)
        })?;
    }
    Ok(policy)
}

/// The switches that do not stamp.
fn silent(scenario: &Scenario, topology: &Topology, racks: &Racks) -> Result<Vec<u32>, String> {
    let Some(stamping) = &scenario.switch.stamping else { return Ok(Vec::new()) };
    // Switches of racks have the numbers of their racks.
    let speaks = scenario::racks(stamping, racks).map_err(|why| format!("switch.stamping: {why}"))?;
    Ok((0..topology.switches()).filter(|switch| !speaks.contains(switch)).collect())
}

fn transport(scenario: &Scenario) -> Transport {
    let spec = &scenario.transport;
    Transport {
        mtu: spec.mtu.0,
        header: spec.header.0,
        ack: spec.ack.0,
        eligibility: if spec.round_up { Eligibility::Ceil } else { Eligibility::Floor },
        min_rto: spec.min_rto.0,
        first_rto: spec.first_rto.0,
        recovery: if spec.go_back_n { Recovery::GoBackN } else { Recovery::Selective { reordering: 3 } },
        acks: if spec.ack_every > 1 {
            Acks::Coalesced { packets: spec.ack_every, delay: spec.ack_delay.0 }
        } else {
            Acks::EveryPacket
        },
        echo: match spec.echo {
            EchoSpec::Exact => Echo::Exact,
            EchoSpec::UntilReduced => Echo::UntilReduced,
            EchoSpec::Notification => Echo::Notification { gap: spec.notification_gap.0 },
        },
        ack_priority: spec.acks_first.then_some(0),
        spread: if spec.spray { Spread::PerPacket } else { Spread::PerFlow },
        plb: match spec.plb {
            PlbSpec::Off => None,
            PlbSpec::Falcon => Some(PlbParams::FALCON),
            PlbSpec::Linux => Some(PlbParams::LINUX),
        },
    }
}

/// The phases of a run.
fn windows(scenario: &Scenario) -> Result<Vec<Window>, String> {
    let stop = scenario.stop.0;
    let settle = scenario.observe.settle;
    if !(0.0..1.0).contains(&settle) {
        return Err("observe.settle is a part of a phase: at least 0 and below 1".into());
    }
    for (index, phase) in scenario.phase.iter().enumerate() {
        if scenario.phase[..index].iter().any(|before| before.name == phase.name) {
            return Err(format!("two phases are called {:?}; give each a name of its own", phase.name));
        }
    }
    let whole = [("all".to_owned(), Picos::ZERO)];
    let starts: Vec<(String, Picos)> = match scenario.phase.as_slice() {
        [] => whole.to_vec(),
        phases => phases.iter().map(|phase| (phase.name.clone(), phase.at.0)).collect(),
    };
    // Phases that a shorter stop has cut off are left out.
    let starts: Vec<_> = starts.into_iter().filter(|(_, at)| *at < stop).collect();
    let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([stop]);
    let window = |((name, begins), ends): (&(String, Picos), Picos)| {
        let length = ends.checked_sub(*begins).ok_or_else(|| {
            format!("phase {name:?} begins after the next one; phases stand in order of time")
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "a part of a length is no longer than it")]
        let unsettled = (length.get() as f64 * settle) as u64;
        Ok(Window {
            name: name.clone(),
            begins: *begins,
            ends,
            settled: *begins + Picos::new(unsettled),
            fair: Vec::new(),
        })
    };
    starts.iter().zip(ends).map(window).collect()
}

/// What a traffic of some kind sends.
fn of_kind(
    spec: &TrafficSpec,
    class: &Class,
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
    stop: Picos,
) -> Result<Traffic, String> {
    refuse_unread(spec)?;
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
    let made = match spec.kind {
        TrafficKind::LongFlows => {
            let until = spec.until.map_or(Picos::MAX, |until| until.0);
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            LongFlows { ends: ends()?, start, spread, stop: until }.traffic(class)
        }
        TrafficKind::Phased => {
            let ends = ends()?;
            let mut phases = Vec::new();
            for phase in scenario.phase.iter().filter(|phase| phase.at.0 < stop) {
                let flows = phase.flows.get(&spec.name).copied().unwrap_or(0) as usize;
                if flows > ends.len() {
                    return Err(format!("phase {:?} wants {flows} flows of {}", phase.name, ends.len()));
                }
                phases.push(Phase { at: phase.at.0, flows: ends[..flows].to_vec() });
            }
            let spread = spec.spread.map_or(Picos::ZERO, |spread| spread.0);
            Phases { phases, end: stop }.traffic(class).map(|made| spread_out(made, class, spread))
        }
        TrafficKind::Incast => {
            let to = hosts("to", &spec.to)?;
            let [target] = to.as_slice() else { return Err("to names one host".into()) };
            let amount = spec.size.map_or(Amount::ENDLESS, |size| Amount::Exactly(size.0));
            let stagger = match spec.together {
                Some(together) => Stagger { together, every: every()? },
                None => Stagger::NONE,
            };
            Incast { senders: from()?, target: *target, amount, start, stagger }.traffic(class)
        }
        TrafficKind::RotatingIncast => {
            let targets = hosts("to", &spec.to)?;
            RotatingIncast { senders: from()?, targets, size: size()?, period: every()?, start, until }
                .traffic(class)
        }
        TrafficKind::UniformRandom => {
            let rate = spec.rate.ok_or_else(|| needs("rate"))?.0;
            let over = match (spec.fresh, spec.partners) {
                (true, _) => Carried::ByItself,
                (false, Some(partners)) => Carried::ByFewPairs(partners),
                (false, None) => Carried::ByPair,
            };
            UniformRandom {
                from: from()?,
                to: hosts("to", &spec.to)?,
                size: size()?,
                rate,
                over,
                start,
                until,
            }
            .traffic(class)
        }
        TrafficKind::PoissonFlows => {
            let name = spec.sizes.as_ref().ok_or_else(|| needs("sizes"))?;
            let sizes = SizeDistribution::named(name).ok_or_else(|| {
                let known: Vec<&str> = poseidon_plan::patterns::WORKLOADS.iter().map(|w| w.name).collect();
                format!("there are no sizes {name:?}; {}", scenario::advice(name, &known))
            })?;
            let load = spec.load.ok_or_else(|| needs("load"))?.0;
            let capacity = spec.rate.map_or_else(|| topology.host_link(0).rate, |rate| rate.0);
            let destinations = Destinations::OtherRacks;
            PoissonFlows { racks: racks.clone(), destinations, sizes, load, capacity, start, until }
                .traffic(class)
        }
        TrafficKind::Permutation => {
            let amount = spec.size.map_or(Amount::ENDLESS, |size| Amount::Exactly(size.0));
            Permutation { hosts: from()?, amount, start }.traffic(class)
        }
    };
    made.map_err(|error| error.to_string())
}

/// Refuses what a kind does not read: it would be a wish that nobody hears.
fn refuse_unread(spec: &TrafficSpec) -> Result<(), String> {
    let reads: &[&str] = match spec.kind {
        TrafficKind::LongFlows => &["from", "to", "count", "start", "until", "spread"],
        TrafficKind::Phased => &["from", "to", "count", "spread"],
        TrafficKind::Incast => &["from", "to", "count", "size", "start", "together", "every"],
        TrafficKind::RotatingIncast => &["from", "to", "count", "size", "every", "start", "until"],
        TrafficKind::UniformRandom => {
            &["from", "to", "count", "size", "rate", "fresh", "partners", "start", "until"]
        }
        TrafficKind::PoissonFlows => &["load", "sizes", "rate", "start", "until"],
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

/// Finds an entropy for each flow that is to take the uplink of another.
fn share_uplinks(resolved: &mut Resolved, scenario: &Scenario, backend: &dyn Backend) -> Result<(), String> {
    const TRIES: u32 = 4_096;
    for spec in &scenario.traffic {
        let Some(other) = &spec.share_uplink_of else { continue };
        let group = |name: &str| resolved.groups.iter().find(|group| group.name == name);
        let (Some(with), Some(these)) = (group(other), group(&spec.name)) else {
            return Err(format!("traffic {:?}: share-uplink-of names no traffic {other:?}", spec.name));
        };
        let Some(first) = resolved.plan.connections.get(with.connections.start as usize).copied() else {
            continue;
        };
        let these = these.connections.clone();
        let uplink =
            backend.routes(&resolved.plan, &[first]).first().and_then(|route| route.first().copied());
        for index in these {
            let connection = resolved.plan.connections[index as usize];
            // From its own entropy on, so that seeds differ.
            let tries: Vec<Connection> = (0..TRIES)
                .map(|step| Connection { entropy: connection.entropy.wrapping_add(step), ..connection })
                .collect();
            let mut found = None;
            for few in tries.chunks(64) {
                let routes = backend.routes(&resolved.plan, few);
                found = few.iter().zip(routes).find(|(_, route)| route.first().copied() == uplink);
                if found.is_some() {
                    break;
                }
            }
            let Some((with, _)) = found else {
                return Err(format!(
                    "traffic {:?}: none of its paths shares the uplink of {other:?}; put both in one rack",
                    spec.name
                ));
            };
            resolved.plan.connections[index as usize].entropy = with.entropy;
        }
    }
    Ok(())
}

fn watch_queues(resolved: &mut Resolved, scenario: &Scenario, backend: &dyn Backend) -> Result<(), String> {
    let names: Vec<&str> = resolved.groups.iter().map(|group| group.name.as_str()).collect();
    for (name, text) in &scenario.observe.queues {
        let (hop, group) =
            scenario::queue(text, &names).map_err(|why| format!("observe.queues.{name}: {why}"))?;
        let group = resolved.groups.iter().find(|other| other.name == group);
        let first = group.and_then(|group| resolved.plan.connections.get(group.connections.start as usize));
        let Some(first) = first else { continue };
        let route = backend.routes(&resolved.plan, &[*first]).remove(0);
        let hop = hop.map_or_else(|| route.len().saturating_sub(1), |hop| hop as usize);
        let Some(port) = route.get(hop) else {
            return Err(format!("observe.queues.{name}: there are only {} hops on that way", route.len()));
        };
        let links = resolved.plan.topology.links_between(first.from, first.to);
        let link = links.get(hop + 1).copied().unwrap_or_else(|| resolved.plan.topology.host_link(first.to));
        resolved.queues.push(QueueOf { name: name.clone(), port: *port, link });
    }
    let mut watched: Vec<(u32, u32)> = resolved.queues.iter().map(|queue| queue.port).collect();
    watched.sort_unstable();
    watched.dedup();
    resolved.plan.watched = watched;
    Ok(())
}

/// Gives each long flow its max-min fair share of each phase in which it runs from the moment that it is measured to its end.
fn give_fair_shares(resolved: &mut Resolved, backend: &dyn Backend) {
    let plan = &resolved.plan;
    let mut long = Vec::new();
    for group in resolved.groups.iter().filter(|group| group.is_long) {
        for message in &group.messages.messages {
            let message = plan.messages[*message as usize];
            if let Amount::Until(until) = message.amount {
                long.push((message.connection, message.at, until));
            }
        }
    }
    let connections: Vec<Connection> = long.iter().map(|(c, ..)| plan.connections[*c as usize]).collect();
    let routes = backend.routes(plan, &connections);
    let payload = plan.transport.mtu.get() as f64 / plan.data_size().get() as f64;
    let shares = |window: &Window| {
        let mut fair = vec![0.0; plan.connections.len()];
        let runs = |i: &usize| long[*i].1 <= window.settled && long[*i].2 >= window.ends;
        let active: Vec<usize> = (0..long.len()).filter(runs).collect();
        let (mut links, mut capacities) = (std::collections::BTreeMap::new(), Vec::new());
        let mut flows = Vec::new();
        for &i in &active {
            let connection = connections[i];
            let wires = plan.topology.links_between(connection.from, connection.to);
            // The sender's own wire, and every port on the way.
            let ports = core::iter::once((u32::MAX, connection.from)).chain(routes[i].iter().copied());
            let flow = ports
                .zip(&wires)
                .map(|(port, wire)| {
                    *links.entry(port).or_insert_with(|| {
                        capacities.push(wire.rate);
                        capacities.len() - 1
                    })
                })
                .collect();
            flows.push(oracle::Flow { links: flow, limit: None });
        }
        for (i, rate) in active.iter().zip(oracle::max_min(&capacities, &flows)) {
            fair[long[*i].0 as usize] = rate * payload;
        }
        fair
    };
    let fair: Vec<Vec<f64>> = resolved.phases.iter().map(shares).collect();
    for (window, fair) in resolved.phases.iter_mut().zip(fair) {
        window.fair = fair;
    }
}

fn check_names<'a>(
    names: impl Iterator<Item = &'a String>,
    groups: &[GroupOf],
    place: &str,
) -> Result<(), String> {
    let known: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    for name in names {
        if !known.contains(&name.as_str()) {
            return Err(format!("{place}: there is no traffic {name:?}; {}", scenario::advice(name, &known)));
        }
    }
    Ok(())
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a plan numbers fewer than 2^32 of anything")
}
