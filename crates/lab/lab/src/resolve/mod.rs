//! From what a scenario says to what a backend is given: a plan without defaults left, and what to measure in it.

mod laws;
mod network;
mod routes;
mod traffic;

use crate::scenario::{self, Scenario, TrafficKind};
use core::ops::Range;
use laws::{Laws, check_marks};
use network::{silences, switch, topology, transport};
use poseidon_laws::BuildError;
use poseidon_plan::patterns::{Class, Group, Racks, Traffic};
use poseidon_plan::{Backend, Plan, PlanError};
use poseidon_types::{BitRate, Bytes, Picos, Signals};
use routes::{give_fair_shares, share_uplinks, watch_buffers, watch_queues};
use traffic::of_kind;

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
    /// Watched buffers by name.
    pub buffers: Vec<BufferOf>,
    /// Messages of some sizes by name.
    pub classes: Vec<ClassOf>,
    /// What rates are averaged over.
    pub bin: Picos,
    /// Messages that start before this are not counted.
    pub messages_from: Picos,
    /// Messages that start at this time or later are not counted: from here to the end of the run is the drain.
    pub measured_until: Picos,
}

impl Resolved {
    /// From when on the rates and queues of a phase are measured: from the last sample at or before the end of `observe.settle`.
    pub fn measured_from(&self, window: &Window) -> Picos {
        let every = self.plan.sample_every.get();
        Picos::new(window.settled.get() / every * every)
    }

    /// From when on a message must start to count in a phase.
    pub fn messages_from(&self, window: &Window) -> Picos {
        window.begins.max(self.messages_from)
    }
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
    /// The end of the part that `observe.settle` leaves out; [`Resolved::measured_from`] says from when on it is measured.
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
    pub rate: BitRate,
}

/// Switches whose buffers are looked at.
#[derive(Clone, Debug)]
pub struct BufferOf {
    /// Its name.
    pub name: String,
    /// The switches.
    pub switches: Vec<u32>,
}

/// Messages of some sizes.
#[derive(Clone, Debug)]
pub struct ClassOf {
    /// Its name.
    pub name: String,
    /// The traffic they are of, by place in `groups`.
    pub groups: Vec<usize>,
    /// Those of at least this size.
    pub from: Bytes,
    /// Those below this size.
    pub below: Bytes,
}

/// Works out a cell with a seed. The error is a sentence that names the key and the fix.
pub fn resolve(scenario: &Scenario, seed: u64, backend: &dyn Backend) -> Result<Resolved, String> {
    let topology =
        topology(scenario.topology.as_ref().ok_or("there is no [topology]; write one with its kind")?)?;
    topology.check().map_err(|why| format!("topology: {why}"))?;
    let racks = Racks::of(&topology);
    let mut laws = Laws::of(scenario);
    // Those that no traffic runs are only looked at, so that they make no switch write what nobody reads.
    scenario.laws.keys().chain([&scenario.law]).try_for_each(|name| laws::law(scenario, name).map(drop))?;
    // Traffic goes on while the run drains, so that the last measured messages meet the same load.
    let stop = scenario
        .stop
        .0
        .checked_add(scenario.drain.0)
        .ok_or("stop and drain together are longer than a run can be; shorten drain")?;
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
        let made = of_kind(spec, &class, scenario, (&topology, &racks), stop, traffic.messages.len())
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
        silences: silences(scenario, &topology, &racks)?,
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
        buffers: Vec::new(),
        classes: Vec::new(),
        bin,
        messages_from: scenario.observe.messages_from.0,
        measured_until: scenario.stop.0,
    };
    resolved.plan.check(backend.supplies(&resolved.plan)).map_err(|error| refusal(&resolved, &error))?;
    share_uplinks(&mut resolved, scenario, backend)?;
    watch_queues(&mut resolved, scenario, backend)?;
    watch_buffers(&mut resolved, scenario, &racks, backend)?;
    resolved.classes = classes(scenario, &resolved.groups)?;
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

/// Messages of some sizes, by the names of a scenario.
fn classes(scenario: &Scenario, groups: &[GroupOf]) -> Result<Vec<ClassOf>, String> {
    let mut classes = Vec::new();
    for (name, spec) in &scenario.observe.classes {
        let place = format!("observe.classes.{name}");
        check_names(spec.of.0.iter(), groups, &place)?;
        if groups.iter().any(|group| group.name == *name) {
            return Err(format!("{place}: a traffic has that name as well; give the class another"));
        }
        let is_of = |(at, group): (usize, &GroupOf)| spec.of.0.contains(&group.name).then_some(at);
        classes.push(ClassOf {
            name: name.clone(),
            groups: groups.iter().enumerate().filter_map(is_of).collect(),
            from: spec.from.0,
            below: spec.below.map_or(Bytes::MAX, |below| below.0),
        });
    }
    Ok(classes)
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
