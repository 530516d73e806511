//! VAI + SF's fig. 4, computed from its fluid model of two flows with decreasing rates.

use super::summary;
use crate::summary::Summary;
use poseidon_models::sampling_fluid::DecreaseModel;
use std::collections::BTreeMap;

/// Fig. 4: the fairness advantage of sampling over the paper's 200 us, and the time at which the advantage turns
/// negative.
pub(super) fn sampling_decrease() -> Summary {
    let model = DecreaseModel::FIG4;
    let curve = model.curve(50.0, 40_001);
    let (peak_time, peak) =
        curve.iter().copied().fold((0.0, 0.0), |best, point| if point.1 > best.1 { point } else { best });
    let crossing = curve.iter().skip(1).find(|(_, value)| *value <= 0.0).map_or(f64::NAN, |(time, _)| *time);
    let lowest = curve.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let lowest_until_200_us = curve
        .iter()
        .skip(1)
        .take_while(|(time, _)| *time <= 200_000.0)
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let values = BTreeMap::from([
        ("sampling.advantage_peak".into(), peak),
        ("sampling.peak_at_us".into(), peak_time / 1e3),
        ("sampling.advantage_at_100_us".into(), model.advantage(100_000.0)),
        ("sampling.least_until_200_us".into(), lowest_until_200_us),
        ("sampling.turns_negative_at_us".into(), crossing / 1e3),
        ("sampling.lowest".into(), lowest),
    ]);
    let gap = |rates: fn(&DecreaseModel, f64) -> [f64; 2]| -> Vec<(f64, f64)> {
        let time = |i: u32| f64::from(i) * 500.0;
        (0..=400).map(|i| (time(i) / 1e3, rates(&model, time(i))[0] - rates(&model, time(i))[1])).collect()
    };
    let in_micros = |(time, value): &(f64, f64)| (time / 1e3, *value);
    let series = BTreeMap::from([
        ("sampling.advantage".into(), curve.iter().step_by(10).take(401).map(in_micros).collect()),
        ("sampling.gap".into(), gap(DecreaseModel::sampled)),
        ("per-rtt.gap".into(), gap(DecreaseModel::per_rtt)),
    ]);
    summary(values, series)
}
