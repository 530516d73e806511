//! Decides whether a change made congestion control worse.
//!
//! ```text
//! base and head, same seeds ──> worsening per seed ──exact tests, Holm──> pass, fail or inconclusive ──> reports
//!        ^                                                                        │
//!        └───────────────────────── more seeds, at most twice ────────────────────┘
//! ```
//!
//! Both sides run the same scenarios with the same seeds, so the differences of a seed have little noise. A guarded
//! metric fails if it is worse by more than its margin, and an exact test rules out chance. It passes if the worsening
//! is certainly below the margin. Otherwise it is inconclusive: more seeds run, and at the end it is a warning.
//!
//! The crate has no clock and draws no random numbers: the same results always give the same verdicts.

pub mod baseline;
pub mod checkout;
pub mod comparison;
pub mod decision;
pub mod error;
pub mod formats;
pub mod gate;
pub mod looks;
pub mod measurements;
pub mod program;
pub mod report;
pub mod rule;
pub mod side;
pub mod stats;
