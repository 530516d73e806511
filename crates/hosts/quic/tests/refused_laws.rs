//! Checks that a law runs if the host supplies its signals, and is otherwise refused with a reason.

mod common;

use common::{connect, echo, endpoint, poseidon};
use poseidon_laws::{AnyParams, BuildError, LAWS};
use poseidon_quic::{Config, ConfigError, Poseidon, SUPPLIED_SIGNALS};
use poseidon_types::BitRate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_registered_law_runs_or_is_refused() {
    let mut supported = Vec::new();
    for info in LAWS {
        let mut config = Config::for_rate(BitRate::from_gbps(1));
        config.law = AnyParams::for_law(info.name).expect("the law is registered");
        if info.name == "swift" {
            // Swift's default target depends on the hop count, which quinn does not report.
            assert!(Poseidon::new(config.clone()).is_err());
            config.law.set("per-hop", "0 ns").expect("swift has this parameter");
        }
        match Poseidon::new(config.clone()) {
            Err(ConfigError::Law(BuildError::MissingSignals { law, missing, supplied })) => {
                assert_eq!((law, supplied), (info.name, SUPPLIED_SIGNALS));
                assert!(!missing.is_empty());
            }
            Err(other) => panic!("{}: {other}", info.name),
            Ok(_) => {
                let poseidon = poseidon(|default| *default = config);
                let (client, server) = (endpoint(Some(&poseidon)), endpoint(Some(&poseidon)));
                let address = server.local_addr().expect("the socket is bound");
                echo(&connect(&client, address).await, 100_000).await;
                supported.push(info.name);
            }
        }
    }
    for name in ["poseidon", "swift", "timely", "cubic", "fixed"] {
        assert!(supported.contains(&name), "{name} did not run; supported laws: {supported:?}");
    }
    for name in ["hpcc", "powertcp", "dctcp", "dcqcn"] {
        assert!(!supported.contains(&name), "{name} ran without its signals");
    }
}

#[test]
fn error_names_the_cause_and_the_remedy() {
    let mut config = Config::for_rate(BitRate::from_gbps(1));
    config.law = AnyParams::for_law("hpcc").expect("the law is registered");
    let error = Poseidon::new(config.clone()).expect_err("hpcc needs per-hop records");
    let text = error.to_string();
    assert!(
        text.contains("\"hpcc\"") && text.contains("hop-records") && text.contains("choose a law"),
        "{text}"
    );
    config.law = AnyParams::for_law("poseidon").expect("the law is registered");
    config.packet_size = 100;
    let text = Poseidon::new(config).expect_err("the size is too small").to_string();
    assert!(text.contains("packet_size is 100 B; set it between 1200 and"), "{text}");
}
