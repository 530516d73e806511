//! The clock of a run: what is written down at each sample, what changes in the middle, and the report at the end.

use crate::laws::Laws;
use crate::layout::{Layout, port_name};
use crate::network::{Network, enter, is_shaped};
use crate::traffic::{self, Clock, Flow, Row};
use crate::{Result, failed, room};
use core::ops::ControlFlow;
use core::time::Duration;
use poseidon_linux::sojourn::{Port, Sojourns};
use poseidon_linux::tcp;
use poseidon_plan::records::{Progress, QueueRow, ReceiverRow, Sink};
use poseidon_plan::switch::{Silence, Stamp};
use poseidon_plan::topology::End;
use poseidon_plan::{Plan, PlanError, Report};
use poseidon_types::{Bytes, Picos};
use std::sync::mpsc::{self, Receiver};

/// Between the last connection's opening and the start: handshakes are over, and nothing waits.
const BREATH: Duration = Duration::from_millis(200);

pub(crate) fn run(plan: &Plan, layout: &Layout, sink: &mut dyn Sink) -> Result<Report> {
    if !room::is_inside() {
        return Err(failed("the testbed", "it must be entered first: poseidon_testbed::room::enter"));
    }
    if let Some((switch, port)) = plan.watched.iter().find(|(s, p)| !is_shaped(layout.behind(*s, *p).1)) {
        return Err(PlanError::Machine(format!(
            "port {port} of switch {switch} is watched, but its link is faster than 500 Mbps and has no queue here"
        )));
    }
    let network = Network::build(plan, layout)?;
    let laws = Laws::register(plan, layout)?;
    let ports = plan.watched.iter().map(|(switch, port)| {
        let find = || Port::find(&port_name(*port)).map_err(|why| failed("a port to watch", why));
        enter(End::Switch(*switch), find)?
    });
    let ports: Vec<Port> = ports.collect::<Result<_>>()?;
    let sojourns = Sojourns::watch(&ports).map_err(|why| failed("watching queues", why))?;
    let open = traffic::open(plan, &laws)?;
    let (tell, told) = mpsc::channel();
    let clock = Clock::starts_in(BREATH);
    let flows = open.into_iter().map(|open| open.start(plan, clock, &tell)).collect::<Result<Vec<_>>>()?;
    let samples = Samples { plan, network: &network, sojourns: &sojourns, flows: &flows, clock, rows: &told };
    let ended = samples.take(sink);
    let report = ended.and_then(|taken| {
        let mut report = report(&network, &laws, &flows)?;
        (report.ended, report.broken_off, report.late) = (taken.ended, taken.broken_off, taken.late);
        Ok(report)
    });
    flows.into_iter().for_each(Flow::end);
    report
}

/// What is looked at while a run goes on.
struct Samples<'a> {
    plan: &'a Plan,
    network: &'a Network<'a>,
    sojourns: &'a Sojourns,
    flows: &'a [Flow],
    clock: Clock,
    rows: &'a Receiver<Row>,
}

/// How the samples of a run went.
struct Taken {
    ended: Picos,
    broken_off: bool,
    /// How long after its time the latest of them came.
    late: Picos,
}

impl Samples<'_> {
    /// Until the run is over.
    fn take(&self, sink: &mut dyn Sink) -> Result<Taken> {
        let mut changes = changes(self.plan);
        let (mut at, mut finished, mut late) = (Picos::ZERO, 0, Picos::ZERO);
        while at < self.plan.stop {
            at = (at + self.plan.sample_every).min(self.plan.stop);
            while let Some((when, switch, stamps)) = changes.pop_if(|(when, ..)| *when <= at) {
                self.clock.wait(when);
                self.network.set_stamps(switch, stamps)?;
            }
            self.clock.wait(at);
            late = late.max(self.clock.now() - at);
            self.sample(at, sink)?;
            finished += self.hand_over(sink);
            let progress = Progress { now: at, packet_hops: 0, finished };
            if sink.progress(progress) == ControlFlow::Break(()) {
                return Ok(Taken { ended: at, broken_off: true, late });
            }
        }
        Ok(Taken { ended: at, broken_off: false, late })
    }

    fn sample(&self, at: Picos, sink: &mut dyn Sink) -> Result<()> {
        let queues = self.sojourns.read().map_err(|why| failed("reading queues", why))?;
        for ((switch, port), queue) in self.plan.watched.iter().zip(queues) {
            sink.queue(QueueRow {
                at,
                switch: *switch,
                port: *port,
                waiting: queue.waiting,
                delay: queue.delay,
                sent: queue.sent,
            });
        }
        for flow in self.flows {
            if self.plan.watched_connections.binary_search(&flow.connection).is_ok() {
                sink.receiver(ReceiverRow { at, connection: flow.connection, received: flow.received() });
            }
        }
        Ok(())
    }

    /// Rows that the ends have written since; how many messages are finished.
    fn hand_over(&self, sink: &mut dyn Sink) -> u64 {
        let mut finished = 0;
        for row in self.rows.try_iter() {
            match row {
                Row::Acknowledged(row) => {
                    finished += 1;
                    sink.message(row);
                }
                Row::Received(row) => sink.received(row),
            }
        }
        finished
    }
}

/// When switches fall silent and speak again, the last first.
fn changes(plan: &Plan) -> Vec<(Picos, u32, bool)> {
    let for_a_while = |silence: &&Silence| **silence != Silence::always(silence.switch);
    let mut changes: Vec<_> = match plan.switch.stamp {
        Stamp::Off => Vec::new(),
        _ => plan
            .silences
            .iter()
            .filter(for_a_while)
            .flat_map(|silence| {
                [(silence.from, silence.switch, false), (silence.until, silence.switch, true)]
            })
            .collect(),
    };
    changes.sort_by(|a, b| b.cmp(a));
    changes
}

/// What was counted, from the kernel's own counters.
fn report(network: &Network<'_>, laws: &Laws, flows: &[Flow]) -> Result<Report> {
    let counted = network.counted()?;
    let mut report = Report {
        packet_hops: counted.packets,
        dropped: counted.dropped,
        marks: counted.marks,
        marks_taken: counted.marks_taken,
        sent: network.of_hosts("Tcp:", "OutSegs")?,
        delivered: network.of_hosts("Tcp:", "InSegs")?,
        retransmitted: network.of_hosts("Tcp:", "RetransSegs")?,
        timeouts: network.of_hosts("TcpExt:", "TCPTimeouts")?,
        delivered_bytes: Bytes::new(flows.iter().map(|flow| flow.received().get()).sum()),
        ..Report::default()
    };
    if laws.has_poseidon() {
        for flow in tcp::flows().map_err(|why| failed("the table of flows", why))? {
            let counters = flow.counters;
            report.decisions += counters.acks_with_echo + counters.acks_without_echo;
            report.decisions_with_telemetry += counters.acks_with_echo;
        }
    }
    Ok(report)
}
