//! What follows from the table of laws in `laws/mod.rs`: one line there gives a law its place in the enum, the dispatch, the list that
//! people read, the parameter checks and the conformance tests.

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Path, PathError};
use crate::params::{ParamError, ParamInfo, Params};
use crate::parts::coexistence::DelaySignal;
use core::fmt::{self, Display};
use poseidon_types::{Nanos, Signals};

/// One row of the table, for people and for programs that list laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LawInfo {
    /// Its name in scenario files.
    pub name: &'static str,
    /// Paper, algorithm and equations.
    pub source: &'static str,
    /// Bytes of state per flow.
    pub state_bytes: usize,
    /// Its parameters.
    pub params: &'static [ParamInfo],
}

/// Why a law cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The host does not supply what the law needs.
    MissingSignals {
        /// The law.
        law: &'static str,
        /// What is missing.
        missing: Signals,
        /// What the host supplies.
        supplied: Signals,
    },
    /// A parameter is outside the law's domain.
    Param {
        /// The law.
        law: &'static str,
        /// Which and why.
        error: ParamError,
    },
    /// No law can compute on this path.
    Path(PathError),
}

impl Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingSignals { law, missing, supplied } => {
                write!(f, "law {law:?} needs {missing}; the host supplies {supplied}")
            }
            Self::Param { law, error } => write!(f, "law {law:?}: {error}"),
            Self::Path(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BuildError {}

/// Builds one law after checking its parameters, the path and the signals.
pub fn build<L: Law>(params: &L::Params, path: &Path, supplied: Signals) -> Result<L, BuildError> {
    params.check().map_err(|error| BuildError::Param { law: L::NAME, error })?;
    path.check().map_err(BuildError::Path)?;
    let missing = L::needs(params).without(supplied);
    if !missing.is_empty() {
        return Err(BuildError::MissingSignals { law: L::NAME, missing, supplied });
    }
    Ok(L::new(params, path))
}

/// Makes the enums, the dispatch and the table. The leading `$` is a token that the generated macro needs.
macro_rules! registry {
    ($d:tt $( $module:ident :: $law:ident, )*) => {
        $( pub use crate::laws::$module::$law; )*

        /// Any law of the table, for hosts that choose at run time. State is inline: no heap, no
        /// pointer, and the size of the largest; a host that minds holds the law it wants by its own type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyLaw {
            $( #[doc = concat!("[`", stringify!($law), "`]")] $law($law), )*
        }

        /// The parameters of any law of the table.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyParams {
            $( #[doc = concat!("Of [`", stringify!($law), "`].")] $law(<$law as Law>::Params), )*
        }

        /// Every law, in the order of the table.
        pub const LAWS: &[LawInfo] = &[
            $( LawInfo {
                name: <$law as Law>::NAME,
                source: <$law as Law>::SOURCE,
                state_bytes: size_of::<$law>(),
                params: <<$law as Law>::Params as Params>::TABLE,
            }, )*
        ];

        impl AnyParams {
            /// The defaults of the law called `name`.
            pub fn of(name: &str) -> Option<Self> {
                $( if name == <$law as Law>::NAME { return Some(Self::$law(Default::default())); } )*
                None
            }

            /// The law's name.
            pub const fn law(&self) -> &'static str {
                match self { $( Self::$law(_) => <$law as Law>::NAME, )* }
            }

            /// Reads `text` into the parameter called `name`.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
                match self { $( Self::$law(params) => params.set(name, text), )* }
            }

            /// Takes the values of a named preset.
            pub fn preset(&mut self, name: &str) -> Result<(), ParamError> {
                match self { $( Self::$law(params) => params.preset(name), )* }
            }

            /// The names of the law's presets, beside `paper`.
            pub fn presets(&self, show: &mut dyn FnMut(&'static str, &'static str)) {
                match self { $( Self::$law(_) => {
                    for preset in <<$law as Law>::Params as Params>::PRESETS {
                        show(preset.name, preset.says);
                    }
                } )* }
            }

            /// Shows each parameter's value.
            pub fn each(&self, show: &mut dyn FnMut(&'static ParamInfo, &dyn Display)) {
                match self { $( Self::$law(params) => params.each(show), )* }
            }

            /// The signals that the law needs with these values.
            pub fn needs(&self) -> Signals {
                match self { $( Self::$law(params) => <$law as Law>::needs(params), )* }
            }

            /// The law at the start of a flow.
            pub fn build(&self, path: &Path, supplied: Signals) -> Result<AnyLaw, BuildError> {
                match self { $( Self::$law(params) => build(params, path, supplied).map(AnyLaw::$law), )* }
            }
        }

        impl AnyLaw {
            /// Its name.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$law(_) => <$law as Law>::NAME, )* }
            }

            /// An ACK has arrived.
            #[inline]
            pub fn on_ack(&mut self, ack: &Ack<'_>) {
                match self { $( Self::$law(law) => law.on_ack(ack), )* }
            }

            /// The host has entered fast recovery.
            pub fn on_loss(&mut self, loss: &Loss) {
                match self { $( Self::$law(law) => law.on_loss(loss), )* }
            }

            /// A retransmission timer has fired.
            pub fn on_timeout(&mut self, now: Nanos) {
                match self { $( Self::$law(law) => law.on_timeout(now), )* }
            }

            /// Whether this ACK tells of congestion on its path.
            pub fn is_congested(&self, ack: &Ack<'_>) -> bool {
                match self { $( Self::$law(law) => law.is_congested(ack), )* }
            }

            /// The delay that the law holds against its target.
            pub fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
                match self { $( Self::$law(law) => law.delay_signal(ack), )* }
            }

            /// What the host may do now.
            #[inline]
            pub fn decision(&self) -> Decision {
                match self { $( Self::$law(law) => law.decision(), )* }
            }
        }

        /// Calls a macro once per law, with a module name and the law's type: one test per row of the table.
        ///
        /// ```
        /// macro_rules! show { ($name:ident, $law:ty) => { println!("{}", stringify!($name)); } }
        /// poseidon_laws::for_each_law!(show);
        /// ```
        #[macro_export]
        macro_rules! for_each_law {
            ($d call:ident) => { $( $d call! { $module, $crate::registry::$law } )* };
        }
    };
}

every_law! { $ registry }
