//! Drives a law for one path, independently of the QUIC stack.
//!
//! A stack reports sent, acknowledged and lost packets in its own types and on its own clock. The modules
//! `quinn/controller.rs` and `s2n/controller.rs` translate these reports. The driver converts them into
//! events for the law, and converts the law's decision into a window in bytes.
//!
//! A law's packet size is [`crate::Config::packet_size`], regardless of the current path MTU. The driver counts
//! acknowledged bytes in packets of that size and carries the remainder to the next ACK.

use super::flow::Flow;
use super::metrics::{FlowMetrics, increment};
use super::mode::{AckSample, Mode, PathSignals, TelemetryMonitor};
use super::observer::{Cause, DecisionEvent};
use super::send_context;
use super::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;
use poseidon_laws::coexistence::{self, Coexistence, CoexistenceAck};
use poseidon_laws::{Ack, Decision, Law, Loss, Pacing, Timeout};
use poseidon_types::{Bytes, Nanos, random};
use std::sync::Arc;

/// The smallest window in packets. With one packet in flight, the receiver delays its ACK by 25 ms. With no
/// packet in flight, the connection stalls.
const MIN_WINDOW_PACKETS: u64 = 2;

/// Keeps a flow in the registry until the last clone of its driver is dropped.
#[derive(Debug)]
struct Registration {
    flow: Arc<Flow>,
    shared: Arc<Shared>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.flows.close(&self.flow);
    }
}

/// An ACK frame. Times are relative to the creation of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckFrame {
    pub(crate) now: Nanos,
    /// The round-trip time of the newest acknowledged packet.
    pub(crate) rtt: Nanos,
    /// An upper bound on the round-trip times of all acknowledged packets.
    pub(crate) max_rtt: Nanos,
    pub(crate) smoothed_rtt: Nanos,
    pub(crate) acked_bytes: u64,
    /// The bytes in flight after this frame.
    pub(crate) in_flight: u64,
}

/// The inputs to a decision, which are reported to the observer.
struct DecisionInputs {
    cause: Cause,
    now: Nanos,
    signals: Option<PathSignals>,
    echoed_delay: Option<Nanos>,
    acked_bytes: u64,
    in_flight: Option<u64>,
}

/// Drives a law for one path. Clones share the flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowDriver<L> {
    law: L,
    telemetry: TelemetryMonitor,
    coexistence: Option<Coexistence>,
    /// The packets declared lost since the last ACK frame.
    lost_packets: u32,
    /// The law's packet size.
    packet_size: Bytes,
    flow: Arc<Flow>,
    registration: Arc<Registration>,
    mtu: u64,
    /// Bytes added to the law's window.
    extra_window: u64,
    window: u64,
    smoothed_rtt: Nanos,
    /// Acknowledged bytes that do not yet add up to a full packet.
    partial_packet_bytes: u64,
    sent_bytes: u64,
    random: u64,
}

impl<L: Law> FlowDriver<L> {
    /// Creates a driver with a new flow. `extra_window` is nonzero for a stack that keeps the bytes in flight
    /// strictly below its window.
    pub(crate) fn new(law: L, shared: Arc<Shared>, mtu: u16, extra_window: u64) -> Self {
        let registration = Registration { flow: shared.flows.open(), shared };
        let seed = registration.flow.number ^ registration.shared.random_seed;
        let mut driver = Self {
            law,
            telemetry: TelemetryMonitor::new(registration.shared.bounds),
            coexistence: registration.shared.coexistence.then(|| Coexistence::new(Nanos::ZERO)),
            lost_packets: 0,
            packet_size: Bytes::new(u64::from(registration.shared.packet_size)),
            flow: Arc::clone(&registration.flow),
            registration: Arc::new(registration),
            mtu: u64::from(mtu),
            extra_window,
            window: 0,
            smoothed_rtt: Nanos::ZERO,
            partial_packet_bytes: 0,
            sent_bytes: 0,
            random: random::splitmix64(seed),
        };
        driver.update_window();
        driver
    }

    /// Returns the congestion window in bytes.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Returns the current maximum packet size of the path.
    pub(crate) fn mtu(&self) -> u64 {
        self.mtu
    }

    pub(crate) fn metrics(&self) -> FlowMetrics {
        self.flow.metrics()
    }

