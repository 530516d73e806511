//! Sampling of watched queues.

use core::cmp::Reverse;
use poseidon_plan::records::QueueRow;
use poseidon_types::{Bytes, Nanos, Picos, PortId, SwitchId};

use super::{PortRole, Switch, Switches, Timer};
use crate::context::ShardContext;

impl Switches {
    /// Records the state of the watched queues on all switches.
    pub(crate) fn sample_all(&self, ctx: &mut ShardContext<'_>, now: Picos) {
        for switch in 0..self.switches.len() {
            self.sample(ctx, switch, now);
        }
    }

    /// Records the state of a switch's watched queues before the events at `now` are processed.
    pub(super) fn sample(&self, ctx: &mut ShardContext<'_>, switch: usize, now: Picos) {
        let Switch { id, ports, .. } = self.switches[switch];
        for port_id in watched_ports(ctx, id).filter(|port| port.get() < ports) {
            let port = self.switches[switch].local_port(port_id);
            let end = self.ports.get(port + 1).map_or(self.queues.len(), |next| next.first_queue as usize);
            let queues = &self.queues[self.ports[port].first_queue as usize..end];
            let sent_in_total: u64 = queues.iter().map(|queue| queue.sent_bytes).sum();
            // A rack's circuit and packet link serve the same queues.
            let sent_by_circuit = self.circuits.get(id.index()).map_or(0, |circuit| circuit.sent_bytes);
            let sent = match self.ports[port].role {
                PortRole::Regular => sent_in_total,
                PortRole::RotorUplink => sent_in_total - sent_by_circuit,
                PortRole::RotorCircuit => sent_by_circuit,
            };
            ctx.rows.queues.push(QueueRow {
                time: now,
                switch: id,
                port: port_id,
                queued: Bytes::new(queues.iter().map(|queue| queue.queued_bytes).sum()),
                delay: Nanos::new(u64::from(self.ports[port].last_delay_ns)),
                sent: Bytes::new(sent),
            });
        }
    }

    /// Sets the timer for the next sample after `now` if that sample is due before the end of the run.
    pub(super) fn arm_sample(&mut self, ctx: &ShardContext<'_>, switch: usize, now: Picos) {
        if let Some(next) = ctx.next_sample(now)
            && watched_ports(ctx, self.switches[switch].id).next().is_some()
        {
            self.switches[switch].timers.push(Reverse((next, Timer::SAMPLE)));
        }
    }
}

/// Returns a switch's watched ports.
fn watched_ports<'a>(ctx: &ShardContext<'a>, switch: SwitchId) -> impl Iterator<Item = PortId> + use<'a> {
    let watched = &ctx.plan.watched_ports;
    let first = watched.partition_point(|port| port.switch < switch);
    watched[first..].iter().take_while(move |port| port.switch == switch).map(|port| port.port)
}
