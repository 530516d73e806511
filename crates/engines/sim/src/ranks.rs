//! A run on MPI ranks: the same loop as on threads, one rank per shard, on one machine or on several.
//!
//! Once per window each rank sends each other one frame: when it next has something to do, and its mail. Little mail travels in
//! the frame itself; more of it follows in messages of its own, straight from where it lies to where it belongs. Sends are begun
//! before anything is awaited, and MPI makes progress on them while a rank waits, so no two ranks wait for each other.
//!
//! Packets travel as they lie in memory: all ranks must run the same program, on machines of one byte order.

use mpi::request::Request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use poseidon_plan::records::{Kept, Sink};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report};
use poseidon_types::Signals;
use zerocopy::{FromZeros, IntoBytes};

use crate::bytes::{Coded, coded};
use crate::exchange::{Agreed, Alone, Exchange, Mail};
use crate::packet::Packet;
use crate::rows;
use crate::run::{self, Done, Simulator};
use crate::side::Line;

/// The simulator on MPI ranks. Every rank of `world` calls [`run`](Backend::run) with the same plan and settings, and gets the same
/// report; the rows reach the sink of rank 0 only, which alone is asked whether to go on. Ranks that find no rack to run wait for the
/// report.
///
/// A rank runs one thread. Where ranks outnumber cores, tell MPI to let others run while it waits (Open MPI:
/// `--mca mpi_yield_when_idle 1`).
#[derive(Clone, Copy)]
pub struct MpiSimulator<'a, C> {
    /// Its settings; `threads` does not matter.
    pub simulator: Simulator,
    /// The ranks that share the run.
    pub world: &'a C,
}

impl<C: Communicator> Backend for MpiSimulator<'_, C> {
    fn supplies(&self, plan: &Plan) -> Signals {
        run::supplies(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<(u32, u32)>> {
        self.simulator.routes(plan, connections)
    }

    fn ports(&self, plan: &Plan, switch: u32) -> u32 {
        self.simulator.ports(plan, switch)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        // Messages of its own: whatever else the program sends is not mixed up with these.
        let world = self.world.duplicate();
        let (rank, ranks) = (number(world.rank()), number(world.size()));
        let setup = self.simulator.set_up(plan, ranks);
        if !all_agree(&world, setup.is_ok()) {
            return Err(setup.err().unwrap_or(PlanError::Unsupported("a plan that another rank refuses")));
        }
        let setup = setup?;
        let done = if setup.shards == 1 && rank == 0 {
            run::run_shard(&setup, &mut Alone, sink)
        } else if rank < setup.shards {
            run::run_shard(&setup, &mut Ranks::new(&world, setup.shards), sink)
        } else {
            Done { report: Report::default(), left_over: (0, 0) }
        };
        Ok(run::put_together(&gather(&world, &done)))
    }
}

/// Whether all ranks say yes.
fn all_agree(world: &SimpleCommunicator, yes: bool) -> bool {
    let mut answers = vec![0_u8; number(world.size()) as usize];
    world.all_gather_into(&u8::from(yes), answers.as_mut_slice());
    !answers.contains(&0)
}

/// What all ranks did, on every rank.
fn gather(world: &SimpleCommunicator, mine: &Done) -> Vec<Done> {
    let mut bytes = Vec::new();
    mine.write(&mut bytes);
    let mut all = vec![0; bytes.len() * number(world.size()) as usize];
    world.all_gather_into(bytes.as_slice(), all.as_mut_slice());
    all.chunks_exact(bytes.len()).map(|mut part| Done::read(&mut part).expect(SAME_PROGRAM)).collect()
}

const SAME_PROGRAM: &str = "all ranks run the same program";

fn number(rank: mpi::Rank) -> u32 {
    u32::try_from(rank).expect("ranks count from zero")
}

/// The most that a frame holds. MPI libraries send so much at once, and ask the receiver before they send more (Open MPI in shared
/// memory: 4 kB with its own header).
const FRAME: usize = 4_000;

/// How a frame begins: what its rank wants, and how much of what it sends beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    next: u64,
    break_off: bool,
    packets: u32,
    sides: u32,
    /// Bytes of rows.
    rows: u32,
}

coded!(Head { next, break_off, packets, sides, rows });

impl Head {
    const BYTES: usize = 8 + 1 + 3 * 4;

    /// Whether everything fits the frame.
    const fn is_whole(&self) -> bool {
        let packets = self.packets as usize * size_of::<Packet>();
        let sides = self.sides as usize * size_of::<Line>();
        Self::BYTES + packets + sides + self.rows as usize <= FRAME
    }
}

/// One rank's way to the others.
struct Ranks<'a> {
    world: &'a SimpleCommunicator,
    shard: u32,
    shards: u32,
    /// By receiver. Kept from window to window, as the others are, for their memory.
    frames: Vec<(Head, Vec<u8>)>,
    incoming: Vec<u8>,
    rows_out: Vec<u8>,
    rows_in: Vec<u8>,
}

