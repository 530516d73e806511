//! A port that stamps, by hand:
//!
//! ```sh
//! tc qdisc replace dev e0 root tbf rate 100mbit burst 10000 limit 1000000
//! switch attach e0                 # or: switch attach e0 "100 Mbps"
//! switch status e0                 # OpenMetrics
//! switch off e0; switch on e0      # measures, but writes nothing; writes again
//! switch detach e0
//! ```

use poseidon_linux::port::PortError;
use poseidon_linux::switch::{Options, Switch, open_metrics};
use std::process::exit;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("switch: {error}");
        exit(1);
    }
}

fn run(arguments: &[&str]) -> Result<(), PortError> {
    match *arguments {
        ["attach", device] => Switch::attach(device, Options::default()).map(|_| ()),
        ["attach", device, rate] => {
            let rate = Some(rate.parse().unwrap_or_else(|error| {
                eprintln!("switch: {error}");
                exit(2)
            }));
            Switch::attach(device, Options { rate, ..Options::default() }).map(|_| ())
        }
        ["detach", device] => Switch::open(device)?.detach(),
        ["on", device] => Switch::open(device)?.set_stamps(true),
        ["off", device] => Switch::open(device)?.set_stamps(false),
        ["status", device] => {
            print!("{}", open_metrics(&[Switch::open(device)?.status()?]));
            Ok(())
        }
        _ => {
            eprintln!(
                "write what to do and with which device: switch attach|status|on|off|detach DEVICE [RATE]"
            );
            exit(2)
        }
    }
}
