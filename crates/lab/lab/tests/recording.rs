//! Checks recordings: they do not change the run, they stay small, and wrong requests are refused.

use core::num::NonZeroU32;
use poseidon_lab::recording::pcapng::PcapngSink;
use poseidon_lab::recording::perfetto::PerfettoSink;
use poseidon_lab::recording::{RecordingOptions, Selection, Tee, all_ports, record, select};
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::study::Study;
use poseidon_plan::records::{MemorySink, Sink};
use poseidon_plan::{Backend, PlanError, Report, SwitchPort};
use poseidon_sim::Simulator;
use poseidon_types::{Picos, Signals, SwitchId};

const SCENARIO: &str = r#"
title = "incast and ring"
source = "a test"
stop = "300 us"
law = "poseidon"

[topology]
kind = "clos"
pods = 1
racks = 2
hosts = 4
aggregation = 2
host-link = { rate = "100 Gbps", delay = "1 us" }
rack-link = { rate = "100 Gbps", delay = "1 us" }

[switch]
buffer = { policy = "shared", size = "300 kB", alpha = 1 }
mark = { policy = "step", threshold = "100 kB" }

[transport]
mtu = "1000 B"
header = "48 B"

[[traffic]]
name = "incast"
kind = "incast"
from = "host[1-6]"
to = "host0"
size = "500 kB"

[[traffic]]
name = "ring"
kind = "collective"
algorithm = "ring-all-reduce"
from = "host[0-7]"
size = "800 kB"

[observe]
sample = "5 us"
decisions = ["incast"]

[observe.queues]
last = "last hop of incast"
"#;

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

fn resolve() -> ResolvedRun {
    let study = Study::read("recorded.toml", SCENARIO, false).expect("the scenario is valid");
    study.resolve(&study.cells[0], 1, &simulator()).expect("the cell is valid")
}

fn everything() -> Selection {
    Selection {
        samples: true,
        captured_ports: vec!["host0:0".to_owned(), "switch0:0".to_owned()],
        ..Selection::default()
    }
}

#[test]
fn a_recording_has_the_deliveries_of_the_plain_run() {
    let resolved = resolve();
    let mut plain_rows = MemorySink::default();
    let plain = simulator().run(&resolved.plan, &mut plain_rows).expect("the plan runs");
    let (options, _) = select(&resolved, &everything(), &simulator()).expect("the selection is valid");
    let mut rows = MemorySink::default();
    let report = record(&resolved, &options, &simulator(), &mut rows).expect("the plan runs");
    assert_eq!(report, plain);
    assert_eq!(rows.messages, plain_rows.messages);
    assert_eq!(options.ports.len(), 2 * 6 + 2 * 2);
    assert_eq!(options.connections.len(), resolved.plan.connections.len());
    // The queue that the scenario watches has the same samples.
    let watched = resolved.plan.watched_ports[0];
    let is_watched =
        |row: &&poseidon_plan::records::QueueRow| SwitchPort::new(row.switch, row.port) == watched;
    let samples: Vec<_> = rows.queues.iter().filter(is_watched).copied().collect();
    assert_eq!(samples, plain_rows.queues.iter().filter(is_watched).copied().collect::<Vec<_>>());
    assert!(!rows.recorded.marks.is_empty() && !rows.recorded.packets.is_empty());
    assert!(!rows.recorded.law_states.is_empty());
}

#[test]
fn a_window_ends_the_recording() {
    let resolved = resolve();
    let selection = Selection { to: Some(Picos::new(50_000_000)), ..everything() };
    let (options, window) = select(&resolved, &selection, &simulator()).expect("the selection is valid");
    assert_eq!((window.from, window.to), (Picos::ZERO, Picos::new(50_000_000)));
    let mut rows = MemorySink::default();
    record(&resolved, &options, &simulator(), &mut rows).expect("the plan runs");
    assert!(rows.recorded.packets.iter().all(|row| row.time < window.to));
    assert!(rows.recorded.packets.last().is_some_and(|row| row.time > Picos::new(49_000_000)));
}

