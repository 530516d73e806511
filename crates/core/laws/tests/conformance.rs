//! Conformance tests for every law in the registry, one module per law.

use poseidon_laws::params::Params;
use poseidon_laws::registry::build;
use poseidon_laws::{Ack, AnyParams, BuildError, LAWS, LawDefinition, Path};
use poseidon_testkit::operations::assert_conforms;
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos, Signals};

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(100), base_rtt: Nanos::from_micros(10) };

/// The laws without a congestion signal. With PLB, their flows change path only after a timeout.
const WITHOUT_CONGESTION_SIGNAL: [&str; 3] = ["fixed", "retcp", "bbr"];

/// Feeds a law fifty ACKs, one per round trip, and returns the law and whether the last ACK reports congestion.
///
/// With a full queue, the RTT is 2 ms and one hop holds 10 MB. Otherwise, the hop is 10 % utilised.
fn run_fifty_acks<L: LawDefinition>(full_queue: bool, marked: bool) -> (L, bool) {
    let mut law = L::new(&L::Params::default(), &PATH);
    let mut congested = false;
    for round in 1..=50_u64 {
        let hop = HopRecord {
            timestamp: PATH.base_rtt * round,
            sent: Bytes::new(if full_queue { 125_000 } else { 12_500 } * round),
            queue: Bytes::new(if full_queue { 10_000_000 } else { 0 }),
            rate: PATH.line_rate,
        };
        let ack = Ack {
            now: Nanos::from_millis(2) * round,
            rtt: if full_queue { Nanos::from_millis(2) } else { PATH.base_rtt },
            packets: 1,
            bytes: PATH.mtu,
            marked: if marked { PATH.mtu } else { Bytes::ZERO },
            acked_seq: round * 100_000,
            next_seq: round * 100_000 + 99_999,
            max_hop_delay: Some(if full_queue { Nanos::from_millis(2) } else { Nanos::ZERO }),
            hops: HopPath { records: &[hop], wrap: CounterWrap::NEVER },
            ..Ack::EMPTY
        };
        law.on_ack(&ack);
        congested = law.is_congested(&ack);
    }
    (law, congested)
}

macro_rules! conformance_tests {
    ($($module:ident :: $law:ident,)*) => {$(
        mod $module {
            use super::*;
            use poseidon_laws::laws::$module::$law;

            #[test]
            fn random_operations_produce_valid_and_reproducible_decisions() {
                assert_conforms::<$law>(100_000);
            }

            #[test]
            fn build_fails_without_a_required_signal() {
                let params = <$law as LawDefinition>::Params::default();
                let needs = <$law as LawDefinition>::needs(&params);
                assert!(build::<$law>(&params, &PATH, needs).is_ok());
                for signal in needs.iter() {
                    let supplied = Signals::ALL.without(signal);
                    let result = build::<$law>(&params, &PATH, supplied).map(|_| ());
                    let law = <$law as LawDefinition>::NAME;
                    assert_eq!(result, Err(BuildError::MissingSignals { law, missing: signal, supplied }));
                }
            }

            #[test]
            fn state_fits_the_size_limit() {
                let size = size_of::<$law>();
                assert!(size <= <$law as LawDefinition>::STATE_LIMIT, "{size} bytes");
            }

            #[test]
            fn parameters_round_trip_through_text() {
                let printed = <$law as LawDefinition>::Params::default();
                let mut parsed = printed.clone();
                printed.for_each(&mut |info, value| {
                    let kebab = info.name.replace('_', "-");
                    parsed.set(&kebab, &value.to_string()).expect("the printed value is valid");
                });
                assert_eq!(format!("{parsed:?}"), format!("{printed:?}"));
                assert!(parsed.set("no-such-parameter", "1").is_err());
                assert!(parsed.apply_preset("no-such-preset").is_err());
            }

            #[test]
            fn congestion_follows_the_signals_that_the_law_reads() {
                let (unmarked, unmarked_congested) = run_fifty_acks::<$law>(false, false);
                let (marked, marked_congested) = run_fifty_acks::<$law>(false, true);
                let reads_marks = unmarked != marked;
                assert!(!unmarked_congested, "an empty path is not congested");
                assert_eq!(marked_congested, reads_marks, "a law that reads marks treats them as congestion");
                let (_, full_congested) = run_fifty_acks::<$law>(true, reads_marks);
                let has_no_signal = WITHOUT_CONGESTION_SIGNAL.contains(&<$law as LawDefinition>::NAME);
                assert_eq!(full_congested, !has_no_signal, "a long queue is congestion");
            }

            #[test]
            fn presets_are_valid() {
                for preset in <<$law as LawDefinition>::Params as Params>::PRESETS {
                    let mut params = <$law as LawDefinition>::Params::default();
                    params.apply_preset(preset.name).expect("the preset exists");
                    assert_eq!(params.check(), Ok(()), "{}", preset.name);
                }
            }
        }
    )*};
}

poseidon_laws::law_list!(conformance_tests);

#[test]
fn law_names_are_unique() {
    let mut names: Vec<_> = LAWS.iter().map(|law| law.name).collect();
    assert_eq!(names.first(), Some(&"poseidon"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), LAWS.len());
    for law in LAWS {
        let params = AnyParams::for_law(law.name).expect("the law is registered");
        let built = params.build(&PATH, Signals::ALL).expect("the defaults are valid");
        assert_eq!(built.name(), law.name);
        assert!(!law.params.is_empty() && !law.source.is_empty());
    }
    assert!(AnyParams::for_law("newreno").is_none());
}

#[test]
fn errors_state_the_cause_and_the_remedy() {
    let mut params = AnyParams::for_law("hpcc").expect("the law is registered");
    let missing_signal = params
        .build(&PATH, Signals::RTT | Signals::MAX_HOP_DELAY)
        .expect_err("the host supplies no hop records");
    assert_eq!(
        missing_signal.to_string(),
        "law \"hpcc\" needs hop-records; the host supplies rtt, max-hop-delay"
    );
    params.set("target-utilisation", "1.5").expect("the number is valid");
    let out_of_range = params.build(&PATH, Signals::ALL).expect_err("the utilisation exceeds 1");
    assert_eq!(out_of_range.to_string(), "law \"hpcc\": target_utilisation must be above 0 and at most 1");
    let invalid_path = Path { line_rate: BitRate::ZERO, ..PATH };
    let path_error = AnyParams::for_law("fixed")
        .expect("the law is registered")
        .build(&invalid_path, Signals::ALL)
        .expect_err("the line rate is zero");
    assert_eq!(path_error.to_string(), "line rate is 0 bps; set the sender's link rate, at least 1 Mbps");
    let unit_error = params.set("network-rtt", "28").expect_err("the unit is missing");
    assert_eq!(unit_error.to_string(), "network_rtt: time without a unit: add one of ns, us, ms, s");
}
