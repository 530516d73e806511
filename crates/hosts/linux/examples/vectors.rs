//! Golden vectors, for whoever writes the law once more, in a NIC or in another language: random lives of flows and what the law in
//! Rust makes of each step. The bytes are described in `bpf/replay.h`; `bpf/replay.c` is a program that reads them.
//!
//! ```sh
//! cargo run -p poseidon-linux --example vectors -- 100000 target/vectors    # so many steps, into that folder
//! cc -O2 -o target/replay crates/hosts/linux/bpf/replay.c
//! target/replay <target/vectors/lives | cmp - target/vectors/outcomes
//! ```

#[path = "../tests/lives/mod.rs"]
mod lives;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::exit;
use zerocopy::IntoBytes as _;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let steps = arguments.next().and_then(|text| text.parse().ok());
    let (Some(steps), Some(folder), None) = (steps, arguments.next(), arguments.next()) else {
        eprintln!("write how many steps and into which folder: vectors 100000 target/vectors");
        exit(2);
    };
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let mut lives = BufWriter::new(File::create(folder.join("lives"))?);
    let mut outcomes = BufWriter::new(File::create(folder.join("outcomes"))?);
    let mut last = 0;
    for life in lives::lives(steps) {
        lives.write_all(life.start.as_bytes())?;
        lives.write_all(life.steps.as_bytes())?;
        outcomes.write_all(life.outcomes.as_bytes())?;
        last = life.seed;
    }
    lives.flush()?;
    outcomes.flush()?;
    println!("{} lives in {}", last + 1, folder.display());
    Ok(())
}
