//! Runs a command on one of two hosts that are connected by links with delays.
//!
//! `two_hosts DELAY,DELAY,... COMMAND...` (delays in us, such as `0,10,100`; needs root)
//!
//! The hosts are the network namespaces `h0` and `h1`. Each delay has its own link, so a program chooses a delay by
//! choosing a device:
//!
//! | device | addresses | link |
//! |---|---|---|
//! | `ctl` | 10.99.255.1, 10.99.255.2 | a veth pair, without the delay line |
//! | `d0` | 10.99.0.1, 10.99.0.2 | the first delay |
//! | `d1` | 10.99.1.1, 10.99.1.2 | the second delay |
//!
//! The command runs on `h0`. It reaches `h1` with `nsenter --net=/run/netns/h1`. `tools/scale/check.py` uses this
//! example to run MPI ranks on two hosts. The kernel removes the hosts when this process exits.

use core::error::Error;
use core::time::Duration;
use poseidon_netns::{Interface, PrivateNetns};
use poseidon_testbed::delay_line::{DelayLine, DelayedLink};
use std::process::{Command, ExitCode};

const HOSTS: [&str; 2] = ["h0", "h1"];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [delays, command @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let delays: Vec<u64> = delays.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| USAGE)?;
    if command.is_empty() || delays.len() > MAX_LINKS {
        return Err(USAGE.into());
    }
    let netns = PrivateNetns::new("POSEIDON_TWO_HOSTS_INSIDE");
    if !netns.is_inside() {
        return Err(netns.exec().into());
    }
    poseidon_netns::create(&HOSTS)?;
    poseidon_netns::link((Some(HOSTS[0]), "ctl"), (Some(HOSTS[1]), "ctl"))?;
    let devices: Vec<String> = (0..delays.len()).map(|number| format!("d{number}")).collect();
    let link = |(device, delay): (&String, &u64)| {
        DelayedLink::create((HOSTS[0], device), (HOSTS[1], device), Duration::from_micros(*delay))
    };
    let links = devices.iter().zip(&delays).map(link).collect::<Result<_, _>>()?;
    let _delay_line = DelayLine::start(links)?;
    for (number, host) in (1..).zip(HOSTS) {
        let control = [format!("10.99.255.{number}/24")];
        configure(host, "ctl", &control[0])?;
        for (network, device) in devices.iter().enumerate() {
            configure(host, device, &format!("10.99.{network}.{number}/24"))?;
            // A message of several megabytes must fit in the device's queue.
            poseidon_netns::sh_in(host, &format!("ip link set {device} txqueuelen 20000"))?;
        }
    }
    let status = Command::new("nsenter").arg("--net=/run/netns/h0").args(command).status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

const USAGE: &str = "usage: two_hosts DELAY_US,DELAY_US,... COMMAND... (at most 250 delays)";
const MAX_LINKS: usize = 250;

fn configure(host: &str, device: &str, address: &str) -> Result<(), poseidon_netns::NetnsError> {
    poseidon_netns::configure(Some(host), &[Interface { device, addresses: &[address] }], &[])
}
