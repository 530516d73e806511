//! Runs a gate: measures both sides, decides, and adds seeds while comparisons are inconclusive.

use crate::comparison::{Comparison, Sample};
use crate::decision::{Decision, Method, Verdict, decide};
use crate::error::GateError;
use crate::looks::{AlphaSpending, Looks};
use crate::measurements::{CellMeasurements, ScenarioMeasurements};
use crate::report::{ComparisonReport, GateReport, LookReport, REPORT_SCHEMA};
use crate::rule::Rule;
use crate::side::{Request, Side};
use crate::stats::smallest_sign_flip_p;
use std::collections::{BTreeMap, BTreeSet};

/// The order in which the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RunOrder {
    /// All seeds of the base, then all seeds of the head. For runs that do not depend on the machine.
    #[default]
    Blocks,
    /// One seed at a time, and the order of the sides changes from seed to seed: base, head, head, base. The runs of a pair
    /// are neighbours, so a slow change of the machine acts on both sides alike.
    Alternating,
}

/// What to guard and when to decide.
#[derive(Clone, Debug)]
pub struct GateOptions {
    /// The guarded metrics.
    pub rules: Vec<Rule>,
    /// Whether the user named the metrics. A named metric without values is inconclusive; a default one is left out.
    pub has_explicit_rules: bool,
    /// When to decide, and with which error rates.
    pub looks: Looks,
    /// The order of the runs.
    pub order: RunOrder,
}

/// Compares both sides. `on_note` receives remarks while the gate runs; the report repeats them.
pub fn run_gate(
    base: &mut dyn Side,
    head: &mut dyn Side,
    options: &GateOptions,
    on_note: &dyn Fn(&str),
) -> Result<GateReport, GateError> {
    let mut run = GateRun {
        options,
        on_note,
        base: Vec::new(),
        head: Vec::new(),
        entries: Vec::new(),
        notes: Vec::new(),
    };
    let looks = run.run_looks(base, head)?;
    Ok(run.into_report(base.name(), head.name(), looks))
}

/// A guarded metric of one cell and what is known about it.
struct Entry {
    scenario: String,
    /// The cell without the phase, as sides name it.
    cell: String,
    phase: String,
    metric: String,
    rule: usize,
    comparison: Comparison,
    decision: Option<Decision>,
}

impl Entry {
    fn is_decided(&self) -> bool {
        self.decision.is_some_and(|decision| decision.verdict != Verdict::Inconclusive)
    }

    /// Returns whether more seeds could change the verdict.
    fn needs_seeds(&self) -> bool {
        !self.is_decided() && self.decision.is_none_or(|decision| decision.method != Method::NoValues)
    }
}

