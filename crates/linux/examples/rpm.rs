//! A port that marks ACKs, by hand:
//!
//! ```sh
//! tc qdisc replace dev e0 root tbf rate 100mbit burst 10000 limit 1000000
//! rpm attach e0                          # or: rpm attach e0 forward, rpm attach e0 reverse-per-port
//! rpm status e0                          # OpenMetrics
//! rpm detach e0
//! ```

use poseidon_linux::port::PortError;
use poseidon_linux::rpm::{Direction, Options, Rpm, open_metrics};
use std::process::exit;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("rpm: {error}");
        exit(1);
    }
}

fn run(arguments: &[&str]) -> Result<(), PortError> {
    let attach = |device, direction| Rpm::attach(device, Options { direction, ..Options::default() });
    match *arguments {
        ["attach", device] | ["attach", device, "reverse-per-flow"] => {
            attach(device, Direction::ReversePerFlow).map(|_| ())
        }
        ["attach", device, "reverse-per-port"] => attach(device, Direction::ReversePerPort).map(|_| ()),
        ["attach", device, "forward"] => attach(device, Direction::Forward).map(|_| ()),
        ["detach", device] => Rpm::open(device)?.detach(),
        ["status", device] => {
            print!("{}", open_metrics(&[Rpm::open(device)?.status()?]));
            Ok(())
        }
        _ => {
            eprintln!("write what to do and with which device: rpm attach|status|detach DEVICE [DIRECTION]");
            exit(2)
        }
    }
}
