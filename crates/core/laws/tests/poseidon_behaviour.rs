//! Tests algorithms 1 and 2 line by line, and the variants from the paper's evaluation.

use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal, Target, Update};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, LawDefinition, Loss, Pacing, Path, Timeout};
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::new(9_900) };

fn law(params: &PoseidonParams) -> Poseidon {
    Poseidon::new(params, &PATH)
}

fn ack(now_us: u64, rtt_us: u64, delay_us: u64) -> Ack<'static> {
    Ack {
        now: Nanos::from_micros(now_us),
        rtt: Nanos::from_micros(rtt_us),
        packets: 1,
        max_hop_delay: Some(Nanos::from_micros(delay_us)),
        ..Ack::EMPTY
    }
}

fn window(law: &Poseidon) -> f64 {
    law.decision().window.q24() as f64 / Packets::ONE.q24() as f64
}

#[test]
fn alg_1_line_7_decreases_at_most_once_per_round_trip() {
    let mut law = law(&PoseidonParams::default());
    law.on_ack(&ack(1, 100, 90));
    assert_eq!(window(&law), 16.0, "a new flow may decrease at once, by at most half");
    law.on_ack(&ack(101, 100, 90));
    assert_eq!(window(&law), 16.0, "a second cut needs more than one round trip");
    law.on_ack(&ack(102, 100, 90));
    assert_eq!(window(&law), 8.0);
}

#[test]
fn alg_1_line_5_grows_per_packet_even_after_a_cut() {
    let mut law = law(&PoseidonParams::default());
    law.on_ack(&ack(1, 100, 90));
    let after_cut = window(&law);
    law.on_ack(&ack(2, 100, 0));
    assert!(window(&law) > after_cut);
    let growth_of_one = window(&law) - after_cut;
    law.on_ack(&Ack { packets: 4, ..ack(3, 100, 0) });
    let growth_of_four = window(&law) - after_cut - growth_of_one;
    assert!((growth_of_four / growth_of_one - 4.0).abs() < 0.2, "{growth_of_one} {growth_of_four}");
}

#[test]
fn alg_1_lines_21_to_23_pace_below_one_packet() {
    let params = PoseidonParams { initial_window: Packets::from_q24(1 << 23), ..PoseidonParams::default() };
    let mut law = law(&params);
    law.on_ack(&Ack { packets: 0, ..ack(1, 30, 1) });
    assert_eq!(law.decision().pacing, Pacing::Gap(Nanos::from_micros(60)), "the gap is rtt / window");
    law.on_ack(&Ack { packets: 2, ..ack(2, 30, 0) });
    assert_eq!(law.decision().pacing, Pacing::Off);
}

fn timeout(now: Nanos) -> Timeout {
    Timeout { now, bytes: Bytes::ZERO }
}

#[test]
fn alg_2_cuts_on_loss_and_resets_after_three_timeouts() {
    let mut law = law(&PoseidonParams::default());
    let loss = |us| Loss { now: Nanos::from_micros(us) };
    law.on_loss(&loss(100));
    assert_eq!(window(&law), 16.0);
    law.on_loss(&loss(105));
    assert_eq!(window(&law), 16.0, "the last cut was less than a round trip ago");
    law.on_timeout(&timeout(Nanos::from_micros(500)));
    assert_eq!(window(&law), 8.0);
    law.on_timeout(&timeout(Nanos::from_micros(900)));
    assert_eq!(window(&law), 4.0);
    law.on_timeout(&timeout(Nanos::from_micros(901)));
    assert_eq!(
        law.decision().window,
        PoseidonParams::default().min_window,
        "the third consecutive timeout resets the window"
    );
}

#[test]
fn an_ack_resets_the_timeout_count() {
    let mut law = law(&PoseidonParams::default());
    law.on_timeout(&timeout(Nanos::from_micros(100)));
    law.on_timeout(&timeout(Nanos::from_micros(200)));
    law.on_ack(&ack(210, 10, 0));
    law.on_timeout(&timeout(Nanos::from_micros(300)));
    assert!(window(&law) > 3.0);
}

#[test]
fn an_ack_without_telemetry_does_not_change_the_window() {
    let mut law = law(&PoseidonParams::default());
    law.on_ack(&Ack { max_hop_delay: None, ..ack(1, 10, 0) });
    assert_eq!(window(&law), 32.0);
}

#[test]
fn an_application_limited_flow_does_not_grow_its_window() {
    let app_limited = Ack { app_limited: true, ..ack(1, 10, 0) };
    let mut default = law(&PoseidonParams::default());
    default.on_ack(&app_limited);
    assert_eq!(window(&default), 32.0);
    let mut strict = law(&PoseidonParams { strict_paper: true, ..PoseidonParams::default() });
    strict.on_ack(&app_limited);
    assert!(window(&strict) > 32.0);
}

