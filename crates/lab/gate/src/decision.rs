//! Decides about each comparison: pass, fail or inconclusive.
//!
//! ```text
//! Fail          the head is worse (one-sided exact test, Holm-adjusted p at most alpha), and the estimated worsening
//!               exceeds the margin
//! Pass          all results are identical, or the upper bound of the worsening is below the margin
//! Inconclusive  everything else: more seeds may decide
//! ```

use crate::comparison::{Comparison, Sample};
use crate::looks::LookAlpha;
use crate::rule::Rule;
use crate::stats::{
    hodges_lehmann, holm_adjusted, lower_bound, mann_whitney, shift, shift_bounds, sign_flip_p, upper_bound,
};
use serde::Serialize;

/// The outcome of a comparison, or of all of them. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The metric is not worse by more than its margin.
    Pass,
    /// The values do not decide. This is a warning and never a failure.
    Inconclusive,
    /// The metric is worse by more than its margin.
    Fail,
}

impl Verdict {
    /// Returns the word for a verdict.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}

/// How a comparison was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The result hashes or all values are equal.
    Identical,
    /// The sign-flip test of pairs with the same seed.
    SignFlip,
    /// The Mann-Whitney test of values without pairs.
    MannWhitney,
    /// There are no values to compare.
    NoValues,
}

/// Why a comparison is inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum InconclusiveReason {
    /// The interval of the worsening contains the margin, or the test is not significant.
    #[error("the values vary too much between seeds to decide")]
    Noise,
    /// The metric is worse by more than the margin, but failing needs a smaller p-value.
    #[error("with this many tests, failing needs more seeds")]
    TooManyTests,
    /// There are too few values.
    #[error("there are too few values")]
    TooFewValues,
    /// The head lacks values that the base has, or messages did not finish and values are only lower bounds.
    #[error("the head lacks values that the base has")]
    Incomplete,
    /// No run has a value.
    #[error("no run has a value")]
    NoValues,
}

/// The decision about a comparison. Worsenings are positive if the head is worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is inconclusive.
    pub inconclusive_because: Option<InconclusiveReason>,
    /// The test.
    pub method: Method,
    /// The estimated worsening.
    pub worsening: Option<f64>,
    /// The lower and the upper one-sided bound of the worsening.
    pub bounds: Option<[f64; 2]>,
    /// The p-value of "the head is worse".
    pub p: Option<f64>,
    /// The p-value after Holm's correction.
    pub adjusted_p: Option<f64>,
    /// Cliff's delta, for values without pairs.
    pub cliffs_delta: Option<f64>,
}

/// The estimate and the test of one comparison.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    method: Method,
    p: f64,
    worsening: f64,
    bounds: Option<[f64; 2]>,
    cliffs_delta: Option<f64>,
}

/// Decides about comparisons that are judged together. `family` is the number of all tests of the run, including those
/// that were decided earlier.
pub fn decide(comparisons: &[(&Comparison, &Rule)], family: usize, alpha: LookAlpha) -> Vec<Decision> {
    let evidence: Vec<Option<Evidence>> =
        comparisons.iter().map(|(comparison, _)| evaluate(&comparison.sample, alpha.pass)).collect();
    // A comparison without values, or with equal values, cannot reject.
    let is_test = |index: &usize| evidence[*index].is_some() && !comparisons[*index].0.is_constant();
    let tested: Vec<usize> = (0..comparisons.len()).filter(is_test).collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|index| Some(evidence[*index]?.p)).collect();
    let mut adjusted = vec![None; comparisons.len()];
    for (index, p) in tested.iter().zip(holm_adjusted(&p_values, family)) {
        adjusted[*index] = Some(p);
    }
    let judged = comparisons.iter().zip(evidence).zip(adjusted);
    judged.map(|(((comparison, rule), evidence), p)| judge(comparison, rule, evidence, p, alpha)).collect()
}

