//! Measures what one run over several machines costs, and counts what a model of more machines needs.
//!
//! ```text
//! mpirun -n 2 target/release/examples/scale --threads --exchange=0,100,1000 --repeat=5 poseidon-1024-100
//! target/release/examples/scale --count=1,2,4,8,16,32,64 poseidon-8192-20
//! target/release/examples/scale --one=poseidon-65536-12
//! ```
//!
//! A case is a law, a number of hosts and a simulated time in us: a permutation on a fat tree with links of 100 Gbps
//! and 1 us. The number of hosts is `k * k * k / 4` for an even `k`.
//!
//! | option | prints |
//! |---|---|
//! | none | one row per run on ranks: `{"kind":"ranks",…}` |
//! | `--threads` | also the same run on as many threads of rank 0, while the other ranks sleep: `{"kind":"threads",…}`, with the costs of each window and thread |
//! | `--exchange=N,…` | the time of an exchange of N packets between each two ranks: `{"kind":"exchange",…}` |
//! | `--repeat=N` | everything N times, in alternation |
//! | `--count=N,…` | what N machines compute and exchange in each window, without times: `{"kind":"count",…}` |
//! | `--one=CASE` | the CPU time and memory of a run in this process: `{"kind":"one",…}` |
//!
//! `tools/scale/check.py` runs this on two hosts with links of several delays, and holds a model against it.

use core::fmt::Write as _;
use core::num::NonZeroU32;
use core::time::Duration;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::{MpiSimulator, Simulator, WindowCost};
use poseidon_testkit::plans::permutation;
use poseidon_types::{BitRate, Picos};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let numbers = |text: &str| -> Vec<u32> {
        text.split(',').map(|number| number.parse().expect("the option is a list of numbers")).collect()
    };
    if let Some(case) = option("--one=") {
        run_one(case);
        return;
    }
    let cases: Vec<&str> =
        arguments.iter().filter(|argument| !argument.starts_with("--")).map(String::as_str).collect();
    if let Some(machines) = option("--count=") {
        for case in cases {
            numbers(machines).into_iter().for_each(|machines| count(case, machines));
        }
        return;
    }
    let universe = mpi::initialize().expect("MPI is initialized only once");
    let world = universe.world();
    let bench = Bench { is_first: world.rank() == 0, ranks: world.size().unsigned_abs(), world };
    let repeats = option("--repeat=").map_or(1, |text| numbers(text)[0]);
    let exchanges = option("--exchange=").map_or_else(Vec::new, &numbers);
    for repeat in 0..repeats {
        for packets in &exchanges {
            bench.time_exchange(*packets, repeat);
        }
        for case in &cases {
            if arguments.iter().any(|argument| argument == "--threads") {
                bench.run_on_threads(case, repeat);
            }
            bench.run_on_ranks(case, repeat);
        }
    }
}

struct Bench {
    world: SimpleCommunicator,
    is_first: bool,
    ranks: u32,
}

