//! The figure of a rollout: the objective against the number of upgrades.

use super::plan::{Baseline, BaselinePoint, Order, Point, RolloutPlan, Search};
use crate::store::{Store, StoreError, write_file, write_json};
use poseidon_figures::{Axis, Chart, LineSeries, Marks, Scale, render_csv, render_svg};
use std::path::PathBuf;

impl RolloutPlan {
    /// Returns the chart: the chosen order with its 95 % interval, the baselines, and the objective if all candidates are
    /// upgraded.
    pub fn chart(&self) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear, from: None, to: None };
        let Search { start, steps, baselines, all_upgraded, .. } = &self.search;
        let chosen: Vec<&Point> =
            core::iter::once(start).chain(steps.iter().map(|step| &step.point)).collect();
        let mut lines = vec![LineSeries {
            // The interval is that of the paired change from the start, because seeds differ more than upgrades.
            half_widths: chosen.iter().map(|point| point.gain.half.unwrap_or(0.0)).collect(),
            ..line("greedy", chosen.iter().map(|point| (point.upgrades, point.mean)))
        }];
        lines.extend(baselines.iter().flat_map(|baseline| baseline_lines(baseline, start.mean)));
        let last = steps.len().max(1);
        let all = line("all candidates upgraded", [(0, all_upgraded.mean), (last, all_upgraded.mean)]);
        lines.push(LineSeries { is_reference: true, ..all });
        let (from, to) = value_range(&lines).unzip();
        Chart {
            title: format!("Rollout of telemetry: {}", self.study),
            x: axis("upgrades"),
            y: Axis { from, to, ..axis(&self.objective.metric) },
            marks: Marks::Lines(lines),
            notes: vec![format!("{} seeds; band: 95 % interval of the paired gain", self.judging_seeds)],
        }
    }

    /// Writes the plan as JSON, and its chart as SVG and CSV. The file names contain the cell and the objective, so that
    /// the plans of a study do not replace each other. Returns the path of the SVG file.
    pub fn write(&self, store: &Store) -> Result<PathBuf, StoreError> {
        let folder = store.study_folder(&self.study);
        let chart = [self.chart()];
        let name = file_stem(&self.cell, &self.objective.metric);
        write_json(&folder, &format!("{name}.json"), self)?;
        write_file(&folder, &format!("{name}.csv"), render_csv(&chart).as_bytes())?;
        let figure = format!("{name}.svg");
        write_file(&folder, &figure, render_svg(&chart).as_bytes())?;
        Ok(folder.join(figure))
    }
}

/// Returns the name of the files of a plan, without the extension: `rollout-victim.latency_p99_us`.
fn file_stem(cell: &str, objective: &str) -> String {
    let parts = ["rollout", cell, objective].into_iter().filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("-");
    let is_kept = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    name.chars().map(|c| if is_kept(c) { c } else { '-' }).take(200).collect()
}

fn line(name: &str, points: impl IntoIterator<Item = (usize, f64)>) -> LineSeries {
    let points = points.into_iter().map(|(upgrades, value)| (upgrades as f64, value)).collect();
    LineSeries { name: name.to_owned(), points, half_widths: Vec::new(), is_reference: false }
}

/// Returns the range of the values and their intervals with a margin of a tenth. An axis from zero would hide the gains.
/// Returns `None` if all values are equal.
fn value_range(lines: &[LineSeries]) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for line in lines {
        for (index, (_, value)) in line.points.iter().enumerate() {
            let half = line.half_widths.get(index).copied().unwrap_or(0.0);
            (low, high) = (low.min(value - half), high.max(value + half));
        }
    }
    let margin = (high - low) / 10.0;
    (margin > 0.0 && margin.is_finite()).then_some((low - margin, high + margin))
}

/// Returns a baseline's mean, and its range if it has several orders. All lines begin at the start.
fn baseline_lines(baseline: &Baseline, start: f64) -> Vec<LineSeries> {
    let points = |value: fn(&BaselinePoint) -> f64| {
        core::iter::once((0, start))
            .chain(baseline.points.iter().map(move |point| (point.upgrades, value(point))))
    };
    match baseline.order {
        Order::BottleneckFirst => vec![line("bottleneck first", points(BaselinePoint::mean))],
        Order::Random => {
            let reference =
                |name: &str, value| LineSeries { is_reference: true, ..line(name, points(value)) };
            vec![
                line("random, mean", points(BaselinePoint::mean)),
                reference("random, lowest", |point| point.range().0),
                reference("random, highest", |point| point.range().1),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_for_different_objectives_have_different_files() {
        assert_eq!(file_stem("", "victim.latency_p99_us"), "rollout-victim.latency_p99_us");
        assert_eq!(file_stem("law swift, n 2", "a/b.share"), "rollout-law-swift--n-2-a-b.share");
    }

    #[test]
    fn the_axis_shows_all_values_and_intervals() {
        let greedy = LineSeries { half_widths: vec![0.0, 2.0], ..line("greedy", [(0, 10.0), (1, 18.0)]) };
        let flat = line("all", [(0, 15.0), (1, 15.0)]);
        assert_eq!(value_range(&[greedy, flat.clone()]), Some((9.0, 21.0)));
        assert_eq!(value_range(&[flat]), None);
        assert_eq!(value_range(&[]), None);
    }
}
