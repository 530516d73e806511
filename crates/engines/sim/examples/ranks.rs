//! Runs a variety of plans on MPI ranks. For each plan, the example prints the result hash and a hash of the
//! report and all rows. The output must not depend on the number of ranks, and threads must produce the same
//! output.
//!
//! `mpirun -n 4 target/release/examples/ranks [PLAN...]`
//!
//! | option | effect |
//! |---|---|
//! | `--threads=4` | uses threads instead of ranks |
//! | `--fail` | makes rank 0 panic during the run, which must terminate all ranks |
//! | `--cost` | measures the cost of an almost empty window and of a permutation on 1,024 hosts |

use core::fmt::{self, Write};
use core::num::NonZeroU32;
use core::ops::ControlFlow;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use poseidon_plan::records::{MemorySink, Progress, Sink};
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Link, Plan, Topology, records};
use poseidon_sim::{MpiSimulator, Simulator};
use poseidon_testkit::plans::{self, LINK, feature_plans};
use poseidon_types::{BitRate, Picos};
use std::time::Instant;

fn main() {
    let threads = std::env::args().find_map(|arg| arg.strip_prefix("--threads=")?.parse().ok());
    let universe = mpi::initialize().expect("MPI is initialized only once");
    let world = universe.world();
    let is_first = world.rank() == 0;
    let (on_threads, on_ranks);
    let backend: &dyn Backend = if let Some(threads) = threads {
        assert_eq!(world.size(), 1, "--threads needs exactly one rank");
        on_threads = Simulator::with_threads(threads);
        &on_threads
    } else {
        on_ranks = MpiSimulator { simulator: Simulator::default(), world: &world };
        &on_ranks
    };
    if std::env::args().any(|arg| arg == "--cost") {
        let workers = threads.map_or_else(|| world.size().unsigned_abs(), NonZeroU32::get);
        measure_cost(
            backend,
            is_first,
            &format!("{workers} {}", if threads.is_some() { "threads" } else { "ranks" }),
        );
        return;
    }
    let fail = std::env::args().any(|arg| arg == "--fail");
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut plans = feature_plans();
    plans.push(("rejected", invalid_plan()));
    plans.push(("interrupted", long_plan()));
    for (name, plan) in plans {
        if !names.is_empty() && !names.iter().any(|requested| requested == name) {
            continue;
        }
        let mut sink = TestSink { rows: MemorySink::default(), interrupt: name == "interrupted", fail };
        let result = backend.run(&plan, &mut sink);
        assert_same_on_all_ranks(&world, hash(&result));
        assert!(is_first || sink.rows == MemorySink::default(), "{name}: a rank other than 0 received rows");
        let delivered = result.as_ref().map_or(0, |report| report.result_hash);
        let all = hash(&(&result, &sink.rows));
        if is_first {
            println!("{name:<24} {delivered:016x} {all:016x}");
        }
    }
}

/// An invalid plan that every rank must reject.
fn invalid_plan() -> Plan {
    plans::plan(Topology::star(0, LINK), "poseidon", &[])
}

/// A plan that is long enough for a progress report.
fn long_plan() -> Plan {
    let mut plan = plans::plan(Topology::dumbbell(4, LINK, LINK), "poseidon", &[(0, 4), (1, 5), (6, 2)]);
    plan.stop = Picos::new(2_000_000_000);
    plan
}

/// A sink that stores rows and can interrupt the run or panic at the first progress report.
struct TestSink {
    rows: MemorySink,
    interrupt: bool,
    fail: bool,
}

impl Sink for TestSink {
    fn record_message(&mut self, row: records::MessageRow) {
        self.rows.record_message(row);
    }
    fn record_received(&mut self, row: records::ReceivedRow) {
        self.rows.record_received(row);
    }
    fn record_drop(&mut self, row: records::DropRow) {
        self.rows.record_drop(row);
    }
    fn record_queue(&mut self, row: records::QueueRow) {
        self.rows.record_queue(row);
    }
    fn record_sender(&mut self, row: records::SenderRow) {
        self.rows.record_sender(row);
    }
    fn record_receiver(&mut self, row: records::ReceiverRow) {
        self.rows.record_receiver(row);
    }
    fn record_decision(&mut self, row: records::DecisionRow) {
        self.rows.record_decision(row);
    }
    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        assert!(!self.fail, "--fail was given");
        if self.interrupt { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Checks that all ranks returned the same report or error.
fn assert_same_on_all_ranks(world: &SimpleCommunicator, hash: u64) {
    let mut all = vec![0; usize::try_from(world.size()).expect("the size is positive")];
    world.all_gather_into(&hash, all.as_mut_slice());
    assert!(all.iter().all(|other| *other == hash), "the ranks returned different reports");
}

/// An FNV-1a hash of the text written to it.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// Hashes the debug output of a value.
fn hash(value: &impl fmt::Debug) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    write!(hash, "{value:?}").expect("the hash accepts any text");
    hash.0
}

/// Measures the cost of a window and the cost of a packet-hop in a large network.
fn measure_cost(backend: &dyn Backend, is_first: bool, workers: &str) {
    // The network has two switches with one busy host each, so every window contains only a few packets.
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let mut small = plans::plan(Topology::dumbbell(1, link, link), "fixed", &[(0, 1)]);
    small.laws[0].set("window", "100 packets").expect("the value is valid");
    // Use many short runs. On a busy machine, the fastest run is one during which all cores were free.
    small.stop = Picos::new(4_000_000_000);
    // The delay into a switch is 1.6 us, so a window is 2^20 ps.
    let windows = small.stop.get() >> 20;
    let seconds = (0..101).map(|_| time_run(backend, &small).0);
    print_statistics(
        is_first,
        workers,
        "small, ns per window",
        seconds.map(|s| s * 1e9 / windows as f64).collect(),
    );

    let tree = Topology::fat_tree(16, link);
    let ends: Vec<_> = (0..1_024).map(|from| (from, (from + 513) % 1_024)).collect();
    let mut large = plans::plan(tree, "poseidon", &ends);
    large.laws[0].set("max-rate", "100 Gbps").expect("the value is valid");
    for message in &mut large.messages {
        (message.start, message.amount) = (Picos::ZERO, Amount::ENDLESS);
    }
    large.stop = Picos::new(100_000_000);
    let runs = (0..11).map(|_| time_run(backend, &large));
    print_statistics(
        is_first,
        workers,
        "1,024 hosts, ns per hop",
        runs.map(|(s, hops)| s * 1e9 / hops as f64).collect(),
    );
}

/// Returns a run's wall time in seconds and its packet-hop count.
#[expect(clippy::disallowed_methods, reason = "the example measures time")]
fn time_run(backend: &dyn Backend, plan: &Plan) -> (f64, u64) {
    let start = Instant::now();
    let report = backend.run(plan, &mut MemorySink::default()).expect("the plan runs");
    (start.elapsed().as_secs_f64(), report.packet_hops)
}

fn print_statistics(is_first: bool, workers: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    if is_first {
        println!("{workers}: {unit}: median {:.1}, minimum {:.1}", values[values.len() / 2], values[0]);
    }
}