impl Bench {
    fn simulator(&self) -> MpiSimulator<'_, SimpleCommunicator> {
        MpiSimulator { simulator: Simulator::default(), world: &self.world }
    }

    /// Exchanges packets for about 50 ms.
    fn time_exchange(&self, packets: u32, repeat: u32) {
        let time = |rounds: u32| {
            let rounds = NonZeroU32::new(rounds).expect("there is a round");
            let mut all = vec![0.0; self.ranks as usize];
            self.world
                .all_gather_into(&self.simulator().time_exchange(packets as usize, rounds), &mut all[..]);
            all.into_iter().fold(0.0, f64::max)
        };
        // The first rounds also let TCP increase its windows.
        let estimate = time(20);
        let rounds = (50e6 / estimate).clamp(20.0, 2_000.0) as u32;
        let ns = time(rounds);
        if self.is_first {
            let ranks = self.ranks;
            println!(
                "{{\"kind\":\"exchange\",\"packets\":{packets},\"machines\":{ranks},\"repeat\":{repeat},\"us\":{:.3}}}",
                ns / 1e3
            );
        }
    }

    fn run_on_ranks(&self, case: &str, repeat: u32) {
        let plan = plan(case);
        let (report, windows) =
            self.simulator().profile(&plan, &mut MemorySink::default()).expect("the plan runs");
        // All ranks have the same number of windows.
        let own: Vec<u64> = windows.iter().flat_map(|w| to_numbers(w)).collect();
        let mut all = vec![0; own.len() * self.ranks as usize];
        self.world.all_gather_into(&own[..], &mut all[..]);
        let shards: Vec<Vec<WindowCost>> = all
            .chunks_exact(own.len())
            .map(|rank| rank.chunks_exact(FIELDS).map(from_numbers).collect())
            .collect();
        if self.is_first {
            println!(
                "{}",
                Summary::new(&shards).row("ranks", case, &report, &format!(",\"repeat\":{repeat}"))
            );
        }
    }

    /// Runs the case on threads of rank 0. The other ranks sleep, because a barrier of MPI spins.
    fn run_on_threads(&self, case: &str, repeat: u32) {
        if self.is_first {
            let threads = NonZeroU32::new(self.ranks).expect("there is a rank");
            let (report, shards) = Simulator::default()
                .profile(&plan(case), threads, &mut MemorySink::default())
                .expect("the plan runs");
            let more = format!(
                ",\"repeat\":{repeat}{}{}{}",
                per_window("hops", &shards, |cost| cost.packet_hops),
                per_window("compute_ns", &shards, |cost| cost.compute_ns),
                per_window("bytes", &shards, busiest_direction),
            );
            println!("{}", Summary::new(&shards).row("threads", case, &report, &more));
        }
        mpi::request::scope(|_| {
            let mut barrier = self.world.immediate_barrier();
            while let Err(pending) = barrier.test() {
                barrier = pending;
                pause();
            }
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "a rank that waits must leave the cores to the measurement")]
fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Prints what a run on so many machines computes and exchanges.
fn count(case: &str, machines: u32) {
    let machines = NonZeroU32::new(machines).expect("there is a machine");
    let (report, shards) = Simulator::default()
        .profile(&plan(case), machines, &mut MemorySink::default())
        .expect("the plan runs");
    let more = per_window("hops", &shards, |cost| cost.packet_hops)
        + &per_window("bytes", &shards, busiest_direction);
    println!("{}", Summary::new(&shards).row("count", case, &report, &more));
}

/// Returns the bytes that a machine sent in a window, or those that it received, whichever are more.
fn busiest_direction(cost: &WindowCost) -> u64 {
    cost.sent_bytes.max(cost.received_bytes)
}

/// Returns a field of a JSON object: a list per machine, with a number for each window but the first.
fn per_window(name: &str, shards: &[Vec<WindowCost>], value: fn(&WindowCost) -> u64) -> String {
    let lists: Vec<Vec<u64>> =
        shards.iter().map(|windows| windows.iter().skip(1).map(value).collect()).collect();
    format!(",\"{name}\":{lists:?}")
}

/// Runs a case on one thread and prints its CPU time and peak memory.
fn run_one(case: &str) {
    let plan = plan(case);
    let estimate = Simulator::estimate_memory(&plan).get();
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let start = cpu_seconds();
    let report = simulator.run(&plan, &mut MemorySink::default()).expect("the plan runs");
    let seconds = cpu_seconds() - start;
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs is mounted");
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the status has a VmHWM line");
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("VmHWM is a number");
    println!(
        "{{\"kind\":\"one\",\"case\":\"{case}\",\"hosts\":{},\"us\":{},\"cpu_s\":{seconds:.3},\"packet_hops\":{},\
         \"in_flight\":{},\"peak_bytes\":{},\"estimated_bytes\":{estimate}}}",
        plan.topology.hosts(),
        plan.stop.get() / 1_000_000,
        report.packet_hops,
        report.in_flight,
        kib * 1_024,
    );
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs is mounted");
    let ns: f64 =
        text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("the first field is a number");
    ns / 1e9
}

/// Returns the plan of a case such as `poseidon-1024-100`.
fn plan(case: &str) -> Plan {
    let parts: Vec<&str> = case.split('-').collect();
    let [law, hosts, us] = parts[..] else { panic!("{case}: a case is LAW-HOSTS-US") };
    let hosts: u32 = hosts.parse().expect("the number of hosts is a number");
    let us = us.parse().expect("the simulated time is a number");
    let k = (1..1_000).map(|half| 2 * half).find(|k| k * k * k / 4 == hosts).unwrap_or_else(|| {
        panic!("{case}: no fat tree has {hosts} hosts: use 16, 128, 1024, 8192, 65536, …")
    });
    let stamp = match law {
        "hpcc" => Stamp::HopRecords(RecordCarrier::HpccNs3),
        _ => Stamp::MaxHopDelay(DelayCarrier::Shim),
    };
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    permutation(Topology::fat_tree(k, link), law, stamp, us)
}

/// What a run costs, summed over all windows but the first, which includes the set-up. A sum over windows is a sum of
/// the slowest machine's cost, because every machine waits for it.
#[derive(Default)]
struct Summary {
    machines: usize,
    windows: usize,
    /// The time of all windows on machine 0 in ns.
    total_ns: u64,
    /// The computation of the slowest machine in ns.
    compute_ns: u64,
    /// The exchange of machine 0 in ns, including its waiting.
    exchange_ns: u64,
    packet_hops: u64,
    /// Packet-hops of the busiest machine.
    max_hops: u64,
    /// Bytes that the busiest machine sent or received.
    max_bytes: u64,
    sent_bytes: u64,
    /// The receivers of the machine with most of them.
    receivers: u64,
}

impl Summary {
    fn new(shards: &[Vec<WindowCost>]) -> Self {
        let windows = shards[0].len();
        let mut summary = Self { machines: shards.len(), windows: windows - 1, ..Self::default() };
        for window in 1..windows {
            let costs = || shards.iter().map(|shard| shard[window]);
            let max = |value: fn(&WindowCost) -> u64| costs().map(|cost| value(&cost)).max().unwrap_or(0);
            let first = shards[0][window];
            summary.total_ns += first.compute_ns + first.exchange_ns;
            summary.compute_ns += max(|cost| cost.compute_ns);
            summary.exchange_ns += first.exchange_ns;
            summary.packet_hops += costs().map(|cost| cost.packet_hops).sum::<u64>();
            summary.max_hops += max(|cost| cost.packet_hops);
            summary.max_bytes += max(busiest_direction);
            summary.sent_bytes += costs().map(|cost| cost.sent_bytes).sum::<u64>();
            summary.receivers += max(|cost| cost.receivers);
        }
        summary
    }

    /// Returns one JSON object.
    fn row(&self, kind: &str, case: &str, report: &Report, more: &str) -> String {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut row = format!(
            "{{\"kind\":\"{kind}\",\"case\":\"{case}\",\"machines\":{},\"windows\":{}",
            self.machines, self.windows
        );
        if kind != "count" {
            let _ = write!(
                row,
                ",\"total_s\":{:.6},\"compute_s\":{:.6},\"exchange_s\":{:.6}",
                seconds(self.total_ns),
                seconds(self.compute_ns),
                seconds(self.exchange_ns)
            );
        }
        let _ = write!(
            row,
            ",\"packet_hops\":{},\"max_hops\":{},\"max_bytes\":{},\"sent_bytes\":{},\"receivers\":{},\
             \"hash\":\"{:016x}\"{more}}}",
            self.packet_hops,
            self.max_hops,
            self.max_bytes,
            self.sent_bytes,
            self.receivers,
            report.result_hash
        );
        row
    }
}

const FIELDS: usize = 6;

fn to_numbers(cost: &WindowCost) -> [u64; FIELDS] {
    [
        cost.packet_hops,
        cost.compute_ns,
        cost.exchange_ns,
        cost.sent_bytes,
        cost.received_bytes,
        cost.receivers,
    ]
}

fn from_numbers(numbers: &[u64]) -> WindowCost {
    WindowCost {
        packet_hops: numbers[0],
        compute_ns: numbers[1],
        exchange_ns: numbers[2],
        sent_bytes: numbers[3],
        received_bytes: numbers[4],
        receivers: numbers[5],
    }
}
