//! A run under control: rows as they come, breaking off, memory, threads.

use core::num::NonZeroU32;
use core::ops::ControlFlow;
use poseidon_plan::records::{
    DecisionRow, DropRow, Kept, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, Picos};

/// Breaks off after so many reports of progress, and notes whether rows come in order of time.
#[derive(Default)]
struct Watcher {
    kept: Kept,
    reports: u32,
    break_after: Option<u32>,
    /// The time of the last report, and how many rows had come by then.
    rows_by_then: Vec<(Picos, usize)>,
}

impl Sink for Watcher {
    fn message(&mut self, row: MessageRow) {
        assert!(self.kept.messages.last().is_none_or(|last| last.acknowledged <= row.acknowledged));
        self.kept.message(row);
    }
    fn received(&mut self, row: ReceivedRow) {
        assert!(self.kept.received.last().is_none_or(|last| last.at <= row.at));
        self.kept.received(row);
    }
    fn drop(&mut self, row: DropRow) {
        assert!(self.kept.drops.last().is_none_or(|last| last.at <= row.at));
        self.kept.drop(row);
    }
    fn queue(&mut self, row: QueueRow) {
        assert!(self.kept.queues.last().is_none_or(|last| last.at <= row.at));
        self.kept.queue(row);
    }
    fn sender(&mut self, row: SenderRow) {
        self.kept.sender(row);
    }
    fn receiver(&mut self, row: ReceiverRow) {
        self.kept.receiver(row);
    }
    fn decision(&mut self, row: DecisionRow) {
        self.kept.decision(row);
    }
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.reports += 1;
        self.rows_by_then.push((progress.now, self.kept.queues.len()));
        assert_eq!(progress.finished, self.kept.messages.len() as u64);
        if self.break_after == Some(self.reports) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A busy fat tree with losses, watched.
fn busy() -> Plan {
    let ends: Vec<_> = (0..16).map(|from| (from, (from * 5 + 3) % 16)).filter(|(a, b)| a != b).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, LINK), "dctcp", &ends);
    plan.stop = Picos::new(3_000_000_000);
    plan.switch.buffer = PerQueue { size: Bytes::new(60_000) }.into();
    plan.sample_every = Picos::new(10_000_000);
    plan.watched = (0..8).map(|port| (port / 4, port % 4)).collect();
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(20_000_000));
    }
    plan
}

fn threads(threads: u32) -> Simulator {
    Simulator::with_threads(NonZeroU32::new(threads).expect("some"))
}

#[test]
fn rows_come_while_the_run_goes_on() {
    for n in [1, 2] {
        let plan = busy();
        let mut watcher = Watcher::default();
        let report = threads(n).run(&plan, &mut watcher).expect("runs");
        assert!(report.dropped > 0 && watcher.reports >= 3, "{report:?}");
        for (now, rows) in &watcher.rows_by_then {
            let due = usize::try_from((now.get() - 1) / 10_000_000).expect("few") * 8;
            assert!(*rows >= due, "{n} threads: at {now} {rows} of {due} rows had come");
        }
    }
}

#[test]
fn a_run_that_is_broken_off_has_the_first_rows_of_the_whole_run() {
    let plan = busy();
    let mut whole = Kept::default();
    let report = threads(1).run(&plan, &mut whole).expect("runs");
    assert!(!report.broken_off);
    for n in [1, 2, 3] {
        for after in [1, 2] {
            let mut watcher = Watcher { break_after: Some(after), ..Watcher::default() };
            let report = threads(n).run(&plan, &mut watcher).expect("valid: conservation is checked inside");
            assert!(report.broken_off && report.ended < plan.stop && report.in_flight > 0, "{report:?}");
            let part = watcher.kept;
            assert!(!part.queues.is_empty() && part.queues.len() < whole.queues.len());
            assert_eq!(part.queues[..], whole.queues[..part.queues.len()]);
            assert_eq!(part.drops[..], whole.drops[..part.drops.len()]);
            assert_eq!(part.messages[..], whole.messages[..part.messages.len()]);
        }
    }
}

#[test]
fn a_run_that_needs_more_memory_than_it_may_have_is_refused_before_it_starts() {
    let plan = plans::plan(Topology::fat_tree(64, LINK), "poseidon", &[(0, 65_535)]);
    let needed = Simulator::memory_needed(&plan);
    let limited = |limit| Simulator { memory_limit: Some(limit), ..Simulator::default() };
    let error = limited(Bytes::new(1_000_000)).run(&plan, &mut Kept::default()).expect_err("refused");
    assert_eq!(error, PlanError::Memory { needed, limit: Bytes::new(1_000_000) });
    println!("{error}");
    let small = plans::plan(Topology::star(2, LINK), "poseidon", &[(0, 1)]);
    assert!(limited(Bytes::new(10_000_000)).run(&small, &mut Kept::default()).is_ok());
}

#[test]
fn the_number_of_threads_is_chosen_and_changes_nothing() {
    let hosts = 128;
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    let mut plan = plans::plan(Topology::fat_tree(8, LINK), "poseidon", &ends);
    plan.stop = Picos::new(100_000_000);
    let run = |simulator: Simulator| simulator.run(&plan, &mut Kept::default()).expect("runs");
    assert_eq!(run(Simulator::default()), run(threads(1)));
}
