//! Whatever can run a plan.

use crate::plan::{Plan, PlanError};
use crate::records::Sink;
use crate::traffic::Connection;
use poseidon_types::{Bytes, Picos, Signals};

/// Whatever can run a plan: a simulator, or real packets on a machine.
pub trait Backend {
    /// What its hosts can tell a law when it runs this plan.
    fn supplies(&self, plan: &Plan) -> Signals;

    /// For each of these connections, the ports by which its packets leave their switches, first switch first, while all links are
    /// up and it keeps its path: what pins flows to one link is an [entropy](Connection::entropy) that leads there.
    ///
    /// The connections need not be in the plan, but their hosts must be.
    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<(u32, u32)>>;

    /// How many ports a switch has, for whoever watches all of its queues.
    fn ports(&self, plan: &Plan, switch: u32) -> u32;

    /// Runs the plan and hands every row to `sink`.
    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError>;
}

/// What a run really did: the answer to "a file came out, but was it true?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// When it ended.
    pub ended: Picos,
    /// Whether it was broken off before its time.
    pub broken_off: bool,
    /// Where time is real: how late the machine was at worst. A run that stood still so long says little.
    pub late: Picos,
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// Data packets that hosts sent, retransmissions included.
    pub sent: u64,
    /// Data packets that reached their host.
    pub delivered: u64,
    /// ACKs and notifications that hosts sent.
    pub replies: u64,
    /// Packets that switches dropped, of any kind.
    pub dropped: u64,
    /// Packets on the way when the run ended, of any kind.
    pub in_flight: u64,
    /// Data packets that were sent again.
    pub retransmitted: u64,
    /// Timers that fired after silence.
    pub timeouts: u64,
    /// Congestion marks that switches gave, either way.
    pub marks: u64,
    /// Of those, the ones that a packet or an ACK took along; others were still waiting for an ACK, or waited too long.
    pub marks_taken: u64,
    /// Times that a node was told to stop sending.
    pub pauses: u64,
    /// Times that a connection changed its path.
    pub repaths: u64,
    /// ACKs and notifications that laws saw.
    pub decisions: u64,
    /// Of those, with telemetry from at least one hop.
    pub decisions_with_telemetry: u64,
    /// Payload that hosts sent, retransmissions included.
    pub sent_bytes: Bytes,
    /// Payload that arrived, each byte counted once.
    pub delivered_bytes: Bytes,
    /// A number that two runs share exactly when every packet reached every host at the same time in the same order.
    pub result_hash: u64,
}

impl Report {
    /// Adds what another part of the same run did.
    pub fn add(&mut self, part: &Self) {
        self.ended = self.ended.max(part.ended);
        self.broken_off |= part.broken_off;
        self.late = self.late.max(part.late);
        self.packet_hops += part.packet_hops;
        self.sent += part.sent;
        self.delivered += part.delivered;
        self.replies += part.replies;
        self.dropped += part.dropped;
        self.in_flight += part.in_flight;
        self.retransmitted += part.retransmitted;
        self.timeouts += part.timeouts;
        self.marks += part.marks;
        self.marks_taken += part.marks_taken;
        self.pauses += part.pauses;
        self.repaths += part.repaths;
        self.decisions += part.decisions;
        self.decisions_with_telemetry += part.decisions_with_telemetry;
        self.sent_bytes += part.sent_bytes;
        self.delivered_bytes += part.delivered_bytes;
        self.result_hash = self.result_hash.wrapping_add(part.result_hash);
    }
}