#[test]
fn files_stay_below_their_size_limit() {
    let resolved = resolve();
    let (options, window) = select(&resolved, &everything(), &simulator()).expect("the selection is valid");
    let run = |max_bytes: u64| {
        let (mut trace, mut capture) = (Vec::new(), Vec::new());
        let mut perfetto = PerfettoSink::new(&mut trace, &resolved, window, options.sample_every, max_bytes);
        let ports = &options.recording.captured_ports;
        let mut pcapng =
            PcapngSink::new(&mut capture, &resolved, ports, max_bytes).expect("a vector is writable");
        let sinks: Vec<&mut dyn Sink> = vec![&mut perfetto, &mut pcapng];
        let report = record(&resolved, &options, &simulator(), &mut Tee(sinks)).expect("the plan runs");
        let trace_summary = perfetto.finish(report.ended).expect("a vector is writable");
        let capture_summary = pcapng.finish().expect("a vector is writable");
        assert_eq!((trace_summary.bytes, capture_summary.bytes), (trace.len() as u64, capture.len() as u64));
        (trace_summary, capture_summary)
    };
    let (trace, capture) = run(u64::MAX);
    assert_eq!((trace.omitted, capture.omitted), (0, 0));
    assert!(trace.counter_values > 1_000 && trace.slices > 40 && trace.instants > 100, "{trace:?}");
    let limit = trace.bytes / 4;
    let (small_trace, small_capture) = run(limit);
    assert!(small_trace.omitted > 0 && small_trace.bytes <= limit, "{small_trace:?} of {limit}");
    // The last packet may exceed the limit by its own size.
    assert!(small_capture.omitted > 0 && small_capture.bytes <= limit + 300, "{small_capture:?} of {limit}");
    assert_eq!(small_capture.packets + small_capture.omitted, capture.packets);
}

#[test]
fn long_recordings_are_sampled_less_often() {
    let mut resolved = resolve();
    let (options, _) = select(&resolved, &everything(), &simulator()).expect("the selection is valid");
    assert_eq!(options.sample_every, resolved.plan.sample_every);
    // 16 ports with 3 counters and 14 connections with 7 counters, every 5 us, are 5 million values in 171 ms.
    resolved.measured_until = Picos::new(1_000_000_000_000);
    let (options, _) = select(&resolved, &everything(), &simulator()).expect("the selection is valid");
    assert_eq!(options.sample_every, resolved.plan.sample_every * 6);
    let requested = Selection { sample_every: Some(Picos::new(7_000_000)), ..everything() };
    let (options, _) = select(&resolved, &requested, &simulator()).expect("the selection is valid");
    assert_eq!(options.sample_every, Picos::new(7_000_000));
}

#[test]
fn wrong_requests_name_the_cause() {
    let resolved = resolve();
    let error = |selection: Selection| {
        select(&resolved, &selection, &simulator()).expect_err("the selection is invalid").to_string()
    };
    let port =
        |port: &str| error(Selection { captured_ports: vec![port.to_owned()], ..Selection::default() });
    assert_eq!(port("host"), "\"host\" does not name a port; write host3:0 or switch5:2");
    assert_eq!(port("rack0:1"), "\"rack0:1\" does not name a port; write host3:0 or switch5:2");
    assert_eq!(port("host8:0"), "\"host8:0\": the network has hosts 0 to 7");
    assert_eq!(port("switch4:0"), "\"switch4:0\": the network has switches 0 to 3");
    assert_eq!(port("host7:1"), "\"host7:1\": host7 has only port 0");
    assert_eq!(port("switch0:6"), "\"switch0:6\": switch0 has ports 0 to 5");
    let us = |us: u64| Some(Picos::new(us * 1_000_000));
    let window = |from, to| error(Selection { from, to, ..Selection::default() });
    let empty = "the window from 2 us to 1 us is empty; --to must be later than --from";
    assert_eq!(window(us(2), us(1)), empty);
    assert_eq!(window(us(300), None), "the window begins at 300 us, but the run ends at 300 us");
    let flow = error(Selection { samples: true, connections: vec![14], ..Selection::default() });
    assert_eq!(flow, "flow 14 does not exist; the run has flows 0 to 13");
    let zero = error(Selection { samples: true, sample_every: Some(Picos::ZERO), ..Selection::default() });
    assert!(zero.contains("sample less often"), "{zero}");
}

/// A backend that records nothing.
struct Plain(Simulator);

impl Backend for Plain {
    fn available_signals(&self, plan: &poseidon_plan::Plan) -> Signals {
        self.0.available_signals(plan)
    }

    fn routes(
        &self,
        plan: &poseidon_plan::Plan,
        connections: &[poseidon_plan::traffic::Connection],
    ) -> Vec<Vec<SwitchPort>> {
        self.0.routes(plan, connections)
    }

    fn port_count(&self, plan: &poseidon_plan::Plan, switch: SwitchId) -> u32 {
        self.0.port_count(plan, switch)
    }

    fn run(&self, plan: &poseidon_plan::Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        self.0.run(plan, sink)
    }
}

#[test]
fn a_backend_without_recordings_samples_but_refuses_other_rows() {
    let resolved = resolve();
    let backend = Plain(simulator());
    let samples =
        RecordingOptions { ports: all_ports(&resolved.plan, &backend), ..RecordingOptions::default() };
    let mut rows = MemorySink::default();
    record(&resolved, &samples, &backend, &mut rows).expect("samples need no support");
    assert!(rows.queues.len() > 100);
    let (options, _) = select(&resolved, &everything(), &backend).expect("the selection is valid");
    let error = record(&resolved, &options, &backend, &mut rows).expect_err("the backend does not record");
    let message = "this backend does not support recordings of marks, pauses, law states and packets";
    assert_eq!(error.to_string(), message);
}
