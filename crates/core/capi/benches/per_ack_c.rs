//! Measures instructions per ACK through the C functions, beside the same ACKs through `AnyLaw`.
//!
//! `cargo bench -p poseidon-capi --bench per_ack_c`
//!
//! Each benchmark processes a thousand ACKs, as `per_ack` of `poseidon-laws` does. The C functions are called through
//! pointers that the compiler cannot see through, as from another language. `decision` adds the call for the decision after
//! every ACK. The benchmark of Poseidon through C fails above the limit that [`POSEIDON_LIMIT`] states.

#![allow(missing_docs, unused_qualifications, reason = "the benchmark macros generate such code")]
#![allow(unsafe_code, reason = "the benchmarks call the C functions")]

use core::hint::black_box;
use core::mem::MaybeUninit;
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_capi::flow::{poseidon_flow, poseidon_flow_init, poseidon_flow_on_ack};
use poseidon_capi::law::{poseidon_law, poseidon_law_decision, poseidon_law_init, poseidon_law_on_ack};
use poseidon_capi::structs::{
    POSEIDON_ACK_MAX_HOP_DELAY, POSEIDON_ACK_REVERSE_MAX_HOP_DELAY, poseidon_ack, poseidon_decision,
    poseidon_hop, poseidon_path,
};
use poseidon_laws::{Ack, AnyLaw, AnyParams, Law, Path};
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos, Signals};
use std::ffi::CString;

/// The number of ACKs per benchmark.
const ACKS: usize = 1_000;
/// The number of hops on the path: the maximum in a three-tier fabric.
const HOPS: usize = 5;
/// The largest number of instructions for a thousand ACKs of Poseidon through the C functions.
const POSEIDON_LIMIT: u64 = 133_000;

const PATH: Path =
    Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::new(9_900) };

/// Returns a thousand ACKs for a flow that shares a 200 Gbps link with nine other flows, as in `per_ack`.
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

fn size_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("the struct is small")
}

/// Converts an ACK to the struct of C.
fn c_ack(ack: &Ack<'static>) -> poseidon_ack {
    let hops = ack.hops.records.iter().map(|record| poseidon_hop {
        timestamp_ns: record.timestamp.get(),
        sent_bytes: record.sent.get(),
        queue_bytes: record.queue.get(),
        rate_bps: record.rate.get(),
    });
    let hops = Vec::leak(hops.collect());
    poseidon_ack {
        struct_size: size_u32::<poseidon_ack>(),
        flags: POSEIDON_ACK_MAX_HOP_DELAY | POSEIDON_ACK_REVERSE_MAX_HOP_DELAY,
        hop_count: ack.hop_count,
        reserved: 0,
        now_ns: ack.now.get(),
        rtt_ns: ack.rtt.get(),
        bytes: ack.bytes.get(),
        marked_bytes: ack.marked.get(),
        acked_seq: ack.acked_seq,
        next_seq: ack.next_seq,
        max_hop_delay_ns: ack.max_hop_delay.map_or(0, Nanos::get),
        reverse_max_hop_delay_ns: ack.reverse_max_hop_delay.map_or(0, Nanos::get),
        endpoint_delay_ns: ack.endpoint_delay.get(),
        hops: hops.as_ptr(),
        hop_record_count: hops.len(),
        hop_wrap_timestamp_ns: 0,
        hop_wrap_sent_bytes: 0,
        packets: ack.packets,
        random: ack.random,
        in_flight_bytes: ack.in_flight.get(),
    }
}

fn c_path() -> poseidon_path {
    poseidon_path {
        struct_size: size_u32::<poseidon_path>(),
        reserved: 0,
        mtu_bytes: PATH.mtu.get(),
        line_rate_bps: PATH.line_rate.get(),
        base_rtt_ns: PATH.base_rtt.get(),
    }
}

/// A law and its ACKs, in Rust.
fn in_rust(name: &str) -> (AnyLaw, Vec<Ack<'static>>) {
    let params = AnyParams::for_law(name).expect("the law is registered");
    (params.build(&PATH, Signals::ALL).expect("the defaults are valid"), acks())
}

/// A law's state and its ACKs, in C.
fn in_c(name: &str) -> (Box<poseidon_law>, Vec<poseidon_ack>) {
    let mut law = Box::new(MaybeUninit::uninit());
    let name = CString::new(name).expect("the name has no zero byte");
    let path = c_path();
    // SAFETY: all pointers are valid or null.
    let status = unsafe {
        poseidon_law_init(
            law.as_mut_ptr(),
            size_of::<poseidon_law>(),
            name.as_ptr(),
            core::ptr::null(),
            &raw const path,
            255,
            core::ptr::null_mut(),
        )
    };
    assert_eq!(status, 0);
    // SAFETY: all bit patterns are valid for the memory of a law.
    (unsafe { law.assume_init() }, acks().iter().map(c_ack).collect())
}

