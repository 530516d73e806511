//! Compares results from Poseidon's evaluation with an earlier, independent prototype simulator.
//!
//! `cargo run --release -p poseidon-sim --example anchors [WORD...]`
//!
//! The example runs the rows whose names contain one of the words, or all rows if no word is given. `--json`
//! prints one JSON object per row. The anchors are single runs of a different program with different
//! modelling choices, so the tolerance is ten percent. Each row outside this tolerance states the reason.

use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Link, Plan, SwitchPort, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Nanos, Picos, PortId, SwitchId};

const INT: Stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
const RECORDS: Stamp = Stamp::HopRecords(RecordCarrier::Exact);

fn main() {
    let (options, filters): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let mut table =
        Table { deviating: 0, rows: 0, filters, json: options.iter().any(|option| option == "--json") };
    table.print_header();
    compare_multi_hop(&mut table);
    compare_one_hop(&mut table);
    compare_reverse_path(&mut table);
    compare_testbed(&mut table);
    compare_ramp(&mut table);
    compare_ablations(&mut table);
    table.print_footer();
}

/// Prints the comparison and counts the rows that deviate.
struct Table {
    deviating: u32,
    rows: u32,
    filters: Vec<String>,
    json: bool,
}

impl Table {
    fn print_header(&self) {
        if !self.json {
            println!("{:<44} {:>9} {:>9} {:>7}", "", "anchor", "result", "ratio");
        }
    }

    fn print_footer(&self) {
        if !self.json {
            println!("{} of {} rows deviate by more than ten percent", self.deviating, self.rows);
        }
    }

    fn is_requested(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|word| name.contains(word))
    }

    fn print_row(&mut self, name: &str, anchor: f64, result: f64, reason: &str) {
        let ratio = result / anchor;
        let deviates = !(0.9..=1.1).contains(&ratio);
        self.rows += 1;
        self.deviating += u32::from(deviates);
        if self.json {
            // JSON cannot represent NaN.
            let number = |x: f64| if x.is_finite() { format!("{x:.4}") } else { "null".to_owned() };
            println!(
                "{{\"row\":\"{name}\",\"anchor\":{anchor},\"here\":{},\"ratio\":{},\"within_tenth\":{}}}",
                number(result),
                number(ratio),
                !deviates
            );
            return;
        }
        let note = if deviates { reason } else { "" };
        println!("{name:<44} {anchor:>9.2} {result:>9.2} {ratio:>7.3}  {note}");
    }
}

fn new_plan(
    name: &str,
    settings: &[(&str, &str)],
    stamp: Stamp,
    ends: &[(u32, u32)],
    topology: Topology,
) -> Plan {
    let mut plan = plans::plan(topology, name, ends);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("the law has this parameter");
    }
    plan.switch.stamp = stamp;
    plan
}

fn run(plan: &Plan) -> MemorySink {
    let mut rows = MemorySink::default();
    Simulator::default().run(plan, &mut rows).expect("the plan runs");
    rows
}

/// Runs a plan and returns each connection's rate over the second half of the run, in Gbps.
fn measure_rates(plan: &mut Plan) -> Vec<f64> {
    let count = u32::try_from(plan.connections.len()).expect("the number is small");
    plan.watched_connections = plans::connection_ids(0..count);
    plan.sample_every = Picos::new(plan.stop.get() / 2);
    let rows = run(plan);
    let (half, whole) = rows.receivers.split_at(rows.receivers.len() / 2);
    let ns = plan.stop.get() as f64 / 2e3;
    whole.iter().zip(half).map(|(b, a)| (b.received.get() - a.received.get()) as f64 * 8.0 / ns).collect()
}

/// Builds the plan for Fig. 14(a): the victim and M other flows share an uplink of rack 0, and N other flows
/// send to the victim's receiver.
fn multi_hop_plan(name: &str, settings: &[(&str, &str)], stamp: Stamp, m: u32, n: u32) -> Plan {
    let (victim, target) = (0, 24 * 10);
    let mut ends = vec![(victim, target)];
    ends.extend((1..=m).map(|i| (i, 24 * 11 + i)));
    ends.extend((1..=n).map(|i| (24 * i, target)));
    let mut plan = new_plan(name, settings, stamp, &ends, Topology::poseidon_clos(12));
    let shared_uplink = first_port(&plan, plan.connections[0]);
    for index in 1..=m as usize {
        pin_to_port(&mut plan, index, shared_uplink);
    }
    plan
}

