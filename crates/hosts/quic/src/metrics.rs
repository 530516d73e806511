//! What connections do, for people and for monitoring.

use crate::prefix::Tag;
use crate::signal::Mode;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use poseidon_types::{Bytes, Nanos, Packets};

/// One path of one connection, at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowMetrics {
    /// Counts up over all flows of one [`crate::Poseidon`].
    pub number: u64,
    /// What its datagrams are marked with; zero where all tags are taken.
    pub tag: Tag,
    /// Where they go; nothing before the first, and where the endpoint was not made with [`crate::Poseidon::runtime`].
    pub remote: Option<SocketAddr>,
    /// Whether the other end speaks the shim.
    pub speaks_shim: bool,
    /// What it steers by.
    pub mode: Mode,
    /// What the law decided last.
    pub law_window: Packets,
    /// What the stack was given: never below two packets in flight.
    pub window: Bytes,
    /// The last delay of the worst hop that the law was given.
    pub delay: Nanos,
    /// The last round trip that it was given.
    pub rtt: Nanos,
    /// ACK frames that came with telemetry.
    pub acks_with_telemetry: u64,
    /// ACK frames without.
    pub acks_without_telemetry: u64,
    /// Of all telemetry, the smallest and the largest delay; nothing before the first.
    pub told: Option<(Nanos, Nanos)>,
    /// ACK frames whose delay was raised, because the round trip proves more than was told.
    pub guarded: u64,
    /// ACK frames whose delay was lowered, because no hop can delay longer than the round trip took.
    pub implausible: u64,
    /// Decisions below two packets, which quinn cannot carry, nor our host in s2n-quic.
    pub below_floor: u64,
    /// Decisions that ask for pacing by rate, which became a window instead.
    pub unpaced: u64,
    /// Times that a mode ended.
    pub mode_changes: u64,
    /// Recoveries from loss.
    pub losses: u64,
    /// Times of persistent congestion.
    pub timeouts: u64,
}

/// Of all connections together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// One per path that is in use.
    pub flows: Vec<FlowMetrics>,
    /// Handshakes that the other end has not answered.
    pub handshakes: usize,
    /// Datagrams that came with a prefix.
    pub with_prefix: u64,
    /// Datagrams that came without: plain QUIC, or anything.
    pub plain: u64,
    /// Of those, the ones that were refused.
    pub refused: u64,
    /// Datagrams that are too short for a prefix, or of another form than the rest of their batch.
    pub malformed: u64,
    /// Datagrams whose shim was overwritten with something else. Their QUIC packets were saved.
    pub ruined: u64,
    /// Datagrams that name a tag which is nobody's, or come from elsewhere than its flow's peer.
    pub strangers: u64,
}

/// What never comes to a law in this host, whatever a switch does: metrics say it too, so that a dashboard shows it.
pub const NOT_CARRIED: [&str; 3] = ["window-below-two-packets", "pacing", "nic-timestamps"];

