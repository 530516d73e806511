//! Known answers: what the simulator's rows come down to, where a closed form says what it must be.

use core::num::NonZeroU32;
use poseidon_lab::analytic::target_us;
use poseidon_lab::reduce::{Reducer, ideal_us};
use poseidon_lab::resolve::Resolved;
use poseidon_lab::study::Study;
use poseidon_lab::summary::Summary;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_plan::Backend;
use poseidon_sim::Simulator;

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

/// The only cell of a scenario, worked out; `head` holds keys, `rest` tables.
fn resolved(head: &str, rest: &str) -> Resolved {
    let text = format!("title = \"a test\"\nsource = \"none\"\n{head}\n{rest}");
    let study = Study::read("test.toml", &text, false).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.check(&simulator()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.resolve(&study.cells[0], 1, &simulator()).expect("it was checked")
}

fn run(resolved: &Resolved) -> Summary {
    let mut reducer = Reducer::new(resolved, true);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("it was checked");
    reducer.summary(&report)
}

fn summary(head: &str, rest: &str) -> Summary {
    run(&resolved(head, rest))
}

fn value(summary: &Summary, phase: usize, name: &str) -> f64 {
    let values = &summary.phases[phase].values;
    *values.get(name).unwrap_or_else(|| panic!("there is no {name} in {values:?}"))
}

fn assert_near(found: f64, expected: f64, within: f64, what: &str) {
    assert!((found - expected).abs() <= within, "{what}: {found} is not {expected} within {within}");
}

/// A window that never moves and fills every link of these tests.
const FULL: &str = "law = \"full\"\n[laws.full]\nbase = \"fixed\"\nwindow = \"256 packets\"\n";

fn star(hosts: u32, gbps: u32) -> String {
    format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\nlink = {{ rate = \"{gbps} Gbps\", delay = \"1 us\" }}\n"
    )
}

fn traffic(name: &str, kind: &str, from: &str, to: &str, more: &str) -> String {
    format!("[[traffic]]\nname = \"{name}\"\nkind = \"{kind}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
}

/// A message of one host to another every so often.
fn every(period: &str, size: &str, more: &str) -> String {
    let more = format!("every = \"{period}\"\nsize = \"{size}\"\n{more}");
    traffic("m", "rotating-incast", "host0", "host1", &more)
}

#[test]
fn a_single_flow_has_the_line_less_its_headers() {
    for (gbps, mtu, header) in [(100, 4096, 0), (25, 1000, 58), (200, 1500, 78)] {
        let rest = format!(
            "{}{}[transport]\nmtu = \"{mtu} B\"\nheader = \"{header} B\"\n",
            star(2, gbps),
            traffic("flow", "long-flows", "host0", "host1", "")
        );
        let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &rest);
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
        let more = |count: u32, more: &str| format!("count = {count}\n{more}");
        let rest = [
            "[topology]\nkind = \"poseidon-clos\"\nracks = 12\n".to_owned(),
            traffic("red", "long-flows", "rack0.host0", "rack10.host0", ""),
            traffic(
                "green",
                "long-flows",
                "rack0.host[1-9]",
                "rack11.host[1-9]",
                &more(m, "share-uplink-of = \"red\""),
            ),
            traffic("blue", "long-flows", "rack[1-9].host0", "rack10.host0", &more(n, "")),
        ];
        let resolved = resolved("stop = \"1 ms\"", &rest.concat());
        let busier = m.max(n) + 1;
        assert_eq!(resolved.phases[0].fair[0], 200e9 / f64::from(busier), "M {m}, N {n}");
    }
}

#[test]
fn flows_over_links_of_their_own_have_known_rates_and_a_known_fairness() {
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
fn a_full_queue_uses_its_link_and_holds_what_windows_leave_over() {
    let rest = [
        star(3, 100),
        traffic("flows", "long-flows", "host[0-1]", "host2", ""),
        "[observe.queues]\nqueue = \"last hop of flows\"\n".into(),
    ];
    let resolved = resolved(&format!("stop = \"2 ms\"\n{FULL}"), &rest.concat());
    let summary = run(&resolved);
    assert_near(value(&summary, 0, "queue.utilisation"), 1.0, 0.001, "utilisation");
    assert_near(value(&summary, 0, "flows.jain"), 1.0, 1e-6, "two windows alike");
    // Two windows of 256 packets, less what is on the way: a round trip of the line.
    let base_us = resolved.plan.base_rtt(0, 2).get() as f64 / 1e6;
    let waiting = 2.0 * 256.0 * 4096.0 - base_us * 1e3 * 100.0 / 8.0;
    assert_near(value(&summary, 0, "queue.waiting_mean_bytes"), waiting, 3.0 * 4096.0, "waiting");
    assert_near(value(&summary, 0, "queue.delay_mean_us"), waiting * 8.0 / 100e3, 1.0, "delay");
}

#[test]
fn a_message_in_an_empty_network_takes_the_time_that_is_ideal() {
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
            let rest = format!(
                "{topology}{header}{}",
                traffic("m", "incast", "host0", "host1", &format!("size = \"{size} B\""))
            );
            let resolved = resolved(&format!("stop = \"1 ms\"\n{FULL}"), &rest);
            let ideal = ideal_us(&resolved.plan, 0, 1, size);
            let taken = value(&run(&resolved), 0, "m.latency_mean_us");
            assert_near(taken, ideal, 1e-3, &format!("{size} B over\n{topology}"));
        }
    }
    // A packet out and its ACK back over two links of 1 us and one switch of 600 ns.
    let small = resolved(
        &format!("stop = \"1 ms\"\n{FULL}"),
        &(star(2, 100) + &traffic("m", "incast", "host0", "host1", "size = \"100 B\"")),
    );
    let bytes_us = 2.0 * (100.0 + 64.0) * 8.0 / 100e3;
    assert_near(ideal_us(&small.plan, 0, 1, 100), 2.0 * 2.6 + bytes_us, 1e-6, "by hand");
}

#[test]
fn messages_one_by_one_are_not_slowed_down() {
    for size in ["100 B", "4096 B", "64 KiB"] {
        let rest = star(2, 100) + &every("50 us", size, "");
        let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &rest);
        assert_eq!(value(&summary, 0, "m.messages"), 40.0, "{size}");
        assert_near(value(&summary, 0, "m.slowdown_p50"), 1.0, 1e-4, size);
    }
}

