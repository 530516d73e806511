//! NSCC: Ultra Ethernet's window, controlled by a target queueing delay and congestion marks together.
//!
//! ```text
//! Model      no mark, delay < target   add α·(target - delay) per window; window/4 per window while the delay is tiny
//!            no mark, delay ≥ target   add a fair share of 5 packets per window: other flows' packets are marked
//!            mark,    delay ≥ target   w *= max(1 - 0.8·(avg - target)/avg, 1/2), once per base RTT
//!            mark,    delay < target   keep the window; the sender changes its path
//!            quick adapt               once per epoch, after a trim or a very long delay: w = bytes delivered in the
//!                                      epoch, if these are less than 1/8 of the largest window
//!            trim                      w -= the trimmed bytes, unless quick adapt has just cut the window
//! ```
//!
//! Signals    the RTT and the ECN echo of each ACK; trimmed packets; the bytes in flight
//! Lifecycle  starts with the largest window, 1.5 bandwidth-delay products; quick adapt finds the share of an incast
//! Source     uet-htsim (`ultraethernet/uet-htsim` 40ccb05, `htsim/sim/uec.cpp`); SMaRTT in the papers (arXiv 2404.01630).
//!            The repository says of itself that it is not the standard.
//! Differs    - Counters and products have 64 bits. The source multiplies in 32 bits, which overflows near 800 Gbps.
//!            - Sizes are real numbers, where the source rounds down to whole bytes.
//!            - The receiver's window penalty is not implemented: nothing sets it.
//!            - SLEEK, the source's recovery without trimming, belongs to a host.
//! Limits     The first window of every flow of an incast arrives at once. Without trimming, it is dropped.
//!
//! Windows count headers, as in the source: the law adds `header` to each packet.

use crate::event::{Ack, Loss, Timeout, Trim};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::{choice, params};
use crate::parts::ewma::blend;
use crate::parts::float::{bytes, bytes_per_ns, clamp, ns, packets, to_nanos, to_window};
use poseidon_types::{Bytes, Nanos, Packets, Signals};

choice! {
    /// The window that quick adapt compares the delivered bytes with.
    pub enum Gate {
        /// The largest window (uet-htsim).
        LargestWindow = "largest-window",
        /// The bandwidth-delay product (PCM), which is two thirds of it.
        Bdp = "bdp",
    }
}

