//! Path selection: which entropy value (EV) a sender gives to each packet.
//!
//! Switches hash a packet's EV to choose among equal-cost links, so an EV stands for a path. An ACK or a NACK echoes
//! the EV of the packet that caused it, and the sender reports what it learned about the path. A policy may use the
//! reports to prefer paths that work and to avoid paths that do not.
//!
//! An EV has 32 bits. A policy with several paths replaces the low bits of the connection's own EV, so two connections
//! rarely share an EV.

pub mod bitmap;
pub mod ecmp;
mod ev_fifo;
pub mod mixed;
pub mod oblivious;
pub mod reps;
pub mod reps_legacy;
pub mod spray;

use core::fmt::{Debug, Display};
use poseidon_types::Picos;
use poseidon_types::params::{ParamError, ParamInfo, Params};
use poseidon_types::random::splitmix64;

/// The largest number of paths of a policy.
pub const MAX_PATHS: u32 = 256;

/// A path selection policy. The implementing type holds its parameters.
pub trait PathPolicy: Params {
    /// The policy's name in scenario files.
    const NAME: &'static str;
    /// The publication or program that describes the policy.
    const SOURCE: &'static str;
    /// The state of one connection, which starts with its default value.
    type State: Clone + Debug + PartialEq + Default;

    /// Returns the EV of a packet that is about to be sent.
    fn choose(&self, state: &mut Self::State, packet: &NextPacket) -> u32;

    /// Processes a report about a path. Policies without feedback ignore reports.
    fn on_feedback(&self, _state: &mut Self::State, _feedback: &Feedback) {}
}

/// A packet that needs an EV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPacket {
    /// The connection's own EV.
    pub flow: u32,
    /// The number of transmissions of the connection, including this one. It makes random choices differ.
    pub transmission: u32,
    /// The number of new packets that the connection has sent so far.
    pub sent: u32,
    /// The connection's window in packets, rounded down.
    pub window: u32,
}

impl NextPacket {
    /// Returns a random number that is unique to this packet and to `draw`.
    fn random(&self, draw: u64) -> u64 {
        splitmix64(splitmix64(u64::from(self.flow) << 32 | u64::from(self.transmission)) ^ draw)
    }

    /// Returns the EV of path `path` out of `paths`.
    const fn ev(&self, path: u32, paths: u32) -> u32 {
        self.flow & !(paths - 1) | path
    }

    /// Returns a random path out of `paths`.
    fn random_path(&self, paths: u32) -> u32 {
        low32(self.random(RANDOM_PATH)) & (paths - 1)
    }
}

/// The draw for a random path.
const RANDOM_PATH: u64 = 1;
/// The draw for the order of the next round of paths.
const RANDOM_ORDER: u64 = 2;

/// What a sender learned about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The time of the report.
    pub now: Picos,
    /// The EV of the packet that caused the report, or `None` if it is unknown, as after a timeout.
    pub ev: Option<u32>,
    /// What happened to the packet.
    pub outcome: Outcome,
}

/// What happened to a packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet arrived without a congestion mark.
    Good,
    /// The packet arrived with a congestion mark.
    Marked,
    /// The packet was trimmed before the last hop.
    Trimmed,
    /// The packet timed out.
    TimedOut,
}

/// Returns the low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the function truncates on purpose")]
const fn low32(bits: u64) -> u32 {
    bits as u32
}

/// Returns a path number, which is below [`MAX_PATHS`], as a byte.
#[expect(clippy::cast_possible_truncation, reason = "a path number has at most eight bits")]
const fn to_byte(path: u32) -> u8 {
    path as u8
}

/// Returns whether a number of paths is a power of two within the limit.
const fn is_path_count(paths: u32) -> bool {
    paths.is_power_of_two() && paths <= MAX_PATHS
}

/// Defines the enum of all policies, the enum of their states, and the methods that dispatch to the chosen policy.
macro_rules! path_registry {
    ($($module:ident :: $policy:ident,)*) => {
        $( pub use $module::$policy; )*

        /// A policy chosen at run time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AnyPathPolicy {
            $( #[doc = concat!("[`", stringify!($policy), "`]")] $policy($policy), )*
        }

        /// The policy of one connection, with its state.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum PathSelector {
            $(
                #[doc = concat!("[`", stringify!($policy), "`]")]
                $policy($policy, <$policy as PathPolicy>::State),
            )*
        }

        /// All path selection policies.
        pub const PATH_POLICIES: &[crate::PolicyInfo] = &[
            $( crate::PolicyInfo {
                name: <$policy as PathPolicy>::NAME,
                source: <$policy as PathPolicy>::SOURCE,
                params: <$policy as Params>::TABLE,
            }, )*
        ];

        impl AnyPathPolicy {
            /// Returns the policy called `name` with default parameters, or `None` if the name is unknown.
            pub fn from_name(name: &str) -> Option<Self> {
                $( if name == <$policy as PathPolicy>::NAME { return Some(Self::$policy(Default::default())); } )*
                None
            }

            /// Returns the policy's name.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$policy(_) => <$policy as PathPolicy>::NAME, )* }
            }

            /// Sets the parameter `name` to the value parsed from `text`.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
                match self { $( Self::$policy(policy) => policy.set(name, text), )* }
            }

            /// Calls `visit` with each parameter and its current value.
            pub fn for_each(&self, visit: &mut dyn FnMut(&'static ParamInfo, &dyn Display)) {
                match self { $( Self::$policy(policy) => policy.for_each(visit), )* }
            }

            /// Checks that all parameters are in range.
            pub fn check(&self) -> Result<(), ParamError> {
                match self { $( Self::$policy(policy) => policy.check(), )* }
            }

            /// Returns whether connections keep no state under this policy.
            pub const fn is_stateless(&self) -> bool {
                match self { $( Self::$policy(_) => size_of::<<$policy as PathPolicy>::State>() == 0, )* }
            }

            /// Returns the policy of a new connection.
            pub fn start(&self) -> PathSelector {
                match self { $( Self::$policy(policy) => PathSelector::$policy(*policy, Default::default()), )* }
            }
        }

        impl PathSelector {
            /// Returns the EV of a packet that is about to be sent.
            pub fn choose(&mut self, packet: &NextPacket) -> u32 {
                match self { $( Self::$policy(policy, state) => policy.choose(state, packet), )* }
            }

            /// Processes a report about a path.
            pub fn on_feedback(&mut self, feedback: &Feedback) {
                match self { $( Self::$policy(policy, state) => policy.on_feedback(state, feedback), )* }
            }
        }

        $( impl From<$policy> for AnyPathPolicy {
            fn from(policy: $policy) -> Self {
                Self::$policy(policy)
            }
        } )*
    };
}

path_registry! {
    ecmp::Ecmp,
    spray::Spray,
    oblivious::Oblivious,
    bitmap::Bitmap,
    reps::Reps,
    reps_legacy::RepsLegacy,
    mixed::Mixed,
}

impl AnyPathPolicy {
    /// One path for each connection.
    pub const ECMP: Self = Self::Ecmp(Ecmp {});
    /// A random path for each packet.
    pub const SPRAY: Self = Self::Spray(Spray {});
}

#[cfg(test)]
mod tests;
