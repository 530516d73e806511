//! `poseidon switch` and `poseidon rpm`: control the programs at the ports of this machine.

use super::args::{Detach, Direction, OnOff, Rpm, Status, Switch};
use super::{failed, print_json};
use crate::Failure;
use poseidon_linux::codel::Codel;
use poseidon_linux::port::{Device, PortError, StalePin};
use poseidon_linux::{rpm, switch};
use poseidon_types::{BitRate, Nanos};
use serde_json::{Map, Value, json};

pub(super) fn switch(command: &Switch) -> Result<(), Failure> {
    match command {
        Switch::Attach { port, rate, stamps } => {
            let options = switch::Options { rate: *rate, stamps: *stamps == OnOff::On };
            let attach = |()| switch::Switch::attach(&port.device, options).map(drop);
            Device::find(&port.device)
                .and_then(|device| device.check_queue())
                .and_then(attach)
                .map_err(failed)
        }
        Switch::Set { port, rate, stamps } => {
            let port = switch::Switch::open(&port.device).map_err(failed)?;
            rate.map_or(Ok(()), |rate| port.set_rate(rate)).map_err(failed)?;
            stamps.map_or(Ok(()), |stamps| port.set_stamps(stamps == OnOff::On)).map_err(failed)
        }
        Switch::Detach(Detach { device: Some(device), .. }) => {
            switch::Switch::open(device).and_then(switch::Switch::detach).map_err(failed)
        }
        Switch::Detach(_) => print_removed(switch::remove_stale_pins()),
        Switch::Status(args) if args.stale => print_stale(switch::stale_pins(), args.json),
        Switch::Status(args) => {
            let status = |device: &String| switch::Switch::open(device)?.status();
            print_status(
                args,
                switch::attached_devices,
                status,
                switch::open_metrics,
                switch_json,
                print_switch,
            )
        }
    }
}

pub(super) fn rpm(command: &Rpm) -> Result<(), Failure> {
    match command {
        Rpm::Attach { port, rate, direction, target, interval } => {
            let codel = Codel::tofino(*target, *interval);
            let direction = match direction {
                Direction::Forward => rpm::Direction::Forward,
                Direction::PerFlow => rpm::Direction::ReversePerFlow,
                Direction::PerPort => rpm::Direction::ReversePerPort,
            };
            let options = rpm::Options { rate: *rate, codel, direction };
            let attach = |()| rpm::Rpm::attach(&port.device, options).map(drop);
            Device::find(&port.device)
                .and_then(|device| device.check_queue())
                .and_then(attach)
                .map_err(failed)
        }
        Rpm::Detach(Detach { device: Some(device), .. }) => {
            rpm::Rpm::open(device).and_then(rpm::Rpm::detach).map_err(failed)
        }
        Rpm::Detach(_) => print_removed(rpm::remove_stale_pins()),
        Rpm::Status(args) if args.stale => print_stale(rpm::stale_pins(), args.json),
        Rpm::Status(args) => {
            let status = |device: &String| rpm::Rpm::open(device)?.status();
            print_status(args, rpm::attached_devices, status, rpm::open_metrics, rpm_json, print_rpm)
        }
    }
}

/// Prints the removed pins.
fn print_removed(removed: Result<Vec<StalePin>, PortError>) -> Result<(), Failure> {
    removed.map_err(failed)?.iter().for_each(|pin| outln!("removed {}", pin.path.display()));
    Ok(())
}

/// Prints the pins of devices that no longer exist.
fn print_stale(pins: Result<Vec<StalePin>, PortError>, json: bool) -> Result<(), Failure> {
    let pins = pins.map_err(failed)?;
    if json {
        let to_json = |pin: &StalePin| json!({ "netns": pin.netns, "ifindex": pin.index, "path": pin.path });
        return print_json(&pins.iter().map(to_json).collect());
    }
    pins.iter().for_each(|pin| outln!("{pin}"));
    Ok(())
}

