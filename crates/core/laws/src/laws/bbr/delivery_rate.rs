//! Delivery-rate samples, computed from a few points recorded over the last two round trips.

/// The delivered counts recorded at up to eight ACKs in the last two round trips.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct DeliveryRateSampler {
    points: [DeliveryPoint; 8],
    /// The index of the newest point.
    newest: u8,
    /// The number of delivered packets, as a wrapping counter.
    pub(super) delivered: u32,
}

/// The delivered count recorded at one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct DeliveryPoint {
    /// When the ACK arrived.
    acked_at: u64,
    /// The RTT of the acknowledged packet, which was sent at `acked_at - rtt`.
    rtt: u32,
    delivered: u32,
}

/// The number of packets delivered over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSample {
    /// The delivered count at the start of the interval.
    pub(super) prior_delivered: u32,
    /// The number of packets delivered during the interval.
    pub(super) packets: u32,
    /// The interval length in ns.
    pub(super) interval: u64,
}

impl RateSample {
    pub(super) fn packets_per_ns(&self) -> f64 {
        f64::from(self.packets) / (self.interval.max(1) as f64)
    }
}

impl DeliveryRateSampler {
    /// Discards the history after an idle period that ended with a packet sent at `sent_at`.
    pub(super) fn restart(&mut self, sent_at: u64) {
        self.points = [DeliveryPoint { acked_at: sent_at, rtt: 0, delivered: self.delivered }; 8];
    }

    /// Counts newly delivered packets and returns a sample of the deliveries since the acknowledged packet was sent.
    ///
    /// The interval is the longer of the ACK interval and the send interval. A burst of delayed ACKs therefore does not
    /// inflate the bandwidth estimate (tcp_rate_gen).
    pub(super) fn sample(&mut self, now: u64, rtt: u64, packets: u32) -> RateSample {
        self.delivered = self.delivered.wrapping_add(packets);
        let age = |point: &DeliveryPoint| now.wrapping_sub(point.acked_at);
        let mut start = self.points[0];
        for point in &self.points {
            // Use the latest point before the packet was sent, or the oldest point if all are later.
            let (age, best) = (age(point), age(&start));
            if if best >= rtt { age >= rtt && age < best } else { age > best } {
                start = *point;
            }
        }
        let ack_interval = age(&start);
        let send_interval =
            ack_interval.wrapping_sub(rtt).wrapping_add(u64::from(start.rtt)).cast_signed().max(0);
        let interval = ack_interval.max(send_interval.cast_unsigned());
        let newest = self.points[usize::from(self.newest % 8)];
        if age(&newest) >= rtt / 4 {
            self.newest = (self.newest + 1) % 8;
            let rtt = u32::try_from(rtt).unwrap_or(u32::MAX);
            self.points[usize::from(self.newest % 8)] =
                DeliveryPoint { acked_at: now, rtt, delivered: self.delivered };
        }
        let packets = self.delivered.wrapping_sub(start.delivered);
        RateSample { prior_delivered: start.delivered, packets, interval }
    }
}