/// T at 32 packets and an RTT of 100 us is 14.8 us. Every delay in this test keeps U within its bounds, so a wrong term
/// changes the result.
#[test]
fn section_4_1_brownfield_uses_the_larger_of_reported_and_unreported_delay() {
    let params = PoseidonParams { signal: Signal::Brownfield, ..PoseidonParams::default() };
    assert_eq!(Poseidon::needs(&params), Signals::RTT);
    let window_after = |params: &PoseidonParams, forward: Option<u64>, reverse_us: u64| {
        let mut law = law(params);
        law.on_ack(&Ack {
            max_hop_delay: forward.map(Nanos::new),
            reverse_max_hop_delay: Some(Nanos::from_micros(reverse_us)),
            ..ack(1, 100, 0)
        });
        window(&law)
    };
    let plain = PoseidonParams::default();
    // 100 us = 9.9 base + 10 forward + 60 reverse + 20.1 unreported: the unreported delay is larger.
    assert_eq!(window_after(&params, Some(10_000), 60), window_after(&plain, Some(20_100), 0));
    // 100 us = 9.9 base + 18 forward + 60 reverse + 12.1 unreported: the forward hop's delay is larger.
    assert_eq!(window_after(&params, Some(18_000), 60), window_after(&plain, Some(18_000), 0));
    // Without a forward report: 100 us = 9.9 base + 72 reverse + 18.1 unreported.
    assert_eq!(window_after(&params, None, 72), window_after(&plain, Some(18_100), 0));
    assert!(
        window_after(&plain, Some(20_100), 0) < window_after(&plain, Some(18_000), 0),
        "the cases must differ"
    );
}

#[test]
fn the_rtt_ablation_uses_the_queueing_delay_of_the_whole_round_trip() {
    let by_rtt = PoseidonParams { signal: Signal::Rtt, ..PoseidonParams::default() };
    let window_after = |params: &PoseidonParams, hop_ns: u64| {
        let mut law = law(params);
        law.on_ack(&Ack { max_hop_delay: Some(Nanos::new(hop_ns)), ..ack(1, 30, 0) });
        window(&law)
    };
    // 30 us is a base RTT of 9.9 us plus 20.1 us of queueing delay.
    assert_eq!(window_after(&by_rtt, 0), window_after(&PoseidonParams::default(), 20_100));
    assert!(window_after(&by_rtt, 0) < 32.0);
}

#[test]
fn the_inverse_sqrt_targets_match_eq_3_at_both_ends() {
    let target = |target, window, rtt_us| {
        let params = PoseidonParams { target, initial_window: window, ..PoseidonParams::default() };
        let mut law = Poseidon::new(&params, &Path { base_rtt: Nanos::from_micros(rtt_us), ..PATH });
        law.on_ack(&Ack { max_hop_delay: None, ..ack(1, rtt_us, 0) });
        law.target_delay().get() as f64 / 1_000.0
    };
    // 256 packets in 5 us is far above 200 Gbps. 0.02 packets in 1 ms is far below 0.02 Gbps.
    let (fast, slow) = (Packets::whole(256), Packets::from_q24(335_544));
    for kind in [Target::Log, Target::InvSqrtRate] {
        assert!((target(kind, fast, 5) - 2.0).abs() < 0.01, "{kind} at the fast end");
        assert!((target(kind, slow, 1_000) - 42.0).abs() < 0.01, "{kind} at the slow end");
    }
    // At an RTT of 9.9 us, 200 Gbps is 60.4 packets, and 0.01 packets is still 7 times above 0.02 Gbps.
    assert!((target(Target::InvSqrtWindow, fast, 5) - 2.0).abs() < 0.01);
    let hundredth = 2.0 + 40.0 * ((60.425f64 / 0.01).sqrt() - 1.0) / 99.0;
    let min_window = PoseidonParams::default().min_window;
    assert!((target(Target::InvSqrtWindow, min_window, 1_000) - hundredth).abs() < 0.02);
    // At 2 Gbps, the logarithmic midpoint, Eq. 3 gives 22 us. The inverse square root gives less.
    let (middle, rtt_us) = (Packets::from_q24((61 << 24) + (9 << 24) / 256), 1_000);
    assert!((target(Target::Log, middle, rtt_us) - 22.0).abs() < 0.1);
    let sqrt = target(Target::InvSqrtRate, middle, rtt_us);
    assert!((sqrt - (2.0 + 40.0 * 9.0 / 99.0)).abs() < 0.1, "{sqrt}");
    assert_eq!(target(Target::Fixed, fast, 5), 5.0);
    assert_eq!(target(Target::Fixed, slow, 1_000), 5.0);
}

