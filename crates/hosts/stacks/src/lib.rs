//! Real transport stacks as endpoints without sockets and clocks.
//!
//! [`Stacks`] creates one side of a connection that runs in quinn or in smoltcp, behind the traits of
//! [`poseidon_plan::stack`]. The host of the endpoint, for example a simulator, carries the datagrams and supplies the
//! time.
//!
//! | feature | stack | controllers |
//! |---|---|---|
//! | `quinn` | QUIC: quinn-proto 0.11 | NewReno, CUBIC and BBR of quinn, and every law that `poseidon-quic` can run |
//! | `smoltcp` | TCP: smoltcp 0.14 | Reno and CUBIC of smoltcp |
//!
//! No feature is enabled by default. Without the feature of a stack, [`Stacks`] refuses plans that use it.
//!
//! # What is real
//!
//! - The stack is the unmodified published crate, with its own loss detection, ACKs, flow control and timers.
//! - A datagram has the bytes that the stack would send: encrypted QUIC packets, or IPv4 packets with TCP segments.
//! - Our laws run in quinn through the same controller and the same 16-byte prefix as over real sockets.
//! - A connection starts with its handshake, at its first message. The time of that message includes the handshake.
//!
//! # What is not modelled
//!
//! - Time passes only between calls. Processing and cryptography take no simulated time.
//! - A host sends single datagrams. There is no segmentation offload and no receive offload.
//! - The certificate is fixed and protects nothing. There are no session tickets, retries, 0-RTT or migration.
//! - Applications read at once and always have their data ready, so flow control never limits a connection.
//!
//! # Determinism
//!
//! The same plan, connection and side give datagrams of the same sizes at the same times. Connection IDs, skipped packet
//! numbers and initial sequence numbers depend on the plan's seed. The contents of encrypted packets differ between
//! runs, because TLS draws its keys from the operating system. See [`is_deterministic`] for the exception.
//!
//! # Messages
//!
//! In QUIC, each message is a unidirectional stream, and streams are sent in the order of the messages. A lost packet
//! delays only its own message, so a later message can arrive first. In TCP, messages are consecutive ranges of one byte
//! stream without a header. The receiver takes their sizes from the plan.

#[cfg(any(feature = "quinn", feature = "smoltcp"))]
mod common;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "smoltcp")]
mod smoltcp;

use poseidon_plan::stack::{Controller, Side, StackEndpoint, StackKind, StackLaw};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId};

/// An Ethernet header and the frame check sequence.
const ETHERNET_BYTES: u64 = 14 + 4;
/// An IPv4 header without options.
const IPV4_BYTES: u64 = 20;
/// A UDP header.
const UDP_BYTES: u64 = 8;

/// The stacks that this build contains.
pub static STACKS: Stacks = Stacks::new();

/// Creates the factory of quinn's controllers for one side of a connection.
#[cfg(feature = "quinn")]
pub type QuinnController =
    fn() -> std::sync::Arc<dyn quinn_proto::congestion::ControllerFactory + Send + Sync>;

/// Creates endpoints in the stacks that this build contains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stacks {
    #[cfg(feature = "quinn")]
    quinn_controller: Option<QuinnController>,
}

/// Returns whether a stack with this controller, or with a law if there is none, always behaves in the same way.
///
/// quinn's BBR takes the phase of its gain cycle from the random numbers of the process. CUBIC in both stacks computes
/// with `f64`, and quinn's CUBIC takes cube roots from the system's mathematical library. It therefore repeats on one
/// platform, and another platform may round differently.
pub const fn is_deterministic(stack: StackKind, controller: Option<Controller>) -> bool {
    !matches!((stack, controller), (StackKind::Quinn, Some(Controller::Bbr)))
}

impl StackFactory for Stacks {
    fn overhead(&self, stack: StackKind) -> Bytes {
        match stack {
            StackKind::Quinn => Bytes::new(ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES),
            // The datagrams are IP packets.
            StackKind::Smoltcp => Bytes::new(ETHERNET_BYTES),
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        plan.stacks.iter().try_for_each(|law| self.check_stack(plan, law))
    }

    /// # Panics
    ///
    /// If [`Self::check`] refuses the plan, or if the connection does not run in a stack.
    fn create(&self, plan: &Plan, connection: ConnectionId, side: Side) -> Box<dyn StackEndpoint> {
        let law = *plan.stack_of(connection).expect("the connection runs in a stack");
        match law.stack {
            #[cfg(feature = "quinn")]
            StackKind::Quinn => quinn::create(plan, &law, connection, side, self.quinn_controller),
            #[cfg(feature = "smoltcp")]
            StackKind::Smoltcp => smoltcp::create(plan, &law, connection, side),
            #[cfg(not(all(feature = "quinn", feature = "smoltcp")))]
            stack => {
                panic!("this build does not contain {}; call check before create ({side:?})", stack.name())
            }
        }
    }
}

impl Stacks {
    /// Returns the stacks that this build contains.
    pub const fn new() -> Self {
        Self {
            #[cfg(feature = "quinn")]
            quinn_controller: None,
        }
    }

    /// Adds a congestion controller of your own to quinn. Scenarios select it with `controller = "custom"`. Runs repeat
    /// only if the controller reads no clock and draws no random numbers.
    #[cfg(feature = "quinn")]
    #[must_use]
    pub const fn with_quinn_controller(self, controller: QuinnController) -> Self {
        Self { quinn_controller: Some(controller) }
    }

    fn check_stack(self, plan: &Plan, law: &StackLaw) -> Result<(), PlanError> {
        let _ = (self, plan);
        #[cfg(feature = "quinn")]
        if law.controller == Some(Controller::Custom) && self.quinn_controller.is_none() {
            return Err(PlanError::Unsupported(
                "the controller \"custom\", which needs a program of your own (docs/howto/stacks.md)",
            ));
        }
        match law.stack {
            #[cfg(feature = "quinn")]
            StackKind::Quinn => quinn::check(plan, law),
            #[cfg(not(feature = "quinn"))]
            StackKind::Quinn => {
                Err(PlanError::Unsupported("the stack quinn; build poseidon-stacks with the feature quinn"))
            }
            #[cfg(feature = "smoltcp")]
            StackKind::Smoltcp => smoltcp::check(plan),
            #[cfg(not(feature = "smoltcp"))]
            StackKind::Smoltcp => Err(PlanError::Unsupported(
                "the stack smoltcp; build poseidon-stacks with the feature smoltcp",
            )),
        }
    }
}
