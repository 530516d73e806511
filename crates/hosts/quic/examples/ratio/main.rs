//! What the shim and the law cost: goodput and CPU per byte beside bare quinn.
//!
//! `cargo run --release -p poseidon-quic --example ratio -- [--quick] [--json] [--mtu 1452,8900]`
//!
//! One process, one connection per variant, the client's thread on one core and the server's on another. Slices of each variant follow each
//! other in turn, in another order each round, so that whatever else the machine does meets all of them. A run's ratio is the
//! median of its rounds; the result is the median of the runs. `bare again` is a second bare quinn: what it differs from one is the noise,
//! and a result within it says nothing.
//!
//! Bare quinn has its own socket and CUBIC. With jumbo frames it is handed out fewer packets at a time: ten of them do not fit
//! into a datagram, the kernel refuses, and its connection starves. `poseidon` has a switch below it that stamps every datagram, so that reflections are
//! taken as on a path that measures, and the law at its largest window, a megabyte, as deep as CUBIC's is here.

mod sockets;
mod variant;

use core::time::Duration;
use std::process::ExitCode;
use variant::{Variant, Work};

/// The least that counts as reached, of a median of runs.
const GOODPUT: f64 = 0.95;
const CPU: f64 = 1.05;

struct Effort {
    runs: usize,
    rounds: usize,
    slice: usize,
}

const FULL: Effort = Effort { runs: 5, rounds: 24, slice: 48 << 20 };
const QUICK: Effort = Effort { runs: 5, rounds: 6, slice: 24 << 20 };

/// One variant's slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    took: Duration,
    cpu: Duration,
}

/// The medians of one run, as ratios to bare quinn.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    goodput: f64,
    cpu: f64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let after = |word: &str| words.iter().position(|given| given == word).and_then(|at| words.get(at + 1));
    if let Some(unknown) = words
        .iter()
        .find(|word| word.starts_with("--") && !["--quick", "--json", "--mtu"].contains(&word.as_str()))
    {
        eprintln!("no option {unknown}; there are --quick, --json and --mtu 1452,8900");
        return ExitCode::from(2);
    }
    let effort = if has("--quick") { QUICK } else { FULL };
    let mtus = after("--mtu").map_or("1452,8900", String::as_str);
    let Ok(mtus) = mtus.split(',').map(str::parse::<u16>).collect::<Result<Vec<_>, _>>() else {
        eprintln!("--mtu: write packet sizes, such as 1452,8900");
        return ExitCode::from(2);
    };
    let mut reached = true;
    for mtu in mtus {
        reached &= measure(mtu, &effort, has("--json"));
    }
    if reached { ExitCode::SUCCESS } else { ExitCode::from(4) }
}

/// Whether the goals are reached at this packet size.
fn measure(mtu: u16, effort: &Effort, json: bool) -> bool {
    let variants = [Work::Bare, Work::BareAgain, Work::Poseidon].map(|work| Variant::start(work, mtu));
    // Windows open, MTUs settle.
    for variant in &variants {
        variant.slice(effort.slice);
    }
    let (mut again, mut poseidon, mut gbps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        let mut rounds: [Vec<Slice>; 3] = Default::default();
        for round in 0..effort.rounds {
            for at in 0..variants.len() {
                let which = (at + round) % variants.len();
                rounds[which].push(variants[which].slice(effort.slice));
            }
        }
        again.push(ratio(&rounds[0], &rounds[1]));
        poseidon.push(ratio(&rounds[0], &rounds[2]));
        let bits = effort.slice as f64 * 8.0;
        gbps.push(median(rounds[0].iter().map(|slice| bits / slice.took.as_secs_f64() / 1e9)));
    }
    let bare = median(gbps.iter().copied());
    let state = variants[2].state();
    if json {
        let all = |runs: &[Ratio]| {
            let list = |pick: fn(&Ratio) -> f64| {
                runs.iter().map(|run| format!("{:.4}", pick(run))).collect::<Vec<_>>().join(",")
            };
            format!("{{\"goodput\":[{}],\"cpu\":[{}]}}", list(|run| run.goodput), list(|run| run.cpu))
        };
        println!(
            "{{\"mtu\":{mtu},\"bare_gbps\":{bare:.3},\"bare_again\":{},\"poseidon\":{}}}",
            all(&again),
            all(&poseidon)
        );
    } else {
        println!("packets of {mtu} bytes; bare quinn {bare:.2} Gbps; {state}");
        println!("                 goodput              CPU per byte");
        show("bare again", &again);
        show("poseidon", &poseidon);
    }
    let goodput = median(poseidon.iter().map(|run| run.goodput));
    let cpu = median(poseidon.iter().map(|run| run.cpu));
    let reached = goodput >= GOODPUT && cpu <= CPU;
    eprintln!(
        "{} bytes: goodput {goodput:.3} (goal {GOODPUT}), CPU per byte {cpu:.3} (goal {CPU}): {}",
        mtu,
        if reached { "reached" } else { "not reached" }
    );
    reached
}

fn ratio(bare: &[Slice], other: &[Slice]) -> Ratio {
    let pairs = || bare.iter().zip(other);
    Ratio {
        goodput: median(pairs().map(|(bare, other)| bare.took.as_secs_f64() / other.took.as_secs_f64())),
        cpu: median(pairs().map(|(bare, other)| other.cpu.as_secs_f64() / bare.cpu.as_secs_f64())),
    }
}

fn show(name: &str, runs: &[Ratio]) {
    let line = |pick: fn(&Ratio) -> f64| {
        let all = || runs.iter().map(pick);
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        format!("{:.3} ({least:.3} to {most:.3})", median(all()))
    };
    println!("  {name:<12} {}   {}", line(|run| run.goodput), line(|run| run.cpu));
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_unstable_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { (all[middle - 1] + all[middle]) / 2.0 }
}
