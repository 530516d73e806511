//! A law at work on one path, whatever stack hosts it.
//!
//! A stack says what was sent, acknowledged and lost, in its own clock and with its own words; `controller.rs` does it for quinn, `s2n/` for
//! s2n-quic. Here those become what a law is told, and its answer becomes bytes that a stack may have in flight.
//!
//! A law's packet is [`crate::Config::packet`], whatever the path's MTU is at the moment: acknowledged bytes are counted in those, and what is
//! left over counts with the next ACK.

use crate::config::{Cause, Decided};
use crate::context;
use crate::flow::Flow;
use crate::metrics::{FlowMetrics, count};
use crate::running::Running;
use crate::shared::{Shared, of_flow};
use crate::signal::{Mode, Sample, Sense, Senses};
use core::sync::atomic::Ordering::Relaxed;
use poseidon_laws::parts::coexistence::{self, Coexistence, CoexistenceAck};
use poseidon_laws::{Ack, Decision, Loss, Pacing};
use poseidon_types::{Bytes, Nanos, chance};
use std::sync::Arc;

/// Two packets in flight are the least that works: with one, the receiver waits 25 ms for a second before it acknowledges; with none, nothing moves.
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

/// What an ACK frame says. Times are since the path began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) at: Nanos,
    /// Of its newest packet.
    pub(crate) rtt: Nanos,
    /// The longest way that any of its packets can have had.
    pub(crate) longest: Nanos,
    pub(crate) smooth_rtt: Nanos,
    pub(crate) bytes: u64,
    /// After it.
    pub(crate) in_flight: u64,
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

/// One path under a law. Clones share the flow.
#[derive(Clone, Debug)]
pub(crate) struct Steer<R> {
    law: R,
    senses: Senses,
    /// Where it is on.
    coexistence: Option<Coexistence>,
    /// Packets found lost since the last ACK frame.
    lost: u32,
    packet: Bytes,
    flow: Arc<Flow>,
    place: Arc<Place>,
    mtu: u64,
    /// What the law's window becomes, plus this.
    beyond: u64,
    window: u64,
    smooth_rtt: Nanos,
    /// Acknowledged bytes that did not fill a packet.
    left_over: u64,
    sent_bytes: u64,
    chance: u64,
}

impl<R: Running> Steer<R> {
    /// A flow of its own. A stack that wants to stay below its window says by how much.
    pub(crate) fn new(law: R, shared: Arc<Shared>, mtu: u16, beyond: u64) -> Self {
        let place = Place { flow: shared.flows.open(), shared };
        let number = place.flow.number;
        let mut steer = Self {
            law,
            senses: Senses::new(place.shared.bounds),
            coexistence: place.shared.coexistence.then(|| Coexistence::new(Nanos::ZERO)),
            lost: 0,
            packet: Bytes::new(u64::from(place.shared.packet)),
            flow: Arc::clone(&place.flow),
            place: Arc::new(place),
            mtu: u64::from(mtu),
            beyond,
            window: 0,
            smooth_rtt: Nanos::ZERO,
            left_over: 0,
            sent_bytes: 0,
            chance: chance::mix(number),
        };
        steer.decide();
        steer
    }

    /// What the stack may have in flight, bytes.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The largest packet of the path at the moment.
    #[cfg(feature = "s2n")]
    pub(crate) fn mtu(&self) -> u64 {
        self.mtu
    }

    pub(crate) fn metrics_now(&self) -> FlowMetrics {
        of_flow(&self.flow)
    }

