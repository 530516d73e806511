//! RPM's Lemma 1: the fluid model of the control loop, compared with the printed lemma.

use super::summary;
use crate::summary::Summary;
use poseidon_models::rpm_fluid::MarkingLoop;
use std::collections::BTreeMap;

/// A rate of 10 Gbps, in 1500-byte packets per second.
const TEN_GBPS: f64 = 1e10 / 12_000.0;
/// The round-trip time from the sender to the bottleneck, in seconds: 20 ms throughout table I.
const REVERSE_RTT: f64 = 0.020;

/// Evaluates the largest stable gain as a function of the RTT, for forward and reverse marking, using the bound,
/// numerical integration and the printed lemma.
pub(super) fn reverse_stability() -> Summary {
    let rtts = [0.040, 0.060, 0.080, 0.100, 0.120, 0.160, 0.220];
    let (mut largest_error, mut largest_printed) = (0.0_f64, f64::NEG_INFINITY);
    let (mut confirmed, mut checked) = (0.0, 0.0);
    let (mut forward, mut reverse, mut exact) = (Vec::new(), Vec::new(), Vec::new());
    for rtt in rtts {
        let forward_loop = MarkingLoop::reno(TEN_GBPS, rtt, rtt);
        let reverse_loop = MarkingLoop::reno(TEN_GBPS, rtt, REVERSE_RTT);
        let limit = reverse_loop.exact_gain_limit().gain;
        largest_error = largest_error.max((reverse_loop.gain_limit() / limit - 1.0).abs());
        // Numerical integration confirms that oscillations decay 5 % below the bound and grow 5 % above it.
        for control_loop in [forward_loop, reverse_loop] {
            let bound = control_loop.gain_limit();
            confirmed += f64::from(u8::from(control_loop.is_stable(0.95 * bound)));
            confirmed += f64::from(u8::from(!control_loop.is_stable(1.05 * bound)));
            checked += 2.0;
        }
        // The printed lemma allows any s below its threshold.
        for factor in [1.001, 1.1, 2.0, 5.0] {
            let gain = reverse_loop.printed_gain(reverse_loop.printed_threshold() * factor);
            largest_printed = largest_printed.max(gain);
        }
        let ms = rtt * 1e3;
        forward.push((ms, forward_loop.gain_limit()));
        reverse.push((ms, reverse_loop.gain_limit()));
        exact.push((ms, limit));
    }
    let near = MarkingLoop::reno(TEN_GBPS, 0.040, REVERSE_RTT);
    let far = MarkingLoop::reno(TEN_GBPS, 0.220, REVERSE_RTT);
    let values = BTreeMap::from([
        ("bound.worst_error".into(), largest_error),
        ("bound.confirmed_share".into(), confirmed / checked),
        ("printed.largest_gain".into(), largest_printed),
        // How much larger the gain can be with reverse marking, for a near and a far receiver.
        ("reverse.wider_at_40_ms".into(), reverse[0].1 / forward[0].1),
        ("reverse.wider_at_220_ms".into(), reverse[6].1 / forward[6].1),
        ("reverse.margin_near_to_far".into(), near.gain_limit() / far.gain_limit()),
        ("forward.margin_near_to_far".into(), forward[0].1 / forward[6].1),
    ]);
    let series = BTreeMap::from([
        ("forward.gain".into(), forward),
        ("reverse.gain".into(), reverse),
        ("integrated.gain".into(), exact),
    ]);
    summary(values, series)
}
