//! The command `poseidon`.

use std::process::ExitCode;

fn main() -> ExitCode {
    poseidon_cli::run_command()
}
