//! Errors in a claim's structure.

use crate::expression::ExpressionError;

/// Why a claim cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The claim has no condition.
    #[error(
        "claim {claim:?} has no condition that can fail; add above, below, within, near, rising or falling"
    )]
    NoCondition {
        /// The claim text.
        claim: String,
    },
    /// The claim has more than one condition.
    #[error("claim {claim:?} has two conditions; make it two claims")]
    TwoConditions {
        /// The claim text.
        claim: String,
    },
    /// The claim's keys contradict each other, so the claim can never fail or never hold.
    #[error("claim {claim:?} {problem}")]
    Form {
        /// The claim text.
        claim: String,
        /// The contradiction and how to resolve it.
        problem: FormProblem,
    },
    /// The metric is not a valid expression.
    #[error("claim {claim:?}: {source}")]
    Metric {
        /// The claim text.
        claim: String,
        /// The syntax error.
        source: ExpressionError,
    },
    /// The claim names a sweep that the scenario does not have.
    #[error("claim {claim:?}: there is no sweep {sweep:?}")]
    UnknownSweep {
        /// The claim text.
        claim: String,
        /// The unknown sweep.
        sweep: String,
    },
}

/// A contradiction between a claim's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormProblem {
    /// `as` or `baseline` without `against`.
    #[error("is not compared with another cell; add against, or remove as and baseline")]
    NoOtherCell,
    /// Only one of `as = "share-of-gain"` and `baseline`.
    #[error("needs both as = \"share-of-gain\" and a baseline for a share of a gain")]
    IncompleteShareOfGain,
    /// `within` with an empty range.
    #[error("has an empty range; write the smaller number first")]
    EmptyRange,
    /// `near = 0`.
    #[error("cannot be near zero, because half to twice of zero is zero; write within")]
    NearZero,
    /// `near = 1` for a ratio, or a ratio that is not positive.
    #[error("is a ratio, which is judged by its distance from one; write within")]
    NearRatioOfOne,
    /// A reduction with `near` at or above one.
    #[error("is a reduction, which must be below one; write within")]
    NearFullReduction,
    /// `gating` together with `not-comparable`.
    #[error("is gating but not comparable, so it cannot fail; remove one of the two keys")]
    GatingNotComparable,
}
