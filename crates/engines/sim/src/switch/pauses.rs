//! What PFC did to the ports of a run: pause times, and ports that wait for each other at its end.

use poseidon_plan::SwitchPort;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{PauseTimeRow, PauseWaitRow};
use poseidon_plan::topology::Node;
use poseidon_types::{Picos, PortId, SwitchId};

use super::Switches;
use crate::context::ShardContext;

/// The shortest pause after which a port counts as blocked: 100 us, in which a port at 25 Gbps sends 312 kB.
const BLOCKED_AFTER: Picos = Picos::new(100_000_000);

impl Switches {
    /// Records the pause times of the run, which ends at `end`, and the ports that wait for each other.
    pub(crate) fn record_pauses(&self, ctx: &mut ShardContext<'_>, end: Picos) {
        if self.pauses.is_empty() {
            return;
        }
        for switch in 0..self.switches.len() {
            let state = &self.switches[switch];
            let first = state.first_port as usize;
            for port in first..first + state.ports as usize {
                let paused = self.pauses[port].total(self.ports[port].paused, end);
                if paused > Picos::ZERO {
                    let port = NodePort::new(Node::Switch(state.id), self.port_id(switch, port));
                    ctx.rows.pause_times.push(PauseTimeRow { port, paused });
                }
                if self.pauses[port].current(self.ports[port].paused, end) >= BLOCKED_AFTER {
                    self.record_waits_for(ctx, switch, port);
                }
            }
        }
    }

    /// Records the ports that wait for a blocked port: its switch has paused them, and their packets are in the queue
    /// of the blocked port.
    fn record_waits_for(&self, ctx: &mut ShardContext<'_>, switch: usize, blocked: usize) {
        let Some(pfc) = &self.pfc else { return };
        let state = &self.switches[switch];
        let blocked_by = SwitchPort::new(state.id, self.port_id(switch, blocked));
        for priority in (0..ctx.plan.switch.priorities).filter(|p| self.ports[blocked].paused & 1 << p != 0) {
            let queue = &self.queues[self.ports[blocked].first_queue as usize + usize::from(priority)];
            let mut from_port = vec![false; state.ports as usize];
            let mut next = queue.packets.front();
            while let Some(id) = next {
                let packet = &ctx.arena[id];
                from_port[usize::from(packet.in_port)] = true;
                next = queue.packets.following(&ctx.arena, id);
            }
            for in_port in (0..state.ports).filter(|port| from_port[*port as usize]).map(PortId::new) {
                let peer = ctx.network.peer_of(state.id, in_port);
                let is_paused = pfc.paused_priorities(state.local_port(in_port)) & 1 << priority != 0;
                if is_paused && ctx.network.is_switch(peer.node) {
                    let waiting = SwitchPort::new(SwitchId::new(peer.node.get()), peer.port);
                    ctx.rows.pause_waits.push(PauseWaitRow { waiting, blocked_by, priority });
                }
            }
        }
    }
}
