//! From a scenario to a verdict.
//!
//! ```text
//! scenario.toml ─parse─> Scenario ─resolve─> Plan ─run─> Records ─reduce─> Summary ─judge─> Verdicts
//!                                                                             └────draw─> Figures, report
//! ```
//!
//! The lab knows no backend: it makes plans and reduces the rows that any [`Backend`](poseidon_plan::Backend) hands it.

pub mod analytic;
pub mod bound;
pub mod by_size;
pub mod canonical;
pub mod check;
pub mod compare;
pub mod draw;
pub mod explain;
pub mod expression;
pub mod figure;
pub mod judge;
pub mod oracle;
pub mod pooled;
pub mod reduce;
pub mod reference;
pub mod report;
pub mod resolve;
pub mod samples;
pub mod scenario;
pub mod stats;
pub mod store;
pub mod study;
pub mod summary;
pub mod tables;
