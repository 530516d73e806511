//! A law that is not in the registry, because the program that uses the simulator supplies it at run time.
//!
//! The Python package runs laws written in Python in this way. A law in Rust belongs in its own file in
//! [`laws`](crate::laws). A law outside the registry costs a dynamic call per event.
//!
//! Scenarios name such a law by its number:
//!
//! ```toml
//! [laws.mine]
//! base = "custom"
//! id = 3
//! signals = "rtt, max-hop-delay"
//! ```

use crate::event::{Ack, Loss, Timeout, Trim};
use crate::law::{Decision, DelaySignal, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use core::fmt::Debug;
use poseidon_types::{Packets, Signals};

params! {
    /// Parameters of [`Custom`].
    pub struct CustomParams {
        /// The law's number in the program that supplies it.
        id: u32 = 0,
        /// The signals that the law needs, separated by commas.
        signals: Signals = Signals::RTT,
    }
    presets {}
    check {}
}

/// A flow's number in the program that supplies its law.
pub type FlowId = u64;

/// The program that supplies laws at run time.
///
/// Each call returns the decision that holds from then on. The window must not be zero and must not exceed
/// [`Packets::MAX_WINDOW`].
pub trait CustomLaws: Sync + Debug {
    /// Starts a flow with the law `id`.
    fn start_flow(&self, id: u32, path: &Path) -> (FlowId, Decision);

    /// Processes an ACK ([`Law::on_ack`]).
    fn on_ack(&self, flow: FlowId, ack: &Ack<'_>) -> Decision;

    /// Reacts to packet loss ([`Law::on_loss`]).
    fn on_loss(&self, flow: FlowId, loss: &Loss) -> Decision;

    /// Reacts to a retransmission timeout ([`Law::on_timeout`]).
    fn on_timeout(&self, flow: FlowId, timeout: &Timeout) -> Decision;

    /// Reacts to a trimmed packet ([`Law::on_trim`]).
    fn on_trim(&self, flow: FlowId, trim: &Trim) -> Decision;

    /// Returns whether an ACK indicates congestion ([`Law::is_congested`]).
    fn is_congested(&self, _flow: FlowId, _ack: &Ack<'_>) -> bool {
        false
    }
}

/// One flow of a law that the program supplies. Until [`Custom::start`], the window is one packet.
#[derive(Clone, Debug)]
pub struct Custom {
    decision: Decision,
    id: u32,
    flow: Option<(&'static dyn CustomLaws, FlowId)>,
}

impl PartialEq for Custom {
    /// Two flows are equal if they have the same number, because their states are in the program.
    fn eq(&self, other: &Self) -> bool {
        let number = |law: &Self| law.flow.map(|(_, flow)| flow);
        self.id == other.id && self.decision == other.decision && number(self) == number(other)
    }
}

impl Custom {
    /// Starts the flow in the program that supplies its law.
    pub fn start(&mut self, laws: &'static dyn CustomLaws, path: &Path) {
        let (flow, decision) = laws.start_flow(self.id, path);
        self.flow = Some((laws, flow));
        self.decision = decision;
    }
}

impl LawDefinition for Custom {
    const NAME: &'static str = "custom";
    const SOURCE: &'static str = "the program that runs the simulator";
    const STATE_LIMIT: usize = 64;
    type Params = CustomParams;

    fn needs(params: &CustomParams) -> Signals {
        params.signals
    }

    fn new(params: &CustomParams, _: &Path) -> Self {
        let decision = Decision { window: Packets::ONE, pacing: Pacing::Off };
        Self { decision, id: params.id, flow: None }
    }
}

impl Law for Custom {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some((laws, flow)) = self.flow {
            self.decision = laws.on_ack(flow, ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if let Some((laws, flow)) = self.flow {
            self.decision = laws.on_loss(flow, loss);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if let Some((laws, flow)) = self.flow {
            self.decision = laws.on_timeout(flow, timeout);
        }
    }

    fn on_trim(&mut self, trim: &Trim) {
        if let Some((laws, flow)) = self.flow {
            self.decision = laws.on_trim(flow, trim);
        }
    }

    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        self.flow.is_some_and(|(laws, flow)| laws.is_congested(flow, ack))
    }

    fn delay_signal(&self, _: &Ack<'_>) -> Option<DelaySignal> {
        None
    }

    fn decision(&self) -> Decision {
        self.decision
    }
}
