//! `poseidon switch` and `poseidon rpm`: what a port of this machine does with packets.

use super::args::{Direction, OnOff, Rpm, Status, Switch};
use super::{failed, say_json};
use crate::Failure;
use poseidon_linux::codel::Codel;
use poseidon_linux::port::{Device, PortError};
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
        Switch::Detach { port } => {
            switch::Switch::open(&port.device).and_then(switch::Switch::detach).map_err(failed)
        }
        Switch::Status(asked) => {
            let status = |device: &String| switch::Switch::open(device)?.status();
            tell(asked, status, switch::open_metrics, switch_json, say_switch)
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
        Rpm::Detach { port } => rpm::Rpm::open(&port.device).and_then(rpm::Rpm::detach).map_err(failed),
        Rpm::Status(asked) => {
            let status = |device: &String| rpm::Rpm::open(device)?.status();
            tell(asked, status, rpm::open_metrics, rpm_json, say_rpm)
        }
    }
}

/// Asks all ports first, so that what is printed is whole or nothing.
fn tell<T>(
    asked: &Status,
    status: impl Fn(&String) -> Result<T, PortError>,
    metrics: impl Fn(&[T]) -> String,
    to_json: impl Fn(&T) -> Value,
    say: impl Fn(&T),
) -> Result<(), Failure> {
    let ports: Vec<T> = asked.devices.iter().map(status).collect::<Result<_, _>>().map_err(failed)?;
    if asked.metrics {
        say!("{}", metrics(&ports).trim_end());
    } else if asked.json {
        say_json(&ports.iter().map(to_json).collect())?;
    } else {
        ports.iter().for_each(say);
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
        "packets": by_fate(&port.counts.by_fate()),
        "raised": port.counts.raised,
        "delay_mean_ns": delay(port.delays.mean()),
        "delay_p50_ns": delay(port.delays.quantile(50)),
        "delay_p99_ns": delay(port.delays.quantile(99)),
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
        "packets": by_fate(&port.counts.by_fate()),
        "decisions": port.counts.decisions(),
        "waiting": port.counts.waiting(),
        "forgotten": port.counts.forgotten,
    })
}

fn by_fate(fates: &[(&str, u64)]) -> Value {
    fates
        .iter()
        .map(|(fate, packets)| ((*fate).to_owned(), Value::from(*packets)))
        .collect::<Map<_, _>>()
        .into()
}

fn say_switch(port: &switch::Status) {
    let does = if port.stamps { "stamps" } else { "measures only" };
    say!("{}: {does}, {}{}", port.device, port.rate, other_rate(port.rate, port.queue_rate));
    if let (Some(mean), Some(median), Some(most)) =
        (port.delays.mean(), port.delays.quantile(50), port.delays.quantile(99))
    {
        say!("  delay: mean {mean}, half below {median}, all but a hundredth below {most}");
    }
    say!("  packets: {}", listed(&port.counts.by_fate()));
    say!("  {} met their longest delay here", port.counts.raised);
}

fn say_rpm(port: &rpm::Status) {
    say!(
        "{}: marks {}, {}, {}{}",
        port.device,
        port.direction,
        port.codel,
        port.rate,
        other_rate(port.rate, port.queue_rate)
    );
    say!("  packets: {}", listed(&port.counts.by_fate()));
    say!(
        "  {} decisions, {} marks wait for an ACK, {} were forgotten",
        port.counts.decisions(),
        port.counts.waiting(),
        port.counts.forgotten
    );
}

/// Those that there were.
fn listed(fates: &[(&str, u64)]) -> String {
    let there: Vec<_> = fates
        .iter()
        .filter(|(_, packets)| *packets > 0)
        .map(|(fate, packets)| format!("{packets} {}", fate.replace('_', " ")))
        .collect();
    if there.is_empty() { "none yet".to_owned() } else { there.join(", ") }
}

fn other_rate(rate: BitRate, queue: Option<BitRate>) -> String {
    match queue {
        Some(queue) if queue != rate => {
            format!(" (but the queue is sent at {queue}: delays are wrong; detach and attach it)")
        }
        _ => String::new(),
    }
}
