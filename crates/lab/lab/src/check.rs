//! What claims and figures name must be there. Said before anything runs: a name that nobody measures would otherwise be a claim that
//! was never held against anything.

use crate::analytic::work_out;
use crate::by_size;
use crate::expression::Expression;
use crate::judge::judge;
use crate::scenario::{ClaimSpec, FigureKind, FigureSpec, Label, Scenario, advice};
use crate::summary::{METRICS, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// Checks the claims and figures of a scenario; `cells` are the labels of all its cells.
pub fn check(scenario: &Scenario, cells: &[&[Label]]) -> Result<(), String> {
    let names = Names::of(scenario, cells);
    if scenario.withdrawn.is_some() && scenario.claim.iter().any(|claim| claim.not_comparable.is_none()) {
        return Err("withdrawn: nothing is run, so each claim must say why it is not-comparable".into());
    }
    for claim in &scenario.claim {
        judge(claim, &[])?;
        names.claim(claim).map_err(|why| format!("claim {:?}: {why}", claim.says))?;
    }
    for figure in &scenario.figure {
        names.figure(figure).map_err(|why| format!("figure {:?}: {why}", figure.title))?;
    }
    Ok(())
}

/// What can be named.
struct Names<'a> {
    scenario: &'a Scenario,
    /// Sweeps and `phase`, with their values.
    axes: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// What a closed form gives.
    closed: Option<Summary>,
}

