//! Rust = C = BPF: the law in `bpf/law.h` has, after every step of random lives, every number of the law in Rust.

mod lives;

use lives::{Life, lives};
use poseidon_linux::{InKernel, Outcome};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use zerocopy::{FromBytes, IntoBytes};

const STEPS: u64 = 1_000_000;

/// By two compilers, and once with a trap at whatever C leaves undefined.
#[test]
fn native_c_does_what_rust_does() {
    let from_environment = |name, usual: &str| env::var(name).unwrap_or_else(|_| usual.to_owned());
    let (cc, clang) = (from_environment("CC", "cc"), from_environment("CLANG", "clang-19"));
    let programs = [
        compile("replay", &cc, &["-O2"]),
        compile("replay-clang", &clang, &["-O2"]),
        compile("replay-traps", &clang, &["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined"]),
    ];
    let (mut steps, mut some) = (0, Vec::new());
    let mut lives = lives(STEPS).peekable();
    while let Some(life) = lives.next() {
        steps += life.start.steps;
        some.push(life);
        if some.len() == 256 || lives.peek().is_none() {
            programs.iter().for_each(|program| compare(program, &some));
            some.clear();
        }
    }
    println!("{steps} steps, {} programs, no difference", programs.len());
    assert!(steps >= STEPS);
}

/// Not among what `cargo test` runs, because it needs root; `.ci/linux` runs it, or says why it does not.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn the_kernel_does_what_rust_does() {
    let kernel = InKernel::load().unwrap_or_else(|error| panic!("{error}"));
    let (mut steps, mut took) = (0, 0);
    for life in lives(STEPS) {
        let replayed = kernel.replay(life.start.flow, &life.steps).unwrap_or_else(|error| panic!("{error}"));
        assert_equal(&life, &replayed.outcomes, "BPF");
        steps += life.start.steps;
        took += replayed.took.get();
    }
    let verified = kernel.verified_instructions().unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{steps} steps in the kernel, no difference; {} ns each, {verified} instructions verified",
        took / steps
    );
    assert!(steps >= STEPS);
}

/// The native program `bpf/replay.c`.
fn compile(name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/replay.c");
    let status = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"])
        .args(options)
        .args([Path::new("-o"), &program, Path::new(source)])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} {options:?}");
    program
}

fn compare(program: &Path, lives: &[Life]) {
    let input = program.with_extension("lives");
    let bytes = lives.iter().flat_map(|life| [life.start.as_bytes(), life.steps.as_bytes()]);
    fs::write(&input, bytes.collect::<Vec<_>>().concat()).expect("cargo's own folder can be written");
    let output = Command::new(program).stdin(File::open(&input).expect("just written")).output();
    let output = output.expect("it was just compiled");
    let name = program.file_name().expect("it has one").to_string_lossy();
    assert!(output.status.success(), "{name}: {}", output.status);
    let mut rest = &output.stdout[..];
    for life in lives {
        let (outcomes, after) = <[Outcome]>::ref_from_prefix_with_elems(rest, life.steps.len())
            .unwrap_or_else(|_| panic!("{name}: the output ends in life {}", life.seed));
        assert_equal(life, outcomes, &name);
        rest = after;
    }
    assert!(rest.is_empty(), "{name} has {} bytes more to say", rest.len());
}

/// Fails at the first outcome that is not that of the law in Rust.
fn assert_equal(life: &Life, others: &[Outcome], who: &str) {
    let seed = life.seed;
    assert_eq!(others.len(), life.outcomes.len(), "{who}: life {seed} has another length");
    let Some(at) = (0..others.len()).find(|&at| others[at] != life.outcomes[at]) else { return };
    let before = if at == 0 { life.start.flow } else { life.outcomes[at - 1].flow };
    panic!(
        "{who} differs in life {seed} at step {at}\nbefore {before:?}\nstep   {:?}\nRust   {:?}\n{who:6} {:?}",
        life.steps[at], life.outcomes[at], others[at]
    );
}
