//! Command-line arguments.

use crate::backend_kind::BackendKind;
use crate::card::CardArgs;
use crate::cluster::{EmitArgs, MergeArgs, StatusArgs};
use crate::convert::{ExportArgs, ImportArgs};
use crate::duration::parse_duration;
use crate::gate::GateArgs;
use crate::linux::Linux;
use crate::perf::PerfCommand;
use crate::recording::RecordArgs;
use crate::records::Records;
use crate::rollout::RolloutArgs;
use crate::serve::ServeArgs;
use crate::study_args::StudyArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use core::time::Duration;
use poseidon_lab::listing::NameKind;
use poseidon_lab::runner::Shard;
use std::path::PathBuf;

/// Study, verify and run datacenter congestion control.
#[derive(Debug, Parser)]
#[command(name = "poseidon", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  poseidon run scenarios/quickstart.toml     compare three laws in ten seconds
  poseidon repro poseidon --quick            check the claims of a paper in three minutes
  poseidon explain fig14b                    print the complete configuration of a run
  poseidon verify fig14b                     rerun a published study and compare every number
  poseidon laws swift                        print a law, its source and its parameters
  poseidon list metrics                      print the names that scenarios can use
  poseidon doctor                            check which features this machine supports

Exit codes: 0 success, 1 a run failed, 2 usage error, 3 invalid scenario, 4 a gating claim failed
or a gate found something worse, 5 not in this build (needs a cargo feature) or a tool is missing, 6 above
--max-memory or --max-time, 130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and print its results.
    Run {
        /// A file, the name of a built-in scenario, or `-` for standard input.
        scenario: String,
        #[command(flatten)]
        study: StudyArgs,
        /// The format of the stored rows of every run.
        #[arg(long, value_enum, default_value = "parquet")]
        records: Records,
        /// The backend: the simulator, or real packets in network namespaces of this machine (as root).
        #[arg(long = "on", value_enum, default_value = "sim")]
        backend: BackendKind,
        #[command(flatten)]
        record: RecordArgs,
        #[command(flatten)]
        task: TaskArgs,
    },
    /// Run all scenarios of a paper and judge its claims.
    Repro {
        /// The papers: folders of built-in scenarios, such as `poseidon`.
        papers: Vec<String>,
        /// Run all papers except `linux`, whose claims need real packets: `poseidon run … --on linux`.
        #[arg(long)]
        all: bool,
        /// Run only scenarios whose name contains this text. Can be repeated.
        #[arg(long)]
        only: Vec<String>,
        /// List what would run, and exit.
        #[arg(long)]
        list: bool,
        /// Run shard I of N, counted from 1: `--shard 2/8`.
        #[arg(long, value_parser = parse_shard, default_value = "1/1")]
        shard: Shard,
        #[command(flatten)]
        study: StudyArgs,
        /// The format of the stored rows of every run.
        #[arg(long, value_enum, default_value = "none")]
        records: Records,
    },
    /// Judge the claims and draw the figures of a results folder again, and write an HTML page.
    Report {
        /// The results folder of `run` or `repro`.
        #[arg(default_value = "results")]
        folder: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Also publish verdicts, figures and numbers into this folder, without runs and rows. Needs the repository
        /// of the scenarios as the current directory, and records its commit.
        #[arg(long)]
        publish: Option<PathBuf>,
        /// Judge the published studies of the folder by the current claims of their scenarios, from published
        /// numbers.
        #[arg(long, conflicts_with_all = ["publish", "json"])]
        judge_again: bool,
    },
    /// Run a published study again and compare every number with the published one.
    Verify {
        /// The name of a published scenario, such as `fig14b`.
        scenario: String,
        /// The folder of published results.
        #[arg(long, default_value = "docs/results")]
        results: PathBuf,
        /// Number of parallel runs [default: number of cores].
        #[arg(long, short)]
        jobs: Option<usize>,
        /// The results folder. Stored runs of this program are reused.
        #[arg(long, short, default_value = "results")]
        output: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Do not show progress.
        #[arg(long, short)]
        quiet: bool,
    },
    /// Write the job of a study for a cluster: a Slurm array job or a Kubernetes indexed Job.
    Emit(EmitArgs),
    /// Show which runs of a results folder are done, running, failed and left.
    Status(StatusArgs),
    /// Copy the runs of results folders into one, such as those of machines without a shared file system.
    Merge(MergeArgs),
    /// Compare two results folders with the same scenarios, such as those of `run X -o sim` and `run X --on linux -o
    /// linux`.
    Compare {
        /// A results folder of `run` or `repro`.
        first: PathBuf,
        /// Another results folder, or a file of completion times of HPCC's ns-3 simulator (`fct.txt`).
        second: PathBuf,
        /// A metric by the last part of its name, such as `jain`. Can be repeated [default: throughput, fairness and
        /// queues].
        #[arg(long)]
        metric: Vec<String>,
        /// Fail if the second folder is worse, such as `latency_p99_us > +5%`. Runs are paired by seed and tested. Can
        /// be repeated.
        #[arg(long, conflicts_with = "metric", value_name = "RULE")]
        fail_if: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare with a baseline or a commit, and fail if a metric became worse.
    Gate(GateArgs),
    /// Grade laws in the scenarios of a suite, and write a report card.
    Card(CardArgs),
    /// Write a scenario for files of other simulators: flow lists, topologies and size distributions.
    Import(ImportArgs),
    /// Write the flows of a scenario for another simulator.
    Export(ExportArgs),
    /// Print the complete configuration of a scenario's runs, and what they cost.
    Explain {
        /// A file, the name of a built-in scenario, or `-` for standard input.
        scenario: String,
        /// Print every cell, not only the first.
        #[arg(long)]
        all: bool,
        /// The seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print the quick form of the scenario.
        #[arg(long)]
        quick: bool,
    },
    /// Plan a rollout of telemetry: which switches to upgrade first, and what each upgrade gains.
    Rollout(RolloutArgs),
    /// List the control laws, or print one with its parameters.
    Laws {
        /// The law to print.
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the names that scenarios can use, such as workloads, policies and metrics.
    List {
        /// Only names of this kind.
        #[arg(value_enum)]
        kind: Option<ListKind>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the built-in scenarios, or print one.
    Scenarios {
        /// The scenario to print.
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Manage the testbed for real packets.
    Testbed {
        #[command(subcommand)]
        command: TestbedCommand,
    },
    #[command(flatten)]
    Linux(Linux),
    /// Measure QUIC throughput between two hosts under a law.
    #[command(subcommand)]
    Perf(PerfCommand),
    /// Serve a local lab in the browser: edit scenarios, run them, watch and compare the results.
    Serve(ServeArgs),
    /// Print the JSON Schema of scenarios, for editors.
    Schema,
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
}

/// Options of one of several processes that share a results folder.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TaskArgs {
    /// Run as task I of N, counted from 0, as a part of an array job: `--task 2/8`. The tasks share the results folder.
    /// Each takes its share, longest runs first, and then helps others. No report is written.
    #[arg(long, value_name = "I/N", value_parser = parse_task)]
    pub(crate) task: Option<Shard>,
    /// Compute no runs of other tasks. For machines without a common results folder, whose folders are merged at the end.
    #[arg(long, requires = "task")]
    pub(crate) own_share_only: bool,
    /// Other tasks repeat the runs of a task that has given no sign of life for this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60 s", requires = "task")]
    pub(crate) expiry: Duration,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Remove the empty cgroups of killed runs. Nothing else is left behind.
    Clean,
}

/// A kind of names.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ListKind {
    /// Congestion control laws.
    Laws,
    /// Published size distributions.
    Workloads,
    /// Buffer and marking policies of switches.
    Policies,
    /// Kinds of traffic.
    Traffic,
    /// Algorithms of collectives.
    Collectives,
    /// Kinds of networks.
    Topologies,
    /// Metrics of claims and figures.
    Metrics,
    /// Time series of figures.
    Series,
}

impl ListKind {
    pub(crate) const fn names(self) -> NameKind {
        match self {
            Self::Laws => NameKind::Laws,
            Self::Workloads => NameKind::Workloads,
            Self::Policies => NameKind::Policies,
            Self::Traffic => NameKind::Traffic,
            Self::Collectives => NameKind::Collectives,
            Self::Topologies => NameKind::Topologies,
            Self::Metrics => NameKind::Metrics,
            Self::Series => NameKind::Series,
        }
    }
}

/// The error of an invalid shard.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("write I/N with 1 <= I <= N, such as 2/8")]
pub(crate) struct InvalidShard;

fn parse_shard(text: &str) -> Result<Shard, InvalidShard> {
    let (index, count) = text.split_once('/').ok_or(InvalidShard)?;
    match (index.parse::<usize>(), count.parse::<usize>()) {
        (Ok(index), Ok(count)) if (1..=count).contains(&index) => Ok(Shard { index: index - 1, count }),
        _ => Err(InvalidShard),
    }
}

/// The error of an invalid task.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("write I/N with 0 <= I < N, such as 0/8")]
pub(crate) struct InvalidTask;

fn parse_task(text: &str) -> Result<Shard, InvalidTask> {
    let (index, count) = text.split_once('/').ok_or(InvalidTask)?;
    match (index.parse::<usize>(), count.parse::<usize>()) {
        (Ok(index), Ok(count)) if index < count => Ok(Shard { index, count }),
        _ => Err(InvalidTask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tasks_count_from_zero_and_shards_from_one() {
        assert_eq!(parse_task("0/8").ok(), Some(Shard { index: 0, count: 8 }));
        assert_eq!(parse_shard("1/8").ok(), Some(Shard { index: 0, count: 8 }));
        for text in ["8/8", "0/0", "-1/8", "a/8", "8"] {
            assert!(parse_task(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_of_names_can_be_listed() {
        let kinds: Vec<&str> = ListKind::value_variants().iter().map(|kind| kind.names().name()).collect();
        assert_eq!(kinds, NameKind::ALL.map(NameKind::name));
    }
}