params! {
    /// Parameters of [`Nscc`]. The defaults are those of uet-htsim with trimming.
    pub struct NsccParams {
        /// The header of a packet, which windows include (uet-htsim).
        header: Bytes = Bytes::new(64),
        /// The network's RTT, between its most distant hosts; 0 ns means the base RTT of the flow's path. Each flow
        /// takes it for its base RTT until it measures a smaller one.
        network_rtt: Nanos = Nanos::ZERO,
        /// Switches trim packets: the target is three quarters of the network's RTT instead of all of it.
        trimming: bool = true,
        /// The target queueing delay; 0 ns derives it from the network's RTT.
        target: Nanos = Nanos::ZERO,
        /// The initial window; 0 packets means the largest window.
        initial_window: Packets = Packets::ZERO,
        /// The largest window, in bandwidth-delay products of the path.
        largest_window: f64 = 1.5,
        /// The fair increase per window above the target, in packets at the reference network.
        fair_increase: f64 = 5.0,
        /// The proportional increase per window without delay, in packets at a target of 12 us.
        proportional_increase: f64 = 4.0,
        /// The increase per network RTT, in packets at the reference network.
        constant_increase: f64 = 0.15,
        /// The fast increase per delivered byte, at the reference network.
        fast_increase: f64 = 0.25,
        /// The delay below which the fast increase starts, after one window of such ACKs.
        fast_delay: Nanos = Nanos::from_micros(1),
        /// The decrease per relative excess delay.
        gamma: f64 = 0.8,
        /// The smallest factor of one decrease.
        min_decrease: f64 = 0.5,
        /// The weight of a new delay in its average.
        delay_weight: f64 = 0.0125,
        /// Use quick adapt.
        quick_adapt: bool = true,
        /// Quick adapt acts if less than this power of 1/2 of the gate's window was delivered.
        gate_shift: u32 = 3,
        /// The window that the gate compares with.
        gate: Gate = Gate::LargestWindow,
        /// The delay that triggers quick adapt, in targets.
        quick_adapt_delay: f64 = 4.0,
        /// The packets after which the collected increase is added, if the network's RTT has not passed before.
        adjust_packets: u32 = 8,
        /// Restart the period of the constant increase with each addition (PCM).
        restart_period: bool = false,
        /// The host also obeys credits of the receiver: a trim at the last hop does not shrink the window (RCCC).
        credits: bool = false,
    }
    presets {
        "pcm", "the reading of PCM (spcl/pcm): gate, period and constant increase differ", |p| {
            p.gate = Gate::Bdp;
            p.restart_period = true;
            p.constant_increase = 0.0;
        };
        "pcm-gate", "as the paper preset, with PCM's gate for quick adapt", |p| p.gate = Gate::Bdp;
        "pcm-period", "as the paper preset, with PCM's period of the constant increase", |p| p.restart_period = true;
        "no-eta", "as the paper preset, without the constant increase, which never acts in PCM", |p| p.constant_increase = 0.0;
        "no-trimming", "for switches that drop packets: a longer target", |p| p.trimming = false;
    }
    check {
        header: "at most 1 kB", |p| p.header <= Bytes::new(1_000);
        initial_window: "0 packets, or between 1 and 32768 packets",
            |p| p.initial_window == Packets::ZERO || (Packets::ONE..=Packets::MAX_WINDOW).contains(&p.initial_window);
        largest_window: "between 0.1 and 100", |p| (0.1..=100.0).contains(&p.largest_window);
        fair_increase: "between 0 and 1000", |p| (0.0..=1e3).contains(&p.fair_increase);
        proportional_increase: "between 0 and 1000", |p| (0.0..=1e3).contains(&p.proportional_increase);
        constant_increase: "between 0 and 1000", |p| (0.0..=1e3).contains(&p.constant_increase);
        fast_increase: "between 0 and 100", |p| (0.0..=100.0).contains(&p.fast_increase);
        gamma: "above 0 and at most 1", |p| p.gamma > 0.0 && p.gamma <= 1.0;
        min_decrease: "above 0 and at most 1", |p| p.min_decrease > 0.0 && p.min_decrease <= 1.0;
        delay_weight: "above 0 and at most 1", |p| p.delay_weight > 0.0 && p.delay_weight <= 1.0;
        gate_shift: "at most 31", |p| p.gate_shift <= 31;
        quick_adapt_delay: "between 1 and 1000", |p| (1.0..=1e3).contains(&p.quick_adapt_delay);
    }
}

/// The network for which the source's constants were chosen: 100 Gbps and an RTT of 12 us.
const REFERENCE_RTT: f64 = 12_000.0;
/// The bandwidth-delay product of the reference network, in bytes.
const REFERENCE_BDP: f64 = 150_000.0;
/// The share of the base RTT that counts as the delay of an unmarked packet above the target.
const UNMARKED_DELAY_SHARE: f64 = 0.25;

/// The state of one NSCC flow. Windows are in bytes with headers, delays in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Nscc {
    window: f64,
    largest_window: f64,
    base_rtt: f64,
    average_delay: f64,
    /// The sum of increase · delivered bytes since the last addition: an increase in bytes per window.
    increase: f64,
    /// The bytes delivered since the last addition.
    delivered: f64,
    /// The bytes delivered with a tiny delay, and whether the fast increase is active.
    fast_count: f64,
    fast_active: bool,
    last_adjust: Nanos,
    last_decrease: Nanos,
    epoch: Epoch,
    constants: Constants,
}

/// The state of quick adapt.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    /// When the epoch ends; zero before the first.
    end: Nanos,
    /// The bytes delivered in the epoch.
    delivered: f64,
    /// Whether a packet was trimmed since the last cut.
    trimmed: bool,
    /// The bytes in flight at the last cut, and how many of them have been delivered or trimmed since.
    to_ignore: f64,
    ignored: f64,
}

