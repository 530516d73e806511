//! From a scenario to a verdict.
//!
//! ```text
//! scenario.toml ─parse─> Scenario ─resolve─> Plan ─run─> Records ─reduce─> Summary ─judge─> Verdicts
//!                                                                             └────draw─> Figures, report
//! ```
//!
//! The lab knows no backend: it makes plans and reduces the rows that any [`Backend`](poseidon_plan::Backend) hands it.

pub mod draw;
pub mod scenario;
pub mod oracle;
pub mod stats;
pub mod tables;
