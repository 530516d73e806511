//! Rows of a recording: law states, PFC pauses and captured packets.
//!
//! Nothing here runs in a run without a recording. The hot paths test a flag that replaces one they had before:
//! [`ShardContext::logs_acks`] and `ShardContext::is_direct`.

use poseidon_laws::{Law, Pacing};
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{
    CapturedKind, CapturedPacket, DecisionRow, DropCause, LawStateRow, PacketEvent, PacketRow, PauseRow,
};
use poseidon_plan::topology::Node;
use poseidon_types::{BitRate, Bytes, HostId, Nanos, Picos, PortId, SwitchId};

use super::ShardContext;
use crate::node::NodeId;
use crate::packet::{PacketId, PacketKind};
use crate::sender::Sender;
use crate::wire::Wire;

impl ShardContext<'_> {
    /// Records the decision of a watched connection's law, and the law's state.
    #[cold]
    pub(crate) fn log_ack(&mut self, watched: usize, row: DecisionRow, sender: &Sender, hop_count: u8) {
        if self.plan.log_decisions {
            self.rows.decisions.push(row);
        }
        if self.recorder.take_due_state(watched, row.time) {
            self.rows.recorded.law_states.push(LawStateRow {
                time: row.time,
                connection: row.connection,
                packet: row.packet,
                rtt: row.rtt,
                srtt: sender.srtt,
                hop_delay: row.hop_delay,
                target: sender.law.target(hop_count),
                window: sender.decision.window,
                pacing_rate: pacing_rate(sender.decision.pacing, self.plan.transport.mtu),
                in_flight: sender.in_flight,
            });
        }
    }

    /// Records that a PFC frame pauses or resumes a priority at a port.
    pub(crate) fn record_pause(&mut self, port: NodePort, priority: u8, paused: bool, now: Picos) {
        if self.recorder.records_pauses() {
            self.rows.recorded.pauses.push(PauseRow { time: now, port, priority, paused });
        }
    }

    /// Captures a packet that leaves through a wire, at both ends of the wire. `regular_arrival` is the time at which
    /// the packet arrives at the far end if the link is not impaired.
    pub(crate) fn capture_on_wire(
        &mut self,
        wire: &Wire,
        id: PacketId,
        regular_arrival: Picos,
        arrival: Picos,
        is_control: bool,
    ) {
        let [near, far] = self.ends_of(wire);
        let skipped_pipeline = match far.node {
            Node::Switch(_) if is_control => self.network.pipeline,
            Node::Switch(_) | Node::Host(_) => Picos::ZERO,
        };
        let sent = regular_arrival - (wire.delay - skipped_pipeline) - wire.send_time(self.arena[id].size);
        for (port, time, event) in [(near, sent, PacketEvent::Sent), (far, arrival, PacketEvent::Received)] {
            self.capture(port, time, event, id);
        }
    }

    /// Captures a packet that a switch drops instead of queueing it at a port.
    pub(crate) fn capture_drop(
        &mut self,
        switch: SwitchId,
        port: PortId,
        id: PacketId,
        now: Picos,
        cause: DropCause,
    ) {
        if self.recorder.captures_packets() {
            let port = NodePort::new(Node::Switch(switch), port);
            self.capture(port, now, PacketEvent::Dropped(cause), id);
        }
    }

    fn capture(&mut self, port: NodePort, time: Picos, event: PacketEvent, id: PacketId) {
        if self.recorder.captures(port, time) {
            let packet = self.describe(id);
            self.rows.recorded.packets.push(PacketRow { time, port, event, packet });
        }
    }

    fn describe(&mut self, id: PacketId) -> CapturedPacket {
        let packet = self.arena[id];
        let tag = packet.tag;
        let kind = match tag.kind() {
            PacketKind::Ack => CapturedKind::Ack,
            PacketKind::Nack => CapturedKind::Nack,
            PacketKind::Cnp => CapturedKind::Cnp,
            PacketKind::Trimmed => CapturedKind::Trimmed,
            PacketKind::Pause if tag.is_xoff() => CapturedKind::Pause,
            PacketKind::Pause => CapturedKind::Resume,
            // Recordings of datagrams are rejected before the run.
            PacketKind::Data | PacketKind::Datagram | PacketKind::PendingAck => CapturedKind::Data,
        };
        CapturedPacket {
            connection: packet.connection(),
            kind,
            number: packet.seq,
            cumulative_ack: packet.cumulative_ack,
            size: Bytes::new(u64::from(packet.size)),
            payload: Bytes::new(self.payload(&packet)),
            priority: tag.priority(),
            marked: tag.is_marked(),
            cwr: kind == CapturedKind::Data && tag.has_cwr(),
            switches: packet.switches,
            telemetry: self.telemetry.capture(&packet),
        }
    }

    /// Returns the sending and the receiving port of a wire.
    fn ends_of(&self, wire: &Wire) -> [NodePort; 2] {
        let far = self.node_port(wire.peer, wire.peer_port());
        let near = match far.node {
            Node::Switch(switch) => {
                let near = self.network.peer_of(switch, wire.peer_port());
                self.node_port(near.node, near.port)
            }
            Node::Host(host) => {
                let near = self.network.host_wire(host);
                self.node_port(near.peer, near.peer_port())
            }
        };
        [near, far]
    }

    /// Returns the port of a switch, or the only port of the host in this slot of a rack.
    fn node_port(&self, node: NodeId, port: PortId) -> NodePort {
        if self.network.is_switch(node) {
            return NodePort::new(Node::Switch(SwitchId::new(node.get())), port);
        }
        let first_host = self.network.hosts_in(node.get() - self.network.switches()).start;
        NodePort::new(Node::Host(HostId::new(first_host + port.get())), PortId::new(0))
    }
}

/// Returns the rate that a pacing allows, or `None` without pacing.
fn pacing_rate(pacing: Pacing, mtu: Bytes) -> Option<BitRate> {
    match pacing {
        Pacing::Off | Pacing::Gap(Nanos::ZERO) => None,
        Pacing::Rate(rate) => Some(rate),
        Pacing::Gap(gap) => {
            let bits_per_second = u128::from(mtu.get()) * 8_000_000_000 / u128::from(gap.get());
            Some(BitRate::from_bps(u64::try_from(bits_per_second).unwrap_or(u64::MAX)))
        }
    }
}
