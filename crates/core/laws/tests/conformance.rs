//! What every law of the registry must do, one module per row of the table.

use poseidon_laws::params::Params;
use poseidon_laws::registry::build;
use poseidon_laws::{Ack, AnyParams, BuildError, LAWS, Law, Path};
use poseidon_testkit::operations::assert_conforms;
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, Nanos, Signals, Wrap};

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(100), base_rtt: Nanos::from_micros(10) };

/// Laws that follow no signal of congestion: with PLB they change their path only after a timeout.
const STAYS_ON_ITS_PATH: [&str; 3] = ["fixed", "retcp", "bbr"];

/// A flow after fifty ACKs, each a round trip of its own, and whether the last one says that the path is congested. With a full
/// queue the RTT is 2 ms and one hop holds 10 MB; without, the hop is used to a tenth.
fn after_fifty_acks<L: Law>(full: bool, marked: bool) -> (L, bool) {
    let mut law = L::new(&L::Params::default(), &PATH);
    let mut congested = false;
    for round in 1..=50_u64 {
        let hop = HopRecord {
            at: PATH.base_rtt * round,
            sent: Bytes::new(if full { 125_000 } else { 12_500 } * round),
            queue: Bytes::new(if full { 10_000_000 } else { 0 }),
            rate: PATH.line_rate,
        };
        let ack = Ack {
            now: Nanos::from_millis(2) * round,
            rtt: if full { Nanos::from_millis(2) } else { PATH.base_rtt },
            packets: 1,
            bytes: PATH.mtu,
            marked: if marked { PATH.mtu } else { Bytes::ZERO },
            acked_seq: round * 100_000,
            next_seq: round * 100_000 + 99_999,
            max_hop_delay: Some(if full { Nanos::from_millis(2) } else { Nanos::ZERO }),
            hops: HopPath { records: &[hop], wrap: Wrap::NEVER },
            ..Ack::EMPTY
        };
        law.on_ack(&ack);
        congested = law.is_congested(&ack);
    }
    (law, congested)
}

macro_rules! conformance {
    ($name:ident, $law:ty) => {
        mod $name {
            use super::*;

            #[test]
            fn survives_replays_and_clones_under_any_operations() {
                assert_conforms::<$law>(100_000);
            }

            #[test]
            fn refuses_a_host_that_lacks_a_signal_it_needs() {
                let params = <$law as Law>::Params::default();
                let needs = <$law as Law>::needs(&params);
                assert!(build::<$law>(&params, &PATH, needs).is_ok());
                for signal in needs.each() {
                    let supplied = Signals::ALL.without(signal);
                    let refused = build::<$law>(&params, &PATH, supplied).map(|_| ());
                    let law = <$law as Law>::NAME;
                    assert_eq!(refused, Err(BuildError::MissingSignals { law, missing: signal, supplied }));
                }
            }

            #[test]
            fn keeps_its_promise_of_size() {
                let size = size_of::<$law>();
                assert!(size <= <$law as Law>::STATE_LIMIT, "{size} bytes");
            }

            #[test]
            fn every_parameter_reads_back_as_it_is_printed() {
                let printed = <$law as Law>::Params::default();
                let mut read = printed.clone();
                printed.each(&mut |info, value| {
                    let kebab = info.name.replace('_', "-");
                    read.set(&kebab, &value.to_string()).expect("reads");
                });
                assert_eq!(format!("{read:?}"), format!("{printed:?}"));
                assert!(read.set("no-such-parameter", "1").is_err());
                assert!(read.preset("no-such-preset").is_err());
            }

            #[test]
            fn the_path_is_congested_by_a_signal_that_the_law_reads() {
                let (calm, calm_path) = after_fifty_acks::<$law>(false, false);
                let (marked, marked_path) = after_fifty_acks::<$law>(false, true);
                let reads_marks = calm != marked;
                assert!(!calm_path, "an empty path is not congested");
                assert_eq!(marked_path, reads_marks, "marks congest the path of a law that reads marks");
                let (_, full_path) = after_fifty_acks::<$law>(true, reads_marks);
                let stays = STAYS_ON_ITS_PATH.contains(&<$law as Law>::NAME);
                assert_eq!(full_path, !stays, "what the law itself sees of a long queue congests its path");
            }

            #[test]
            fn every_preset_is_within_the_domain() {
                for preset in <<$law as Law>::Params as Params>::PRESETS {
                    let mut params = <$law as Law>::Params::default();
                    params.preset(preset.name).expect("a preset of its own");
                    assert_eq!(params.check(), Ok(()), "{}", preset.name);
                }
            }
        }
    };
}

poseidon_laws::for_each_law!(conformance);

#[test]
fn the_table_names_each_law_once() {
    let mut names: Vec<_> = LAWS.iter().map(|law| law.name).collect();
    assert_eq!(names.first(), Some(&"poseidon"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), LAWS.len());
    for law in LAWS {
        let params = AnyParams::of(law.name).expect("the table finds its own rows");
        let built = params.build(&PATH, Signals::ALL).expect("defaults are within the domain");
        assert_eq!(built.name(), law.name);
        assert!(!law.params.is_empty() && !law.source.is_empty());
    }
    assert!(AnyParams::of("newreno").is_none());
}

#[test]
fn errors_name_the_cause_and_the_fix() {
    let mut params = AnyParams::of("hpcc").expect("a law");
    let missing = params.build(&PATH, Signals::RTT | Signals::MAX_HOP_DELAY).expect_err("no records");
    assert_eq!(missing.to_string(), "law \"hpcc\" needs hop-records; the host supplies rtt, max-hop-delay");
    params.set("target-utilisation", "1.5").expect("reads");
    let domain = params.build(&PATH, Signals::ALL).expect_err("outside");
    assert_eq!(domain.to_string(), "law \"hpcc\": target_utilisation must be above 0 and at most 1");
    let no_path = Path { line_rate: BitRate::ZERO, ..PATH };
    let path = AnyParams::of("fixed").expect("a law").build(&no_path, Signals::ALL).expect_err("refused");
    assert_eq!(path.to_string(), "line rate is 0 bps; set the sender's link rate, at least 1 Mbps");
    let unit = params.set("network-rtt", "28").expect_err("no unit");
    assert_eq!(unit.to_string(), "network_rtt: time without a unit: add one of ns, us, ms, s");
}
