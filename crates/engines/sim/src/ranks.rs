//! Runs on MPI ranks: the same loop as on threads, with one rank per shard, on one or more machines.
//!
//! Once per window, each rank sends one frame to every other rank. The frame contains the rank's next active
//! window and its packets. If the packets do not fit in the frame, they follow in separate messages without
//! being copied. Each rank starts all its sends before it waits for a message, and MPI makes progress on
//! sends while a rank waits, so deadlock is impossible.
//!
//! Packets are sent in their in-memory layout, so all ranks must run the same program on machines with the
//! same byte order.

use core::num::NonZeroU32;
use mpi::request::Request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use poseidon_plan::recording::Recording;
use poseidon_plan::records::{MemorySink, Sink};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report, SwitchPort};
use poseidon_types::{Signals, SwitchId};
use zerocopy::{FromZeros, IntoBytes};

use crate::byte_codec::{ByteCodec, impl_struct_codec};
use crate::context::Setup;
use crate::exchange::{Exchange, NextStep, Outbox, SingleShard};
use crate::hop_records::CacheLine;
use crate::packet::Packet;
use crate::profile::{ProfiledExchange, WindowCost};
use crate::rows;
use crate::run::{self, ShardResult, Simulator};

/// Runs the simulator on MPI ranks.
///
/// Every rank of `world` calls [`run`](Backend::run) with the same plan and settings and receives the same
/// report. Only rank 0's sink receives rows and progress, and only that sink can interrupt the run. Ranks
/// that have no rack to simulate wait for the report.
///
/// Each rank runs one thread. If there are more ranks than cores, configure MPI to yield while waiting (Open
/// MPI: `--mca mpi_yield_when_idle 1`).
#[derive(Clone, Copy)]
pub struct MpiSimulator<'a, C> {
    /// The simulator settings. `threads` is ignored.
    pub simulator: Simulator,
    /// The communicator whose ranks share the run.
    pub world: &'a C,
}

