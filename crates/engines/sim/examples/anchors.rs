//! The checks of a first, throw-away simulator of Poseidon's evaluation, run again: what it gave beside what this one gives.
//!
//! `cargo run --release -p poseidon-sim --example anchors`; a word of a row's name to see only those, `--json` for one object per row. The
//! anchors are single runs of another program with choices of its own, so they are held to ten percent, and a row that is further off
//! says why.

use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Nanos, Picos};

const INT: Stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
const RECORDS: Stamp = Stamp::HopRecords(RecordCarrier::Exact);

fn main() {
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let mut table = Table { off: 0, rows: 0, wanted, json: options.iter().any(|option| option == "--json") };
    table.head();
    multi_hop(&mut table);
    one_hop(&mut table);
    reverse_path(&mut table);
    testbed(&mut table);
    ramp(&mut table);
    ablations(&mut table);
    table.foot();
}

/// Rows of anchor and result.
struct Table {
    off: u32,
    rows: u32,
    wanted: Vec<String>,
    json: bool,
}

impl Table {
    fn head(&self) {
        if !self.json {
            println!("{:<44} {:>9} {:>9} {:>7}", "", "anchor", "here", "ratio");
        }
    }

    fn foot(&self) {
        if !self.json {
            println!("{} of {} rows are more than ten percent off", self.off, self.rows);
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word))
    }

    fn row(&mut self, name: &str, anchor: f64, here: f64, about: &str) {
        let ratio = here / anchor;
        let is_off = !(0.9..=1.1).contains(&ratio);
        self.rows += 1;
        self.off += u32::from(is_off);
        if self.json {
            // JSON has no NaN.
            let number = |x: f64| if x.is_finite() { format!("{x:.4}") } else { "null".to_owned() };
            println!(
                "{{\"row\":\"{name}\",\"anchor\":{anchor},\"here\":{},\"ratio\":{},\"within_tenth\":{}}}",
                number(here),
                number(ratio),
                !is_off
            );
            return;
        }
        let note = if is_off { about } else { "" };
        println!("{name:<44} {anchor:>9.2} {here:>9.2} {ratio:>7.3}  {note}");
    }
}

fn law(name: &str, settings: &[(&str, &str)], stamp: Stamp, ends: &[(u32, u32)], topology: Topology) -> Plan {
    let mut plan = plans::plan(topology, name, ends);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("a parameter of the law");
    }
    plan.switch.stamp = stamp;
    plan
}

fn run(plan: &Plan) -> Kept {
    let mut kept = Kept::default();
    Simulator::default().run(plan, &mut kept).expect("runs");
    kept
}

/// The rate of each watched connection over the second half, Gbps.
fn rates(plan: &mut Plan) -> Vec<f64> {
    let count = u32::try_from(plan.connections.len()).expect("few");
    plan.watched_connections = (0..count).collect();
    plan.sample_every = Picos::new(plan.stop.get() / 2);
    let kept = run(plan);
    let (half, whole) = kept.receivers.split_at(kept.receivers.len() / 2);
    let ns = plan.stop.get() as f64 / 2e3;
    whole.iter().zip(half).map(|(b, a)| (b.received.get() - a.received.get()) as f64 * 8.0 / ns).collect()
}

/// Fig. 14(a): the victim and M others over one uplink of rack 0, N others into the victim's host.
fn multi_hop_plan(name: &str, settings: &[(&str, &str)], stamp: Stamp, m: u32, n: u32) -> Plan {
    let (victim, target) = (0, 24 * 10);
    let mut ends = vec![(victim, target)];
    ends.extend((1..=m).map(|i| (i, 24 * 11 + i)));
    ends.extend((1..=n).map(|i| (24 * i, target)));
    let mut plan = law(name, settings, stamp, &ends, Topology::poseidon_clos(12));
    let red = first_port(&plan, plan.connections[0]);
    for green in 1..=m as usize {
        pin(&mut plan, green, red);
    }
    plan
}

/// The port by which a connection leaves its first switch.
fn first_port(plan: &Plan, connection: Connection) -> (u32, u32) {
    Simulator::default().routes(plan, &[connection])[0][0]
}

/// Gives a connection an entropy that leads it to a port of its first switch.
fn pin(plan: &mut Plan, index: usize, port: (u32, u32)) {
    let connection = plan.connections[index];
    let leads = |entropy: &u32| first_port(plan, Connection { entropy: *entropy, ..connection }) == port;
    plan.connections[index].entropy = (0..).find(leads).expect("some entropy leads there");
}

