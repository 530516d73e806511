//! A law in the place of s2n-quic's congestion control.
//!
//! | s2n-quic says | the law is told |
//! |---|---|
//! | `on_ack`, once or more per ACK frame | an ACK: all packets of it, the newest one's round trip |
//! | `on_packet_lost`, per packet | a loss, once per recovery: losses of packets that were sent before it began belong to it |
//! | the same, persistent | a timeout, once for all packets that were sent before it; s2n-quic tells of no single timeout |
//! | `on_explicit_congestion` | nothing: s2n-quic says how many packets were marked, and not how many bytes |

use crate::poseidon::Poseidon;
use crate::shared::Shared;
use crate::steer::{Frame, Steer};
use core::time::Duration;
use poseidon_laws::AnyLaw;
use poseidon_types::Nanos;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{CongestionController, Endpoint, PathInfo, Publisher};
use s2n_quic_core::time::Timestamp;
use std::sync::Arc;

/// For `with_congestion_controller`: the law of the configuration.
#[derive(Clone, Debug)]
pub struct Controllers {
    law: AnyLaw,
    shared: Arc<Shared>,
}

impl Controllers {
    /// Give the same endpoint [`super::Shim`] and [`super::Mtu`].
    pub fn new(poseidon: &Poseidon) -> Self {
        let (law, shared) = poseidon.parts();
        Self { law: law.clone(), shared: Arc::clone(shared) }
    }
}

impl Endpoint for Controllers {
    type CongestionController = Steered;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Steered {
        let steer = Steer::new(self.law.clone(), Arc::clone(&self.shared), path.max_datagram_size, 0);
        Steered { steer, began: None, in_flight: 0, recovery_began: None, timed_out: None }
    }
}

/// One path.
#[derive(Clone, Debug)]
pub struct Steered {
    steer: Steer<AnyLaw>,
    /// When the first packet was sent.
    began: Option<Timestamp>,
    in_flight: u64,
    recovery_began: Option<Timestamp>,
    timed_out: Option<Timestamp>,
}

impl Steered {
    fn clock(&mut self, at: Timestamp) -> Nanos {
        let began = *self.began.get_or_insert(at);
        nanos(at.saturating_duration_since(began))
    }

    fn left(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn sent(&mut self, at: Timestamp, bytes: u64) {
        self.clock(at);
        self.in_flight += bytes;
        self.steer.on_sent(bytes);
    }

    fn acked(&mut self, newest_sent: Timestamp, bytes: u64, smooth_rtt: Duration, received: Timestamp) {
        self.left(bytes);
        let at = self.clock(received);
        let newest = nanos(received.saturating_duration_since(newest_sent));
        self.steer.on_ack(&Frame {
            at,
            rtt: newest,
            // The oldest packet of a frame is not told. It went at most a window, so a round trip, before the newest.
            longest: newest * 2,
            smooth_rtt: nanos(smooth_rtt),
            bytes,
            in_flight: self.in_flight,
        });
    }

    fn lost(&mut self, sent: Timestamp, bytes: u64, is_persistent: bool, now: Timestamp) {
        self.left(bytes);
        let at = self.clock(now);
        let is_of = |began: Option<Timestamp>| began.is_some_and(|began| sent <= began);
        if is_persistent {
            // Said of each lost packet again.
            if is_of(self.timed_out) {
                return;
            }
            self.steer.on_timeout(at);
            self.timed_out = Some(now);
        } else if is_of(self.recovery_began) {
            return;
        } else {
            self.steer.on_loss(at, bytes);
        }
        self.recovery_began = Some(now);
    }
}

impl CongestionController for Steered {
    /// When it was sent.
    type PacketInfo = Timestamp;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.steer.window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        u32::try_from(self.in_flight).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.in_flight + self.steer.mtu() > self.steer.window()
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
        self.sent(time_sent, sent_bytes as u64);
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
        self.acked(newest_sent, bytes as u64, rtt.smoothed_rtt(), received);
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
        self.lost(sent, u64::from(lost_bytes), persistent_congestion, now);
    }

    fn on_explicit_congestion<Pub: Publisher>(&mut self, _marks: u64, _now: Timestamp, _publisher: &mut Pub) {
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.steer.on_mtu(max_data_size);
    }

    /// A probe of the MTU that did not arrive, or keys that are gone: no sign of congestion.
    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.left(bytes_sent as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        None
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use core::net::SocketAddr;
    use poseidon_types::BitRate;
    use s2n_quic_core::inet::SocketAddress;
    use s2n_quic_core::path::mtu;
    use s2n_quic_core::time::{Clock as _, NoopClock};

    /// Of the smallest path: what s2n-quic begins with.
    const FULL: u64 = 1_200;
    const RTT: Duration = Duration::from_millis(1);

    struct Path {
        steered: Steered,
        now: Timestamp,
    }

    impl Path {
        fn new() -> Self {
            let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(1))).expect("it runs here");
            let peer = SocketAddress::from(SocketAddr::from(([10, 0, 0, 1], 65_053)));
            let info = PathInfo::new(&mtu::Config::default(), &peer);
            let steered = Controllers::new(&poseidon).new_congestion_controller(info);
            Self { steered, now: NoopClock.get_time() }
        }

        /// A microsecond later; when it was sent.
        fn send(&mut self, bytes: u64) -> Timestamp {
            self.now += Duration::from_micros(1);
            self.steered.sent(self.now, bytes);
            self.now
        }

        fn lose(&mut self, sent: Timestamp, persistent: bool) {
            self.steered.lost(sent, FULL, persistent, self.now);
        }

        /// Losses and timeouts that the law was told of.
        fn told(&self) -> (u64, u64) {
            let metrics = self.steered.steer.metrics_now();
            (metrics.losses, metrics.timeouts)
        }
    }

    #[test]
    fn what_is_in_flight_is_what_was_sent_and_has_not_left() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..5).map(|_| path.send(FULL)).collect();
        path.send(0);
        assert_eq!(path.steered.bytes_in_flight(), 6_000);
        path.now += RTT;
        path.steered.acked(sent[1], 2 * FULL, RTT, path.now);
        path.lose(sent[2], false);
        path.steered.left(FULL);
        assert_eq!(path.steered.bytes_in_flight(), 1_200);
        assert!(!path.steered.is_congestion_limited());
        while !path.steered.is_congestion_limited() {
            path.send(FULL);
        }
        let (window, in_flight) = (path.steered.congestion_window(), path.steered.bytes_in_flight());
        assert!(in_flight <= window && in_flight + 1_200 > window, "{in_flight} of {window}");
    }

    #[test]
    fn one_recovery_is_one_loss() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..4).map(|_| path.send(FULL)).collect();
        for at in &sent {
            path.lose(*at, false);
        }
        assert_eq!(path.told(), (1, 0));
        let later = path.send(FULL);
        path.lose(later, false);
        assert_eq!(path.told(), (2, 0));
    }

    #[test]
    fn persistent_congestion_is_one_timeout_however_many_packets_say_it() {
        let mut path = Path::new();
        let sent: Vec<Timestamp> = (0..4).map(|_| path.send(FULL)).collect();
        path.lose(sent[0], false);
        for at in &sent[1..] {
            path.lose(*at, true);
        }
        assert_eq!(path.told(), (1, 1));
        // What else was sent before belongs to it, and a recovery to come does not.
        path.lose(sent[3], false);
        assert_eq!(path.told(), (1, 1));
        let later = path.send(FULL);
        path.lose(later, true);
        assert_eq!(path.told(), (1, 2));
    }
}
