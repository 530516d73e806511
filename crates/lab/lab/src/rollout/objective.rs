//! The metric that a rollout improves.

use super::RolloutError;
use crate::check::check_metric;
use crate::scenario::Scenario;
use crate::stats::Estimate;
use serde::Serialize;

/// Whether a smaller or a larger value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// A smaller value is better.
    Minimise,
    /// A larger value is better.
    Maximise,
}

/// The starts of metric names for which a smaller value is better. They take precedence over [`LARGER_IS_BETTER`].
const SMALLER_IS_BETTER: &[&str] = &[
    "arrival_",
    "buffer_",
    "completion_",
    "converged_us",
    "cuts",
    "delay_",
    "drops",
    "fair_us",
    "fairness_gap",
    "finish_last_us",
    "finish_spread_us",
    "latency_",
    "pauses",
    "queueing_us",
    "rate_sd_",
    "retransmitted",
    "rtt_",
    "slowdown_",
    "srtt_us",
    "straggler",
    "t90_us",
    "timeouts",
    "unfinished",
    "waiting_",
    "wobble_gbps",
];

/// The starts of metric names for which a larger value is better.
const LARGER_IS_BETTER: &[&str] = &[
    "algbw_",
    "busbw_",
    "fair_reached",
    "jain",
    "rate_",
    "share",
    "t90_reached",
    "total_gbps",
    "utilisation",
];

impl Direction {
    /// Returns the direction of a metric, or `None` if neither direction is better in general.
    pub fn of_metric(name: &str) -> Option<Self> {
        let metric = name.rsplit_once('.').map_or(name, |(_, metric)| metric);
        let starts = |names: &[&str]| names.iter().any(|start| metric.starts_with(start));
        if starts(SMALLER_IS_BETTER) {
            Some(Self::Minimise)
        } else if starts(LARGER_IS_BETTER) {
            Some(Self::Maximise)
        } else {
            None
        }
    }

    /// Estimates the gain from paired values, one pair per seed. A positive gain is an improvement.
    ///
    /// # Panics
    /// Panics if there are no seeds.
    pub(super) fn gain(self, before: &[f64], after: &[f64]) -> Estimate {
        let differences: Vec<f64> = before
            .iter()
            .zip(after)
            .map(|(before, after)| match self {
                Self::Minimise => before - after,
                Self::Maximise => after - before,
            })
            .collect();
        Estimate::from_values(&differences).expect("there is at least one seed")
    }
}

/// A metric and the direction of improvement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Objective {
    /// The metric, such as `victim.latency_p99_us`.
    pub metric: String,
    /// Whether a smaller or a larger value is better.
    pub direction: Direction,
}

impl Objective {
    /// Checks a requested objective against the scenario, or chooses the default: the 99th percentile of the latency, if
    /// exactly one traffic pattern has messages.
    pub(super) fn new(
        scenario: &Scenario,
        metric: Option<&str>,
        direction: Option<Direction>,
    ) -> Result<Self, RolloutError> {
        let metric = match metric {
            Some(metric) => metric.to_owned(),
            None => default_metric(scenario)?,
        };
        check_metric(scenario, &metric).map_err(RolloutError::Objective)?;
        match direction.or_else(|| Direction::of_metric(&metric)) {
            Some(direction) => Ok(Self { metric, direction }),
            None => Err(RolloutError::NoDirection { metric }),
        }
    }
}

fn default_metric(scenario: &Scenario) -> Result<String, RolloutError> {
    let with_messages: Vec<&str> = scenario
        .traffic
        .iter()
        .filter(|traffic| !traffic.is_long())
        .map(|traffic| traffic.name.as_str())
        .collect();
    match with_messages.as_slice() {
        [name] => Ok(format!("{name}.latency_p99_us")),
        _ => Err(RolloutError::NoObjective { examples: example_metrics(scenario) }),
    }
}

