//! RPM's Lemma 1: the fluid loop, what is printed of it and what holds.

use super::summary;
use crate::summary::Summary;
use poseidon_models::rpm_fluid::Loop;
use std::collections::BTreeMap;

/// 10 Gbps in packets of 1500 bytes.
const TEN_GBPS: f64 = 1e10 / 12_000.0;
/// From the sender to the bottleneck and back: 20 ms in all of table I.
const SHORT: f64 = 0.020;

/// The stable gain by round trip, forward and reverse, by the bound and by integration of the equation; and the gain that the printed lemma
/// gives.
pub(super) fn reverse_stability() -> Summary {
    let rtts = [0.040, 0.060, 0.080, 0.100, 0.120, 0.160, 0.220];
    let (mut worst, mut printed_most) = (0.0_f64, f64::NEG_INFINITY);
    let (mut is_right, mut checked) = (0.0, 0.0);
    let (mut forward, mut reverse, mut exact) = (Vec::new(), Vec::new(), Vec::new());
    for rtt in rtts {
        let ahead = Loop::classic(TEN_GBPS, rtt, rtt);
        let back = Loop::classic(TEN_GBPS, rtt, SHORT);
        let limit = back.exact_gain_limit().gain;
        worst = worst.max((back.gain_limit() / limit - 1.0).abs());
        // Integrated: swings die out 5 % below the bound and grow 5 % above.
        for loop_ in [ahead, back] {
            let bound = loop_.gain_limit();
            is_right += f64::from(u8::from(loop_.is_stable(0.95 * bound)));
            is_right += f64::from(u8::from(!loop_.is_stable(1.05 * bound)));
            checked += 2.0;
        }
        // Any s below the printed threshold would do.
        for times in [1.001, 1.1, 2.0, 5.0] {
            printed_most = printed_most.max(back.printed_gain(back.printed_threshold() * times));
        }
        let ms = rtt * 1e3;
        forward.push((ms, ahead.gain_limit()));
        reverse.push((ms, back.gain_limit()));
        exact.push((ms, limit));
    }
    let (near, far) = (Loop::classic(TEN_GBPS, 0.040, SHORT), Loop::classic(TEN_GBPS, 0.220, SHORT));
    let values = BTreeMap::from([
        ("bound.worst_error".into(), worst),
        ("bound.confirmed_share".into(), is_right / checked),
        ("printed.largest_gain".into(), printed_most),
        // How many times more a switch may mark with reverse marking, where the far end is near and far.
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
