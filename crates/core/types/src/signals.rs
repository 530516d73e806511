//! The congestion signals that a control law needs and a host supplies.
//!
//! A law declares the signals that it needs, and a host declares the signals that it supplies. A mismatch is reported
//! before a run starts, so a law never mistakes a missing signal for zero.

use core::fmt;

/// A set of congestion signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Signals(u16);

/// Every signal and its name, in display order.
const NAMES: [(Signals, &str); 8] = [
    (Signals::RTT, "rtt"),
    (Signals::ECN_ECHO, "ecn-echo"),
    (Signals::MAX_HOP_DELAY, "max-hop-delay"),
    (Signals::REVERSE_MAX_HOP_DELAY, "reverse-max-hop-delay"),
    (Signals::HOP_RECORDS, "hop-records"),
    (Signals::ENDPOINT_DELAY, "endpoint-delay"),
    (Signals::HOP_COUNT, "hop-count"),
    (Signals::CIRCUIT_STATE, "circuit-state"),
];

impl Signals {
    /// No signals.
    pub const NONE: Self = Self(0);
    /// The NIC-to-NIC round-trip time of each ACK, excluding the receiver's processing time.
    pub const RTT: Self = Self(1 << 0);
    /// The number of acknowledged bytes that carried a congestion mark.
    pub const ECN_ECHO: Self = Self(1 << 1);
    /// The largest per-hop queueing delay on the data path, echoed by the receiver.
    pub const MAX_HOP_DELAY: Self = Self(1 << 2);
    /// The largest per-hop queueing delay on the ACK path.
    pub const REVERSE_MAX_HOP_DELAY: Self = Self(1 << 3);
    /// One record per hop on the data path.
    pub const HOP_RECORDS: Self = Self(1 << 4);
    /// The delay inside the two hosts.
    pub const ENDPOINT_DELAY: Self = Self(1 << 5);
    /// The number of switches on the data path.
    pub const HOP_COUNT: Self = Self(1 << 6);
    /// Whether the optical circuit to the destination is up.
    pub const CIRCUIT_STATE: Self = Self(1 << 7);

    /// All signals.
    pub const ALL: Self = Self(0xff);

    /// The names of all signals, separated by spaces.
    pub(crate) const ALL_NAMES: &'static str = "rtt ecn-echo max-hop-delay reverse-max-hop-delay hop-records \
         endpoint-delay hop-count circuit-state";

    /// Returns the signal with this name, or `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(signal, _)| *signal)
    }

    /// Returns the union of both sets.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the signals in `self` that are not in `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether this set contains every signal in `needed`.
    #[inline]
    pub const fn contains(self, needed: Self) -> bool {
        needed.without(self).0 == 0
    }

    /// Returns whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the signals in this set.
    pub fn iter(self) -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(signal, _)| *signal).filter(move |signal| self.contains(*signal))
    }

    /// Iterates over the names of the signals in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(signal, _)| self.contains(*signal)).map(|(_, name)| *name)
    }
}

impl core::ops::BitOr for Signals {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Display for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (i, name) in self.names().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signals({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::ParamValue;
    use std::string::ToString;

    #[test]
    fn every_signal_has_a_name() {
        let names: std::vec::Vec<&str> = Signals::ALL.names().collect();
        assert_eq!(names.join(" "), Signals::ALL_NAMES);
        for signal in Signals::ALL.iter() {
            assert_eq!(signal.names().next().and_then(Signals::from_name), Some(signal));
        }
        assert_eq!(Signals::from_name("cost"), None);
        assert_eq!(<Signals as ParamValue>::parse("nothing"), Ok(Signals::NONE));
        for signals in [Signals::ALL, Signals::RTT | Signals::HOP_COUNT, Signals::NONE] {
            assert_eq!(<Signals as ParamValue>::parse(&signals.to_string()), Ok(signals));
        }
        assert!(<Signals as ParamValue>::parse("rtt,").is_err());
    }

    #[test]
    fn superset_contains_the_needed_signals() {
        let host = Signals::RTT | Signals::ECN_ECHO | Signals::MAX_HOP_DELAY;
        assert!(host.contains(Signals::RTT | Signals::MAX_HOP_DELAY));
        assert!(host.contains(Signals::NONE));
        let needed = Signals::RTT | Signals::HOP_RECORDS;
        assert!(!host.contains(needed));
        assert_eq!(needed.without(host).to_string(), "hop-records");
        assert_eq!((Signals::RTT | Signals::MAX_HOP_DELAY).to_string(), "rtt, max-hop-delay");
        assert_eq!(Signals::NONE.to_string(), "nothing");
        assert_eq!(Signals::ALL.iter().fold(Signals::NONE, Signals::union), Signals::ALL);
    }
}