/// What the parameters and the path determine.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Constants {
    /// A packet with its header; the smallest window.
    packet: f64,
    /// Bytes with headers per byte without.
    wire_ratio: f64,
    bytes_per_ns: f64,
    network_rtt: f64,
    target: f64,
    /// The proportional increase, in bytes per window and ns below the target.
    alpha: f64,
    fair: f64,
    eta: f64,
    fast: f64,
    fast_delay: f64,
    gamma: f64,
    min_factor: f64,
    delay_weight: f64,
    largest_window: f64,
    adjust_bytes: f64,
    /// The delay that triggers quick adapt; infinite if quick adapt is off.
    adapt_delay: f64,
    /// The share of the largest window that the gate compares with; zero if quick adapt is off.
    gate: f64,
    restart_period: bool,
    credits: bool,
}

impl Constants {
    fn new(params: &NsccParams, path: &Path) -> Self {
        let rate = bytes_per_ns(path.line_rate);
        let network_rtt = ns(if params.network_rtt.is_zero() { path.base_rtt } else { params.network_rtt });
        let target = match (params.target.is_zero(), params.trimming) {
            (false, _) => ns(params.target),
            (true, true) => 0.75 * network_rtt,
            (true, false) => network_rtt,
        };
        // `a` scales the increases to the bandwidth-delay product of this network.
        let a = network_rtt * rate / REFERENCE_BDP;
        let payload = bytes(path.mtu);
        let packet = payload + bytes(params.header);
        let gate = match params.gate {
            Gate::LargestWindow => 1.0,
            Gate::Bdp => 1.0 / params.largest_window,
        };
        Self {
            packet,
            wire_ratio: packet / payload,
            bytes_per_ns: rate,
            network_rtt,
            target,
            alpha: params.proportional_increase * payload * a / REFERENCE_RTT,
            fair: params.fair_increase * payload * a,
            eta: params.constant_increase * payload * a,
            fast: params.fast_increase * a,
            fast_delay: ns(params.fast_delay),
            gamma: params.gamma,
            min_factor: params.min_decrease,
            delay_weight: params.delay_weight,
            largest_window: params.largest_window,
            adjust_bytes: f64::from(params.adjust_packets) * packet,
            adapt_delay: params.quick_adapt_delay * target,
            gate: if params.quick_adapt { gate / f64::from(1_u32 << (params.gate_shift & 31)) } else { 0.0 },
            restart_period: params.restart_period,
            credits: params.credits,
        }
    }
}

impl LawDefinition for Nscc {
    const NAME: &'static str = "nscc";
    const SOURCE: &'static str = "uet-htsim 40ccb05; Bonato et al., arXiv 2404.01630 (SMaRTT)";
    const STATE_LIMIT: usize = 320;
    type Params = NsccParams;

    fn needs(_: &NsccParams) -> Signals {
        Signals::RTT | Signals::ECN_ECHO
    }

    fn new(params: &NsccParams, path: &Path) -> Self {
        let constants = Constants::new(params, path);
        let base_rtt = constants.network_rtt;
        let largest_window = constants.largest_window * base_rtt * constants.bytes_per_ns;
        let initial = packets(params.initial_window) * constants.packet;
        let mut law = Self {
            window: if params.initial_window == Packets::ZERO { largest_window } else { initial },
            largest_window,
            base_rtt,
            average_delay: 0.0,
            increase: 0.0,
            delivered: 0.0,
            fast_count: 0.0,
            fast_active: false,
            last_adjust: Nanos::ZERO,
            last_decrease: Nanos::ZERO,
            epoch: Epoch { end: Nanos::ZERO, delivered: 0.0, trimmed: false, to_ignore: 0.0, ignored: 0.0 },
            constants,
        };
        law.window = law.window.max(law.constants.packet);
        law
    }
}