fn judge(
    comparison: &Comparison,
    rule: &Rule,
    evidence: Option<Evidence>,
    adjusted_p: Option<f64>,
    alpha: LookAlpha,
) -> Decision {
    if comparison.is_constant() && !comparison.is_incomplete {
        return Decision { adjusted_p: None, ..decision(Verdict::Pass, None, Method::Identical, evidence) };
    }
    let Some(found) = evidence else {
        return decision(Verdict::Inconclusive, Some(InconclusiveReason::NoValues), Method::NoValues, None);
    };
    let margin = rule.margin.value();
    let is_significant = adjusted_p.is_some_and(|p| p <= alpha.fail);
    let is_worse = found.worsening > margin;
    let (verdict, inconclusive_because) = match found.bounds {
        _ if is_significant && is_worse => (Verdict::Fail, None),
        Some([_, upper]) if upper < margin && comparison.is_incomplete => {
            (Verdict::Inconclusive, Some(InconclusiveReason::Incomplete))
        }
        Some([_, upper]) if upper < margin => (Verdict::Pass, None),
        Some([lower, _]) if is_worse && lower > 0.0 && !alpha.can_fail => {
            (Verdict::Inconclusive, Some(InconclusiveReason::TooManyTests))
        }
        Some(_) => (Verdict::Inconclusive, Some(InconclusiveReason::Noise)),
        None => (Verdict::Inconclusive, Some(InconclusiveReason::TooFewValues)),
    };
    Decision { adjusted_p, ..decision(verdict, inconclusive_because, found.method, Some(found)) }
}

fn decision(
    verdict: Verdict,
    inconclusive_because: Option<InconclusiveReason>,
    method: Method,
    evidence: Option<Evidence>,
) -> Decision {
    Decision {
        verdict,
        inconclusive_because,
        method,
        worsening: evidence.map(|evidence| evidence.worsening),
        bounds: evidence.and_then(|evidence| evidence.bounds),
        p: evidence.map(|evidence| evidence.p).filter(|_| method != Method::Identical),
        adjusted_p: None,
        cliffs_delta: evidence.and_then(|evidence| evidence.cliffs_delta),
    }
}