impl<C: Communicator> Backend for MpiSimulator<'_, C> {
    fn available_signals(&self, plan: &Plan) -> Signals {
        self.simulator.available_signals(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>> {
        self.simulator.routes(plan, connections)
    }

    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32 {
        self.simulator.port_count(plan, switch)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        self.run_ranks(plan, |setup, world, rank| {
            if setup.shards == 1 {
                run::run_shard(setup, &mut SingleShard, sink)
            } else {
                run::run_shard(setup, &mut RankExchange::new(world, rank, setup.shards), sink)
            }
        })
    }
}

impl<C: Communicator> MpiSimulator<'_, C> {
    /// Runs a plan like [`run`](Backend::run), and also returns what each window cost this rank. Ranks that
    /// have no rack to simulate return no windows.
    pub fn profile(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<(Report, Vec<WindowCost>), PlanError> {
        let mut windows = Vec::new();
        let report = self.run_ranks(plan, |setup, world, rank| {
            let mut exchange = ProfiledExchange::new(RankExchange::new(world, rank, setup.shards));
            let result = run::run_shard(setup, &mut exchange, sink);
            windows = exchange.into_windows();
            result
        })?;
        Ok((report, windows))
    }

    /// Exchanges `packets` packets between every two ranks in each of `rounds` rounds, without simulating anything.
    /// Returns the mean time of a round in ns on this rank. The ranks must not be idle in between, so all of them
    /// call this function at the same time.
    pub fn time_exchange(&self, packets: usize, rounds: NonZeroU32) -> f64 {
        let world = self.world.duplicate();
        let (rank, ranks) = (to_u32(world.rank()), to_u32(world.size()));
        let mut exchange = ProfiledExchange::new(RankExchange::new(&world, rank, ranks));
        let mut outboxes: Vec<Outbox> = (0..ranks).map(|_| Outbox::default()).collect();
        let (mut inbox, mut rows) = (Outbox::default(), MemorySink::default());
        let step = NextStep { window: 0, interrupt: false };
        // The first round lets all ranks begin at the same time.
        for round in 0..=rounds.get() {
            for outbox in outboxes.iter_mut().enumerate().filter(|(to, _)| *to != rank as usize) {
                let packets = if round == 0 { 0 } else { packets };
                outbox.1.packets.resize(packets, Packet::EMPTY);
            }
            exchange.exchange(&mut outboxes, &mut inbox, &mut rows, step);
            inbox.clear();
        }
        let windows = exchange.into_windows();
        windows[1..].iter().map(|window| window.exchange_ns as f64).sum::<f64>() / f64::from(rounds.get())
    }

    /// Sets up a plan on all ranks and calls `run_shard` on each rank that has a shard, with a communicator and
    /// the rank. Returns the merged report on all ranks.
    fn run_ranks(
        &self,
        plan: &Plan,
        run_shard: impl FnOnce(&Setup<'_>, &SimpleCommunicator, u32) -> ShardResult,
    ) -> Result<Report, PlanError> {
        // A duplicate communicator keeps these messages separate from the program's other messages.
        let world = self.world.duplicate();
        let (rank, ranks) = (to_u32(world.rank()), to_u32(world.size()));
        // Ranks record nothing, because the rows of a recording are not exchanged between them.
        let recording = Recording::NOTHING;
        let setup = if plan.stacks.is_empty() {
            self.simulator.set_up(plan, &recording, ranks)
        } else {
            Err(PlanError::Unsupported("real transport stacks on MPI ranks; run the plan on threads"))
        };
        if !all_agree(&world, setup.is_ok()) {
            return Err(setup.err().unwrap_or(PlanError::Unsupported("a plan that another rank rejects")));
        }
        let setup = setup?;
        let result = if rank < setup.shards {
            run_shard(&setup, &world, rank)
        } else {
            ShardResult { report: Report::default(), balance: (0, 0) }
        };
        Ok(run::merge_results(&all_gather_results(&world, &result)))
    }
}

/// Returns whether `agrees` is true on all ranks.
fn all_agree(world: &SimpleCommunicator, agrees: bool) -> bool {
    let mut votes = vec![0_u8; to_u32(world.size()) as usize];
    world.all_gather_into(&u8::from(agrees), votes.as_mut_slice());
    !votes.contains(&0)
}

/// Returns the results from all ranks. Every rank receives all results.
fn all_gather_results(world: &SimpleCommunicator, result: &ShardResult) -> Vec<ShardResult> {
    let mut bytes = Vec::new();
    result.encode(&mut bytes);
    let mut all = vec![0; bytes.len() * to_u32(world.size()) as usize];
    world.all_gather_into(bytes.as_slice(), all.as_mut_slice());
    let results = all.chunks_exact(bytes.len());
    results.map(|mut bytes| ShardResult::decode(&mut bytes).expect(SAME_PROGRAM)).collect()
}

const SAME_PROGRAM: &str = "all ranks run the same program";

fn to_u32(rank: mpi::Rank) -> u32 {
    u32::try_from(rank).expect("MPI ranks and sizes are not negative")
}

/// The maximum frame size in bytes. MPI libraries send messages of this size eagerly but negotiate larger
/// messages with the receiver (Open MPI in shared memory: 4 kB including its header).
const MAX_FRAME: usize = 4_000;

/// The maximum message size in bytes. Open MPI sends larger messages over TCP (64 kB including its header) only after
/// the receiver has asked for them, which takes two more trips over the network. Longer arrays are sent in parts.
const MAX_MESSAGE: usize = 60_000;

/// The frame header: the sender's proposal, and the amount of data in the frame or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHeader {
    window: u64,
    interrupt: bool,
    packets: u32,
    /// The number of cache lines of hop records.
    record_lines: u32,
    /// The size of the encoded rows in bytes.
    row_bytes: u32,
}

impl_struct_codec!(FrameHeader { window, interrupt, packets, record_lines, row_bytes });

impl FrameHeader {
    const BYTES: usize = 8 + 1 + 3 * 4;

    /// Returns whether all data fits in the frame.
    const fn fits_in_frame(&self) -> bool {
        let packets = self.packets as usize * size_of::<Packet>();
        let records = self.record_lines as usize * size_of::<CacheLine>();
        Self::BYTES + packets + records + self.row_bytes as usize <= MAX_FRAME
    }
}

/// One rank's handle for exchanging data with the other ranks. The buffers are reused in every window.
struct RankExchange<'a> {
    world: &'a SimpleCommunicator,
    shard: u32,
    shards: u32,
    /// Frames, indexed by receiver.
    frames: Vec<(FrameHeader, Vec<u8>)>,
    incoming: Vec<u8>,
    rows_out: Vec<u8>,
    rows_in: Vec<u8>,
}

impl<'a> RankExchange<'a> {
    fn new(world: &'a SimpleCommunicator, shard: u32, shards: u32) -> Self {
        let empty = FrameHeader { window: 0, interrupt: false, packets: 0, record_lines: 0, row_bytes: 0 };
        Self {
            world,
            shard,
            shards,
            frames: (0..shards).map(|_| (empty, Vec::with_capacity(MAX_FRAME))).collect(),
            incoming: vec![0; MAX_FRAME],
            rows_out: Vec::new(),
            rows_in: Vec::new(),
        }
    }
}

