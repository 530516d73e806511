//! What a law needs to see and what a host can supply: a mismatch is an error when a run is planned, never a
//! silent zero while it runs.

use core::fmt;

/// A set of signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Signals(u16);

/// Every signal with its name, in the order it is listed to people.
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
    /// No signal.
    pub const NONE: Self = Self(0);
    /// The raw round-trip time of each ACK, NIC to NIC, without the receiver's turn-around.
    pub const RTT: Self = Self(1 << 0);
    /// Which acknowledged bytes carried a congestion mark.
    pub const ECN_ECHO: Self = Self(1 << 1);
    /// The largest per-hop queueing delay on the data path, reflected by the receiver.
    pub const MAX_HOP_DELAY: Self = Self(1 << 2);
    /// The same on the path of the ACK, in the ACK's own field.
    pub const REVERSE_MAX_HOP_DELAY: Self = Self(1 << 3);
    /// One record per hop of the data path.
    pub const HOP_RECORDS: Self = Self(1 << 4);
    /// Delay inside the two hosts.
    pub const ENDPOINT_DELAY: Self = Self(1 << 5);
    /// Number of switches on the data path.
    pub const HOP_COUNT: Self = Self(1 << 6);
    /// Whether the circuit to the destination is up.
    pub const CIRCUIT_STATE: Self = Self(1 << 7);

    /// Every signal there is.
    pub const ALL: Self = Self(0xff);

    /// Both sets together.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What `self` has and `other` lacks.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every signal of `needed` is here.
    #[inline]
    pub const fn supplies(self, needed: Self) -> bool {
        needed.without(self).0 == 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its signals, one at a time.
    pub fn each(self) -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(signal, _)| *signal).filter(move |signal| self.supplies(*signal))
    }

    /// The names of the signals in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(signal, _)| self.supplies(*signal)).map(|(_, name)| *name)
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
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
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
    use std::string::ToString;

    #[test]
    fn a_host_supplies_a_superset() {
        let host = Signals::RTT | Signals::ECN_ECHO | Signals::MAX_HOP_DELAY;
        assert!(host.supplies(Signals::RTT | Signals::MAX_HOP_DELAY));
        assert!(host.supplies(Signals::NONE));
        let needed = Signals::RTT | Signals::HOP_RECORDS;
        assert!(!host.supplies(needed));
        assert_eq!(needed.without(host).to_string(), "hop-records");
        assert_eq!((Signals::RTT | Signals::MAX_HOP_DELAY).to_string(), "rtt, max-hop-delay");
        assert_eq!(Signals::NONE.to_string(), "nothing");
        assert_eq!(Signals::ALL.each().fold(Signals::NONE, Signals::union), Signals::ALL);
    }
}
