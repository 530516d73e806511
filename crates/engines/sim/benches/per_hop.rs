//! Instructions per packet-hop, counted by callgrind in complete runs of small networks. Machine noise does
//! not affect the counts.
//!
//! `cargo bench -p poseidon-sim --bench per_hop`
//!
//! Each benchmark simulates 200 us of permutation traffic on a fat tree with 16 hosts (100 Gbps, 1 us, 1500
//! B). Every packet carries telemetry, goes through a marking decision and is acknowledged. Building the
//! network takes less than one percent of the instructions. `docs/cost.md` lists the packet-hop count of each
//! benchmark. A benchmark fails if it exceeds its instruction limit.

#![allow(missing_docs, unused_qualifications, reason = "the benchmark macros generate such code")]

use core::num::NonZeroU32;
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp, Step};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Nanos, Picos};

fn permutation(law: &str, stamp: Stamp) -> Plan {
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let ends: Vec<_> = (0..16).map(|from| (from, (from + 9) % 16)).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, link), law, &ends);
    // Only Poseidon has this parameter, which is the rate of the fastest host.
    let _ = plan.laws[0].set("max-rate", "100 Gbps");
    plan.stop = Picos::from_nanos(Nanos::from_micros(200));
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = stamp;
    plan.switch.mark = Step { threshold: Bytes::new(300_000) }.into();
    plan.transport.mtu = Bytes::new(1_436);
    plan.transport.header = Bytes::new(64);
    plan
}

fn run(plan: &Plan) -> Report {
    Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut MemorySink::default()).expect("the plan runs")
}

/// Defines one benchmark per law, with its instruction limit.
macro_rules! law_benchmarks {
    ($($name:ident = $law:literal, $stamp:expr, $limit:literal;)*) => {$(
        #[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
            Callgrind::default().hard_limits([(EventKind::Ir, $limit)])
        ))]
        #[bench::fat_tree(permutation($law, $stamp))]
        fn $name(plan: Plan) -> Report {
            run(&plan)
        }
    )*};
}
law_benchmarks! {
    poseidon = "poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim), 115_000_000;
    swift = "swift", Stamp::MaxHopDelay(DelayCarrier::Shim), 71_000_000;
    hpcc = "hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3), 126_000_000;
    dctcp = "dctcp", Stamp::Off, 105_000_000;
}

library_benchmark_group!(name = per_hop, benchmarks = [poseidon, swift, hpcc, dctcp]);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = per_hop
);
