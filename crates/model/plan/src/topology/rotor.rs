//! Racks connected by a packet switch and a rotating circuit switch.

use super::Link;
use poseidon_types::Picos;

/// A reconfigurable datacenter network. Each rack switch has one link to a packet switch and one link to a circuit
/// switch.
///
/// The circuit switch keeps each matching for a `day` and reconfigures during a `night`, when it carries no traffic. In
/// matching `m`, rack `r` sends to rack `r + m + 1`. A rack switch has one virtual output queue per destination rack.
/// While a circuit to a rack is up, that rack's queue drains only through the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotor {
    /// The number of racks, at least two. Each rack has one switch.
    pub racks: u32,
    /// The number of hosts per rack.
    pub hosts: u32,
    /// The links between hosts and rack switches.
    pub host_link: Link,
    /// The links between rack switches and the packet switch.
    pub packet_link: Link,
    /// The links between racks through the circuit switch.
    pub circuit_link: Link,
    /// How long each circuit stays up.
    pub day: Picos,
    /// How long the circuit switch takes to reconfigure.
    pub night: Picos,
    /// How long before a circuit comes up hosts are notified, for reTCP's prebuffering.
    pub notice: Picos,
}

/// The maximum number of racks. A rack switch tracks its queues in a 64-bit bitmap.
const MAX_RACKS: u32 = 64;

impl Rotor {
    /// Returns the rack that `rack` has a circuit to at `time`, or `None` during a night.
    pub fn peer(&self, rack: u32, time: Picos) -> Option<u32> {
        let slot = self.day.get().saturating_add(self.night.get());
        let (matching, elapsed) = (time.get() / slot, time.get() % slot);
        (elapsed < self.day.get()).then(|| self.matched_rack(rack, matching))
    }

    /// Returns whether the circuit from `rack` to `other` is up at `time` or will come up within the notice period.
    pub fn announces(&self, rack: u32, other: u32, time: Picos) -> bool {
        let slot = self.day.get().saturating_add(self.night.get());
        let elapsed = time.get() % slot;
        if elapsed < self.day.get() && self.matched_rack(rack, time.get() / slot) == other {
            return true;
        }
        // Days begin at multiples of the slot length. Check all days that begin within the notice period.
        let (first, last) = (time.get() / slot + 1, time.get().saturating_add(self.notice.get()) / slot);
        (first..=last.min(first + u64::from(self.racks)))
            .any(|matching| self.matched_rack(rack, matching) == other)
    }

    /// Returns the next time after `time` at which a day begins or ends.
    pub const fn next_change(&self, time: Picos) -> Picos {
        let slot = self.day.get().saturating_add(self.night.get());
        let elapsed = time.get() % slot;
        let next = if elapsed < self.day.get() && self.night.get() > 0 { self.day.get() } else { slot };
        Picos::new(time.get().saturating_add(next - elapsed))
    }

    /// Returns the rack that `rack` sends to in this matching.
    fn matched_rack(&self, rack: u32, matching: u64) -> u32 {
        let step = matching % u64::from(self.racks - 1) + 1;
        u32::try_from((u64::from(rack) + step) % u64::from(self.racks)).unwrap_or(0)
    }

    pub(super) const fn check(&self) -> Result<(), &'static str> {
        if self.racks < 2 || self.racks > MAX_RACKS || self.hosts == 0 {
            return Err("a rotor needs 2 to 64 racks with at least one host each");
        }
        if self.day.is_zero() {
            return Err("the day of a rotor is zero: circuits would never be up");
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
    /// The rotor network from PowerTCP section 5, with fewer racks.
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
    fn every_rack_has_a_circuit_to_every_other_rack_once_per_cycle() {
        let day = |m: u64| Picos::new(m * 245 * US);
        for rack in 0..5 {
            let mut peers: Vec<u32> = (0..4).filter_map(|m| ROTOR.peer(rack, day(m))).collect();
            peers.sort_unstable();
            assert_eq!(peers, (0..5).filter(|other| *other != rack).collect::<Vec<_>>());
        }
        // A matching is a permutation, so no rack receives from two racks.
        let mut peers: Vec<_> = (0..5).filter_map(|rack| ROTOR.peer(rack, day(2))).collect();
        peers.sort_unstable();
        assert_eq!(peers, [0, 1, 2, 3, 4]);
        assert_eq!(ROTOR.peer(0, Picos::new(230 * US)), None, "night");
    }

    #[test]
    fn circuits_change_when_a_day_begins_or_ends() {
        assert_eq!(ROTOR.next_change(Picos::ZERO), Picos::new(225 * US));
        assert_eq!(ROTOR.next_change(Picos::new(225 * US)), Picos::new(245 * US));
        assert_eq!(ROTOR.next_change(Picos::new(245 * US)), Picos::new(470 * US));
    }

    #[test]
    fn hosts_learn_about_a_circuit_in_advance() {
        // Rack 0 has a circuit to rack 4 on the fourth day, from 735 to 960 us. The notice period begins at 135 us.
        assert_eq!(ROTOR.peer(0, Picos::new(735 * US)), Some(4));
        let announced = |us| ROTOR.announces(0, 4, Picos::new(us * US));
        let times = [134, 135, 734, 959, 960];
        assert_eq!(times.map(announced), [false, true, true, true, false]);
    }
}
