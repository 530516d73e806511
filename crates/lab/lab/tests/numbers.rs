//! Compares the metrics of simulated runs with closed-form results.

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use poseidon_lab::analytic::target_us;
use poseidon_lab::reduce::{Reducer, ideal_latency_us};
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::study::Study;
use poseidon_lab::summary::Summary;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_plan::Backend;
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_sim::Simulator;
use poseidon_types::{HostId, Picos};

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

/// Resolves the only cell of a scenario with these top-level keys and tables.
fn resolve(top_level: &str, tables: &str) -> ResolvedRun {
    let text = format!("title = \"a test\"\nsource = \"none\"\n{top_level}\n{tables}");
    let study = Study::read("test.toml", &text, false).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.check(&simulator()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.resolve(&study.cells[0], 1, &simulator()).expect("the scenario was checked")
}

fn run(resolved: &ResolvedRun) -> Summary {
    let mut reducer = Reducer::new(resolved, true);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    reducer.summary(&report)
}

fn summary(top_level: &str, tables: &str) -> Summary {
    run(&resolve(top_level, tables))
}

fn value(summary: &Summary, phase: usize, name: &str) -> f64 {
    let values = &summary.phases[phase].values;
    *values.get(name).unwrap_or_else(|| panic!("there is no {name} in {values:?}"))
}

fn assert_near(found: f64, expected: f64, tolerance: f64, label: &str) {
    let error = (found - expected).abs();
    assert!(error <= tolerance, "{label}: {found} differs from {expected} by more than {tolerance}");
}

/// A constant window that fills every link in these tests.
const FULL: &str = "law = \"full\"\n[laws.full]\nbase = \"fixed\"\nwindow = \"256 packets\"\n";

fn star(hosts: u32, gbps: u32) -> String {
    format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\nlink = {{ rate = \"{gbps} Gbps\", delay = \"1 us\" }}\n"
    )
}

fn traffic(name: &str, kind: &str, from: &str, to: &str, keys: &str) -> String {
    format!("[[traffic]]\nname = \"{name}\"\nkind = \"{kind}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n")
}

/// Periodic messages from one host to another.
fn periodic(period: &str, size: &str, keys: &str) -> String {
    let keys = format!("every = \"{period}\"\nsize = \"{size}\"\n{keys}");
    traffic("m", "rotating-incast", "host0", "host1", &keys)
}

/// Forwards rows to a reducer, and interrupts the run at a given time.
struct InterruptingSink<'a> {
    reducer: Reducer<'a>,
    end: Picos,
}

impl Sink for InterruptingSink<'_> {
    fn record_message(&mut self, row: MessageRow) {
        self.reducer.record_message(row);
    }
    fn record_received(&mut self, row: ReceivedRow) {
        self.reducer.record_received(row);
    }
    fn record_drop(&mut self, row: DropRow) {
        self.reducer.record_drop(row);
    }
    fn record_queue(&mut self, row: QueueRow) {
        self.reducer.record_queue(row);
    }
    fn record_sender(&mut self, row: SenderRow) {
        self.reducer.record_sender(row);
    }
    fn record_receiver(&mut self, row: ReceiverRow) {
        self.reducer.record_receiver(row);
    }
    fn record_decision(&mut self, row: DecisionRow) {
        self.reducer.record_decision(row);
    }
    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        if progress.now >= self.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn averages_of_an_interrupted_run_cover_the_time_that_it_ran() {
    let tables = format!(
        "{}{}[[phase]]\nname = \"first\"\nat = \"0 ms\"\n[[phase]]\nname = \"second\"\nat = \"9 ms\"\n",
        star(2, 100),
        traffic("flow", "long-flows", "host0", "host1", "")
    );
    let resolved = resolve(&format!("stop = \"10 ms\"\n{FULL}"), &tables);
    let mut sink =
        InterruptingSink { reducer: Reducer::new(&resolved, true), end: Picos::new(6_000_000_000) };
    let report = simulator().run(&resolved.plan, &mut sink).expect("the scenario was checked");
    assert!(report.interrupted);
    let summary = sink.reducer.summary(&report);
    // The second phase did not begin. Two thirds of the planned measurement of the first phase are missing.
    assert_eq!(summary.phases.len(), 1);
    assert_near(value(&summary, 0, "flow.rate_gbps"), 100.0, 1.0, "rate until the interruption");
}

#[test]
fn a_single_flow_gets_the_line_rate_minus_headers() {
    for (gbps, mtu, header) in [(100, 4096, 0), (25, 1000, 58), (200, 1500, 78)] {
        let tables = format!(
            "{}{}[transport]\nmtu = \"{mtu} B\"\nheader = \"{header} B\"\n",
            star(2, gbps),
            traffic("flow", "long-flows", "host0", "host1", "")
        );
        let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &tables);
        let payload = f64::from(gbps) * f64::from(mtu) / f64::from(mtu + header);
        let case = format!("{gbps} Gbps, {mtu} + {header} B");
        assert_near(value(&summary, 0, "flow.rate_gbps"), payload, 0.005 * payload, &case);
        assert_near(value(&summary, 0, "flow.fair_share_gbps"), payload, 1e-9 * payload, &case);
        assert_near(value(&summary, 0, "flow.share"), 1.0, 0.005, &case);
        assert_eq!(value(&summary, 0, "flow.flows"), 1.0);
    }
}

