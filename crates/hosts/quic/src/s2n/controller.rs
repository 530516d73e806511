//! Runs a law as s2n-quic's congestion controller.
//!
//! | s2n-quic call | law event |
//! |---|---|
//! | `on_ack`, once or more per ACK frame | an ACK with all its packets and the RTT of the newest packet |
//! | `on_packet_lost`, per packet | a loss, once per recovery period, which includes all packets sent before it began |
//! | `on_packet_lost`, persistent | a timeout, once for all packets sent before it |
//! | `on_explicit_congestion` | none: s2n-quic reports the number of marked packets, but not their bytes |
//!
//! s2n-quic does not report individual timeouts.

use crate::core::driver::{AckFrame, FlowDriver};
use crate::core::poseidon::Poseidon;
use crate::core::shared::Shared;
use core::time::Duration;
use poseidon_laws::AnyLaw;
use poseidon_types::Nanos;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{CongestionController, Endpoint, PathInfo, Publisher};
use s2n_quic_core::time::Timestamp;
use std::sync::Arc;

/// The controller factory for `with_congestion_controller`. It creates a controller with the configured law for
/// each path.
#[derive(Clone, Debug)]
pub struct LawControllerFactory {
    law: AnyLaw,
    shared: Arc<Shared>,
}

impl LawControllerFactory {
    /// Creates the factory. The same endpoint also needs [`super::ShimInterceptor`] and [`super::ShimMtu`].
    pub fn new(poseidon: &Poseidon) -> Self {
        Self { law: poseidon.initial_law().clone(), shared: Arc::clone(poseidon.shared()) }
    }
}

impl Endpoint for LawControllerFactory {
    type CongestionController = LawController;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> LawController {
        let driver = FlowDriver::new(self.law.clone(), Arc::clone(&self.shared), path.max_datagram_size, 0);
        LawController { driver, created: None, in_flight: 0, recovery_start: None, last_timeout: None }
    }
}

/// The controller of one path.
#[derive(Clone, Debug)]
pub struct LawController {
    driver: FlowDriver<AnyLaw>,
    /// The time of the first packet.
    created: Option<Timestamp>,
    in_flight: u64,
    recovery_start: Option<Timestamp>,
    last_timeout: Option<Timestamp>,
}

impl LawController {
    fn since_created(&mut self, timestamp: Timestamp) -> Nanos {
        let created = *self.created.get_or_insert(timestamp);
        nanos(timestamp.saturating_duration_since(created))
    }

    fn remove_in_flight(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn record_sent(&mut self, now: Timestamp, bytes: u64) {
        self.since_created(now);
        self.in_flight += bytes;
        self.driver.on_sent(bytes);
    }

    fn record_acked(&mut self, newest_sent: Timestamp, bytes: u64, smoothed_rtt: Duration, now: Timestamp) {
        self.remove_in_flight(bytes);
        let time = self.since_created(now);
        let rtt = nanos(now.saturating_duration_since(newest_sent));
        self.driver.on_ack(&AckFrame {
            now: time,
            rtt,
            // s2n-quic does not report when the oldest packet was sent. It was sent at most one window, and
            // therefore one round trip, before the newest packet.
            max_rtt: rtt * 2,
            smoothed_rtt: nanos(smoothed_rtt),
            acked_bytes: bytes,
            in_flight: self.in_flight,
        });
    }

    fn record_lost(&mut self, sent: Timestamp, bytes: u64, is_persistent: bool, now: Timestamp) {
        self.remove_in_flight(bytes);
        let time = self.since_created(now);
        let was_sent_before = |start: Option<Timestamp>| start.is_some_and(|start| sent <= start);
        if is_persistent {
            // s2n-quic reports persistent congestion for each lost packet.
            if was_sent_before(self.last_timeout) {
                return;
            }
            self.driver.on_timeout(time);
            self.last_timeout = Some(now);
        } else if was_sent_before(self.recovery_start) {
            return;
        } else {
            self.driver.on_loss(time, bytes);
        }
        self.recovery_start = Some(now);
    }
}

impl CongestionController for LawController {
    /// The send time of the packet.
    type PacketInfo = Timestamp;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.driver.window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        u32::try_from(self.in_flight).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.in_flight + self.driver.mtu() > self.driver.window()
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        _app_limited: Option<bool>,
        _rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) -> Timestamp {
        self.record_sent(time_sent, sent_bytes as u64);
        time_sent
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        _time_sent: Timestamp,
        _now: Timestamp,
        _rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) {
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_sent: Timestamp,
        bytes: usize,
        _newest: Timestamp,
        rtt: &RttEstimator,
        _random: &mut dyn Generator,
        received: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.record_acked(newest_sent, bytes as u64, rtt.smoothed_rtt(), received);
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        sent: Timestamp,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random: &mut dyn Generator,
        now: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.record_lost(sent, u64::from(lost_bytes), persistent_congestion, now);
    }

