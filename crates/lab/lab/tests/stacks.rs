//! Compares the metrics of connections in real stacks with closed forms. A small stack of the simulator's tests stands for
//! a real one.

#[path = "../../../engines/sim/tests/toy_stack/mod.rs"]
mod toy_stack;

use core::num::NonZeroU32;
use poseidon_lab::cost::estimate_cost;
use poseidon_lab::reduce::Reducer;
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::study::Study;
use poseidon_lab::summary::Summary;
use poseidon_plan::{Backend, Report};
use poseidon_sim::Simulator;
use poseidon_types::{Bytes, HostId};
use toy_stack::{HEADER, LoggingFactory, OVERHEAD, ToyFactory};

/// Runs all connections of a star in a stack with a window of 256 datagrams.
fn run(tables: &str) -> (ResolvedRun, Summary, Report) {
    let factory: &'static LoggingFactory = Box::leak(Box::new(LoggingFactory(ToyFactory::leak(256, 10_000))));
    let simulator = Simulator { stacks: Some(factory), ..Simulator::with_threads(NonZeroU32::MIN) };
    let text = format!(
        r#"
title = "a test"
source = "none"
stop = "2 ms"
law = "toy"
[laws.toy]
stack = "quinn"
controller = "cubic"
[topology]
kind = "star"
hosts = 3
link = {{ rate = "100 Gbps", delay = "1 us" }}
[transport]
mtu = "4096 B"
header = "64 B"
{tables}"#
    );
    let study = Study::read("test.toml", &text, false).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.check(&simulator).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let resolved = study.resolve(&study.cells[0], 1, &simulator).expect("the scenario was checked");
    let cost = estimate_cost(&resolved, &simulator);
    let mut reducer = Reducer::new(&resolved, true);
    let report = simulator.run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    let summary = reducer.summary(&report);
    // A datagram holds less than a packet of the simulator's transport, because the stack has headers of its own.
    let ratio = report.packet_hops as f64 / cost.packet_hops as f64;
    assert!((0.9..1.1).contains(&ratio), "estimated {}, actual {}", cost.packet_hops, report.packet_hops);
    (resolved, summary, report)
}

fn value(summary: &Summary, name: &str) -> f64 {
    let values = &summary.phases[0].values;
    *values.get(name).unwrap_or_else(|| panic!("there is no {name} in {values:?}"))
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found} differs from {expected} by more than {tolerance}"
    );
}

#[test]
fn long_flows_have_the_closed_form_goodput_share_and_queue() {
    let (resolved, summary, _) = run(r#"
[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"
[observe.queues]
queue = "last hop of flows"
"#);
    let (payload, size) = (ToyFactory::full_payload(&resolved.plan), resolved.plan.data_size().get());
    let goodput = 100.0 * payload as f64 / size as f64;
    assert_near(value(&summary, "flows.total_gbps"), goodput, 0.005 * goodput);
    assert_near(value(&summary, "flows.jain"), 1.0, 1e-4);
    // A fair share assumes the headers of the simulator's transport.
    assert_near(value(&summary, "flows.share"), payload as f64 / 4_096.0, 0.005);
    assert_near(value(&summary, "flows.window_packets"), 256.0 * payload as f64 / 4_096.0, 0.01);
    assert_near(value(&summary, "queue.utilisation"), 1.0, 0.001);
    // The queue holds two windows of 256 datagrams minus one bandwidth-delay product.
    let base_us = resolved.plan.base_rtt(HostId::new(0), HostId::new(2)).get() as f64 / 1e6;
    let waiting = 2.0 * 256.0 * size as f64 - base_us * 1e3 * 100.0 / 8.0;
    assert_near(value(&summary, "queue.waiting_mean_bytes"), waiting, 4.0 * size as f64);
    // Laws in the simulator's transport log decisions. Stacks do not.
    assert!(!summary.phases[0].values.contains_key("flows.rtt_mean_us"));
}

#[test]
fn messages_have_the_closed_form_latency() {
    let (resolved, summary, report) = run(r#"
[[traffic]]
name = "m"
kind = "rotating-incast"
from = "host0"
to = "host1"
every = "100 us"
size = "1000 B"
"#);
    let plan = &resolved.plan;
    let headers = HEADER + OVERHEAD + plan.switch.stamp.data_bytes().get();
    let (from, to) = (HostId::new(0), HostId::new(1));
    let data = plan.one_way_delay(from, to, Bytes::new(1_000 + headers));
    let ack = plan.one_way_delay(to, from, Bytes::new(headers));
    let latency = (data + ack).get() as f64 / 1e6;
    assert_near(value(&summary, "m.latency_mean_us"), latency, 1e-6);
    let slowdown = value(&summary, "m.slowdown_p50");
    assert!((0.9..1.1).contains(&slowdown), "one round trip: {slowdown}");
    assert!(report.sent > 30 && report.retransmitted == 0, "{report:?}");
}