#[test]
fn the_window_scaled_target_ignores_the_rtt() {
    let target = |kind, base_us, rtt_us| {
        let params = PoseidonParams { target: kind, ..PoseidonParams::default() };
        let mut law = Poseidon::new(&params, &Path { base_rtt: Nanos::from_micros(base_us), ..PATH });
        law.on_ack(&Ack { max_hop_delay: None, ..ack(1, rtt_us, 0) });
        law.target_delay()
    };
    assert_eq!(target(Target::InvSqrtWindow, 10, 10), target(Target::InvSqrtWindow, 10, 40));
    assert_eq!(target(Target::InvSqrtWindow, 10, 10), target(Target::InvSqrtWindow, 25, 40));
    assert!(target(Target::InvSqrtRate, 10, 40) > target(Target::InvSqrtRate, 10, 10));
}

#[test]
fn eq_13_updates_by_the_ratio() {
    // Appendix B.3: a delay 1 us above a target of 4 us gives 0.8 if m is negligible.
    let params = PoseidonParams {
        update: Update::Ratio,
        target: Target::Fixed,
        fixed_target: Nanos::from_micros(4),
        ratio_delay: Nanos::ZERO,
        ..PoseidonParams::default()
    };
    let mut by_ratio = law(&params);
    by_ratio.on_ack(&ack(1, 10, 5));
    assert!((window(&by_ratio) / 32.0 - 0.8).abs() < 2e-5, "{}", window(&by_ratio));
    let high = PoseidonParams { fixed_target: Nanos::from_micros(30), ..params };
    let mut by_ratio = law(&high);
    by_ratio.on_ack(&ack(1, 50, 31));
    assert!((window(&by_ratio) / 32.0 - 30.0 / 31.0).abs() < 2e-5, "the ratio is 0.968 at 30 us");
}

#[test]
fn the_aimd_ablation_adds_one_packet_per_round_trip() {
    let params = PoseidonParams { update: Update::Aimd, ..PoseidonParams::default() };
    let mut law = law(&params);
    for _ in 0..32 {
        law.on_ack(&ack(1, 10, 0));
    }
    assert!((window(&law) - 33.0).abs() < 0.02, "{}", window(&law));
}

fn steady(window: Packets) -> PoseidonParams {
    PoseidonParams { update: Update::Steady, initial_window: window, ..PoseidonParams::default() }
}

/// Returns the pacing gap in ns.
fn gap(law: &Poseidon) -> u64 {
    match law.decision().pacing {
        Pacing::Gap(gap) => gap.get(),
        other => panic!("the window is not below one packet: {other:?}"),
    }
}

/// Returns the `steady` law at a quarter of a packet and an RTT of 40 us, where T is 26.94 us.
fn quarter_packet_law() -> Poseidon {
    Poseidon::new(&steady(Packets::from_q24(1 << 22)), &Path { base_rtt: Nanos::from_micros(40), ..PATH })
}

#[test]
fn steady_waits_equally_long_after_slow_and_fast_acks() {
    let mut law = quarter_packet_law();
    assert_eq!(gap(&law), 160_000, "120 us after an ACK with an RTT of 40 us");
    law.on_ack(&Ack { max_hop_delay: None, ..ack(1, 60, 0) });
    assert!(
        (179_999..=180_001).contains(&gap(&law)),
        "120 us after an ACK with an RTT of 60 us: {}",
        gap(&law)
    );
    law.on_ack(&Ack { max_hop_delay: None, ..ack(200, 30, 0) });
    assert!((149_999..=150_001).contains(&gap(&law)), "{}", gap(&law));
    let mut paper = Poseidon::new(
        &PoseidonParams { update: Update::Distance, ..steady(Packets::from_q24(1 << 22)) },
        &Path { base_rtt: Nanos::from_micros(40), ..PATH },
    );
    paper.on_ack(&Ack { max_hop_delay: None, ..ack(1, 60, 0) });
    assert_eq!(gap(&paper), 240_000, "Alg. 1 waits 180 us after an ACK with an RTT of 60 us");
}

#[test]
fn steady_moves_the_next_packet_by_half_of_the_delay_error() {
    let target = quarter_packet_law().target_delay().get();
    for error in [-1_000i64, -200, 200, 1_000] {
        let mut law = quarter_packet_law();
        let delay = target.checked_add_signed(error).expect("the delay is positive");
        law.on_ack(&Ack { max_hop_delay: Some(Nanos::new(delay)), ..ack(1, 40, 0) });
        let shift = gap(&law).cast_signed() - 160_000;
        assert!((2 * shift - error).abs() <= 10, "{error} ns above the target: {shift} ns");
    }
}

