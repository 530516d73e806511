//! The registry, which selects a law by name at run time.
//!
//! [`law_list!`](crate::law_list) lists the laws. From this list, macros generate the enums [`AnyLaw`] and
//! [`AnyParams`], their dispatch, the table [`LAWS`] and the conformance tests.

use crate::event::{Ack, Loss, Timeout, Trim};
use crate::law::{Decision, DelaySignal, Law, LawDefinition, Path, PathError};
use crate::params::{ParamError, ParamInfo, Params};
use core::fmt::{self, Display};
use poseidon_types::{Nanos, Signals};

/// A law's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LawInfo {
    /// The law's name in scenario files.
    pub name: &'static str,
    /// The paper, algorithm and equations that the law implements.
    pub source: &'static str,
    /// The size of one flow's state in bytes.
    pub state_bytes: usize,
    /// The law's parameters.
    pub params: &'static [ParamInfo],
}

/// The reason a law cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The host does not supply a signal that the law needs.
    MissingSignals {
        /// The law's name.
        law: &'static str,
        /// The missing signals.
        missing: Signals,
        /// The signals that the host supplies.
        supplied: Signals,
    },
    /// A parameter is outside its valid range.
    Param {
        /// The law's name.
        law: &'static str,
        /// The invalid parameter and the reason.
        error: ParamError,
    },
    /// The path is invalid for every law.
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

/// Checks the parameters, the path and the supplied signals, and builds a law of type `L`.
pub fn build<L: LawDefinition>(params: &L::Params, path: &Path, supplied: Signals) -> Result<L, BuildError> {
    params.check().map_err(|error| BuildError::Param { law: L::NAME, error })?;
    path.check().map_err(BuildError::Path)?;
    let missing = L::needs(params).without(supplied);
    if !missing.is_empty() {
        return Err(BuildError::MissingSignals { law: L::NAME, missing, supplied });
    }
    Ok(L::new(params, path))
}

/// Passes the list of all laws, in [`LAWS`] order, to the macro `callback`.
///
/// Each entry is `module::Type,`; the type is `poseidon_laws::laws::module::Type`. A new law needs a line in this list
/// and a `mod` line in `laws/mod.rs`.
///
/// ```
/// macro_rules! print_types {
///     ($($module:ident :: $law:ident,)*) => { $( println!("{}", stringify!($law)); )* };
/// }
/// poseidon_laws::law_list!(print_types);
/// ```
#[macro_export]
macro_rules! law_list {
    ($callback:ident) => {
        $callback! {
            poseidon::Poseidon,
            swift::Swift,
            hpcc::Hpcc,
            powertcp::PowerTcp,
            theta_powertcp::ThetaPowerTcp,
            timely::Timely,
            dcqcn::Dcqcn,
            dctcp::Dctcp,
            cubic::Cubic,
            bbr::Bbr,
            retcp::Retcp,
            nscc::Nscc,
            fixed::Fixed,
        }
    };
}

