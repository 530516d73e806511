//! Runs the scenarios in Poseidon's simulator.

use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{AnyMarkPolicy, DelayCarrier, PerQueue, Stamp, Step};
use poseidon_plan::topology;
use poseidon_plan::{Backend, Link, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Nanos, Picos};

use crate::chain::{BUFFER, Chain, WatchedQueue};
use crate::results::{DumbbellResult, Speed, measure_seconds};
use crate::scenario::{
    Dumbbell, HEADERS, Law, MARK_PACKETS, QueueDiscipline, SEGMENT, SLICES, Star, packet_size,
};

pub(crate) fn run_dumbbell(scenario: &Dumbbell) -> Result<DumbbellResult, PlanError> {
    run_plan(&dumbbell_plan(scenario))
}

pub(crate) fn run_chain(chain: &Chain) -> Result<DumbbellResult, PlanError> {
    run_plan(&chain_plan(chain))
}

/// Runs a plan that watches one port and all connections.
fn run_plan(plan: &Plan) -> Result<DumbbellResult, PlanError> {
    let mut rows = MemorySink::default();
    let report = Simulator::default().run(plan, &mut rows)?;
    let half = plan.stop.get() / 2;
    let slice = half / SLICES as u64;
    let flows = plan.connections.len();
    // Returns the bytes that each flow has received by `time`, according to its last sample at or before that time.
    let received_at = |time: u64| -> Vec<f64> {
        let end = rows.receivers.partition_point(|row| row.time.get() <= time);
        rows.receivers[end - flows..end].iter().map(|row| row.received.get() as f64).collect()
    };
    let rates = |index: usize| {
        let begin = half + index as u64 * slice;
        let (before, after) = (received_at(begin), received_at(begin + slice));
        after.iter().zip(before).map(|(after, before)| (after - before) * 8e12 / slice as f64).collect()
    };
    let second_half = rows.queues.iter().filter(|row| row.time.get() > half);
    let queued: Vec<f64> = second_half.map(|row| row.queued.get() as f64).collect();
    let mean_queue_bytes = queued.iter().sum::<f64>() / queued.len() as f64;
    let goodput_bps = (0..SLICES).map(rates).collect();
    Ok(DumbbellResult { goodput_bps, mean_queue_bytes, drops: report.dropped })
}

pub(crate) fn run_star(scenario: &Star) -> Result<Speed, PlanError> {
    let plan = star_plan(scenario);
    let run = || Simulator::default().run(&plan, &mut MemorySink::default());
    let (report, wall_seconds) = measure_seconds(run);
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
    configure_like_ns3(&mut plan, scenario.min_rto);
    plan.stop = Picos::from_nanos(scenario.stop);
    plan.switch.buffer = PerQueue { size: packet_size() * scenario.buffer }.into();
    plan.switch.mark = match scenario.discipline {
        QueueDiscipline::MarkOnDequeue | QueueDiscipline::MarkOnEnqueue => {
            Step { threshold: packet_size() * scenario.threshold }.into()
        }
        QueueDiscipline::Fifo => AnyMarkPolicy::OFF,
    };
    for (flow, message) in (0..).zip(&mut plan.messages) {
        message.start = Picos::from_nanos(Nanos::new(scenario.start_gap.get() * flow));
    }
    plan.watched_connections = plans::connection_ids(0..flows);
    // On switch 0, the host ports come first, and the next port leads to switch 1.
    plan.watched_ports = plans::switch_ports(&[(0, flows)]);
    plan.sample_every = Picos::from_nanos(scenario.sample_interval());
    plan
}

/// Returns the plan of a chain.
pub(crate) fn chain_plan(chain: &Chain) -> Plan {
    let delay = Picos::from_nanos(chain.delay);
    let topology = Topology::Chain(topology::Chain {
        switches: chain.switches,
        hosts: chain.hosts,
        host_link: Link { rate: chain.host_rate, delay },
        middle_link: Link { rate: chain.rate, delay },
    });
    let mut plan = plans::plan(topology, chain.law, &chain.flows);
    for (name, value) in chain.params {
        plan.laws[0].set(name, value).expect("the parameters are valid");
    }
    configure_like_ns3(&mut plan, Nanos::from_millis(10));
    // ns-3 carries the maximum hop delay in a tag, without bytes.
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
    plan.stop = Picos::from_nanos(chain.stop);
    plan.switch.buffer = PerQueue { size: packet_size() * BUFFER }.into();
    plan.switch.mark = chain
        .threshold()
        .map_or(AnyMarkPolicy::OFF, |packets| Step { threshold: packet_size() * packets }.into());
    for (flow, message) in plan.messages.iter_mut().enumerate() {
        message.start = Picos::from_nanos(chain.start(flow));
    }
    let flows = u32::try_from(chain.flows.len()).expect("there are few flows");
    plan.watched_connections = plans::connection_ids(0..flows);
    // The host ports come first, then the port to the previous switch, if there is one.
    let port = match chain.queue {
        WatchedQueue::ToHost(host) => (host / chain.hosts, host % chain.hosts),
        WatchedQueue::ToNext(switch) => (switch, chain.hosts + u32::from(switch > 0)),
    };
    plan.watched_ports = plans::switch_ports(&[port]);
    plan.sample_every = Picos::from_nanos(chain.sample_interval());
    plan
}

fn star_plan(scenario: &Star) -> Plan {
    let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    let (hosts, shift) = (scenario.hosts, scenario.shift());
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + shift) % hosts)).collect();
    let mut plan = plans::plan(Topology::star(hosts, link), "dctcp", &ends);
    configure_like_ns3(&mut plan, Nanos::from_millis(10));
    plan.stop = Picos::from_nanos(scenario.stop);
    plan.switch.buffer = PerQueue { size: packet_size() * 1_000 }.into();
    plan.switch.mark = Step { threshold: packet_size() * MARK_PACKETS }.into();
    plan
}

/// Configures packet sizes, timeouts and switches to match ns-3. Switches have no telemetry and no pipeline delay.
fn configure_like_ns3(plan: &mut Plan, min_rto: Nanos) {
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = SEGMENT;
    plan.transport.header = HEADERS;
    plan.transport.ack = HEADERS;
    plan.transport.min_rto = min_rto;
    // RFC 6298 and ns-3 use an initial RTO of one second.
    plan.transport.first_rto = Nanos::from_millis(1_000);
}
