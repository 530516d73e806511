//! CUBIC: a window that is a cubic function of the time since the last cut.
//!
//! ```text
//! Model      W(t) = C·(t - K)³ + W_max,   K = ∛((W_max - w)/C)
//!            a cut (loss, or a mark once per round trip): w *= 0.7
//!            never slower than Reno would be on the same path
//! ```
//!
//! Signals    loss; marks if the host supplies them; the RTT for the Reno-friendly region
//! Source     RFC 9438
//! Differs    - Slow start ends with a loss or a mark, unless `hystart` is set: then as in Linux (RFC 9438 section 4.10 only
//!              recommends such a thing).
//!            - A cut is carried out at once, unless `spread_cut` is set: then over a round trip, as Linux does. Ten flows with
//!              60 to 220 ms round trips and small queues use 0.90 of a link with it and 0.76 without; Linux uses 0.90.
//!            - A flow that does not use its window does not grow it, and its curve starts anew afterwards.
//!            - A timeout restarts at the smallest window, two packets, where RFC 5681 says one.
//!            - RPM's text says that ECN halves the window; that is Reno. CUBIC multiplies by 0.7 (RFC 9438 section 4.6).

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::float::{bounded, ns, packets, to_window};
use crate::parts::gate::TimeGate;
use crate::parts::hystart::HyStart;
use crate::parts::reno::Reno;
use crate::parts::spread_cut::SpreadCut;
use poseidon_types::{Nanos, Packets, Signals};

params! {
    /// CUBIC's parameters.
    pub struct CubicParams {
        /// C, packets per second cubed (RFC 9438 section 5.1).
        scale: f64 = 0.4,
        /// β: what a cut leaves (RFC 9438 section 4.6).
        beta: f64 = 0.7,
        /// Give up bandwidth sooner when the last cut came earlier (RFC 9438 section 4.7).
        fast_convergence: bool = true,
        /// Leave slow start when ACKs fill half a round trip or the round trip grows, as Linux does.
        hystart: bool = false,
        /// Spread a cut over the round trip after it, as Linux does (RFC 9937).
        spread_cut: bool = false,
        /// The first window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window.
        min_window: Packets = Packets::whole(2),
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "linux", "what Linux does beyond RFC 9438: slow start ends early, and a cut takes a round trip", |p| {
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

/// One flow under CUBIC. Windows in packets, times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Cubic {
    reno: Reno,
    max: f64,
    /// The window before the last cut.
    prior: f64,
    /// The present epoch of congestion avoidance: since when, K, and the window Reno would have.
    epoch: Option<Epoch>,
    last_cut: TimeGate,
    rtt: Nanos,

    scale: f64,
    beta: f64,
    min_window: f64,
    max_window: f64,
    fast_convergence: bool,
    hystart: Option<HyStart>,
    spreads_cuts: bool,
    cut: SpreadCut,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    since: Nanos,
    k: f64,
    origin: f64,
    reno: f64,
}

impl Law for Cubic {
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
            prior: 0.0,
            epoch: None,
            last_cut: TimeGate::NEVER,
            rtt: path.base_rtt,
            scale: params.scale,
            beta: params.beta,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
            fast_convergence: params.fast_convergence,
            hystart: params.hystart.then_some(HyStart::NEW),
            spreads_cuts: params.spread_cut,
            cut: SpreadCut::OVER,
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.rtt = ack.rtt;
        // Until it has been carried out there is neither growth nor another cut.
        if self.spreads_cuts && self.cut.goes_on(f64::from(ack.packets)) {
            return;
        }
        if !ack.marked.is_zero() {
            self.cut_once(ack.now);
            return;
        }
        if ack.app_limited {
            // Idle time must not count as growth.
            self.epoch = None;
            return;
        }
        let window = self.reno.window;
        if self.reno.in_slow_start() && self.hystart.as_mut().is_some_and(|rounds| rounds.is_over(ack, window)) {
            self.reno.threshold = window;
        }
        let rest = self.reno.slow_start(f64::from(ack.packets));
        if rest > 0.0 {
            self.follow_curve(ack, rest);
        }
        self.reno.window = bounded(self.reno.window, self.min_window, self.max_window);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.cut_once(loss.now);
    }

    /// RFC 9438 section 4.8: the curve starts anew from where slow start ends, with K = 0.
    fn on_timeout(&mut self, now: Nanos) {
        self.note_max();
        self.max = 0.0;
        self.cut = SpreadCut::OVER;
        self.last_cut.close(now);
        self.reno.restart(self.beta, self.min_window);
    }

    /// Marked.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.cut.window(self.reno.window)), pacing: Pacing::Off }
    }
}

