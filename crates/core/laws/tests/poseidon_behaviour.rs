//! Algorithms 1 and 2 line by line, and the variants of the evaluation.

use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal, Target, Update};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, Loss, Pacing, Path};
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
    assert_eq!(window(&law), 16.0, "a new flow may decrease at once, by half at most");
    law.on_ack(&ack(101, 100, 90));
    assert_eq!(window(&law), 16.0, "the gate needs more than one round trip");
    law.on_ack(&ack(102, 100, 90));
    assert_eq!(window(&law), 8.0);
}

#[test]
fn alg_1_line_5_grows_per_packet_whatever_the_gate() {
    let mut law = law(&PoseidonParams::default());
    law.on_ack(&ack(1, 100, 90));
    let cut = window(&law);
    law.on_ack(&ack(2, 100, 0));
    assert!(window(&law) > cut);
    let one = window(&law) - cut;
    law.on_ack(&Ack { packets: 4, ..ack(3, 100, 0) });
    let four = window(&law) - cut - one;
    assert!((four / one - 4.0).abs() < 0.2, "num_acked multiplies: {one} {four}");
}

#[test]
fn alg_1_lines_21_to_23_pace_below_one_packet() {
    let params = PoseidonParams { initial_window: Packets::from_q24(1 << 23), ..PoseidonParams::default() };
    let mut law = law(&params);
    law.on_ack(&Ack { packets: 0, ..ack(1, 30, 1) });
    assert_eq!(law.decision().pacing, Pacing::Gap(Nanos::from_micros(60)), "rtt over window");
    law.on_ack(&Ack { packets: 2, ..ack(2, 30, 0) });
    assert_eq!(law.decision().pacing, Pacing::Off);
}

#[test]
fn alg_2_cuts_on_loss_and_resets_after_three_timeouts() {
    let mut law = law(&PoseidonParams::default());
    let loss = |us| Loss { now: Nanos::from_micros(us) };
    law.on_loss(&loss(100));
    assert_eq!(window(&law), 16.0);
    law.on_loss(&loss(105));
    assert_eq!(window(&law), 16.0, "within one round trip");
    law.on_timeout(Nanos::from_micros(500));
    assert_eq!(window(&law), 8.0);
    law.on_timeout(Nanos::from_micros(900));
    assert_eq!(window(&law), 4.0);
    law.on_timeout(Nanos::from_micros(901));
    assert_eq!(law.decision().window, PoseidonParams::default().min_window, "the third in a row");
}

#[test]
fn an_ack_ends_a_row_of_timeouts() {
    let mut law = law(&PoseidonParams::default());
    law.on_timeout(Nanos::from_micros(100));
    law.on_timeout(Nanos::from_micros(200));
    law.on_ack(&ack(210, 10, 0));
    law.on_timeout(Nanos::from_micros(300));
    assert!(window(&law) > 3.0);
}

#[test]
fn unknown_telemetry_is_not_an_empty_queue() {
    let mut law = law(&PoseidonParams::default());
    law.on_ack(&Ack { max_hop_delay: None, ..ack(1, 10, 0) });
    assert_eq!(window(&law), 32.0);
}

#[test]
fn a_flow_that_does_not_use_its_window_does_not_grow_it() {
    let idle = Ack { app_limited: true, ..ack(1, 10, 0) };
    let mut sensible = law(&PoseidonParams::default());
    sensible.on_ack(&idle);
    assert_eq!(window(&sensible), 32.0);
    let mut strict = law(&PoseidonParams { strict_paper: true, ..PoseidonParams::default() });
    strict.on_ack(&idle);
    assert!(window(&strict) > 32.0);
}

/// T at 32 packets and an RTT of 100 us is 14.8 us; every delay below is near enough that U is within its bounds, so
/// that a wrong term shows.
#[test]
fn section_4_1_brownfield_takes_the_larger_of_reported_and_unreported() {
    let params = PoseidonParams { signal: Signal::Brownfield, ..PoseidonParams::default() };
    assert_eq!(Poseidon::needs(&params), Signals::RTT);
    let after = |params: &PoseidonParams, forward: Option<u64>, reverse_us: u64| {
        let mut law = law(params);
        law.on_ack(&Ack {
            max_hop_delay: forward.map(Nanos::new),
            reverse_max_hop_delay: Some(Nanos::from_micros(reverse_us)),
            ..ack(1, 100, 0)
        });
        window(&law)
    };
    let plain = PoseidonParams::default();
    // 100 us = 9.9 base + 10 forward + 60 reverse + 20.1 that no hop reported: the rest decides.
    assert_eq!(after(&params, Some(10_000), 60), after(&plain, Some(20_100), 0));
    // 100 us = 9.9 base + 18 forward + 60 reverse + 12.1: the forward hop decides.
    assert_eq!(after(&params, Some(18_000), 60), after(&plain, Some(18_000), 0));
    // Nobody reported forward: 100 us = 9.9 base + 72 reverse + 18.1.
    assert_eq!(after(&params, None, 72), after(&plain, Some(18_100), 0));
    assert!(after(&plain, Some(20_100), 0) < after(&plain, Some(18_000), 0), "the cases differ");
}