impl Law for Nscc {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let delivered = bytes(ack.bytes) * self.constants.wire_ratio;
        self.epoch.delivered += delivered;
        self.epoch.ignored += delivered;
        self.delivered += delivered;
        let marked = !ack.marked.is_zero();
        let delay = self.measure_delay(ack, marked);
        if self.quick_adapts(ack.now, marked, delay, bytes(ack.in_flight) * self.constants.wire_ratio) {
            return;
        }
        match (marked, delay >= self.constants.target) {
            (false, true) => self.increase += self.constants.fair * delivered,
            (false, false) => self.grow_below_target(delivered, delay),
            (true, true) => self.decrease(ack.now),
            // The queue is short: another path may be better, but the window is not too large.
            (true, false) => {}
        }
        self.clamp_window();
        let since_adjust = ns(ack.now - self.last_adjust);
        if self.delivered > self.constants.adjust_bytes || since_adjust > self.constants.network_rtt {
            self.add_increase(ack.now, since_adjust);
            self.clamp_window();
        }
    }

    /// Does nothing: trimmed packets and timeouts shrink the window by the bytes that were lost.
    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, timeout: &Timeout) {
        let lost = bytes(timeout.bytes) * self.constants.wire_ratio;
        self.window = (self.window - lost).max(self.constants.packet);
    }

    fn on_trim(&mut self, trim: &Trim) {
        let lost = bytes(trim.bytes) * self.constants.wire_ratio;
        self.epoch.ignored += lost;
        if let Some(rtt) = trim.rtt {
            self.lower_base_rtt(ns(rtt));
        }
        // The queue that trimmed the packet was full: about one network RTT.
        self.average_delay =
            blend(self.average_delay, self.constants.network_rtt, self.constants.delay_weight);
        self.epoch.trimmed = true;
        let in_flight = bytes(trim.in_flight) * self.constants.wire_ratio + lost;
        let adapted = self.quick_adapts(trim.now, true, 0.0, in_flight);
        if !(adapted || self.constants.credits && trim.last_hop) {
            self.window -= lost;
            self.clamp_window();
        }
    }

    /// Returns whether the ACK carries a mark or its delay is at or above the target.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero() || (!ack.rtt_ambiguous && ns(ack.rtt) - self.base_rtt >= self.constants.target)
    }

    fn target(&self, _: u8) -> Option<Nanos> {
        Some(to_nanos(self.constants.target))
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.window / self.constants.packet), pacing: Pacing::Off }
    }
}

impl Nscc {
    /// Returns the queueing delay of the acknowledged packet, or the average without a sample. Updates the average.
    #[inline]
    fn measure_delay(&mut self, ack: &Ack<'_>, marked: bool) -> f64 {
        if ack.rtt_ambiguous || ack.rtt.is_zero() {
            return self.average_delay;
        }
        let rtt = ns(ack.rtt);
        self.lower_base_rtt(rtt);
        let delay = rtt - self.base_rtt;
        // A long delay without a mark is that of a queue which has drained since.
        let sample = if !marked && delay > self.constants.target {
            UNMARKED_DELAY_SHARE * self.base_rtt
        } else {
            delay
        };
        self.average_delay = blend(self.average_delay, sample, self.constants.delay_weight);
        delay
    }

    /// Lowers the base RTT to the smallest one measured, and with it the largest window.
    #[inline]
    fn lower_base_rtt(&mut self, rtt: f64) {
        if rtt < self.base_rtt && rtt > 0.0 {
            self.base_rtt = rtt;
            self.largest_window = self.constants.largest_window * rtt * self.constants.bytes_per_ns;
        }
    }

    /// Ends the epoch if its time has come, and sets the window to the delivered bytes if these are few after a trim or
    /// at a very long delay.
    ///
    /// Returns true if it has cut the window or if marks still report what was in flight at the last cut: the ACK or
    /// trim then changes nothing else.
    #[inline]
    fn quick_adapts(&mut self, now: Nanos, marked: bool, delay: f64, in_flight: f64) -> bool {
        let mut done = false;
        if marked && self.epoch.ignored < self.epoch.to_ignore {
            done = true;
        } else if now > self.epoch.end {
            done = self.end_epoch(now, delay, in_flight);
        }
        if done {
            (self.increase, self.delivered) = (0.0, 0.0);
        }
        done
    }

