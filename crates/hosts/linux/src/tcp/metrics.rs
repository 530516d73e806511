//! The metrics of Poseidon in TCP.

use super::error::TcpError;
use super::flows::{Mode, TcpFlow, flows};
use super::lifecycle::{ProgramCost, TcpStatus, status};
use crate::metrics::in_seconds;
use core::net::SocketAddr;
use poseidon_metrics::{FlowCounters, Kind, MetricsText, seconds};
use poseidon_types::Nanos;

/// Formats the metrics repeatedly. The counters of connections count from the first call, and they only grow, also when
/// connections end.
#[derive(Clone, Debug, Default)]
pub struct Exporter {
    counters: FlowCounters<(SocketAddr, SocketAddr, u32), COUNTERS>,
}

/// The number of counters per flow.
const COUNTERS: usize = 10;

const MODES: [Mode; 5] = [Mode::Telemetry, Mode::Brownfield, Mode::Delay, Mode::Compete, Mode::Yield];

impl Exporter {
    /// Reads the state of the kernel, and adds all metric families to a text. If Poseidon is not enabled, only
    /// `poseidon_tcp_enabled` has a sample.
    pub fn write(&mut self, text: &mut MetricsText) -> Result<(), TcpError> {
        let status = status()?;
        let flows = if status.is_some() { flows()? } else { Vec::new() };
        self.write_state(status.as_ref(), &flows, text);
        Ok(())
    }

    fn write_state(&mut self, status: Option<&TcpStatus>, flows: &[TcpFlow], text: &mut MetricsText) {
        text.family("poseidon_tcp_enabled", Kind::Gauge, "1 if Poseidon is enabled in TCP.");
        text.sample(&[], u8::from(status.is_some()));
        let counters = self
            .counters
            .update(flows.iter().map(|flow| ((flow.local, flow.remote, flow.netns), counters_of(flow))));
        let Some(status) = status else { return };
        let help = "1 if the option is attached to its cgroup, 0 if the cgroup was removed or recreated.";
        text.family("poseidon_tcp_attached", Kind::Gauge, help);
        text.sample(&[], u8::from(status.is_attached));
        text.family(
            "poseidon_tcp_flows",
            Kind::Gauge,
            "Sockets that use the law, by the signal that controls them.",
        );
        for mode in MODES {
            let count = flows.iter().filter(|flow| flow.mode == mode).count();
            text.sample(&[("mode", mode.name())], count);
        }
        let outcomes = [
            ("negotiated", status.negotiated),
            ("not_supported_by_peer", status.not_negotiated),
            ("law_not_assigned", status.not_assigned),
        ];
        let help = "Connections since Poseidon was enabled, by whether the peer supports the option.";
        write_counters(text, "poseidon_tcp_connections", help, "option", &outcomes);
        let [with, without, guarded, implausible, missed, losses, ignored, timeouts, competed, acked] =
            counters;
        let help = "ACKs, by whether they carry telemetry.";
        write_counters(text, "poseidon_tcp_acks", help, "telemetry", &[("yes", with), ("no", without)]);
        let help = "ACKs whose delay was corrected, because the round-trip time contradicts it.";
        let reasons = [("guarded", guarded), ("implausible", implausible)];
        write_counters(text, "poseidon_tcp_corrected_acks", help, "reason", &reasons);
        let help = "ACKs that TCP processed without our programs (see `poseidon doctor`).";
        text.family("poseidon_tcp_missed_acks", Kind::Counter, help);
        text.sample(&[], missed);
        let kinds = [("recovery", losses), ("ignored", ignored), ("timeout", timeouts)];
        write_counters(text, "poseidon_tcp_losses", "Reactions to losses.", "kind", &kinds);
        let help = "How often a flow started to compete with flows that fill the buffer.";
        text.family("poseidon_tcp_competitions", Kind::Counter, help);
        text.sample(&[], competed);
        text.family("poseidon_tcp_acked_bytes", Kind::Counter, "Acknowledged payload.");
        text.sample(&[], acked);
        let max = |value: fn(&TcpFlow) -> Nanos| flows.iter().map(value).max().unwrap_or(Nanos::ZERO);
        let help = "Largest delay that a law received last.";
        text.family("poseidon_tcp_max_delay_seconds", Kind::Gauge, help);
        text.sample(&[], in_seconds(max(|flow| flow.delay)));
        let help = "Largest round-trip time that a law received last.";
        text.family("poseidon_tcp_max_rtt_seconds", Kind::Gauge, help);
        text.sample(&[], in_seconds(max(|flow| flow.rtt)));
        text.family(
            "poseidon_tcp_window_packets",
            Kind::Gauge,
            "TCP's congestion windows of all flows together.",
        );
        text.sample(&[], flows.iter().map(|flow| u64::from(flow.cwnd)).sum::<u64>());
        write_costs(&status.costs, text);
    }
}

