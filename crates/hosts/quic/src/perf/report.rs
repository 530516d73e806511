//! What is reported, for people and as JSON. Every number carries its unit in its name.

use crate::poseidon::Poseidon;
use core::fmt;
use core::time::Duration;
use quinn::Connection;
use serde::Serialize;

/// One connection in an interval, or over all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Flow {
    /// That the server counted.
    pub bytes: u64,
    /// Those, by the time.
    pub goodput_mbps: f64,
    /// What it steers by at the end of the interval; `none` with quinn's own CUBIC.
    pub mode: &'static str,
    /// What quinn may have in flight.
    pub window_bytes: u64,
    /// As quinn smooths it.
    pub rtt_us: f64,
    /// What the law was told last.
    pub delay_us: f64,
    /// So far.
    pub lost_packets: u64,
    /// ACK frames so far, and those with telemetry.
    pub acks: u64,
    /// See `acks`.
    pub acks_with_telemetry: u64,
    /// Decisions below what quinn can carry, so far.
    pub below_floor: u64,
}

impl Flow {
    pub(super) fn new(connection: &Connection, bytes: u64, time: Duration) -> Self {
        let stats = connection.stats();
        let ours = Poseidon::metrics_of(connection);
        let with = ours.as_ref().map_or(0, |flow| flow.acks_with_telemetry);
        Self {
            bytes,
            goodput_mbps: mbps(bytes, time),
            mode: ours.as_ref().map_or("none", |flow| flow.mode.name()),
            window_bytes: stats.path.cwnd,
            rtt_us: stats.path.rtt.as_secs_f64() * 1e6,
            delay_us: ours.as_ref().map_or(0.0, |flow| flow.delay.get() as f64 / 1e3),
            lost_packets: stats.path.lost_packets,
            acks: ours.as_ref().map_or(0, |flow| flow.acks_without_telemetry + with),
            acks_with_telemetry: with,
            below_floor: ours.as_ref().map_or(0, |flow| flow.below_floor),
        }
    }
}

/// Between two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Interval {
    /// Since the start.
    pub from_s: f64,
    /// Since the start.
    pub to_s: f64,
    /// Of all connections.
    pub goodput_mbps: f64,
    /// One by one.
    pub flows: Vec<Flow>,
}

impl Interval {
    pub(super) fn new(from: Duration, to: Duration, flows: Vec<Flow>) -> Self {
        let goodput_mbps = flows.iter().map(|flow| flow.goodput_mbps).sum();
        Self { from_s: from.as_secs_f64(), to_s: to.as_secs_f64(), goodput_mbps, flows }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.2} to {:6.2} s {:10.2} Mbit/s", self.from_s, self.to_s, self.goodput_mbps)?;
        for flow in &self.flows {
            write!(
                f,
                "  [{:.2} Mbit/s, {}, window {} B, rtt {:.0} us, delay {:.0} us]",
                flow.goodput_mbps, flow.mode, flow.window_bytes, flow.rtt_us, flow.delay_us
            )?;
        }
        Ok(())
    }
}

/// Over all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Who steered.
    pub law: &'static str,
    /// How long.
    pub seconds: f64,
    /// Of all connections.
    pub bytes: u64,
    /// Of all connections.
    pub goodput_mbps: f64,
    /// How equal they were: 1 is equal.
    pub jain: f64,
    /// Of all connections.
    pub lost_packets: u64,
    /// One by one.
    pub flows: Vec<Flow>,
}

impl Summary {
    pub(super) fn new(law: &'static str, took: Duration, flows: Vec<Flow>) -> Self {
        let bytes = flows.iter().map(|flow| flow.bytes).fold(0, u64::saturating_add);
        Self {
            law,
            seconds: took.as_secs_f64(),
            bytes,
            goodput_mbps: mbps(bytes, took),
            jain: jain(flows.iter().map(|flow| flow.goodput_mbps)),
            lost_packets: flows.iter().map(|flow| flow.lost_packets).sum(),
            flows,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} B in {:.2} s, {:.2} Mbit/s over {} connections, Jain {:.3}, {} packets lost",
            self.law,
            self.bytes,
            self.seconds,
            self.goodput_mbps,
            self.flows.len(),
            self.jain,
            self.lost_packets
        )
    }
}

/// Jain's index of fairness: 1 where all are equal, 1/n where one has all.
pub fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_where_all_are_equal_and_one_of_n_where_one_has_all() {
        let near = |rates: &[f64], expected: f64| (jain(rates.iter().copied()) - expected).abs() < 1e-9;
        assert!(near(&[5.0; 8], 1.0) && near(&[3.0, 0.0, 0.0, 0.0], 0.25) && near(&[], 1.0));
    }
}