/// Generates the enums, their dispatch and [`LAWS`].
macro_rules! registry {
    ($( $module:ident :: $law:ident, )*) => {
        $( pub use crate::laws::$module::$law; )*

        /// Any law in the registry, for hosts that select a law at run time.
        ///
        /// The state is stored inline, without a heap allocation, so it is as large as the largest law's state. A host
        /// that knows its law at compile time can use that law's type instead.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyLaw {
            $( #[doc = concat!("[`", stringify!($law), "`]")] $law($law), )*
            /// A law that the program supplies at run time. It is not in [`LAWS`].
            #[cfg(feature = "custom")]
            Custom(crate::custom::Custom),
        }

        /// The parameters of any law in the registry.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyParams {
            $( #[doc = concat!("Parameters of [`", stringify!($law), "`].")] $law(<$law as LawDefinition>::Params), )*
            /// Parameters of a law that the program supplies at run time.
            #[cfg(feature = "custom")]
            Custom(crate::custom::CustomParams),
        }

        /// All laws, in the order of [`law_list!`](crate::law_list).
        pub const LAWS: &[LawInfo] = &[
            $( LawInfo {
                name: <$law as LawDefinition>::NAME,
                source: <$law as LawDefinition>::SOURCE,
                state_bytes: size_of::<$law>(),
                params: <<$law as LawDefinition>::Params as Params>::TABLE,
            }, )*
        ];

        impl AnyParams {
            /// Returns the default parameters of the law called `name`, or `None` if there is no such law.
            pub fn for_law(name: &str) -> Option<Self> {
                $( if name == <$law as LawDefinition>::NAME { return Some(Self::$law(Default::default())); } )*
                #[cfg(feature = "custom")]
                if name == crate::custom::Custom::NAME {
                    return Some(Self::Custom(Default::default()));
                }
                None
            }

            /// Returns the law's name.
            pub const fn law_name(&self) -> &'static str {
                match self {
                    $( Self::$law(_) => <$law as LawDefinition>::NAME, )*
                    #[cfg(feature = "custom")]
                    Self::Custom(_) => crate::custom::Custom::NAME,
                }
            }

            /// Sets the parameter called `name` to the value parsed from `text`.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
                match self {
                    $( Self::$law(params) => params.set(name, text), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(params) => params.set(name, text),
                }
            }

            /// Sets all parameters to a preset's values.
            pub fn apply_preset(&mut self, name: &str) -> Result<(), ParamError> {
                match self {
                    $( Self::$law(params) => params.apply_preset(name), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(params) => params.apply_preset(name),
                }
            }

            /// Calls `visit` with the name and description of each preset except `paper`.
            pub fn for_each_preset(&self, visit: &mut dyn FnMut(&'static str, &'static str)) {
                match self {
                    $( Self::$law(_) => {
                        for preset in <<$law as LawDefinition>::Params as Params>::PRESETS {
                            visit(preset.name, preset.description);
                        }
                    } )*
                    #[cfg(feature = "custom")]
                    Self::Custom(_) => {}
                }
            }

            /// Calls `visit` with each parameter and its current value.
            pub fn for_each(&self, visit: &mut dyn FnMut(&'static ParamInfo, &dyn Display)) {
                match self {
                    $( Self::$law(params) => params.for_each(visit), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(params) => params.for_each(visit),
                }
            }

            /// Returns the signals that the law needs with these parameters.
            pub fn needs(&self) -> Signals {
                match self {
                    $( Self::$law(params) => <$law as LawDefinition>::needs(params), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(params) => crate::custom::Custom::needs(params),
                }
            }

            /// Checks the parameters, the path and the supplied signals, and builds the law for a new flow.
            pub fn build(&self, path: &Path, supplied: Signals) -> Result<AnyLaw, BuildError> {
                match self {
                    $( Self::$law(params) => build(params, path, supplied).map(AnyLaw::$law), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(params) => build(params, path, supplied).map(AnyLaw::Custom),
                }
            }
        }

        impl AnyLaw {
            /// Returns the law's name.
            pub const fn name(&self) -> &'static str {
                match self {
                    $( Self::$law(_) => <$law as LawDefinition>::NAME, )*
                    #[cfg(feature = "custom")]
                    Self::Custom(_) => crate::custom::Custom::NAME,
                }
            }
        }

        impl Law for AnyLaw {
            #[inline]
            fn on_ack(&mut self, ack: &Ack<'_>) {
                match self {
                    $( Self::$law(law) => law.on_ack(ack), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.on_ack(ack),
                }
            }

            fn on_loss(&mut self, loss: &Loss) {
                match self {
                    $( Self::$law(law) => law.on_loss(loss), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.on_loss(loss),
                }
            }

            fn on_timeout(&mut self, timeout: &Timeout) {
                match self {
                    $( Self::$law(law) => law.on_timeout(timeout), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.on_timeout(timeout),
                }
            }

            fn on_trim(&mut self, trim: &Trim) {
                match self {
                    $( Self::$law(law) => law.on_trim(trim), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.on_trim(trim),
                }
            }

            fn is_congested(&self, ack: &Ack<'_>) -> bool {
                match self {
                    $( Self::$law(law) => law.is_congested(ack), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.is_congested(ack),
                }
            }

            fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
                match self {
                    $( Self::$law(law) => law.delay_signal(ack), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.delay_signal(ack),
                }
            }

            fn target(&self, hop_count: u8) -> Option<Nanos> {
                match self {
                    $( Self::$law(law) => law.target(hop_count), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.target(hop_count),
                }
            }

            #[inline]
            fn decision(&self) -> Decision {
                match self {
                    $( Self::$law(law) => law.decision(), )*
                    #[cfg(feature = "custom")]
                    Self::Custom(law) => law.decision(),
                }
            }
        }
    };
}

law_list! { registry }
