//! Events that change what a port may send: PFC frames, link changes and circuit changes.

use core::cmp::Reverse;
use poseidon_plan::PAUSE_FRAME;
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::DropCause;
use poseidon_plan::topology::Node;
use poseidon_types::{Picos, PortId, QueueId};

use super::{Switch, Switches, Timer, to_u32};
use crate::circuit::Circuit;
use crate::context::ShardContext;
use crate::node::NodeId;
use crate::packet::{Packet, PacketKind, PacketTag};

impl Switches {
    /// Requests a PFC frame that pauses (`xoff`) or resumes one priority at a port's peer.
    pub(super) fn request_pfc_frame(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        priority: u8,
        xoff: bool,
        now: Picos,
    ) {
        let state = &mut self.ports[port];
        let bit = 1 << priority;
        state.pfc_pending |= bit;
        state.pfc_xoff = if xoff { state.pfc_xoff | bit } else { state.pfc_xoff & !bit };
        self.try_depart(ctx, switch, port, now);
    }

    /// Sends a pending PFC frame. PFC frames take priority over all other packets.
    pub(super) fn send_pfc_frame(&mut self, ctx: &mut ShardContext<'_>, port: usize, now: Picos) {
        let state = &mut self.ports[port];
        let priority = state.pfc_pending.trailing_zeros();
        state.pfc_pending &= !(1 << priority);
        let mut tag = PacketTag::new(PacketKind::Pause, u8::try_from(priority).unwrap_or(0));
        tag.set_xoff(state.pfc_xoff & (1 << priority) != 0);
        let size = u16::try_from(PAUSE_FRAME.get()).unwrap_or(u16::MAX);
        let id = ctx.arena.insert(Packet { size, tag, ..Packet::EMPTY });
        state.free_at = ctx.transmit_control(&state.wire, id, now);
    }

    /// Processes a PFC frame from a port's peer.
    pub(super) fn on_pfc_frame(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        tag: PacketTag,
        now: Picos,
    ) {
        let bit = 1 << tag.priority();
        let is_change = tag.is_xoff() != (self.ports[port].paused & bit != 0);
        if is_change {
            let node_port = NodePort::new(Node::Switch(self.switches[switch].id), self.port_id(switch, port));
            ctx.record_pause(node_port, tag.priority(), tag.is_xoff(), now);
        }
        let state = &mut self.ports[port];
        let before = state.paused;
        state.paused = if tag.is_xoff() { before | bit } else { before & !bit };
        if let Some(clock) = self.pauses.get_mut(port) {
            clock.update(before, state.paused, now);
        }
        if !tag.is_xoff() {
            self.try_depart(ctx, switch, port, now);
        }
    }

    /// Sets the timers for all link changes and for the first samples.
    pub(super) fn arm_link_changes_and_samples(&mut self, ctx: &mut ShardContext<'_>) {
        for (index, change) in ctx.plan.link_changes.iter().enumerate() {
            let peer = ctx.network.peer_of(change.switch, change.port).node;
            for node in [change.switch.into(), peer] {
                let local = self.local_index.get(node.index());
                if let Some(switch) = local.and_then(|local| self.switches.get_mut(*local as usize)) {
                    switch.timers.push(Reverse((change.time, Timer::link_change(to_u32(index)))));
                }
            }
        }
        for switch in 0..self.switches.len() {
            self.arm_sample(ctx, switch, Picos::ZERO);
            self.schedule_next_visit(ctx, switch);
        }
    }

    /// Applies one of the plan's link changes to this switch.
    pub(super) fn change_link(&mut self, ctx: &mut ShardContext<'_>, switch: usize, index: u32, now: Picos) {
        let change = ctx.plan.link_changes[index as usize];
        let state = &self.switches[switch];
        let port = if change.switch == state.id {
            change.port
        } else {
            ctx.network.peer_of(change.switch, change.port).port
        };
        let port = state.local_port(port);
        self.ports[port].wire.apply(change.event, ctx.network.rates(), ctx.network.pipeline);
        match change.event {
            LinkEvent::Down => self.flush(ctx, switch, port, now),
            LinkEvent::Up => {
                // PFC frames may have been lost, so both ends resend their pause state.
                if let Some(pfc) = &self.pfc {
                    self.ports[port].pfc_pending = u8::MAX >> (8 - ctx.plan.switch.priorities);
                    self.ports[port].pfc_xoff = pfc.paused_priorities(port);
                }
                self.try_depart(ctx, switch, port, now);
            }
            LinkEvent::Rate(_) | LinkEvent::Delay(_) => {}
        }
    }

    /// Drops all packets queued at a port.
    fn flush(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, now: Picos) {
        for queue_id in (0..u32::from(ctx.plan.switch.priorities)).map(QueueId::new) {
            let queue = (self.ports[port].first_queue + queue_id.get()) as usize;
            while let Some(id) = self.dequeue(ctx, switch, port, (queue, queue_id), now) {
                ctx.capture_drop(
                    self.switches[switch].id,
                    self.port_id(switch, port),
                    id,
                    now,
                    DropCause::Link,
                );
                ctx.drop_packet(self.switches[switch].id, id, now, DropCause::Link);
            }
        }
    }

    /// Sets up a rotor's circuits and their timers.
    pub(super) fn start_circuits(&mut self, ctx: &mut ShardContext<'_>) {
        let Some(rotor) = ctx.network.rotor() else { return };
        self.circuits = vec![Circuit::default(); rotor.racks as usize];
        for switch in 0..self.switches.len() {
            if self.switches[switch].id.get() < rotor.racks {
                self.change_circuit(ctx, switch, Picos::ZERO);
                self.schedule_next_visit(ctx, switch);
            }
        }
    }

    /// Switches a rack's circuit to the current matching.
    pub(super) fn change_circuit(&mut self, ctx: &mut ShardContext<'_>, switch: usize, now: Picos) {
        let Some(rotor) = ctx.network.rotor() else { return };
        let Switch { id, .. } = self.switches[switch];
        let uplink = self.switches[switch].local_port(PortId::new(rotor.hosts));
        let next_change = self.circuits[id.index()].reconfigure(rotor, id.get(), now);
        self.switches[switch].timers.push(Reverse((next_change, Timer::CIRCUIT_CHANGE)));
        if let Some(peer) = self.circuits[id.index()].peer {
            self.ports[uplink + 1].wire.peer = NodeId::new(peer);
            self.try_depart(ctx, switch, uplink + 1, now);
        }
        // The uplink serves any packets that the previous circuit left queued.
        self.try_depart(ctx, switch, uplink, now);
    }
}
