//! The effect of a plan on traffic that is not its objective.

use super::RolloutError;
use super::evaluation::{SeedSet, Upgrades};
use super::network::Network;
use super::objective::Direction;
use super::plan::{RolloutPlan, SideEffect, Unit};
use crate::scenario::{Scenario, TrafficKind, TrafficSpec};
use crate::stats::mean;

impl RolloutPlan {
    /// Measures the effect of the plan on each traffic pattern that the objective does not measure. The runs are stored,
    /// because the search has used them. Without upgrades, there is no effect.
    pub(super) fn measure_side_effects(
        &mut self,
        network: &Network<'_>,
        scenario: &Scenario,
        units: &[Unit],
    ) -> Result<(), RolloutError> {
        let is_upgraded = |unit: &Unit| self.search.steps.iter().any(|step| step.unit == *unit);
        let upgraded: Upgrades =
            units.iter().enumerate().filter(|(_, unit)| is_upgraded(unit)).map(|(index, _)| index).collect();
        if upgraded.is_empty() {
            return Ok(());
        }
        let configurations = [Upgrades::new(), upgraded, (0..units.len()).collect()];
        let metrics = other_metrics(scenario, &self.objective.metric);
        let values = network.metrics(&configurations, SeedSet::Judge, &metrics)?;
        self.side_effects = metrics
            .into_iter()
            .enumerate()
            .filter_map(|(index, metric)| {
                let [before, after, all] =
                    [0, 1, 2].map(|configuration| values[configuration][index].clone());
                side_effect(metric, &before?, &after?, &all?)
            })
            .collect();
        Ok(())
    }
}

/// Returns the effect on a metric from its values, one per seed and configuration.
fn side_effect(metric: String, before: &[f64], after: &[f64], all: &[f64]) -> Option<SideEffect> {
    let direction = Direction::of_metric(&metric)?;
    Some(SideEffect {
        direction,
        before: mean(before)?,
        after: mean(after)?,
        all_upgraded: mean(all)?,
        gain: direction.gain(before, after),
        metric,
    })
}

/// Returns the main metric of each traffic pattern, except for the pattern that the objective measures.
fn other_metrics(scenario: &Scenario, objective: &str) -> Vec<String> {
    let owner = objective.rsplit_once('.').map_or("", |(owner, _)| owner);
    let others = scenario.traffic.iter().filter(|traffic| traffic.name != owner);
    others.map(|traffic| format!("{}.{}", traffic.name, main_metric(traffic))).collect()
}

/// Returns the metric that describes a traffic pattern best. A median needs few messages.
fn main_metric(traffic: &TrafficSpec) -> &'static str {
    match traffic.kind {
        TrafficKind::Collective => "completion_us",
        _ if traffic.is_long() => "rate_gbps",
        _ => "slowdown_p50",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_metric;
    use crate::scenario::read_cells;

    const TRAFFIC: &str = "[topology]\nkind = \"star\"\nhosts = 4\n\
                           link = { rate = \"100 Gbps\", delay = \"1 us\" }\n\
                           [[traffic]]\nname = \"long\"\nkind = \"long-flows\"\nfrom = \"host0\"\nto = \"host1\"\n\
                           [[traffic]]\nname = \"burst\"\nkind = \"incast\"\nfrom = \"host[0-2]\"\nto = \"host3\"\n\
                           size = \"1 MB\"\n\
                           [[traffic]]\nname = \"job\"\nkind = \"collective\"\nalgorithm = \"ring-all-reduce\"\n\
                           size = \"1 MB\"\n";

    #[test]
    fn every_other_traffic_has_a_metric_that_is_measured_and_has_a_direction() {
        let text = format!("title = \"a\"\nsource = \"b\"\nstop = \"1 ms\"\n{TRAFFIC}");
        let scenario = &read_cells("a.toml", &text, false).expect("the scenario is valid")[0].scenario;
        assert_eq!(other_metrics(scenario, "burst.latency_p99_us"), ["long.rate_gbps", "job.completion_us"]);
        let all = other_metrics(scenario, "queue.delay_p99_us");
        assert_eq!(all.len(), 3);
        for metric in all {
            check_metric(scenario, &metric).unwrap_or_else(|error| panic!("{error}"));
            assert!(Direction::of_metric(&metric).is_some(), "{metric}");
        }
    }

    #[test]
    fn a_cost_is_a_negative_gain() {
        let effect = side_effect("a.slowdown_p50".into(), &[2.0, 3.0], &[2.5, 3.5], &[2.0, 2.0]);
        let effect = effect.expect("there are seeds");
        assert_eq!((effect.before, effect.after, effect.all_upgraded), (2.5, 3.0, 2.0));
        assert_eq!(effect.gain.mean, -0.5);
        assert!(side_effect("a.rate_gbps".into(), &[], &[], &[]).is_none());
    }
}