impl Cubic {
    /// Congestion avoidance, RFC 9438 sections 4.2-4.5.
    fn follow_curve(&mut self, ack: &Ack<'_>, acked: f64) {
        let window = self.reno.window;
        let epoch = self.epoch.get_or_insert_with(|| {
            let origin = self.max.max(window);
            let k = libm::cbrt((origin - window) / self.scale);
            Epoch { since: ack.now, k, origin, reno: window }
        });
        let seconds = |time: Nanos| ns(time) / 1e9;
        let elapsed = seconds(Nanos::new(ack.now.get().wrapping_sub(epoch.since.get())));
        // The Reno-friendly window grows by alpha per round, by one once it has passed the window before the cut.
        let alpha = if epoch.reno >= self.prior { 1.0 } else { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) };
        epoch.reno += alpha * acked / window;
        let curve = |t: f64| {
            let from_k = t - epoch.k;
            self.scale * from_k * from_k * from_k + epoch.origin
        };
        if curve(elapsed) < epoch.reno {
            self.reno.window = epoch.reno;
        } else {
            // Section 4.4: towards where the curve will be a round trip from now, at most by half.
            let goal = bounded(curve(elapsed + seconds(ack.rtt)), window, 1.5 * window);
            self.reno.window += (goal - window) * acked / window;
        }
    }

    /// RFC 9438 sections 4.6 and 4.7, at most once per round trip.
    fn cut_once(&mut self, now: Nanos) {
        if self.last_cut.since(now) < self.rtt || self.cut != SpreadCut::OVER {
            return;
        }
        self.last_cut.close(now);
        self.note_max();
        if self.spreads_cuts {
            self.cut = SpreadCut::begin(self.reno.window);
        }
        self.reno.cut(self.beta, self.min_window);
    }

    fn note_max(&mut self) {
        let window = self.reno.window;
        self.prior = window;
        let falls = self.fast_convergence && window < self.max;
        self.max = if falls { window * (1.0 + self.beta) / 2.0 } else { window };
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

    /// The window after `seconds` of ACKs on a 40 ms path, from one cut at 1000 packets.
    fn after(seconds: f64) -> f64 {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        (law.reno.window, law.reno.threshold) = (1_000.0, 1_000.0);
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
    fn returns_to_the_old_maximum_after_k_seconds() {
        // K = ∛(300/0.4) = 9.09 s; half way it is C·(K/2)³ = 37.5 packets below.
        let k = libm::cbrt(300.0 / 0.4);
        assert!((after(k) - 1_000.0).abs() < 5.0, "{}", after(k));
        assert!((after(k / 2.0) - 962.5).abs() < 5.0, "{}", after(k / 2.0));
        assert!((after(1.5 * k) - 1_037.5).abs() < 5.0, "{}", after(1.5 * k));
    }

    #[test]
    fn marks_cut_once_per_round_trip() {
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
    fn a_spread_cut_takes_one_window_of_acks_and_marks_in_it_are_old_news() {
        let params = CubicParams { spread_cut: true, ..CubicParams::default() };
        let mut law = Cubic::new(&params, &PATH);
        (law.reno.window, law.reno.threshold) = (100.0, 100.0);
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
    fn a_second_cut_below_the_old_maximum_gives_way() {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        law.reno.window = 100.0;
        law.on_loss(&Loss { now: Nanos::ZERO });
        law.on_loss(&Loss { now: Nanos::from_millis(50) });
        assert!((law.max - 70.0 * 0.85).abs() < 1e-9, "{}", law.max);
    }

    #[test]
    fn after_a_timeout_the_curve_starts_where_slow_start_ends() {
        let mut law = Cubic::new(&CubicParams::default(), &PATH);
        (law.reno.window, law.reno.threshold) = (1_000.0, 1_000.0);
        law.on_timeout(Nanos::ZERO);
        assert_eq!(law.reno.threshold, 700.0);
        for i in 1..=800u64 {
            law.on_ack(&Ack { now: Nanos::from_millis(i), rtt: PATH.base_rtt, packets: 1, ..Ack::EMPTY });
        }
        let epoch = law.epoch.expect("congestion avoidance");
        assert_eq!((epoch.k, epoch.origin), (0.0, 700.0));
    }
}