    fn end_epoch(&mut self, now: Nanos, delay: f64, in_flight: f64) -> bool {
        let triggered = self.epoch.trimmed || delay > self.constants.adapt_delay;
        let few = self.epoch.delivered < self.largest_window * self.constants.gate;
        let adapts = !self.epoch.end.is_zero() && triggered && few;
        if adapts {
            self.window = self.epoch.delivered.max(self.constants.packet);
            (self.epoch.to_ignore, self.epoch.ignored) = (in_flight, 0.0);
            self.epoch.trimmed = false;
        }
        self.epoch.delivered = 0.0;
        self.epoch.end = now + to_nanos(self.base_rtt + self.constants.target);
        adapts
    }

    /// Grows the window below the target: fast after a window of ACKs with a tiny delay, else in proportion to the
    /// distance from the target.
    #[inline]
    fn grow_below_target(&mut self, delivered: f64, delay: f64) {
        self.fast_active = if delay < self.constants.fast_delay {
            self.fast_count += delivered;
            self.fast_active || self.fast_count > self.window
        } else {
            self.fast_count = 0.0;
            false
        };
        if self.fast_active {
            self.window += self.constants.fast * delivered;
        } else {
            self.increase += self.constants.alpha * delivered * (self.constants.target - delay);
        }
    }

    /// Shrinks the window by the average excess delay, once per base RTT.
    fn decrease(&mut self, now: Nanos) {
        (self.fast_active, self.fast_count) = (false, 0.0);
        let excess = self.average_delay - self.constants.target;
        let since = ns(now - self.last_decrease);
        if excess > 0.0 && since > self.base_rtt {
            let factor = 1.0 - self.constants.gamma * excess / self.average_delay;
            self.window *= factor.max(self.constants.min_factor);
            self.last_decrease = now;
        }
    }

    /// Adds the collected increase, and the constant increase once per period.
    fn add_increase(&mut self, now: Nanos, since_adjust: f64) {
        self.window += self.increase / self.window;
        let period_is_over = since_adjust >= self.constants.network_rtt;
        if period_is_over {
            self.window += self.constants.eta;
        }
        if period_is_over || self.constants.restart_period {
            self.last_adjust = now;
        }
        (self.increase, self.delivered) = (0.0, 0.0);
    }