fn write_costs(costs: &[ProgramCost], text: &mut MetricsText) {
    let help = "Time in BPF programs, if the kernel measures it (sysctl kernel.bpf_stats_enabled).";
    text.family("poseidon_tcp_program_seconds", Kind::Counter, help);
    for cost in costs {
        text.sample(&[("program", &cost.program)], seconds(cost.total_time));
    }
    text.family(
        "poseidon_tcp_program_runs",
        Kind::Counter,
        "Runs of BPF programs, if the kernel counts them.",
    );
    for cost in costs {
        text.sample(&[("program", &cost.program)], cost.runs);
    }
}

fn write_counters(text: &mut MetricsText, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
    text.family(name, Kind::Counter, help);
    for (value, count) in values {
        text.sample(&[(label, value)], count);
    }
}

fn counters_of(flow: &TcpFlow) -> [u64; COUNTERS] {
    let counters = &flow.counters;
    [
        counters.acks_with_echo,
        counters.acks_without_echo,
        counters.guarded,
        counters.implausible,
        counters.missed_acks,
        counters.losses,
        counters.ignored_losses,
        counters.timeouts,
        counters.competed,
        flow.acked.get(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::flows::Counters;
    use super::*;
    use core::time::Duration;
    use poseidon_metrics::Format;
    use poseidon_types::{Bytes, Packets};

    fn flow(port: u16, acks: u64) -> TcpFlow {
        TcpFlow {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([10, 0, 0, 2], 80)),
            netns: 1,
            mode: Mode::Telemetry,
            option_negotiated: true,
            target: Nanos::from_micros(300),
            delay: Nanos::from_micros(250),
            window: Packets::whole(3),
            cwnd: 3,
            rtt: Nanos::from_micros(700),
            base_rtt: Nanos::from_micros(400),
            mss: Bytes::new(1_448),
            acked: Bytes::new(1_000),
            counters: Counters { acks_with_echo: acks, acks_without_echo: 1, ..Counters::default() },
        }
    }

    #[test]
    fn counters_outlive_their_flows() {
        let status = TcpStatus {
            uptime: Duration::from_secs(1),
            cgroup: "/sys/fs/cgroup/poseidon".into(),
            is_attached: true,
            flows: 2,
            negotiated: 7,
            not_negotiated: 1,
            not_assigned: 0,
            settings: String::new(),
            costs: vec![ProgramCost {
                program: "poseidon_option".into(),
                runs: 4,
                total_time: Duration::from_nanos(1_500),
            }],
        };
        let mut exporter = Exporter::default();
        let mut text = |flows: &[TcpFlow]| {
            let mut text = MetricsText::new(Format::OpenMetrics);
            exporter.write_state(Some(&status), flows, &mut text);
            text.finish()
        };
        let first = text(&[flow(1, 10), flow(2, 5)]);
        for line in [
            "poseidon_tcp_enabled 1",
            "poseidon_tcp_flows{mode=\"telemetry\"} 2",
            "poseidon_tcp_connections_total{option=\"negotiated\"} 7",
            "poseidon_tcp_acks_total{telemetry=\"yes\"} 15",
            "poseidon_tcp_max_delay_seconds 0.000250000",
            "poseidon_tcp_window_packets 6",
            "poseidon_tcp_program_seconds_total{program=\"poseidon_option\"} 0.000001500",
        ] {
            assert!(first.lines().any(|found| found == line), "{line} is missing in\n{first}");
        }
        let second = text(&[flow(2, 6)]);
        assert!(second.contains("poseidon_tcp_acks_total{telemetry=\"yes\"} 16\n"), "{second}");
    }

    #[test]
    fn a_machine_without_poseidon_has_one_sample() {
        let mut text = MetricsText::new(Format::OpenMetrics);
        Exporter::default().write_state(None, &[], &mut text);
        let text = text.finish();
        assert!(text.contains("\nposeidon_tcp_enabled 0\n"));
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 1);
    }
}
