//! VAI + SF's fig. 4: its fluid model of two flows that decrease.

use super::summary;
use crate::summary::Summary;
use poseidon_models::sampling_fluid::Decrease;
use std::collections::BTreeMap;

/// Fig. 4: by how much sampling is fairer, over the paper's 200 us and until it no longer is.
pub(super) fn sampling_decrease() -> Summary {
    let model = Decrease::FIG4;
    let curve = model.curve(50.0, 40_001);
    let (peak_at, peak) =
        curve.iter().copied().fold((0.0, 0.0), |best, at| if at.1 > best.1 { at } else { best });
    let crossing = curve.iter().skip(1).find(|(_, value)| *value <= 0.0).map_or(f64::NAN, |(at, _)| *at);
    let lowest = curve.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let least_drawn = curve
        .iter()
        .skip(1)
        .take_while(|(at, _)| *at <= 200_000.0)
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let values = BTreeMap::from([
        ("sampling.advantage_peak".into(), peak),
        ("sampling.peak_at_us".into(), peak_at / 1e3),
        ("sampling.advantage_at_100_us".into(), model.advantage(100_000.0)),
        ("sampling.least_until_200_us".into(), least_drawn),
        ("sampling.turns_negative_at_us".into(), crossing / 1e3),
        ("sampling.lowest".into(), lowest),
    ]);
    let gap = |of: fn(&Decrease, f64) -> [f64; 2]| -> Vec<(f64, f64)> {
        let at = |i: u32| f64::from(i) * 500.0;
        (0..=400).map(|i| (at(i) / 1e3, of(&model, at(i))[0] - of(&model, at(i))[1])).collect()
    };
    let drawn = |(at, value): &(f64, f64)| (at / 1e3, *value);
    let series = BTreeMap::from([
        ("sampling.advantage".into(), curve.iter().step_by(10).take(401).map(drawn).collect()),
        ("sampling.gap".into(), gap(Decrease::sampled)),
        ("per-rtt.gap".into(), gap(Decrease::per_rtt)),
    ]);
    summary(values, series)
}
