//! CUBIC: a window that is a cubic function of the time since the last cut.
//!
//! ```text
//! Model      W(t) = C·(t - K)³ + W_max,   K = ∛((W_max - w)/C)
//!            a cut (loss, or a mark once per round trip): w *= 0.7
//!            the window is never below Reno's on the same path
//! ```
//!
//! Signals    loss, ECN marks if the host supplies them, and the RTT for the Reno-friendly region
//! Source     RFC 9438
//! Differs    - Slow start ends with a loss or a mark. With `hystart`, it ends as in Linux (RFC 9438 section 4.10
//!              recommends a similar mechanism).
//!            - A cut takes effect at once. With `spread_cut`, it is spread over a round trip, as in Linux. In a test
//!              with ten flows of 60 to 220 ms RTT and small queues, utilisation is 0.90 with `spread_cut` and 0.76
//!              without; Linux reaches 0.90.
//!            - The window does not grow while the flow is application-limited, and the curve restarts afterwards.
//!            - After a timeout, the flow restarts from the smallest window, two packets. RFC 5681 uses one packet.
//!            - RPM's text says that ECN halves the window, which is Reno's reaction. CUBIC multiplies the window by
//!              0.7 (RFC 9438 section 4.6).

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::float::{clamp, ns, packets, to_window};
use crate::parts::hystart::HyStart;
use crate::parts::prr::ProportionalCut;
use crate::parts::reno::Reno;
use crate::parts::round_trip::LastCut;
use poseidon_types::{Nanos, Packets, Signals};

params! {
    /// Parameters of [`Cubic`].
    pub struct CubicParams {
        /// C in packets per second cubed (RFC 9438 section 5.1).
        scale: f64 = 0.4,
        /// β: the multiplicative decrease factor (RFC 9438 section 4.6).
        beta: f64 = 0.7,
        /// Release bandwidth faster if a cut occurs below the previous maximum (RFC 9438 section 4.7).
        fast_convergence: bool = true,
        /// Leave slow start when ACKs span half a round trip or the RTT grows, like Linux.
        hystart: bool = false,
        /// Spread each cut over the following round trip, like Linux (RFC 9937).
        spread_cut: bool = false,
        /// The initial window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window.
        min_window: Packets = Packets::whole(2),
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "linux", "Linux extensions of RFC 9438: HyStart, and cuts that take a round trip", |p| {
            p.hystart = true;
            p.spread_cut = true;
        };
    }
    check {
        scale: "above 0", |p| p.scale > 0.0;
        beta: "above 0 and below 1", |p| p.beta > 0.0 && p.beta < 1.0;
        min_window: "at least one packet", |p| p.min_window >= Packets::ONE;
        max_window: "at most 32768 packets", |p| p.max_window <= Packets::MAX_WINDOW;
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
    }
}

/// The state of one CUBIC flow. Windows are in packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Cubic {
    reno: Reno,
    /// W_max in RFC 9438.
    max: f64,
    /// The window before the last cut.
    prior_window: f64,
    epoch: Option<Epoch>,
    last_cut: LastCut,
    rtt: Nanos,

    scale: f64,
    beta: f64,
    min_window: f64,
    max_window: f64,
    fast_convergence: bool,
    hystart: Option<HyStart>,
    spreads_cuts: bool,
    cut: ProportionalCut,
}

/// An epoch of congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    start: Nanos,
    /// K in RFC 9438, in seconds.
    k: f64,
    /// The window at the curve's plateau.
    origin: f64,
    /// The window that Reno would have.
    reno_window: f64,
}

impl LawDefinition for Cubic {
    const NAME: &'static str = "cubic";
    const SOURCE: &'static str = "RFC 9438";
    const STATE_LIMIT: usize = 208;
    type Params = CubicParams;

    fn needs(_: &CubicParams) -> Signals {
        Signals::RTT
    }

