//! Connection metrics, as values and as OpenMetrics text.

use super::mode::Mode;
use super::prefix::Tag;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_metrics::{FlowCounters, Format, Kind, MetricsText, seconds};
use poseidon_types::{Bytes, Nanos, Packets};

/// The current metrics of one path of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowMetrics {
    /// The flow's serial number within its [`crate::Poseidon`].
    pub number: u64,
    /// The tag that the flow's datagrams carry, or zero if the flow has none.
    pub tag: Tag,
    /// The remote address, or `None` before the first datagram and if the endpoint does not use the prefix.
    pub remote: Option<SocketAddr>,
    /// Whether the peer uses the prefix as well.
    pub shim_negotiated: bool,
    /// The signal that controls the window.
    pub mode: Mode,
    /// The last window that the law chose.
    pub law_window: Packets,
    /// The window passed to the stack, which is at least two packets.
    pub window: Bytes,
    /// The last worst-hop delay that the law received.
    pub delay: Nanos,
    /// The last round-trip time that the law received.
    pub rtt: Nanos,
    /// The number of ACK frames with telemetry.
    pub acks_with_telemetry: u64,
    /// The number of ACK frames without telemetry.
    pub acks_without_telemetry: u64,
    /// The smallest and the largest delay that the peer has echoed, or `None` before the first echo.
    pub echoed_range: Option<(Nanos, Nanos)>,
    /// The number of ACK frames whose delay was raised because the round-trip time proves a longer queue.
    pub guarded: u64,
    /// The number of ACK frames whose delay was lowered because it exceeded the round-trip time.
    pub implausible: u64,
    /// The number of decisions below two packets, which this host raises to two packets.
    pub below_floor: u64,
    /// The number of decisions with a pacing rate, which this host converts into a window.
    pub unpaced: u64,
    /// The number of mode changes.
    pub mode_changes: u64,
    /// The number of recovery periods after losses.
    pub losses: u64,
    /// The number of persistent congestion events.
    pub timeouts: u64,
}

/// The metrics of all connections.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// The metrics of each path in use.
    pub flows: Vec<FlowMetrics>,
    /// The number of handshakes that peers have not answered.
    pub handshakes: usize,
    /// The number of received datagrams with a prefix.
    pub with_prefix: u64,
    /// The number of received datagrams without a prefix: plain QUIC or noise.
    pub plain: u64,
    /// The number of plain datagrams that were dropped because plain peers are refused.
    pub refused: u64,
    /// The number of datagrams that are too short for a prefix, or that lack a prefix in a batch with prefixes.
    pub malformed: u64,
    /// The number of datagrams whose shim was overwritten. Their QUIC packets are still delivered.
    pub corrupted: u64,
    /// The number of datagrams with an unknown tag, or with a known tag from an unexpected address.
    pub unknown_tag: u64,
}

/// The signals and decisions that this host does not support. The metrics list them for dashboards.
pub const UNSUPPORTED: [&str; 3] = ["window-below-two-packets", "pacing", "nic-timestamps"];

impl Metrics {
    /// Formats the metrics as `OpenMetrics` text, for example for Prometheus. The counters are those of the flows in
    /// use; [`Exporter`] also counts flows that have ended.
    pub fn open_metrics(&self) -> String {
        let mut text = MetricsText::new(Format::OpenMetrics);
        Exporter::default().write(self, &mut text);
        text.finish()
    }
}

/// Formats metrics repeatedly, for a monitoring system. The counters only grow, also when flows end.
#[derive(Clone, Debug, Default)]
pub struct Exporter {
    counters: FlowCounters<u64, COUNTERS>,
}

/// The number of counters per flow.
const COUNTERS: usize = 9;