#[test]
fn the_victim_of_figure_14_shares_the_busier_link() {
    for (m, n) in [(0, 0), (2, 0), (0, 2), (1, 2), (2, 2), (2, 9), (5, 9), (9, 9), (9, 2)] {
        let with_count = |count: u32, keys: &str| format!("count = {count}\n{keys}");
        let tables = [
            "[topology]\nkind = \"poseidon-clos\"\nracks = 12\n".to_owned(),
            traffic("red", "long-flows", "rack0.host0", "rack10.host0", ""),
            traffic(
                "green",
                "long-flows",
                "rack0.host[1-9]",
                "rack11.host[1-9]",
                &with_count(m, "share-uplink-of = \"red\""),
            ),
            traffic("blue", "long-flows", "rack[1-9].host0", "rack10.host0", &with_count(n, "")),
        ];
        let resolved = resolve("stop = \"1 ms\"", &tables.concat());
        let busier = m.max(n) + 1;
        assert_eq!(resolved.phases[0].fair_shares[0], 200e9 / f64::from(busier), "M {m}, N {n}");
    }
}

#[test]
fn flows_on_separate_links_have_known_rates_and_fairness() {
    // Jain's index of 10 and 30 is 40² / (2 (10² + 30²)) = 0.8.
    for (first, second, jain) in [(50, 50, 1.0), (10, 30, 0.8)] {
        let links = format!(
            "[topology]\nkind = \"links\"\nlinks = \"\"\"\nh0 s0 {first} Gbps 1 us\nh1 s0 {second} Gbps 1 us\nh2 s0 100 Gbps 1 us\nh3 s0 100 Gbps 1 us\n\"\"\"\n"
        );
        let flows = traffic("flows", "long-flows", "host[0-1]", "host[2-3]", "");
        let summary = summary(&format!("stop = \"4 ms\"\n{FULL}"), &(links + &flows));
        let case = format!("{first} and {second} Gbps");
        let (first, second) = (f64::from(first), f64::from(second));
        for (name, expected) in [
            ("jain", jain),
            ("rate_min_gbps", first),
            ("rate_max_gbps", second),
            ("rate_gbps", (first + second) / 2.0),
            ("fair_share_gbps", (first + second) / 2.0),
            ("total_gbps", first + second),
            ("share", 1.0),
            ("share_min", 1.0),
        ] {
            assert_near(value(&summary, 0, &format!("flows.{name}")), expected, 0.005 * expected, &case);
        }
        assert!(value(&summary, 0, "flows.fairness_gap") < 0.005, "{case}");
    }
}

#[test]
fn a_standing_queue_fills_its_link_and_holds_the_excess_of_the_windows() {
    let tables = [
        star(3, 100),
        traffic("flows", "long-flows", "host[0-1]", "host2", ""),
        "[observe.queues]\nqueue = \"last hop of flows\"\n".into(),
    ];
    let resolved = resolve(&format!("stop = \"2 ms\"\n{FULL}"), &tables.concat());
    let summary = run(&resolved);
    assert_near(value(&summary, 0, "queue.utilisation"), 1.0, 0.001, "utilisation");
    assert_near(value(&summary, 0, "flows.jain"), 1.0, 1e-6, "two equal windows");
    // The queue holds two windows of 256 packets minus one bandwidth-delay product.
    let base_us = resolved.plan.base_rtt(HostId::new(0), HostId::new(2)).get() as f64 / 1e6;
    let waiting = 2.0 * 256.0 * 4096.0 - base_us * 1e3 * 100.0 / 8.0;
    assert_near(value(&summary, 0, "queue.waiting_mean_bytes"), waiting, 3.0 * 4096.0, "waiting");
    assert_near(value(&summary, 0, "queue.delay_mean_us"), waiting * 8.0 / 100e3, 1.0, "delay");
}