    fn new(params: &CubicParams, path: &Path) -> Self {
        Self {
            reno: Reno::new(packets(params.initial_window)),
            max: 0.0,
            prior_window: 0.0,
            epoch: None,
            last_cut: LastCut::NEVER,
            rtt: path.base_rtt,
            scale: params.scale,
            beta: params.beta,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
            fast_convergence: params.fast_convergence,
            hystart: params.hystart.then_some(HyStart::NEW),
            spreads_cuts: params.spread_cut,
            cut: ProportionalCut::INACTIVE,
        }
    }
}

impl Law for Cubic {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.rtt = ack.rtt;
        // While a cut is in progress, the window neither grows nor is cut again.
        if self.spreads_cuts && self.cut.on_ack(f64::from(ack.packets)) {
            return;
        }
        if !ack.marked.is_zero() {
            self.cut_once(ack.now);
            return;
        }
        if ack.app_limited {
            // Idle time must not advance the growth curve.
            self.epoch = None;
            return;
        }
        let window = self.reno.window;
        if self.reno.in_slow_start()
            && self.hystart.as_mut().is_some_and(|hystart| hystart.should_exit(ack, window))
        {
            self.reno.ssthresh = window;
        }
        let remaining = self.reno.slow_start(f64::from(ack.packets));
        if remaining > 0.0 {
            self.avoid_congestion(ack, remaining);
        }
        self.reno.window = clamp(self.reno.window, self.min_window, self.max_window);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.cut_once(loss.now);
    }

    /// Restarts slow start. The next curve starts where slow start ends, with K = 0 (RFC 9438 section 4.8).
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.record_max();
        self.max = 0.0;
        self.cut = ProportionalCut::INACTIVE;
        self.last_cut.record(timeout.now);
        self.reno.restart(self.beta, self.min_window);
    }

    /// Returns whether the ACK carries a mark.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.cut.window(self.reno.window)), pacing: Pacing::Off }
    }
}

impl Cubic {
    /// Grows the window in congestion avoidance (RFC 9438 sections 4.2-4.5).
    fn avoid_congestion(&mut self, ack: &Ack<'_>, acked: f64) {
        let window = self.reno.window;
        let epoch = self.epoch.get_or_insert_with(|| {
            let origin = self.max.max(window);
            let k = libm::cbrt((origin - window) / self.scale);
            Epoch { start: ack.now, k, origin, reno_window: window }
        });
        let seconds = |time: Nanos| ns(time) / 1e9;
        let elapsed = seconds(Nanos::new(ack.now.get().wrapping_sub(epoch.start.get())));
        // The Reno-friendly window grows by alpha per round, and by one packet once it exceeds the window before the
        // cut.
        let alpha = if epoch.reno_window >= self.prior_window {
            1.0
        } else {
            3.0 * (1.0 - self.beta) / (1.0 + self.beta)
        };
        epoch.reno_window += alpha * acked / window;
        let curve = |t: f64| {
            let offset = t - epoch.k;
            self.scale * offset * offset * offset + epoch.origin
        };
        if curve(elapsed) < epoch.reno_window {
            self.reno.window = epoch.reno_window;
        } else {
            // Section 4.4: grow towards the curve's value one round trip from now, but by at most half.
            let goal = clamp(curve(elapsed + seconds(ack.rtt)), window, 1.5 * window);
            self.reno.window += (goal - window) * acked / window;
        }
    }

    /// Cuts the window, at most once per round trip (RFC 9438 sections 4.6 and 4.7).
    fn cut_once(&mut self, now: Nanos) {
        if self.last_cut.elapsed(now) < self.rtt || self.cut != ProportionalCut::INACTIVE {
            return;
        }
        self.last_cut.record(now);
        self.record_max();
        if self.spreads_cuts {
            self.cut = ProportionalCut::start(self.reno.window);
        }
        self.reno.cut(self.beta, self.min_window);
    }

