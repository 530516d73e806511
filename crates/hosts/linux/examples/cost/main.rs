//! What Poseidon in Linux costs, as ratios within one run: with it and without it by turns, so that what else the machine does meets
//! both alike. Needs root, and what `poseidon doctor` says of the testbed.
//!
//! ```sh
//! cargo build --release -p poseidon-linux --example cost
//! sudo target/release/examples/cost                 # everything: two minutes
//! sudo target/release/examples/cost router          # or: transfer, calls
//! sudo target/release/examples/cost --json          # one object per row
//! ```
//!
//! | part | what is compared |
//! |---|---|
//! | `router` | packets per second of CPU that a router forwards, with the switch program against without |
//! | `transfer` | CPU per byte of a TCP transfer, with option and law against plain cubic |
//! | `calls` | ns per call of each program, as the kernel counts them under traffic and as it repeats them |
//!
//! It starts itself anew in namespaces of its own, which end with it.

mod calls;
mod place;
mod router;
mod transfer;

use core::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    if !place::enter()? {
        return Ok(());
    }
    let (options, asked): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if let Some(unknown) = options.iter().find(|option| *option != "--json") {
        return Err(format!("there is no option {unknown}; there is --json").into());
    }
    let json = !options.is_empty();
    let is_asked = |part: &str| asked.is_empty() || asked.iter().any(|word| word == part);
    if is_asked("router") {
        router::measure(json)?;
    }
    if is_asked("transfer") {
        transfer::measure(json)?;
    }
    if is_asked("calls") {
        calls::measure(json)?;
    }
    Ok(())
}

/// The middle of values.
fn median(values: Vec<f64>) -> f64 {
    quantile(&values, 0.5)
}

/// The value that such a share of them does not exceed.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among some hundred")]
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