#[test]
fn a_message_in_an_empty_network_has_the_ideal_latency() {
    let links = |first: &str, middle: &str, last: &str| {
        format!(
            "[topology]\nkind = \"links\"\nlinks = \"\"\"\nh0 s0 {first} 1 us\ns0 s1 {middle} 3 us\nh1 s1 {last} 2 us\n\"\"\"\n"
        )
    };
    let topologies = [
        star(2, 100),
        links("100 Gbps", "100 Gbps", "100 Gbps"),
        links("25 Gbps", "100 Gbps", "100 Gbps"),
        links("100 Gbps", "10 Gbps", "100 Gbps"),
        links("100 Gbps", "100 Gbps", "40 Gbps"),
        links("100 Gbps", "40 Gbps", "25 Gbps"),
    ];
    for topology in &topologies {
        for size in [1, 64, 4095, 4096, 4097, 8192, 10_000, 400_000] {
            let header = "[transport]\nheader = \"58 B\"\n";
            let tables = format!(
                "{topology}{header}{}",
                traffic("m", "incast", "host0", "host1", &format!("size = \"{size} B\""))
            );
            let resolved = resolve(&format!("stop = \"1 ms\"\n{FULL}"), &tables);
            let ideal = ideal_latency_us(&resolved.plan, HostId::new(0), HostId::new(1), size);
            let latency = value(&run(&resolved), 0, "m.latency_mean_us");
            assert_near(latency, ideal, 1e-3, &format!("{size} B over\n{topology}"));
        }
    }
    // A packet and its ACK each cross two links with 1 us delay and one switch with 600 ns latency.
    let small = resolve(
        &format!("stop = \"1 ms\"\n{FULL}"),
        &(star(2, 100) + &traffic("m", "incast", "host0", "host1", "size = \"100 B\"")),
    );
    let bytes_us = 2.0 * (100.0 + 64.0) * 8.0 / 100e3;
    assert_near(
        ideal_latency_us(&small.plan, HostId::new(0), HostId::new(1), 100),
        2.0 * 2.6 + bytes_us,
        1e-6,
        "computed by hand",
    );
}

#[test]
fn single_messages_are_not_slowed_down() {
    for size in ["100 B", "4096 B", "64 KiB"] {
        let tables = star(2, 100) + &periodic("50 us", size, "");
        let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &tables);
        assert_eq!(value(&summary, 0, "m.messages"), 40.0, "{size}");
        assert_near(value(&summary, 0, "m.slowdown_p50"), 1.0, 1e-4, size);
    }
}

#[test]
fn messages_are_counted_by_start_time() {
    // At 100 Gbps, 1.875 MB takes 150 us, so six of the ten messages finish within a millisecond.
    for (size, observe, finished, unfinished) in [
        ("100 B", "", 10.0, 0.0),
        ("1.875 MB", "", 6.0, 4.0),
        ("100 B", "messages-from = \"500 us\"", 5.0, 0.0),
        ("100 B", "messages-from = \"501 us\"", 4.0, 0.0),
        ("1.875 MB", "messages-from = \"500 us\"", 1.0, 4.0),
    ] {
        let tables = format!("{}{}[observe]\n{observe}\n", star(2, 100), periodic("100 us", size, ""));
        let summary = summary(&format!("stop = \"1 ms\"\n{FULL}"), &tables);
        let found = (value(&summary, 0, "m.messages"), value(&summary, 0, "m.unfinished"));
        assert_eq!(found, (finished, unfinished), "{size}, {observe}");
    }
}

