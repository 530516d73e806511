//! Options of commands that run studies.

use crate::duration::parse_duration;
use clap::{Args, ValueEnum};
use core::time::Duration;
use poseidon_types::Bytes;
use std::path::PathBuf;

/// Options of commands that run studies.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Use fewer seeds and shorter runs, as the scenario defines, and print what is omitted.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run this law instead of the values of the sweep `law`. Can be repeated.
    #[arg(long, value_name = "LAW")]
    pub(crate) law: Vec<String>,
    /// Number of seeds per cell, instead of the number in the scenario.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seeds: Option<u32>,
    /// Number of parallel runs [default: number of cores].
    #[arg(long, short)]
    pub(crate) jobs: Option<usize>,
    /// The results folder. Nothing is written elsewhere. Or s3://BUCKET/PREFIX, to share runs through an object store.
    #[arg(long, short, default_value = "results")]
    pub(crate) output: PathBuf,
    /// With `-o s3://…`: the folder in which this machine computes, and writes reports [default: results; for a task, a
    /// temporary folder].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) local: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not show progress and estimates.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Do not start if the runs would need more memory, such as `4 GB`.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_memory: Option<Bytes>,
    /// Do not start if the runs would take longer, such as `10 min`, and stop them after that time. Finished runs are
    /// kept.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_time: Option<Duration>,
    /// The formats of the figures: `svg,png,pdf`. SVG is always written.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "svg", value_name = "FORMATS")]
    pub(crate) figures: Vec<FigureFormat>,
}

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureFormat {
    /// Vector graphics, for web pages.
    Svg,
    /// Pixels, 300 per inch.
    Png,
    /// Vector graphics, for papers.
    Pdf,
}