struct GateRun<'a> {
    options: &'a GateOptions,
    on_note: &'a dyn Fn(&str),
    base: Vec<ScenarioMeasurements>,
    head: Vec<ScenarioMeasurements>,
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl GateRun<'_> {
    fn note(&mut self, text: String) {
        (self.on_note)(&text);
        self.notes.push(text);
    }

    fn run_looks(&mut self, base: &mut dyn Side, head: &mut dyn Side) -> Result<Vec<LookReport>, GateError> {
        let looks = &self.options.looks;
        let mut spending = AlphaSpending::new(looks);
        let mut reports = Vec::new();
        for (look, seeds) in looks.seeds().iter().enumerate() {
            if look > 0 && self.has_all_pairs(&*base, &*head, looks.seeds()[look - 1]) {
                break;
            }
            self.measure(base, head, look)?;
            if look == 0 {
                check_scenarios(&self.base, &self.head)?;
                self.find_entries()?;
            } else {
                self.update_comparisons();
            }
            let report = self.judge(look, *seeds, &mut spending);
            let is_finished = report.inconclusive == 0;
            reports.push(report);
            if is_finished {
                break;
            }
        }
        self.note_values();
        Ok(reports)
    }

    /// Runs the seeds that a look adds on both sides.
    fn measure(&mut self, base: &mut dyn Side, head: &mut dyn Side, look: usize) -> Result<(), GateError> {
        let looks = &self.options.looks;
        let undecided = self.undecided_cells();
        let undecided = (look > 0).then_some(&undecided);
        if self.options.order == RunOrder::Blocks {
            let (all_seeds, new_seeds) = (looks.range(look), looks.added(look));
            let request = Request { all_seeds, new_seeds, undecided };
            merge(&mut self.base, base.measure(&request)?);
            merge(&mut self.head, head.measure(&request)?);
            return Ok(());
        }
        for seed in looks.added(look) {
            let request = Request { all_seeds: looks.first_seed()..=seed, new_seeds: seed..=seed, undecided };
            let is_base_first = (seed - looks.first_seed()).is_multiple_of(2);
            if is_base_first {
                merge(&mut self.base, base.measure(&request)?);
            }
            merge(&mut self.head, head.measure(&request)?);
            if !is_base_first {
                merge(&mut self.base, base.measure(&request)?);
            }
        }
        Ok(())
    }

    /// Returns whether no further seed can be paired, because a side has no more than the last look used. More seeds of
    /// the other side only help comparisons without pairs.
    fn has_all_pairs(&mut self, base: &dyn Side, head: &dyn Side, seeds: u32) -> bool {
        let limits = [base.seed_limit(), head.seed_limit()];
        let is_fixed = limits.iter().all(Option::is_some);
        let limit = limits.into_iter().flatten().min();
        let open = self.entries.iter().filter(|entry| entry.needs_seeds());
        let has_pairs = open.into_iter().all(|entry| matches!(entry.comparison.sample, Sample::Paired(_)));
        let is_exhausted = limit.is_some_and(|limit| limit <= seeds as usize) && (has_pairs || is_fixed);
        if is_exhausted && !is_fixed {
            self.note(format!(
                "the base has {} seeds, so no seeds can be added; --bless with --seeds 8,16,20 stores 20",
                limit.unwrap_or(0)
            ));
        }
        is_exhausted
    }

    /// Decides about all comparisons that are still open.
    fn judge(&mut self, look: usize, seeds: u32, spending: &mut AlphaSpending<'_>) -> LookReport {
        let tests = self.entries.iter().filter(|entry| !entry.comparison.is_constant()).count();
        let open: Vec<usize> =
            (0..self.entries.len()).filter(|index| !self.entries[*index].is_decided()).collect();
        let smallest_p =
            open.iter().map(|index| smallest_p(&self.entries[*index].comparison)).fold(1.0, f64::min);
        let alpha = spending.spend(look, tests, smallest_p);
        // Stored results can have fewer seeds than the look asks for.
        let sizes = open.iter().map(|index| self.entries[*index].comparison.size());
        let seeds = sizes.max().and_then(|size| u32::try_from(size).ok()).unwrap_or(seeds).min(seeds);
        let comparisons: Vec<(&Comparison, &Rule)> = open
            .iter()
            .map(|index| &self.entries[*index])
            .map(|entry| (&entry.comparison, &self.options.rules[entry.rule]))
            .collect();
        let decisions = decide(&comparisons, tests, alpha);
        for (index, decision) in open.into_iter().zip(decisions) {
            self.entries[index].decision = Some(decision);
        }
        let inconclusive = self.entries.iter().filter(|entry| entry.needs_seeds()).count();
        if !alpha.can_fail && tests > 0 && inconclusive > 0 {
            let is_last = look + 1 == self.options.looks.seeds().len();
            let remedy = if is_last { "use more seeds or fewer metrics" } else { "seeds are added first" };
            let smallest = ComparisonReport::format_p(Some((smallest_p * tests as f64).min(1.0)));
            let limit = ComparisonReport::format_p(Some(alpha.fail));
            self.note(format!(
                "with {seeds} seeds and {tests} tests, no test can fail: the smallest adjusted p is {smallest}, and \
                 failing needs {limit}; {remedy}"
            ));
        }
        LookReport::new(seeds, tests, alpha, inconclusive)
    }

    /// Returns the cells with a comparison that more seeds could decide.
    fn undecided_cells(&self) -> BTreeSet<(String, String)> {
        let open = self.entries.iter().filter(|entry| entry.needs_seeds());
        open.map(|entry| (entry.scenario.clone(), entry.cell.clone())).collect()
    }

    /// Finds the guarded metrics of all cells.
    fn find_entries(&mut self) -> Result<(), GateError> {
        let mut measured = BTreeSet::new();
        let mut used = BTreeSet::new();
        let mut left_out = BTreeSet::new();
        let mut entries = Vec::new();
        for head in &self.head {
            let base = find_scenario(&self.base, &head.scenario, "the base")?;
            for head_cell in &head.cells {
                let base_cell = find_cell(base, head_cell)?;
                let metrics: BTreeSet<&String> =
                    base_cell.values.keys().chain(head_cell.values.keys()).collect();
                for metric in metrics {
                    measured.insert(metric.clone());
                    let Some(rule) = self.rule_for(metric) else { continue };
                    used.insert(rule);
                    let comparison = Comparison::new(base_cell, head_cell, metric, &self.options.rules[rule]);
                    let has_values = comparison.base.is_some() || comparison.head.is_some();
                    if !has_values && !self.options.has_explicit_rules {
                        left_out.insert(format!("{} {metric}", head.scenario));
                        continue;
                    }
                    entries.push(Entry {
                        scenario: head.scenario.clone(),
                        cell: head_cell.cell.clone(),
                        phase: head_cell.phase.clone(),
                        metric: metric.clone(),
                        rule,
                        comparison,
                        decision: None,
                    });
                }
            }
        }
        for (index, rule) in self.options.rules.iter().enumerate() {
            if self.options.has_explicit_rules && !used.contains(&index) {
                let measured = measured.into_iter().collect();
                return Err(GateError::UnmeasuredMetric { metric: rule.metric.clone(), measured });
            }
        }
        if entries.is_empty() {
            return Err(GateError::NothingToCompare);
        }
        self.entries = entries;
        if !left_out.is_empty() {
            let names: Vec<String> = left_out.into_iter().collect();
            self.note(format!("without a value on either side, and left out: {}", names.join(", ")));
        }
        Ok(())
    }

    /// Returns the rule for a metric. A rule with the full name takes precedence.
    fn rule_for(&self, metric: &str) -> Option<usize> {
        let rules = &self.options.rules;
        let exact = rules.iter().position(|rule| rule.metric == metric);
        exact.or_else(|| rules.iter().position(|rule| rule.guards(metric)))
    }

    /// Compares the open metrics again, with all seeds.
    fn update_comparisons(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_decided()) {
            let find = |side: &[ScenarioMeasurements]| -> Option<CellMeasurements> {
                let scenario = side.iter().find(|scenario| scenario.scenario == entry.scenario)?;
                let is_cell = |cell: &&CellMeasurements| cell.cell == entry.cell && cell.phase == entry.phase;
                scenario.cells.iter().find(is_cell).cloned()
            };
            if let Some((base, head)) = find(&self.base).zip(find(&self.head)) {
                let rule = &self.options.rules[entry.rule];
                entry.comparison = Comparison::new(&base, &head, &entry.metric, rule);
            }
        }
    }

    /// Notes seeds without pairs, and metrics whose values have changed although no packet has.
    fn note_values(&mut self) {
        let one_sided: Vec<String> = self
            .entries
            .iter()
            .filter(|entry| entry.comparison.one_sided > 0)
            .map(|entry| {
                format!("{} {} ({} seeds)", entry.scenario, entry.metric, entry.comparison.one_sided)
            })
            .collect();
        if !one_sided.is_empty() {
            self.note(format!(
                "only one side has a value on some seeds, which counts as a change by 100 %: {}",
                one_sided.join(", ")
            ));
        }
        let recomputed = self.entries.iter().filter(|entry| entry.comparison.is_recomputed);
        let recomputed: Vec<String> =
            recomputed.map(|entry| format!("{} {}", entry.scenario, entry.metric)).collect();
        if !recomputed.is_empty() {
            let names = recomputed.join(", ");
            self.note(format!(
                "all packets are the same, but the two programs compute these metrics differently: {names}"
            ));
        }
    }

    fn into_report(self, base: String, head: String, looks: Vec<LookReport>) -> GateReport {
        let rules = &self.options.rules;
        let comparisons: Vec<ComparisonReport> =
            self.entries.into_iter().map(|entry| report_entry(entry, rules)).collect();
        let verdict = comparisons.iter().map(|comparison| comparison.verdict).max().unwrap_or(Verdict::Pass);
        let alpha = self.options.looks.alpha();
        let (schema, notes, files) = (REPORT_SCHEMA, self.notes, BTreeMap::new());
        GateReport { schema, verdict, base, head, alpha, looks, comparisons, notes, files }
    }
}