    #[inline]
    fn clamp_window(&mut self) {
        self.window =
            clamp(self.window, self.constants.packet, self.largest_window.max(self.constants.packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::BitRate;

    /// The default network of uet-htsim: three tiers at 100 Gbps, packets of 4,150 B with headers.
    const PATH: Path =
        Path { mtu: Bytes::new(4_086), line_rate: BitRate::from_gbps(100), base_rtt: Nanos::new(14_023) };
    const PACKET: f64 = 4_150.0;
    /// Above the target of 10.517 us.
    const LONG: u64 = 11_000;

    fn law(params: &NsccParams) -> Nscc {
        Nscc::new(params, &PATH)
    }

    /// A law whose window is `packets`, in the middle of a period and of an epoch.
    fn running(packets: f64) -> Nscc {
        let mut law = law(&NsccParams::default());
        law.window = packets * PACKET;
        (law.last_adjust, law.epoch.end) = (Nanos::from_micros(1_000), Nanos::from_micros(1_010));
        law
    }

    /// An ACK for `packets` at 1,001 us, with a queueing delay in ns.
    fn ack(packets: u32, delay: u64, marked: bool) -> Ack<'static> {
        let bytes = PATH.mtu * u64::from(packets);
        Ack {
            now: Nanos::from_micros(1_001),
            rtt: PATH.base_rtt + Nanos::new(delay),
            packets,
            bytes,
            marked: if marked { bytes } else { Bytes::ZERO },
            ..Ack::EMPTY
        }
    }

    fn trim(us: u64, in_flight_packets: u64) -> Trim {
        let in_flight = PATH.mtu * in_flight_packets;
        Trim { now: Nanos::from_micros(us), bytes: PATH.mtu, in_flight, last_hop: true, rtt: None }
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    #[test]
    fn constants_are_those_of_the_source_at_100_gbps() {
        let Nscc { constants, largest_window, window, .. } = law(&NsccParams::default());
        assert_near(constants.network_rtt * constants.bytes_per_ns / REFERENCE_BDP, 1.168_56, 5e-5);
        assert_near(constants.target, 10_517.0, 1.0);
        assert_near(constants.alpha, 1.5916, 5e-4);
        assert_near(constants.fair, 23_874.0, 2.0);
        assert_near(constants.eta, 716.0, 0.5);
        assert_near(constants.fast, 0.2921, 5e-5);
        assert_near(constants.adapt_delay, 42_070.0, 3.0);
        assert_near(largest_window, 262_926.0, 6.0);
        assert_eq!(window, largest_window, "the flow starts with the largest window");
        assert_eq!(constants.adjust_bytes, 8.0 * PACKET);
        let without_trimming = law(&NsccParams { trimming: false, ..NsccParams::default() });
        assert_eq!(without_trimming.constants.target, 14_023.0);
        assert_near(without_trimming.constants.alpha, constants.alpha, 1e-9);
    }

    #[test]
    fn products_do_not_overflow_at_800_gbps() {
        let path = Path { line_rate: BitRate::from_gbps(800), ..PATH };
        let mut law = Nscc::new(&NsccParams::default(), &path);
        (law.last_adjust, law.epoch.end) = (Nanos::from_micros(1_000), Nanos::from_micros(1_010));
        law.window = 100.0 * PACKET;
        law.on_ack(&ack(8, LONG, false));
        let product = 5.0 * 4_086.0 * (14_023.0 * 100.0 / REFERENCE_BDP) * 8.0 * PACKET;
        assert!(product > f64::from(u32::MAX));
        assert_near(law.increase, product, 1.0);
    }

    #[test]
    fn above_the_target_unmarked_flows_add_five_packets_per_window() {
        let mut law = running(40.0);
        for _ in 0..5 {
            law.on_ack(&ack(8, LONG, false));
            // Eight packets are not more than eight packets: the increase is added with the next ACK.
            assert_eq!(law.delivered, 8.0 * PACKET);
            law.on_ack(&ack(1, LONG, false));
            assert_eq!(law.delivered, 0.0);
        }
        // 45 packets of about 44: slightly more than one window.
        assert_near(law.window, 40.0 * PACKET + law.constants.fair * 45.0 / 43.0, 0.02 * law.constants.fair);
    }

    #[test]
    fn below_the_target_the_increase_is_proportional_to_the_distance() {
        for delay in [2_000, 6_000, 10_000] {
            let mut law = running(40.0);
            law.on_ack(&ack(9, delay, false));
            let expected = law.constants.alpha * 9.0 * PACKET * (law.constants.target - delay as f64);
            assert_near(law.window, 40.0 * PACKET + expected / (40.0 * PACKET), 1e-6);
        }
    }

    #[test]
    fn a_window_of_tiny_delays_starts_the_fast_increase_and_a_delay_ends_it() {
        let mut law = running(20.0);
        law.constants.adjust_bytes = f64::INFINITY;
        for _ in 0..20 {
            law.on_ack(&ack(1, 900, false));
        }
        assert!(!law.fast_active && law.window == 20.0 * PACKET);
        law.on_ack(&ack(1, 900, false));
        assert!(law.fast_active);
        assert_near(law.window, PACKET * (20.0 + law.constants.fast), 1e-6);
        let collected = law.increase;
        law.on_ack(&ack(1, 900, false));
        assert_near(law.window, PACKET * (20.0 + 2.0 * law.constants.fast), 1e-6);
        assert_eq!(law.increase, collected, "the fast increase replaces the proportional one");
        law.on_ack(&ack(1, 1_000, false));
        assert!(!law.fast_active && law.fast_count == 0.0 && law.increase > collected);
    }

    #[test]
    fn marks_above_the_target_shrink_the_window_once_per_base_rtt() {
        let mut law = running(40.0);
        law.average_delay = 15_000.0;
        law.on_ack(&ack(1, 15_000, true));
        let target = law.constants.target;
        assert_near(law.window, 40.0 * PACKET * (1.0 - 0.8 * (15_000.0 - target) / 15_000.0), 1e-3);
        let once = law.window;
        law.on_ack(&Ack { now: Nanos::from_micros(1_010), ..ack(1, 15_000, true) });
        assert_eq!(law.window, once);
        // One decrease is at most one half, and an average below the target prevents it.
        law.average_delay = 1e9;
        law.on_ack(&Ack { now: Nanos::from_micros(1_016), ..ack(1, 15_000, true) });
        assert_near(law.window, once / 2.0 + law.constants.eta, 1e-3);
        let twice = law.window;
        law.average_delay = 1_000.0;
        law.on_ack(&Ack { now: Nanos::from_micros(1_036), ..ack(1, 15_000, true) });
        assert!(law.window >= twice);
    }

    #[test]
    fn marks_below_the_target_change_nothing_but_the_average() {
        let mut law = running(40.0);
        law.on_ack(&ack(1, 8_000, true));
        assert_eq!((law.window, law.increase), (40.0 * PACKET, 0.0));
        assert_eq!(law.average_delay, 0.0125 * 8_000.0);
    }

    #[test]
    fn average_delay_counts_an_unmarked_long_delay_as_a_quarter_of_the_base_rtt() {
        let mut law = running(40.0);
        law.on_ack(&ack(1, LONG, false));
        assert_near(law.average_delay, 0.0125 * 0.25 * 14_023.0, 1e-9);
        let before = law.average_delay;
        law.on_ack(&Ack { rtt_ambiguous: true, ..ack(1, LONG, false) });
        assert_eq!(law.average_delay, before, "an ambiguous RTT is no sample");
    }

    #[test]
    fn the_constant_increase_comes_once_per_period() {
        let mut law = running(40.0);
        let mut run = |us, packets| {
            law.window = 40.0 * PACKET;
            law.on_ack(&Ack { now: Nanos::from_micros(us), ..ack(packets, 8_000, true) });
            law.window - 40.0 * PACKET
        };
        assert_eq!(run(1_010, 9), 0.0);
        assert_near(run(1_015, 1), 716.0, 0.5);
        assert_eq!(run(1_025, 9), 0.0);
        assert_near(run(1_030, 1), 716.0, 0.5);
    }

    #[test]
    fn variants_of_pcm_differ_where_they_should() {
        let with = |preset| {
            let mut params = NsccParams::default();
            crate::params::Params::apply_preset(&mut params, preset).expect("the preset exists");
            let mut law = law(&params);
            (law.window, law.last_adjust) = (40.0 * PACKET, Nanos::from_micros(1_000));
            law.epoch.end = Nanos::from_micros(1_100);
            // An addition after 8 packets at 1,010 us, and the period's end at 1,015 us.
            law.on_ack(&Ack { now: Nanos::from_micros(1_010), ..ack(9, 8_000, true) });
            law.on_ack(&Ack { now: Nanos::from_micros(1_015), ..ack(1, 8_000, true) });
            law
        };
        assert_near(with("paper").window, 40.0 * PACKET + 716.0, 0.5);
        assert_eq!(with("pcm-period").window, 40.0 * PACKET, "the addition has restarted the period");
        assert_eq!(with("no-eta").window, 40.0 * PACKET);
        assert_eq!(with("paper").constants.gate, 1.0 / 8.0);
        assert_near(with("pcm-gate").constants.gate * 1.5, 1.0 / 8.0, 1e-12);
    }

    /// A law whose epoch ended at 1,010 us with `packets` delivered.
    fn at_the_end_of_an_epoch(packets: f64) -> Nscc {
        let mut law = running(60.0);
        law.last_adjust = Nanos::from_micros(1_020);
        law.epoch.delivered = packets * PACKET;
        law
    }

    #[test]
    fn quick_adapt_sets_the_window_to_the_bytes_of_the_epoch() {
        let mut law = at_the_end_of_an_epoch(5.0);
        law.on_trim(&trim(1_020, 30));
        assert_eq!(law.window, 5.0 * PACKET);
        assert_near(law.epoch.to_ignore, 31.0 * PACKET, 1e-6);
        assert_eq!(law.epoch.end, Nanos::from_micros(1_020) + Nanos::new(14_023 + 10_517));
        // Marks and trims of what was in flight at the cut change nothing.
        law.on_trim(&trim(1_021, 29));
        law.on_ack(&Ack { now: Nanos::from_micros(1_022), ..ack(29, 30_000, true) });
        assert_eq!(law.window, 5.0 * PACKET);
        assert_near(law.epoch.ignored, 30.0 * PACKET, 1e-6);
        // Afterwards they count again: 31 packets are through.
        law.on_trim(&trim(1_023, 3));
        assert_eq!(law.window, 4.0 * PACKET);
    }

    #[test]
    fn quick_adapt_waits_for_the_end_of_the_epoch_and_for_few_bytes() {
        // Within the epoch, a trim costs its bytes.
        let mut law = at_the_end_of_an_epoch(5.0);
        law.on_trim(&trim(1_009, 30));
        assert_eq!(law.window, 59.0 * PACKET);
        // One eighth of the largest window is 7.9 packets.
        let mut law = at_the_end_of_an_epoch(8.0);
        law.on_trim(&trim(1_020, 30));
        assert_eq!(law.window, 59.0 * PACKET);
        assert_eq!(
            (law.epoch.delivered, law.epoch.trimmed),
            (0.0, true),
            "the trim counts in the next epoch"
        );
        // The first epoch only starts.
        let mut law = at_the_end_of_an_epoch(5.0);
        law.epoch.end = Nanos::ZERO;
        law.on_trim(&trim(1_020, 30));
        assert_eq!(law.window, 59.0 * PACKET);
    }

    #[test]
    fn four_targets_of_delay_trigger_quick_adapt_without_a_trim() {
        let mut law = at_the_end_of_an_epoch(4.0);
        law.on_ack(&Ack { now: Nanos::from_micros(1_020), ..ack(1, 42_000, false) });
        assert!(law.window >= 60.0 * PACKET);
        let mut law = at_the_end_of_an_epoch(4.0);
        law.on_ack(&Ack { now: Nanos::from_micros(1_020), ..ack(1, 42_100, false) });
        assert_eq!(law.window, 5.0 * PACKET);
    }

    #[test]
    fn with_credits_a_trim_at_the_last_hop_costs_no_window() {
        let mut law = running(40.0);
        law.constants.credits = true;
        law.on_trim(&trim(1_005, 30));
        assert_eq!(law.window, 40.0 * PACKET);
        law.on_trim(&Trim { last_hop: false, ..trim(1_006, 29) });
        assert_eq!(law.window, 39.0 * PACKET);
        assert_near(law.average_delay, 14_023.0 * (1.0 - 0.9875 * 0.9875), 1e-9);
    }

    #[test]
    fn a_timeout_costs_its_bytes_down_to_one_packet() {
        let mut law = running(40.0);
        law.on_timeout(&Timeout { now: Nanos::from_micros(1_005), bytes: PATH.mtu * 2 });
        assert_near(law.window, 38.0 * PACKET, 1e-6);
        law.on_timeout(&Timeout { now: Nanos::from_micros(1_006), bytes: PATH.mtu * 200 });
        assert_eq!(law.decision().window, Packets::ONE);
        law.on_loss(&Loss { now: Nanos::from_micros(1_007) });
        assert_eq!(law.decision().window, Packets::ONE);
    }

    #[test]
    fn a_shorter_rtt_lowers_the_base_rtt_and_the_largest_window() {
        let mut law = law(&NsccParams::default());
        law.on_ack(&Ack { rtt: Nanos::from_micros(7), ..ack(1, 0, false) });
        assert_eq!(law.base_rtt, 7_000.0);
        assert_near(law.window, 1.5 * 7_000.0 * 12.5, 1e-6);
        assert_near(law.constants.target, 10_517.0, 1.0);
    }
}
