//! What each window of a run costs: the time of its computation, the time of its exchange, and the data exchanged.

use core::num::NonZeroU32;
use poseidon_plan::recording::Recording;
use poseidon_plan::records::{MemorySink, Sink};
use poseidon_plan::{Plan, PlanError, Report};
use std::time::Instant;

use crate::exchange::{Exchange, NextStep, Outbox, WindowBarrier};
use crate::hop_records::CacheLine;
use crate::packet::Packet;
use crate::run::{self, NullSink, Simulator};

/// What one window costs one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCost {
    /// Packet-hops in this window.
    pub packet_hops: u64,
    /// Time from the end of the previous exchange to the start of this window's exchange, in ns.
    pub compute_ns: u64,
    /// Time of the exchange in ns, which includes the time spent waiting for slower shards.
    pub exchange_ns: u64,
    /// Bytes of packets and hop records sent to all other shards.
    pub sent_bytes: u64,
    /// Bytes of packets and hop records received from all other shards.
    pub received_bytes: u64,
    /// The number of shards to which this shard sent packets.
    pub receivers: u64,
}

/// An exchange that measures each window.
pub(crate) struct ProfiledExchange<E> {
    inner: E,
    windows: Vec<WindowCost>,
    last_end: Instant,
    packet_hops: u64,
    packet_hops_before: u64,
}

impl<E: Exchange> ProfiledExchange<E> {
    pub(crate) fn new(inner: E) -> Self {
        Self { inner, windows: Vec::new(), last_end: now(), packet_hops: 0, packet_hops_before: 0 }
    }

    pub(crate) fn into_windows(self) -> Vec<WindowCost> {
        self.windows
    }
}

impl<E: Exchange> Exchange for ProfiledExchange<E> {
    fn shard(&self) -> u32 {
        self.inner.shard()
    }

    fn on_window_done(&mut self, packet_hops: u64) {
        self.packet_hops = packet_hops;
    }

    fn exchange(
        &mut self,
        outboxes: &mut [Outbox],
        inbox: &mut Outbox,
        rows: &mut MemorySink,
        proposal: NextStep,
    ) -> NextStep {
        let start = now();
        let packet_hops = self.packet_hops - self.packet_hops_before;
        self.packet_hops_before = self.packet_hops;
        let mut cost =
            WindowCost { packet_hops, compute_ns: nanos(start, self.last_end), ..WindowCost::default() };
        for outbox in outboxes.iter().filter(|outbox| !outbox.packets.is_empty()) {
            cost.sent_bytes += byte_count(outbox);
            cost.receivers += 1;
        }
        let next = self.inner.exchange(outboxes, inbox, rows, proposal);
        self.last_end = now();
        cost.exchange_ns = nanos(self.last_end, start);
        cost.received_bytes = byte_count(inbox);
        self.windows.push(cost);
        next
    }
}

/// Returns the size of all packets and hop records.
fn byte_count(outbox: &Outbox) -> u64 {
    (size_of::<Packet>() * outbox.packets.len() + size_of::<CacheLine>() * outbox.records.len()) as u64
}

fn nanos(end: Instant, start: Instant) -> u64 {
    u64::try_from(end.duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "a profile measures time, and no result depends on it")]
fn now() -> Instant {
    Instant::now()
}

impl Simulator {
    /// Runs a plan on `shards` threads, even if that is more than there are cores. Returns the costs of each
    /// shard's windows, indexed by shard and window. Every shard has the same number of windows.
    ///
    /// With more shards than cores, the times are useless, but the counts are those of so many machines.
    pub fn profile(
        &self,
        plan: &Plan,
        shards: NonZeroU32,
        sink: &mut dyn Sink,
    ) -> Result<(Report, Vec<Vec<WindowCost>>), PlanError> {
        let recording = Recording::NOTHING;
        let setup = self.set_up(plan, &recording, shards.get())?;
        let barrier = WindowBarrier::new(setup.shards);
        let profile_shard = |shard, sink: &mut dyn Sink| {
            let mut exchange = ProfiledExchange::new(barrier.join(shard));
            let result = run::run_shard(&setup, &mut exchange, sink);
            (result, exchange.into_windows())
        };
        let (results, windows): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
            let profile_shard = &profile_shard;
            let handles: Vec<_> = (1..setup.shards)
                .map(|shard| scope.spawn(move || profile_shard(shard, &mut NullSink)))
                .collect();
            let first = profile_shard(0, sink);
            let rest = handles.into_iter().map(|handle| handle.join().expect("no shard panics"));
            core::iter::once(first).chain(rest).unzip()
        });
        Ok((run::merge_results(&results), windows))
    }
}
