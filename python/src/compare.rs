//! Decides whether one run is worse than another, as `poseidon gate` does.

use crate::convert::{escape_html, from_json};
use crate::error::{failure, invalid};
use crate::run::Run;
use poseidon_gate::baseline::Baseline;
use poseidon_gate::decision::Verdict;
use poseidon_gate::formats::{render_json, render_text};
use poseidon_gate::gate::{GateOptions, RunOrder, run_gate};
use poseidon_gate::looks::{DEFAULT_ALPHA, Looks};
use poseidon_gate::measurements::{MeasuredRun, ScenarioMeasurements};
use poseidon_gate::report::GateReport;
use poseidon_gate::rule::{Rule, parse_margin};
use poseidon_gate::side::StoredSide;
use poseidon_lab::manifest::Manifest;
use poseidon_lab::scenario::Label;
use pyo3::prelude::*;

/// The decision about every metric of two runs.
#[pyclass(frozen, module = "poseidon_cc")]
#[derive(Debug)]
pub(crate) struct Comparison {
    report: GateReport,
}

/// Returns the sweeps that have one value on each side, but different values on both. They are what is compared.
fn compared_sweeps(base: &Run, head: &Run) -> Vec<String> {
    let labels = |run: &Run| -> Vec<Label> {
        run.selected().iter().flat_map(|run| run.run.labels.iter().cloned()).collect()
    };
    let (base, head) = (labels(base), labels(head));
    let only_value = |labels: &[Label], sweep: &str| {
        let mut values = labels.iter().filter(|label| label.sweep == sweep).map(|label| label.value.clone());
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    };
    let mut sweeps: Vec<String> = base.iter().map(|label| label.sweep.clone()).collect();
    sweeps.sort_unstable();
    sweeps.dedup();
    sweeps.retain(|sweep| match (only_value(&base, sweep), only_value(&head, sweep)) {
        (Some(base), Some(head)) => base != head,
        _ => false,
    });
    sweeps
}

/// Returns the values of one side, without the labels of the sweeps that are compared.
fn side(run: &Run, name: &str, sweeps: &[String], rules: &[Rule]) -> StoredSide {
    let without = |manifest: &Manifest| {
        let mut manifest = manifest.clone();
        manifest.cell.retain(|label| !sweeps.contains(&label.sweep));
        manifest
    };
    let runs = run.selected();
    let manifests: Vec<Manifest> = runs.iter().map(|run| without(&run.manifest)).collect();
    let measured = manifests
        .iter()
        .zip(&runs)
        .map(|(manifest, run)| MeasuredRun { manifest, phases: &run.run.summary.phases });
    // The sides may have different laws or overrides on purpose, so their texts may differ.
    let scenario = ScenarioMeasurements::from_runs(&run.study().name, "", measured, rules);
    StoredSide::from_baseline(name.to_owned(), Baseline::new("", vec![scenario]))
}

/// Returns what distinguishes a side.
fn side_name(run: &Run, sweeps: &[String], role: &str) -> String {
    let labels = run.selected().first().map(|run| run.run.labels.to_vec()).unwrap_or_default();
    let labels: Vec<String> = labels
        .iter()
        .filter(|label| sweeps.contains(&label.sweep))
        .map(|label| format!("{} {}", label.sweep, label.value))
        .collect();
    if labels.is_empty() { role.to_owned() } else { labels.join(", ") }
}

/// Compares two runs of the same scenario with the same seeds. `fail_if` has rules such as `"latency_p99_us > +5%"`.
#[pyfunction]
#[pyo3(signature = (base, head, *, fail_if = Vec::new(), margin = None, alpha = DEFAULT_ALPHA))]
pub(crate) fn compare(
    py: Python<'_>,
    base: &Run,
    head: &Run,
    fail_if: Vec<String>,
    margin: Option<&str>,
    alpha: f64,
) -> PyResult<Comparison> {
    let rules = if fail_if.is_empty() {
        let margin = margin.map(parse_margin).transpose();
        Rule::defaults(margin.map_err(|error| invalid(format!("margin: {error}")))?)
    } else {
        let rules = fail_if.iter().map(|text| Rule::parse(text)).collect::<Result<Vec<_>, _>>();
        rules.map_err(|error| invalid(format!("fail_if: {error}")))?
    };
    let looks = Looks::single(alpha).map_err(|error| invalid(error.to_string()))?;
    if base.study().name != head.study().name {
        let (base, head) = (&base.study().name, &head.study().name);
        return Err(invalid(format!(
            "the runs are of the scenarios {base:?} and {head:?}; compare runs of one scenario"
        )));
    }
    // The runs are stored, so their order does not matter.
    let order = RunOrder::default();
    let options = GateOptions { rules, has_explicit_rules: !fail_if.is_empty(), looks, order };
    let sweeps = compared_sweeps(base, head);
    let names = [side_name(base, &sweeps, "base"), side_name(head, &sweeps, "head")];
    let report = py.detach(|| {
        let mut base = side(base, &names[0], &sweeps, &options.rules);
        let mut head = side(head, &names[1], &sweeps, &options.rules);
        run_gate(&mut base, &mut head, &options, &|_| ())
    });
    Ok(Comparison { report: report.map_err(failure)? })
}

#[pymethods]
impl Comparison {
    /// The worst verdict: `pass`, `inconclusive` or `fail`.
    #[getter]
    const fn verdict(&self) -> &'static str {
        self.report.verdict.word()
    }

    /// The report as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &render_json(&self.report))
    }

    /// The report as text.
    fn to_text(&self) -> String {
        render_text(&self.report)
    }

    fn __bool__(&self) -> bool {
        self.report.verdict != Verdict::Fail
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", escape_html(self.to_text().trim_end()))
    }

    fn _mime_(&self) -> (&'static str, String) {
        ("text/html", self._repr_html_())
    }

    fn __repr__(&self) -> String {
        self.to_text().trim_end().to_owned()
    }
}