fn multi_hop(table: &mut Table) {
    if !table.wants("multi-hop") {
        return;
    }
    for (m, n, anchor) in [(0, 2, 66.3), (2, 2, 65.6), (2, 9, 20.4), (9, 2, 20.3), (9, 9, 18.9), (5, 9, 20.4)]
    {
        let mut plan = multi_hop_plan("poseidon", &[], INT, m, n);
        table.row(&format!("multi-hop ({m}, {n}) poseidon victim, Gbps"), anchor, rates(&mut plan)[0], "");
    }
    for (m, n) in [(2, 2), (9, 9)] {
        let mut plan = multi_hop_plan("swift", &[], Stamp::Off, m, n);
        table.row(&format!("multi-hop ({m}, {n}) swift victim, Gbps"), 0.7, rates(&mut plan)[0], SMALL);
        let mut plan = multi_hop_plan("hpcc", &[], RECORDS, m, n);
        plan.stop = Picos::new(10_000_000_000);
        table.row(&format!("multi-hop ({m}, {n}) hpcc victim, Gbps"), 3.2, rates(&mut plan)[0], SMALL);
    }
}

const SMALL: &str = "starved either way: below 3 % of the line";

/// N hosts of different racks to one.
fn one_hop(table: &mut Table) {
    if !table.wants("one hop") {
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
            let (delay, use_of_line, sd) = one_hop_run(name, stamp, n);
            table.row(&format!("one hop, {n} {name}, delay us"), anchor, delay, FEW);
            table.row(&format!("one hop, {n} {name}, use of the line"), 1.0, use_of_line, "");
            if let Some((p, s, _)) = spread {
                let anchor = if name == "poseidon" { p } else { s };
                table.row(&format!("one hop, {n} {name}, sd of rates % of fair"), anchor, sd, SPREAD);
            }
        }
        if let Some((.., h)) = spread {
            let (_, use_of_line, sd) = one_hop_run("hpcc", RECORDS, n);
            table.row(
                &format!("one hop, {n} hpcc, use of the line"),
                0.915,
                use_of_line,
                "its first burst does not fit the buffer",
            );
            table.row(&format!("one hop, {n} hpcc, sd of rates % of fair"), h, sd, SPREAD);
        }
    }
}

const FEW: &str = "windows of one packet or two";
const SPREAD: &str = "windows of few packets, or HPCC; see docs/simulator.md";

/// Mean delay at the last hop in us, use of its line, and the spread of the flows' rates in bins of 1 ms, in percent of the fair share;
/// over the second half of 20 ms.
fn one_hop_run(name: &str, stamp: Stamp, n: u32) -> (f64, f64, f64) {
    let racks = 25;
    let ends: Vec<_> = (0..n).map(|i| (24 * (1 + i % (racks - 1)) + i / (racks - 1), 0)).collect();
    let mut plan = law(name, &[], stamp, &ends, Topology::poseidon_clos(racks));
    // Evenly over the eight planes of the fabric, so that only the last hop is congested.
    for index in 0..n as usize {
        let rack = plan.connections[index].from / 24;
        pin(&mut plan, index, (rack, 24 + u32::try_from(index % 8).expect("small")));
    }
    for message in &mut plan.messages {
        message.at = Picos::ZERO;
    }
    // The anchor's senders had no timeout; the first burst waits for milliseconds.
    plan.transport.first_rto = Nanos::from_millis(10);
    plan.watched = vec![(0, 0)];
    plan.watched_connections = (0..n).collect();
    plan.sample_every = Picos::new(10_000_000);
    let kept = run(&plan);
    let late = |at: Picos| at.get() > plan.stop.get() / 2;
    let queue: Vec<_> = kept.queues.iter().filter(|row| late(row.at)).collect();
    let delay = queue.iter().map(|row| row.delay.get() as f64 / 1e3).sum::<f64>() / queue.len() as f64;
    let (first, last) = (queue[0], queue[queue.len() - 1]);
    let gbps = (last.sent.get() - first.sent.get()) as f64 * 8e3 / (last.at - first.at).get() as f64;
    // Bins of a millisecond: samples 100 apart.
    let per_sample = n as usize;
    let at = |ms: usize| &kept.receivers[(ms * 100 - 1) * per_sample..][..per_sample];
    let fair = 200.0 / f64::from(n);
    let rate = |flow: usize, ms: usize| {
        (at(ms + 1)[flow].received.get() - at(ms)[flow].received.get()) as f64 * 8.0 / 1e6 / fair
    };
    // Each flow around its own mean; what flows differ by for long is not in it.
    let variance = |flow: usize| {
        let rates: Vec<f64> = (10..20).map(|ms| rate(flow, ms)).collect();
        let mean = rates.iter().sum::<f64>() / 10.0;
        rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / 10.0
    };
    let spread = (0..per_sample).map(|flow| variance(flow).sqrt()).sum::<f64>() / f64::from(n);
    (delay, gbps / 200.0, 100.0 * spread)
}