impl Exporter {
    /// Adds all metric families to a text.
    pub fn write(&mut self, metrics: &Metrics, text: &mut MetricsText) {
        let flows = &metrics.flows;
        text.family("poseidon_quic_flows", Kind::Gauge, "Paths in use, by the signal that controls them.");
        for mode in Mode::ALL {
            let count = flows.iter().filter(|flow| flow.mode == mode).count();
            text.sample(&[("mode", mode.name())], count);
        }
        let counters = self.counters.update(flows.iter().map(|flow| (flow.number, counters_of(flow))));
        let [with, without, guarded, implausible, below, unpaced, modes, losses, timeouts] = counters;
        let help = "ACK frames, by whether they carry telemetry.";
        write_counters(text, "poseidon_quic_acks", help, "telemetry", &[("yes", with), ("no", without)]);
        let help = "ACK frames whose delay was corrected, because the round-trip time contradicts it.";
        let reasons = [("guarded", guarded), ("implausible", implausible)];
        write_counters(text, "poseidon_quic_corrected_acks", help, "reason", &reasons);
        let kinds = [("recovery", losses), ("timeout", timeouts)];
        write_counters(text, "poseidon_quic_losses", "Reactions to losses.", "kind", &kinds);
        let help = "Changes of the signal that controls a flow.";
        text.family("poseidon_quic_mode_changes", Kind::Counter, help);
        text.sample(&[], modes);
        let help = "Decisions that this host cannot carry out.";
        let kinds = [("below_two_packets", below), ("pacing", unpaced)];
        write_counters(text, "poseidon_quic_unsupported_decisions", help, "kind", &kinds);
        let nanos = |nanos: Nanos| seconds(Duration::from_nanos(nanos.get()));
        let highest =
            |value: fn(&FlowMetrics) -> Nanos| nanos(flows.iter().map(value).max().unwrap_or(Nanos::ZERO));
        let help = "Largest delay that a law received last.";
        text.family("poseidon_quic_max_delay_seconds", Kind::Gauge, help);
        text.sample(&[], highest(|flow| flow.delay));
        let help = "Largest round-trip time that a law received last.";
        text.family("poseidon_quic_max_rtt_seconds", Kind::Gauge, help);
        text.sample(&[], highest(|flow| flow.rtt));
        text.family("poseidon_quic_window_bytes", Kind::Gauge, "Bytes that may be in flight on all paths.");
        text.sample(&[], flows.iter().map(|flow| flow.window.get()).fold(0, u64::saturating_add));
        let kinds = [
            ("with_prefix", metrics.with_prefix),
            ("plain", metrics.plain),
            ("refused", metrics.refused),
            ("malformed", metrics.malformed),
            ("ruined", metrics.corrupted),
            ("stranger", metrics.unknown_tag),
        ];
        write_counters(text, "poseidon_quic_datagrams", "Received datagrams by kind.", "kind", &kinds);
        text.family("poseidon_quic_handshakes", Kind::Gauge, "Handshakes without an answer.");
        text.sample(&[], metrics.handshakes);
    }
}

fn counters_of(flow: &FlowMetrics) -> [u64; COUNTERS] {
    [
        flow.acks_with_telemetry,
        flow.acks_without_telemetry,
        flow.guarded,
        flow.implausible,
        flow.below_floor,
        flow.unpaced,
        flow.mode_changes,
        flow.losses,
        flow.timeouts,
    ]
}

fn write_counters(text: &mut MetricsText, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
    text.family(name, Kind::Counter, help);
    for (value, count) in values {
        text.sample(&[(label, value)], count);
    }
}

/// The live metrics of one flow. Only its controller writes them, so an increment needs only a load and a
/// store.
#[derive(Debug, Default)]
pub(crate) struct FlowGauges {
    pub(crate) mode: AtomicU8,
    pub(crate) law_window_q24: AtomicU64,
    pub(crate) window: AtomicU64,
    pub(crate) delay: AtomicU64,
    pub(crate) rtt: AtomicU64,
    pub(crate) acks_with_telemetry: AtomicU64,
    pub(crate) acks_without_telemetry: AtomicU64,
    /// The smallest echoed delay plus one, or zero before the first echo.
    min_echoed_plus_one: AtomicU64,
    max_echoed: AtomicU64,
    pub(crate) guarded: AtomicU64,
    pub(crate) implausible: AtomicU64,
    pub(crate) below_floor: AtomicU64,
    pub(crate) unpaced: AtomicU64,
    pub(crate) mode_changes: AtomicU64,
    pub(crate) losses: AtomicU64,
    pub(crate) timeouts: AtomicU64,
}

