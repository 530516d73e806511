//! The schedule of a run: samples, changes during the run, and the final report.

use crate::flow::{Clock, Flow, Row};
use crate::laws::Laws;
use crate::layout::{Layout, port_name};
use crate::namespace::run_in_node;
use crate::network::{Network, is_shaped};
use crate::traffic;
use crate::{Result, machine_error, private_netns};
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use poseidon_linux::sojourn::{Port, SojournMonitor};
use poseidon_linux::tcp;
use poseidon_plan::records::{Progress, QueueRow, ReceiverRow, SenderRow, Sink};
use poseidon_plan::stack::Side;
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::{Stamp, TelemetryOff};
use poseidon_plan::topology::Node;
use poseidon_plan::{Plan, PlanError, Report, SwitchPort};
use poseidon_types::{Bytes, Picos, SwitchId};
use std::sync::mpsc::{self, Receiver};

/// The time between opening the connections and starting the clock, during which handshakes complete and queues
/// drain.
const SETTLE_TIME: Duration = Duration::from_millis(200);

pub(crate) fn run(
    plan: &Plan,
    layout: &Layout,
    stacks: Option<&dyn StackFactory>,
    sink: &mut dyn Sink,
) -> Result<Report> {
    if !private_netns::is_inside() {
        let error =
            "this process is not in private namespaces; call poseidon_testbed::private_netns::exec_inside";
        return Err(machine_error("the testbed", error));
    }
    let is_unshaped = |watched: &&SwitchPort| !is_shaped(layout.peer_of(watched.switch, watched.port).1);
    if let Some(SwitchPort { switch, port }) = plan.watched_ports.iter().find(is_unshaped) {
        let (switch, port) = (switch.get(), port.get());
        return Err(PlanError::BackendFailed(format!(
            "port {port} of switch {switch} is watched, but its link is faster than 500 Mbps and is not shaped"
        )));
    }
    let network = Network::build(plan, layout)?;
    let laws = Laws::register(plan, layout)?;
    let ports = plan.watched_ports.iter().map(|SwitchPort { switch, port }| {
        let find = || Port::find(&port_name(*port)).map_err(|error| machine_error("a port to watch", error));
        run_in_node(Node::Switch(*switch), find)?
    });
    let ports: Vec<Port> = ports.collect::<Result<_>>()?;
    let monitor =
        SojournMonitor::attach(&ports).map_err(|error| machine_error("monitoring queues", error))?;
    let connections = traffic::open(plan, &laws, stacks)?;
    let (row_sender, rows) = mpsc::channel();
    let clock = Clock::starting_in(SETTLE_TIME);
    let flows = connections
        .into_iter()
        .map(|connection| connection.start(plan, clock, &row_sender))
        .collect::<Result<Vec<_>>>()?;
    let sampler = Sampler { plan, network: &network, monitor: &monitor, flows: &flows, clock, rows: &rows };
    let report = sampler.run(sink).and_then(|end| {
        let mut report = report(&network, &laws, &flows)?;
        (report.ended, report.interrupted) = (end.time, end.interrupted);
        report.max_lateness = end.max_lateness;
        Ok(report)
    });
    let ended = flows.into_iter().map(Flow::end).fold(Ok(()), Result::and);
    ended.and(report)
}

/// Samples queues and receivers during a run.
struct Sampler<'a> {
    plan: &'a Plan,
    network: &'a Network<'a>,
    monitor: &'a SojournMonitor,
    flows: &'a [Flow],
    clock: Clock,
    rows: &'a Receiver<Row>,
}

/// How and when a run ended.
struct RunEnd {
    time: Picos,
    interrupted: bool,
    /// The maximum lateness of any sample.
    max_lateness: Picos,
}

