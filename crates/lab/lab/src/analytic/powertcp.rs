//! PowerTCP's figs. 2 and 3, computed from its fluid model.

use super::summary;
use crate::summary::Summary;
use poseidon_models::powertcp_fluid::State;
use poseidon_models::powertcp_fluid::{Law, System};
use poseidon_models::powertcp_phase::{TrajectoryPoint, phase_plot, trajectory};
use std::collections::BTreeMap;

/// The laws in fig. 2, named after their signals.
const SIGNALS: [(&str, Law); 4] = [
    ("queue-length", Law::QueueLength),
    ("delay", Law::Delay),
    ("gradient", Law::RttGradient),
    ("power", Law::Power),
];

/// Evaluates the factor f / e by which each law divides the window. The paper plots this factor as a decrease.
fn reactions(points: &[(f64, f64, f64)]) -> Summary {
    let (mut values, mut series) = (BTreeMap::new(), BTreeMap::new());
    for (name, law) in SIGNALS {
        let system = System::paper(law);
        let (bdp, b) = (system.bdp_bytes(), system.bandwidth);
        // Queue lengths are multiples of the BDP, and slopes are multiples of the bandwidth.
        let curve: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, queue, slope)| (*x, 1.0 / system.reaction(queue * bdp, slope * b, b)))
            .collect();
        let (first, last) = (curve[0], curve[curve.len() - 1]);
        values.insert(format!("{name}.first"), first.1);
        values.insert(format!("{name}.last"), last.1);
        // The slope is one if the reaction is proportional to 1 + x, and zero if it does not depend on x.
        values.insert(
            format!("{name}.slope"),
            (last.1 - first.1) / (last.0 - first.0) / first.1 * (1.0 + first.0),
        );
        series.insert(format!("{name}.decrease"), curve);
    }
    summary(values, series)
}

/// Fig. 2a: the queue is half a BDP long and grows at a rate of zero to eight times the bandwidth.
pub(super) fn reaction_by_slope() -> Summary {
    let points: Vec<(f64, f64, f64)> = (0..=80).map(|i| f64::from(i) / 10.0).map(|x| (x, 0.5, x)).collect();
    reactions(&points)
}

/// Fig. 2b: the queue grows at half the bandwidth and is zero to four BDPs long.
pub(super) fn reaction_by_queue() -> Summary {
    let points: Vec<(f64, f64, f64)> = (0..=80).map(|i| f64::from(i) / 20.0).map(|x| (x, x, 0.5)).collect();
    reactions(&points)
}

/// The phase plot of a law.
struct PhasePlot {
    name: &'static str,
    system: System,
    paths: Vec<Vec<TrajectoryPoint>>,
}

impl PhasePlot {
    fn new(name: &'static str, law: Law) -> Self {
        let system = System::paper(law);
        let paths = phase_plot(&system);
        Self { name, system, paths }
    }

    /// Adds each path's window and queue in BDPs, with a few points per round trip.
    fn add_series(&self, series: &mut BTreeMap<String, Vec<(f64, f64)>>) {
        let bdp = self.system.bdp_bytes();
        for (number, path) in self.paths.iter().enumerate() {
            let points = path.iter().map(|row| (row.window_bytes / bdp, row.queue_bytes / bdp)).collect();
            series.insert(format!("{}[{number}].path", self.name), points);
        }
    }

    /// Adds the queue lengths at the path ends, and the share of paths that leave the link idle.
    fn add_values(&self, values: &mut BTreeMap<String, f64>) {
        let bdp = self.system.bdp_bytes();
        let ends = || self.paths.iter().map(|path| path[path.len() - 1].queue_bytes / bdp);
        let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        let mut insert = |name: &str, value: f64| values.insert(format!("{}.{name}", self.name), value);
        insert("end_spread_bdp", high - low);
        insert("end_queue_bdp", high);
        // Of the paths that start at or above one BDP, compute the share that later leave the link idle.
        let above = self.paths.iter().filter(|path| path[0].window_bytes >= bdp);
        let idles = |path: &&Vec<TrajectoryPoint>| {
            path.iter().any(|row| row.queue_bytes == 0.0 && row.window_bytes < bdp)
        };
        let total = above.clone().count() as f64;
        insert("idle_share", above.filter(idles).count() as f64 / total);
    }
}

fn phase_summary(plots: &[PhasePlot], extra_values: &[(&str, f64)]) -> Summary {
    let mut values: BTreeMap<String, f64> =
        extra_values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let mut series = BTreeMap::new();
    for plot in plots {
        plot.add_series(&mut series);
        plot.add_values(&mut values);
    }
    summary(values, series)
}

/// Fig. 3a: the phase plots of queue length and delay.
pub(super) fn phase_voltage() -> Summary {
    phase_summary(
        &[PhasePlot::new("queue-length", Law::QueueLength), PhasePlot::new("delay", Law::Delay)],
        &[],
    )
}

/// Fig. 3b, and the same law without additive increase, where the paths end in different equilibria.
pub(super) fn phase_gradient() -> Summary {
    let with_increase = PhasePlot::new("gradient", Law::RttGradient);
    let mut system = System::paper(Law::RttGradient);
    system.increases_bytes = vec![0.0];
    let paths = phase_plot(&system);
    phase_summary(&[with_increase, PhasePlot { name: "gradient-without-increase", system, paths }], &[])
}

/// Fig. 3c and Theorem 2: the fraction of the initial error that remains after five time constants.
pub(super) fn phase_power() -> Summary {
    let plot = PhasePlot::new("power", Law::Power);
    let (system, equilibrium) = (&plot.system, plot.system.equilibrium());
    let start = State::single_flow(2.0 * equilibrium.window_bytes(), equilibrium.queue_bytes);
    let path = trajectory(system, &start, 5.0 * system.time_constant_ns(), 2);
    let error = |row: &TrajectoryPoint| (row.window_bytes / equilibrium.window_bytes() - 1.0).abs();
    let remaining = error(&path[1]) / error(&path[0]);
    phase_summary(&[plot], &[("power.error_left", remaining)])
}
