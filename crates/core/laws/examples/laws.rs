//! Lists every law: bytes per flow, the signals it needs, its parameters with their values and presets.
//!
//! `cargo run -p poseidon-laws --example laws` for all, with a name behind `--` for one law's parameters.

use poseidon_laws::{AnyParams, LAWS};

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        println!("{:<16} {:>6}  {:<24} source", "law", "bytes", "needs");
        for law in LAWS {
            let needs = AnyParams::of(law.name).expect("in the table").needs().to_string();
            println!("{:<16} {:>6}  {needs:<24} {}", law.name, law.state_bytes, law.source);
        }
        return;
    };
    let Some(params) = AnyParams::of(&name) else {
        let names: Vec<_> = LAWS.iter().map(|law| law.name).collect();
        eprintln!("no law is called {name:?}; there are {}", names.join(", "));
        std::process::exit(2);
    };
    params.each(&mut |info, value| {
        println!("{:<24} {:<16} {}", info.name.replace('_', "-"), value.to_string(), info.says);
    });
    params.presets(&mut |preset, says| println!("preset {preset:<17} {says}"));
}
