//! Decides whether a change made congestion control worse: `poseidon gate` and `poseidon compare --fail-if`.

use crate::backend;
use crate::backend_kind::BackendKind;
use crate::failure::RESULTS_KEPT;
use crate::progress::ProgressBars;
use crate::{Failure, catalog, location};
use clap::{Args, ValueEnum};
use poseidon_gate::baseline::Baseline;
use poseidon_gate::checkout::{BuiltProgram, Checkout};
use poseidon_gate::decision::Verdict;
use poseidon_gate::error::{GateError, ProgramError};
use poseidon_gate::formats::{
    BenchmarkDirection, render_annotations, render_bencher, render_benchmark, render_json, render_junit,
    render_ktap, render_markdown, render_text,
};
use poseidon_gate::gate::{GateOptions, RunOrder, run_gate};
use poseidon_gate::looks::{DEFAULT_ALPHA, Looks};
use poseidon_gate::measurements::ScenarioMeasurements;
use poseidon_gate::program::ProgramSide;
use poseidon_gate::report::GateReport;
use poseidon_gate::rule::{Rule, parse_margin};
use poseidon_gate::side::{LabSide, Request, Side, StoredSide, check_studies};
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::compare::common_studies;
use poseidon_lab::report::ReportError;
use poseidon_lab::runner::{RunEnvironment, RunOptions, Shard};
use poseidon_lab::store::Store;
use poseidon_lab::study::{Study, natural_order};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Arguments of `poseidon gate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GateArgs {
    /// Files, names of built-in scenarios, or of their folders.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    #[command(flatten)]
    base: BaseArgs,
    /// Run this law instead of the values of the sweep `law`. Can be repeated.
    #[arg(long, value_name = "LAW")]
    law: Vec<String>,
    /// Run the head from this commit, too, instead of this program.
    #[arg(long, value_name = "REF")]
    head: Option<String>,
    /// Write the baseline file from new runs, and print what changes.
    #[arg(long, conflicts_with_all = ["head", "base", "base_program"])]
    bless: bool,
    #[command(flatten)]
    rules: RuleArgs,
    /// The numbers of seeds after which to decide. Further seeds run only while a metric is inconclusive.
    #[arg(long, value_delimiter = ',', default_value = "8,16,20", value_name = "SEEDS")]
    seeds: Vec<u32>,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    first_seed: u64,
    /// When to end with exit code 4.
    #[arg(long, value_enum, default_value = "fail", value_name = "WHEN")]
    fail_on: FailOn,
    /// The format on stdout.
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// Also write a report to a file, such as `junit=gate.xml`. Can be repeated.
    #[arg(long = "write", value_name = "FORMAT=FILE", value_parser = parse_report_file)]
    files: Vec<ReportFile>,
    /// Use shorter runs, as the scenario's quick form defines.
    #[arg(long)]
    quick: bool,
    /// The backend: the simulator, or real packets in network namespaces of this machine (as root). With real packets, both
    /// sides run alternately, and no run is reused.
    #[arg(long = "on", value_enum, default_value = "sim")]
    backend: BackendKind,
    /// Number of parallel runs [default: number of cores].
    #[arg(long, short)]
    jobs: Option<usize>,
    /// The results folder. Stored runs are reused, and `--base` builds there.
    #[arg(long, short, default_value = "results")]
    output: PathBuf,
    /// The cargo profile of `--base` and `--head`.
    #[arg(long, default_value = "release", value_parser = ["release", "dev"])]
    profile: String,
    /// Do not show progress.
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  poseidon gate ci/*.toml --baseline ci/baseline.json --bless    store a baseline
  poseidon gate ci/*.toml --baseline ci/baseline.json            compare with it
  poseidon gate ci/*.toml --base origin/main                     compare with a commit
  poseidon gate a.toml --base main --fail-if 'latency_p99_us > +5%'
  poseidon gate suite --law cubic --base main                    compare a law in the scenario suite
  poseidon gate linux/quinn --base main --on linux               compare on real packets, as root";

/// What to compare with.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct BaseArgs {
    /// Compare with a baseline file that `--bless` wrote.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Compare with a commit of this repository: build its program and run it.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Compare with another program `poseidon`.
    #[arg(long, value_name = "PROGRAM")]
    base_program: Option<PathBuf>,
}

/// What counts as worse.
#[derive(Debug, Args)]
struct RuleArgs {
    /// Guard a metric: `latency_p99_us > +5%`, `victim.share < -1%`, `run.drops > +100`. Can be repeated [default: rates
    /// 1 %, completion times 5 %, queueing delays 10 %].
    #[arg(long = "fail-if", value_name = "RULE")]
    fail_if: Vec<String>,
    /// One relative margin for all default metrics, such as `5%`.
    #[arg(long, conflicts_with = "fail_if")]
    margin: Option<String>,
    /// The probability of a failure although nothing became worse, over all metrics.
    #[arg(long, default_value_t = DEFAULT_ALPHA)]
    alpha: f64,
}

/// When the command ends with exit code 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A metric fails.
    Fail,
    /// A metric fails or is inconclusive.
    Warn,
    /// Never.
    Never,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Text for a terminal.
    Text,
    /// All numbers as JSON.
    Json,
    /// JUnit XML.
    Junit,
    /// Annotations, and a summary in the file that `GITHUB_STEP_SUMMARY` names.
    Github,
    /// The summary as Markdown.
    Markdown,
    /// KTAP version 1.
    Ktap,
    /// For github-action-benchmark, metrics for which smaller is better.
    BenchmarkSmaller,
    /// For github-action-benchmark, metrics for which bigger is better.
    BenchmarkBigger,
    /// Bencher Metric Format.
    Bencher,
}

impl OutputFormat {
    fn render(self, report: &GateReport) -> String {
        match self {
            Self::Text => render_text(report),
            Self::Json => render_json(report),
            Self::Junit => render_junit(report),
            Self::Github => render_annotations(report),
            Self::Markdown => render_markdown(report),
            Self::Ktap => render_ktap(report),
            Self::BenchmarkSmaller => render_benchmark(report, BenchmarkDirection::SmallerIsBetter),
            Self::BenchmarkBigger => render_benchmark(report, BenchmarkDirection::BiggerIsBetter),
            Self::Bencher => render_bencher(report),
        }
    }
}

/// A report to write.
#[derive(Clone, Debug)]
struct ReportFile {
    format: OutputFormat,
    path: PathBuf,
}

/// The error of an invalid report file.
#[derive(Clone, Debug, thiserror::Error)]
enum ReportFileError {
    #[error("write FORMAT=FILE, such as junit=gate.xml")]
    Form,
    #[error("there is no format {0:?}; there are {1}")]
    Format(String, String),
}

fn parse_report_file(text: &str) -> Result<ReportFile, ReportFileError> {
    let (format, path) = text.split_once('=').ok_or(ReportFileError::Form)?;
    if path.is_empty() {
        return Err(ReportFileError::Form);
    }
    let format = OutputFormat::from_str(format, false).map_err(|_| {
        let names = OutputFormat::value_variants().iter().filter_map(OutputFormat::to_possible_value);
        let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
        ReportFileError::Format(format.to_owned(), names.join(", "))
    })?;
    Ok(ReportFile { format, path: path.into() })
}

impl RuleArgs {
    fn rules(&self) -> Result<Vec<Rule>, Failure> {
        let usage = |error: poseidon_gate::rule::RuleError| Failure::Usage(format!("--fail-if {error}"));
        if !self.fail_if.is_empty() {
            return self.fail_if.iter().map(|text| Rule::parse(text).map_err(usage)).collect();
        }
        let margin = self.margin.as_deref().map(parse_margin).transpose();
        Ok(Rule::defaults(margin.map_err(|error| Failure::Usage(format!("--margin {error}")))?))
    }

    fn options(&self, looks: Looks, order: RunOrder) -> Result<GateOptions, Failure> {
        Ok(GateOptions { rules: self.rules()?, has_explicit_rules: !self.fail_if.is_empty(), looks, order })
    }
}

/// Runs a gate, or writes a baseline.
pub(crate) fn run(args: &GateArgs) -> Result<(), Failure> {
    let looks = Looks::new(args.seeds.clone(), args.rules.alpha, args.first_seed);
    let looks = looks.map_err(|error| Failure::Usage(error.to_string()))?;
    let options = args.rules.options(looks, args.run_order()?)?;
    let studies = catalog::find_studies(&args.scenarios, args.quick)?;
    let studies: Vec<Study> =
        studies.into_iter().map(|study| catalog::with_laws(study, &args.law)).collect::<Result<_, _>>()?;
    let backend = backend::create(args.backend)?;
    check_studies(&studies)?;
    studies.iter().try_for_each(|study| study.check(backend.as_ref()))?;
    let runs = RunOptions {
        seeds: None,
        jobs: backend::jobs(args.backend, args.jobs),
        records: None,
        shard: Shard::WHOLE,
        program: backend::program(args.backend),
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    let build = |reference: &Option<String>| reference.as_deref().map(|name| args.build(name)).transpose();
    let (base_build, head_build) = (build(&args.base.base)?, build(&args.head)?);
    location::require_folder(&args.output)?;
    let store = Store::new(&args.output);
    let cells: usize = studies.iter().map(|study| study.cells.len()).sum();
    let runs_programs_only = head_build.is_some() || args.backend == BackendKind::Linux;
    let progress =
        ProgressBars::new(cells * options.looks.max_seeds() as usize, args.quiet || runs_programs_only);
    let environment =
        RunEnvironment { backend: backend.as_ref(), store: &store, options: &runs, observer: &progress };
    let gate = Gate {
        args,
        options: &options,
        studies: &studies,
        environment,
        progress: &progress,
        base_build,
        head_build,
    };
    let result = if args.bless { gate.bless().map(|()| None) } else { gate.compare().map(Some) };
    progress.finish();
    let Some(mut report) = result? else { return Ok(()) };
    let file_of =
        |study: &Study| Path::new(&study.file).is_file().then(|| (study.name.clone(), study.file.clone()));
    report.files = studies.iter().filter_map(file_of).collect();
    for ReportFile { format, path } in &args.files {
        fs::write(path, format.render(&report)).map_err(Failure::file(path))?;
    }
    print_report(&report, args.format)?;
    exit_result(&report, args.fail_on)
}

/// A checked command.
struct Gate<'a> {
    args: &'a GateArgs,
    options: &'a GateOptions,
    studies: &'a [Study],
    environment: RunEnvironment<'a>,
    progress: &'a ProgressBars,
    /// The program of `--base`.
    base_build: Option<BuiltProgram>,
    /// The program of `--head`.
    head_build: Option<BuiltProgram>,
}

impl GateArgs {
    /// Builds the program of a commit, before a progress bar is shown.
    fn build(&self, reference: &str) -> Result<BuiltProgram, Failure> {
        let (repository, folder) = (PathBuf::from("."), self.cache_folder());
        let checkout = Checkout { repository, folder, profile: self.profile.clone() };
        let on_note = |text: &str| {
            if !self.quiet {
                eprintln!("poseidon: {text}");
            }
        };
        Ok(checkout.build(reference, &on_note).map_err(GateError::from)?)
    }

    fn cache_folder(&self) -> PathBuf {
        self.output.join("gate")
    }

    /// Returns the order of the runs. Values on real packets depend on the machine and its load, so the sides run
    /// alternately, and values of another day do not fit.
    fn run_order(&self) -> Result<RunOrder, Failure> {
        match self.backend {
            BackendKind::Sim => Ok(RunOrder::Blocks),
            BackendKind::Linux if self.base.baseline.is_some() => Err(Failure::Usage(
                "--on linux runs both sides alternately, because real packets depend on the machine, so a stored \
                 baseline does not fit; use --base or --base-program"
                    .to_owned(),
            )),
            BackendKind::Linux => Ok(RunOrder::Alternating),
        }
    }

    /// Returns the folder for the runs of one side on real packets. Every gate starts with an empty folder, because a run
    /// of an earlier gate is no neighbour of a run of this one.
    fn fresh_folder(&self, side: &str) -> Result<PathBuf, Failure> {
        let folder = self.cache_folder().join("linux").join(side);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file(&folder)(error)),
            _ => Ok(folder),
        }
    }
}

impl<'a> Gate<'a> {
    fn note(&self, text: &str) {
        if !self.args.quiet {
            self.progress.print_line(text);
        }
    }

    fn this_program(&self) -> LabSide<'a> {
        let name = self.environment.options.program.identity.clone();
        LabSide { name, studies: self.studies, environment: self.environment, rules: &self.options.rules }
    }

    fn other_program(&self, name: String, program: PathBuf, folder: PathBuf) -> ProgramSide<'a> {
        let (jobs, backend) = (self.environment.options.jobs, self.args.backend.name());
        let (studies, rules) = (self.studies, &self.options.rules[..]);
        ProgramSide { name, program, folder, jobs, backend, studies, rules }
    }

    fn built_program(&self, build: &BuiltProgram, side: &str) -> Result<ProgramSide<'a>, Failure> {
        let BuiltProgram { reference, commit, program, folder } = build;
        let name = format!("{reference} ({})", &commit[..commit.len().min(12)]);
        let folder = match self.args.backend {
            BackendKind::Sim => folder.clone(),
            BackendKind::Linux => self.args.fresh_folder(side)?,
        };
        Ok(self.other_program(name, program.clone(), folder))
    }

    fn base_side(&self) -> Result<Box<dyn Side + 'a>, Failure> {
        let BaseArgs { baseline, base_program, .. } = &self.args.base;
        if let Some(build) = &self.base_build {
            return Ok(Box::new(self.built_program(build, "base")?));
        }
        if let Some(program) = base_program {
            let folder = match self.args.backend {
                BackendKind::Sim => self.args.cache_folder().join("base-program"),
                BackendKind::Linux => self.args.fresh_folder("base")?,
            };
            return Ok(Box::new(self.other_program(program.display().to_string(), program.clone(), folder)));
        }
        let path = baseline.as_deref().expect("clap requires one of the three");
        let mut stored = Baseline::read(path).map_err(GateError::from)?;
        let name = format!("{} ({})", path.display(), stored.program);
        // Scenarios of the file that are not compared here do not matter.
        stored.scenarios.retain(|scenario| self.studies.iter().any(|study| study.name == scenario.scenario));
        Ok(Box::new(StoredSide::from_baseline(name, stored)))
    }

    fn head_side(&self) -> Result<Box<dyn Side + 'a>, Failure> {
        if let Some(build) = &self.head_build {
            return Ok(Box::new(self.built_program(build, "head")?));
        }
        if self.args.backend == BackendKind::Sim {
            return Ok(Box::new(self.this_program()));
        }
        // Both sides run in the same way: each run is a process in namespaces of its own.
        let program = env::current_exe().map_err(Failure::file(Path::new("/proc/self/exe")))?;
        let name = self.environment.options.program.identity.clone();
        Ok(Box::new(self.other_program(name, program, self.args.fresh_folder("head")?)))
    }

    fn compare(&self) -> Result<GateReport, Failure> {
        let mut base = self.base_side()?;
        let mut head = self.head_side()?;
        Ok(run_gate(base.as_mut(), head.as_mut(), self.options, &|text| self.note(text))?)
    }

    /// Runs all seeds and writes them as the baseline. Other scenarios of the file are kept.
    fn bless(&self) -> Result<(), Failure> {
        let path = self.args.base.baseline.as_deref().expect("clap requires a baseline with --bless");
        let looks = &self.options.looks;
        let seeds = looks.range(looks.seeds().len() - 1);
        let request = Request { all_seeds: seeds.clone(), new_seeds: seeds, undecided: None };
        let mut program = self.this_program();
        let scenarios = program.measure(&request)?;
        let old = if path.exists() { Some(Baseline::read(path).map_err(GateError::from)?) } else { None };
        let mut baseline = Baseline::new(&program.name(), scenarios.clone());
        if let Some(old) = old {
            self.print_changes(&old, &scenarios)?;
            let is_new = |name: &str| scenarios.iter().any(|scenario| scenario.scenario == name);
            baseline
                .scenarios
                .extend(old.scenarios.into_iter().filter(|scenario| !is_new(&scenario.scenario)));
        }
        baseline.scenarios.sort_by_key(|scenario| natural_order(&scenario.scenario));
        baseline.write(path).map_err(GateError::from)?;
        outln!(
            "{}: {} scenarios with {} seeds, {} kept",
            path.display(),
            scenarios.len(),
            looks.max_seeds(),
            baseline.scenarios.len() - scenarios.len()
        );
        Ok(())
    }

    /// Prints the difference between the old baseline and new values.
    fn print_changes(&self, old: &Baseline, new: &[ScenarioMeasurements]) -> Result<(), Failure> {
        let mut comparable = Vec::new();
        for scenario in new {
            match old.scenarios.iter().find(|other| other.scenario == scenario.scenario) {
                None => outln!("{}: new in this baseline", scenario.scenario),
                Some(other)
                    if other.scenario_hash != scenario.scenario_hash || other.quick != scenario.quick =>
                {
                    outln!("{}: the scenario has changed, so its old values are dropped", scenario.scenario);
                }
                Some(_) => comparable.push(scenario.clone()),
            }
        }
        if comparable.is_empty() {
            return Ok(());
        }
        let is_compared = |scenario: &ScenarioMeasurements| {
            comparable.iter().any(|other| other.scenario == scenario.scenario)
        };
        let old_scenarios = old.scenarios.iter().filter(|scenario| is_compared(scenario)).cloned().collect();
        let old_values = Baseline::new(&old.program, old_scenarios);
        let mut sides = [("old baseline", old_values), ("new baseline", Baseline::new("", comparable))]
            .map(|(name, baseline)| StoredSide::from_baseline(name.to_owned(), baseline));
        let looks =
            Looks::single(self.options.looks.alpha()).map_err(|error| Failure::Usage(error.to_string()))?;
        let options = GateOptions { looks, ..self.options.clone() };
        let [base, head] = &mut sides;
        match run_gate(base, head, &options, &|_| ()) {
            Ok(report) => outln!("{}", render_text(&report).trim_end()),
            // The old file may have other cells or metrics.
            Err(error) => outln!("the old values cannot be compared: {error}"),
        }
        Ok(())
    }
}

/// Compares two results folders with rules.
pub(crate) fn compare_folders(
    first: &Path,
    second: &Path,
    fail_if: &[String],
    json: bool,
) -> Result<(), Failure> {
    let rules = RuleArgs { fail_if: fail_if.to_vec(), margin: None, alpha: DEFAULT_ALPHA };
    let looks = Looks::single(rules.alpha).map_err(|error| Failure::Usage(error.to_string()))?;
    let options = rules.options(looks, RunOrder::Blocks)?;
    let stores = [Store::new(first), Store::new(second)];
    let identity = backend::identity(BackendKind::Sim);
    let names = common_studies(&stores[0], &stores[1]).map_err(ReportError::from)?;
    if names.is_empty() {
        let (first, second) = (first.display(), second.display());
        return Err(Failure::Run(format!("{first} and {second} have no scenario with results in common")));
    }
    let load = |store: &Store| StoredSide::from_store(store, &names, &identity, &options.rules);
    let [mut base, mut head] = [load(&stores[0])?, load(&stores[1])?];
    let report = run_gate(&mut base, &mut head, &options, &|_| ())?;
    print_report(&report, if json { OutputFormat::Json } else { OutputFormat::Text })?;
    exit_result(&report, FailOn::Fail)
}

/// Prints a report. For GitHub, the summary goes to the file of the step, and the verdict becomes an output.
fn print_report(report: &GateReport, format: OutputFormat) -> Result<(), Failure> {
    if format == OutputFormat::Github {
        let summary = render_markdown(report);
        match append_to("GITHUB_STEP_SUMMARY", &summary)? {
            true => {}
            false => outln!("{}", summary.trim_end()),
        }
        append_to("GITHUB_OUTPUT", &format!("verdict={}\n", report.verdict.word()))?;
    }
    let text = format.render(report);
    if !text.is_empty() {
        outln!("{}", text.trim_end());
    }
    Ok(())
}

/// Appends a text to the file that an environment variable names. Returns whether there is one.
fn append_to(variable: &str, text: &str) -> Result<bool, Failure> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(false);
    };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Failure::file(&path))?;
    Ok(true)
}

fn exit_result(report: &GateReport, fail_on: FailOn) -> Result<(), Failure> {
    let is_failure = match fail_on {
        FailOn::Fail => report.verdict == Verdict::Fail,
        FailOn::Warn => report.verdict != Verdict::Pass,
        FailOn::Never => false,
    };
    if is_failure { Err(Failure::Worse(report.summarise())) } else { Ok(()) }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Study(error) => error.into(),
            GateError::Report(error) => error.into(),
            GateError::Interrupted => Self::Interrupted(RESULTS_KEPT),
            error @ GateError::Program(ProgramError::MissingTool { .. }) => {
                Self::MissingTool(error.to_string())
            }
            error @ GateError::Program(_) => Self::Run(error.to_string()),
            error => Self::NotComparable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_file_has_a_format() {
        let file = parse_report_file("junit=a=b.xml").expect("the file is valid");
        assert_eq!((file.format, file.path), (OutputFormat::Junit, PathBuf::from("a=b.xml")));
        for (text, expected) in
            [("gate.xml", "FORMAT=FILE"), ("junit=", "FORMAT=FILE"), ("xml=a", "there are text, json, junit")]
        {
            let error = parse_report_file(text).expect_err("the file is invalid").to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