impl Sampler<'_> {
    /// Takes samples until the run ends.
    fn run(&self, sink: &mut dyn Sink) -> Result<RunEnd> {
        let mut changes = telemetry_changes(self.plan);
        let (mut time, mut finished, mut max_lateness) = (Picos::ZERO, 0, Picos::ZERO);
        while time < self.plan.stop {
            time = (time + self.plan.sample_every).min(self.plan.stop);
            while let Some((when, switch, stamps)) = changes.pop_if(|(when, ..)| *when <= time) {
                self.clock.wait(when);
                self.network.set_stamps(switch, stamps)?;
            }
            self.clock.wait(time);
            max_lateness = max_lateness.max(self.clock.now() - time);
            self.sample(time, sink)?;
            finished += self.forward_rows(sink);
            let progress = Progress { now: time, packet_hops: 0, finished };
            if sink.on_progress(progress) == ControlFlow::Break(()) {
                return Ok(RunEnd { time, interrupted: true, max_lateness });
            }
        }
        Ok(RunEnd { time, interrupted: false, max_lateness })
    }

    fn sample(&self, time: Picos, sink: &mut dyn Sink) -> Result<()> {
        let queues = self.monitor.read().map_err(|error| machine_error("reading queues", error))?;
        for (&SwitchPort { switch, port }, queue) in self.plan.watched_ports.iter().zip(queues) {
            sink.record_queue(QueueRow {
                time,
                switch,
                port,
                queued: queue.backlog,
                delay: queue.delay,
                sent: queue.sent,
            });
        }
        for flow in self.flows {
            let connection = flow.connection;
            if self.plan.watched_connections.binary_search(&connection).is_err() {
                continue;
            }
            if let Some(counters) = flow.stack_counters() {
                let (state, mtu) = (counters.state(Side::Sender), self.plan.transport.mtu);
                sink.record_sender(SenderRow::from_stack(time, connection, &state, mtu));
            }
            sink.record_receiver(ReceiverRow { time, connection, received: flow.received() });
        }
        Ok(())
    }

    /// Forwards the connections' rows to the sink. Returns the number of finished messages.
    fn forward_rows(&self, sink: &mut dyn Sink) -> u64 {
        let mut finished = 0;
        for row in self.rows.try_iter() {
            match row {
                Row::Acknowledged(row) => {
                    finished += 1;
                    sink.record_message(row);
                }
                Row::Received(row) => sink.record_received(row),
            }
        }
        finished
    }
}

/// Returns the times at which switches stop or resume stamping, latest first.
fn telemetry_changes(plan: &Plan) -> Vec<(Picos, SwitchId, bool)> {
    let is_temporary = |period: &&TelemetryOff| **period != TelemetryOff::always(period.switch);
    let mut changes: Vec<_> = match plan.switch.stamp {
        Stamp::Off => Vec::new(),
        _ => plan
            .telemetry_off
            .iter()
            .filter(is_temporary)
            .flat_map(|period| [(period.from, period.switch, false), (period.until, period.switch, true)])
            .collect(),
    };
    changes.sort_by(|a, b| b.cmp(a));
    changes
}

/// Builds the report from the kernel's counters and those of the connections in real stacks.
fn report(network: &Network<'_>, laws: &Laws, flows: &[Flow]) -> Result<Report> {
    let switches = network.switch_counters()?;
    let mut report = Report {
        packet_hops: switches.packets,
        dropped: switches.dropped,
        marks: switches.marks,
        marks_carried: switches.marks_delivered,
        sent: network.host_counter("Tcp:", "OutSegs")?,
        delivered: network.host_counter("Tcp:", "InSegs")?,
        retransmitted: network.host_counter("Tcp:", "RetransSegs")?,
        timeouts: network.host_counter("TcpExt:", "TCPTimeouts")?,
        delivered_bytes: Bytes::new(flows.iter().map(|flow| flow.received().get()).sum()),
        ..Report::default()
    };
    for counters in flows.iter().filter_map(Flow::stack_counters) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        report.sent += load(&counters.sent);
        report.sent_bytes += Bytes::new(load(&counters.sent_bytes));
        report.delivered += load(&counters.arrived);
        report.retransmitted += counters.lost();
    }
    if laws.has_poseidon() {
        for flow in tcp::flows().map_err(|error| machine_error("the table of flows", error))? {
            let counters = flow.counters;
            report.decisions += counters.acks_with_echo + counters.acks_without_echo;
            report.decisions_with_telemetry += counters.acks_with_echo;
        }
    }
    Ok(report)
}
