//! Whatever can run a plan.

use crate::plan::{Plan, PlanError};
use crate::records::Sink;
use poseidon_types::{Bytes, Picos, Signals};

/// Whatever can run a plan: a simulator, or real packets on a machine.
pub trait Backend {
    /// What its hosts can tell a law when it runs this plan.
    fn supplies(&self, plan: &Plan) -> Signals;

    /// Runs the plan and hands every row to `sink`.
    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError>;
}

/// What a run really did: the answer to "a file came out, but was it true?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// When it ended.
    pub ended: Picos,
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// Data packets that hosts sent, retransmissions included.
    pub sent: u64,
    /// Data packets that reached their host.
    pub delivered: u64,
    /// Packets that switches dropped.
    pub dropped: u64,
    /// Packets on the way when the run ended.
    pub in_flight: u64,
    /// ACKs that laws saw.
    pub decisions: u64,
    /// Of those, with telemetry from at least one hop.
    pub decisions_with_telemetry: u64,
    /// Payload delivered in order.
    pub delivered_bytes: Bytes,
    /// A number that two runs share exactly when every packet reached every host at the same time in the same order.
    pub result_hash: u64,
}
