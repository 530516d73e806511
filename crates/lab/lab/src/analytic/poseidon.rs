//! Poseidon's figs. 7a and 7b, computed from the law's implementation and the paper's equations.

use super::summary;
use crate::summary::Summary;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_laws::{Ack, AnyLaw, AnyParams, Law, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};
use std::collections::BTreeMap;

/// Returns the target delay T from Eq. 3 in microseconds, for a rate in Gbps.
pub fn target_us(params: &PoseidonParams, rate_gbps: f64) -> f64 {
    let (p, k) = (params.target_range.get() as f64 / 1e3, params.target_floor.get() as f64 / 1e3);
    let (min, max) = (params.min_rate.get() as f64 / 1e9, params.max_rate.get() as f64 / 1e9);
    p * libm::log(max / rate_gbps.clamp(min, max)) / libm::log(max / min) + k
}

/// The fair rate of fig. 7a, in Gbps.
const FAIR_GBPS: f64 = 50.0;
/// The initial rate of fig. 7a, in Gbps.
const START_GBPS: f64 = 1.0;
/// The number of round trips in fig. 7a.
const ROUNDS: u32 = 60;

/// Fig. 7a: the law at the constant delay of a 50 Gbps fair share, compared with an increase of 1 Gbps per round trip.
pub(super) fn fair_ramp() -> Summary {
    let params = PoseidonParams::default();
    #[expect(clippy::cast_possible_truncation, reason = "a delay is a whole number of nanoseconds")]
    let fair_delay = Nanos::new((target_us(&params, FAIR_GBPS) * 1e3) as u64);
    // One 1000-byte packet per 8 us is 1 Gbps, so the window in packets equals the rate in Gbps.
    let path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::from_micros(8) };
    let mut law_params = AnyParams::for_law("poseidon").expect("Poseidon is a built-in law");
    if let AnyParams::Poseidon(params) = &mut law_params {
        params.initial_window = Packets::ONE;
    }
    let mut law = law_params
        .build(&path, Signals::RTT | Signals::MAX_HOP_DELAY)
        .expect("the paper's parameters are valid");
    let window = |law: &AnyLaw| law.decision().window.q24() as f64 / f64::from(1 << 24);
    let (mut poseidon, mut additive) = (vec![(0.0, window(&law))], vec![(0.0, START_GBPS)]);
    let (mut now, mut credit) = (Nanos::new(1_000_000), 0.0);
    for round in 1..=ROUNDS {
        // Process one window of ACKs, with one ACK per packet. A fractional packet carries over to the next round trip.
        credit += window(&law);
        #[expect(clippy::cast_possible_truncation, reason = "the integer part of a small window")]
        let packets = credit as u32;
        credit -= f64::from(packets);
        for _ in 0..packets {
            law.on_ack(&Ack {
                now,
                rtt: path.base_rtt,
                packets: 1,
                bytes: path.mtu,
                max_hop_delay: Some(fair_delay),
                ..Ack::EMPTY
            });
        }
        now += Nanos::from_micros(8);
        poseidon.push((f64::from(round), window(&law)));
        additive.push((f64::from(round), (START_GBPS + f64::from(round)).min(FAIR_GBPS)));
    }
    let rounds_to_reach = |points: &[(f64, f64)], share: f64| {
        points.iter().find(|(_, rate)| *rate >= share * FAIR_GBPS).map_or(f64::NAN, |(round, _)| *round)
    };
    let largest_distance =
        poseidon.iter().skip(20).map(|(_, rate)| (rate / FAIR_GBPS - 1.0).abs()).fold(0.0, f64::max);
    let values = BTreeMap::from([
        ("poseidon.rounds_to_95".into(), rounds_to_reach(&poseidon, 0.95)),
        ("additive.rounds_to_fair".into(), rounds_to_reach(&additive, 1.0)),
        ("poseidon.distance_after_20".into(), largest_distance),
    ]);
    let series =
        BTreeMap::from([("poseidon.rate_gbps".into(), poseidon), ("additive.rate_gbps".into(), additive)]);
    summary(values, series)
}

/// Fig. 7b: the target delay as a function of the rate, compared with a/sqrt(rate) + b, which matches it at both ends.
pub(super) fn target_curve() -> Summary {
    let params = PoseidonParams::default();
    let (min, max) = (0.02, 200.0);
    let (high, low) = (target_us(&params, min), target_us(&params, max));
    let a = (high - low) / (1.0 / libm::sqrt(min) - 1.0 / libm::sqrt(max));
    let inverse_root = |rate: f64| a / libm::sqrt(rate) + high - a / libm::sqrt(min);
    let steps = 120;
    let rates: Vec<f64> =
        (0..=steps).map(|i| min * libm::pow(max / min, f64::from(i) / f64::from(steps))).collect();
    let doublings: Vec<f64> = (0..13).map(|i| min * libm::pow(2.0, f64::from(i))).collect();
    let drop_range = |f: &dyn Fn(f64) -> f64| -> (f64, f64) {
        let drops = doublings.iter().map(|rate| f(*rate) - f(rate * 2.0));
        drops.fold((f64::INFINITY, 0.0), |(min, max), drop| (f64::min(min, drop), f64::max(max, drop)))
    };
    let (log_min, log_max) = drop_range(&|rate| target_us(&params, rate));
    let (root_min, root_max) = drop_range(&inverse_root);
    let values = BTreeMap::from([
        ("log.drop_per_doubling_min_us".into(), log_min),
        ("log.drop_per_doubling_max_us".into(), log_max),
        ("sqrt.drop_per_doubling_min_us".into(), root_min),
        ("sqrt.drop_per_doubling_max_us".into(), root_max),
    ]);
    let curve = |f: &dyn Fn(f64) -> f64| rates.iter().map(|rate| (*rate, f(*rate))).collect();
    let series = BTreeMap::from([
        ("log.target_us".into(), curve(&|rate| target_us(&params, rate))),
        ("sqrt.target_us".into(), curve(&inverse_root)),
    ]);
    summary(values, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_match_the_paper() {
        let params = PoseidonParams::default();
        for (flows, delay) in [(1.0, 2.0), (2.0, 5.01), (10.0, 12.0), (100.0, 22.0), (1000.0, 32.0)] {
            assert!((target_us(&params, 200.0 / flows) - delay).abs() < 0.01, "{flows}");
        }
    }

    #[test]
    fn the_law_ramps_up_as_in_fig_7a() {
        let values = &fair_ramp().phases[0].values;
        assert!((15.0..=18.0).contains(&values["poseidon.rounds_to_95"]), "{values:?}");
    }
}
