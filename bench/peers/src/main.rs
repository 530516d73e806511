//! Compares Poseidon's simulator with ns-3.37 on the same scenarios. See `docs/peers.md` for the results.
//!
//! | command | purpose |
//! |---|---|
//! | `cargo run --release -p poseidon-peers -- dumbbell` | compares bandwidth shares and queue lengths |
//! | `cargo run --release -p poseidon-peers -- causes` | changes one feature at a time to explain differences |
//! | `cargo run --release -p poseidon-peers -- star` | compares simulation speed |
//! | `cargo run --release -p poseidon-peers -- laws` | runs Poseidon's laws in both simulators (`docs/howto/ns3.md`) |
//! | `cargo run --release -p poseidon-peers -- victims` | repeats figures 12, 13 and 14 of the Poseidon paper in both |
//!
//! To run only the rows for one law, pass the law's name. `--quick` shortens the runs, and `--json` prints JSON. The
//! comparison requires ns-3: run `bench/peers/install`, then `bench/peers/build`, and for `laws` and `victims` `ns3/build`.

mod chain;
mod dumbbell;
mod ns3;
mod results;
mod scenario;
mod simulator;
mod star;

use core::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let has_argument = |word: &str| std::env::args().any(|argument| argument == word);
    let options = (has_argument("--quick"), has_argument("--json"));
    if has_argument("laws") {
        return chain::compare_laws(options.0, options.1);
    } else if has_argument("victims") {
        return chain::compare_victims(options.0, options.1);
    }
    let compare: fn(bool, bool) -> _ = if has_argument("dumbbell") {
        dumbbell::compare
    } else if has_argument("causes") {
        dumbbell::compare_causes
    } else if has_argument("star") {
        star::compare
    } else {
        return Err(
            "specify dumbbell, causes, star, laws or victims; add --quick for shorter runs, --json for JSON"
                .into(),
        );
    };
    ns3::check_programs()?;
    compare(options.0, options.1)
}
