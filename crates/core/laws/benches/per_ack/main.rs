//! Instructions per ACK of every law, and of quinn's controllers, fed the same ACKs.
//!
//! `cargo bench -p poseidon-laws --bench per_ack`
//!
//! Each row is a thousand ACKs, so its last three digits are decimals of an instruction per ACK. Counts come from
//! callgrind: they do not depend on what else the machine does. The loop around the law (loading the next ACK, counting)
//! is part of each row and costs what the row `nothing` shows. The row `poseidon` fails above 120 instructions per ACK.

#![allow(missing_docs, unused_qualifications, reason = "in what the benchmark macros generate")]

mod quinn;

use core::hint::black_box;
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, Path};
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, Nanos, Wrap};
use quinn::Quinn;
use quinn_proto::congestion;

/// ACKs per row.
const ACKS: usize = 1_000;
/// Hops of the path: the longest of a three-tier fabric.
const HOPS: usize = 5;

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::new(9_900) };

/// A thousand ACKs of a flow that shares a 200 Gbps link with nine others: the worst hop's delay swings around the
/// target of 12 us, so that a law sees both sides of it, and one packet in 256 is marked: most of
/// the time CUBIC is in congestion avoidance.
fn acks() -> Vec<Ack<'static>> {
    let records: &'static [HopRecord] = Vec::leak(
        (0..ACKS * HOPS)
            .map(|i| {
                let (ack, hop) = ((i / HOPS) as u64, (i % HOPS) as u64);
                HopRecord {
                    at: Nanos::new(1_640 * ack + hop),
                    sent: Bytes::new(40_000 * ack),
                    queue: Bytes::new(if hop == 2 { 300_000 + 64 * swing(ack) } else { 0 }),
                    rate: BitRate::from_gbps(200),
                }
            })
            .collect(),
    );
    let ack = |i: usize| {
        let n = i as u64;
        let delay = 8_000 + swing(n);
        Ack {
            now: Nanos::new(22_000 + 1_640 * n),
            rtt: Nanos::new(9_900 + delay),
            packets: 1,
            bytes: Bytes::new(4_096),
            marked: Bytes::new(if n.is_multiple_of(256) { 4_096 } else { 0 }),
            acked_seq: 4_096 * n,
            next_seq: 4_096 * (n + 13),
            max_hop_delay: Some(Nanos::new(delay)),
            reverse_max_hop_delay: Some(Nanos::ZERO),
            hops: HopPath { records: &records[i * HOPS..(i + 1) * HOPS], wrap: Wrap::NEVER },
            hop_count: 5,
            chance: u32::try_from(i).unwrap_or(0).wrapping_mul(0x9e37_79b9),
            ..Ack::EMPTY
        }
    };
    (0..ACKS).map(ack).collect()
}

/// A triangle between 0 and 8000 with a period of 100.
fn swing(n: u64) -> u64 {
    160 * (n % 100).min(100 - n % 100)
}

/// A law and its ACKs, ready.
fn ready<L: Law>() -> (L, Vec<Ack<'static>>) {
    (L::new(&L::Params::default(), &PATH), acks())
}

/// The same with a preset.
fn preset<L: Law>(name: &str) -> (L, Vec<Ack<'static>>) {
    let mut params = L::Params::default();
    params.preset(name).expect("a preset of the law");
    (L::new(&params, &PATH), acks())
}

/// The same with one delay for all and round trips shorter than the gap between ACKs, so that no gate saves work: the
/// longest ways through a law.
fn always<L: Law>(delay: Nanos) -> (L, Vec<Ack<'static>>) {
    let (law, mut acks) = ready();
    for ack in &mut acks {
        (ack.max_hop_delay, ack.rtt) = (Some(delay), Nanos::new(1_000));
    }
    (law, acks)
}

#[inline(always)]
fn feed<L: Law>((mut law, acks): (L, Vec<Ack<'static>>)) -> L {
    for ack in &acks {
        law.on_ack(black_box(ack));
    }
    core::mem::forget(acks);
    law
}

mod laws {
    pub(super) use poseidon_laws::registry::*;
}

/// One benchmark per law, named like its module.
macro_rules! rows {
    ($($name:ident = $law:ident),*) => {$(
        #[library_benchmark]
        #[bench::thousand_acks(ready::<laws::$law>())]
        fn $name(input: (laws::$law, Vec<Ack<'static>>)) -> laws::$law {
            feed(input)
        }
    )*};
}
rows!(
    swift = Swift,
    hpcc = Hpcc,
    powertcp = PowerTcp,
    theta_powertcp = ThetaPowerTcp,
    timely = Timely,
    dcqcn = Dcqcn,
    dctcp = Dctcp,
    cubic = Cubic,
    bbr = Bbr,
    retcp = Retcp,
    nothing = Fixed
);

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 120_000)])
))]
#[bench::thousand_acks(ready::<laws::Poseidon>())]
#[bench::all_grow(always::<laws::Poseidon>(Nanos::new(100)))]
#[bench::all_cut(always::<laws::Poseidon>(Nanos::new(45_000)))]
fn poseidon(input: (laws::Poseidon, Vec<Ack<'static>>)) -> laws::Poseidon {
    feed(input)
}

#[library_benchmark]
#[bench::thousand_acks(preset::<laws::Hpcc>("vai-sf"))]
fn hpcc_vai_sf(input: (laws::Hpcc, Vec<Ack<'static>>)) -> laws::Hpcc {
    feed(input)
}

#[library_benchmark]
#[bench::thousand_acks(preset::<laws::Swift>("vai-sf"))]
fn swift_vai_sf(input: (laws::Swift, Vec<Ack<'static>>)) -> laws::Swift {
    feed(input)
}

/// quinn's controllers on the same ACKs.
macro_rules! quinn_rows {
    ($($name:ident = $controller:ty, $make:path),*) => {$(
        #[library_benchmark]
        #[bench::thousand_acks(Quinn::new(&acks(), $make))]
        fn $name(input: Quinn<$controller>) -> Quinn<$controller> {
            input.feed()
        }
    )*};
}
quinn_rows!(
    quinn_cubic = congestion::Cubic,
    quinn::cubic,
    quinn_new_reno = congestion::NewReno,
    quinn::new_reno,
    quinn_bbr = congestion::Bbr,
    quinn::bbr
);

library_benchmark_group!(
    name = per_ack,
    benchmarks = [
        nothing,
        poseidon,
        swift,
        swift_vai_sf,
        hpcc,
        hpcc_vai_sf,
        powertcp,
        theta_powertcp,
        timely,
        dcqcn,
        dctcp,
        cubic,
        bbr,
        retcp,
        quinn_cubic,
        quinn_new_reno,
        quinn_bbr
    ]
);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = per_ack
);
