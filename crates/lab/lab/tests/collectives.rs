//! Compares the metrics of collectives with closed-form results.

use core::num::NonZeroU32;
use poseidon_lab::reduce::Reducer;
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::samples::{MessageSamples, Quantity};
use poseidon_lab::study::Study;
use poseidon_lab::summary::Summary;
use poseidon_plan::Backend;
use poseidon_plan::patterns::{Algorithm, Collective, Traffic, TrafficClass};
use poseidon_sim::Simulator;
use poseidon_types::{Bytes, HostId, Nanos, Picos};

/// Runs a collective between eight hosts on a star of 100 Gbps links, with windows that never limit.
fn run(keys: &str, transport: &str, stop: &str) -> Summary {
    summarise(&resolve(8, keys, transport, stop)).0
}

fn resolve(hosts: u32, keys: &str, transport: &str, stop: &str) -> ResolvedRun {
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
hosts = {hosts}
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
    study.resolve(&study.cells[0], 1, &simulator).expect("the scenario was checked")
}

fn summarise(resolved: &ResolvedRun) -> (Summary, MessageSamples) {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let mut reducer = Reducer::new(resolved, true);
    let report = simulator.run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    reducer.finish(&report)
}

/// Replaces the traffic of a run, which consists of one collective.
fn replace_traffic(resolved: &ResolvedRun, traffic: Traffic) -> ResolvedRun {
    let traffic = traffic.into_plan_order();
    let mut replaced = resolved.clone();
    assert_eq!(replaced.plan.connections, traffic.connections);
    replaced.plan.messages = traffic.messages;
    replaced.plan.dependencies = traffic.dependencies;
    replaced.plan.joins = traffic.joins;
    replaced.plan.rings = traffic.rings;
    replaced.groups[0].messages = traffic.groups[0].clone();
    replaced.groups[0].collective = Some(traffic.collectives[0].clone());
    replaced
}

fn ring(hosts: u32, size: u64) -> Collective {
    let algorithm = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
    Collective::new(algorithm, (0..hosts).map(HostId::new).collect(), Bytes::new(size))
}

#[test]
fn computed_messages_have_the_metrics_of_a_list() {
    let keys = "algorithm = \"ring-all-reduce\"\nsize = \"1 MB\"\nchannels = 2\nchunk = \"30 kB\"\nrepetitions = 3\n\
                compute = \"7 us\"";
    let settings = Collective {
        channels: 2,
        chunk: Some(Bytes::new(30_000)),
        repetitions: 3,
        compute_gap: Picos::from_nanos(Nanos::from_micros(7)),
        ..ring(8, 1_000_000)
    };
    // The second run ends during the second repetition.
    for (stop, repetitions) in [("10 ms", 3.0), ("250 us", 1.0)] {
        let list = resolve(8, keys, "mtu = \"4000 B\"", stop);
        let compact = settings.generate_compact(&TrafficClass::new(1, "c")).expect("the ring is valid");
        let compact = replace_traffic(&list, compact);
        assert!(compact.plan.messages.is_empty() && list.plan.messages.len() == 2_016);
        let ((mut expected, expected_samples), (mut actual, samples)) =
            (summarise(&list), summarise(&compact));
        assert_eq!(expected.collectives["c"].times_us.len() as f64, repetitions);
        assert_eq!(actual.collectives, expected.collectives);
        // The mean adds the same numbers in another order.
        let mean = |summary: &mut Summary| {
            let mean = summary.phases[0].bounds("c.latency_mean_us").map(|bounds| bounds.low);
            summary.phases[0].values.remove("c.latency_mean_us");
            summary.phases[0].missing.remove("c.latency_mean_us");
            mean
        };
        let (actual_mean, expected_mean) = (mean(&mut actual), mean(&mut expected));
        assert!(actual_mean.zip(expected_mean).is_some_and(|(a, b)| (a / b - 1.0).abs() < 1e-12));
        assert_eq!(actual.phases, expected.phases);
        for quantity in [Quantity::Latency, Quantity::Slowdown, Quantity::Arrival] {
            let times = |samples: &MessageSamples| {
                samples.selection("all", "c").expect("the ring has samples").times(quantity).clone()
            };
            assert_eq!(times(&samples), times(&expected_samples));
        }
    }
}

#[test]
fn ring_with_many_messages_is_reduced_during_the_run() {
    let keys = "algorithm = \"ring-all-reduce\"\nsize = \"230 kB\"";
    let compact = resolve(230, keys, "mtu = \"4000 B\"", "10 ms");
    assert!(compact.plan.messages.is_empty() && compact.plan.rings.len() == 1);
    let list = ring(230, 230_000).generate_expanded(&TrafficClass::new(1, "c"));
    let list = replace_traffic(&compact, list.expect("the ring is valid"));
    assert_eq!(list.plan.messages.len(), 2 * 230 * 229);
    let ((expected, _), (actual, samples)) = (summarise(&list), summarise(&compact));
    assert_eq!(actual.collectives, expected.collectives);
    for exact in ["messages", "unfinished", "completion_us", "busbw_gb_per_s", "straggler", "repetitions"] {
        let name = format!("c.{exact}");
        assert_eq!(value(&actual, &name), value(&expected, &name), "{name}");
    }
    // 105,340 messages in groups of two: one message of each group is in the sample.
    let selection = samples.selection("all", "c").expect("the ring has samples");
    assert_eq!(selection.times(Quantity::Latency).len(), 105_340 / 2);
    for sampled in ["latency_mean_us", "latency_p50_us", "latency_p999_us", "arrival_p50_us", "slowdown_p99"]
    {
        let name = format!("c.{sampled}");
        let ratio = value(&actual, &name) / value(&expected, &name);
        assert!((0.99..1.01).contains(&ratio), "{name}: {ratio}");
    }
    assert!(!actual.phases[0].values.contains_key("c.finish_last_us"));
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