/// Returns some metrics that the scenario measures.
fn example_metrics(scenario: &Scenario) -> Vec<String> {
    let mut examples = Vec::new();
    let mut add = |owner: &str, metrics: &[&str]| {
        examples.extend(metrics.iter().map(|metric| format!("{owner}.{metric}")));
    };
    let of_messages = ["latency_mean_us", "latency_p99_us", "slowdown_p99"];
    for traffic in &scenario.traffic {
        let metrics = if traffic.is_long() { ["share", "rate_gbps", "jain"] } else { of_messages };
        add(&traffic.name, &metrics);
    }
    scenario.observe.classes.keys().for_each(|class| add(class, &of_messages));
    scenario.observe.queues.keys().for_each(|queue| add(queue, &["delay_p99_us"]));
    examples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::read_cells;
    use crate::summary::METRICS;

    fn objective(
        traffic: &str,
        metric: Option<&str>,
        direction: Option<Direction>,
    ) -> Result<Objective, String> {
        let text = format!("title = \"t\"\nsource = \"s\"\nstop = \"1 ms\"\n{traffic}");
        let cells = read_cells("test.toml", &text, false).expect("the scenario is valid");
        Objective::new(&cells[0].scenario, metric, direction).map_err(|error| error.to_string())
    }

    const MESSAGES: &str = "[[traffic]]\nname = \"rpc\"\nkind = \"uniform-random\"\n";
    const LONG: &str = "[[traffic]]\nname = \"bulk\"\nkind = \"long-flows\"\n";

    #[test]
    fn the_default_is_the_tail_latency_of_the_only_messages() {
        let expected = Objective { metric: "rpc.latency_p99_us".into(), direction: Direction::Minimise };
        assert_eq!(objective(&format!("{MESSAGES}{LONG}"), None, None), Ok(expected));
        let none = objective(LONG, None, None).expect_err("there are no messages");
        assert!(none.ends_with("such as bulk.share, bulk.rate_gbps, bulk.jain"), "{none}");
        let two = format!("{MESSAGES}{}", MESSAGES.replace("rpc", "other"));
        let two = objective(&two, None, None).expect_err("two patterns have messages");
        assert!(two.contains("rpc.latency_p99_us") && two.contains("other.slowdown_p99"), "{two}");
    }

    #[test]
    fn a_requested_objective_must_be_measured_and_have_a_direction() {
        let share = objective(LONG, Some("bulk.share"), None).expect("the metric is measured");
        assert_eq!(share.direction, Direction::Maximise);
        let unknown = objective(LONG, Some("bulk.shre"), None).expect_err("the metric does not exist");
        assert!(
            unknown.starts_with("--objective: ") && unknown.contains("did you mean \"share\"?"),
            "{unknown}"
        );
        assert!(objective(LONG, Some("bulk.latency_p99_us"), None).is_err(), "long flows have no latency");
        let neutral = objective(LONG, Some("run.marks"), None).expect_err("no direction is better");
        assert!(neutral.contains("--maximise or --minimise"), "{neutral}");
        let marks = objective(LONG, Some("run.marks"), Some(Direction::Minimise));
        assert!(marks.is_ok_and(|marks| marks.direction == Direction::Minimise));
    }

    #[test]
    fn metrics_have_the_expected_direction() {
        for (metric, expected) in [
            ("a.latency_p99_us", Some(Direction::Minimise)),
            ("a.slowdown_p50", Some(Direction::Minimise)),
            ("q.delay_mean_us", Some(Direction::Minimise)),
            ("a.rate_sd_gbps", Some(Direction::Minimise)),
            ("a.rate_min_gbps", Some(Direction::Maximise)),
            ("a.share_min", Some(Direction::Maximise)),
            ("a.jain_mean", Some(Direction::Maximise)),
            ("q.utilisation", Some(Direction::Maximise)),
            ("a.finish_order", None),
            ("run.packet_hops", None),
        ] {
            assert_eq!(Direction::of_metric(metric), expected, "{metric}");
        }
        for start in SMALLER_IS_BETTER.iter().chain(LARGER_IS_BETTER) {
            assert!(
                METRICS.iter().any(|metric| metric.name.starts_with(start)),
                "no metric starts with {start}"
            );
        }
    }

    #[test]
    fn a_gain_is_positive_if_the_objective_improves() {
        let (before, after) = ([10.0, 20.0], [8.0, 17.0]);
        assert_eq!(Direction::Minimise.gain(&before, &after).mean, 2.5);
        assert_eq!(Direction::Maximise.gain(&before, &after).mean, -2.5);
        // Half the interval: the 0.975 quantile of one degree of freedom, times 0.5.
        let half = Direction::Minimise.gain(&before, &after).half.expect("there are two seeds");
        assert!((half - 12.706_204_74 * 0.5).abs() < 1e-9, "{half}");
    }
}
