//! What a law makes of the delays of packets that took different paths (`transport.path-filter`).
//!
//! With packet spraying, each ACK describes another path. A law that follows single ACKs reacts to one slow path with the
//! window of all paths. The filter replaces the delays of an ACK by the median or the largest of the latest packets.

use poseidon_laws::Ack;
use poseidon_plan::transport::PathFilter;
use poseidon_types::Nanos;

/// The number of packets that the filter covers.
const PACKETS: usize = 8;

/// The delays of a sender's latest packets.
#[derive(Clone, Debug)]
pub(crate) struct DelayFilter {
    /// Whether the filter takes the largest delay instead of the median.
    takes_largest: bool,
    rtts: RecentDelays,
    hop_delays: RecentDelays,
}

/// The latest values of one delay, in no particular order.
#[derive(Clone, Debug)]
struct RecentDelays {
    values: [u64; PACKETS],
    count: usize,
}

impl DelayFilter {
    /// Returns `None` if each packet counts alone.
    pub(crate) fn new(filter: PathFilter) -> Option<Self> {
        let takes_largest = match filter {
            PathFilter::Each => return None,
            PathFilter::Median => false,
            PathFilter::Max => true,
        };
        let empty = RecentDelays { values: [0; PACKETS], count: 0 };
        Some(Self { takes_largest, rtts: empty.clone(), hop_delays: empty })
    }

    /// Replaces the delays of an ACK.
    pub(crate) fn apply(&mut self, ack: &mut Ack<'_>) {
        if !ack.rtt_ambiguous {
            ack.rtt = self.rtts.replace(ack.rtt, self.takes_largest);
        }
        if let Some(delay) = ack.max_hop_delay {
            ack.max_hop_delay = Some(self.hop_delays.replace(delay, self.takes_largest));
        }
    }
}

impl RecentDelays {
    /// Records a delay and returns the largest or the median of the latest. With an even number, the median is the
    /// smaller of the two in the middle.
    fn replace(&mut self, delay: Nanos, takes_largest: bool) -> Nanos {
        self.values[self.count % PACKETS] = delay.get();
        self.count += 1;
        let mut sorted = self.values;
        let recent = &mut sorted[..self.count.min(PACKETS)];
        recent.sort_unstable();
        let index = if takes_largest { recent.len() - 1 } else { (recent.len() - 1) / 2 };
        Nanos::new(recent[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(filter: PathFilter, delays: &[u64]) -> Vec<u64> {
        let mut filter = DelayFilter::new(filter).expect("the filter is on");
        let apply = |delay: &u64| {
            let delay = Nanos::new(*delay);
            let mut ack = Ack { rtt: delay, max_hop_delay: Some(delay), ..Ack::EMPTY };
            filter.apply(&mut ack);
            assert_eq!(ack.max_hop_delay, Some(ack.rtt));
            ack.rtt.get()
        };
        delays.iter().map(apply).collect()
    }

    #[test]
    fn median_ignores_a_few_slow_packets() {
        assert_eq!(
            run(PathFilter::Median, &[5, 90, 5, 90, 5, 5, 5, 5, 90, 90]),
            [5, 5, 5, 5, 5, 5, 5, 5, 5, 5]
        );
        assert_eq!(run(PathFilter::Median, &[1, 2, 3, 4, 5]), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn max_holds_a_slow_packet_for_eight_packets() {
        let delays = [5, 90, 5, 5, 5, 5, 5, 5, 5, 5];
        assert_eq!(run(PathFilter::Max, &delays), [5, 90, 90, 90, 90, 90, 90, 90, 90, 5]);
        assert!(DelayFilter::new(PathFilter::Each).is_none());
    }
}