/// Returns a connection's egress port at its first switch.
fn first_port(plan: &Plan, connection: Connection) -> SwitchPort {
    Simulator::default().routes(plan, &[connection])[0][0]
}

/// Chooses an entropy value that routes a connection through the given port of its first switch.
fn pin_to_port(plan: &mut Plan, index: usize, port: SwitchPort) {
    let connection = plan.connections[index];
    let uses_port = |entropy: &u32| first_port(plan, Connection { entropy: *entropy, ..connection }) == port;
    plan.connections[index].entropy = (0..).find(uses_port).expect("an entropy selects the port");
}

fn compare_multi_hop(table: &mut Table) {
    if !table.is_requested("multi-hop") {
        return;
    }
    for (m, n, anchor) in [(0, 2, 66.3), (2, 2, 65.6), (2, 9, 20.4), (9, 2, 20.3), (9, 9, 18.9), (5, 9, 20.4)]
    {
        let mut plan = multi_hop_plan("poseidon", &[], INT, m, n);
        table.print_row(
            &format!("multi-hop ({m}, {n}) poseidon victim, Gbps"),
            anchor,
            measure_rates(&mut plan)[0],
            "",
        );
    }
    for (m, n) in [(2, 2), (9, 9)] {
        let mut plan = multi_hop_plan("swift", &[], Stamp::Off, m, n);
        table.print_row(
            &format!("multi-hop ({m}, {n}) swift victim, Gbps"),
            0.7,
            measure_rates(&mut plan)[0],
            STARVED,
        );
        let mut plan = multi_hop_plan("hpcc", &[], RECORDS, m, n);
        plan.stop = Picos::new(10_000_000_000);
        table.print_row(
            &format!("multi-hop ({m}, {n}) hpcc victim, Gbps"),
            3.2,
            measure_rates(&mut plan)[0],
            STARVED,
        );
    }
}

const STARVED: &str = "starved in both: below 3 % of the line rate";

/// Compares runs in which N hosts in different racks send to one host.
fn compare_one_hop(table: &mut Table) {
    if !table.is_requested("one hop") {
        return;
    }
    let anchors = [
        (2, 4.98, 21.0, None),
        (20, 14.7, 28.1, Some((1.1, 2.0, 25.0))),
        (50, 18.4, 33.9, Some((1.7, 2.0, 10.0))),
        (100, 22.0, 38.2, Some((1.7, 4.7, 9.7))),
        (200, 22.7, 48.4, Some((1.6, 8.5, 21.0))),
        (500, 30.1, 59.9, Some((55.9, 7.4, 35.0))),
    ];
    for (n, poseidon, swift, spread) in anchors {
        let laws = [("poseidon", INT, poseidon), ("swift", Stamp::Off, swift)];
        for (name, stamp, anchor) in laws {
            let (delay, utilization, sd) = run_one_hop(name, stamp, n);
            table.print_row(&format!("one hop, {n} {name}, delay us"), anchor, delay, SMALL_WINDOWS);
            table.print_row(&format!("one hop, {n} {name}, use of the line"), 1.0, utilization, "");
            if let Some((p, s, _)) = spread {
                let anchor = if name == "poseidon" { p } else { s };
                table.print_row(
                    &format!("one hop, {n} {name}, sd of rates % of fair"),
                    anchor,
                    sd,
                    SMALL_WINDOWS_OR_HPCC,
                );
            }
        }
        if let Some((.., h)) = spread {
            let (_, utilization, sd) = run_one_hop("hpcc", RECORDS, n);
            table.print_row(
                &format!("one hop, {n} hpcc, use of the line"),
                0.915,
                utilization,
                "the first burst exceeds the buffer",
            );
            table.print_row(
                &format!("one hop, {n} hpcc, sd of rates % of fair"),
                h,
                sd,
                SMALL_WINDOWS_OR_HPCC,
            );
        }
    }
}

const SMALL_WINDOWS: &str = "windows of one or two packets";
const SMALL_WINDOWS_OR_HPCC: &str = "windows of a few packets, or HPCC; see docs/simulator.md";

