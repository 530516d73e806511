//! A law in the place of quinn's congestion control.
//!
//! | quinn says | the law is told |
//! |---|---|
//! | `on_ack` per packet, `on_end_acks` per ACK frame | one ACK per frame: all packets of it, the newest one's round trip, the largest hop delay that was reflected since the last |
//! | `on_congestion_event`, loss | a loss, once per recovery: losses of packets that were sent before it began belong to it |
//! | the same, persistent | a timeout; quinn tells of no single timeout |
//! | the same, without lost bytes | nothing: that is ECN, of which quinn does not say how much |

use crate::running::Running;
use crate::shared::Shared;
use crate::steer::{self, Steer};
use core::any::Any;
use core::time::Duration;
use poseidon_types::Nanos;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::sync::Arc;
use std::time::Instant;

/// quinn lets a packet go while `in flight + packet < window`: it wants to stay below its window, and a law may fill it.
const BEYOND: u64 = 1;

/// Makes a controller per path.
#[derive(Debug)]
pub(crate) struct Factory<R> {
    /// The law at the start of a flow.
    law: R,
    shared: Arc<Shared>,
}

impl<R: Running> Factory<R> {
    pub(crate) fn new(law: R, shared: Arc<Shared>) -> Self {
        Self { law, shared }
    }
}

impl<R: Running> ControllerFactory for Factory<R> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let steer = Steer::new(self.law.clone(), Arc::clone(&self.shared), current_mtu, BEYOND);
        Box::new(Steered { steer, began: now, frame: Frame::default(), recovery_began: None })
    }
}

/// What a frame has acknowledged so far.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    bytes: u64,
    /// When its newest packet was sent, and its oldest.
    newest: Option<Instant>,
    oldest: Option<Instant>,
    smooth_rtt: Duration,
}

/// One path. quinn clones where a peer's port changes, and for whoever asks for the state.
#[derive(Clone, Debug)]
struct Steered<R> {
    steer: Steer<R>,
    began: Instant,
    frame: Frame,
    recovery_began: Option<Instant>,
}

impl<R: Running> Steered<R> {
    fn clock(&self, at: Instant) -> Nanos {
        nanos(at.saturating_duration_since(self.began))
    }
}

impl<R: Running> Controller for Steered<R> {
    fn on_sent(&mut self, _now: Instant, bytes: u64, _last_packet_number: u64) {
        self.steer.on_sent(bytes);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        let frame = &mut self.frame;
        frame.bytes += bytes;
        frame.newest = frame.newest.max(Some(sent));
        frame.oldest = Some(frame.oldest.map_or(sent, |oldest| oldest.min(sent)));
        frame.smooth_rtt = rtt.get();
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        let frame = core::mem::take(&mut self.frame);
        let (Some(newest), Some(oldest)) = (frame.newest, frame.oldest) else { return };
        self.steer.on_ack(&steer::Frame {
            at: self.clock(now),
            rtt: nanos(now.saturating_duration_since(newest)),
            longest: nanos(now.saturating_duration_since(oldest)),
            smooth_rtt: nanos(frame.smooth_rtt),
            bytes: frame.bytes,
            in_flight,
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let at = self.clock(now);
        if is_persistent {
            self.steer.on_timeout(at);
        } else if lost_bytes == 0 || self.recovery_began.is_some_and(|began| sent <= began) {
            // Marks: quinn says that there were some, which no law can use. Or of a recovery that has begun.
            return;
        } else {
            self.steer.on_loss(at, lost_bytes);
        }
        self.recovery_began = Some(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.steer.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.steer.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.steer.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.steer.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        // The law's type is the factory's business; who asks gets the numbers.
        Box::new(self.steer.metrics_now())
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