impl<'a> Ranks<'a> {
    fn new(world: &'a SimpleCommunicator, shards: u32) -> Self {
        let empty = Head { next: 0, break_off: false, packets: 0, sides: 0, rows: 0 };
        Self {
            world,
            shard: number(world.rank()),
            shards,
            frames: (0..shards).map(|_| (empty, Vec::with_capacity(FRAME))).collect(),
            incoming: vec![0; FRAME],
            rows_out: Vec::new(),
            rows_in: Vec::new(),
        }
    }
}

impl Exchange for Ranks<'_> {
    fn shard(&self) -> u32 {
        self.shard
    }

    fn meet(&mut self, outbox: &mut [Mail], inbox: &mut Mail, rows: &mut Kept, wants: Agreed) -> Agreed {
        let Self { world, shard, shards, frames, incoming, rows_out, rows_in } = self;
        // Each begins with its neighbour, so that not all turn to the same.
        let peers = (1..*shards).map(|step| (*shard + step) % *shards);
        let process = |peer: u32| world.process_at_rank(peer.cast_signed());
        rows_out.clear();
        if *shard != 0 && !rows::is_empty(rows) {
            core::mem::take(rows).write(rows_out);
        }
        for peer in peers.clone() {
            let (head, frame) = &mut frames[peer as usize];
            let parts = parts(&outbox[peer as usize], rows_out, peer);
            *head = Head {
                next: wants.next,
                break_off: wants.break_off,
                packets: count(outbox[peer as usize].packets.len()),
                sides: count(outbox[peer as usize].sides.len()),
                rows: count(parts[2].len()),
            };
            frame.clear();
            head.write(frame);
            if head.is_whole() {
                parts.iter().for_each(|part| frame.extend_from_slice(part));
            }
        }
        let mut agreed = wants;
        mpi::request::scope(|scope| {
            let mut sends = Vec::with_capacity(4 * *shards as usize);
            for peer in peers.clone() {
                let (head, frame) = &frames[peer as usize];
                sends.push(process(peer).immediate_send(scope, frame.as_slice()));
                if !head.is_whole() {
                    let parts = parts(&outbox[peer as usize], rows_out, peer);
                    let some = parts.into_iter().filter(|part| !part.is_empty());
                    sends.extend(some.map(|part| process(peer).immediate_send(scope, part)));
                }
            }
            for peer in peers {
                let head = receive(&process(peer), incoming, inbox, rows_in);
                agreed.next = agreed.next.min(head.next);
                // Only the first ever wants to.
                agreed.break_off |= head.break_off;
                if head.rows > 0 {
                    let mut more = Kept::read(&mut rows_in.as_slice()).expect(SAME_PROGRAM);
                    rows::append(rows, &mut more);
                }
            }
            sends.into_iter().for_each(Request::wait_without_status);
        });
        outbox.iter_mut().for_each(Mail::clear);
        agreed
    }
}

impl Drop for Ranks<'_> {
    /// A rank that fails ends the others, which would wait for it for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.world.abort(1);
        }
    }
}

/// What goes to a peer beside the head, in order. Rows go to the first only.
fn parts<'a>(mail: &'a Mail, rows: &'a [u8], peer: u32) -> [&'a [u8]; 3] {
    let rows = if peer == 0 { rows } else { &[] };
    [mail.packets.as_slice().as_bytes(), mail.sides.as_slice().as_bytes(), rows]
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 packets at once")
}

/// Takes one frame, and what follows it. Mail joins what is in `inbox`; `rows` holds this frame's alone.
fn receive(from: &impl Source, incoming: &mut [u8], inbox: &mut Mail, rows: &mut Vec<u8>) -> Head {
    from.receive_into(incoming);
    let mut rest: &[u8] = incoming;
    let head = Head::read(&mut rest).expect(SAME_PROGRAM);
    let (packets, sides) = (inbox.packets.len(), inbox.sides.len());
    inbox.packets.resize_with(packets + head.packets as usize, Packet::new_zeroed);
    inbox.sides.resize_with(sides + head.sides as usize, Line::new_zeroed);
    rows.resize(head.rows as usize, 0);
    let parts = [inbox.packets[packets..].as_mut_bytes(), inbox.sides[sides..].as_mut_bytes(), rows];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if head.is_whole() {
            let (here, more) = rest.split_at(part.len());
            part.copy_from_slice(here);
            rest = more;
        } else {
            from.receive_into(part);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_its_size() {
        let head = Head { next: 1, break_off: true, packets: 2, sides: 3, rows: 4 };
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        assert_eq!(bytes.len(), Head::BYTES);
        assert_eq!(Head::read(&mut bytes.as_slice()), Some(head));
    }
}
