//! Instructions per packet-hop: whole runs of small networks, counted by callgrind, so that noise does not move them.
//!
//! `cargo bench -p poseidon-sim --bench per_hop`
//!
//! Each row is a run of 200 us of a permutation over a fat tree of 16 hosts (100 Gbps, 1 us, 1500 B, every packet stamped, marked and
//! acknowledged). Building the network is part of it, and below one percent. The packet-hops of a row are constant for a given
//! state of the code and stand in `docs/cost.md`; a row fails above its limit.

#![allow(missing_docs, unused_qualifications, reason = "in what the benchmark macros generate")]

use core::num::NonZeroU32;
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp, Step};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Nanos, Picos};

fn permutation(law: &str, stamp: Stamp) -> Plan {
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let ends: Vec<_> = (0..16).map(|from| (from, (from + 9) % 16)).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, link), law, &ends);
    // Poseidon's fabric is as fast as its fastest host; the others have no such parameter.
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
    Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut Kept::default()).expect("runs")
}

/// One benchmark per law, with its limit in instructions.
macro_rules! rows {
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
rows! {
    poseidon = "poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim), 112_000_000;
    swift = "swift", Stamp::MaxHopDelay(DelayCarrier::Shim), 69_000_000;
    hpcc = "hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3), 123_000_000;
    dctcp = "dctcp", Stamp::Off, 102_000_000;
}

library_benchmark_group!(name = per_hop, benchmarks = [poseidon, swift, hpcc, dctcp]);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = per_hop
);
