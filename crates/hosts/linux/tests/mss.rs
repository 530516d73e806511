//! The one constant of a flow that depends on the size of its packets, which C computes when a connection stands, is for every
//! size the one that Rust computes.

use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams};
use poseidon_laws::{Law, Path};
use poseidon_linux::Flow;
use poseidon_types::{BitRate, Bytes, Nanos};
use std::env;
use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// `POSEIDON_REFERENCE_MSS` of `bpf/mss.h`.
const REFERENCE_MSS: u64 = 1_448;

#[test]
fn every_size_of_packets_has_the_rate_offset_of_the_law_in_rust() {
    let rates = [4, 1_000_003, 100_000_000, 10_000_000_000, 200_000_000_000, 100_000_000_000_000];
    let laws = rates.map(|rate| PoseidonParams {
        max_rate: BitRate::from_bps(rate),
        min_rate: BitRate::from_bps(rate / 4),
        ..PoseidonParams::default()
    });
    let references: Vec<_> = laws.iter().map(|law| rate_offset(law, REFERENCE_MSS)).collect();
    let in_c = run_c(&references);
    let mut from_c = in_c.iter();
    for law in &laws {
        for mss in 1..=65_535 {
            let right = rate_offset(law, mss);
            assert_eq!(from_c.next(), Some(&right), "{mss} bytes at {}", law.max_rate);
        }
    }
    assert_eq!(from_c.next(), None);
}

fn rate_offset(law: &PoseidonParams, mss: u64) -> i32 {
    let path =
        Path { mtu: Bytes::new(mss), line_rate: BitRate::from_gbps(1), base_rtt: Nanos::from_micros(20) };
    Flow::try_from(&Poseidon::new(law, &path)).expect("such laws are in C").rate_offset()
}

/// The native program `bpf/mss.c`.
fn run_c(references: &[i32]) -> Vec<i32> {
    let program = FilePath::new(env!("CARGO_TARGET_TMPDIR")).join("mss");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o"])
        .args([&program, FilePath::new(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/mss.c"))])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler}");
    let input = program.with_extension("references");
    fs::write(&input, references.as_bytes()).expect("cargo's own folder can be written");
    let output = Command::new(&program).stdin(File::open(&input).expect("just written")).output();
    let output = output.expect("it was just compiled");
    assert!(output.status.success(), "{}", output.status);
    output.stdout.chunks(4).map(|bytes| i32::read_from_bytes(bytes).expect("whole numbers")).collect()
}
