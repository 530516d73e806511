//! The macro behind both tables.

use poseidon_types::params::ParamInfo;

/// One row of a table, for people and for programs that list policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    /// Its name in scenario files.
    pub name: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [ParamInfo],
}

/// Makes the enum of a kind of policy, its list, its decision and everything that depends only on parameters.
macro_rules! table {
    (
        $any:ident, $kind:ident, $list:ident;
        $(#[$says:meta])* fn $decide:ident($a:ident: $a_type:ty, $b:ident: $b_type:ty) -> $answer:ty;
        $( $module:ident :: $policy:ident, )*
    ) => {
        $( mod $module; pub use $module::$policy; )*

        /// Any policy of the table.
        #[derive(Clone, Debug, PartialEq)]
        pub enum $any {
            $( #[doc = concat!("[`", stringify!($policy), "`]")] $policy($policy), )*
        }

        /// Every policy, in the order of the table.
        pub const $list: &[$crate::PolicyInfo] = &[
            $( $crate::PolicyInfo {
                name: <$policy as $kind>::NAME,
                source: <$policy as $kind>::SOURCE,
                params: <$policy as Params>::TABLE,
            }, )*
        ];

        impl $any {
            /// The defaults of the policy called `name`.
            pub fn of(name: &str) -> Option<Self> {
                $( if name == <$policy as $kind>::NAME { return Some(Self::$policy(Default::default())); } )*
                None
            }

            /// Its name.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$policy(_) => <$policy as $kind>::NAME, )* }
            }

            /// Reads `text` into the parameter called `name`.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
                match self { $( Self::$policy(policy) => policy.set(name, text), )* }
            }

            /// Shows each parameter's value.
            pub fn each(&self, show: &mut dyn FnMut(&'static ParamInfo, &dyn Display)) {
                match self { $( Self::$policy(policy) => policy.each(show), )* }
            }

            /// Refuses values outside the policy's domain.
            pub fn check(&self) -> Result<(), ParamError> {
                match self { $( Self::$policy(policy) => policy.check(), )* }
            }

            $(#[$says])*
            #[inline]
            pub fn $decide(&self, $a: $a_type, $b: $b_type) -> $answer {
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

pub(crate) use table;
