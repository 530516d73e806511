//! Measures instructions per ACK for every law and for quinn's controllers, using the same ACKs.
//!
//! `cargo bench -p poseidon-laws --bench per_ack`
//!
//! Each benchmark processes a thousand ACKs, so dividing a count by 1000 gives instructions per ACK. Callgrind counts
//! instructions, so other load on the machine does not affect the results. Each result includes the overhead of the
//! loop around the law, which the `fixed` benchmark measures. The `poseidon` benchmark fails above 120 instructions per
//! ACK.

#![allow(missing_docs, unused_qualifications, reason = "the benchmark macros generate such code")]

mod quinn;

use core::hint::black_box;
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, LawDefinition, Path};
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos};
use quinn::QuinnController;
use quinn_proto::congestion;

/// The number of ACKs per benchmark.
const ACKS: usize = 1_000;
/// The number of hops on the path: the maximum in a three-tier fabric.
const HOPS: usize = 5;

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::new(9_900) };

/// Returns a thousand ACKs for a flow that shares a 200 Gbps link with nine other flows.
///
/// The worst hop's delay oscillates around the 12 us target, so windows both grow and shrink. One packet in 256 is
/// marked, so CUBIC is in congestion avoidance most of the time.
fn acks() -> Vec<Ack<'static>> {
    let records: &'static [HopRecord] = Vec::leak(
        (0..ACKS * HOPS)
            .map(|i| {
                let (ack, hop) = ((i / HOPS) as u64, (i % HOPS) as u64);
                HopRecord {
                    timestamp: Nanos::new(1_640 * ack + hop),
                    sent: Bytes::new(40_000 * ack),
                    queue: Bytes::new(if hop == 2 { 300_000 + 64 * triangle_wave(ack) } else { 0 }),
                    rate: BitRate::from_gbps(200),
                }
            })
            .collect(),
    );
    let ack = |i: usize| {
        let n = i as u64;
        let delay = 8_000 + triangle_wave(n);
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
            hops: HopPath { records: &records[i * HOPS..(i + 1) * HOPS], wrap: CounterWrap::NEVER },
            hop_count: 5,
            random: u32::try_from(i).unwrap_or(0).wrapping_mul(0x9e37_79b9),
            ..Ack::EMPTY
        }
    };
    (0..ACKS).map(ack).collect()
}

/// Returns a triangle wave between 0 and 8000 with a period of 100.
fn triangle_wave(n: u64) -> u64 {
    160 * (n % 100).min(100 - n % 100)
}

/// Returns a law with default parameters and the ACKs to feed it.
fn with_defaults<L: LawDefinition>() -> (L, Vec<Ack<'static>>) {
    (L::new(&L::Params::default(), &PATH), acks())
}

/// Returns a law configured from a preset and the ACKs to feed it.
fn with_preset<L: LawDefinition>(name: &str) -> (L, Vec<Ack<'static>>) {
    let mut params = L::Params::default();
    params.apply_preset(name).expect("the preset exists");
    (L::new(&params, &PATH), acks())
}

/// Returns a law and ACKs with a constant delay and an RTT shorter than the ACK spacing.
///
/// A once-per-round-trip limit therefore never skips an ACK, so the benchmark measures the longest code paths.
fn with_constant_delay<L: LawDefinition>(delay: Nanos) -> (L, Vec<Ack<'static>>) {
    let (law, mut acks) = with_defaults();
    for ack in &mut acks {
        (ack.max_hop_delay, ack.rtt) = (Some(delay), Nanos::new(1_000));
    }
    (law, acks)
}

#[inline(always)]
fn process_acks<L: LawDefinition>((mut law, acks): (L, Vec<Ack<'static>>)) -> L {
    for ack in &acks {
        law.on_ack(black_box(ack));
    }
    core::mem::forget(acks);
    law
}

mod laws {
    pub(super) use poseidon_laws::registry::*;
}

/// Defines one benchmark per law.
macro_rules! law_benchmarks {
    ($($name:ident = $law:ident),*) => {$(
        #[library_benchmark]
        #[bench::thousand_acks(with_defaults::<laws::$law>())]
        fn $name(input: (laws::$law, Vec<Ack<'static>>)) -> laws::$law {
            process_acks(input)
        }
    )*};
}
law_benchmarks!(
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
    nscc = Nscc,
    fixed = Fixed
);

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 120_000)])
))]
#[bench::thousand_acks(with_defaults::<laws::Poseidon>())]
#[bench::all_grow(with_constant_delay::<laws::Poseidon>(Nanos::new(100)))]
#[bench::all_cut(with_constant_delay::<laws::Poseidon>(Nanos::new(45_000)))]
fn poseidon(input: (laws::Poseidon, Vec<Ack<'static>>)) -> laws::Poseidon {
    process_acks(input)
}

#[library_benchmark]
#[bench::thousand_acks(with_preset::<laws::Hpcc>("vai-sf"))]
fn hpcc_vai_sf(input: (laws::Hpcc, Vec<Ack<'static>>)) -> laws::Hpcc {
    process_acks(input)
}

#[library_benchmark]
#[bench::thousand_acks(with_preset::<laws::Swift>("vai-sf"))]
fn swift_vai_sf(input: (laws::Swift, Vec<Ack<'static>>)) -> laws::Swift {
    process_acks(input)
}

/// Defines one benchmark per quinn controller.
macro_rules! quinn_benchmarks {
    ($($name:ident = $controller:ty, $make:path),*) => {$(
        #[library_benchmark]
        #[bench::thousand_acks(QuinnController::new(&acks(), $make))]
        fn $name(input: QuinnController<$controller>) -> QuinnController<$controller> {
            input.process_acks()
        }
    )*};
}
quinn_benchmarks!(
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
        fixed,
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
        nscc,
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