/// Returns the mean delay at the last hop in us, the last hop's utilization, and the standard deviation of
/// the flows' rates in bins of 1 ms, in percent of the fair share. All three values cover the second half of
/// a 20 ms run.
fn run_one_hop(name: &str, stamp: Stamp, n: u32) -> (f64, f64, f64) {
    let racks = 25;
    let ends: Vec<_> = (0..n).map(|i| (24 * (1 + i % (racks - 1)) + i / (racks - 1), 0)).collect();
    let mut plan = new_plan(name, &[], stamp, &ends, Topology::poseidon_clos(racks));
    // Spread the flows evenly over the eight planes of the fabric, so only the last hop is congested.
    for index in 0..n as usize {
        let rack = plan.connections[index].from.get() / 24;
        let port = PortId::from_index(24 + index % 8);
        pin_to_port(&mut plan, index, SwitchPort::new(SwitchId::new(rack), port));
    }
    for message in &mut plan.messages {
        message.start = Picos::ZERO;
    }
    // The prototype had no retransmission timeout, and the first burst queues for milliseconds.
    plan.transport.first_rto = Nanos::from_millis(10);
    plan.watched_ports = plans::switch_ports(&[(0, 0)]);
    plan.watched_connections = plans::connection_ids(0..n);
    plan.sample_every = Picos::new(10_000_000);
    let rows = run(&plan);
    let in_second_half = |time: Picos| time.get() > plan.stop.get() / 2;
    let queue: Vec<_> = rows.queues.iter().filter(|row| in_second_half(row.time)).collect();
    let delay = queue.iter().map(|row| row.delay.get() as f64 / 1e3).sum::<f64>() / queue.len() as f64;
    let (first, last) = (queue[0], queue[queue.len() - 1]);
    let gbps = (last.sent.get() - first.sent.get()) as f64 * 8e3 / (last.time - first.time).get() as f64;
    // Consecutive bins of 1 ms are 100 samples apart.
    let per_sample = n as usize;
    let received_at = |ms: usize| &rows.receivers[(ms * 100 - 1) * per_sample..][..per_sample];
    let fair_share = 200.0 / f64::from(n);
    let rate = |flow: usize, ms: usize| {
        (received_at(ms + 1)[flow].received.get() - received_at(ms)[flow].received.get()) as f64 * 8.0
            / 1e6
            / fair_share
    };
    // Deviations are relative to each flow's mean, so persistent differences between flows do not count.
    let variance = |flow: usize| {
        let rates: Vec<f64> = (10..20).map(|ms| rate(flow, ms)).collect();
        let mean = rates.iter().sum::<f64>() / 10.0;
        rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / 10.0
    };
    let rate_sd = (0..per_sample).map(|flow| variance(flow).sqrt()).sum::<f64>() / f64::from(n);
    (delay, gbps / 200.0, 100.0 * rate_sd)
}

/// Compares runs in which a victim sends from A to B while N other hosts send to A, so the victim's ACKs
/// share a queue with the other hosts' data.
fn compare_reverse_path(table: &mut Table) {
    if !table.is_requested("reverse path") {
        return;
    }
    for (n, swift, hpcc) in [(2, 118.0, 189.0), (4, 58.0, 188.0), (9, 25.0, 189.0)] {
        for (name, stamp, anchor) in
            [("poseidon", INT, 200.0), ("swift", Stamp::Off, swift), ("hpcc", RECORDS, hpcc)]
        {
            let mut ends = vec![(0, 24 * 10)];
            ends.extend((1..=n).map(|i| (24 * i, 0)));
            let mut plan = new_plan(name, &[], stamp, &ends, Topology::poseidon_clos(12));
            let reason = "closed form: the victim gets the same rate as each other flow, 200 / N";
            table.print_row(
                &format!("reverse path, {n} {name} victim, Gbps"),
                anchor,
                measure_rates(&mut plan)[0],
                reason,
            );
        }
    }
}

