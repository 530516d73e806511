//! The backend interface.

use crate::plan::{Plan, PlanError};
use crate::recording::Recording;
use crate::records::Sink;
use crate::topology::SwitchPort;
use crate::traffic::Connection;
use poseidon_types::{Bytes, Picos, Signals, SwitchId};

/// A program that runs plans, such as the simulator or the testbed, which sends real packets.
pub trait Backend {
    /// Returns the signals that this backend's hosts can supply to laws when running this plan.
    fn available_signals(&self, plan: &Plan) -> Signals;

    /// Returns each connection's route as a list of egress ports, from the sender to the receiver.
    ///
    /// The routes are valid while all links are up and the connection does not change its path. To pin a flow to a
    /// link, try different values of [`Connection::entropy`] until the route contains the link. The connections need
    /// not be part of the plan, but their hosts must be.
    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>>;

    /// Returns the number of ports on a switch.
    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32;

    /// Estimates the memory that a run of the plan needs, in addition to the plan itself.
    fn estimate_memory(&self, _: &Plan) -> Bytes {
        Bytes::ZERO
    }

    /// Runs the plan and passes each result row to `sink`.
    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError>;

    /// Runs the plan like [`Backend::run`], and also passes the rows of a recording to `sink`. The recording must not
    /// change the run.
    fn record(&self, plan: &Plan, recording: &Recording, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        if recording.is_empty() {
            self.run(plan, sink)
        } else {
            Err(PlanError::Unsupported("recordings of marks, pauses, law states and packets"))
        }
    }
}

/// Totals for a run. These totals can be used to cross-check the result rows.
///
/// A datagram of a [real stack](crate::stack) counts as a data packet in both directions of its connection. Its payload
/// includes the headers of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// The time at which the run ended.
    pub ended: Picos,
    /// Whether the sink stopped the run early.
    pub interrupted: bool,
    /// The maximum scheduling delay of a real-time backend, or zero for a simulator. A large value invalidates the run.
    pub max_lateness: Picos,
    /// The number of packet transmissions over links. A packet counts once for each link that it crosses.
    pub packet_hops: u64,
    /// The number of data packets sent by hosts, including retransmissions.
    pub sent: u64,
    /// The number of data packets that reached their receiver.
    pub delivered: u64,
    /// The number of ACKs, NACKs and CNPs sent by hosts.
    pub replies: u64,
    /// The number of NACKs sent by hosts.
    pub nacks: u64,
    /// The number of packets of any kind dropped by switches.
    pub dropped: u64,
    /// The number of data packets that switches trimmed to their headers.
    pub trimmed: u64,
    /// The number of trimmed packets that the last switch before the receiver trimmed.
    pub trimmed_at_last_hop: u64,
    /// The payload bytes of the trimmed packets.
    pub trimmed_bytes: Bytes,
    /// The number of packets of any kind in flight when the run ended.
    pub in_flight: u64,
    /// The number of retransmitted data packets. For a real stack, this is the number of packets that it declared lost.
    pub retransmitted: u64,
    /// The number of retransmission timeouts. Those of real stacks do not count.
    pub timeouts: u64,
    /// The number of congestion marks set by switches, in either direction.
    pub marks: u64,
    /// The number of marks that left a switch on a data packet or an ACK. All other marks were still waiting for an ACK
    /// or had expired.
    pub marks_carried: u64,
    /// The number of pause requests from switches to their upstream neighbors, excluding resume requests.
    pub pauses: u64,
    /// The number of path changes over all connections.
    pub repaths: u64,
    /// The number of ACKs and CNPs processed by laws.
    pub decisions: u64,
    /// The number of decisions that used telemetry from at least one hop.
    pub decisions_with_telemetry: u64,
    /// The payload bytes sent by hosts, including retransmissions.
    pub sent_bytes: Bytes,
    /// The payload bytes delivered to receivers. Each byte counts only once. For a real stack, only the bytes of messages
    /// count.
    pub delivered_bytes: Bytes,
    /// A hash of all deliveries. Two runs have the same hash if they deliver the same packets to the same hosts at the
    /// same times and in the same order.
    pub result_hash: u64,
}

impl Report {
    /// Adds the totals of another shard of the same run.
    pub fn add(&mut self, shard: &Self) {
        self.ended = self.ended.max(shard.ended);
        self.interrupted |= shard.interrupted;
        self.max_lateness = self.max_lateness.max(shard.max_lateness);
        self.packet_hops += shard.packet_hops;
        self.sent += shard.sent;
        self.delivered += shard.delivered;
        self.replies += shard.replies;
        self.nacks += shard.nacks;
        self.dropped += shard.dropped;
        self.trimmed += shard.trimmed;
        self.trimmed_at_last_hop += shard.trimmed_at_last_hop;
        self.trimmed_bytes += shard.trimmed_bytes;
        self.in_flight += shard.in_flight;
        self.retransmitted += shard.retransmitted;
        self.timeouts += shard.timeouts;
        self.marks += shard.marks;
        self.marks_carried += shard.marks_carried;
        self.pauses += shard.pauses;
        self.repaths += shard.repaths;
        self.decisions += shard.decisions;
        self.decisions_with_telemetry += shard.decisions_with_telemetry;
        self.sent_bytes += shard.sent_bytes;
        self.delivered_bytes += shard.delivered_bytes;
        self.result_hash = self.result_hash.wrapping_add(shard.result_hash);
    }
}