fn report_entry(entry: Entry, rules: &[Rule]) -> ComparisonReport {
    let Entry { scenario, cell, phase, metric, rule, comparison, decision } = entry;
    let rule = &rules[rule];
    let cell = CellMeasurements { cell, phase, ..CellMeasurements::default() }.name();
    let mut report = ComparisonReport {
        scenario,
        cell,
        metric,
        direction: rule.direction,
        margin: rule.margin,
        verdict: Verdict::Inconclusive,
        inconclusive_because: None,
        method: Method::NoValues,
        seeds: comparison.size(),
        base: comparison.base,
        head: comparison.head,
        change: None,
        interval: None,
        p: None,
        adjusted_p: None,
        cliffs_delta: None,
        one_sided_seeds: comparison.one_sided,
        head_values: comparison.head_values,
    };
    if let Some(decision) = decision {
        report.set_decision(&decision, rule);
    }
    report
}

/// Returns the smallest p-value that a test of a comparison can have, given its number of values.
fn smallest_p(comparison: &Comparison) -> f64 {
    match &comparison.sample {
        Sample::Identical(_) => 1.0,
        Sample::Paired(differences) => smallest_sign_flip_p(differences.len()),
        Sample::Unpaired { base, head } => {
            // 1 / C(n + m, n), as a product, so that it cannot overflow.
            let (n, m) = (base.len(), head.len());
            (1..=n).map(|i| i as f64 / (m + i) as f64).product()
        }
    }
}