/// A victim from A to B while N others send to A: its ACKs are behind their data.
fn reverse_path(table: &mut Table) {
    if !table.wants("reverse path") {
        return;
    }
    for (n, swift, hpcc) in [(2, 118.0, 189.0), (4, 58.0, 188.0), (9, 25.0, 189.0)] {
        for (name, stamp, anchor) in
            [("poseidon", INT, 200.0), ("swift", Stamp::Off, swift), ("hpcc", RECORDS, hpcc)]
        {
            let mut ends = vec![(0, 24 * 10)];
            ends.extend((1..=n).map(|i| (24 * i, 0)));
            let mut plan = law(name, &[], stamp, &ends, Topology::poseidon_clos(12));
            let about = "closed form: the victim gets what each of the others has, 200 / N";
            table.row(&format!("reverse path, {n} {name} victim, Gbps"), anchor, rates(&mut plan)[0], about);
        }
    }
}

/// Section 5.1: 10 Gbps ports, 1 us per hop, 1500 B.
fn testbed(table: &mut Table) {
    if !table.wants("testbed") {
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
        let mut plan = law(name, settings, stamp, &ends, chain(hosts));
        to_testbed(&mut plan);
        table.row(&format!("testbed (2, 2) {name} victim, Gbps"), anchor, rates(&mut plan)[0], SMALL);
    }
    let ends: Vec<(u32, u32)> = [(0, 5)].into_iter().chain((1..=4).map(|i| (i, 0))).collect();
    for (name, settings, stamp, anchor) in
        [("poseidon", &[("max-rate", "10 Gbps")][..], INT, 10.0), ("swift", &[], Stamp::Off, 2.5)]
    {
        let mut plan = law(name, settings, stamp, &ends, Topology::star(6, link));
        to_testbed(&mut plan);
        table.row(&format!("testbed, reverse path, 4 {name}, Gbps"), anchor, rates(&mut plan)[0], "");
    }
}

fn to_testbed(plan: &mut Plan) {
    plan.transport.mtu = Bytes::new(1_500);
    plan.transport.min_rto = Nanos::from_millis(1);
    plan.stop = Picos::new(100_000_000_000);
}

/// A second flow begins with one packet beside one that has the line of 200 Gbps: until it has 90 % of its 100 Gbps.
fn ramp(table: &mut Table) {
    if !table.wants("ramp") {
        return;
    }
    for (name, stamp, anchor) in [("poseidon", INT, 240.0), ("swift", Stamp::Off, 1_860.0)] {
        let mut plan = law(name, &[], stamp, &[(24, 0), (48, 0)], Topology::poseidon_clos(12));
        let mut slow = plan.laws[0].clone();
        slow.set("initial-window", "1 packets").expect("a parameter of both laws");
        plan.laws.push(slow);
        plan.connections[1].law = 1;
        let start = Picos::new(4_000_000_000);
        plan.messages[1].at = start;
        pin(&mut plan, 0, (1, 24));
        pin(&mut plan, 1, (2, 25));
        plan.watched_connections = vec![1];
        plan.sample_every = Picos::new(10_000_000);
        let kept = run(&plan);
        // Five samples: the rate over 50 us.
        let reached = kept
            .receivers
            .windows(6)
            .find(|rows| (rows[5].received.get() - rows[0].received.get()) as f64 * 8.0 / 5e4 >= 90.0);
        let us = reached.map_or(f64::NAN, |rows| (rows[5].at - start).get() as f64 / 1e6);
        table.row(&format!("ramp to 90 Gbps, {name}, us"), anchor, us, "the anchor's bins are not known");
    }
}

/// Variants of Poseidon's law on the two hops of Fig. 14(a).
fn ablations(table: &mut Table) {
    if !table.wants("ablation") {
        return;
    }
    let variants = [
        ("rtt as signal", ("signal", "rtt"), 31.0, 2.1),
        ("fixed target", ("target", "fixed"), 10.9, 5.8),
        ("AIMD", ("update", "aimd"), 65.3, 18.5),
    ];
    for (name, setting, few, many) in variants {
        for (m, anchor) in [(2, few), (9, many)] {
            let mut plan = multi_hop_plan("poseidon", &[setting], INT, m, m);
            let about = "has no equilibrium on two hops: moves with the base RTT";
            table.row(&format!("ablation ({m}, {m}), {name}, Gbps"), anchor, rates(&mut plan)[0], about);
        }
    }
}
