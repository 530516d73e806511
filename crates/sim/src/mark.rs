//! Which packets get a congestion mark: one function per policy, decided as a packet leaves.

use poseidon_plan::switch::{Codel, Mark};
use poseidon_types::Bytes;

use crate::network::mix;

/// What a marking policy sees of a packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    /// Now, ps.
    pub(crate) now: u64,
    /// How long the packet waited, ps.
    pub(crate) waited: u64,
    /// Bytes that wait behind it.
    pub(crate) behind: u64,
    /// The largest packet there is, bytes.
    pub(crate) largest: Bytes,
    /// What chance is mixed from: another number for each packet of each port.
    pub(crate) dice: u64,
}

/// What a port remembers for its policy. Times in ps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marker {
    /// CoDel: when a standing queue will have lasted an interval; zero for no standing queue.
    first_above: u64,
    /// CoDel: when the next packet is marked.
    next: u64,
    count: u32,
    last_count: u32,
    marking: bool,
}

impl Marker {
    /// Whether the packet is marked.
    #[inline]
    pub(crate) fn marks(&mut self, policy: &Mark, packet: &Departure) -> bool {
        match policy {
            Mark::Off => false,
            Mark::Step { threshold } => packet.behind > threshold.get(),
            Mark::Red { min, max, probability } => red(*min, *max, probability.q32(), packet),
            Mark::CodelRfc(codel) => self.codel_rfc(codel, packet),
            Mark::CodelTofino(codel) => self.codel_tofino(codel, packet),
        }
    }

    /// RFC 8289 section 5.5, with a mark where it drops.
    fn codel_rfc(&mut self, codel: &Codel, packet: &Departure) -> bool {
        let interval = codel.interval.get();
        let stands = self.stands(codel, packet);
        if !self.marking {
            if !stands {
                return false;
            }
            // Section 4.3: soon after the last time, go on where it stopped.
            let recent = packet.now.saturating_sub(self.next) < interval.saturating_mul(16);
            let more = self.count.saturating_sub(self.last_count);
            self.count = if more > 1 && recent { more } else { 1 };
            self.last_count = self.count;
            self.marking = true;
            self.next = packet.now.saturating_add(spacing(interval, self.count));
            return true;
        }
        if !stands {
            self.marking = false;
            return false;
        }
        if packet.now < self.next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.next = self.next.saturating_add(spacing(interval, self.count));
        true
    }

    /// Whether the queue has stood above the target for an interval.
    fn stands(&mut self, codel: &Codel, packet: &Departure) -> bool {
        if packet.waited < codel.target.get() || packet.behind <= packet.largest.get() {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = packet.now.saturating_add(codel.interval.get());
            return false;
        }
        packet.now >= self.first_above
    }

    /// The variant of `ralfkundel/p4-codel` for Tofino, which RPM builds on: it resets the moment a packet is below the
    /// target, has no memory of the last time and no guard for the last packet.
    fn codel_tofino(&mut self, codel: &Codel, packet: &Departure) -> bool {
        let interval = codel.interval.get();
        if packet.waited < codel.target.get() {
            self.marking = false;
            return false;
        }
        if !self.marking {
            (self.marking, self.count, self.next) = (true, 1, packet.now.saturating_add(interval));
            return false;
        }
        if packet.now <= self.next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.next = self.next.saturating_add(spacing(interval, self.count));
        true
    }
}

/// RED on the instantaneous queue, as DCQCN uses it: nothing up to `min`, a rising share up to `max`, everything above.
fn red(min: Bytes, max: Bytes, probability_q32: u64, packet: &Departure) -> bool {
    if packet.behind <= min.get() {
        return false;
    }
    if packet.behind > max.get() {
        return true;
    }
    let (over, range) = (packet.behind - min.get(), max.get().saturating_sub(min.get()).max(1));
    let share = u128::from(probability_q32) * u128::from(over) / u128::from(range);
    u128::from(mix(packet.dice) >> 32) < share
}

/// `interval / sqrt(count)`, rounded down.
fn spacing(interval: u64, count: u32) -> u64 {
    let square = u128::from(interval) * u128::from(interval) / u128::from(count.max(1));
    u64::try_from(square.isqrt()).unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Fraction, Picos};

    const MS: u64 = 1_000_000_000;
    const CODEL: Codel = Codel { target: Picos::new(MS), interval: Picos::new(20 * MS) };

    /// The milliseconds at which packets are marked, one packet per 0.1 ms, each having waited `waited(ms)` ms.
    fn marks(policy: Mark, ms: u64, waited: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut marker = Marker::default();
        let packet = |i: u64| {
            let at = i as f64 / 10.0;
            let waited = if waited(at) > 1.5 { 2 * MS } else { MS / 2 };
            let now = i * MS / 10 + 1;
            Departure { now, waited, behind: 1_000_000, largest: Bytes::new(1_500), dice: 0 }
        };
        (0..ms * 10).filter(|i| marker.marks(&policy, &packet(*i))).map(|i| i as f64 / 10.0).collect()
    }

    #[test]
    fn rfc_codel_marks_after_an_interval_and_then_ever_more_often() {
        let seen = marks(Mark::CodelRfc(CODEL), 70, |_| 2.0);
        // 20 ms, then gaps of 20, 20/√2, 20/√3 ms.
        assert_eq!(seen, [20.0, 40.0, 54.2, 65.7]);
    }

    #[test]
    fn rfc_codel_remembers_how_often_it_marked() {
        // A pause of 30 ms: it comes back at the rate it had.
        let seen =
            marks(Mark::CodelRfc(CODEL), 200, |ms| if (80.0..110.0).contains(&ms) { 0.0 } else { 2.0 });
        let after: Vec<f64> = seen.iter().copied().filter(|ms| *ms > 110.0).collect();
        assert!(after[1] - after[0] < 12.0, "{seen:?}");
    }

    #[test]
    fn tofino_codel_waits_an_interval_each_time() {
        let seen = marks(Mark::CodelTofino(CODEL), 70, |_| 2.0);
        // Armed at 0; then after 20, 20 + 20/√2, + 20/√3 ms, with the first packet later than that.
        assert_eq!(seen, [20.1, 34.2, 45.7, 55.7, 64.7]);
        let paused =
            marks(Mark::CodelTofino(CODEL), 60, |ms| if (30.0..31.0).contains(&ms) { 0.0 } else { 2.0 });
        assert_eq!(paused, [20.1, 51.1], "one packet below the target and it starts anew");
    }

    #[test]
    fn red_marks_a_rising_share() {
        let policy =
            Mark::Red { min: Bytes::new(100), max: Bytes::new(200), probability: Fraction::ratio(1, 5) };
        let share = |behind| {
            let mut marker = Marker::default();
            let marked = (0..10_000).filter(|dice| {
                let packet = Departure { now: 0, waited: 0, behind, largest: Bytes::new(1), dice: *dice };
                marker.marks(&policy, &packet)
            });
            marked.count()
        };
        assert_eq!((share(100), share(201)), (0, 10_000));
        assert!((900..1_100).contains(&share(150)) && (1_900..2_100).contains(&share(200)));
    }
}