#[test]
fn the_rtt_ablation_reacts_to_all_queueing() {
    let by_rtt = PoseidonParams { signal: Signal::Rtt, ..PoseidonParams::default() };
    let after = |params: &PoseidonParams, hop_ns: u64| {
        let mut law = law(params);
        law.on_ack(&Ack { max_hop_delay: Some(Nanos::new(hop_ns)), ..ack(1, 30, 0) });
        window(&law)
    };
    // 30 us are 9.9 us of base and 20.1 us of queueing, wherever it was.
    assert_eq!(after(&by_rtt, 0), after(&PoseidonParams::default(), 20_100));
    assert!(after(&by_rtt, 0) < 32.0);
}

#[test]
fn the_sqrt_targets_meet_eq_3_at_both_ends() {
    let target = |target, window, rtt_us| {
        let params = PoseidonParams { target, initial_window: window, ..PoseidonParams::default() };
        let mut law = Poseidon::new(&params, &Path { base_rtt: Nanos::from_micros(rtt_us), ..PATH });
        law.on_ack(&Ack { max_hop_delay: None, ..ack(1, rtt_us, 0) });
        law.target_delay().get() as f64 / 1_000.0
    };
    // 256 packets in 5 us are far above 200 Gbps; 0.02 packets in 1 ms far below 0.02 Gbps.
    let (fast, slow) = (Packets::whole(256), Packets::from_q24(335_544));
    for kind in [Target::Log, Target::InvSqrtRate] {
        assert!((target(kind, fast, 5) - 2.0).abs() < 0.01, "{kind} at the fast end");
        assert!((target(kind, slow, 1_000) - 42.0).abs() < 0.01, "{kind} at the slow end");
    }
    // By the window alone: 9.9 us at 200 Gbps are 60.4 packets; a hundredth of a packet is still 7 times above 0.02 Gbps.
    assert!((target(Target::InvSqrtWindow, fast, 5) - 2.0).abs() < 0.01);
    let hundredth = 2.0 + 40.0 * ((60.425f64 / 0.01).sqrt() - 1.0) / 99.0;
    let least = PoseidonParams::default().min_window;
    assert!((target(Target::InvSqrtWindow, least, 1_000) - hundredth).abs() < 0.02);
    // In between 1/sqrt has spent its range early: at 2 Gbps, half way in log, T is 22 us by Eq. 3.
    let (middle, rtt_us) = (Packets::from_q24((61 << 24) + (9 << 24) / 256), 1_000);
    assert!((target(Target::Log, middle, rtt_us) - 22.0).abs() < 0.1);
    let sqrt = target(Target::InvSqrtRate, middle, rtt_us);
    assert!((sqrt - (2.0 + 40.0 * 9.0 / 99.0)).abs() < 0.1, "{sqrt}");
    assert_eq!(target(Target::Fixed, fast, 5), 5.0);
    assert_eq!(target(Target::Fixed, slow, 1_000), 5.0);
}

