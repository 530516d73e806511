//! Measures the cost of the shim and the law as goodput and CPU time per byte, relative to plain quinn.
//!
//! `cargo run --release -p poseidon-quic --features quinn --example ratio -- [--quick] [--json] [--mtu 1452,8900]`
//!
//! Each variant runs one connection within one process, with the client and the server on separate cores. The
//! variants take turns in short slices, and their order changes each round. Other load on the machine therefore
//! affects all variants. A run's ratio is the median over its rounds, and the result is the median over all
//! runs. `bare again` is a second plain quinn connection. The deviation of its ratio from 1 is the noise level.
//! A difference within the noise level is not significant.
//!
//! Plain quinn uses its own socket and CUBIC. With jumbo frames, the benchmark limits quinn's batch size.
//! Otherwise, the kernel would reject a batch of ten jumbo packets, and the connection would stall. The variant
//! `poseidon` runs on a socket that stamps every received datagram, so it processes telemetry as on a real
//! path. The law's maximum window is one megabyte, about the same as CUBIC's window in this test.

mod sockets;
mod variant;

use core::time::Duration;
use std::process::ExitCode;
use variant::{Kind, Variant};

/// The smallest acceptable goodput, relative to plain quinn.
const GOODPUT: f64 = 0.95;
/// The largest acceptable CPU time per byte, relative to plain quinn.
const CPU: f64 = 1.05;

/// The size of the benchmark.
struct BenchmarkSize {
    runs: usize,
    rounds: usize,
    slice_bytes: usize,
}

const FULL: BenchmarkSize = BenchmarkSize { runs: 5, rounds: 24, slice_bytes: 48 << 20 };
const QUICK: BenchmarkSize = BenchmarkSize { runs: 5, rounds: 6, slice_bytes: 24 << 20 };

/// The wall time and the CPU time of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    elapsed: Duration,
    cpu: Duration,
}

/// The medians of one run, relative to plain quinn.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    goodput: f64,
    cpu: f64,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has_flag = |flag: &str| args.iter().any(|arg| arg == flag);
    let value_of = |flag: &str| args.iter().position(|arg| arg == flag).and_then(|index| args.get(index + 1));
    if let Some(unknown) = args
        .iter()
        .find(|arg| arg.starts_with("--") && !["--quick", "--json", "--mtu"].contains(&arg.as_str()))
    {
        eprintln!("unknown option {unknown}; the options are --quick, --json and --mtu 1452,8900");
        return ExitCode::from(2);
    }
    let size = if has_flag("--quick") { QUICK } else { FULL };
    let mtus = value_of("--mtu").map_or("1452,8900", String::as_str);
    let Ok(mtus) = mtus.split(',').map(str::parse::<u16>).collect::<Result<Vec<_>, _>>() else {
        eprintln!("--mtu: expected packet sizes, such as 1452,8900");
        return ExitCode::from(2);
    };
    let mut goals_met = true;
    for mtu in mtus {
        goals_met &= measure(mtu, &size, has_flag("--json"));
    }
    if goals_met { ExitCode::SUCCESS } else { ExitCode::from(4) }
}

/// Measures all variants with this packet size. Returns whether the goals are met.
fn measure(mtu: u16, size: &BenchmarkSize, json: bool) -> bool {
    let variants = [Kind::Bare, Kind::BareAgain, Kind::Poseidon].map(|kind| Variant::start(kind, mtu));
    // Warm up so that the windows open.
    for variant in &variants {
        variant.run_slice(size.slice_bytes);
    }
    let (mut bare_again, mut poseidon, mut gbps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..size.runs {
        let mut rounds: [Vec<Slice>; 3] = Default::default();
        for round in 0..size.rounds {
            for turn in 0..variants.len() {
                let index = (turn + round) % variants.len();
                rounds[index].push(variants[index].run_slice(size.slice_bytes));
            }
        }
        bare_again.push(ratio(&rounds[0], &rounds[1]));
        poseidon.push(ratio(&rounds[0], &rounds[2]));
        let bits = size.slice_bytes as f64 * 8.0;
        gbps.push(median(rounds[0].iter().map(|slice| bits / slice.elapsed.as_secs_f64() / 1e9)));
    }
    let bare_gbps = median(gbps.iter().copied());
    let state = variants[2].describe_state();
    if json {
        let to_json = |runs: &[Ratio]| {
            let list = |value: fn(&Ratio) -> f64| {
                runs.iter().map(|run| format!("{:.4}", value(run))).collect::<Vec<_>>().join(",")
            };
            format!("{{\"goodput\":[{}],\"cpu\":[{}]}}", list(|run| run.goodput), list(|run| run.cpu))
        };
        println!(
            "{{\"mtu\":{mtu},\"bare_gbps\":{bare_gbps:.3},\"bare_again\":{},\"poseidon\":{}}}",
            to_json(&bare_again),
            to_json(&poseidon)
        );
    } else {
        println!("packets of {mtu} bytes; plain quinn {bare_gbps:.2} Gbps; {state}");
        println!("                 goodput              CPU per byte");
        print_ratios("bare again", &bare_again);
        print_ratios("poseidon", &poseidon);
    }
    let goodput = median(poseidon.iter().map(|run| run.goodput));
    let cpu = median(poseidon.iter().map(|run| run.cpu));
    let goals_met = goodput >= GOODPUT && cpu <= CPU;
    eprintln!(
        "{} bytes: goodput {goodput:.3} (goal {GOODPUT}), CPU per byte {cpu:.3} (goal {CPU}): {}",
        mtu,
        if goals_met { "reached" } else { "not reached" }
    );
    goals_met
}

fn ratio(bare: &[Slice], other: &[Slice]) -> Ratio {
    let pairs = || bare.iter().zip(other);
    Ratio {
        goodput: median(
            pairs().map(|(bare, other)| bare.elapsed.as_secs_f64() / other.elapsed.as_secs_f64()),
        ),
        cpu: median(pairs().map(|(bare, other)| other.cpu.as_secs_f64() / bare.cpu.as_secs_f64())),
    }
}

fn print_ratios(name: &str, runs: &[Ratio]) {
    let summary = |value: fn(&Ratio) -> f64| {
        let values = || runs.iter().map(value);
        let (min, max) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
        format!("{:.3} ({min:.3} to {max:.3})", median(values()))
    };
    println!("  {name:<12} {}   {}", summary(|run| run.goodput), summary(|run| run.cpu));
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