/// Tests a sample. Returns `None` if it has no values.
fn evaluate(sample: &Sample, pass_alpha: f64) -> Option<Evidence> {
    match sample {
        Sample::Identical(_) => None,
        Sample::Paired(differences) => Some(Evidence {
            method: Method::SignFlip,
            p: sign_flip_p(differences)?,
            worsening: hodges_lehmann(differences)?,
            bounds: lower_bound(differences, pass_alpha)
                .zip(upper_bound(differences, pass_alpha))
                .map(|(low, high)| [low, high]),
            cliffs_delta: None,
        }),
        Sample::Unpaired { base, head } => {
            let test = mann_whitney(base, head)?;
            Some(Evidence {
                method: Method::MannWhitney,
                p: test.p,
                worsening: shift(base, head)?,
                bounds: shift_bounds(base, head, pass_alpha),
                cliffs_delta: Some(test.cliffs_delta),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alpha() -> LookAlpha {
        LookAlpha { fail: 0.004, pass: 0.02, can_fail: true }
    }

    fn comparison(sample: Sample) -> Comparison {
        Comparison {
            sample,
            base: Some(1.0),
            head: Some(1.0),
            head_values: Vec::new(),
            is_incomplete: false,
            one_sided: 0,
            is_recomputed: false,
        }
    }

    fn judge_alone(sample: Sample) -> Decision {
        let rule = Rule::parse("latency_p99_us > +5%").expect("the rule is valid");
        decide(&[(&comparison(sample), &rule)], 1, alpha())[0]
    }

    #[test]
    fn a_clear_worsening_beyond_the_margin_fails() {
        let decision = judge_alone(Sample::Paired(vec![0.09, 0.1, 0.11, 0.1, 0.12, 0.08, 0.1, 0.1]));
        assert_eq!((decision.verdict, decision.method), (Verdict::Fail, Method::SignFlip));
        assert_eq!((decision.p, decision.adjusted_p), (Some(1.0 / 256.0), Some(1.0 / 256.0)));
        assert!((decision.worsening.unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_clear_worsening_below_the_margin_passes() {
        let decision = judge_alone(Sample::Paired(vec![0.01, 0.012, 0.011, 0.01, 0.013, 0.01, 0.01, 0.01]));
        assert_eq!(decision.verdict, Verdict::Pass);
        assert!(decision.p < Some(0.004) && decision.bounds.unwrap()[1] < 0.05);
    }

    #[test]
    fn noise_is_inconclusive_and_equality_passes() {
        let noisy = judge_alone(Sample::Paired(vec![0.3, -0.3, 0.2, -0.2, 0.1, -0.1, 0.4, -0.2]));
        assert_eq!(
            (noisy.verdict, noisy.inconclusive_because),
            (Verdict::Inconclusive, Some(InconclusiveReason::Noise))
        );
        for sample in [Sample::Identical(8), Sample::Paired(vec![0.0; 8])] {
            let equal = judge_alone(sample);
            assert_eq!((equal.verdict, equal.method, equal.p), (Verdict::Pass, Method::Identical, None));
        }
        let few = judge_alone(Sample::Paired(vec![0.1; 5]));
        assert_eq!(
            (few.verdict, few.inconclusive_because),
            (Verdict::Inconclusive, Some(InconclusiveReason::TooFewValues))
        );
        let none = judge_alone(Sample::Paired(Vec::new()));
        assert_eq!(
            (none.verdict, none.inconclusive_because),
            (Verdict::Inconclusive, Some(InconclusiveReason::NoValues))
        );
    }

    #[test]
    fn many_tests_make_failing_harder() {
        let rule = Rule::parse("latency_p99_us > +5%").expect("the rule is valid");
        let worse = comparison(Sample::Paired(vec![0.1; 8]));
        let decision = decide(&[(&worse, &rule)], 2, LookAlpha { can_fail: false, ..alpha() })[0];
        assert_eq!(
            (decision.verdict, decision.inconclusive_because),
            (Verdict::Inconclusive, Some(InconclusiveReason::TooManyTests))
        );
        let worse = comparison(Sample::Paired(vec![0.1; 16]));
        let decision = decide(&[(&worse, &rule)], 100, alpha())[0];
        assert_eq!(decision.verdict, Verdict::Fail);
    }

    #[test]
    fn a_metric_without_all_values_can_fail_but_not_pass() {
        let rule = Rule::parse("latency_p99_us > +5%").expect("the rule is valid");
        let better = Comparison {
            is_incomplete: true,
            ..comparison(Sample::Paired(vec![0.0, 0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0]))
        };
        let decision = decide(&[(&better, &rule)], 1, alpha())[0];
        assert_eq!(
            (decision.verdict, decision.inconclusive_because),
            (Verdict::Inconclusive, Some(InconclusiveReason::Incomplete))
        );
        let worse = Comparison { is_incomplete: true, ..comparison(Sample::Paired(vec![0.3; 8])) };
        assert_eq!(decide(&[(&worse, &rule)], 1, alpha())[0].verdict, Verdict::Fail);
    }

    #[test]
    fn values_without_pairs_are_compared_by_rank() {
        let base: Vec<f64> = (0..8).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
        let worse = base.iter().map(|value| value + 0.2).collect();
        let decision = judge_alone(Sample::Unpaired { base: base.clone(), head: worse });
        assert_eq!((decision.verdict, decision.method), (Verdict::Fail, Method::MannWhitney));
        assert_eq!(decision.cliffs_delta, Some(1.0));
        let same = judge_alone(Sample::Unpaired { base: base.clone(), head: base });
        assert_eq!(same.verdict, Verdict::Pass);
    }
}
