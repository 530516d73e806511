//! Compares the metrics of collectives with closed-form results.

use core::num::NonZeroU32;
use poseidon_lab::reduce::Reducer;
use poseidon_lab::study::Study;
use poseidon_lab::summary::Summary;
use poseidon_plan::Backend;
use poseidon_sim::Simulator;

/// Runs a collective between eight hosts on a star of 100 Gbps links, with windows that never limit.
fn run(keys: &str, transport: &str, stop: &str) -> Summary {
    let text = format!(
        r#"title = "a collective"
source = "none"
stop = "{stop}"
law = "full"

[laws.full]
base = "fixed"
window = "512 packets"

[topology]
kind = "star"
hosts = 8
link = {{ rate = "100 Gbps", delay = "1 us" }}

[switch]
pipeline = "0 ns"

[transport]
{transport}

[[traffic]]
name = "c"
kind = "collective"
{keys}

[observe.links]
switch = "rack0"
"#
    );
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let study = Study::read("test.toml", &text, false).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.check(&simulator).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let resolved = study.resolve(&study.cells[0], 1, &simulator).expect("the scenario was checked");
    let mut reducer = Reducer::new(&resolved, true);
    let report = simulator.run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    reducer.summary(&report)
}

fn value(summary: &Summary, name: &str) -> f64 {
    let values = &summary.phases[0].values;
    *values.get(name).unwrap_or_else(|| panic!("there is no {name} in {values:?}"))
}

#[test]
fn bus_bandwidth_of_a_ring_is_the_link_rate_times_the_share_of_payload() {
    for (mtu, header) in [(4096, 0), (1000, 48), (4096, 200)] {
        let transport = format!("mtu = \"{mtu} B\"\nheader = \"{header} B\"");
        let summary = run("algorithm = \"ring-all-reduce\"\nsize = \"80 MB\"", &transport, "1 s");
        // 100 Gbps are 12.5 GB/s. The 14 steps of 10 MB take 0.8 ms each, and their latency 5 us each.
        // Each link also carries one ACK of 64 B per packet, for the data that flows the other way.
        let expected = 12.5 * f64::from(mtu) / f64::from(mtu + header + 64);
        let busbw = value(&summary, "c.busbw_gb_per_s");
        assert!((busbw / expected - 1.0).abs() < 0.01, "{mtu} + {header} B: {busbw} instead of {expected}");
        assert!(busbw < expected, "{busbw} exceeds the payload rate of the link");
        let algbw = value(&summary, "c.algbw_gb_per_s");
        assert!((busbw / algbw - 2.0 * 7.0 / 8.0).abs() < 1e-9);
        assert!((value(&summary, "c.straggler") - 1.0).abs() < 0.01, "all ranks finish together");
    }
}

#[test]
fn links_carry_the_bytes_of_the_algorithm() {
    let keys = "algorithm = \"ring-all-reduce\"\nsize = \"80 MB\"\nrepetitions = 3\ncompute = \"100 us\"";
    let summary = run(keys, "mtu = \"4000 B\"", "1 s");
    assert_eq!(value(&summary, "c.repetitions"), 3.0);
    assert_eq!(summary.collectives["c"].times_us.len(), 3);
    assert_eq!(value(&summary, "switch.links_used"), 8.0);
    // Each rank receives 2 * 7 / 8 of 80 MB three times, and ACKs of 64 B for what it sends: one per 4000 B.
    let expected = 3.0 * 140e6 * (1.0 + 64.0 / 4000.0);
    let busiest = value(&summary, "switch.link_bytes_max");
    // The last sample precedes the end of the run by at most 50 us.
    assert!(busiest <= expected && busiest > 0.99 * expected, "{busiest} instead of {expected}");
}

#[test]
fn unfinished_repetition_has_no_completion_time() {
    let keys = "algorithm = \"ring-all-reduce\"\nsize = \"80 MB\"\nrepetitions = 2";
    let summary = run(keys, "mtu = \"4000 B\"", "5 ms");
    // One repetition takes 2 * 7 * 10 MB / (12.5 GB/s) = 11.2 ms, longer than the run.
    let phase = &summary.phases[0];
    assert_eq!(phase.values["c.repetitions"], 0.0);
    assert_eq!(phase.missing["c.completion_us"].reason, "1 of 1 repetitions did not finish");
    assert!(!phase.values.contains_key("c.busbw_gb_per_s"));
}
