//! Our side. Every plan of this crate is made here.

use poseidon_plan::records::Kept;
use poseidon_plan::switch::{AnyMark, PerQueue, Stamp, Step};
use poseidon_plan::{Backend, Link, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Nanos, Picos};

use crate::outcome::{Shared, Speed, timed};
use crate::scenario::{Disc, Dumbbell, HEADERS, Law, MARK_PACKETS, SEGMENT, SLICES, Star, packet};

pub(crate) fn dumbbell(scenario: &Dumbbell) -> Result<Shared, PlanError> {
    let plan = dumbbell_plan(scenario);
    let mut kept = Kept::default();
    let report = Simulator::default().run(&plan, &mut kept)?;
    let half = plan.stop.get() / 2;
    let slice = half / SLICES as u64;
    let flows = plan.connections.len();
    // What every flow has received by a time: its last sample before.
    let by = |time: u64| -> Vec<f64> {
        let rows = kept.receivers.partition_point(|row| row.at.get() <= time);
        kept.receivers[rows - flows..rows].iter().map(|row| row.received.get() as f64).collect()
    };
    let rates = |index: usize| {
        let begins = half + index as u64 * slice;
        let (before, after) = (by(begins), by(begins + slice));
        after.iter().zip(before).map(|(after, before)| (after - before) * 8e12 / slice as f64).collect()
    };
    let late = kept.queues.iter().filter(|row| row.at.get() > half);
    let waiting: Vec<f64> = late.map(|row| row.waiting.get() as f64).collect();
    let mean_queue_bytes = waiting.iter().sum::<f64>() / waiting.len() as f64;
    Ok(Shared { goodput_bps: (0..SLICES).map(rates).collect(), mean_queue_bytes, drops: report.dropped })
}

pub(crate) fn star(scenario: &Star) -> Result<Speed, PlanError> {
    let plan = star_plan(scenario);
    let (report, wall_seconds) = timed(|| Simulator::default().run(&plan, &mut Kept::default()));
    Ok(Speed { packet_hops: report?.packet_hops, wall_seconds })
}

fn dumbbell_plan(scenario: &Dumbbell) -> Plan {
    let delay = Picos::from_nanos(scenario.delay);
    let host_link = Link { rate: scenario.host_rate(), delay };
    let middle_link = Link { rate: scenario.rate, delay };
    let flows = scenario.flows;
    let ends: Vec<_> = (0..flows).map(|flow| (flow, flows + flow)).collect();
    let law = match scenario.law {
        Law::Dctcp => "dctcp",
        Law::Cubic => "cubic",
    };
    let mut plan = plans::plan(Topology::dumbbell(flows, host_link, middle_link), law, &ends);
    like_ns3(&mut plan, scenario.min_rto);
    plan.stop = Picos::from_nanos(scenario.stop);
    plan.switch.buffer = PerQueue { size: packet() * scenario.buffer }.into();
    plan.switch.mark = match scenario.disc {
        Disc::Leaving | Disc::Arriving => Step { threshold: packet() * scenario.threshold }.into(),
        Disc::Fifo => AnyMark::OFF,
    };
    for (flow, message) in (0..).zip(&mut plan.messages) {
        message.at = Picos::from_nanos(Nanos::new(scenario.gap.get() * flow));
    }
    plan.watched_connections = (0..flows).collect();
    // The first switch's port to the second comes behind those of its hosts.
    (plan.watched, plan.sample_every) = (vec![(0, flows)], Picos::from_nanos(scenario.look_every()));
    plan
}

fn star_plan(scenario: &Star) -> Plan {
    let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    let (hosts, shift) = (scenario.hosts, scenario.shift());
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + shift) % hosts)).collect();
    let mut plan = plans::plan(Topology::star(hosts, link), "dctcp", &ends);
    like_ns3(&mut plan, Nanos::from_millis(10));
    plan.stop = Picos::from_nanos(scenario.stop);
    plan.switch.buffer = PerQueue { size: packet() * 1_000 }.into();
    plan.switch.mark = Step { threshold: packet() * MARK_PACKETS }.into();
    plan
}

/// Packets, ACKs and switches as ns-3 has them: no telemetry, no time inside a switch.
fn like_ns3(plan: &mut Plan, min_rto: Nanos) {
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = SEGMENT;
    plan.transport.header = HEADERS;
    plan.transport.ack = HEADERS;
    plan.transport.min_rto = min_rto;
    // RFC 6298, and ns-3.
    plan.transport.first_rto = Nanos::from_millis(1_000);
}
