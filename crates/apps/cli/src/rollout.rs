//! Plans a rollout of telemetry and prints the plan.

use crate::backend::{self, simulator};
use crate::backend_kind::BackendKind;
use crate::progress::ProgressBars;
use crate::{Failure, catalog, location};
use clap::Args;
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::report::format_number;
use poseidon_lab::rollout::{
    Baseline, BaselinePoint, Direction, Order, OrderComparison, OrderOutcome, Point, Rollout, RolloutError,
    RolloutOptions, RolloutPlan, SideEffect, Step, StopReason, interval,
};
use poseidon_lab::runner::{RunEnvironment, RunOptions, Shard};
use poseidon_lab::stats::Estimate;
use poseidon_lab::store::Store;
use std::path::PathBuf;

/// Arguments of `poseidon rollout`.
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    /// A file, or the name of a built-in scenario. Its law must work with partial telemetry, such as Poseidon with
    /// `signal = "brownfield"`.
    scenario: String,
    /// The maximum number of upgrades.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    budget: u32,
    /// The cell to plan for, if the scenario has several.
    #[arg(long)]
    cell: Option<String>,
    /// Switches that can be upgraded one by one, such as `rack[0-31]`. Can be repeated [default: all switches that do
    /// not write telemetry yet].
    #[arg(long, value_name = "SWITCHES")]
    candidates: Vec<String>,
    /// Switches that are upgraded together and count as one upgrade, such as `pod0`. Can be repeated.
    #[arg(long = "unit", value_name = "SWITCHES")]
    units: Vec<String>,
    /// The metric to improve, such as `victim.latency_p99_us` [default: the latency_p99_us of the only traffic with
    /// messages].
    #[arg(long, value_name = "METRIC")]
    objective: Option<String>,
    /// A smaller objective is better [default: depends on the metric].
    #[arg(long, conflicts_with = "maximise")]
    minimise: bool,
    /// A larger objective is better [default: depends on the metric].
    #[arg(long)]
    maximise: bool,
    /// Number of seeds N. Seeds 1 to N choose an upgrade, and seeds N+1 to 2N judge it.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    seeds: u32,
    /// Use the whole budget, even if an upgrade is within the noise.
    #[arg(long)]
    all_steps: bool,
    /// Number of random orders to compare with.
    #[arg(long, default_value_t = 5, value_name = "ORDERS")]
    random: u32,
    /// Numbers of upgrades at which other orders are evaluated, such as `1,2,4` [default: powers of two, and the last
    /// step].
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    baseline_steps: Vec<usize>,
    /// Use shorter runs, as the scenario's quick form defines.
    #[arg(long)]
    quick: bool,
    /// Number of parallel runs [default: number of cores].
    #[arg(long, short)]
    jobs: Option<usize>,
    /// The results folder. Stored runs are reused.
    #[arg(long, short, default_value = "results")]
    output: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Do not show progress.
    #[arg(long, short)]
    quiet: bool,
}

impl RolloutArgs {
    fn direction(&self) -> Option<Direction> {
        match (self.minimise, self.maximise) {
            (true, _) => Some(Direction::Minimise),
            (_, true) => Some(Direction::Maximise),
            _ => None,
        }
    }

    fn options(&self, jobs: usize) -> RolloutOptions {
        RolloutOptions {
            cell: self.cell.clone(),
            candidates: self.candidates.clone(),
            units: self.units.clone(),
            budget: self.budget,
            objective: self.objective.clone(),
            direction: self.direction(),
            seeds: self.seeds,
            all_steps: self.all_steps,
            random_orders: self.random,
            baseline_steps: self.baseline_steps.clone(),
            jobs,
        }
    }
}

/// Plans a rollout, stores the plan and prints it.
pub(crate) fn run(args: &RolloutArgs) -> Result<(), Failure> {
    let study = catalog::find_study(&args.scenario, args.quick)?;
    let backend = simulator();
    study.check(&backend)?;
    let jobs = backend::jobs(BackendKind::Sim, args.jobs);
    let rollout = Rollout::new(&study, &args.options(jobs), &backend).map_err(failure)?;
    let options = RunOptions {
        seeds: None,
        jobs,
        records: None,
        shard: Shard::WHOLE,
        program: backend::program(BackendKind::Sim),
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    location::require_folder(&args.output)?;
    let store = Store::new(&args.output);
    let is_quiet = args.quiet || args.json;
    let runs = usize::try_from(rollout.run_count().at_most).unwrap_or(usize::MAX);
    let progress = ProgressBars::new(runs, is_quiet);
    let environment =
        RunEnvironment { backend: &backend, store: &store, options: &options, observer: &progress };
    let on_note = |text: &str| {
        if !is_quiet {
            progress.print_line(text);
        }
    };
    let plan = rollout.plan(&environment, &on_note);
    progress.finish();
    let plan = plan.map_err(failure)?;
    let figure = plan.write(&store).map_err(|error| failure(error.into()))?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&plan)?);
    } else {
        print_plan(&plan, args.budget);
        outln!("\nfigure: {}", figure.display());
    }
    Ok(())
}

