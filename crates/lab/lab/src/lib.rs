//! Turns a scenario into verdicts, figures and reports.
//!
//! ```text
//! scenario.toml ─parse─> Scenario ─resolve─> Plan ─run─> Records ─reduce─> Summary ─judge─> Verdicts
//!                                                                             └────draw─> Figures, report
//! ```
//!
//! The lab is independent of the backend. It creates plans and reduces the rows recorded by any
//! [`Backend`](poseidon_plan::Backend).

pub mod analytic;
pub mod assets;
pub mod bound;
pub mod budget;
pub mod by_size;
pub mod canonical;
pub mod check;
pub mod claims;
pub mod compare;
pub mod compare_fct;
pub mod convert;
pub mod cost;
pub mod counters;
mod embed;
pub mod explain;
pub mod expression;
pub mod figure;
pub mod files;
mod host;
pub mod judge;
pub mod listing;
pub mod manifest;
pub mod map;
pub mod merge;
pub mod nccl;
mod number;
pub mod objects;
pub mod oracle;
mod parallel;
pub mod pooled;
pub mod rate_mismatch;
pub mod recording;
pub mod reduce;
pub mod reference;
pub mod remote;
pub mod report;
pub mod resolve;
pub mod rollout;
pub mod runner;
pub mod samples;
pub mod scenario;
pub mod shared;
pub mod stats;
pub mod status;
pub mod store;
pub mod study;
pub mod summary;
pub mod tables;

/// Tests the example in the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
