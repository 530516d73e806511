//! Before any run starts, checks that all metrics, sweeps and sweep values in claims and figures exist.

use crate::analytic::evaluate;
use crate::by_size;
use crate::expression::Expression;
use crate::judge::judge;
use crate::listing::{LONG_FLOWS, QUEUES, RATES, SERIES};
use crate::scenario::{
    ClaimError, ClaimSpec, FigureKind, FigureSpec, KeyPath, Label, Scalars, Scenario, SpecError,
    SpecErrorKind, Subject, Suggestion,
};
use crate::summary::{METRICS, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// Checks a scenario's claims and figures. `cells` lists the labels of each cell.
pub fn check(scenario: &Scenario, cells: &[&[Label]]) -> Result<(), SpecError> {
    if scenario.withdrawn.is_some() && scenario.claim.iter().any(|claim| claim.not_comparable.is_none()) {
        return Err(SpecErrorKind::WithdrawnWithClaims.at(["withdrawn"]));
    }
    let checker = Checker::new(scenario, cells);
    for (index, claim) in scenario.claim.iter().enumerate() {
        let path = KeyPath::new(["claim"]).join(index);
        judge(claim, &[]).map_err(|error| claim_error(error, path.clone()))?;
        checker.check_claim(claim, &path).map_err(|error| error.about(Subject::Claim(claim.says.clone())))?;
    }
    for (index, figure) in scenario.figure.iter().enumerate() {
        let path = KeyPath::new(["figure"]).join(index);
        checker
            .check_figure(figure, &path)
            .map_err(|error| error.about(Subject::Figure(figure.title.clone())))?;
    }
    Ok(())
}

/// Checks that a metric exists and that a run of the scenario measures it.
pub(crate) fn check_metric(scenario: &Scenario, name: &str) -> Result<(), SpecError> {
    Checker::new(scenario, &[]).check_metric(name, &KeyPath::ROOT)
}

fn claim_error(error: ClaimError, path: KeyPath) -> SpecError {
    let path = if matches!(error, ClaimError::Metric { .. }) { path.join("metric") } else { path };
    SpecErrorKind::Claim(error).at_path(path)
}

/// Checks claims and figures against the names that the scenario defines.
struct Checker<'a> {
    scenario: &'a Scenario,
    /// The values of each sweep, and the phase names under `phase`.
    axes: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The result of the closed-form model, if the scenario has one.
    closed_form: Option<Summary>,
}