    fn on_explicit_congestion<Pub: Publisher>(&mut self, _marks: u64, _now: Timestamp, _publisher: &mut Pub) {
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.driver.on_mtu_update(max_data_size);
    }

    /// Handles a lost MTU probe, or a packet whose keys were discarded. Neither is a sign of congestion.
    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.remove_in_flight(bytes_sent as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        None
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::Config;
    use core::net::SocketAddr;
    use poseidon_types::BitRate;
    use s2n_quic_core::inet::SocketAddress;
    use s2n_quic_core::path::mtu;
    use s2n_quic_core::time::{Clock as _, NoopClock};

    /// The initial packet size of s2n-quic.
    const PACKET: u64 = 1_200;
    const RTT: Duration = Duration::from_millis(1);

    struct Path {
        controller: LawController,
        now: Timestamp,
    }

    impl Path {
        fn new() -> Self {
            let poseidon =
                Poseidon::new(Config::for_rate(BitRate::from_gbps(1))).expect("the configuration is valid");
            let peer = SocketAddress::from(SocketAddr::from(([10, 0, 0, 1], 65_053)));
            let info = PathInfo::new(&mtu::Config::default(), &peer);
            let controller = LawControllerFactory::new(&poseidon).new_congestion_controller(info);
            Self { controller, now: NoopClock.get_time() }
        }

        /// Sends a packet one microsecond after the previous packet and returns its send time.
        fn send(&mut self, bytes: u64) -> Timestamp {
            self.now += Duration::from_micros(1);
            self.controller.record_sent(self.now, bytes);
            self.now
        }

        fn lose(&mut self, sent: Timestamp, is_persistent: bool) {
            self.controller.record_lost(sent, PACKET, is_persistent, self.now);
        }

        /// Returns how many losses and timeouts the law received.
        fn losses_and_timeouts(&self) -> (u64, u64) {
            let metrics = self.controller.driver.metrics();
            (metrics.losses, metrics.timeouts)
        }
    }

    #[test]
    fn in_flight_excludes_acked_lost_and_discarded_bytes() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..5).map(|_| path.send(PACKET)).collect();
        path.send(0);
        assert_eq!(path.controller.bytes_in_flight(), 6_000);
        path.now += RTT;
        path.controller.record_acked(sent[1], 2 * PACKET, RTT, path.now);
        path.lose(sent[2], false);
        path.controller.remove_in_flight(PACKET);
        assert_eq!(path.controller.bytes_in_flight(), 1_200);
        assert!(!path.controller.is_congestion_limited());
        while !path.controller.is_congestion_limited() {
            path.send(PACKET);
        }
        let (window, in_flight) = (path.controller.congestion_window(), path.controller.bytes_in_flight());
        assert!(in_flight <= window && in_flight + 1_200 > window, "{in_flight} of {window}");
    }

    #[test]
    fn recovery_period_counts_as_one_loss() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..4).map(|_| path.send(PACKET)).collect();
        for packet in &sent {
            path.lose(*packet, false);
        }
        assert_eq!(path.losses_and_timeouts(), (1, 0));
        let later = path.send(PACKET);
        path.lose(later, false);
        assert_eq!(path.losses_and_timeouts(), (2, 0));
    }

    #[test]
    fn persistent_congestion_of_several_packets_counts_as_one_timeout() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..4).map(|_| path.send(PACKET)).collect();
        path.lose(sent[0], false);
        for packet in &sent[1..] {
            path.lose(*packet, true);
        }
        assert_eq!(path.losses_and_timeouts(), (1, 1));
        // Packets sent before the timeout belong to it. Later packets do not.
        path.lose(sent[3], false);
        assert_eq!(path.losses_and_timeouts(), (1, 1));
        let later = path.send(PACKET);
        path.lose(later, true);
        assert_eq!(path.losses_and_timeouts(), (1, 2));
    }
}