    /// Records W_max before a cut and ends the epoch.
    fn record_max(&mut self) {
        let window = self.reno.window;
        self.prior_window = window;
        let below_last_max = self.fast_convergence && window < self.max;
        self.max = if below_last_max { window * (1.0 + self.beta) / 2.0 } else { window };
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::float::to_nanos;
    use poseidon_types::{BitRate, Bytes};

    const PATH: Path =
        Path { mtu: Bytes::new(1_500), line_rate: BitRate::from_gbps(10), base_rtt: Nanos::from_millis(40) };

    /// Returns the window on a 40 ms path `seconds` after a cut at 1000 packets.
    fn window_after(seconds: f64) -> f64 {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        (law.reno.window, law.reno.ssthresh) = (1_000.0, 1_000.0);
        law.on_loss(&Loss { now: Nanos::ZERO });
        assert_eq!(law.reno.window, 700.0);
        let mut now = 0.0;
        while now < seconds * 1e9 {
            now += 40e6 / law.reno.window;
            let ack = Ack { now: to_nanos(now), rtt: PATH.base_rtt, packets: 1, ..Ack::EMPTY };
            law.on_ack(&ack);
        }
        law.reno.window
    }

    #[test]
    fn the_window_returns_to_the_maximum_after_k_seconds() {
        // K = ∛(300/0.4) = 9.09 s. At K/2 the window is C·(K/2)³ = 37.5 packets below the maximum.
        let k = libm::cbrt(300.0 / 0.4);
        assert!((window_after(k) - 1_000.0).abs() < 5.0, "{}", window_after(k));
        assert!((window_after(k / 2.0) - 962.5).abs() < 5.0, "{}", window_after(k / 2.0));
        assert!((window_after(1.5 * k) - 1_037.5).abs() < 5.0, "{}", window_after(1.5 * k));
    }

    #[test]
    fn marks_cut_the_window_once_per_round_trip() {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        let marked =
            |ms| Ack { now: Nanos::from_millis(ms), rtt: PATH.base_rtt, marked: Bytes::new(1), ..Ack::EMPTY };
        law.on_ack(&marked(1));
        law.on_ack(&marked(40));
        assert_eq!(law.reno.window, 7.0);
        law.on_ack(&marked(41));
        assert!((law.reno.window - 4.9).abs() < 1e-9);
    }

    #[test]
    fn a_spread_cut_takes_one_window_of_acks_and_ignores_marks_meanwhile() {
        let params = CubicParams { spread_cut: true, ..CubicParams::default() };
        let mut law = Cubic::new(&params, &PATH);
        (law.reno.window, law.reno.ssthresh) = (100.0, 100.0);
        law.on_loss(&Loss { now: Nanos::ZERO });
        let window = |law: &Cubic| packets(law.decision().window);
        assert_eq!(window(&law), 100.0);
        let ack = |ms| Ack { now: Nanos::from_millis(ms), rtt: PATH.base_rtt, packets: 50, ..Ack::EMPTY };
        law.on_ack(&ack(20));
        assert!((window(&law) - 85.0).abs() < 0.01, "{}", window(&law));
        law.on_ack(&Ack { marked: Bytes::new(1), packets: 49, ..ack(60) });
        assert!((window(&law) - 70.3).abs() < 0.01, "{}", window(&law));
        law.on_ack(&ack(61));
        assert!(window(&law) > 70.0 && window(&law) < 72.0, "{}", window(&law));
    }

    #[test]
    fn a_second_cut_below_the_maximum_lowers_the_maximum() {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        law.reno.window = 100.0;
        law.on_loss(&Loss { now: Nanos::ZERO });
        law.on_loss(&Loss { now: Nanos::from_millis(50) });
        assert!((law.max - 70.0 * 0.85).abs() < 1e-9, "{}", law.max);
    }

    #[test]
    fn the_curve_starts_where_slow_start_ends_after_a_timeout() {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        (law.reno.window, law.reno.ssthresh) = (1_000.0, 1_000.0);
        law.on_timeout(&Timeout { now: Nanos::ZERO, bytes: Bytes::ZERO });
        assert_eq!(law.reno.ssthresh, 700.0);
        for i in 1..=800u64 {
            law.on_ack(&Ack { now: Nanos::from_millis(i), rtt: PATH.base_rtt, packets: 1, ..Ack::EMPTY });
        }
        let epoch = law.epoch.expect("the flow is in congestion avoidance");
        assert_eq!((epoch.k, epoch.origin), (0.0, 700.0));
    }
}
