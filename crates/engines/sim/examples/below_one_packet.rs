//! Compares laws in incasts with so many flows that each flow sends less than one packet per RTT: Poseidon as
//! published, Poseidon with the `steady` update, and Swift.
//!
//! `cargo run --release -p poseidon-sim --example below_one_packet [FLOWS...]`
//!
//! The example prints the tables in `docs/below-one-packet.md`.

use poseidon_plan::records::{MemorySink, QueueRow, ReceiverRow, Sink};
use poseidon_plan::switch::{DelayCarrier, Stamp};
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{ConnectionId, Nanos, Picos};

/// The number of runs per row, with different start times.
const SEEDS: u64 = 3;
/// One millisecond in ps.
const MS: u64 = 1_000_000_000;

/// A table row: the name, the law and the law parameters.
type Variant = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const VARIANTS: [Variant; 3] = [
    ("poseidon", "poseidon", &[]),
    ("poseidon, steady", "poseidon", &[("update", "steady")]),
    ("swift", "swift", &[]),
];

fn main() {
    let requested: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let flows = if requested.is_empty() { vec![200, 500, 1_000, 2_000, 5_000] } else { requested };
    println!("{:>5} {:<17} {}", "flows", "law", Row::HEADER);
    for n in flows {
        for variant in VARIANTS {
            let runs = (0..SEEDS).map(|seed| Row::measure(&incast(variant, n, seed), n));
            println!("{n:>5} {:<17} {}", variant.0, Row::format_mean(&runs.collect::<Vec<_>>()));
        }
    }
    println!("\ntime in us until a flow reaches");
    println!("  90 of its 100 Gbps, from a window of one packet beside another flow;");
    println!("  180 of 200 Gbps, after all others of 500, 2000 and 5000 flows have stopped");
    for variant in VARIANTS {
        let alone = [500, 2_000, 5_000].map(|n| time_to_fill_the_link(variant, n));
        println!(
            "{:<17} {:>6}; {:>6} {:>6} {:>6}",
            variant.0,
            time_to_fair_share(variant),
            alone[0],
            alone[1],
            alone[2]
        );
    }
}

fn plan((_, name, settings): Variant, racks: u32, ends: &[(u32, u32)]) -> Plan {
    let mut plan = plans::plan(Topology::poseidon_clos(racks), name, ends);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("the law has this parameter");
    }
    if name == "swift" {
        plan.switch.stamp = Stamp::Off;
    } else {
        plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
    }
    plan
}

/// Builds a plan in which N hosts in other racks send to one host. Initial windows are one packet, so the
/// first burst fits in the buffers. All flows start within 1 ms. In the second half of the run, each flow
/// sends at least 70 packets.
fn incast(variant: Variant, n: u32, seed: u64) -> Plan {
    let ends: Vec<_> = (0..n).map(|i| (24 + i, 0)).collect();
    let mut plan = plan(variant, n.div_ceil(24) + 1, &ends);
    plan.laws[0].set("initial-window", "1 packets").expect("both laws have this parameter");
    plan.seed = seed;
    let mut rng = SplitMix64::new(1_000 + seed);
    for message in &mut plan.messages {
        message.start = Picos::new(rng.below(MS));
    }
    plan.messages.sort_by_key(|message| message.start);
    plan.transport.first_rto = Nanos::from_millis(10);
    plan.stop = Picos::new(MS * 40.max(12 * twelve_packets_ms(n)) + 1);
    plan.watched_ports = plans::switch_ports(&[(0, 0)]);
    plan.watched_connections = plans::connection_ids(0..n);
    plan.sample_every = Picos::new(MS / 20);
    plan
}

/// Returns the number of milliseconds in which one of N flows sends about twelve packets. Bins of this length
/// have the same granularity for every N.
fn twelve_packets_ms(n: u32) -> u64 {
    u64::from(n.div_ceil(500))
}

/// Measurements from the second half of one run.
struct Row {
    /// The mean queueing delay at the last hop, in us.
    delay: f64,
    /// The standard deviation of the queueing delay, in us.
    delay_sd: f64,
    /// The link utilization.
    utilization: f64,
    /// The standard deviation of a flow's rate around its mean, in bins of 1 ms, in percent of the fair
    /// share.
    rate_sd: f64,
    /// The same standard deviation, in bins of about twelve packets.
    rate_sd_twelve: f64,
    /// Jain's index of the rates in bins of 1 ms.
    jain: f64,
    /// Jain's index of the rates over the whole second half.
    jain_of_half: f64,
    /// The slowest flow's rate, in units of the fair share.
    slowest: f64,
    /// The fastest flow's rate, in units of the fair share.
    fastest: f64,
}

impl Row {
    const HEADER: &'static str = "delay us      sd  utilization  sd in 1 ms %  in 12 packets %  \
                                Jain in 1 ms  in the half  slowest  fastest";