#[test]
fn messages_are_counted_where_they_begin() {
    // At 100 Gbps 1.875 MB take 150 us: of ten that begin in a millisecond, six are through.
    for (size, observe, finished, unfinished) in [
        ("100 B", "", 10.0, 0.0),
        ("1.875 MB", "", 6.0, 4.0),
        ("100 B", "messages-from = \"500 us\"", 5.0, 0.0),
        ("100 B", "messages-from = \"501 us\"", 4.0, 0.0),
        ("1.875 MB", "messages-from = \"500 us\"", 1.0, 4.0),
    ] {
        let rest = format!("{}{}[observe]\n{observe}\n", star(2, 100), every("100 us", size, ""));
        let summary = summary(&format!("stop = \"1 ms\"\n{FULL}"), &rest);
        let found = (value(&summary, 0, "m.messages"), value(&summary, 0, "m.unfinished"));
        assert_eq!(found, (finished, unfinished), "{size}, {observe}");
    }
}

#[test]
fn percentiles_are_there_where_ten_samples_lie_beyond() {
    for (messages, p50, p99) in
        [(19, false, false), (20, true, false), (999, true, false), (1000, true, true)]
    {
        let rest = star(2, 100) + &every("2 us", "100 B", &format!("until = \"{} us\"", 2 * messages));
        let values = &summary(&format!("stop = \"2.1 ms\"\n{FULL}"), &rest).phases[0].values;
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
fn a_phase_measures_its_own_part_of_a_run() {
    let rest = [
        star(6, 100),
        traffic("flows", "phased", "host[0-1]", "host[2-3]", ""),
        traffic("m", "rotating-incast", "host4", "host5", "every = \"400 us\"\nsize = \"100 B\""),
        TWO_PHASES.into(),
        "[observe.queues]\nqueue = \"last hop of flows\"\n".into(),
    ];
    let summary = summary(&format!("stop = \"5 ms\"\n{FULL}"), &rest.concat());
    let names: Vec<&str> = summary.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    for (phase, flows, messages) in [(0, 1.0, 5.0), (1, 2.0, 8.0)] {
        assert_eq!(value(&summary, phase, "flows.flows"), flows);
        assert_near(value(&summary, phase, "flows.total_gbps"), 100.0 * flows, 0.5 * flows, "total");
        assert_near(value(&summary, phase, "flows.rate_gbps"), 100.0, 0.5, "mean");
        assert_eq!(value(&summary, phase, "m.messages"), messages);
        assert_near(value(&summary, phase, "queue.utilisation"), 1.0, 0.005, "the first flow's queue");
    }
}

#[test]
fn a_phase_measures_the_messages_that_begin_in_it() {
    // In the second phase a flow has filled the queue before the receiver.
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
        let (alone, beside) = (value(&summary, 0, name), value(&summary, 1, name));
        assert!(alone < 6.0, "{name}: {alone} us with nothing on the way");
        assert!(beside > 100.0, "{name}: {beside} us behind two windows of a megabyte");
    }
}

#[test]
fn a_flow_needs_as_long_as_its_first_packet_and_a_bin() {
    // Samples every 10 us, bins of 50 us. A bin is 90 % full if at most 5 us of it are without packets.
    for (delay, window, start, t90, reached) in [
        // The first packet arrives after 3.3 us: 93 % of the first bin.
        ("1 us", "256 packets", "1000 us", 50.0, 1.0),
        // After 21.3 us: the bin from 20 to 70 us is the first with 90 %.
        ("10 us", "256 packets", "1000 us", 70.0, 1.0),
        // The first bin begins at a sample: 7 us later.
        ("1 us", "256 packets", "1003 us", 57.0, 1.0),
        // Eight packets per round trip of 43.6 us are 6 Gbps of 100: it never gets there and counts with the time it had.
        ("10 us", "8 packets", "1000 us", 3000.0, 0.0),
    ] {
        let head =
            format!("stop = \"4 ms\"\nlaw = \"it\"\n[laws.it]\nbase = \"fixed\"\nwindow = \"{window}\"\n");
        let rest = [
            star(2, 100).replace("1 us", delay),
            traffic("flow", "long-flows", "host0", "host1", &format!("start = \"{start}\"")),
            "[observe]\nsample = \"10 us\"\nbin = \"50 us\"\n".into(),
        ];
        let summary = summary(&head, &rest.concat());
        assert_near(value(&summary, 0, "flow.t90_us"), t90, 1e-9, &format!("{delay}, {window}, {start}"));
        assert_eq!(value(&summary, 0, "flow.t90_reached"), reached);
    }
}

#[test]
fn a_window_below_the_line_gives_its_rate_and_no_queueing() {
    // Flows over one switch and over three: each has its own unloaded round trip.
    let rest = [
        "[topology]\nkind = \"chain\"\nswitches = 3\nhosts = 4\nhost-link = { rate = \"100 Gbps\", delay = \"1 us\" }\nmiddle-link = { rate = \"100 Gbps\", delay = \"5 us\" }\n",
        "[[traffic]]\nname = \"flows\"\nkind = \"long-flows\"\nfrom = [\"rack0.host0\", \"rack0.host1\"]\nto = [\"rack0.host2\", \"rack2.host0\"]\n",
        "[observe]\ndecisions = [\"flows\"]\n",
    ];
    let head = "stop = \"2 ms\"\nlaw = \"one\"\n[laws.one]\nbase = \"fixed\"\nwindow = \"1 packets\"\n";
    let resolved = resolved(head, &rest.concat());
    let summary = run(&resolved);
    let base_us = |from, to| resolved.plan.base_rtt(from, to).get() as f64 / 1e6;
    // A packet per round trip.
    let expected = [base_us(0, 2), base_us(1, 8)].map(|us| 4096.0 * 8.0 / us / 1e3);
    assert_near(value(&summary, 0, "flows.rate_max_gbps"), expected[0], 0.01 * expected[0], "near");
    assert_near(value(&summary, 0, "flows.rate_min_gbps"), expected[1], 0.02 * expected[1], "far");
    assert_near(value(&summary, 0, "flows.queueing_us"), 0.0, 2e-3, "nothing waits");
    assert_eq!(value(&summary, 0, "flows.window_packets"), 1.0);
    assert_eq!(value(&summary, 0, "flows.cuts"), 0.0);
}

#[test]
fn the_target_is_that_of_the_mean_flow() {
    let links = "[topology]\nkind = \"links\"\nlinks = \"\"\"\nh0 s0 10 Gbps 1 us\nh1 s0 40 Gbps 1 us\nh2 s0 100 Gbps 1 us\nh3 s0 100 Gbps 1 us\n\"\"\"\n";
    let flows = traffic("flows", "long-flows", "host[0-1]", "host[2-3]", "");
    let rest = format!("{links}{flows}[observe]\ndecisions = [\"flows\"]\n");
    let summary = summary("stop = \"2 ms\"\n", &rest);
    let rate = value(&summary, 0, "flows.rate_gbps");
    assert_near(rate, 25.0, 0.5, "10 and 40 Gbps");
    let expected = target_us(&PoseidonParams::default(), rate);
    assert_near(value(&summary, 0, "flows.target_us"), expected, 1e-9, "T of 25 Gbps");
}

#[test]
fn flows_of_an_incast_without_a_size_are_long() {
    let summary = summary(
        &format!("stop = \"2 ms\"\n{FULL}"),
        &(star(3, 100) + &traffic("flows", "incast", "host[0-1]", "host2", "")),
    );
    assert_near(value(&summary, 0, "flows.fair_share_gbps"), 50.0, 1e-9, "two share a link");
    assert_near(value(&summary, 0, "flows.total_gbps"), 100.0, 0.5, "and fill it");
}

#[test]
fn flows_of_an_incast_are_fair_and_finish_in_order() {
    // Windows of two packets into one line of three times that: nothing waits, so each sends as if it were alone.
    let few = "law = \"few\"\n[laws.few]\nbase = \"fixed\"\nwindow = \"2 packets\"\n";
    let rest = format!(
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
    let summary = summary(&format!("stop = \"2 ms\"\n{few}"), &rest);
    assert_near(value(&summary, 0, "flows.finish_order"), 1.0, 1e-12, "who starts first finishes first");
    assert_near(value(&summary, 0, "flows.finish_spread_us"), 200.0, 1.0, "starts are 200 us apart");
    assert_near(value(&summary, 0, "flows.jain_mean"), 1.0, 5e-3, "all alike, to a packet in twenty");
    assert_eq!(value(&summary, 0, "flows.fair_reached"), 1.0);
    // The second begins at 100 us; a bin of 50 us later both were there all along.
    assert_near(value(&summary, 0, "flows.fair_us"), 150.0, 1e-9, "as soon as there are two");
    assert!(summary.series["flows.jain"].iter().all(|(_, index)| *index > 0.98));
}

#[test]
fn classes_are_messages_by_their_size() {
    let rest = format!(
        "{}{}{}[observe.classes]\nsmall = {{ of = [\"small\", \"large\"], below = \"100 kB\" }}\n",
        star(3, 100),
        every("50 us", "10 kB", "until = \"1 ms\"").replace("\"m\"", "\"a\""),
        every("100 us", "200 kB", "until = \"1 ms\"").replace("\"m\"", "\"b\""),
    )
    .replace("[\"small\", \"large\"]", "[\"a\", \"b\"]");
    let rest = rest + "large = { of = [\"a\", \"b\"], from = \"100 kB\" }\n";
    let summary = summary(&format!("stop = \"2 ms\"\n{FULL}"), &rest);
    for (class, traffic) in [("small", "a"), ("large", "b")] {
        for metric in ["messages", "latency_mean_us", "unfinished"] {
            let of = |owner: &str| value(&summary, 0, &format!("{owner}.{metric}"));
            assert_eq!(of(class), of(traffic), "{class}.{metric}");
        }
    }
}

#[test]
fn a_buffer_holds_what_its_queues_hold() {
    // Two flows into each of two hosts: each queue holds what the windows leave over, and the switch both.
    let rest = format!(
        "{}{}{}[observe]\nsample = \"10 us\"\nbin = \"100 us\"\nqueues = {{ q = \"last hop of x\" }}\nbuffers = {{ all = \"rack0\" }}\n",
        star(6, 100),
        traffic("x", "long-flows", "host[0-1]", "host4", ""),
        traffic("y", "long-flows", "host[2-3]", "host5", ""),
    );
    let summary = summary(&format!("stop = \"4 ms\"\n{FULL}"), &rest);
    let (queue, buffer) =
        (value(&summary, 0, "q.waiting_max_bytes"), value(&summary, 0, "all.buffer_max_bytes"));
    assert_near(buffer, 2.0 * queue, 0.01 * buffer, "two queues");
    assert_near(value(&summary, 0, "all.buffer_p50_bytes"), buffer, 0.01 * buffer, "that never change");
    assert_near(value(&summary, 0, "q.utilisation_min"), 1.0, 0.01, "full in every bin");
}
