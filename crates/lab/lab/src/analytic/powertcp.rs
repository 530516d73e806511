//! PowerTCP's figs 2 and 3: its fluid model.

use super::summary;
use crate::summary::Summary;
use poseidon_models::powertcp_fluid::State;
use poseidon_models::powertcp_fluid::{Law, System};
use poseidon_models::powertcp_phase::{Row, phase_plot, trajectory};
use std::collections::BTreeMap;

/// The laws of fig. 2 by the names of their signals.
const SIGNALS: [(&str, Law); 4] = [
    ("queue-length", Law::QueueLength),
    ("delay", Law::Delay),
    ("gradient", Law::RttGradient),
    ("power", Law::Power),
];

/// By how much each law divides a window: f / e, which is what the paper draws as a decrease.
fn reactions(points: &[(f64, f64, f64)]) -> Summary {
    let (mut values, mut series) = (BTreeMap::new(), BTreeMap::new());
    for (name, law) in SIGNALS {
        let system = System::paper(law);
        let (bdp, b) = (system.bdp_bytes(), system.bandwidth);
        // Queue as a part of the BDP, its slope as a part of the bandwidth.
        let curve: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, queue, slope)| (*x, 1.0 / system.reaction(queue * bdp, slope * b, b)))
            .collect();
        let (first, last) = (curve[0], curve[curve.len() - 1]);
        values.insert(format!("{name}.first"), first.1);
        values.insert(format!("{name}.last"), last.1);
        // One where the reaction is proportional to one more than what is drawn, zero where it is flat.
        values.insert(
            format!("{name}.slope"),
            (last.1 - first.1) / (last.0 - first.0) / first.1 * (1.0 + first.0),
        );
        series.insert(format!("{name}.decrease"), curve);
    }
    summary(values, series)
}

/// Fig. 2a: the queue is half a BDP and grows, from not at all to eight times the bandwidth.
pub(super) fn reaction_by_slope() -> Summary {
    let points: Vec<(f64, f64, f64)> = (0..=80).map(|i| f64::from(i) / 10.0).map(|x| (x, 0.5, x)).collect();
    reactions(&points)
}

/// Fig. 2b: the queue grows at half the bandwidth, and is between empty and four BDPs long.
pub(super) fn reaction_by_queue() -> Summary {
    let points: Vec<(f64, f64, f64)> = (0..=80).map(|i| f64::from(i) / 20.0).map(|x| (x, x, 0.5)).collect();
    reactions(&points)
}

/// What a phase plot comes to.
struct Plot {
    name: &'static str,
    system: System,
    paths: Vec<Vec<Row>>,
}

impl Plot {
    fn of(name: &'static str, law: Law) -> Self {
        let system = System::paper(law);
        let paths = phase_plot(&system);
        Self { name, system, paths }
    }

    /// Window and queue of every path, in BDPs, a few points per round trip; and where each path ends.
    fn draw(&self, series: &mut BTreeMap<String, Vec<(f64, f64)>>) {
        let bdp = self.system.bdp_bytes();
        for (number, path) in self.paths.iter().enumerate() {
            let points = path.iter().map(|row| (row.window_bytes / bdp, row.queue_bytes / bdp)).collect();
            series.insert(format!("{}[{number}].path", self.name), points);
        }
    }

    fn values(&self, values: &mut BTreeMap<String, f64>) {
        let bdp = self.system.bdp_bytes();
        let ends = || self.paths.iter().map(|path| path[path.len() - 1].queue_bytes / bdp);
        let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        let mut put = |name: &str, value: f64| values.insert(format!("{}.{name}", self.name), value);
        put("end_spread_bdp", high - low);
        put("end_queue_bdp", high);
        // Starts at or above the BDP from which the link then idles.
        let above = self.paths.iter().filter(|path| path[0].window_bytes >= bdp);
        let idles =
            |path: &&Vec<Row>| path.iter().any(|row| row.queue_bytes == 0.0 && row.window_bytes < bdp);
        let all = above.clone().count() as f64;
        put("idle_share", above.filter(idles).count() as f64 / all);
    }
}

fn phases(plots: &[Plot], more: &[(&str, f64)]) -> Summary {
    let mut values: BTreeMap<String, f64> =
        more.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let mut series = BTreeMap::new();
    for plot in plots {
        plot.draw(&mut series);
        plot.values(&mut values);
    }
    summary(values, series)
}

/// Fig. 3a.
pub(super) fn phase_voltage() -> Summary {
    phases(&[Plot::of("queue-length", Law::QueueLength), Plot::of("delay", Law::Delay)], &[])
}

/// Fig. 3b; beside it without additive increase, where different ends are ends.
pub(super) fn phase_gradient() -> Summary {
    let with = Plot::of("gradient", Law::RttGradient);
    let mut system = System::paper(Law::RttGradient);
    system.increases_bytes = vec![0.0];
    let paths = phase_plot(&system);
    phases(&[with, Plot { name: "gradient-without-increase", system, paths }], &[])
}

/// Fig. 3c, and Theorem 2: what is left of an error after five time constants.
pub(super) fn phase_power() -> Summary {
    let plot = Plot::of("power", Law::Power);
    let (system, rest) = (&plot.system, plot.system.equilibrium());
    let start = State::one(2.0 * rest.window_bytes(), rest.queue_bytes);
    let way = trajectory(system, &start, 5.0 * system.time_constant_ns(), 2);
    let error = |row: &Row| (row.window_bytes / rest.window_bytes() - 1.0).abs();
    let left = error(&way[1]) / error(&way[0]);
    phases(&[plot], &[("power.error_left", left)])
}
