//! Typed identifiers. A host number cannot be passed where a port number is expected.
//!
//! Every id is a dense 32-bit index, so tables keyed by an id are plain vectors.

/// Defines an index newtype that is ordered, hashable and printed with a letter prefix.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Creates an id from its number.
            #[inline]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the id as a number.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Creates the id for the table entry at `index`.
            ///
            /// # Panics
            ///
            /// Panics if `index` does not fit in 32 bits.
            #[inline]
            #[expect(clippy::cast_possible_truncation, reason = "asserted; `try_from` is not const")]
            pub const fn from_index(index: usize) -> Self {
                assert!(index as u64 <= u32::MAX as u64, "an id fits in 32 bits");
                Self(index as u32)
            }

            /// Returns the id as a table index.
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
    /// A host in the network.
    HostId, "h"
}
id! {
    /// A switch in the network.
    SwitchId, "s"
}
id! {
    /// A port on a host or a switch. The id is meaningful only together with that node's id.
    PortId, "p"
}
id! {
    /// A queue at a port.
    QueueId, "q"
}
id! {
    /// A connection between two hosts.
    ConnectionId, "c"
}
id! {
    /// A message that an application sends over a connection.
    MessageId, "m"
}
id! {
    /// A join, which waits for several messages.
    JoinId, "j"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn ids_print_with_their_letter_and_order_by_number() {
        let (low, high) = (HostId::new(3), HostId::new(20));
        assert_eq!(format!("{low} {high:?} {}", SwitchId::default()), "h3 h20 s0");
        assert!(low < high);
        assert_eq!(PortId::new(7).index(), 7);
        assert_eq!(QueueId::from_index(7), QueueId::new(7));
        assert_eq!(ConnectionId::new(1).get(), 1);
        assert_eq!(size_of::<Option<MessageId>>(), 8);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    #[should_panic(expected = "an id fits in 32 bits")]
    fn index_beyond_32_bits_is_rejected() {
        let _ = HostId::from_index(1 << 32);
    }
}
