//! Real transport stacks as hosts of a backend.
//!
//! The connections of a law usually run in the backend's own transport. A [`StackLaw`] makes them run in a real stack
//! instead, for example in QUIC. The stack sends its real datagrams through the backend's network, and the backend
//! supplies the time. A stack performs no input or output of its own and reads no clock.

use poseidon_types::telemetry::MaxHopDelay;
use poseidon_types::{Bytes, Nanos, Picos};

/// A real transport stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StackKind {
    /// QUIC: quinn-proto.
    Quinn,
    /// TCP: smoltcp.
    Smoltcp,
}

impl StackKind {
    /// All stacks.
    pub const ALL: [Self; 2] = [Self::Quinn, Self::Smoltcp];

    /// Returns the name that scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::Smoltcp => "smoltcp",
        }
    }

    /// Returns the stack with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stack| stack.name() == name)
    }

    /// Returns the stack's own congestion controllers.
    pub const fn controllers(self) -> &'static [Controller] {
        match self {
            Self::Quinn => &[Controller::NewReno, Controller::Cubic, Controller::Bbr, Controller::Custom],
            Self::Smoltcp => &[Controller::Reno, Controller::Cubic],
        }
    }

    /// Returns whether the stack can also run our laws.
    pub const fn runs_laws(self) -> bool {
        match self {
            Self::Quinn => true,
            Self::Smoltcp => false,
        }
    }
}

/// A congestion controller that belongs to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// NewReno.
    NewReno,
    /// Reno.
    Reno,
    /// CUBIC.
    Cubic,
    /// BBR.
    Bbr,
    /// A controller that another program adds to the stack.
    Custom,
}

impl Controller {
    /// Returns the name that scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewReno => "newreno",
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Custom => "custom",
        }
    }
}

/// A law whose connections run in a real stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackLaw {
    /// The law's index in [`Plan::laws`](crate::Plan::laws).
    pub law: u32,
    /// The stack.
    pub stack: StackKind,
    /// The stack's own controller, or `None` if the stack runs the law. With a controller, the law is not used.
    pub controller: Option<Controller>,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The side that sends the messages. It is the client.
    Sender,
    /// The side that receives the messages. It is the server.
    Receiver,
}

/// A message that a stack is asked to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackMessage {
    /// The message's number within its connection, counted from zero.
    pub number: u32,
    /// The size, or `None` for a long flow, which has data until [`StackEndpoint::end_long_flow`].
    pub size: Option<Bytes>,
}

/// How a datagram arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whether the datagram arrived with an ECN-capable codepoint (ECT or CE).
    pub ecn_capable: bool,
    /// Whether a switch marked the datagram (CE).
    pub marked: bool,
    /// The telemetry that switches wrote into the datagram, or `None` if switches do not write this kind of telemetry.
    pub max_hop_delay: Option<MaxHopDelay>,
}

/// What a stack reports to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEvent {
    /// At the receiver: the message with this number has arrived completely.
    Received(u32),
    /// At the sender: the message with this number is acknowledged completely.
    Acknowledged(u32),
}

/// The state of one side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackState {
    /// The congestion window.
    pub window: Bytes,
    /// The bytes in flight.
    pub in_flight: Bytes,
    /// The smoothed round-trip time, or zero before the first sample.
    pub srtt: Nanos,
    /// The message bytes received so far. Each byte counts once.
    pub received: Bytes,
    /// The packets that the sender has declared lost so far.
    pub lost: u64,
}

/// One side of a connection in a real stack.
///
/// The host calls [`poll_transmit`](Self::poll_transmit) whenever it could send a datagram, and asks again for the
/// [timeout](Self::timeout) and the [events](Self::poll_event) after every other call.
pub trait StackEndpoint: Send {
    /// Starts a message. Messages of a connection start in the order of their numbers.
    fn send(&mut self, now: Picos, message: StackMessage);

    /// Ends the long flow. Data that is already in the stack is still sent.
    fn end_long_flow(&mut self, now: Picos);

    /// Processes a datagram from the other side. The datagram may be a copy, late, or out of order.
    fn on_datagram(&mut self, now: Picos, datagram: &[u8], arrival: Arrival);

    /// Writes the next datagram into the empty `buffer` and returns whether it is ECN-capable, or returns `None` if the
    /// stack has nothing to send now. A marking policy never marks or drops a datagram that is not ECN-capable. A full
    /// buffer drops it.
    fn poll_transmit(&mut self, now: Picos, buffer: &mut Vec<u8>) -> Option<bool>;

    /// Returns the time at which [`on_timeout`](Self::on_timeout) must be called, if any.
    fn timeout(&self) -> Option<Picos>;

    /// Processes expired timers.
    fn on_timeout(&mut self, now: Picos);

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<StackEvent>;

    /// Returns the current state.
    fn state(&self) -> StackState;
}