/// The state of Poseidon alone and its ACKs, in C.
fn alone_in_c() -> (Box<poseidon_flow>, Vec<poseidon_ack>) {
    let mut flow = Box::new(MaybeUninit::uninit());
    let path = c_path();
    // SAFETY: all pointers are valid or null.
    let status = unsafe {
        poseidon_flow_init(
            flow.as_mut_ptr(),
            size_of::<poseidon_flow>(),
            core::ptr::null(),
            &raw const path,
            255,
            core::ptr::null_mut(),
        )
    };
    assert_eq!(status, 0);
    // SAFETY: all bit patterns are valid for the memory of a flow.
    (unsafe { flow.assume_init() }, acks().iter().map(c_ack).collect())
}

#[library_benchmark]
#[bench::poseidon(in_rust("poseidon"))]
#[bench::swift(in_rust("swift"))]
#[bench::hpcc(in_rust("hpcc"))]
#[bench::powertcp(in_rust("powertcp"))]
#[bench::theta_powertcp(in_rust("theta-powertcp"))]
#[bench::timely(in_rust("timely"))]
#[bench::dcqcn(in_rust("dcqcn"))]
#[bench::dctcp(in_rust("dctcp"))]
#[bench::cubic(in_rust("cubic"))]
#[bench::bbr(in_rust("bbr"))]
#[bench::retcp(in_rust("retcp"))]
#[bench::nscc(in_rust("nscc"))]
#[bench::fixed(in_rust("fixed"))]
fn rust((mut law, acks): (AnyLaw, Vec<Ack<'static>>)) -> AnyLaw {
    for ack in &acks {
        law.on_ack(black_box(ack));
    }
    core::mem::forget(acks);
    law
}

type OnAck<T> = unsafe extern "C" fn(*mut T, *const poseidon_ack) -> i32;

#[inline(always)]
fn process_acks<T>((mut law, acks): (Box<T>, Vec<poseidon_ack>), on_ack: OnAck<T>) -> Box<T> {
    let on_ack = black_box(on_ack);
    for ack in &acks {
        // SAFETY: all pointers are valid.
        let _ = black_box(unsafe { on_ack(&raw mut *law, black_box(ack)) });
    }
    core::mem::forget(acks);
    law
}

#[library_benchmark]
#[bench::swift(in_c("swift"))]
#[bench::hpcc(in_c("hpcc"))]
#[bench::powertcp(in_c("powertcp"))]
#[bench::theta_powertcp(in_c("theta-powertcp"))]
#[bench::timely(in_c("timely"))]
#[bench::dcqcn(in_c("dcqcn"))]
#[bench::dctcp(in_c("dctcp"))]
#[bench::cubic(in_c("cubic"))]
#[bench::bbr(in_c("bbr"))]
#[bench::retcp(in_c("retcp"))]
#[bench::nscc(in_c("nscc"))]
#[bench::fixed(in_c("fixed"))]
fn c(input: (Box<poseidon_law>, Vec<poseidon_ack>)) -> Box<poseidon_law> {
    process_acks(input, poseidon_law_on_ack)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, POSEIDON_LIMIT)])
))]
#[bench::poseidon(in_c("poseidon"))]
fn c_limited(input: (Box<poseidon_law>, Vec<poseidon_ack>)) -> Box<poseidon_law> {
    process_acks(input, poseidon_law_on_ack)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, POSEIDON_LIMIT)])
))]
#[bench::poseidon(alone_in_c())]
fn c_alone(input: (Box<poseidon_flow>, Vec<poseidon_ack>)) -> Box<poseidon_flow> {
    process_acks(input, poseidon_flow_on_ack)
}

#[library_benchmark]
#[bench::poseidon(in_c("poseidon"))]
fn c_decision((mut law, acks): (Box<poseidon_law>, Vec<poseidon_ack>)) -> Box<poseidon_law> {
    let on_ack: OnAck<poseidon_law> = black_box(poseidon_law_on_ack);
    let decide: unsafe extern "C" fn(*const poseidon_law, *mut poseidon_decision) -> i32 =
        black_box(poseidon_law_decision);
    let struct_size = size_u32::<poseidon_decision>();
    let mut decision = poseidon_decision { struct_size, pacing: 0, window_q24: 0, gap_ns: 0, rate_bps: 0 };
    for ack in &acks {
        // SAFETY: all pointers are valid.
        let _ = black_box(unsafe { on_ack(&raw mut *law, black_box(ack)) });
        // SAFETY: all pointers are valid.
        let _ = black_box(unsafe { decide(&raw const *law, &raw mut decision) });
        black_box(&decision);
    }
    core::mem::forget(acks);
    law
}

library_benchmark_group!(name = per_ack_c, benchmarks = [rust, c, c_limited, c_alone, c_decision]);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = per_ack_c
);
