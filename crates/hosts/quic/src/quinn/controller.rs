//! Runs a law as quinn's congestion controller.
//!
//! | quinn call | law event |
//! |---|---|
//! | `on_ack` per packet, `on_end_acks` per ACK frame | one ACK per frame |
//! | `on_congestion_event` with lost bytes | a loss, once per recovery period |
//! | `on_congestion_event`, persistent | a timeout |
//! | `on_congestion_event` without lost bytes | none |
//!
//! The ACK covers all packets of the frame. It carries the RTT of the newest packet and the largest hop delay
//! that the peer has echoed since the last frame. If a lost packet was sent before a recovery period began, the
//! loss belongs to that period. quinn does not report individual timeouts. An event without lost bytes is an
//! ECN mark, and quinn does not report the number of marks.

use crate::core::driver::{AckFrame, FlowDriver};
use crate::core::shared::Shared;
use core::any::Any;
use core::time::Duration;
use poseidon_laws::Law;
use poseidon_types::Nanos;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::sync::Arc;
use std::time::Instant;

/// quinn sends a packet if `in flight + packet < window`. A law permits `in flight + packet == window`.
const EXTRA_WINDOW: u64 = 1;

/// Creates a controller for each path.
#[derive(Debug)]
pub(crate) struct LawControllerFactory<L> {
    /// The law in its initial state.
    law: L,
    shared: Arc<Shared>,
}

impl<L> LawControllerFactory<L> {
    pub(crate) fn new(law: L, shared: Arc<Shared>) -> Self {
        Self { law, shared }
    }
}

impl<L: Law + Clone + Send + Sync + 'static> ControllerFactory for LawControllerFactory<L> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let driver = FlowDriver::new(self.law.clone(), Arc::clone(&self.shared), current_mtu, EXTRA_WINDOW);
        Box::new(LawController { driver, created: now, acked: AckedPackets::default(), recovery_start: None })
    }
}

/// The packets that the current ACK frame has acknowledged so far.
#[derive(Clone, Copy, Debug, Default)]
struct AckedPackets {
    bytes: u64,
    newest_sent: Option<Instant>,
    oldest_sent: Option<Instant>,
    smoothed_rtt: Duration,
}

/// The controller of one path. quinn clones the controller when the peer's port changes and when the program
/// requests the controller's state.
#[derive(Clone, Debug)]
struct LawController<L> {
    driver: FlowDriver<L>,
    created: Instant,
    acked: AckedPackets,
    recovery_start: Option<Instant>,
}

impl<L> LawController<L> {
    fn since_created(&self, instant: Instant) -> Nanos {
        nanos(instant.saturating_duration_since(self.created))
    }
}

impl<L: Law + Clone + Send + Sync + 'static> Controller for LawController<L> {
    fn on_sent(&mut self, _now: Instant, bytes: u64, _last_packet_number: u64) {
        self.driver.on_sent(bytes);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        let acked = &mut self.acked;
        acked.bytes += bytes;
        acked.newest_sent = acked.newest_sent.max(Some(sent));
        acked.oldest_sent = Some(acked.oldest_sent.map_or(sent, |oldest| oldest.min(sent)));
        acked.smoothed_rtt = rtt.get();
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        let acked = core::mem::take(&mut self.acked);
        let (Some(newest), Some(oldest)) = (acked.newest_sent, acked.oldest_sent) else { return };
        self.driver.on_ack(&AckFrame {
            now: self.since_created(now),
            rtt: nanos(now.saturating_duration_since(newest)),
            max_rtt: nanos(now.saturating_duration_since(oldest)),
            smoothed_rtt: nanos(acked.smoothed_rtt),
            acked_bytes: acked.bytes,
            in_flight,
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let time = self.since_created(now);
        if is_persistent {
            self.driver.on_timeout(time);
        } else if lost_bytes == 0 || self.recovery_start.is_some_and(|start| sent <= start) {
            // The event is an ECN mark, which no law can use without a count, or a loss in the current
            // recovery period.
            return;
        } else {
            self.driver.on_loss(time, lost_bytes);
        }
        self.recovery_start = Some(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.driver.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.driver.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.driver.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        // The law's type is private to the factory, so callers receive the metrics instead.
        Box::new(self.driver.metrics())
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
