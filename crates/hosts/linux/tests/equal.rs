//! Tests that Rust, C and BPF agree: after every step of random traces, the law in `bpf/law.h` has the same state as
//! the Rust law.

mod traces;

use poseidon_linux::{KernelReplay, Outcome};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use traces::{Trace, traces};
use zerocopy::{FromBytes, IntoBytes};

const STEPS: u64 = 1_000_000;

/// Builds the C code with two compilers, and once more with the undefined behaviour sanitizer.
#[test]
fn native_c_equals_rust() {
    let from_environment = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let (cc, clang) = (from_environment("CC", "cc"), from_environment("CLANG", "clang-19"));
    let programs = [
        compile("replay", &cc, &["-O2"]),
        compile("replay-clang", &clang, &["-O2"]),
        compile("replay-traps", &clang, &["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined"]),
    ];
    let (mut steps, mut batch) = (0, Vec::new());
    let mut traces = traces(STEPS).peekable();
    while let Some(trace) = traces.next() {
        steps += trace.start.steps;
        batch.push(trace);
        if batch.len() == 256 || traces.peek().is_none() {
            programs.iter().for_each(|program| compare(program, &batch));
            batch.clear();
        }
    }
    println!("{steps} steps, {} programs, no difference", programs.len());
    assert!(steps >= STEPS);
}

/// Needs root, so `cargo test` ignores this test; `.ci/linux` runs it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn kernel_equals_rust() {
    let kernel = KernelReplay::load().unwrap_or_else(|error| panic!("{error}"));
    let (mut steps, mut elapsed) = (0, 0);
    for trace in traces(STEPS) {
        let result = kernel.replay(trace.start.flow, &trace.steps).unwrap_or_else(|error| panic!("{error}"));
        assert_equal(&trace, &result.outcomes, "BPF");
        steps += trace.start.steps;
        elapsed += result.elapsed.get();
    }
    let verified = kernel.verified_instructions().unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{steps} steps in the kernel, no difference; {} ns each, {verified} instructions verified",
        elapsed / steps
    );
    assert!(steps >= STEPS);
}

/// Compiles the native program `bpf/replay.c`.
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

fn compare(program: &Path, traces: &[Trace]) {
    let input = program.with_extension("traces");
    let bytes = traces.iter().flat_map(|trace| [trace.start.as_bytes(), trace.steps.as_bytes()]);
    fs::write(&input, bytes.collect::<Vec<_>>().concat()).expect("the target folder is writable");
    let output = Command::new(program).stdin(File::open(&input).expect("the input exists")).output();
    let output = output.expect("the program was compiled");
    let name = program.file_name().expect("a program has a name").to_string_lossy();
    assert!(output.status.success(), "{name}: {}", output.status);
    let mut rest = &output.stdout[..];
    for trace in traces {
        let (outcomes, after) = <[Outcome]>::ref_from_prefix_with_elems(rest, trace.steps.len())
            .unwrap_or_else(|_| panic!("{name}: the output ends in trace {}", trace.seed));
        assert_equal(trace, outcomes, &name);
        rest = after;
    }
    assert!(rest.is_empty(), "{name} wrote {} extra bytes", rest.len());
}

/// Panics at the first outcome that differs from the Rust law's outcome.
fn assert_equal(trace: &Trace, outcomes: &[Outcome], program: &str) {
    let seed = trace.seed;
    assert_eq!(outcomes.len(), trace.outcomes.len(), "{program}: trace {seed} has a different length");
    let Some(step) = (0..outcomes.len()).find(|&step| outcomes[step] != trace.outcomes[step]) else { return };
    let before = if step == 0 { trace.start.flow } else { trace.outcomes[step - 1].flow };
    panic!(
        "{program} differs in trace {seed} at step {step}\nbefore {before:?}\nstep   {:?}\nRust   {:?}\n{program:6} {:?}",
        trace.steps[step], trace.outcomes[step], outcomes[step]
    );
}