impl Metrics {
    /// As `OpenMetrics` text, which Prometheus and whatever followed it read.
    pub fn open_metrics(&self) -> String {
        let mut text = String::new();
        let totals = [
            ("with_prefix", self.with_prefix),
            ("plain", self.plain),
            ("refused", self.refused),
            ("malformed", self.malformed),
            ("ruined", self.ruined),
            ("stranger", self.strangers),
        ];
        family(&mut text, "poseidon_quic_datagrams", "counter", "Datagrams by what they were.");
        for (kind, count) in totals {
            line(&mut text, format_args!("poseidon_quic_datagrams_total{{kind=\"{kind}\"}} {count}"));
        }
        family(&mut text, "poseidon_quic_handshakes", "gauge", "Handshakes that wait for an answer.");
        line(&mut text, format_args!("poseidon_quic_handshakes {}", self.handshakes));
        family(
            &mut text,
            "poseidon_quic_carried",
            "gauge",
            "0: a decision or a signal that quinn cannot carry.",
        );
        for name in NOT_CARRIED {
            line(&mut text, format_args!("poseidon_quic_carried{{what=\"{name}\"}} 0"));
        }
        for (name, kind, help, value) in FLOW_FAMILIES {
            family(&mut text, &format!("poseidon_quic_flow_{name}"), kind, help);
            let suffix = if *kind == "counter" { "_total" } else { "" };
            for flow in &self.flows {
                let (labels, value) = (labels(flow), value(flow));
                line(&mut text, format_args!("poseidon_quic_flow_{name}{suffix}{{{labels}}} {value}"));
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

type Family = (&'static str, &'static str, &'static str, fn(&FlowMetrics) -> u64);

const FLOW_FAMILIES: &[Family] = &[
    ("window_bytes", "gauge", "Bytes that may be in flight.", |flow| flow.window.get()),
    ("delay_nanoseconds", "gauge", "Delay that the law was given last.", |flow| flow.delay.get()),
    ("rtt_nanoseconds", "gauge", "Round trip that the law was given last.", |flow| flow.rtt.get()),
    ("acks_with_telemetry", "counter", "ACK frames with telemetry.", |flow| flow.acks_with_telemetry),
    ("acks_without_telemetry", "counter", "ACK frames without.", |flow| flow.acks_without_telemetry),
    ("guarded", "counter", "ACK frames with less delay than the round trip proves.", |flow| flow.guarded),
    ("implausible", "counter", "ACK frames with more than it allows.", |flow| flow.implausible),
    ("below_floor", "counter", "Decisions below two packets.", |flow| flow.below_floor),
    ("unpaced", "counter", "Decisions that ask for pacing by rate.", |flow| flow.unpaced),
    ("mode_changes", "counter", "Times that a mode ended.", |flow| flow.mode_changes),
    ("losses", "counter", "Recoveries from loss.", |flow| flow.losses),
    ("timeouts", "counter", "Times of persistent congestion.", |flow| flow.timeouts),
];

fn labels(flow: &FlowMetrics) -> String {
    let remote = flow.remote.map_or_else(String::new, |remote| remote.to_string());
    format!("flow=\"{}\",remote=\"{remote}\",mode=\"{}\"", flow.number, flow.mode)
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# TYPE {name} {kind}\n# HELP {name} {help}"));
}

fn line(text: &mut String, line: core::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = writeln!(text, "{line}");
}

/// Of one flow, written by its controller alone and read by whoever asks: so a count is a load and a store.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) mode: AtomicU8,
    pub(crate) law_window_q24: AtomicU64,
    pub(crate) window: AtomicU64,
    pub(crate) delay: AtomicU64,
    pub(crate) rtt: AtomicU64,
    pub(crate) acks_with_telemetry: AtomicU64,
    pub(crate) acks_without_telemetry: AtomicU64,
    /// One more than the smallest delay told; zero before the first.
    least_told: AtomicU64,
    most_told: AtomicU64,
    pub(crate) guarded: AtomicU64,
    pub(crate) implausible: AtomicU64,
    pub(crate) below_floor: AtomicU64,
    pub(crate) unpaced: AtomicU64,
    pub(crate) mode_changes: AtomicU64,
    pub(crate) losses: AtomicU64,
    pub(crate) timeouts: AtomicU64,
}

/// One more, by the only writer.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl Gauges {
    pub(crate) fn told(&self, delay: Nanos) {
        let (least, most) = (self.least_told.load(Relaxed), self.most_told.load(Relaxed));
        if least == 0 || delay.get() + 1 < least {
            self.least_told.store(delay.get() + 1, Relaxed);
        }
        if delay.get() > most {
            self.most_told.store(delay.get(), Relaxed);
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
            count(&self.mode_changes);
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

    pub(crate) fn told_range(&self) -> Option<(Nanos, Nanos)> {
        let least = self.least_told.load(Relaxed).checked_sub(1)?;
        Some((Nanos::new(least), Nanos::new(self.most_told.load(Relaxed))))
    }
}

/// Datagrams of all connections, by the tasks that receive: added up per batch.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) with_prefix: AtomicU64,
    pub(crate) plain: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) ruined: AtomicU64,
    pub(crate) strangers: AtomicU64,
}

/// Of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) with_prefix: u64,
    pub(crate) plain: u64,
    pub(crate) refused: u64,
    pub(crate) malformed: u64,
    pub(crate) ruined: u64,
    pub(crate) strangers: u64,
}

impl Totals {
    pub(crate) fn add(&self, tally: &Tally) {
        let pairs = [
            (&self.with_prefix, tally.with_prefix),
            (&self.plain, tally.plain),
            (&self.refused, tally.refused),
            (&self.malformed, tally.malformed),
            (&self.ruined, tally.ruined),
            (&self.strangers, tally.strangers),
        ];
        for (total, count) in pairs {
            // Usually all but one are zero, and not writing leaves the line to others.
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
    fn the_text_has_every_family_once_and_an_end() {
        let flow = FlowMetrics {
            number: 7,
            tag: 3,
            remote: Some(SocketAddr::from(([10, 0, 0, 1], 65_053))),
            speaks_shim: true,
            mode: Mode::Telemetry,
            law_window: Packets::whole(1),
            window: Bytes::new(2_905),
            delay: Nanos::new(300),
            rtt: Nanos::new(900),
            acks_with_telemetry: 5,
            acks_without_telemetry: 2,
            told: None,
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
        let labels = "flow=\"7\",remote=\"10.0.0.1:65053\",mode=\"telemetry\"";
        assert!(text.contains(&format!("poseidon_quic_flow_below_floor_total{{{labels}}} 4\n")), "{text}");
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), all);
    }

    #[test]
    fn the_range_of_what_was_told_begins_with_the_first() {
        let gauges = Gauges::default();
        assert_eq!(gauges.told_range(), None);
        for delay in [512, 256, 1_024] {
            gauges.told(Nanos::new(delay));
        }
        assert_eq!(gauges.told_range(), Some((Nanos::new(256), Nanos::new(1_024))));
    }
}
