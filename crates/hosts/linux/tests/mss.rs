//! When a connection is established, the C code computes the flow's rate offset for its packet size. The test compares
//! the offset with Rust's result for every packet size.

use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams};
use poseidon_laws::{LawDefinition, Path};
use poseidon_linux::Flow;
use poseidon_types::{BitRate, Bytes, Nanos};
use std::env;
use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// The value of `POSEIDON_REFERENCE_MSS` in `bpf/mss.h`.
const REFERENCE_MSS: u64 = 1_448;

#[test]
fn rate_offset_equals_rust_for_every_packet_size() {
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
            let expected = rate_offset(law, mss);
            assert_eq!(from_c.next(), Some(&expected), "{mss} bytes at {}", law.max_rate);
        }
    }
    assert_eq!(from_c.next(), None);
}

fn rate_offset(law: &PoseidonParams, mss: u64) -> i32 {
    let path =
        Path { mtu: Bytes::new(mss), line_rate: BitRate::from_gbps(1), base_rtt: Nanos::from_micros(20) };
    Flow::try_from(&Poseidon::new(law, &path)).expect("the C port supports the law").rate_offset()
}

/// Runs the native program `bpf/mss.c`.
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
    fs::write(&input, references.as_bytes()).expect("the target folder is writable");
    let output = Command::new(&program).stdin(File::open(&input).expect("the input exists")).output();
    let output = output.expect("the program was compiled");
    assert!(output.status.success(), "{}", output.status);
    output
        .stdout
        .chunks(4)
        .map(|bytes| i32::read_from_bytes(bytes).expect("the output consists of whole integers"))
        .collect()
}
