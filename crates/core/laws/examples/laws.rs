//! Lists the laws with their state sizes and required signals, or one law's parameters and presets.
//!
//! `cargo run -p poseidon-laws --example laws` lists all laws. Append `-- NAME` to print one law's parameters.

use poseidon_laws::{AnyParams, LAWS};

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        println!("{:<16} {:>6}  {:<24} source", "law", "bytes", "needs");
        for law in LAWS {
            let needs = AnyParams::for_law(law.name).expect("the law is registered").needs().to_string();
            println!("{:<16} {:>6}  {needs:<24} {}", law.name, law.state_bytes, law.source);
        }
        return;
    };
    let Some(params) = AnyParams::for_law(&name) else {
        let names: Vec<_> = LAWS.iter().map(|law| law.name).collect();
        eprintln!("there is no law {name:?}; the laws are {}", names.join(", "));
        std::process::exit(2);
    };
    params.for_each(&mut |info, value| {
        println!("{:<24} {:<16} {}", info.name.replace('_', "-"), value.to_string(), info.description);
    });
    params.for_each_preset(&mut |preset, description| println!("preset {preset:<17} {description}"));
}
