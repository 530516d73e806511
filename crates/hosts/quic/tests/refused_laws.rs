//! A law runs here if this host supplies what it needs, and is refused with the reason otherwise.

mod common;

use common::{connect, echo, endpoint, poseidon};
use poseidon_laws::{AnyParams, BuildError, LAWS};
use poseidon_quic::{Config, ConfigError, Poseidon, SUPPLIED};
use poseidon_types::BitRate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_of_the_registry_runs_or_is_refused() {
    let mut ran = Vec::new();
    for info in LAWS {
        let mut config = Config::for_rate(BitRate::from_gbps(1));
        config.law = AnyParams::of(info.name).expect("in the table");
        if info.name == "swift" {
            // By default its target grows with the number of hops, which quinn does not tell.
            assert!(Poseidon::new(config.clone()).is_err());
            config.law.set("per-hop", "0 ns").expect("a parameter of it");
        }
        match Poseidon::new(config.clone()) {
            Err(ConfigError::Law(BuildError::MissingSignals { law, missing, supplied })) => {
                assert_eq!((law, supplied), (info.name, SUPPLIED));
                assert!(!missing.is_empty());
            }
            Err(other) => panic!("{}: {other}", info.name),
            Ok(_) => {
                let ours = poseidon(|ours| *ours = config);
                let (from, to) = (endpoint(Some(&ours)), endpoint(Some(&ours)));
                echo(&connect(&from, to.local_addr().expect("bound")).await, 100_000).await;
                ran.push(info.name);
            }
        }
    }
    for name in ["poseidon", "swift", "timely", "cubic", "fixed"] {
        assert!(ran.contains(&name), "{name} did not run: {ran:?}");
    }
    for name in ["hpcc", "powertcp", "dctcp", "dcqcn"] {
        assert!(!ran.contains(&name), "{name} ran without its signals");
    }
}

#[test]
fn a_refusal_names_the_cause_and_the_way_out() {
    let mut config = Config::for_rate(BitRate::from_gbps(1));
    config.law = AnyParams::of("hpcc").expect("in the table");
    let error = Poseidon::new(config.clone()).expect_err("it needs a record per hop");
    let text = error.to_string();
    assert!(
        text.contains("\"hpcc\"") && text.contains("hop-records") && text.contains("choose a law"),
        "{text}"
    );
    config.law = AnyParams::of("poseidon").expect("in the table");
    config.packet = 100;
    let text = Poseidon::new(config).expect_err("too small").to_string();
    assert!(text.contains("packet is 100 B; set it between 1200 and"), "{text}");
}
