//! Poseidon's figs 7a and 7b: the law's own arithmetic against the paper's equations.

use super::summary;
use crate::summary::Summary;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_laws::{Ack, AnyParams, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};
use std::collections::BTreeMap;

/// T of Eq. 3 at a rate in Gbps, us.
pub fn target_us(params: &PoseidonParams, rate_gbps: f64) -> f64 {
    let (p, k) = (params.target_range.get() as f64 / 1e3, params.target_floor.get() as f64 / 1e3);
    let (min, max) = (params.min_rate.get() as f64 / 1e9, params.max_rate.get() as f64 / 1e9);
    p * libm::log(max / rate_gbps.clamp(min, max)) / libm::log(max / min) + k
}

/// The fair rate of fig. 7a, and where flows begin, Gbps.
const FAIR: f64 = 50.0;
const BEGIN: f64 = 1.0;
/// Round trips that are drawn.
const ROUNDS: u32 = 60;

/// Fig. 7a: the real law, told in each round trip the delay that a fair share of 50 Gbps has; beside it, +1 Gbps per round trip.
pub(super) fn fair_ramp() -> Summary {
    let params = PoseidonParams::default();
    #[expect(clippy::cast_possible_truncation, reason = "a delay is counted in whole nanoseconds")]
    let fair_delay = Nanos::new((target_us(&params, FAIR) * 1e3) as u64);
    // A packet of 1000 bytes per 8 us is 1 Gbps: the window in packets is the rate in Gbps.
    let path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::from_micros(8) };
    let mut with = AnyParams::of("poseidon").expect("it is in the table");
    if let AnyParams::Poseidon(with) = &mut with {
        with.initial_window = Packets::ONE;
    }
    let mut law = with.build(&path, Signals::RTT | Signals::MAX_HOP_DELAY).expect("the paper's values");
    let window = |law: &poseidon_laws::AnyLaw| law.decision().window.q24() as f64 / f64::from(1 << 24);
    let (mut poseidon, mut additive) = (vec![(0.0, window(&law))], vec![(0.0, BEGIN)]);
    let (mut now, mut credit) = (Nanos::new(1_000_000), 0.0);
    for round in 1..=ROUNDS {
        // One window of ACKs, each of one packet; what is left of a packet counts in the next round trip.
        credit += window(&law);
        #[expect(clippy::cast_possible_truncation, reason = "a window of ACKs is a whole number, and small")]
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
        additive.push((f64::from(round), (BEGIN + f64::from(round)).min(FAIR)));
    }
    let reach = |points: &[(f64, f64)], share: f64| {
        points.iter().find(|(_, rate)| *rate >= share * FAIR).map_or(f64::NAN, |(round, _)| *round)
    };
    let worst_later = poseidon.iter().skip(20).map(|(_, rate)| (rate / FAIR - 1.0).abs()).fold(0.0, f64::max);
    let values = BTreeMap::from([
        ("poseidon.rounds_to_95".into(), reach(&poseidon, 0.95)),
        ("additive.rounds_to_fair".into(), reach(&additive, 1.0)),
        ("poseidon.distance_after_20".into(), worst_later),
    ]);
    let series =
        BTreeMap::from([("poseidon.rate_gbps".into(), poseidon), ("additive.rate_gbps".into(), additive)]);
    summary(values, series)
}

/// Fig. 7b: the target by rate, and the alternative a/sqrt(rate) + b that meets it at both ends.
pub(super) fn target_curve() -> Summary {
    let params = PoseidonParams::default();
    let (min, max) = (0.02, 200.0);
    let (high, low) = (target_us(&params, min), target_us(&params, max));
    let a = (high - low) / (1.0 / libm::sqrt(min) - 1.0 / libm::sqrt(max));
    let root = |rate: f64| a / libm::sqrt(rate) + high - a / libm::sqrt(min);
    let steps = 120;
    let rates: Vec<f64> =
        (0..=steps).map(|i| min * libm::pow(max / min, f64::from(i) / f64::from(steps))).collect();
    let doublings: Vec<f64> = (0..13).map(|i| min * libm::pow(2.0, f64::from(i))).collect();
    let drop = |f: &dyn Fn(f64) -> f64| -> (f64, f64) {
        let drops = doublings.iter().map(|rate| f(*rate) - f(rate * 2.0));
        drops.fold((f64::INFINITY, 0.0), |(least, most), drop| (f64::min(least, drop), f64::max(most, drop)))
    };
    let (least, most) = drop(&|rate| target_us(&params, rate));
    let (root_least, root_most) = drop(&root);
    let values = BTreeMap::from([
        ("log.drop_per_doubling_min_us".into(), least),
        ("log.drop_per_doubling_max_us".into(), most),
        ("sqrt.drop_per_doubling_min_us".into(), root_least),
        ("sqrt.drop_per_doubling_max_us".into(), root_most),
    ]);
    let curve = |f: &dyn Fn(f64) -> f64| rates.iter().map(|rate| (*rate, f(*rate))).collect();
    let series = BTreeMap::from([
        ("log.target_us".into(), curve(&|rate| target_us(&params, rate))),
        ("sqrt.target_us".into(), curve(&root)),
    ]);
    summary(values, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_papers() {
        let params = PoseidonParams::default();
        for (flows, delay) in [(1.0, 2.0), (2.0, 5.01), (10.0, 12.0), (100.0, 22.0), (1000.0, 32.0)] {
            assert!((target_us(&params, 200.0 / flows) - delay).abs() < 0.01, "{flows}");
        }
    }

    #[test]
    fn the_law_itself_ramps_as_fig_7a() {
        let values = &fair_ramp().phases[0].values;
        assert!((15.0..=18.0).contains(&values["poseidon.rounds_to_95"]), "{values:?}");
    }
}
