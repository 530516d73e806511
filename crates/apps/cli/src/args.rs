//! What may be written on the command line.

use crate::linux::Linux;
use crate::perf::Perf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use poseidon_lab::tables::Format;
use std::path::PathBuf;

/// Datacenter congestion control that people can study, check and run.
#[derive(Debug, Parser)]
#[command(name = "poseidon", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  poseidon run scenarios/quickstart.toml     three laws, one victim: something to see in ten seconds
  poseidon repro poseidon --quick            the claims of a paper, cut to three minutes
  poseidon explain fig14b                    the effective configuration, nothing left to defaults
  poseidon verify fig14b                     a published study again, number by number
  poseidon laws swift                        a law, its source and its parameters
  poseidon doctor                            what this machine can do of tcp, switch and rpm

Exit codes: 0 done, 1 a run failed, 2 usage, 3 a scenario is invalid, 4 a gating claim failed,
5 not in this build (a feature of cargo), 130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and say what came out.
    Run {
        /// A file, or the name of a scenario that is built in.
        scenario: String,
        #[command(flatten)]
        how: How,
        /// Keep the rows of every run.
        #[arg(long, value_enum, default_value = "parquet")]
        records: Records,
        /// What runs it: the simulator, or real packets through network namespaces of this machine (as root).
        #[arg(long, value_enum, default_value = "sim")]
        on: On,
    },
    /// Run every scenario of a paper and judge its claims.
    Repro {
        /// Papers: folders of built-in scenarios, such as `poseidon`.
        papers: Vec<String>,
        /// All of them, but for `linux`, whose claims are about real packets: `poseidon run … --on linux`.
        #[arg(long)]
        all: bool,
        /// Only scenarios whose name contains this; may be given several times.
        #[arg(long)]
        only: Vec<String>,
        /// Say what would be run, and stop.
        #[arg(long)]
        list: bool,
        /// Part I of N of all runs (from 1), for a scheduler: `--shard 2/8`.
        #[arg(long, value_parser = shard, default_value = "1/1")]
        shard: (usize, usize),
        #[command(flatten)]
        how: How,
        /// Keep the rows of every run.
        #[arg(long, value_enum, default_value = "none")]
        records: Records,
    },
    /// Judge and draw again what a folder of results holds, and write one page about it.
    Report {
        /// The folder that was given to `run` or `repro`.
        #[arg(default_value = "results")]
        folder: PathBuf,
        /// For programs.
        #[arg(long)]
        json: bool,
        /// Also write what can be published into this folder: verdicts, figures and numbers, without runs and rows. Must be called
        /// in the repository of the scenarios, whose commit is recorded.
        #[arg(long)]
        publish: Option<PathBuf>,
        /// Judge the published studies of the folder by the claims that their scenarios have now, from published numbers.
        #[arg(long, conflicts_with_all = ["publish", "json"])]
        judge_again: bool,
    },
    /// Run a published study again and compare every number with what is published.
    Verify {
        /// The name of a published scenario, such as `fig14b`.
        scenario: String,
        /// The folder of published results.
        #[arg(long, default_value = "docs/results")]
        results: PathBuf,
        /// Runs at a time; as many as there are cores by default.
        #[arg(long, short)]
        jobs: Option<usize>,
        /// Where the runs go; those of this program that are there already are not made again.
        #[arg(long, short, default_value = "results")]
        output: PathBuf,
        /// For programs.
        #[arg(long)]
        json: bool,
        /// No progress.
        #[arg(long, short)]
        quiet: bool,
    },
    /// Put side by side what two folders of results say of the same scenarios: `run X -o sim`, `run X --on linux -o linux`.
    Compare {
        /// A folder that was given to `run` or `repro`.
        first: PathBuf,
        /// Another.
        second: PathBuf,
        /// Metrics by the end of their name, such as `jain`; throughput, fairness and queues where none is given.
        #[arg(long)]
        metric: Vec<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Print the effective configuration of a scenario's runs: no default is left.
    Explain {
        /// A file, or the name of a scenario that is built in.
        scenario: String,
        /// Every cell, not only the first.
        #[arg(long)]
        all: bool,
        /// The seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// As `--quick` would run it.
        #[arg(long)]
        quick: bool,
    },
    /// List control laws, or one with its parameters.
    Laws {
        /// The name of a law.
        name: Option<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// List built-in scenarios, or print one.
    Scenarios {
        /// The name of a scenario, to print it.
        name: Option<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// The testbed of real packets.
    Testbed {
        #[command(subcommand)]
        what: TestbedCommand,
    },
    #[command(flatten)]
    Linux(Linux),
    /// Measure what QUIC carries between two hosts, steered by a law.
    #[command(subcommand)]
    Perf(Perf),
    /// Print the JSON Schema of scenarios, for editors.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Remove what runs that were killed have left: empty cgroups, nothing else can stay.
    Clean,
}

/// How studies are run.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Fewer seeds, shorter runs, as each scenario says; prints what it cut.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seeds per cell, instead of what the scenario says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seeds: Option<u32>,
    /// Runs at a time; as many as there are cores by default.
    #[arg(long, short)]
    pub(crate) jobs: Option<usize>,
    /// Where results go. Nothing is written elsewhere.
    #[arg(long, short, default_value = "results")]
    pub(crate) output: PathBuf,
    /// For programs: everything that is printed, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What runs scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// The simulator.
    Sim,
    /// This machine's Linux.
    Linux,
}

/// Whether rows are kept.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Records {
    /// In columns, compressed.
    Parquet,
    /// As text.
    Csv,
    /// Not at all: summaries only.
    None,
}

impl Records {
    pub(crate) const fn format(self) -> Option<Format> {
        match self {
            Self::Parquet => Some(Format::Parquet),
            Self::Csv => Some(Format::Csv),
            Self::None => None,
        }
    }
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let wrong = || "write I/N with 1 <= I <= N, such as 2/8".to_owned();
    let (part, of) = text.split_once('/').ok_or_else(wrong)?;
    match (part.parse::<usize>(), of.parse::<usize>()) {
        (Ok(part), Ok(of)) if (1..=of).contains(&part) => Ok((part - 1, of)),
        _ => Err(wrong()),
    }
}