/// Prints the status of ports. Reads all ports before printing, so that an error leaves no partial output.
fn print_status<T>(
    args: &Status,
    attached: fn() -> Result<Vec<String>, PortError>,
    status: impl Fn(&String) -> Result<T, PortError>,
    metrics: impl Fn(&[T]) -> String,
    to_json: impl Fn(&T) -> Value,
    print: impl Fn(&T),
) -> Result<(), Failure> {
    let devices = if args.devices.is_empty() { attached().map_err(failed)? } else { args.devices.clone() };
    let ports: Vec<T> = devices.iter().map(status).collect::<Result<_, _>>().map_err(failed)?;
    if args.metrics {
        outln!("{}", metrics(&ports).trim_end());
    } else if args.json {
        print_json(&ports.iter().map(to_json).collect())?;
    } else if ports.is_empty() {
        outln!("no port of this network namespace is attached");
    } else {
        ports.iter().for_each(print);
    }
    Ok(())
}

fn switch_json(port: &switch::Status) -> Value {
    let delay = |time: Option<Nanos>| time.map(Nanos::get);
    json!({
        "device": port.device,
        "rate_bps": port.rate.get(),
        "queue_rate_bps": port.queue_rate.map(BitRate::get),
        "stamps": port.stamps,
        "packets": outcomes_json(&port.counts.by_outcome()),
        "raised": port.counts.raised,
        "delay_mean_ns": delay(port.delays.mean()),
        "delay_p50_ns": delay(port.delays.percentile(50)),
        "delay_p99_ns": delay(port.delays.percentile(99)),
    })
}

fn rpm_json(port: &rpm::Status) -> Value {
    json!({
        "device": port.device,
        "rate_bps": port.rate.get(),
        "queue_rate_bps": port.queue_rate.map(BitRate::get),
        "direction": port.direction.to_string(),
        "codel": port.codel.to_string(),
        "target_ns": port.codel.target().get(),
        "interval_ns": port.codel.interval().get(),
        "packets": outcomes_json(&port.counts.by_outcome()),
        "decisions": port.counts.decisions(),
        "waiting": port.counts.pending(),
        "forgotten": port.counts.expired,
    })
}

fn outcomes_json(outcomes: &[(&str, u64)]) -> Value {
    outcomes
        .iter()
        .map(|(outcome, packets)| ((*outcome).to_owned(), Value::from(*packets)))
        .collect::<Map<_, _>>()
        .into()
}

fn print_switch(port: &switch::Status) {
    let mode = if port.stamps { "stamps" } else { "measures only" };
    outln!("{}: {mode}, {}{}", port.device, port.rate, rate_warning(port.rate, port.queue_rate));
    if let (Some(mean), Some(p50), Some(p99)) =
        (port.delays.mean(), port.delays.percentile(50), port.delays.percentile(99))
    {
        outln!("  delay: mean {mean}, p50 {p50}, p99 {p99}");
    }
    outln!("  packets: {}", list_outcomes(&port.counts.by_outcome()));
    outln!("  {} packets have their largest delay at this port", port.counts.raised);
}

fn print_rpm(port: &rpm::Status) {
    outln!(
        "{}: marks {}, {}, {}{}",
        port.device,
        port.direction,
        port.codel,
        port.rate,
        rate_warning(port.rate, port.queue_rate)
    );
    outln!("  packets: {}", list_outcomes(&port.counts.by_outcome()));
    outln!(
        "  {} decisions, {} marks wait for an ACK, {} marks expired",
        port.counts.decisions(),
        port.counts.pending(),
        port.counts.expired
    );
}

/// Lists the outcomes that occurred.
fn list_outcomes(outcomes: &[(&str, u64)]) -> String {
    let counts: Vec<_> = outcomes
        .iter()
        .filter(|(_, packets)| *packets > 0)
        .map(|(outcome, packets)| format!("{packets} {}", outcome.replace('_', " ")))
        .collect();
    if counts.is_empty() { "none yet".to_owned() } else { counts.join(", ") }
}

fn rate_warning(rate: BitRate, queue: Option<BitRate>) -> String {
    match queue {
        Some(queue) if queue != rate => {
            format!(" (but the queue drains at {queue}, so delays are wrong; detach and attach it)")
        }
        _ => String::new(),
    }
}