#[test]
fn percentiles_need_ten_samples_beyond_them() {
    for (messages, p50, p99) in
        [(19, false, false), (20, true, false), (999, true, false), (1000, true, true)]
    {
        let tables = star(2, 100) + &periodic("2 us", "100 B", &format!("until = \"{} us\"", 2 * messages));
        let values = &summary(&format!("stop = \"2.1 ms\"\n{FULL}"), &tables).phases[0].values;
        assert_eq!(values["m.messages"], f64::from(messages));
        for name in ["latency", "slowdown", "arrival"] {
            let unit = if name == "slowdown" { "" } else { "_us" };
            assert_eq!(values.contains_key(&format!("m.{name}_p50{unit}")), p50, "{name} of {messages}");
            if name != "arrival" {
                assert_eq!(values.contains_key(&format!("m.{name}_p99{unit}")), p99, "{name} of {messages}");
            }
        }
    }
}

const TWO_PHASES: &str = "[[phase]]\nname = \"one\"\nat = \"0 ms\"\nflows = { flows = 1 }\n\
                          [[phase]]\nname = \"two\"\nat = \"2 ms\"\nflows = { flows = 2 }\n";

#[test]
fn metrics_of_a_phase_cover_only_that_phase() {
    let tables = [
        star(6, 100),
        traffic("flows", "phased", "host[0-1]", "host[2-3]", ""),
        traffic("m", "rotating-incast", "host4", "host5", "every = \"400 us\"\nsize = \"100 B\""),
        TWO_PHASES.into(),
        "[observe.queues]\nqueue = \"last hop of flows\"\n".into(),
    ];
    let summary = summary(&format!("stop = \"5 ms\"\n{FULL}"), &tables.concat());
    let names: Vec<&str> = summary.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    for (phase, flows, messages) in [(0, 1.0, 5.0), (1, 2.0, 8.0)] {
        assert_eq!(value(&summary, phase, "flows.flows"), flows);
        assert_near(value(&summary, phase, "flows.total_gbps"), 100.0 * flows, 0.5 * flows, "total");
        assert_near(value(&summary, phase, "flows.rate_gbps"), 100.0, 0.5, "mean");
        assert_eq!(value(&summary, phase, "m.messages"), messages);
        assert_near(value(&summary, phase, "queue.utilisation"), 1.0, 0.005, "queue of the first flow");
    }
}

#[test]
fn a_phase_counts_the_messages_that_start_in_it() {
    // In the second phase, flows fill the queue to the receiver.
    let probe = traffic(
        "m",
        "rotating-incast",
        "host2",
        "host3",
        "every = \"50 us\"\nsize = \"100 B\"\nlaw = \"full\"",
    );
    let flows = traffic("flows", "phased", "host[0-1]", "host3", "");
    let phases = TWO_PHASES.replace("flows = 1", "flows = 0");
    let summary =
        summary(&format!("stop = \"4 ms\"\n{FULL}"), &[star(4, 100), flows, probe, phases].concat());
    for name in ["m.arrival_p50_us", "m.latency_p50_us"] {
        let (idle, busy) = (value(&summary, 0, name), value(&summary, 1, name));
        assert!(idle < 6.0, "{name}: {idle} us in an idle network");
        assert!(busy > 100.0, "{name}: {busy} us behind two windows of a megabyte");
    }
}

#[test]
fn time_to_90_percent_ends_with_the_first_bin_that_reaches_it() {
    // Samples are taken every 10 us, and bins are 50 us long. A bin reaches 90 % if it is idle for at most 5 us.
    for (delay, window, start, t90, reached) in [
        // The first packet arrives after 3.3 us, so the first bin reaches 93 %.
        ("1 us", "256 packets", "1000 us", 50.0, 1.0),
        // The first packet arrives after 21.3 us, so the bin from 20 to 70 us is the first to reach 90 %.
        ("10 us", "256 packets", "1000 us", 70.0, 1.0),
        // The first bin begins at the next sample, 7 us later.
        ("1 us", "256 packets", "1003 us", 57.0, 1.0),
        // Eight packets per 43.6 us round trip give 6 Gbps. The flow never reaches 90 %, so its lifetime is reported.
        ("10 us", "8 packets", "1000 us", 3000.0, 0.0),
    ] {
        let top_level = format!(
            "stop = \"4 ms\"\nlaw = \"small\"\n[laws.small]\nbase = \"fixed\"\nwindow = \"{window}\"\n"
        );
        let tables = [
            star(2, 100).replace("1 us", delay),
            traffic("flow", "long-flows", "host0", "host1", &format!("start = \"{start}\"")),
            "[observe]\nsample = \"10 us\"\nbin = \"50 us\"\n".into(),
        ];
        let summary = summary(&top_level, &tables.concat());
        assert_near(value(&summary, 0, "flow.t90_us"), t90, 1e-9, &format!("{delay}, {window}, {start}"));
        assert_eq!(value(&summary, 0, "flow.t90_reached"), reached);
    }
}

