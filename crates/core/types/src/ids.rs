//! Names of things as small integers that cannot be mixed up.

/// An index newtype: ordered, hashable, printed with its letter.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id with this number.
            #[inline]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Its number.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Its number as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// One direction of one connection: what a law is bound to.
    FlowId, "f"
}
id! {
    /// A host or a switch.
    NodeId, "n"
}
id! {
    /// A port of one node.
    PortId, "p"
}
id! {
    /// A link between two ports.
    LinkId, "l"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn ids_print_with_their_letter_and_order_by_number() {
        let (low, high) = (FlowId::new(3), FlowId::new(20));
        assert_eq!(format!("{low} {high:?}"), "f3 f20");
        assert!(low < high);
        assert_eq!(PortId::new(7).index(), 7);
        assert_eq!(size_of::<NodeId>(), 4);
        assert_eq!(LinkId::new(1).get(), 1);
    }
}
