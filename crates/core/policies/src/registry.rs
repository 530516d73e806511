//! The macro that defines the policy registries.

use poseidon_types::params::ParamInfo;

/// A policy's name, source and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyInfo {
    /// The policy's name in scenario files.
    pub name: &'static str,
    /// The publication or program that describes the policy.
    pub source: &'static str,
    /// The policy's parameters.
    pub params: &'static [ParamInfo],
}

/// Defines the enum and the list of all policies of one kind, and the methods that dispatch to the chosen policy.
macro_rules! registry {
    (
        $any:ident, $kind:ident, $list:ident;
        $(#[$doc:meta])* fn $decide:ident($a:ident: $a_type:ty, $b:ident: $b_type:ty) -> $output:ty;
        $( $module:ident :: $policy:ident, )*
    ) => {
        $( pub use $module::$policy; )*

        /// A policy chosen at run time.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $any {
            $( #[doc = concat!("[`", stringify!($policy), "`]")] $policy($policy), )*
        }

        /// All policies of this kind.
        pub const $list: &[$crate::PolicyInfo] = &[
            $( $crate::PolicyInfo {
                name: <$policy as $kind>::NAME,
                source: <$policy as $kind>::SOURCE,
                params: <$policy as Params>::TABLE,
            }, )*
        ];

        impl $any {
            /// Returns the policy called `name` with default parameters, or `None` if the name is unknown.
            pub fn from_name(name: &str) -> Option<Self> {
                $( if name == <$policy as $kind>::NAME { return Some(Self::$policy(Default::default())); } )*
                None
            }

            /// Returns the policy's name.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$policy(_) => <$policy as $kind>::NAME, )* }
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

            $(#[$doc])*
            #[inline]
            pub fn $decide(&self, $a: $a_type, $b: $b_type) -> $output {
                match self { $( Self::$policy(policy) => policy.$decide($a, $b), )* }
            }
        }

        $( impl From<$policy> for $any {
            fn from(policy: $policy) -> Self {
                Self::$policy(policy)
            }
        } )*
    };
}

pub(crate) use registry;