    /// A packet goes out next, on this thread.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
        context::sent(&self.flow);
    }

    pub(crate) fn on_ack(&mut self, frame: &Frame) {
        self.smooth_rtt = frame.smooth_rtt;
        let told = self.flow.told.take();
        let sense = self.senses.hear(&Sample {
            now: frame.at,
            rtt: frame.rtt.max(Nanos::new(1)),
            longest: frame.longest,
            alone: frame.in_flight == 0 && frame.bytes <= self.mtu,
            told,
        });
        let told = told.and_then(|stamp| stamp.telemetry().delay());
        self.left_over += frame.bytes;
        let packets = self.left_over / self.packet.get();
        self.left_over %= self.packet.get();
        self.chance = chance::mix(self.chance);
        let [.., a, b, c, d] = self.chance.to_be_bytes();
        let ack = Ack {
            now: frame.at,
            rtt: sense.rtt,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            bytes: Bytes::new(frame.bytes),
            // What is neither in flight nor still to come has arrived.
            acked_seq: self.sent_bytes.saturating_sub(frame.in_flight),
            next_seq: self.sent_bytes,
            max_hop_delay: sense.max_hop_delay,
            reverse_max_hop_delay: self.flow.reverse.take().and_then(|stamp| stamp.telemetry().delay()),
            app_limited: 2 * (frame.in_flight + frame.bytes) < self.window,
            chance: u32::from_be_bytes([a, b, c, d]),
            ..Ack::EMPTY
        };
        self.law.on_ack(&ack);
        self.update_coexistence(&ack);
        self.note(&sense, told);
        let decision = self.decide();
        let in_flight = Some(frame.in_flight);
        let event = Event {
            cause: Cause::Ack,
            at: frame.at,
            sense: Some(sense),
            told,
            acked: frame.bytes,
            in_flight,
        };
        self.observe(&event, &decision);
    }

    /// Gives an ACK to the coexistence policy, where it is on and the law has a target delay.
    fn update_coexistence(&mut self, ack: &Ack<'_>) {
        if let Some(coexistence) = &mut self.coexistence
            && let Some(signal) = self.law.delay_signal(ack)
        {
            let window = self.law.decision().window;
            coexistence.on_ack(&CoexistenceAck::new(ack, signal, window, core::mem::take(&mut self.lost)));
        }
    }

    /// What it steers by.
    fn mode(&self) -> Mode {
        match self.coexistence.as_ref().map(Coexistence::mode) {
            Some(coexistence::Mode::Compete) => Mode::Compete,
            Some(coexistence::Mode::Yield) => Mode::Yield,
            _ => self.senses.mode(),
        }
    }

    /// Once per recovery.
    pub(crate) fn on_loss(&mut self, at: Nanos, bytes: u64) {
        count(&self.flow.gauges.losses);
        let packets = u32::try_from(bytes.div_ceil(self.mtu.max(1))).unwrap_or(u32::MAX);
        self.lost = self.lost.saturating_add(packets);
        if self.coexistence.as_mut().is_none_or(|coexistence| coexistence.on_loss(at)) {
            self.law.on_loss(&Loss { now: at });
        }
        self.after_loss(Cause::Loss, at);
    }

    /// Persistent congestion.
    pub(crate) fn on_timeout(&mut self, at: Nanos) {
        count(&self.flow.gauges.timeouts);
        self.law.on_timeout(at);
        if let Some(coexistence) = &mut self.coexistence {
            coexistence.on_timeout(at);
        }
        self.after_loss(Cause::Timeout, at);
    }

    pub(crate) fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
        self.decide();
    }

    fn after_loss(&mut self, cause: Cause, at: Nanos) {
        let decision = self.decide();
        self.observe(&Event { cause, at, sense: None, told: None, acked: 0, in_flight: None }, &decision);
    }

    /// Asks the law, and makes of its answer what a stack can carry.
    fn decide(&mut self) -> Decision {
        let decision = match &self.coexistence {
            None => self.law.decision(),
            Some(coexistence) => coexistence.decision(self.law.decision()),
        };
        let gauges = &self.flow.gauges;
        let mut bytes = decision.window.to_bytes_floor(self.packet).get();
        if let Pacing::Rate(rate) = decision.pacing {
            // Stacks pace by their window, not by a rate; what the rate allows in a round trip comes nearest.
            if !self.smooth_rtt.is_zero() {
                bytes = bytes.min(rate.bytes_in_floor(self.smooth_rtt).get());
            }
            count(&gauges.unpaced);
        }
        let floor = LEAST_PACKETS * self.mtu;
        if bytes < floor {
            count(&gauges.below_floor);
        }
        self.window = bytes.max(floor) + self.beyond;
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
        gauges.set_mode(self.mode());
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
            mode: self.mode(),
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
