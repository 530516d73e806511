//! Measures the cost of Poseidon in Linux, as ratios within one run. Runs with and without Poseidon alternate, so other
//! work on the machine affects both equally. Needs root, and the tools that `poseidon doctor` lists for the testbed.
//!
//! ```sh
//! cargo build --release -p poseidon-linux --example cost
//! sudo target/release/examples/cost                 # everything: two minutes
//! sudo target/release/examples/cost router          # or: transfer, calls
//! sudo target/release/examples/cost --json          # one object per row
//! ```
//!
//! | part | comparison |
//! |---|---|
//! | `router` | packets per second of CPU time in a router, with and without the switch program |
//! | `transfer` | CPU time per byte of a TCP transfer, with Poseidon and with plain CUBIC |
//! | `calls` | time per call of each program, under traffic and in a loop |
//!
//! The program restarts itself in private namespaces, which the kernel removes when the program exits.

mod calls;
mod router;
mod testnet;
mod transfer;

use core::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    if !testnet::run_inside()? {
        return Ok(());
    }
    let (options, parts): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if let Some(unknown) = options.iter().find(|option| *option != "--json") {
        return Err(format!("unknown option {unknown}; the only option is --json").into());
    }
    let json = !options.is_empty();
    let is_selected = |part: &str| parts.is_empty() || parts.iter().any(|word| word == part);
    if is_selected("router") {
        router::measure(json)?;
    }
    if is_selected("transfer") {
        transfer::measure(json)?;
    }
    if is_selected("calls") {
        calls::measure(json)?;
    }
    Ok(())
}

/// Returns the median of `values`.
fn median(values: Vec<f64>) -> f64 {
    quantile(&values, 0.5)
}

/// Returns the value below which `fraction` of `values` lie.
fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the index is below a few hundred"
    )]
    let index = (sorted.len() as f64 * fraction) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