    /// Counts a sent packet. The stack then passes this packet to the socket on the same thread.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
        send_context::set_counted_flow(&self.flow);
    }

    pub(crate) fn on_ack(&mut self, frame: &AckFrame) {
        self.smoothed_rtt = frame.smoothed_rtt;
        let echoed = self.flow.echoed.take();
        let signals = self.telemetry.on_ack(&AckSample {
            now: frame.now,
            rtt: frame.rtt.max(Nanos::new(1)),
            max_rtt: frame.max_rtt,
            is_only_packet: frame.in_flight == 0 && frame.acked_bytes <= self.mtu,
            echoed,
        });
        let echoed_delay = echoed.and_then(|stamp| stamp.telemetry().delay());
        self.partial_packet_bytes += frame.acked_bytes;
        let packets = self.partial_packet_bytes / self.packet_size.get();
        self.partial_packet_bytes %= self.packet_size.get();
        self.random = random::splitmix64(self.random);
        let [.., a, b, c, d] = self.random.to_be_bytes();
        let ack = Ack {
            now: frame.now,
            rtt: signals.rtt,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            bytes: Bytes::new(frame.acked_bytes),
            in_flight: Bytes::new(frame.in_flight),
            // Every sent byte that is not in flight has been acknowledged or declared lost.
            acked_seq: self.sent_bytes.saturating_sub(frame.in_flight),
            next_seq: self.sent_bytes,
            max_hop_delay: signals.max_hop_delay,
            reverse_max_hop_delay: self.flow.reverse.take().and_then(|stamp| stamp.telemetry().delay()),
            app_limited: 2 * (frame.in_flight + frame.acked_bytes) < self.window,
            random: u32::from_be_bytes([a, b, c, d]),
            ..Ack::EMPTY
        };
        self.law.on_ack(&ack);
        self.update_coexistence(&ack);
        self.update_gauges(&signals, echoed_delay);
        let decision = self.update_window();
        let inputs = DecisionInputs {
            cause: Cause::Ack,
            now: frame.now,
            signals: Some(signals),
            echoed_delay,
            acked_bytes: frame.acked_bytes,
            in_flight: Some(frame.in_flight),
        };
        self.notify_observer(&inputs, &decision);
    }

    /// Passes an ACK to the coexistence policy if the policy is enabled and the law has a target delay.
    fn update_coexistence(&mut self, ack: &Ack<'_>) {
        if let Some(coexistence) = &mut self.coexistence
            && let Some(signal) = self.law.delay_signal(ack)
        {
            let window = self.law.decision().window;
            let lost_packets = core::mem::take(&mut self.lost_packets);
            coexistence.on_ack(&CoexistenceAck::new(ack, signal, window, lost_packets));
        }
    }

    fn mode(&self) -> Mode {
        match self.coexistence.as_ref().map(Coexistence::mode) {
            Some(coexistence::Mode::Compete) => Mode::Compete,
            Some(coexistence::Mode::Yield) => Mode::Yield,
            _ => self.telemetry.mode().into(),
        }
    }

    /// Handles the first loss of a recovery period.
    pub(crate) fn on_loss(&mut self, now: Nanos, bytes: u64) {
        increment(&self.flow.gauges.losses);
        let packets = u32::try_from(bytes.div_ceil(self.mtu.max(1))).unwrap_or(u32::MAX);
        self.lost_packets = self.lost_packets.saturating_add(packets);
        if self.coexistence.as_mut().is_none_or(|coexistence| coexistence.on_loss(now)) {
            self.law.on_loss(&Loss { now });
        }
        self.decide_after_loss(Cause::Loss, now);
    }

    /// Handles persistent congestion.
    pub(crate) fn on_timeout(&mut self, now: Nanos) {
        increment(&self.flow.gauges.timeouts);
        self.law.on_timeout(&Timeout { now, bytes: Bytes::ZERO });
        if let Some(coexistence) = &mut self.coexistence {
            coexistence.on_timeout(now);
        }
        self.decide_after_loss(Cause::Timeout, now);
    }

    pub(crate) fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
        self.update_window();
    }

    fn decide_after_loss(&mut self, cause: Cause, now: Nanos) {
        let decision = self.update_window();
        let inputs =
            DecisionInputs { cause, now, signals: None, echoed_delay: None, acked_bytes: 0, in_flight: None };
        self.notify_observer(&inputs, &decision);
    }

    /// Converts the law's current decision into a window in bytes.
    fn update_window(&mut self) -> Decision {
        let decision = match &self.coexistence {
            None => self.law.decision(),
            Some(coexistence) => coexistence.decision(self.law.decision()),
        };
        let gauges = &self.flow.gauges;
        let mut bytes = decision.window.to_bytes_floor(self.packet_size).get();
        if let Pacing::Rate(rate) = decision.pacing {
            // The stacks derive the pacing rate from the window. A window of one round trip at the law's rate
            // approximates that rate.
            if !self.smoothed_rtt.is_zero() {
                bytes = bytes.min(rate.bytes_in_floor(self.smoothed_rtt).get());
            }
            increment(&gauges.unpaced);
        }
        let floor = MIN_WINDOW_PACKETS * self.mtu;
        if bytes < floor {
            increment(&gauges.below_floor);
        }
        self.window = bytes.max(floor) + self.extra_window;
        gauges.window.store(self.window, Relaxed);
        gauges.law_window_q24.store(decision.window.q24(), Relaxed);
        decision
    }

    fn update_gauges(&self, signals: &PathSignals, echoed_delay: Option<Nanos>) {
        let gauges = &self.flow.gauges;
        gauges.rtt.store(signals.rtt.get(), Relaxed);
        if let Some(delay) = signals.max_hop_delay {
            gauges.delay.store(delay.get(), Relaxed);
        }
        gauges.set_mode(self.mode());
        match echoed_delay {
            Some(delay) => {
                increment(&gauges.acks_with_telemetry);
                gauges.record_echoed_delay(delay);
            }
            None => increment(&gauges.acks_without_telemetry),
        }
        if signals.guarded {
            increment(&gauges.guarded);
        }
        if signals.implausible {
            increment(&gauges.implausible);
        }
    }

    fn notify_observer(&self, inputs: &DecisionInputs, decision: &Decision) {
        let Some(observer) = &self.registration.shared.observer else { return };
        observer.0(&DecisionEvent {
            flow: self.flow.number,
            tag: self.flow.tag(),
            time: inputs.now,
            cause: inputs.cause,
            mode: self.mode(),
            rtt: inputs.signals.map_or_else(|| self.telemetry.min_rtt(), |signals| signals.rtt),
            echoed_delay: inputs.echoed_delay,
            max_hop_delay: inputs.signals.and_then(|signals| signals.max_hop_delay),
            acked: Bytes::new(inputs.acked_bytes),
            in_flight: inputs.in_flight.map(Bytes::new),
            law_window: decision.window,
            window: Bytes::new(self.window),
        });
    }
}