#[test]
fn a_window_below_the_bdp_sets_the_rate_and_causes_no_queueing() {
    // Flows over one switch and over three switches have different base RTTs.
    let tables = [
        "[topology]\nkind = \"chain\"\nswitches = 3\nhosts = 4\nhost-link = { rate = \"100 Gbps\", delay = \"1 us\" }\nmiddle-link = { rate = \"100 Gbps\", delay = \"5 us\" }\n",
        "[[traffic]]\nname = \"flows\"\nkind = \"long-flows\"\nfrom = [\"rack0.host0\", \"rack0.host1\"]\nto = [\"rack0.host2\", \"rack2.host0\"]\n",
        "[observe]\ndecisions = [\"flows\"]\n",
    ];
    let top_level = "stop = \"2 ms\"\nlaw = \"one\"\n[laws.one]\nbase = \"fixed\"\nwindow = \"1 packets\"\n";
    let resolved = resolve(top_level, &tables.concat());
    let summary = run(&resolved);
    let base_us = |from, to| resolved.plan.base_rtt(HostId::new(from), HostId::new(to)).get() as f64 / 1e6;
    // Each flow sends one packet per round trip.
    let expected = [base_us(0, 2), base_us(1, 8)].map(|us| 4096.0 * 8.0 / us / 1e3);
    assert_near(value(&summary, 0, "flows.rate_max_gbps"), expected[0], 0.01 * expected[0], "near");
    assert_near(value(&summary, 0, "flows.rate_min_gbps"), expected[1], 0.02 * expected[1], "far");
    assert_near(value(&summary, 0, "flows.queueing_us"), 0.0, 2e-3, "no queueing");
    assert_eq!(value(&summary, 0, "flows.window_packets"), 1.0);
    assert_eq!(value(&summary, 0, "flows.window_sd_packets"), 0.0);
    assert_eq!(value(&summary, 0, "flows.cuts"), 0.0);
}

#[test]
fn the_deviation_of_windows_is_that_of_their_samples() {
    let tables = star(2, 100)
        + &traffic("flow", "long-flows", "host0", "host1", "")
        + "[observe]\nsample = \"2 us\"\n";
    let growing = "law = \"growing\"\n[laws.growing]\nbase = \"poseidon\"\ninitial-window = \"1 packets\"\nmax-increase = 1.05\n";
    let summary = summary(&format!("stop = \"200 us\"\n{growing}"), &tables);
    // Metrics count the second half of a run.
    let measured =
        summary.series["flow.window_packets"].iter().filter(|(time_us, _)| (100.0..=200.0).contains(time_us));
    let windows: Vec<f64> = measured.map(|(_, window)| *window).collect();
    let count = windows.len() as f64;
    let mean = windows.iter().sum::<f64>() / count;
    let variance = windows.iter().map(|window| (window - mean).powi(2)).sum::<f64>() / count;
    assert!(variance > 0.1, "the window grows in this run: {variance}");
    assert_near(value(&summary, 0, "flow.window_packets"), mean, 1e-9, "mean");
    assert_near(value(&summary, 0, "flow.window_sd_packets"), variance.sqrt(), 1e-6, "deviation");
}

#[test]
fn the_target_is_computed_at_the_mean_rate() {
    let links = "[topology]\nkind = \"links\"\nlinks = \"\"\"\nh0 s0 10 Gbps 1 us\nh1 s0 40 Gbps 1 us\nh2 s0 100 Gbps 1 us\nh3 s0 100 Gbps 1 us\n\"\"\"\n";
    let flows = traffic("flows", "long-flows", "host[0-1]", "host[2-3]", "");
    let tables = format!("{links}{flows}[observe]\ndecisions = [\"flows\"]\n");
    let summary = summary("stop = \"2 ms\"\n", &tables);
    let rate = value(&summary, 0, "flows.rate_gbps");
    assert_near(rate, 25.0, 0.5, "10 and 40 Gbps");
    let expected = target_us(&PoseidonParams::default(), rate);
    assert_near(value(&summary, 0, "flows.target_us"), expected, 1e-9, "T at 25 Gbps");
}