#[test]
fn the_window_scaled_target_is_blind_to_the_rtt() {
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
fn eq_13_steps_by_the_ratio() {
    // Appendix B.3: one microsecond above a target of 4 us gives 0.8 when m is negligible.
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
    assert!((window(&by_ratio) / 32.0 - 30.0 / 31.0).abs() < 2e-5, "0.968 at 30 us");
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

/// The pacing gap, ns.
fn gap(law: &Poseidon) -> u64 {
    match law.decision().pacing {
        Pacing::Gap(gap) => gap.get(),
        other => panic!("not below one packet: {other:?}"),
    }
}

/// `steady` at a quarter of a packet and an RTT of 40 us, when T is 26.94 us.
fn at_a_quarter() -> Poseidon {
    Poseidon::new(&steady(Packets::from_q24(1 << 22)), &Path { base_rtt: Nanos::from_micros(40), ..PATH })
}

#[test]
fn steady_waits_as_long_after_a_slow_ack_as_after_a_fast_one() {
    let mut law = at_a_quarter();
    assert_eq!(gap(&law), 160_000, "120 us after an ACK that takes 40");
    law.on_ack(&Ack { max_hop_delay: None, ..ack(1, 60, 0) });
    assert!((179_999..=180_001).contains(&gap(&law)), "120 us after one that takes 60: {}", gap(&law));
    law.on_ack(&Ack { max_hop_delay: None, ..ack(200, 30, 0) });
    assert!((149_999..=150_001).contains(&gap(&law)), "{}", gap(&law));
    let mut printed = Poseidon::new(
        &PoseidonParams { update: Update::Distance, ..steady(Packets::from_q24(1 << 22)) },
        &Path { base_rtt: Nanos::from_micros(40), ..PATH },
    );
    printed.on_ack(&Ack { max_hop_delay: None, ..ack(1, 60, 0) });
    assert_eq!(gap(&printed), 240_000, "as printed: 180 us after one that takes 60");
}

#[test]
fn steady_moves_the_next_packet_by_half_of_what_the_delay_is_off() {
    let target = at_a_quarter().target_delay().get();
    for off in [-1_000i64, -200, 200, 1_000] {
        let mut law = at_a_quarter();
        let delay = target.checked_add_signed(off).expect("a delay");
        law.on_ack(&Ack { max_hop_delay: Some(Nanos::new(delay)), ..ack(1, 40, 0) });
        let moved = gap(&law).cast_signed() - 160_000;
        assert!((2 * moved - off).abs() <= 10, "{off} ns above the target: {moved} ns");
    }
}

#[test]
fn steady_goes_faster_while_a_flow_stays_far_below_its_target() {
    let mut law = at_a_quarter();
    let mut gaps = vec![gap(&law)];
    for _ in 0..3 {
        // The delay of T one doubling and a half faster, whatever T is by then.
        let delay = law.target_delay() - Nanos::new(4_515);
        law.on_ack(&Ack { max_hop_delay: Some(delay), ..ack(1, 40, 0) });
        gaps.push(gap(&law));
    }
    let moved: Vec<u64> = gaps.windows(2).map(|pair| pair[0] - pair[1]).collect();
    for (moved, expected) in moved.iter().zip([2_260, 4_520, 9_040]) {
        assert!(moved.abs_diff(expected) < expected / 20, "{moved:?} {expected}");
    }
    let near = law.target_delay() - Nanos::new(500);
    law.on_ack(&Ack { max_hop_delay: Some(near), ..ack(1, 40, 0) });
    let before = gap(&law);
    law.on_ack(&Ack { max_hop_delay: Some(law.target_delay() - Nanos::new(4_515)), ..ack(1, 40, 0) });
    assert!((before - gap(&law)).abs_diff(2_260) < 120, "one ACK near the target ends the run");
}

#[test]
fn steady_sends_half_an_rtt_early_or_late_by_chance() {
    let with = |chance| {
        let mut law = at_a_quarter();
        law.on_ack(&Ack { max_hop_delay: None, chance, ..ack(1, 40, 0) });
        gap(&law)
    };
    assert_eq!(with(0), 160_000);
    assert_eq!(with(0x7fff_ffff), 160_000 + 40_000 * 127 / 256);
    assert_eq!(with(0x8000_0000), 160_000 - 20_000);
}

#[test]
fn steady_grows_however_far_it_is_below_its_target() {
    for floor_us in [2, 2_000, 50_000, 1_000_000] {
        let params = PoseidonParams {
            target_floor: Nanos::from_micros(floor_us),
            target_range: Nanos::from_micros(2),
            ..steady(Packets::from_q24(1 << 22))
        };
        assert_eq!(params.check(), Ok(()));
        // So short that one ACK may take all of log2 U.
        let rtt = Nanos::new(100);
        let mut law = Poseidon::new(&params, &Path { base_rtt: rtt, ..PATH });
        law.on_ack(&Ack { rtt, ..ack(1, 0, 0) });
        assert_eq!(window(&law), 0.5, "{floor_us} us: doubled, which is the most");
    }
}

#[test]
fn steady_is_the_papers_law_from_two_packets_on() {
    let mut rng = SplitMix64::new(3);
    for _ in 0..20_000 {
        let window = Packets::from_q24(rng.within(2 << 24, 200 << 24));
        let event = Ack {
            chance: u32::try_from(rng.below(1 << 32)).expect("32 bits"),
            ..ack(1, rng.within(5, 80), rng.below(60))
        };
        let after = |update| {
            let mut law = law(&PoseidonParams { update, ..steady(window) });
            law.on_ack(&event);
            law.decision().window
        };
        assert_eq!(after(Update::Steady), after(Update::Distance));
    }
}

#[test]
fn steady_survives_any_acks_and_keeps_its_bounds() {
    let mut rng = SplitMix64::new(4);
    for _ in 0..300 {
        let params = steady(Packets::from_q24(rng.within(167_772, 4 << 24)));
        let mut law = law(&params);
        let mut now = 0u64;
        for _ in 0..200 {
            now = now.wrapping_add(rng.next_u64() >> rng.within(20, 63));
            let mut any = || rng.next_u64() >> rng.within(0, 63);
            let (rtt, delay) = (any(), any());
            let packets = u32::try_from(rng.below(8)).expect("few");
            law.on_ack(&Ack {
                now: Nanos::new(now),
                rtt: Nanos::new(rtt),
                packets,
                max_hop_delay: Some(Nanos::new(delay)),
                chance: u32::try_from(rng.below(1 << 32)).expect("32 bits"),
                ..Ack::EMPTY
            });
            if rng.below(20) == 0 {
                law.on_timeout(Nanos::new(now));
            }
            let window = law.decision().window;
            assert!((params.min_window..=params.max_window).contains(&window), "{window}");
        }
    }
}

#[test]
fn steady_is_refused_with_a_target_that_has_no_doublings() {
    let params = PoseidonParams { target: Target::Fixed, ..steady(Packets::ONE) };
    let error = params.check().expect_err("fixed");
    assert_eq!(error.to_string(), "target must be log with the steady update");
}
