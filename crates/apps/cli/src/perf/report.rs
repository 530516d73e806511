//! The client's reports, as text and as JSON. JSON field names include the unit.

use core::fmt;
use core::time::Duration;
use poseidon_quic::Poseidon;
use quinn::Connection;
use serde::Serialize;

/// The report on one connection, for an interval or for the whole transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FlowReport {
    /// The number of bytes that the server counted.
    bytes: u64,
    /// The goodput, computed from these bytes and the duration.
    goodput_mbps: f64,
    /// The signal that controls the window at the end of the interval; `none` for quinn's own CUBIC.
    mode: &'static str,
    /// The congestion window.
    window_bytes: u64,
    /// The smoothed round-trip time.
    rtt_us: f64,
    /// The last delay that the law received.
    delay_us: f64,
    /// The number of packets that quinn has declared lost so far.
    lost_packets: u64,
    /// The number of ACK frames so far.
    acks: u64,
    /// The number of ACK frames with telemetry so far.
    acks_with_telemetry: u64,
    /// The number of decisions below quinn's minimum window so far.
    below_floor: u64,
}

impl FlowReport {
    pub(super) fn new(connection: &Connection, bytes: u64, duration: Duration) -> Self {
        let stats = connection.stats();
        let law = Poseidon::metrics_of(connection);
        let acks_with_telemetry = law.as_ref().map_or(0, |flow| flow.acks_with_telemetry);
        Self {
            bytes,
            goodput_mbps: mbps(bytes, duration),
            mode: law.as_ref().map_or("none", |flow| flow.mode.name()),
            window_bytes: stats.path.cwnd,
            rtt_us: stats.path.rtt.as_secs_f64() * 1e6,
            delay_us: law.as_ref().map_or(0.0, |flow| flow.delay.get() as f64 / 1e3),
            lost_packets: stats.path.lost_packets,
            acks: law.as_ref().map_or(0, |flow| flow.acks_without_telemetry + acks_with_telemetry),
            acks_with_telemetry,
            below_floor: law.as_ref().map_or(0, |flow| flow.below_floor),
        }
    }
}

/// The report on an interval. Times are relative to the start of the transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct IntervalReport {
    from_s: f64,
    to_s: f64,
    /// The goodput of all connections.
    goodput_mbps: f64,
    flows: Vec<FlowReport>,
}

impl IntervalReport {
    pub(super) fn new(from: Duration, to: Duration, flows: Vec<FlowReport>) -> Self {
        let goodput_mbps = flows.iter().map(|flow| flow.goodput_mbps).sum();
        Self { from_s: from.as_secs_f64(), to_s: to.as_secs_f64(), goodput_mbps, flows }
    }
}

impl fmt::Display for IntervalReport {
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

/// The report on the whole transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// The congestion control's name.
    law: &'static str,
    /// The duration of the transfer.
    seconds: f64,
    /// The number of bytes that the server counted on all connections.
    pub(super) bytes: u64,
    /// The goodput of all connections.
    goodput_mbps: f64,
    /// Jain's fairness index of the connections.
    jain: f64,
    /// The number of lost packets on all connections.
    lost_packets: u64,
    flows: Vec<FlowReport>,
}

impl Summary {
    pub(super) fn new(law: &'static str, duration: Duration, flows: Vec<FlowReport>) -> Self {
        let bytes = flows.iter().map(|flow| flow.bytes).fold(0, u64::saturating_add);
        Self {
            law,
            seconds: duration.as_secs_f64(),
            bytes,
            goodput_mbps: mbps(bytes, duration),
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

/// Returns Jain's fairness index: 1 if all rates are equal, 1/n if one of n flows has all the bandwidth.
fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn mbps(bytes: u64, duration: Duration) -> f64 {
    if duration.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / duration.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_is_one_for_equal_rates_and_1_over_n_for_a_single_flow() {
        let is_near = |rates: &[f64], expected: f64| (jain(rates.iter().copied()) - expected).abs() < 1e-9;
        assert!(is_near(&[5.0; 8], 1.0) && is_near(&[3.0, 0.0, 0.0, 0.0], 0.25) && is_near(&[], 1.0));
    }
}