impl<'a> Checker<'a> {
    fn new(scenario: &'a Scenario, cells: &[&'a [Label]]) -> Self {
        let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for label in cells.iter().copied().flatten() {
            axes.entry(&label.sweep).or_default().insert(&label.value);
        }
        let phases = scenario.phase.iter().map(|phase| phase.name.as_str());
        let phases: BTreeSet<&str> =
            if scenario.phase.is_empty() { ["all"].into() } else { phases.collect() };
        axes.insert("phase", phases);
        Self { scenario, axes, closed_form: scenario.analytic.map(evaluate) }
    }

    fn check_claim(&self, claim: &ClaimSpec, path: &KeyPath) -> Result<(), SpecError> {
        let key = |name: &str| path.clone().join(name);
        if !claim.metric.is_empty() {
            self.check_expression(&claim.metric, key("metric"))?;
        }
        let axes =
            [("average-over", &claim.average_over), ("rising", &claim.rising), ("falling", &claim.falling)];
        for (name, axis) in axes {
            self.check_axis(axis.as_ref(), key(name))?;
        }
        self.check_cells(&claim.cells, &key("where"))?;
        for (name, cells) in [("against", &claim.against), ("baseline", &claim.baseline)] {
            for (axis, value) in cells.iter().flatten() {
                self.check_value(axis, &value.0, key(name).join(axis.as_str()))?;
            }
        }
        Ok(())
    }

    fn check_figure(&self, figure: &FigureSpec, path: &KeyPath) -> Result<(), SpecError> {
        let key = |name: &str| path.clone().join(name);
        self.check_axis(figure.along.as_ref(), key("along"))?;
        self.check_axis(figure.by.as_ref(), key("by"))?;
        self.check_cells(&figure.cells, &key("where"))?;
        if figure.kind == FigureKind::Lines && figure.along.is_none() {
            return Err(SpecErrorKind::LinesWithoutAxis.at_path(path.clone()));
        }
        if let Some(reference) = &figure.reference {
            self.check_expression(reference, key("reference"))?;
        }
        for metric in &figure.metric.0 {
            self.check_figure_metric(figure.kind, metric, key("metric"))?;
        }
        Ok(())
    }

    fn check_figure_metric(&self, kind: FigureKind, metric: &str, path: KeyPath) -> Result<(), SpecError> {
        let result = match kind {
            FigureKind::Bars | FigureKind::Lines => return self.check_expression(metric, path),
            FigureKind::Series => {
                metric.split(',').try_for_each(|name| check_name(name.trim(), "series", &self.series_names()))
            }
            FigureKind::Distribution => check_name(metric, "distribution", &self.distribution_names()),
            FigureKind::Phase => check_name(&format!("{metric}[0].path"), "path", &self.series_names()),
            FigureKind::Finish => check_name(metric, "traffic with messages", &self.traffic_with_messages()),
        };
        result.map_err(|kind| kind.at_path(path))
    }

    fn check_cells(&self, cells: &BTreeMap<String, Scalars>, path: &KeyPath) -> Result<(), SpecError> {
        for (axis, values) in cells {
            let path = path.clone().join(axis.as_str());
            values.0.iter().try_for_each(|value| self.check_value(axis, value, path.clone()))?;
        }
        Ok(())
    }

    fn check_axis(&self, axis: Option<&String>, path: KeyPath) -> Result<(), SpecError> {
        axis.map_or(Ok(()), |axis| self.axis_values(axis).map(drop).map_err(|kind| kind.at_path(path)))
    }

    fn check_value(&self, axis: &str, value: &str, path: KeyPath) -> Result<(), SpecError> {
        let values = match self.axis_values(axis) {
            Ok(values) if values.contains(value) => return Ok(()),
            Ok(values) => values,
            Err(kind) => return Err(kind.at_path(path)),
        };
        let suggestion = Suggestion::new(value, values);
        let (sweep, value) = (axis.to_owned(), value.to_owned());
        Err(SpecErrorKind::UnknownSweepValue { sweep, value, suggestion }.at_path(path))
    }

    /// Returns the values of a sweep or of `phase`.
    fn axis_values(&self, axis: &str) -> Result<&BTreeSet<&'a str>, SpecErrorKind> {
        self.axes.get(axis).ok_or_else(|| SpecErrorKind::UnknownSweep {
            sweep: axis.to_owned(),
            suggestion: Suggestion::new(axis, self.axes.keys()),
        })
    }

    fn check_expression(&self, text: &str, path: KeyPath) -> Result<(), SpecError> {
        let expression = Expression::parse(text)
            .map_err(|error| SpecErrorKind::Expression(error).at_path(path.clone()))?;
        if expression.metrics().is_empty() {
            return Err(SpecErrorKind::NoMetric { expression: text.to_owned() }.at_path(path));
        }
        let closed_form: Option<Vec<String>> = self
            .closed_form
            .as_ref()
            .map(|summary| summary.phases.iter().flat_map(|phase| phase.values.keys()).cloned().collect());
        expression.metrics().into_iter().try_for_each(|metric| match &closed_form {
            Some(names) => check_name(metric, "metric", names).map_err(|kind| kind.at_path(path.clone())),
            None => self.check_metric(metric, &path),
        })
    }

    /// Checks that a metric exists and that the run measures it. `path` is the key path where the metric appears.
    fn check_metric(&self, name: &str, path: &KeyPath) -> Result<(), SpecError> {
        let error = |kind: SpecErrorKind| kind.at_path(path.clone());
        let (owner, metric) = name
            .split_once('.')
            .ok_or_else(|| error(SpecErrorKind::MetricWithoutOwner { metric: name.to_owned() }))?;
        let Some(info) = METRICS.iter().find(|info| info.name == metric) else {
            let suggestion = Suggestion::new(metric, METRICS.iter().map(|info| info.name));
            return Err(error(SpecErrorKind::UnknownMetric { metric: name.to_owned(), suggestion }));
        };
        let observe = &self.scenario.observe;
        let traffic = self.scenario.traffic.iter().find(|traffic| traffic.name == owner);
        let has_queue = observe.queues.contains_key(owner);
        let has_buffer = observe.buffers.contains_key(owner);
        let has_class = observe.classes.contains_key(owner);
        if traffic.is_none() && !has_queue && !has_buffer && !has_class && owner != "run" {
            let suggestion = Suggestion::new(owner, self.metric_owners());
            let (metric, owner) = (name.to_owned(), owner.to_owned());
            return Err(error(SpecErrorKind::UnknownMetricOwner { metric, owner, suggestion }));
        }
        let is_long = traffic.is_some_and(|traffic| traffic.is_long());
        let has_metric = match info.subject {
            "run" => owner == "run",
            "queues" => has_queue,
            "buffers" => has_buffer,
            "messages" => has_class || traffic.is_some() && !is_long,
            subject if subject.starts_with("long flows") => is_long,
            _ => traffic.is_some(),
        };
        if !has_metric {
            let (metric, name, owners) = (name.to_owned(), metric.to_owned(), info.subject);
            return Err(error(SpecErrorKind::MetricNotMeasured { metric, name, owners }));
        }
        self.check_observed(name, owner, info.subject, path)
    }

    /// Checks that `observe` lists a metric's owner. `subject` describes what the metric applies to.
    fn check_observed(
        &self,
        metric: &str,
        owner: &str,
        subject: &str,
        path: &KeyPath,
    ) -> Result<(), SpecError> {
        let observe = &self.scenario.observe;
        let error = |list: &'static str, is_present: bool| {
            let path = if is_present { KeyPath::new(["observe", list]) } else { path.clone() };
            let (metric, owner) = (metric.to_owned(), owner.to_owned());
            Err(SpecErrorKind::NotObserved { metric, owner, list }.at_path(path))
        };
        if subject.contains("decisions") && !observe.decisions.iter().any(|name| name == owner) {
            return error("decisions", !observe.decisions.is_empty());
        }
        let is_rate = subject.starts_with("long flows") || subject == "flows with rates";
        let traffic = self.scenario.traffic.iter().find(|traffic| traffic.name == owner);
        let is_long = traffic.is_some_and(|traffic| traffic.is_long());
        let has_rates =
            observe.rates.as_ref().map_or(is_long, |rates| rates.iter().any(|name| name == owner));
        if is_rate && !has_rates {
            return error("rates", observe.rates.is_some());
        }
        Ok(())
    }

    /// Returns the names of all traffic patterns, queues, buffers and classes, plus `run`.
    fn metric_owners(&self) -> Vec<&str> {
        let observe = &self.scenario.observe;
        let mut names: Vec<&str> =
            self.scenario.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
        let observed = observe.queues.keys().chain(observe.buffers.keys()).chain(observe.classes.keys());
        names.extend(observed.map(String::as_str).chain(["run"]));
        names
    }

    fn series_names(&self) -> Vec<String> {
        if let Some(closed_form) = &self.closed_form {
            return closed_form.series.keys().cloned().collect();
        }
        let mut names = Vec::new();
        for traffic in &self.scenario.traffic {
            let name = &traffic.name;
            let rates = self.scenario.observe.rates.as_ref();
            let has_rates = rates.map_or_else(|| traffic.is_long(), |rates| rates.contains(name));
            if has_rates {
                names.extend(series_of(name, RATES));
            }
            if traffic.is_long() {
                names.extend(series_of(name, LONG_FLOWS));
            }
        }
        for queue in self.scenario.observe.queues.keys() {
            names.extend(series_of(queue, QUEUES));
        }
        for name in self.traffic_with_messages().iter().chain(self.scenario.observe.classes.keys()) {
            names.extend(by_size::curve_names(name));
        }
        names
    }

    fn distribution_names(&self) -> Vec<String> {
        let latencies = self.traffic_with_messages().into_iter().map(|name| format!("{name}.latency_us"));
        let round_trips = self.scenario.observe.decisions.iter().map(|name| format!("{name}.rtt_us"));
        let buffers = self.scenario.observe.buffers.keys().map(|name| format!("{name}.buffer_bytes"));
        latencies.chain(round_trips).chain(buffers).collect()
    }

    fn traffic_with_messages(&self) -> Vec<String> {
        let patterns = self.scenario.traffic.iter().filter(|traffic| !traffic.is_long());
        patterns.map(|traffic| traffic.name.clone()).collect()
    }
}

/// Returns the names of an owner's series for one subject.
fn series_of<'a>(owner: &'a str, subject: &'a str) -> impl Iterator<Item = String> + 'a {
    let series = SERIES.iter().filter(move |series| series.subject == subject);
    series.map(move |series| format!("{owner}{}", series.name))
}

/// Checks that `names` contains a name. `flows[2].rate_gbps` matches `flows[*].rate_gbps`.
fn check_name(name: &str, kind: &'static str, names: &[String]) -> Result<(), SpecErrorKind> {
    let wildcard =
        name.split_once('[').and_then(|(owner, rest)| Some(format!("{owner}[*]{}", rest.split_once(']')?.1)));
    if names.iter().any(|known| known == name || wildcard.as_ref() == Some(known)) {
        return Ok(());
    }
    let suggestion = Suggestion::new(name, names);
    Err(SpecErrorKind::UnknownName { kind, name: name.to_owned(), suggestion })
}
