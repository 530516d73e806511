//! A law in the place of quinn's congestion control.
//!
//! | quinn says | the law is told |
//! |---|---|
//! | `on_ack` per packet, `on_end_acks` per ACK frame | one [`Ack`] per frame: all packets of it, the newest one's round trip, the largest hop delay that was reflected since the last |
//! | `on_congestion_event`, loss | `on_loss`, once per recovery: losses of packets that were sent before it began belong to it |
//! | the same, persistent | `on_timeout`; quinn tells of no single timeout |
//! | the same, without lost bytes | nothing: that is ECN, of which quinn does not say how much |
//!
//! A law's packet is [`crate::Config::packet`], whatever the path's MTU is at the moment: acknowledged bytes are counted in those, and what is
//! left over counts with the next ACK.

use crate::config::{Cause, Decided};
use crate::context;
use crate::flow::Flow;
use crate::metrics::{FlowMetrics, count};
use crate::running::Running;
use crate::shared::{Shared, of_flow};
use crate::signal::{Sample, Sense, Senses};
use core::any::Any;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use poseidon_laws::{Ack, Decision, Loss, Pacing};
use poseidon_types::{Bytes, Nanos, chance};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::sync::Arc;
use std::time::Instant;

/// quinn lets a packet go while `in flight + packet < window`. Two packets in flight are the least that works: with one, the receiver waits 25 ms
/// for a second before it acknowledges; with none, nothing moves.
const LEAST_PACKETS: u64 = 2;

/// A flow's place among all flows, given back when the last who speaks of it is gone.
#[derive(Debug)]
struct Place {
    flow: Arc<Flow>,
    shared: Arc<Shared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.flows.close(&self.flow);
    }
}

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
        let shared = Arc::clone(&self.shared);
        let place = Place { flow: shared.flows.open(), shared };
        let number = place.flow.number;
        let mut steered = Steered {
            law: self.law.clone(),
            senses: Senses::new(place.shared.bounds),
            packet: Bytes::new(u64::from(place.shared.packet)),
            flow: Arc::clone(&place.flow),
            place: Arc::new(place),
            began: now,
            mtu: u64::from(current_mtu),
            window: 0,
            frame: Frame::default(),
            left_over: 0,
            sent_bytes: 0,
            recovery_began: None,
            chance: chance::mix(number),
        };
        steered.decide(Duration::ZERO);
        Box::new(steered)
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

/// What the law was told of, for whoever listens.
struct Event {
    cause: Cause,
    at: Nanos,
    sense: Option<Sense>,
    told: Option<Nanos>,
    acked: u64,
    in_flight: Option<u64>,
}

/// One path under a law. Clones share the flow: quinn clones where a peer's port changes, and for whoever asks for the state.
#[derive(Clone, Debug)]
pub(crate) struct Steered<R> {
    law: R,
    senses: Senses,
    packet: Bytes,
    flow: Arc<Flow>,
    place: Arc<Place>,
    began: Instant,
    mtu: u64,
    window: u64,
    frame: Frame,
    /// Acknowledged bytes that did not fill a packet.
    left_over: u64,
    sent_bytes: u64,
    recovery_began: Option<Instant>,
    chance: u64,
}

impl<R: Running> Steered<R> {
    pub(crate) fn metrics_now(&self) -> FlowMetrics {
        of_flow(&self.flow)
    }

    fn clock(&self, at: Instant) -> Nanos {
        nanos(at.saturating_duration_since(self.began))
    }

    /// Asks the law, and makes of its answer what quinn can carry.
    fn decide(&mut self, smooth_rtt: Duration) -> Decision {
        let decision = self.law.decision();
        let gauges = &self.flow.gauges;
        let mut bytes = decision.window.to_bytes_floor(self.packet).get();
        if let Pacing::Rate(rate) = decision.pacing {
            // quinn's pacer follows its window, not a rate; what the rate allows in a round trip comes nearest.
            if !smooth_rtt.is_zero() {
                bytes = bytes.min(rate.bytes_in_floor(nanos(smooth_rtt)).get());
            }
            count(&gauges.unpaced);
        }
        let floor = LEAST_PACKETS * self.mtu;
        if bytes < floor {
            count(&gauges.below_floor);
        }
        // One more, because quinn wants to stay below its window and a law may fill it.
        self.window = bytes.max(floor) + 1;
        gauges.window.store(self.window, Relaxed);
        gauges.law_window_q24.store(decision.window.q24(), Relaxed);
        decision
    }

