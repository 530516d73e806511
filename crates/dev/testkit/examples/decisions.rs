//! Prints random operations and the decisions of every law, for tests of bindings in other languages.
//!
//! ```sh
//! cargo run --release -p poseidon-testkit --example decisions -- 1000 | python3 python/tests/equality.py
//! ```
//!
//! The argument is the number of lists of operations per law. The forms of the lines are:
//!
//! ```text
//! law NAME mtu_bytes line_rate_bps base_rtt_ns PARAMETER=VALUE ...
//! ack now_ns rtt_ns ... | window kind pacing congested delay target      an ACK and what the law decides
//! loss now_ns | window kind pacing
//! timeout now_ns lost_bytes | window kind pacing
//! trim now_ns trimmed_bytes in_flight_bytes last_hop rtt_ns | window kind pacing
//! ```
//!
//! A window is in units of 2^-24 packets. Missing values are `-`, and a parameter's spaces are written as `~`.

use poseidon_laws::params::Params;
use poseidon_laws::{Ack, AnyParams, Law, LawDefinition, Pacing, Path};
use poseidon_testkit::operations::{Operation, apply, random_operations, random_params};
use poseidon_testkit::rng::SplitMix64;
use poseidon_types::{BitRate, Bytes, HopPath, Nanos, Signals};
use std::io::{self, BufWriter, Write};

fn main() -> io::Result<()> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut out = BufWriter::new(io::stdout().lock());
    macro_rules! print_laws {
        ($($module:ident :: $law:ident,)*) => {
            $( print_law::<poseidon_laws::laws::$module::$law>(count, &mut out)?; )*
        };
    }
    poseidon_laws::law_list!(print_laws);
    out.flush()
}

fn print_law<L: LawDefinition>(count: u64, out: &mut impl Write) -> io::Result<()> {
    for seed in 0..count {
        let mut rng = SplitMix64::new(seed);
        let params: L::Params = if seed.is_multiple_of(10) {
            L::Params::default()
        } else {
            random_params(|below| rng.index(below))
        };
        let path = Path {
            mtu: Bytes::new(*rng.pick(&[64, 1_448, 4_096, 65_535])),
            line_rate: BitRate::from_bps(*rng.pick(&[1_000_000, 25_000_000_000, 400_000_000_000])),
            base_rtt: Nanos::new(*rng.pick(&[1, 9_900, 100_000, u64::from(u32::MAX)])),
        };
        write!(out, "law {} {} {} {}", L::NAME, path.mtu.get(), path.line_rate.get(), path.base_rtt.get())?;
        // The parameters as a user writes them. What the text cannot hold is the same on both sides.
        let mut parsed = AnyParams::for_law(L::NAME).expect("the law is registered");
        let mut result = Ok(());
        params.for_each(&mut |info, value| {
            let text = value.to_string();
            parsed.set(info.name, &text).expect("a law reads its own parameters");
            if result.is_ok() {
                result = write!(out, " {}={}", info.name, text.replace(' ', "~"));
            }
        });
        result?;
        writeln!(out)?;
        let Ok(mut law) = parsed.build(&path, Signals::ALL) else { continue };
        for operation in random_operations(&mut rng, 40) {
            apply(&mut law, &operation);
            print_operation(&operation, &law, out)?;
        }
    }
    Ok(())
}

fn print_operation(operation: &Operation, law: &impl Law, out: &mut impl Write) -> io::Result<()> {
    match operation {
        Operation::Ack(event) => {
            let (ack, stack, wrap) = &**event;
            let ack = Ack { hops: HopPath { records: stack.as_slice(), wrap: *wrap }, ..*ack };
            print_ack(&ack, out)?;
            print_decision(law, out)?;
            let delay = law.delay_signal(&ack).map(|signal| signal.delay);
            write!(out, " {}", u8::from(law.is_congested(&ack)))?;
            for value in [delay, law.target(ack.hop_count)] {
                print_optional(value, out)?;
            }
        }
        Operation::Loss(loss) => {
            write!(out, "loss {} |", loss.now.get())?;
            print_decision(law, out)?;
        }
        Operation::Timeout(timeout) => {
            write!(out, "timeout {} {} |", timeout.now.get(), timeout.bytes.get())?;
            print_decision(law, out)?;
        }
        Operation::Trim(trim) => {
            let [now, bytes, in_flight] = [trim.now.get(), trim.bytes.get(), trim.in_flight.get()];
            write!(out, "trim {now} {bytes} {in_flight} {}", u8::from(trim.last_hop))?;
            print_optional(trim.rtt, out)?;
            write!(out, " |")?;
            print_decision(law, out)?;
        }
    }
    writeln!(out)
}

fn print_ack(ack: &Ack<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "ack {} {} {} {}", ack.now.get(), ack.rtt.get(), ack.packets, ack.bytes.get())?;
    write!(out, " {} {} {}", ack.marked.get(), ack.acked_seq, ack.next_seq)?;
    write!(out, " {} {}", ack.in_flight.get(), u8::from(ack.rtt_ambiguous))?;
    print_optional(ack.max_hop_delay, out)?;
    print_optional(ack.reverse_max_hop_delay, out)?;
    write!(
        out,
        " {} {} {}",
        ack.hops.wrap.timestamp.get(),
        ack.hops.wrap.sent.get(),
        ack.endpoint_delay.get()
    )?;
    let [circuit_up, app_limited] = [ack.circuit_up, ack.app_limited].map(u8::from);
    write!(out, " {} {circuit_up} {app_limited} {}", ack.hop_count, ack.random)?;
    for hop in ack.hops.records {
        write!(out, " {} {} {} {}", hop.timestamp.get(), hop.sent.get(), hop.queue.get(), hop.rate.get())?;
    }
    write!(out, " |")
}

fn print_optional(value: Option<Nanos>, out: &mut impl Write) -> io::Result<()> {
    match value {
        Some(value) => write!(out, " {}", value.get()),
        None => write!(out, " -"),
    }
}

fn print_decision(law: &impl Law, out: &mut impl Write) -> io::Result<()> {
    let decision = law.decision();
    let (kind, pacing) = match decision.pacing {
        Pacing::Off => ("off", 0),
        Pacing::Gap(gap) => ("gap", gap.get()),
        Pacing::Rate(rate) => ("rate", rate.get()),
    };
    write!(out, " {} {kind} {pacing}", decision.window.q24())
}
