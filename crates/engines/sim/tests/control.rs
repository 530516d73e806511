//! Run control: row streaming, interruption, memory limit and thread count.

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use poseidon_plan::records::{
    DecisionRow, DropRow, MemorySink, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow,
    Sink,
};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, Picos};

/// A sink that checks that rows arrive in chronological order. The sink can also interrupt the run.
#[derive(Default)]
struct CheckingSink {
    rows: MemorySink,
    reports: u32,
    /// Interrupts the run after this many progress reports.
    interrupt_after: Option<u32>,
    /// The time of each progress report, and the number of queue rows received before the report.
    row_counts: Vec<(Picos, usize)>,
}

impl Sink for CheckingSink {
    fn record_message(&mut self, row: MessageRow) {
        assert!(self.rows.messages.last().is_none_or(|last| last.acknowledged <= row.acknowledged));
        self.rows.record_message(row);
    }
    fn record_received(&mut self, row: ReceivedRow) {
        assert!(self.rows.received.last().is_none_or(|last| last.time <= row.time));
        self.rows.record_received(row);
    }
    fn record_drop(&mut self, row: DropRow) {
        assert!(self.rows.drops.last().is_none_or(|last| last.time <= row.time));
        self.rows.record_drop(row);
    }
    fn record_queue(&mut self, row: QueueRow) {
        assert!(self.rows.queues.last().is_none_or(|last| last.time <= row.time));
        self.rows.record_queue(row);
    }
    fn record_sender(&mut self, row: SenderRow) {
        self.rows.record_sender(row);
    }
    fn record_receiver(&mut self, row: ReceiverRow) {
        self.rows.record_receiver(row);
    }
    fn record_decision(&mut self, row: DecisionRow) {
        self.rows.record_decision(row);
    }
    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.reports += 1;
        self.row_counts.push((progress.now, self.rows.queues.len()));
        assert_eq!(progress.finished, self.rows.messages.len() as u64);
        if self.interrupt_after == Some(self.reports) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Builds a plan for a busy fat tree with losses and watched queues.
fn busy_plan() -> Plan {
    let ends: Vec<_> = (0..16).map(|from| (from, (from * 5 + 3) % 16)).filter(|(a, b)| a != b).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, LINK), "dctcp", &ends);
    plan.stop = Picos::new(3_000_000_000);
    plan.switch.buffer = PerQueue { size: Bytes::new(60_000) }.into();
    plan.sample_every = Picos::new(10_000_000);
    plan.watched_ports = (0..8).flat_map(|port| plans::switch_ports(&[(port / 4, port % 4)])).collect();
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(20_000_000));
    }
    plan
}

fn threads(threads: u32) -> Simulator {
    Simulator::with_threads(NonZeroU32::new(threads).expect("the number is not zero"))
}

#[test]
fn rows_arrive_during_the_run() {
    for thread_count in [1, 2] {
        let plan = busy_plan();
        let mut sink = CheckingSink::default();
        let report = threads(thread_count).run(&plan, &mut sink).expect("the plan runs");
        assert!(report.dropped > 0 && sink.reports >= 3, "{report:?}");
        for (now, count) in &sink.row_counts {
            let due = usize::try_from((now.get() - 1) / 10_000_000).expect("the count is small") * 8;
            assert!(*count >= due, "{thread_count} threads: {count} of {due} rows at {now}");
        }
    }
}

#[test]
fn interrupted_run_produces_the_first_rows_of_the_full_run() {
    let plan = busy_plan();
    let mut full = MemorySink::default();
    let report = threads(1).run(&plan, &mut full).expect("the plan runs");
    assert!(!report.interrupted);
    for thread_count in [1, 2, 3] {
        for after in [1, 2] {
            let mut sink = CheckingSink { interrupt_after: Some(after), ..CheckingSink::default() };
            let report = threads(thread_count).run(&plan, &mut sink).expect("the plan runs");
            assert!(report.interrupted && report.ended < plan.stop && report.in_flight > 0, "{report:?}");
            let partial = sink.rows;
            assert!(!partial.queues.is_empty() && partial.queues.len() < full.queues.len());
            assert_eq!(partial.queues[..], full.queues[..partial.queues.len()]);
            assert_eq!(partial.drops[..], full.drops[..partial.drops.len()]);
            assert_eq!(partial.messages[..], full.messages[..partial.messages.len()]);
        }
    }
}

#[test]
fn run_above_the_memory_limit_is_rejected_before_it_starts() {
    let plan = plans::plan(Topology::fat_tree(64, LINK), "poseidon", &[(0, 65_535)]);
    let needed = Simulator::estimate_memory(&plan);
    let limited = |limit| Simulator { memory_limit: Some(limit), ..Simulator::default() };
    let error = limited(Bytes::new(1_000_000))
        .run(&plan, &mut MemorySink::default())
        .expect_err("the plan is rejected");
    assert_eq!(error, PlanError::Memory { needed, limit: Bytes::new(1_000_000) });
    println!("{error}");
    let small = plans::plan(Topology::star(2, LINK), "poseidon", &[(0, 1)]);
    assert!(limited(Bytes::new(10_000_000)).run(&small, &mut MemorySink::default()).is_ok());
}

#[test]
fn automatic_thread_count_does_not_change_the_result() {
    let hosts = 128;
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    let mut plan = plans::plan(Topology::fat_tree(8, LINK), "poseidon", &ends);
    plan.stop = Picos::new(100_000_000);
    let run = |simulator: Simulator| simulator.run(&plan, &mut MemorySink::default()).expect("the plan runs");
    assert_eq!(run(Simulator::default()), run(threads(1)));
}