fn failure(error: RolloutError) -> Failure {
    match error {
        RolloutError::Study(error) => error.into(),
        RolloutError::Interrupted => {
            Failure::Interrupted("finished runs are stored, and the same command continues from them")
        }
        error @ RolloutError::MissingValue { .. } => Failure::Run(error.to_string()),
        error => Failure::Usage(error.to_string()),
    }
}

/// The maximum width of a unit's name. The table then fits in 80 columns.
const MAX_NAME: usize = 16;

/// The maximum width of a metric's name. The table then fits in 80 columns.
const MAX_METRIC: usize = 23;

fn print_plan(plan: &RolloutPlan, budget: u32) {
    let direction = match plan.objective.direction {
        Direction::Minimise => "smaller",
        Direction::Maximise => "larger",
    };
    let search = &plan.search;
    let seeds = plan.choosing_seeds;
    outln!("Rollout of telemetry: {}", plan.study);
    if !plan.cell.is_empty() {
        outln!("cell {}", plan.cell);
    }
    outln!("objective {} ({direction} is better)", plan.objective.metric);
    outln!(
        "{} candidates; chosen with seeds 1 to {seeds}, judged with seeds {} to {}",
        plan.candidates.len(),
        seeds + 1,
        seeds + plan.judging_seeds
    );
    outln!("gains are paired differences with their 95 % interval; a positive gain is better\n");
    print_steps(search.start.mean, &search.steps);
    outln!();
    print_sentence(&stop_sentence(plan, budget));
    if !search.baselines.is_empty() && !search.steps.is_empty() {
        outln!("\nOther orders: mean objective");
        print_baselines(search.start.mean, &search.steps, &search.baselines);
        outln!();
    }
    search.comparisons.iter().for_each(|comparison| print_sentence(&comparison_sentence(comparison)));
    print_sentence(&all_upgraded_sentence(&search.all_upgraded, search.steps.last(), plan.candidates.len()));
    print_side_effects(&plan.side_effects);
}

/// Prints what the plan does to the other traffic.
fn print_side_effects(effects: &[SideEffect]) {
    if effects.is_empty() {
        return;
    }
    outln!("\nOther traffic: a negative gain is the price of this plan");
    let width = effects.iter().map(|effect| effect.metric.chars().count()).max().unwrap_or(0).min(MAX_METRIC);
    let row = |cells: [&str; 6]| {
        let [metric, before, after, all, gain, interval] = cells;
        let line = format!("{metric:<width$}  {before:>7}  {after:>7}  {all:>7}  {gain:>7}  {interval:>19}");
        outln!("{}", line.trim_end());
    };
    row(["", "before", "after", "all", "gain", "95 % interval"]);
    for SideEffect { metric, before, after, all_upgraded, gain, .. } in effects {
        let [before, after, all] = [*before, *after, *all_upgraded].map(format_number);
        let (mean, interval) = (format_number(gain.mean), format_interval(gain));
        row([&shorten(metric, MAX_METRIC), &before, &after, &all, &mean, &interval]);
    }
}

/// Prints a sentence on lines of at most 80 columns.
fn print_sentence(text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 80 {
            outln!("{line}");
            line.clear();
        }
        let gap = if line.is_empty() { "" } else { " " };
        line = format!("{line}{gap}{word}");
    }
    outln!("{line}");
}

fn print_steps(start: f64, steps: &[Step]) {
    let row = |cells: [&str; 6]| {
        let [step, name, objective, gain, interval, total] = cells;
        let line =
            format!("{step:>4}  {name:<MAX_NAME$}  {objective:>9}  {gain:>9}  {interval:>20}  {total:>9}");
        outln!("{}", line.trim_end());
    };
    row(["step", "upgrade", "objective", "gain", "95 % interval", "sum"]);
    row(["0", "", &format_number(start), "", "", ""]);
    for step in steps {
        let Point { upgrades, mean, gain, .. } = &step.point;
        row([
            &upgrades.to_string(),
            &shorten(&step.unit.name, MAX_NAME),
            &format_number(*mean),
            &format_number(step.step_gain.mean),
            &format_interval(&step.step_gain),
            &format_number(gain.mean),
        ]);
    }
}