#[test]
fn incast_flows_without_a_size_are_long() {
    let summary = summary(
        &format!("stop = \"2 ms\"\n{FULL}"),
        &(star(3, 100) + &traffic("flows", "incast", "host[0-1]", "host2", "")),
    );
    assert_near(value(&summary, 0, "flows.fair_share_gbps"), 50.0, 1e-9, "two flows share a link");
    assert_near(value(&summary, 0, "flows.total_gbps"), 100.0, 0.5, "the flows fill the link");
}

#[test]
fn incast_flows_are_fair_and_finish_in_order() {
    // Three windows of two packets do not fill the link, so no packet waits and each flow sends as if it were alone.
    let small_window = "law = \"small\"\n[laws.small]\nbase = \"fixed\"\nwindow = \"2 packets\"\n";
    let tables = format!(
        "{}{}[observe]\nsample = \"10 us\"\nbin = \"50 us\"\nrates = [\"flows\"]\n[transport]\nmtu = \"1000 B\"\n",
        star(4, 100),
        traffic(
            "flows",
            "incast",
            "host[0-2]",
            "host3",
            "size = \"400 kB\"\ntogether = 1\nevery = \"100 us\""
        )
    );
    let summary = summary(&format!("stop = \"2 ms\"\n{small_window}"), &tables);
    assert_near(
        value(&summary, 0, "flows.finish_order"),
        1.0,
        1e-12,
        "flows finish in the order of their starts",
    );
    assert_near(value(&summary, 0, "flows.finish_spread_us"), 200.0, 1.0, "starts are 200 us apart");
    assert_near(value(&summary, 0, "flows.jain_mean"), 1.0, 5e-3, "equal rates within one packet in twenty");
    assert_eq!(value(&summary, 0, "flows.fair_reached"), 1.0);
    // The second flow starts at 100 us. After one more 50 us bin, both flows have been active for a whole bin.
    assert_near(value(&summary, 0, "flows.fair_us"), 150.0, 1e-9, "one bin after the second start");
    assert!(summary.series["flows.jain"].iter().all(|(_, index)| *index > 0.98));
}

#[test]
fn classes_select_messages_by_size() {
    let tables = format!(
        "{}{}{}[observe.classes]\nsmall = {{ of = [\"small\", \"large\"], below = \"100 kB\" }}\n",
        star(3, 100),
        periodic("50 us", "10 kB", "until = \"1 ms\"").replace("\"m\"", "\"a\""),
        periodic("100 us", "200 kB", "until = \"1 ms\"").replace("\"m\"", "\"b\""),
    )
    .replace("[\"small\", \"large\"]", "[\"a\", \"b\"]");
    let tables = tables + "large = { of = [\"a\", \"b\"], from = \"100 kB\" }\n";
    let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &tables);
    for (class, traffic) in [("small", "a"), ("large", "b")] {
        for metric in ["messages", "latency_mean_us", "unfinished"] {
            let metric_of = |owner: &str| value(&summary, 0, &format!("{owner}.{metric}"));
            assert_eq!(metric_of(class), metric_of(traffic), "{class}.{metric}");
        }
    }
}

#[test]
fn a_buffer_holds_the_sum_of_its_queues() {
    // Two flows to each of two hosts: each queue holds the excess of two windows, and the switch holds both queues.
    let tables = format!(
        "{}{}{}[observe]\nsample = \"10 us\"\nbin = \"100 us\"\nqueues = {{ q = \"last hop of x\" }}\nbuffers = {{ all = \"rack0\" }}\n",
        star(6, 100),
        traffic("x", "long-flows", "host[0-1]", "host4", ""),
        traffic("y", "long-flows", "host[2-3]", "host5", ""),
    );
    let summary = summary(&format!("stop = \"4 ms\"\n{FULL}"), &tables);
    let (queue, buffer) =
        (value(&summary, 0, "q.waiting_max_bytes"), value(&summary, 0, "all.buffer_max_bytes"));
    assert_near(buffer, 2.0 * queue, 0.01 * buffer, "two queues");
    assert_near(value(&summary, 0, "all.buffer_p50_bytes"), buffer, 0.01 * buffer, "constant queues");
    assert_near(value(&summary, 0, "q.utilisation_min"), 1.0, 0.01, "every bin is full");
}