    fn measure(plan: &Plan, n: u32) -> Self {
        let mut sink = SecondHalf {
            start: plan.stop.get() / 2,
            delays: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
        };
        Simulator::default().run(plan, &mut sink).expect("the plan runs");
        let flows = n as usize;
        // A flow's fair share in bytes per millisecond.
        let fair_share = 25e6 / f64::from(n);
        let bins = sink.received.len() / flows - 1;
        let rates = |from: usize, bins: usize| -> Vec<f64> {
            let received_at = |bin: usize| &sink.received[bin * flows..(bin + 1) * flows];
            let (before, after) = (received_at(from), received_at(from + bins));
            let rate = |(a, b): (&u64, &u64)| (b - a) as f64 / (fair_share * bins as f64);
            before.iter().zip(after).map(rate).collect()
        };
        let split_into_bins = |length: usize| -> Vec<Vec<f64>> {
            (0..=bins - length).step_by(length).map(|from| rates(from, length)).collect()
        };
        let mean_rate_sd = |bins: &[Vec<f64>]| {
            let flow_sd = |flow: usize| deviation(&bins.iter().map(|bin| bin[flow]).collect::<Vec<_>>());
            100.0 * mean(&(0..flows).map(flow_sd).collect::<Vec<_>>())
        };
        let one_ms_bins = split_into_bins(1);
        let half = rates(0, bins);
        let ((first, sent_first), (last, sent_last)) = (sink.sent[0], sink.sent[sink.sent.len() - 1]);
        Self {
            delay: mean(&sink.delays),
            delay_sd: deviation(&sink.delays),
            utilization: (sent_last - sent_first) as f64 * 8e3 / (last - first) as f64 / 200.0,
            rate_sd: mean_rate_sd(&one_ms_bins),
            rate_sd_twelve: mean_rate_sd(&split_into_bins(
                usize::try_from(twelve_packets_ms(n)).expect("the number is small"),
            )),
            jain: mean(&one_ms_bins.iter().map(|bin| jain(bin)).collect::<Vec<_>>()),
            jain_of_half: jain(&half),
            slowest: half.iter().copied().fold(f64::MAX, f64::min),
            fastest: half.iter().copied().fold(0.0, f64::max),
        }
    }

    fn format_mean(rows: &[Self]) -> String {
        let average = |value: fn(&Self) -> f64| mean(&rows.iter().map(value).collect::<Vec<_>>());
        format!(
            "{:>8.2} {:>7.2} {:>12.3} {:>13.1} {:>16.1} {:>13.4} {:>12.4} {:>8.2} {:>8.2}",
            average(|row| row.delay),
            average(|row| row.delay_sd),
            average(|row| row.utilization),
            average(|row| row.rate_sd),
            average(|row| row.rate_sd_twelve),
            average(|row| row.jain),
            average(|row| row.jain_of_half),
            average(|row| row.slowest),
            average(|row| row.fastest),
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let average = mean(values);
    mean(&values.iter().map(|value| (value - average).powi(2)).collect::<Vec<_>>()).sqrt()
}

fn jain(rates: &[f64]) -> f64 {
    mean(rates).powi(2) / mean(&rates.iter().map(|rate| rate * rate).collect::<Vec<_>>())
}

/// Stores the queue samples from the second half of the run, and the bytes that each flow has received at
/// every millisecond. The full set of rows would not fit in memory.
struct SecondHalf {
    /// The start of the second half, in ps.
    start: u64,
    delays: Vec<f64>,
    sent: Vec<(u64, u64)>,
    received: Vec<u64>,
}

impl Sink for SecondHalf {
    fn record_queue(&mut self, row: QueueRow) {
        if row.time.get() >= self.start {
            self.delays.push(row.delay.get() as f64 / 1e3);
            self.sent.push((row.time.get(), row.sent.get()));
        }
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        if row.time.get() >= self.start && row.time.get().is_multiple_of(MS) {
            self.received.push(row.received.get());
        }
    }
}

/// Returns the time in us from `start` until the last connection's rate over 50 us reaches `gbps`.
fn time_to_rate(plan: &mut Plan, gbps: f64, start: Picos) -> String {
    plan.watched_connections = vec![ConnectionId::from_index(plan.connections.len() - 1)];
    plan.sample_every = Picos::new(10_000_000);
    let mut rows = MemorySink::default();
    Simulator::default().run(plan, &mut rows).expect("the plan runs");
    let after: Vec<_> = rows.receivers.iter().filter(|row| row.time >= start).collect();
    let is_fast =
        |rows: &&[&ReceiverRow]| (rows[5].received - rows[0].received).get() as f64 * 8.0 / 5e4 >= gbps;
    let reached = after.windows(6).find(is_fast);
    reached.map_or_else(|| "never".to_owned(), |rows| ((rows[5].time - start).get() / 1_000_000).to_string())
}

/// Measures how long a second flow takes to reach its fair share. The flow starts with a window of one packet
/// while another flow uses the whole 200 Gbps.
fn time_to_fair_share(variant: Variant) -> String {
    let mut plan = plan(variant, 12, &[(24, 0), (48, 0)]);
    let mut slow = plan.laws[0].clone();
    slow.set("initial-window", "1 packets").expect("both laws have this parameter");
    plan.laws.push(slow);
    plan.connections[1].law = 1;
    let start = Picos::new(4 * MS);
    plan.messages[1].start = start;
    time_to_rate(&mut plan, 90.0, start)
}

/// Measures how long the last of N flows takes to fill the link after all other flows have stopped.
fn time_to_fill_the_link(variant: Variant, n: u32) -> String {
    let mut plan = incast(variant, n, 0);
    let end = Picos::new(20 * MS);
    for message in &mut plan.messages {
        if message.connection != ConnectionId::new(n - 1) {
            message.amount = Amount::Until(end);
        }
    }
    plan.watched_ports = Vec::new();
    time_to_rate(&mut plan, 180.0, end)
}