/// Increments a counter that has only one writer.
#[inline]
pub(crate) fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl FlowGauges {
    pub(crate) fn record_echoed_delay(&self, delay: Nanos) {
        let min_plus_one = self.min_echoed_plus_one.load(Relaxed);
        let max = self.max_echoed.load(Relaxed);
        if min_plus_one == 0 || delay.get() + 1 < min_plus_one {
            self.min_echoed_plus_one.store(delay.get() + 1, Relaxed);
        }
        if delay.get() > max {
            self.max_echoed.store(delay.get(), Relaxed);
        }
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        let code = match mode {
            Mode::Delay => 0,
            Mode::Telemetry => 1,
            Mode::Lost => 2,
            Mode::Compete => 3,
            Mode::Yield => 4,
        };
        if self.mode.load(Relaxed) != code {
            self.mode.store(code, Relaxed);
            increment(&self.mode_changes);
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Relaxed) {
            0 => Mode::Delay,
            1 => Mode::Telemetry,
            2 => Mode::Lost,
            3 => Mode::Compete,
            _ => Mode::Yield,
        }
    }

    pub(crate) fn echoed_range(&self) -> Option<(Nanos, Nanos)> {
        let min = self.min_echoed_plus_one.load(Relaxed).checked_sub(1)?;
        Some((Nanos::new(min), Nanos::new(self.max_echoed.load(Relaxed))))
    }
}

/// The datagram counts of all connections. The receive tasks add their counts once per batch.
#[derive(Debug, Default)]
pub(crate) struct DatagramTotals {
    pub(crate) with_prefix: AtomicU64,
    pub(crate) plain: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) corrupted: AtomicU64,
    pub(crate) unknown_tag: AtomicU64,
}

/// The datagram counts of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchCounts {
    pub(crate) with_prefix: u64,
    pub(crate) plain: u64,
    pub(crate) refused: u64,
    pub(crate) malformed: u64,
    pub(crate) corrupted: u64,
    pub(crate) unknown_tag: u64,
}

impl DatagramTotals {
    pub(crate) fn add(&self, batch: &BatchCounts) {
        let pairs = [
            (&self.with_prefix, batch.with_prefix),
            (&self.plain, batch.plain),
            (&self.refused, batch.refused),
            (&self.malformed, batch.malformed),
            (&self.corrupted, batch.corrupted),
            (&self.unknown_tag, batch.unknown_tag),
        ];
        for (total, count) in pairs {
            // Usually only one count is nonzero. Skipping the others keeps their cache lines valid on other
            // cores.
            if count > 0 {
                total.fetch_add(count, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_text_has_every_family_once_and_ends_with_eof() {
        let flow = FlowMetrics {
            number: 7,
            tag: 3,
            remote: Some(SocketAddr::from(([10, 0, 0, 1], 65_053))),
            shim_negotiated: true,
            mode: Mode::Telemetry,
            law_window: Packets::whole(1),
            window: Bytes::new(2_905),
            delay: Nanos::new(300),
            rtt: Nanos::new(900),
            acks_with_telemetry: 5,
            acks_without_telemetry: 2,
            echoed_range: None,
            guarded: 0,
            implausible: 0,
            below_floor: 4,
            unpaced: 0,
            mode_changes: 1,
            losses: 0,
            timeouts: 0,
        };
        let metrics = Metrics { flows: vec![flow], plain: 9, ..Metrics::default() };
        let text = metrics.open_metrics();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("poseidon_quic_datagrams_total{kind=\"plain\"} 9\n"));
        for line in [
            "poseidon_quic_flows{mode=\"telemetry\"} 1",
            "poseidon_quic_acks_total{telemetry=\"yes\"} 5",
            "poseidon_quic_unsupported_decisions_total{kind=\"below_two_packets\"} 4",
            "poseidon_quic_max_delay_seconds 0.000000300",
            "poseidon_quic_window_bytes 2905",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let type_line_count = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), type_line_count);
    }

    #[test]
    fn echoed_range_starts_with_the_first_echo() {
        let gauges = FlowGauges::default();
        assert_eq!(gauges.echoed_range(), None);
        for delay in [512, 256, 1_024] {
            gauges.record_echoed_delay(Nanos::new(delay));
        }
        assert_eq!(gauges.echoed_range(), Some((Nanos::new(256), Nanos::new(1_024))));
    }
}
