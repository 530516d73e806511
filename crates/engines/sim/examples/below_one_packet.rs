//! Incasts of so many flows that each has less than one packet per round trip: Poseidon as printed, its `steady` update, and Swift.
//!
//! `cargo run --release -p poseidon-sim --example below_one_packet`; numbers of flows as arguments to see only those. The table in
//! `docs/below-one-packet.md` is this one.

use poseidon_plan::records::{
    DecisionRow, DropRow, Kept, MessageRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::switch::{DelayCarrier, Stamp};
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{Nanos, Picos};

/// Runs of each row, with other starts.
const SEEDS: u64 = 3;
/// A millisecond, ps.
const MS: u64 = 1_000_000_000;

/// A row of the tables: its name, the law, its settings.
type Contender = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CONTENDERS: [Contender; 3] = [
    ("poseidon", "poseidon", &[]),
    ("poseidon, steady", "poseidon", &[("update", "steady")]),
    ("swift", "swift", &[]),
];

fn main() {
    let asked: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let flows = if asked.is_empty() { vec![200, 500, 1_000, 2_000, 5_000] } else { asked };
    println!("{:>5} {:<17} {}", "flows", "law", Row::HEAD);
    for n in flows {
        for contender in CONTENDERS {
            let runs = (0..SEEDS).map(|seed| Row::of(&incast(contender, n, seed), n));
            println!("{n:>5} {:<17} {}", contender.0, Row::mean(&runs.collect::<Vec<_>>()));
        }
    }
    println!("\nus until a flow has");
    println!("  from one packet beside another: 90 of its 100 Gbps");
    println!("  when all others of 500, of 2000 and of 5000 have stopped: 180 of 200 Gbps");
    for contender in CONTENDERS {
        let alone = [500, 2_000, 5_000].map(|n| left_alone(contender, n));
        println!(
            "{:<17} {:>6}; {:>6} {:>6} {:>6}",
            contender.0,
            ramp(contender),
            alone[0],
            alone[1],
            alone[2]
        );
    }
}

fn plan((_, name, settings): Contender, racks: u32, ends: &[(u32, u32)]) -> Plan {
    let mut plan = plans::plan(Topology::poseidon_clos(racks), name, ends);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("a parameter of the law");
    }
    if name == "swift" {
        plan.switch.stamp = Stamp::Off;
    } else {
        plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
    }
    plan
}

/// N hosts of other racks to one, each with one packet at first, so that the first burst fits the buffers. They begin within 1 ms.
/// In the second half each sends 70 packets or more.
fn incast(contender: Contender, n: u32, seed: u64) -> Plan {
    let ends: Vec<_> = (0..n).map(|i| (24 + i, 0)).collect();
    let mut plan = plan(contender, n.div_ceil(24) + 1, &ends);
    plan.laws[0].set("initial-window", "1 packets").expect("a parameter of both laws");
    plan.seed = seed;
    let mut rng = SplitMix64::new(1_000 + seed);
    for message in &mut plan.messages {
        message.at = Picos::new(rng.below(MS));
    }
    plan.messages.sort_by_key(|message| message.at);
    plan.transport.first_rto = Nanos::from_millis(10);
    plan.stop = Picos::new(MS * 40.max(12 * whole_bin(n)) + 1);
    plan.watched = vec![(0, 0)];
    plan.watched_connections = (0..n).collect();
    plan.sample_every = Picos::new(MS / 20);
    plan
}

/// Milliseconds in which a flow of N sends about twelve packets, so that the grain of a packet is the same for all N.
fn whole_bin(n: u32) -> u64 {
    u64::from(n.div_ceil(500))
}

/// What one run gives, over its second half.
struct Row {
    /// Queueing delay at the last hop and its standard deviation, us.
    delay: f64,
    delay_sd: f64,
    /// Of the line.
    used: f64,
    /// Standard deviation of a flow's rate around its own mean, in bins of 1 ms and of about twelve packets, percent of the fair share.
    spread: f64,
    spread_of_twelve: f64,
    /// Jain's index of the rates in bins of 1 ms, and of the whole half.
    jain: f64,
    jain_of_half: f64,
    /// The slowest and the fastest flow, in fair shares.
    least: f64,
    most: f64,
}

impl Row {
    const HEAD: &'static str = "delay us  its sd  use of line  sd in 1 ms %  in 12 packets %  Jain in 1 ms  in the half  slowest  fastest";

