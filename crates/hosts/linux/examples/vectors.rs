//! Writes golden vectors for other ports of the law: random flow traces, and the Rust law's outcome after each step.
//! `bpf/replay.h` describes the format, and `bpf/replay.c` reads it.
//!
//! ```sh
//! cargo run -p poseidon-linux --example vectors -- 100000 target/vectors    # number of steps, folder
//! cc -O2 -o target/replay crates/hosts/linux/bpf/replay.c
//! target/replay <target/vectors/traces | cmp - target/vectors/outcomes
//! ```

#[path = "../tests/traces/mod.rs"]
mod traces;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::exit;
use zerocopy::IntoBytes as _;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let steps = arguments.next().and_then(|text| text.parse().ok());
    let (Some(steps), Some(folder), None) = (steps, arguments.next(), arguments.next()) else {
        eprintln!("usage: vectors STEPS FOLDER, for example: vectors 100000 target/vectors");
        exit(2);
    };
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let mut inputs = BufWriter::new(File::create(folder.join("traces"))?);
    let mut outcomes = BufWriter::new(File::create(folder.join("outcomes"))?);
    let mut last_seed = 0;
    for trace in traces::traces(steps) {
        inputs.write_all(trace.start.as_bytes())?;
        inputs.write_all(trace.steps.as_bytes())?;
        outcomes.write_all(trace.outcomes.as_bytes())?;
        last_seed = trace.seed;
    }
    inputs.flush()?;
    outcomes.flush()?;
    println!("{} traces in {}", last_seed + 1, folder.display());
    Ok(())
}