impl Exchange for RankExchange<'_> {
    fn shard(&self) -> u32 {
        self.shard
    }

    fn exchange(
        &mut self,
        outboxes: &mut [Outbox],
        inbox: &mut Outbox,
        rows: &mut MemorySink,
        proposal: NextStep,
    ) -> NextStep {
        let Self { world, shard, shards, frames, incoming, rows_out, rows_in } = self;
        // Each rank starts with its neighbour so that the ranks do not all address the same peer at once.
        let peers = (1..*shards).map(|step| (*shard + step) % *shards);
        let process = |peer: u32| world.process_at_rank(peer.cast_signed());
        rows_out.clear();
        if *shard != 0 && !rows::is_empty(rows) {
            core::mem::take(rows).encode(rows_out);
        }
        for peer in peers.clone() {
            let (header, frame) = &mut frames[peer as usize];
            let outbox = &outboxes[peer as usize];
            let parts = frame_parts(outbox, rows_out, peer);
            *header = FrameHeader {
                window: proposal.window,
                interrupt: proposal.interrupt,
                packets: to_count(outbox.packets.len()),
                record_lines: to_count(outbox.records.len()),
                row_bytes: to_count(parts[2].len()),
            };
            frame.clear();
            header.encode(frame);
            if header.fits_in_frame() {
                parts.iter().for_each(|part| frame.extend_from_slice(part));
            }
        }
        let mut agreed = proposal;
        mpi::request::scope(|scope| {
            let mut sends = Vec::with_capacity(4 * *shards as usize);
            for peer in peers.clone() {
                let (header, frame) = &frames[peer as usize];
                sends.push(process(peer).immediate_send(scope, frame.as_slice()));
                if !header.fits_in_frame() {
                    let parts = frame_parts(&outboxes[peer as usize], rows_out, peer);
                    let messages = parts.into_iter().flat_map(|part| part.chunks(MAX_MESSAGE));
                    sends.extend(messages.map(|message| process(peer).immediate_send(scope, message)));
                }
            }
            for peer in peers {
                let header = receive_frame(&process(peer), incoming, inbox, rows_in);
                agreed.window = agreed.window.min(header.window);
                // Only the first rank can interrupt the run.
                agreed.interrupt |= header.interrupt;
                if header.row_bytes > 0 {
                    let mut received = MemorySink::decode(&mut rows_in.as_slice()).expect(SAME_PROGRAM);
                    rows::append(rows, &mut received);
                }
            }
            sends.into_iter().for_each(Request::wait_without_status);
        });
        outboxes.iter_mut().for_each(Outbox::clear);
        agreed
    }
}

impl Drop for RankExchange<'_> {
    /// Aborts the other ranks if this rank panics. Otherwise, they would wait forever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.world.abort(1);
        }
    }
}

/// Returns the data to send to a peer after the header, in order. Only the first rank receives rows.
fn frame_parts<'a>(outbox: &'a Outbox, rows: &'a [u8], peer: u32) -> [&'a [u8]; 3] {
    let rows = if peer == 0 { rows } else { &[] };
    [outbox.packets.as_slice().as_bytes(), outbox.records.as_slice().as_bytes(), rows]
}

fn to_count(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 packets exist at once")
}

/// Receives one frame and any messages that follow it. Appends the packets to `inbox` and replaces the
/// contents of `rows`.
fn receive_frame(
    from: &impl Source,
    incoming: &mut [u8],
    inbox: &mut Outbox,
    rows: &mut Vec<u8>,
) -> FrameHeader {
    from.receive_into(incoming);
    let mut rest: &[u8] = incoming;
    let header = FrameHeader::decode(&mut rest).expect(SAME_PROGRAM);
    let (packets, records) = (inbox.packets.len(), inbox.records.len());
    inbox.packets.resize_with(packets + header.packets as usize, Packet::new_zeroed);
    inbox.records.resize_with(records + header.record_lines as usize, CacheLine::new_zeroed);
    rows.resize(header.row_bytes as usize, 0);
    let parts = [inbox.packets[packets..].as_mut_bytes(), inbox.records[records..].as_mut_bytes(), rows];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if header.fits_in_frame() {
            let (bytes, remaining) = rest.split_at(part.len());
            part.copy_from_slice(bytes);
            rest = remaining;
        } else {
            for message in part.chunks_mut(MAX_MESSAGE) {
                from.receive_into(message);
            }
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_header_has_the_declared_size() {
        let header = FrameHeader { window: 1, interrupt: true, packets: 2, record_lines: 3, row_bytes: 4 };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes.len(), FrameHeader::BYTES);
        assert_eq!(FrameHeader::decode(&mut bytes.as_slice()), Some(header));
    }
}