    fn of(plan: &Plan, n: u32) -> Self {
        let mut watch =
            Watch { half: plan.stop.get() / 2, delays: Vec::new(), sent: Vec::new(), received: Vec::new() };
        Simulator::default().run(plan, &mut watch).expect("runs");
        let flows = n as usize;
        // Bytes that a flow's fair share brings in a millisecond.
        let fair = 25e6 / f64::from(n);
        let bins = watch.received.len() / flows - 1;
        let rates = |from: usize, bins: usize| -> Vec<f64> {
            let at = |bin: usize| &watch.received[bin * flows..(bin + 1) * flows];
            let (before, after) = (at(from), at(from + bins));
            let rate = |(a, b): (&u64, &u64)| (b - a) as f64 / (fair * bins as f64);
            before.iter().zip(after).map(rate).collect()
        };
        let cut = |length: usize| -> Vec<Vec<f64>> {
            (0..=bins - length).step_by(length).map(|from| rates(from, length)).collect()
        };
        let spread = |bins: &[Vec<f64>]| {
            let of_flow = |flow: usize| deviation(&bins.iter().map(|bin| bin[flow]).collect::<Vec<_>>());
            100.0 * mean(&(0..flows).map(of_flow).collect::<Vec<_>>())
        };
        let fine = cut(1);
        let half = rates(0, bins);
        let ((first, sent_first), (last, sent_last)) = (watch.sent[0], watch.sent[watch.sent.len() - 1]);
        Self {
            delay: mean(&watch.delays),
            delay_sd: deviation(&watch.delays),
            used: (sent_last - sent_first) as f64 * 8e3 / (last - first) as f64 / 200.0,
            spread: spread(&fine),
            spread_of_twelve: spread(&cut(usize::try_from(whole_bin(n)).expect("small"))),
            jain: mean(&fine.iter().map(|bin| jain(bin)).collect::<Vec<_>>()),
            jain_of_half: jain(&half),
            least: half.iter().copied().fold(f64::MAX, f64::min),
            most: half.iter().copied().fold(0.0, f64::max),
        }
    }

    fn mean(rows: &[Self]) -> String {
        let of = |value: fn(&Self) -> f64| mean(&rows.iter().map(value).collect::<Vec<_>>());
        format!(
            "{:>8.2} {:>7.2} {:>12.3} {:>13.1} {:>16.1} {:>13.4} {:>12.4} {:>8.2} {:>8.2}",
            of(|row| row.delay),
            of(|row| row.delay_sd),
            of(|row| row.used),
            of(|row| row.spread),
            of(|row| row.spread_of_twelve),
            of(|row| row.jain),
            of(|row| row.jain_of_half),
            of(|row| row.least),
            of(|row| row.most),
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    mean(&values.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()).sqrt()
}

fn jain(rates: &[f64]) -> f64 {
    mean(rates).powi(2) / mean(&rates.iter().map(|rate| rate * rate).collect::<Vec<_>>())
}

/// Keeps the queue of the second half, and what each flow had received at its whole milliseconds: all rows would not fit the memory.
struct Watch {
    half: u64,
    delays: Vec<f64>,
    sent: Vec<(u64, u64)>,
    received: Vec<u64>,
}

impl Sink for Watch {
    fn queue(&mut self, row: QueueRow) {
        if row.at.get() >= self.half {
            self.delays.push(row.delay.get() as f64 / 1e3);
            self.sent.push((row.at.get(), row.sent.get()));
        }
    }

    fn receiver(&mut self, row: ReceiverRow) {
        if row.at.get() >= self.half && row.at.get().is_multiple_of(MS) {
            self.received.push(row.received.get());
        }
    }

    fn message(&mut self, _: MessageRow) {}
    fn received(&mut self, _: ReceivedRow) {}
    fn drop(&mut self, _: DropRow) {}
    fn sender(&mut self, _: SenderRow) {}
    fn decision(&mut self, _: DecisionRow) {}
}

/// How long the last connection needs from `start` until it has `gbps` over 50 us.
fn time_to(plan: &mut Plan, gbps: f64, start: Picos) -> String {
    let last = u32::try_from(plan.connections.len() - 1).expect("few");
    plan.watched_connections = vec![last];
    plan.sample_every = Picos::new(10_000_000);
    let mut kept = Kept::default();
    Simulator::default().run(plan, &mut kept).expect("runs");
    let after: Vec<_> = kept.receivers.iter().filter(|row| row.at >= start).collect();
    let fast =
        |rows: &&[&ReceiverRow]| (rows[5].received - rows[0].received).get() as f64 * 8.0 / 5e4 >= gbps;
    let reached = after.windows(6).find(fast);
    reached.map_or_else(|| "never".to_owned(), |rows| ((rows[5].at - start).get() / 1_000_000).to_string())
}

/// A second flow begins with one packet beside one that has the line of 200 Gbps.
fn ramp(contender: Contender) -> String {
    let mut plan = plan(contender, 12, &[(24, 0), (48, 0)]);
    let mut slow = plan.laws[0].clone();
    slow.set("initial-window", "1 packets").expect("a parameter of both laws");
    plan.laws.push(slow);
    plan.connections[1].law = 1;
    let start = Picos::new(4 * MS);
    plan.messages[1].at = start;
    time_to(&mut plan, 90.0, start)
}

/// N flows share the line until all but one stop.
fn left_alone(contender: Contender, n: u32) -> String {
    let mut plan = incast(contender, n, 0);
    let end = Picos::new(20 * MS);
    for message in &mut plan.messages {
        if message.connection != n - 1 {
            message.amount = Amount::Until(end);
        }
    }
    plan.watched = Vec::new();
    time_to(&mut plan, 180.0, end)
}
