//! Poseidon's simulator beside ns-3.37 on the same scenarios. `docs/peers.md` says what was found.
//!
//! `cargo run --release -p poseidon-peers -- dumbbell` compares shares and queues, `-- causes` changes one feature at a time,
//! `-- star` compares speed; a law's name for its rows only, `--quick` for shorter runs, `--json` for programs. ns-3 is needed: `bench/peers/install`, then
//! `bench/peers/build`.

mod dumbbell;
mod ns3;
mod ours;
mod outcome;
mod scenario;
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
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    let table: fn(bool, bool) -> _ = if has("dumbbell") {
        dumbbell::compare
    } else if has("causes") {
        dumbbell::causes
    } else if has("star") {
        star::compare
    } else {
        return Err("say dumbbell, causes or star; add --quick for shorter runs, --json for programs".into());
    };
    ns3::check()?;
    table(has("--quick"), has("--json"))
}