fn print_baselines(start: f64, steps: &[Step], baselines: &[Baseline]) {
    let point = |order: Order, upgrades: usize| -> Option<&BaselinePoint> {
        let baseline = baselines.iter().find(|baseline| baseline.order == order)?;
        baseline.points.iter().find(|point| point.upgrades == upgrades)
    };
    let row = |cells: [&str; 5]| {
        let [upgrades, greedy, bottleneck, random, range] = cells;
        let line = format!("{upgrades:>8}  {greedy:>9}  {bottleneck:>16}  {random:>11}  {range:>20}");
        outln!("{}", line.trim_end());
    };
    row(["upgrades", "greedy", "bottleneck first", "random mean", "random range"]);
    let number = |value: Option<f64>| value.map(format_number).unwrap_or_default();
    let has_random = baselines.iter().any(|baseline| baseline.order == Order::Random);
    let start = format_number(start);
    row(["0", &start, &start, if has_random { &start } else { "" }, ""]);
    for BaselinePoint { upgrades, .. } in baselines.first().map_or(&[][..], |baseline| &baseline.points) {
        let (bottleneck, random) =
            (point(Order::BottleneckFirst, *upgrades), point(Order::Random, *upgrades));
        let range = random.map(BaselinePoint::range);
        row([
            &upgrades.to_string(),
            &number(steps.get(upgrades - 1).map(|step| step.point.mean)),
            &number(bottleneck.map(BaselinePoint::mean)),
            &number(random.map(BaselinePoint::mean)),
            &range
                .map(|(low, high)| format!("{} to {}", format_number(low), format_number(high)))
                .unwrap_or_default(),
        ]);
    }
}

/// Explains why the search ended.
fn stop_sentence(plan: &RolloutPlan, budget: u32) -> String {
    let search = &plan.search;
    match (search.stop, &search.rejected) {
        (StopReason::WithinNoise, Some(Step { unit, step_gain, .. })) => format!(
            "Stopped after {} of {budget} upgrades: the best next upgrade is {}, and its gain of {} ({}) is within \
             the noise. --all-steps continues.",
            search.steps.len(),
            unit.name,
            format_number(step_gain.mean),
            format_interval(step_gain)
        ),
        (StopReason::NoCandidates, _) => "All candidates are upgraded.".to_owned(),
        _ => format!("The budget of {} is used.", count_upgrades(search.steps.len())),
    }
}

/// States whether the chosen order beats another order.
fn comparison_sentence(comparison: &OrderComparison) -> String {
    let OrderComparison { order, upgrades, advantage, outcome } = comparison;
    let upgrades = count_upgrades(*upgrades);
    let difference =
        format!("{} ({})", format_number(advantage.mean.abs()), format_absolute_interval(advantage));
    match outcome {
        OrderOutcome::Better => {
            format!("After {upgrades}, greedy is better than {order} by {difference}.")
        }
        OrderOutcome::Worse => {
            format!("After {upgrades}, greedy is worse than {order} by {difference}.")
        }
        OrderOutcome::NotDistinguishable => format!(
            "After {upgrades}, greedy does not differ from {order} beyond the noise: {} ({}).",
            format_number(advantage.mean),
            format_interval(advantage)
        ),
    }
}

fn all_upgraded_sentence(all: &Point, last: Option<&Step>, candidates: usize) -> String {
    let share = last.filter(|_| interval(&all.gain)[0] > 0.0).map(|last| {
        let share = 100.0 * last.point.gain.mean / all.gain.mean;
        format!("; the gain of this plan is {share:.0} % of that")
    });
    format!(
        "With all {candidates} candidates upgraded, the objective is {}, a gain of {} ({}){}.",
        format_number(all.mean),
        format_number(all.gain.mean),
        format_interval(&all.gain),
        share.unwrap_or_default()
    )
}

fn count_upgrades(count: usize) -> String {
    if count == 1 { "1 upgrade".to_owned() } else { format!("{count} upgrades") }
}

fn format_interval(estimate: &Estimate) -> String {
    let [low, high] = interval(estimate).map(format_number);
    format!("{low} to {high}")
}

/// Formats the interval of an absolute difference whose sign is certain.
fn format_absolute_interval(estimate: &Estimate) -> String {
    let [low, high] = interval(estimate);
    let (low, high) = if estimate.mean < 0.0 { (-high, -low) } else { (low, high) };
    format!("{} to {}", format_number(low), format_number(high))
}

fn shorten(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let start: String = name.chars().take(width - 1).collect();
    format!("{start}\u{2026}")
}
