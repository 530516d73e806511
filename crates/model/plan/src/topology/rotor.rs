//! Racks behind a packet switch and a circuit switch that rotates.

use super::Link;
use poseidon_types::Picos;

/// A reconfigurable datacenter: each rack switch has a link to a packet switch and one to a circuit switch. The circuit switch holds a
/// matching for a `day`, is dark for a `night`, and goes on to the next: in matching `m`, rack `r` sends to rack `r + m + 1`. A rack
/// switch has one queue per other rack; the queue of the rack that its circuit leads to is served by the circuit alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotor {
    /// Racks, each with one switch; at least two.
    pub racks: u32,
    /// Hosts in a rack.
    pub hosts: u32,
    /// Host to rack.
    pub host_link: Link,
    /// Rack to packet switch.
    pub packet_link: Link,
    /// Rack to rack, through the circuit switch.
    pub circuit_link: Link,
    /// How long a circuit stands.
    pub day: Picos,
    /// How long the circuit switch takes to turn.
    pub night: Picos,
    /// Hosts are told of a circuit this long before it stands (reTCP's prebuffering).
    pub notice: Picos,
}

/// Most racks: the queues of a rack switch are kept in 64 bits.
const MOST_RACKS: u32 = 64;

impl Rotor {
    /// The rack that the circuit of `rack` leads to at `time`, if it stands.
    pub fn peer(&self, rack: u32, time: Picos) -> Option<u32> {
        let slot = self.day.get().saturating_add(self.night.get());
        let (matching, into) = (time.get() / slot, time.get() % slot);
        (into < self.day.get()).then(|| self.matched(rack, matching))
    }

    /// Whether hosts of `rack` are told at `time` that their circuit to `other` stands, or soon will.
    pub fn tells(&self, rack: u32, other: u32, time: Picos) -> bool {
        let slot = self.day.get().saturating_add(self.night.get());
        let into = time.get() % slot;
        if into < self.day.get() && self.matched(rack, time.get() / slot) == other {
            return true;
        }
        // Days begin at multiples of the slot: is one of `other` among those of the notice?
        let (first, last) = (time.get() / slot + 1, time.get().saturating_add(self.notice.get()) / slot);
        (first..=last.min(first + u64::from(self.racks)))
            .any(|matching| self.matched(rack, matching) == other)
    }

    /// When the circuits next change, after `time`: a day begins or ends.
    pub const fn next_change(&self, time: Picos) -> Picos {
        let slot = self.day.get().saturating_add(self.night.get());
        let into = time.get() % slot;
        let to = if into < self.day.get() && self.night.get() > 0 { self.day.get() } else { slot };
        Picos::new(time.get().saturating_add(to - into))
    }

    fn matched(&self, rack: u32, matching: u64) -> u32 {
        let step = matching % u64::from(self.racks - 1) + 1;
        u32::try_from((u64::from(rack) + step) % u64::from(self.racks)).unwrap_or(0)
    }

    pub(super) const fn check(&self) -> Result<(), &'static str> {
        if self.racks < 2 || self.racks > MOST_RACKS || self.hosts == 0 {
            return Err("a rotor needs 2 to 64 racks and a host in each");
        }
        if self.day.is_zero() {
            return Err("the day of a rotor is zero: circuits would never stand");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::BitRate;

    const LINK: Link = Link { rate: BitRate::from_gbps(25), delay: Picos::new(1_000_000) };
    const US: u64 = 1_000_000;
    /// PowerTCP section 5, with fewer racks.
    const ROTOR: Rotor = Rotor {
        racks: 5,
        hosts: 2,
        host_link: LINK,
        packet_link: LINK,
        circuit_link: LINK,
        day: Picos::new(225 * US),
        night: Picos::new(20 * US),
        notice: Picos::new(600 * US),
    };

    #[test]
    fn every_rack_meets_every_other_once_a_week() {
        let day = |m: u64| Picos::new(m * 245 * US);
        for rack in 0..5 {
            let mut met: Vec<u32> = (0..4).filter_map(|m| ROTOR.peer(rack, day(m))).collect();
            met.sort_unstable();
            assert_eq!(met, (0..5).filter(|other| *other != rack).collect::<Vec<_>>());
        }
        // A matching is a permutation: nobody receives from two.
        let mut peers: Vec<_> = (0..5).filter_map(|rack| ROTOR.peer(rack, day(2))).collect();
        peers.sort_unstable();
        assert_eq!(peers, [0, 1, 2, 3, 4]);
        assert_eq!(ROTOR.peer(0, Picos::new(230 * US)), None, "night");
    }

    #[test]
    fn changes_come_at_dusk_and_dawn() {
        assert_eq!(ROTOR.next_change(Picos::ZERO), Picos::new(225 * US));
        assert_eq!(ROTOR.next_change(Picos::new(225 * US)), Picos::new(245 * US));
        assert_eq!(ROTOR.next_change(Picos::new(245 * US)), Picos::new(470 * US));
    }

    #[test]
    fn hosts_are_told_before_the_circuit_stands() {
        // Rack 0 meets rack 4 in the fourth day, from 735 to 960 us; notice from 135 us on.
        assert_eq!(ROTOR.peer(0, Picos::new(735 * US)), Some(4));
        let told = |us| ROTOR.tells(0, 4, Picos::new(us * US));
        assert_eq!((told(134), told(135), told(734), told(959), told(960)), (false, true, true, true, false));
    }
}