/// Compares runs on the testbed of section 5.1: 10 Gbps ports, 1 us per hop and 1500 B packets.
fn compare_testbed(table: &mut Table) {
    if !table.is_requested("testbed") {
        return;
    }
    let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    let chain = |hosts| {
        Topology::Chain(poseidon_plan::topology::Chain {
            switches: 3,
            hosts,
            host_link: link,
            middle_link: link,
        })
    };
    let hosts = 3;
    let ends: Vec<(u32, u32)> = [(0, 2 * hosts)]
        .into_iter()
        .chain((1..=2).map(|i| (i, hosts + i)))
        .chain((1..=2).map(|i| (hosts + i, 2 * hosts + i)))
        .collect();
    for (name, settings, stamp, anchor) in
        [("poseidon", &[("max-rate", "10 Gbps")][..], INT, 3.1), ("swift", &[], Stamp::Off, 0.2)]
    {
        let mut plan = new_plan(name, settings, stamp, &ends, chain(hosts));
        use_testbed_settings(&mut plan);
        table.print_row(
            &format!("testbed (2, 2) {name} victim, Gbps"),
            anchor,
            measure_rates(&mut plan)[0],
            STARVED,
        );
    }
    let ends: Vec<(u32, u32)> = [(0, 5)].into_iter().chain((1..=4).map(|i| (i, 0))).collect();
    for (name, settings, stamp, anchor) in
        [("poseidon", &[("max-rate", "10 Gbps")][..], INT, 10.0), ("swift", &[], Stamp::Off, 2.5)]
    {
        let mut plan = new_plan(name, settings, stamp, &ends, Topology::star(6, link));
        use_testbed_settings(&mut plan);
        table.print_row(
            &format!("testbed, reverse path, 4 {name}, Gbps"),
            anchor,
            measure_rates(&mut plan)[0],
            "",
        );
    }
}

fn use_testbed_settings(plan: &mut Plan) {
    plan.transport.mtu = Bytes::new(1_500);
    plan.transport.min_rto = Nanos::from_millis(1);
    plan.stop = Picos::new(100_000_000_000);
}

/// Compares the time that a second flow takes to reach 90 % of its fair share of 100 Gbps. The second flow
/// starts with a window of one packet.
fn compare_ramp(table: &mut Table) {
    if !table.is_requested("ramp") {
        return;
    }
    for (name, stamp, anchor) in [("poseidon", INT, 240.0), ("swift", Stamp::Off, 1_860.0)] {
        let mut plan = new_plan(name, &[], stamp, &[(24, 0), (48, 0)], Topology::poseidon_clos(12));
        let mut slow = plan.laws[0].clone();
        slow.set("initial-window", "1 packets").expect("both laws have this parameter");
        plan.laws.push(slow);
        plan.connections[1].law = 1;
        let start = Picos::new(4_000_000_000);
        plan.messages[1].start = start;
        pin_to_port(&mut plan, 0, SwitchPort::new(SwitchId::new(1), PortId::new(24)));
        pin_to_port(&mut plan, 1, SwitchPort::new(SwitchId::new(2), PortId::new(25)));
        plan.watched_connections = plans::connection_ids([1]);
        plan.sample_every = Picos::new(10_000_000);
        let rows = run(&plan);
        // Five sample intervals cover 50 us.
        let reached = rows
            .receivers
            .windows(6)
            .find(|rows| (rows[5].received.get() - rows[0].received.get()) as f64 * 8.0 / 5e4 >= 90.0);
        let us = reached.map_or(f64::NAN, |rows| (rows[5].time - start).get() as f64 / 1e6);
        table.print_row(
            &format!("ramp to 90 Gbps, {name}, us"),
            anchor,
            us,
            "the bins of the prototype are unknown",
        );
    }
}

/// Compares variants of Poseidon on the two hops of Fig. 14(a).
fn compare_ablations(table: &mut Table) {
    if !table.is_requested("ablation") {
        return;
    }
    let variants = [
        ("rtt as signal", ("signal", "rtt"), 31.0, 2.1),
        ("fixed target", ("target", "fixed"), 10.9, 5.8),
        ("AIMD", ("update", "aimd"), 65.3, 18.5),
    ];
    for (name, setting, anchor_2, anchor_9) in variants {
        for (m, anchor) in [(2, anchor_2), (9, anchor_9)] {
            let mut plan = multi_hop_plan("poseidon", &[setting], INT, m, m);
            let reason = "no equilibrium on two hops: it depends on the base RTT";
            table.print_row(
                &format!("ablation ({m}, {m}), {name}, Gbps"),
                anchor,
                measure_rates(&mut plan)[0],
                reason,
            );
        }
    }
}