fn merge(known: &mut Vec<ScenarioMeasurements>, new: Vec<ScenarioMeasurements>) {
    for scenario in new {
        match known.iter_mut().find(|other| other.scenario == scenario.scenario) {
            Some(other) => other.merge(scenario),
            None => known.push(scenario),
        }
    }
}

/// Refuses scenarios that differ between the sides.
fn check_scenarios(base: &[ScenarioMeasurements], head: &[ScenarioMeasurements]) -> Result<(), GateError> {
    for head in head {
        let base = find_scenario(base, &head.scenario, "the base")?;
        let scenario = || head.scenario.clone();
        if base.scenario_hash != head.scenario_hash {
            let (base, head) = (base.scenario_hash.clone(), head.scenario_hash.clone());
            return Err(GateError::ScenarioDiffers { scenario: scenario(), base, head });
        }
        if base.quick != head.quick {
            return Err(GateError::QuickDiffers { scenario: scenario() });
        }
    }
    Ok(())
}

fn find_scenario<'a>(
    side: &'a [ScenarioMeasurements],
    scenario: &str,
    name: &'static str,
) -> Result<&'a ScenarioMeasurements, GateError> {
    side.iter().find(|other| other.scenario == scenario).ok_or_else(|| GateError::MissingScenario {
        side: name,
        scenario: scenario.to_owned(),
        remedy: "run it there too, or add it to the baseline with --bless",
    })
}

fn find_cell<'a>(
    base: &'a ScenarioMeasurements,
    head: &CellMeasurements,
) -> Result<&'a CellMeasurements, GateError> {
    base.cells.iter().find(|cell| cell.is_same_cell(head)).ok_or_else(|| GateError::MissingCell {
        side: "the base",
        scenario: base.scenario.clone(),
        cell: head.name(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::DEFAULT_ALPHA;
    use crate::rule::Rule;
    use core::cell::RefCell;

    /// A side that logs which seeds it measures. Its metric is worse by `worsening`, and drifts from run to run.
    struct LoggedSide<'a> {
        name: &'static str,
        worsening: f64,
        log: &'a RefCell<Vec<(&'static str, u64)>>,
    }

    impl Side for LoggedSide<'_> {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError> {
            let mut cell = CellMeasurements { phase: "all".to_owned(), ..CellMeasurements::default() };
            for seed in request.new_seeds.clone() {
                self.log.borrow_mut().push((self.name, seed));
                // The machine becomes slower by one percent per run.
                let drift = 1.0 + 0.01 * self.log.borrow().len() as f64;
                cell.seeds.push(seed);
                cell.result_hashes.push(String::new());
                let values = cell.values.entry("queue.delay_mean_us".to_owned()).or_default();
                values.push(Some(100.0 * drift * (1.0 + self.worsening)));
            }
            let scenario = "line".to_owned();
            Ok(vec![ScenarioMeasurements { scenario, cells: vec![cell], ..ScenarioMeasurements::default() }])
        }

        fn seed_limit(&self) -> Option<usize> {
            None
        }
    }

    fn run(order: RunOrder, worsening: f64) -> (Vec<(&'static str, u64)>, GateReport) {
        let log = RefCell::new(Vec::new());
        let side = |name, worsening| LoggedSide { name, worsening, log: &log };
        let looks = Looks::new(vec![8, 16], DEFAULT_ALPHA, 1).expect("the looks are valid");
        let rules = vec![Rule::parse("delay_mean_us > +5%").expect("the rule is valid")];
        let options = GateOptions { rules, has_explicit_rules: true, looks, order };
        let report = run_gate(&mut side("A", 0.0), &mut side("B", worsening), &options, &|_| ());
        (log.take(), report.expect("both sides have values"))
    }

    #[test]
    fn alternating_sides_run_in_the_order_abba() {
        let (log, report) = run(RunOrder::Alternating, 0.0);
        assert_eq!(log[..6], [("A", 1), ("B", 1), ("B", 2), ("A", 2), ("A", 3), ("B", 3)]);
        assert_eq!(report.verdict, Verdict::Pass);
    }

    /// The drift over eight runs is larger than the margin. In blocks, it looks like a worsening of the head.
    #[test]
    fn alternating_sides_cancel_a_drift_of_the_machine() {
        assert_eq!(run(RunOrder::Blocks, 0.0).1.verdict, Verdict::Fail);
        assert_eq!(run(RunOrder::Alternating, 0.0).1.verdict, Verdict::Pass);
        assert_eq!(run(RunOrder::Alternating, 0.1).1.verdict, Verdict::Fail);
    }
}