#[test]
fn steady_accelerates_while_a_flow_is_far_below_its_target() {
    let mut law = quarter_packet_law();
    let mut gaps = vec![gap(&law)];
    for _ in 0..3 {
        // The target of a flow that is 1.5 doublings faster than this flow.
        let delay = law.target_delay() - Nanos::new(4_515);
        law.on_ack(&Ack { max_hop_delay: Some(delay), ..ack(1, 40, 0) });
        gaps.push(gap(&law));
    }
    let shifts: Vec<u64> = gaps.windows(2).map(|pair| pair[0] - pair[1]).collect();
    for (shift, expected) in shifts.iter().zip([2_260, 4_520, 9_040]) {
        assert!(shift.abs_diff(expected) < expected / 20, "{shift:?} {expected}");
    }
    let near = law.target_delay() - Nanos::new(500);
    law.on_ack(&Ack { max_hop_delay: Some(near), ..ack(1, 40, 0) });
    let before = gap(&law);
    law.on_ack(&Ack { max_hop_delay: Some(law.target_delay() - Nanos::new(4_515)), ..ack(1, 40, 0) });
    assert!((before - gap(&law)).abs_diff(2_260) < 120, "one ACK near the target resets the acceleration");
}

#[test]
fn steady_jitters_packets_by_up_to_half_an_rtt() {
    let gap_with = |random| {
        let mut law = quarter_packet_law();
        law.on_ack(&Ack { max_hop_delay: None, random, ..ack(1, 40, 0) });
        gap(&law)
    };
    assert_eq!(gap_with(0), 160_000);
    assert_eq!(gap_with(0x7fff_ffff), 160_000 + 40_000 * 127 / 256);
    assert_eq!(gap_with(0x8000_0000), 160_000 - 20_000);
}

#[test]
fn steady_grows_at_any_distance_below_its_target() {
    for floor_us in [2, 2_000, 50_000, 1_000_000] {
        let params = PoseidonParams {
            target_floor: Nanos::from_micros(floor_us),
            target_range: Nanos::from_micros(2),
            ..steady(Packets::from_q24(1 << 22))
        };
        assert_eq!(params.check(), Ok(()));
        // The RTT is so short that one ACK may apply log2 U in full.
        let rtt = Nanos::new(100);
        let mut law = Poseidon::new(&params, &Path { base_rtt: rtt, ..PATH });
        law.on_ack(&Ack { rtt, ..ack(1, 0, 0) });
        assert_eq!(window(&law), 0.5, "{floor_us} us: the window at most doubles");
    }
}

#[test]
fn steady_equals_eq_4_from_two_packets_on() {
    let mut rng = SplitMix64::new(3);
    for _ in 0..20_000 {
        let window = Packets::from_q24(rng.within(2 << 24, 200 << 24));
        let event = Ack {
            random: u32::try_from(rng.below(1 << 32)).expect("the number has 32 bits"),
            ..ack(1, rng.within(5, 80), rng.below(60))
        };
        let window_after = |update| {
            let mut law = law(&PoseidonParams { update, ..steady(window) });
            law.on_ack(&event);
            law.decision().window
        };
        assert_eq!(window_after(Update::Steady), window_after(Update::Distance));
    }
}

#[test]
fn steady_stays_within_its_bounds_for_any_acks() {
    let mut rng = SplitMix64::new(4);
    for _ in 0..300 {
        let params = steady(Packets::from_q24(rng.within(167_772, 4 << 24)));
        let mut law = law(&params);
        let mut now = 0u64;
        for _ in 0..200 {
            now = now.wrapping_add(rng.next_u64() >> rng.within(20, 63));
            let mut random = || rng.next_u64() >> rng.within(0, 63);
            let (rtt, delay) = (random(), random());
            let packets = u32::try_from(rng.below(8)).expect("the number is below 8");
            law.on_ack(&Ack {
                now: Nanos::new(now),
                rtt: Nanos::new(rtt),
                packets,
                max_hop_delay: Some(Nanos::new(delay)),
                random: u32::try_from(rng.below(1 << 32)).expect("the number has 32 bits"),
                ..Ack::EMPTY
            });
            if rng.below(20) == 0 {
                law.on_timeout(&timeout(Nanos::new(now)));
            }
            let window = law.decision().window;
            assert!((params.min_window..=params.max_window).contains(&window), "{window}");
        }
    }
}

#[test]
fn steady_rejects_a_fixed_target() {
    let params = PoseidonParams { target: Target::Fixed, ..steady(Packets::ONE) };
    let error = params.check().expect_err("the target is fixed");
    assert_eq!(error.to_string(), "target must be log with the steady update");
}