impl<'a> Names<'a> {
    fn of(scenario: &'a Scenario, cells: &[&'a [Label]]) -> Self {
        let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for label in cells.iter().copied().flatten() {
            axes.entry(&label.sweep).or_default().insert(&label.value);
        }
        let phases = scenario.phase.iter().map(|phase| phase.name.as_str());
        let phases: BTreeSet<&str> =
            if scenario.phase.is_empty() { ["all"].into() } else { phases.collect() };
        axes.insert("phase", phases);
        Self { scenario, axes, closed: scenario.analytic.map(work_out) }
    }

    fn claim(&self, claim: &ClaimSpec) -> Result<(), String> {
        if !claim.metric.is_empty() {
            self.expression(&claim.metric)?;
        }
        let axes = [&claim.average_over, &claim.rising, &claim.falling];
        axes.into_iter().flatten().try_for_each(|axis| self.axis(axis).map(drop))?;
        for (axis, values) in &claim.cells {
            values.0.iter().try_for_each(|value| self.value(axis, value))?;
        }
        let others = claim.against.iter().chain(&claim.baseline).flatten();
        others.into_iter().try_for_each(|(axis, value)| self.value(axis, &value.0))
    }

    fn figure(&self, figure: &FigureSpec) -> Result<(), String> {
        figure.along.iter().chain(&figure.by).try_for_each(|axis| self.axis(axis).map(drop))?;
        for (axis, values) in &figure.cells {
            values.0.iter().try_for_each(|value| self.value(axis, value))?;
        }
        if figure.kind == FigureKind::Lines && figure.along.is_none() {
            return Err("lines go along something; add along = with a sweep or \"phase\"".into());
        }
        figure.reference.iter().try_for_each(|metric| self.expression(metric))?;
        for metric in &figure.metric.0 {
            match figure.kind {
                FigureKind::Bars | FigureKind::Lines => self.expression(metric)?,
                FigureKind::Series => {
                    metric.split(',').try_for_each(|name| known(name.trim(), "series", &self.series()))?;
                }
                FigureKind::Distribution => known(metric, "distribution", &self.distributions())?,
                FigureKind::Phase => known(&format!("{metric}[0].path"), "path", &self.series())?,
                FigureKind::Finish => known(metric, "traffic with messages", &self.with_messages())?,
            }
        }
        Ok(())
    }

    fn axis(&self, axis: &str) -> Result<&BTreeSet<&'a str>, String> {
        let known: Vec<&&str> = self.axes.keys().collect();
        self.axes.get(axis).ok_or_else(|| format!("there is no sweep {axis:?}; {}", advice(axis, &known)))
    }

    fn value(&self, axis: &str, value: &str) -> Result<(), String> {
        let values = self.axis(axis)?;
        if values.contains(value) {
            return Ok(());
        }
        let values: Vec<&&str> = values.iter().collect();
        Err(format!("{axis:?} is never {value:?}; {}", advice(value, &values)))
    }

    fn expression(&self, text: &str) -> Result<(), String> {
        let expression = Expression::parse(text)?;
        if expression.metrics().is_empty() {
            return Err(format!("{text:?} holds no metric, so it is the same in every run"));
        }
        let closed =
            self.closed.as_ref().map(|closed| closed.phases.iter().flat_map(|phase| phase.values.keys()));
        let closed: Option<Vec<String>> = closed.map(|names| names.cloned().collect());
        expression.metrics().into_iter().try_for_each(|metric| match &closed {
            Some(names) => known(metric, "metric", names),
            None => self.metric(metric),
        })
    }

    /// A metric of a run: its owner is there, and has it.
    fn metric(&self, name: &str) -> Result<(), String> {
        let (owner, metric) = name.split_once('.').ok_or_else(|| {
            format!("{name:?} is no metric; write whose it is in front, such as \"victim.rate_gbps\"")
        })?;
        let Some(info) = METRICS.iter().find(|info| info.name == metric) else {
            let names: Vec<&str> = METRICS.iter().map(|info| info.name).collect();
            return Err(format!("there is no metric {name:?}; {}", advice(metric, &names)));
        };
        let scenario = self.scenario;
        let traffic = scenario.traffic.iter().find(|traffic| traffic.name == owner);
        let has_queue = scenario.observe.queues.contains_key(owner);
        let has_buffer = scenario.observe.buffers.contains_key(owner);
        let has_class = scenario.observe.classes.contains_key(owner);
        if traffic.is_none() && !has_queue && !has_buffer && !has_class && owner != "run" {
            let mut names: Vec<&str> = scenario.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
            let observe = &scenario.observe;
            let named = observe.queues.keys().chain(observe.buffers.keys()).chain(observe.classes.keys());
            names.extend(named.map(String::as_str).chain(["run"]));
            return Err(format!(
                "{name:?}: there is no traffic, queue, buffer or class {owner:?}; {}",
                advice(owner, &names)
            ));
        }
        let is_long = traffic.is_some_and(|traffic| traffic.is_long());
        let has = match info.of {
            "run" => owner == "run",
            "queues" => has_queue,
            "buffers" => has_buffer,
            "messages" => has_class || traffic.is_some() && !is_long,
            of if of.starts_with("long flows") => is_long,
            _ => traffic.is_some(),
        };
        if !has {
            return Err(format!("{name:?} is not measured: {metric} is a number of {}", info.of));
        }
        let observe = &scenario.observe;
        if info.of.contains("decisions") && !observe.decisions.iter().any(|name| name == owner) {
            return Err(format!("{name:?} is not measured; add {owner:?} to observe.decisions"));
        }
        let is_rate = info.of.starts_with("long flows") || info.of == "flows with rates";
        let has_rates =
            observe.rates.as_ref().map_or(is_long, |rates| rates.iter().any(|name| name == owner));
        if is_rate && !has_rates {
            return Err(format!("{name:?} is not measured; add {owner:?} to observe.rates"));
        }
        Ok(())
    }

    fn series(&self) -> Vec<String> {
        if let Some(closed) = &self.closed {
            return closed.series.keys().cloned().collect();
        }
        let mut names = Vec::new();
        for traffic in &self.scenario.traffic {
            let name = &traffic.name;
            let rates = self.scenario.observe.rates.as_ref();
            let has_rates = rates.map_or_else(|| traffic.is_long(), |rates| rates.contains(name));
            let of_rates: &[&str] =
                if has_rates { &["[*].rate_gbps", ".rate_gbps", ".total_gbps", ".jain"] } else { &[] };
            let of_law: &[&str] = if traffic.is_long() { &[".window_packets", ".srtt_us"] } else { &[] };
            names.extend(of_rates.iter().chain(of_law).map(|what| format!("{name}{what}")));
        }
        for queue in self.scenario.observe.queues.keys() {
            names.extend([".delay_us", ".waiting_bytes", ".sent_gbps"].map(|what| format!("{queue}{what}")));
        }
        for name in self.with_messages().iter().chain(self.scenario.observe.classes.keys()) {
            names.extend(by_size::names(name));
        }
        names
    }

    fn distributions(&self) -> Vec<String> {
        let latencies = self.with_messages().into_iter().map(|name| format!("{name}.latency_us"));
        let round_trips = self.scenario.observe.decisions.iter().map(|name| format!("{name}.rtt_us"));
        let buffers = self.scenario.observe.buffers.keys().map(|name| format!("{name}.buffer_bytes"));
        latencies.chain(round_trips).chain(buffers).collect()
    }

    fn with_messages(&self) -> Vec<String> {
        let short = self.scenario.traffic.iter().filter(|traffic| !traffic.is_long());
        short.map(|traffic| traffic.name.clone()).collect()
    }
}

fn known(name: &str, what: &str, names: &[String]) -> Result<(), String> {
    // One flow of several: "flows[2].rate_gbps" is as good as "flows[*].rate_gbps".
    let any =
        name.split_once('[').and_then(|(owner, rest)| Some(format!("{owner}[*]{}", rest.split_once(']')?.1)));
    if names.iter().any(|known| known == name || any.as_ref() == Some(known)) {
        return Ok(());
    }
    Err(format!("there is no {what} {name:?}; {}", advice(name, names)))
}
