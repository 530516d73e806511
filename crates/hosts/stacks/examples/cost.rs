//! Measures the time per datagram of each stack: 100 connections of 1 MB each over 100 Mbit/s and 10 ms.
//!
//! `cargo run --release -p poseidon-stacks --all-features --example cost`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Network, Path, ms};
use poseidon_laws::AnyParams;
use poseidon_plan::stack::{Controller, StackKind};
use poseidon_types::Picos;
use std::time::Instant;

const CONNECTIONS: u32 = 100;
const MESSAGE_BYTES: u64 = 1_000_000;

fn main() {
    let law = AnyParams::for_law("poseidon").expect("the law exists");
    let cases = [
        ("quinn, newreno", StackKind::Quinn, Some(Controller::NewReno)),
        ("quinn, cubic", StackKind::Quinn, Some(Controller::Cubic)),
        ("quinn, poseidon", StackKind::Quinn, None),
        ("smoltcp, reno", StackKind::Smoltcp, Some(Controller::Reno)),
        ("smoltcp, cubic", StackKind::Smoltcp, Some(Controller::Cubic)),
    ];
    println!(
        "{:<16} {:>12} {:>12} {:>12} {:>16}",
        "stack", "datagrams", "total", "per datagram", "per short connection"
    );
    for (name, stack, controller) in cases {
        let run = |bytes: u64| {
            let path = Path { queue: 5_000_000, ..Path::WAN };
            let (mut datagrams, start) = (0, now());
            for seed in 0..u64::from(CONNECTIONS) {
                let mut plan = path.plan(stack, controller, &law);
                plan.seed = seed;
                let network = Network::with_messages(plan, path, &[bytes], Picos::ZERO).run(ms(60_000));
                assert_eq!(network.received_bytes(), bytes);
                datagrams += u32::try_from(network.log.len()).expect("the log is short");
            }
            (datagrams, start.elapsed())
        };
        let (_, short) = run(1);
        let (datagrams, time) = run(MESSAGE_BYTES);
        println!(
            "{name:<16} {datagrams:>12} {:>12.1?} {:>12.2?} {:>16.1?}",
            time,
            time.saturating_sub(short) / datagrams,
            short / CONNECTIONS,
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "the example measures time")]
fn now() -> Instant {
    Instant::now()
}