    fn note(&self, sense: &Sense, told: Option<Nanos>) {
        let gauges = &self.flow.gauges;
        gauges.rtt.store(sense.rtt.get(), Relaxed);
        if let Some(delay) = sense.max_hop_delay {
            gauges.delay.store(delay.get(), Relaxed);
        }
        gauges.set_mode(self.senses.mode());
        match told {
            Some(delay) => {
                count(&gauges.acks_with_telemetry);
                gauges.told(delay);
            }
            None => count(&gauges.acks_without_telemetry),
        }
        if sense.guarded {
            count(&gauges.guarded);
        }
        if sense.implausible {
            count(&gauges.implausible);
        }
    }

    /// Tells whoever listens.
    fn observe(&self, event: &Event, decision: &Decision) {
        let Some(observer) = &self.place.shared.observer else { return };
        observer.0(&Decided {
            flow: self.flow.number,
            tag: self.flow.tag(),
            at: event.at,
            cause: event.cause,
            mode: self.senses.mode(),
            rtt: event.sense.map_or_else(|| self.senses.smallest_rtt(), |sense| sense.rtt),
            told: event.told,
            max_hop_delay: event.sense.and_then(|sense| sense.max_hop_delay),
            acked: Bytes::new(event.acked),
            in_flight: event.in_flight.map(Bytes::new),
            law_window: decision.window,
            window: Bytes::new(self.window),
        });
    }
}

impl<R: Running> Controller for Steered<R> {
    fn on_sent(&mut self, _now: Instant, bytes: u64, _last_packet_number: u64) {
        self.sent_bytes += bytes;
        context::sent(&self.flow);
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
        let at = self.clock(now);
        let told = self.flow.told.take();
        let sense = self.senses.hear(&Sample {
            now: at,
            rtt: nanos(now.saturating_duration_since(newest)).max(Nanos::new(1)),
            longest: nanos(now.saturating_duration_since(oldest)),
            alone: in_flight == 0 && frame.bytes <= self.mtu,
            told,
        });
        let told = told.and_then(|stamp| stamp.telemetry().delay());
        self.note(&sense, told);
        self.left_over += frame.bytes;
        let packets = self.left_over / self.packet.get();
        self.left_over %= self.packet.get();
        self.chance = chance::mix(self.chance);
        let [.., a, b, c, d] = self.chance.to_be_bytes();
        self.law.on_ack(&Ack {
            now: at,
            rtt: sense.rtt,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            bytes: Bytes::new(frame.bytes),
            // What is neither in flight nor still to come has arrived.
            acked_seq: self.sent_bytes.saturating_sub(in_flight),
            next_seq: self.sent_bytes,
            max_hop_delay: sense.max_hop_delay,
            reverse_max_hop_delay: self.flow.reverse.take().and_then(|stamp| stamp.telemetry().delay()),
            app_limited: 2 * (in_flight + frame.bytes) < self.window,
            chance: u32::from_be_bytes([a, b, c, d]),
            ..Ack::EMPTY
        });
        let decision = self.decide(frame.smooth_rtt);
        let in_flight = Some(in_flight);
        let event = Event { cause: Cause::Ack, at, sense: Some(sense), told, acked: frame.bytes, in_flight };
        self.observe(&event, &decision);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        // Marks: quinn says that there were some, which no law can use.
        if lost_bytes == 0 && !is_persistent {
            return;
        }
        let at = self.clock(now);
        let cause = if is_persistent {
            count(&self.flow.gauges.timeouts);
            self.law.on_timeout(at);
            Cause::Timeout
        } else if self.recovery_began.is_some_and(|began| sent <= began) {
            return;
        } else {
            count(&self.flow.gauges.losses);
            self.law.on_loss(&Loss { now: at });
            Cause::Loss
        };
        self.recovery_began = Some(now);
        let decision = self.decide(self.frame.smooth_rtt);
        self.observe(&Event { cause, at, sense: None, told: None, acked: 0, in_flight: None }, &decision);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu);
        self.decide(self.frame.smooth_rtt);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        // The law's type is the factory's business; who asks gets the numbers.
        Box::new(self.metrics_now())
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
