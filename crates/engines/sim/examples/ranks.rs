//! Varied plans on MPI ranks: one line per plan with a hash of the result, and one of the report and all rows. The lines must not
//! depend on how many ranks there are, nor on whether they are threads.
//!
//! `mpirun -n 4 target/release/examples/ranks`; `--threads=4` for threads instead of ranks, names of plans to see only those.
//! `--fail` lets rank 0 fail in the middle, which must end all ranks; `--cost` measures instead: what a window costs that has next to nothing in it, and a permutation on 1,024 hosts.

use core::fmt::{self, Write};
use core::num::NonZeroU32;
use core::ops::ControlFlow;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use poseidon_plan::records::{Kept, Progress, Sink};
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Link, Plan, Topology, records};
use poseidon_sim::{MpiSimulator, Simulator};
use poseidon_testkit::plans::{self, LINK, varied};
use poseidon_types::{BitRate, Picos};
use std::time::Instant;

fn main() {
    let threads = std::env::args().find_map(|arg| arg.strip_prefix("--threads=")?.parse().ok());
    let universe = mpi::initialize().expect("MPI is initialised once");
    let world = universe.world();
    let first = world.rank() == 0;
    let (on_threads, on_ranks);
    let backend: &dyn Backend = if let Some(threads) = threads {
        assert_eq!(world.size(), 1, "threads are for one rank");
        on_threads = Simulator::with_threads(threads);
        &on_threads
    } else {
        on_ranks = MpiSimulator { simulator: Simulator::default(), world: &world };
        &on_ranks
    };
    if std::env::args().any(|arg| arg == "--cost") {
        let workers = threads.map_or_else(|| world.size().unsigned_abs(), NonZeroU32::get);
        cost(backend, first, &format!("{workers} {}", if threads.is_some() { "threads" } else { "ranks" }));
        return;
    }
    let fail = std::env::args().any(|arg| arg == "--fail");
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut plans = varied();
    plans.push(("refused", refused()));
    plans.push(("broken-off", long()));
    for (name, plan) in plans {
        if !names.is_empty() && !names.iter().any(|asked| asked == name) {
            continue;
        }
        let mut rows = Rows { kept: Kept::default(), break_off: name == "broken-off", fail };
        let result = backend.run(&plan, &mut rows);
        agree(&world, hash(&result));
        assert!(first || rows.kept == Kept::default(), "{name}: rows on another rank than the first");
        let delivered = result.as_ref().map_or(0, |report| report.result_hash);
        let all = hash(&(&result, &rows.kept));
        if first {
            println!("{name:<24} {delivered:016x} {all:016x}");
        }
    }
}

/// Something is wrong with it, and every rank must say so.
fn refused() -> Plan {
    plans::plan(Topology::star(0, LINK), "poseidon", &[])
}

/// Long enough for the sink to be asked whether to go on.
fn long() -> Plan {
    let mut plan = plans::plan(Topology::dumbbell(4, LINK, LINK), "poseidon", &[(0, 4), (1, 5), (6, 2)]);
    plan.stop = Picos::new(2_000_000_000);
    plan
}

/// Keeps rows, and may break off or fail when first asked.
struct Rows {
    kept: Kept,
    break_off: bool,
    fail: bool,
}

impl Sink for Rows {
    fn message(&mut self, row: records::MessageRow) {
        self.kept.message(row);
    }
    fn received(&mut self, row: records::ReceivedRow) {
        self.kept.received(row);
    }
    fn drop(&mut self, row: records::DropRow) {
        Sink::drop(&mut self.kept, row);
    }
    fn queue(&mut self, row: records::QueueRow) {
        self.kept.queue(row);
    }
    fn sender(&mut self, row: records::SenderRow) {
        self.kept.sender(row);
    }
    fn receiver(&mut self, row: records::ReceiverRow) {
        self.kept.receiver(row);
    }
    fn decision(&mut self, row: records::DecisionRow) {
        self.kept.decision(row);
    }
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        assert!(!self.fail, "as asked");
        if self.break_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// All ranks got the same report, or error.
fn agree(world: &SimpleCommunicator, mine: u64) {
    let mut all = vec![0; usize::try_from(world.size()).expect("some")];
    world.all_gather_into(&mine, all.as_mut_slice());
    assert!(all.iter().all(|other| *other == mine), "ranks got different reports");
}

/// FNV-1a of what is written into it.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// A hash of everything there is to see of a value.
fn hash(value: &impl fmt::Debug) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    write!(hash, "{value:?}").expect("a hash takes everything");
    hash.0
}

/// Prints what a window costs, and a packet-hop of a large plan.
fn cost(backend: &dyn Backend, first: bool, workers: &str) {
    // Two switches with one busy host each: a handful of packets in every window.
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let mut small = plans::plan(Topology::dumbbell(1, link, link), "fixed", &[(0, 1)]);
    small.laws[0].set("window", "100 packets").expect("reads");
    // Short runs, many of them: on a busy machine the least is what both cores did when they were free.
    small.stop = Picos::new(4_000_000_000);
    // 1.6 us into a switch: windows of 2^20 ps.
    let windows = small.stop.get() >> 20;
    let seconds = (0..101).map(|_| timed(backend, &small).0);
    report(first, workers, "small, ns per window", seconds.map(|s| s * 1e9 / windows as f64).collect());

    let tree = Topology::fat_tree(16, link);
    let ends: Vec<_> = (0..1_024).map(|from| (from, (from + 513) % 1_024)).collect();
    let mut large = plans::plan(tree, "poseidon", &ends);
    large.laws[0].set("max-rate", "100 Gbps").expect("reads");
    for message in &mut large.messages {
        (message.at, message.amount) = (Picos::ZERO, Amount::ENDLESS);
    }
    large.stop = Picos::new(100_000_000);
    let runs = (0..11).map(|_| timed(backend, &large));
    report(first, workers, "1,024 hosts, ns per hop", runs.map(|(s, hops)| s * 1e9 / hops as f64).collect());
}

/// Seconds and packet-hops of a run.
#[expect(clippy::disallowed_methods, reason = "measuring is what it is for")]
fn timed(backend: &dyn Backend, plan: &Plan) -> (f64, u64) {
    let began = Instant::now();
    let report = backend.run(plan, &mut Kept::default()).expect("runs");
    (began.elapsed().as_secs_f64(), report.packet_hops)
}

fn report(first: bool, workers: &str, what: &str, mut all: Vec<f64>) {
    all.sort_by(f64::total_cmp);
    if first {
        println!("{workers}: {what}: median {:.1}, least {:.1}", all[all.len() / 2], all[0]);
    }
}
