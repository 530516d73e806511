//! HPCC: windows steered by the utilisation that each hop reports.
//!
//! ```text
//! Model      per hop    u = min(queue now, queue before)/(B·T) + txRate/B
//!            U = average of the largest u over about one T
//!            U ≥ η, or too many rounds of increase:  W = Wc/(U/η) + W_AI
//!            otherwise                            :  W = Wc + W_AI
//!            Wc, the reference, follows W once per round trip; every ACK computes W anew from Wc
//! ```
//!
//! Signals    one record per hop {queue, bytes sent, time, rate}
//! Life       one bandwidth-delay product at line rate → around η of the bottleneck, near-empty queues
//! Source     Li et al., SIGCOMM 2019, algorithm 1. `vai`, `sampling`, `probabilistic`: Snyder and Lebeck, "Fast
//!            convergence to fairness", sections III-D, IV and V
//! Differs    - `max_stage` is printed as 5, but the published simulations ran with 0 (its author, issue 24 of
//!              `alibaba-edu/High-Precision-Congestion-Control`): 0 is the default, 5 the preset `printed`, which
//!              PowerTCP's and VAI/SF's evaluations used.
//!            - PLB is not in the paper: a path is congested where U ≥ η and the flow has at most three quarters of
//!              its line.
//!            - A hop whose clock did not advance is skipped; a changed number of hops or line rate is a new path.
//! Limits     made for lossless fabrics: a loss or a timeout leaves the window alone, as in the artifact. A flow that does
//!            not use its window is not treated apart: the window never exceeds one bandwidth-delay product. T is one
//!            number for the network: too small under-uses links, too large leaves a standing queue.

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::over_time;
use crate::parts::float::{bounded, bytes, bytes_per_ns, ns, to_nanos, to_rate, to_window};
use crate::parts::gate::SeqGate;
use crate::parts::hop_delta::LastHops;
use crate::parts::probabilistic;
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// HPCC's parameters.
    pub struct HpccParams {
        /// η: the utilisation aimed at.
        target_utilisation: f64 = 0.95,
        /// Rounds of additive increase before a multiplicative one (0 in the published simulations, 5 in print).
        max_stage: u32 = 0,
        /// W_AI as a rate per round trip: 81 B per 13 us, W_init(1-η)/N for N = 100 at 100 Gbps.
        additive_increase: BitRate = BitRate::from_mbps(50),
        /// The first window; 0 packets for one bandwidth-delay product, as HPCC starts. Others show how it ramps up.
        initial_window: Packets = Packets::whole(0),
        /// The smallest window as a rate (the artifact's configuration).
        min_rate: BitRate = BitRate::from_mbps(100),
        /// T: the base RTT of the whole network; 0 ns takes the path's own.
        network_rtt: Nanos = Nanos::ZERO,
        /// Pace at W/T always; otherwise only below one packet, as in Poseidon's evaluation.
        paced: bool = true,
        /// Variable additive increase (VAI/SF section IV-A).
        vai: bool = false,
        /// VAI: queue that means a flow has joined, the smallest bandwidth-delay product (section V-A).
        vai_threshold: Bytes = Bytes::new(50_000),
        /// VAI: queue that earns one token.
        vai_per_token: Bytes = Bytes::new(1_000),
        /// Sampling frequency: ACKs between decreases (VAI/SF section IV-B); 0 for once per round trip.
        sampling: u32 = 0,
        /// Probabilistic feedback (VAI/SF section III-D).
        probabilistic: bool = false,
        /// Change the window at most once per round trip (the reconfigurable datacenter of PowerTCP's section 5).
        once_per_rtt: bool = false,
    }
    presets {
        "printed", "max_stage 5 as printed, which the PowerTCP and VAI/SF evaluations ran", |p| p.max_stage = 5;
        "vai-sf", "HPCC with VAI and SF, as evaluated", |p| {
            p.max_stage = 5;
            p.vai = true;
            p.sampling = 30;
        };
    }
    check {
        target_utilisation: "above 0 and at most 1",
            |p| p.target_utilisation > 0.0 && p.target_utilisation <= 1.0;
        min_rate: "at least 1 Mbps", |p| p.min_rate >= BitRate::from_mbps(1);
        vai_threshold: "above zero", |p| p.vai_threshold > Bytes::ZERO;
        vai_per_token: "above zero", |p| p.vai_per_token > Bytes::ZERO;
    }
}

/// One flow under HPCC. Windows in bytes, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpcc {
    window: f64,
    /// Wc.
    reference: f64,
    /// U, smoothed.
    utilisation: f64,
    stage: u32,
    round: SeqGate,
    samples: Sampling,
    tokens: VariableAi,
    /// L.
    last: LastHops,

    horizon: f64,
    target: f64,
    increase: f64,
    min_window: f64,
    max_window: f64,
    mtu: f64,
    vai: VariableAiParams,
    vai_threshold: f64,
    max_stage: u32,
    sampling: u32,
    uses_vai: bool,
    probabilistic: bool,
    paced: bool,
    once_per_rtt: bool,
}

impl Law for Hpcc {
    const NAME: &'static str = "hpcc";
    const SOURCE: &'static str = "Li et al., SIGCOMM 2019, Alg. 1; VAI and SF by Snyder and Lebeck";
    const STATE_LIMIT: usize = 512;
    type Params = HpccParams;

    fn needs(_: &HpccParams) -> Signals {
        Signals::HOP_RECORDS
    }

    fn new(params: &HpccParams, path: &Path) -> Self {
        let horizon = ns(if params.network_rtt.is_zero() { path.base_rtt } else { params.network_rtt });
        let max_window = bytes_per_ns(path.line_rate) * horizon;
        let min_window = (bytes_per_ns(params.min_rate) * horizon).min(max_window);
        let first = match params.initial_window.q24() {
            0 => max_window,
            q24 => bounded(q24 as f64 / 16_777_216.0 * bytes(path.mtu), min_window, max_window),
        };
        Self {
            window: first,
            reference: first,
            utilisation: 1.0,
            stage: 0,
            round: SeqGate::default(),
            samples: Sampling::default(),
            tokens: VariableAi::default(),
            last: LastHops::default(),
            horizon,
            target: params.target_utilisation,
            increase: bytes_per_ns(params.additive_increase) * horizon,
            min_window,
            max_window,
            mtu: bytes(path.mtu),
            vai: VariableAiParams::published(bytes(params.vai_per_token)),
            vai_threshold: bytes(params.vai_threshold),
            max_stage: params.max_stage,
            sampling: params.sampling,
            uses_vai: params.vai,
            probabilistic: params.probabilistic,
            paced: params.paced,
            once_per_rtt: params.once_per_rtt,
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let round_ended = self.round.passes(ack.acked_seq, ack.next_seq);
        let Some(sample) = self.measure(ack) else { return };
        self.utilisation = over_time(self.utilisation, sample.utilisation, sample.elapsed, self.horizon);
        let decreases = self.utilisation >= self.target;
        if self.uses_vai {
            self.tokens.observe(sample.queue, decreases);
            if round_ended {
                self.tokens.end_round(self.vai_threshold, 0.0, &self.vai);
            }
        }
        // SF: a decrease may move the reference every so many ACKs, an increase only once per round trip.
        let due = self.samples.due(self.sampling);
        let moves = if decreases && self.sampling > 0 { due } else { round_ended };
        if decreases && moves && self.ignores(ack.chance) {
            // The dice are thrown once per decrease, not per ACK.
            self.samples.moved();
            return;
        }
        if self.once_per_rtt && !round_ended {
            return;
        }
        let tokens = if self.uses_vai { self.tokens.spend(moves, &self.vai) } else { 1.0 };
        let increase = self.increase * tokens;
        let multiplies = decreases || self.stage >= self.max_stage;
        let window = if multiplies {
            self.reference / (self.utilisation / self.target) + increase
        } else {
            self.reference + increase
        };
        self.window = bounded(window, self.min_window, self.max_window);
        if moves {
            self.stage = if multiplies { 0 } else { self.stage + 1 };
            self.reference = self.window;
            self.samples.moved();
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: Nanos) {}

    /// The busiest hop is used to its target or beyond, and the flow has at most three quarters of its line. The second condition is
    /// for a flow that fills a path alone: it holds U at η as well, and gains nothing elsewhere. One of two has half.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        self.utilisation >= self.target && self.window <= 0.75 * self.max_window
    }

    fn decision(&self) -> Decision {
        let packets = self.window / self.mtu;
        let pacing = if self.paced {
            Pacing::Rate(to_rate(self.window / self.horizon))
        } else if packets < 1.0 {
            Pacing::Gap(to_nanos(self.horizon / packets))
        } else {
            Pacing::Off
        };
        Decision { window: to_window(packets), pacing }
    }
}

/// What one ACK says about the path.
struct Sample {
    /// The largest utilisation of any hop.
    utilisation: f64,
    /// The time that hop measured over, ns.
    elapsed: f64,
    /// The longest queue of any hop, bytes.
    queue: f64,
}

impl Hpcc {
    /// Alg. 1, `MeasureInflight`; `None` for a first ACK, a new path, or no hop that advanced.
    fn measure(&mut self, ack: &Ack<'_>) -> Option<Sample> {
        let mut worst: Option<Sample> = None;
        let mut longest: f64 = 0.0;
        for hop in self.last.deltas(ack.hops) {
            // The smaller of two queues filters one-packet spikes.
            let queue = hop.queue.min(hop.old_queue);
            let utilisation = queue / (hop.rate * self.horizon) + hop.sent / hop.elapsed / hop.rate;
            longest = longest.max(hop.queue);
            if worst.as_ref().is_none_or(|w| utilisation > w.utilisation) {
                worst = Some(Sample { utilisation, elapsed: hop.elapsed, queue: 0.0 });
            }
        }
        self.last.keep(ack.hops);
        worst.map(|sample| Sample { queue: longest, ..sample })
    }

    fn ignores(&self, chance: u32) -> bool {
        self.probabilistic && probabilistic::ignores(self.reference, self.max_window, chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{HopPath, HopRecord, Wrap};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(100), base_rtt: Nanos::from_micros(13) };

    /// An ACK whose one hop has sent `sent` bytes and holds `queue` bytes at `us` microseconds.
    fn feed(hpcc: &mut Hpcc, us: u64, sent: u64, queue: u64, acked_seq: u64) {
        let hop = HopRecord {
            at: Nanos::from_micros(us),
            sent: Bytes::new(sent),
            queue: Bytes::new(queue),
            rate: BitRate::from_gbps(100),
        };
        let hops = HopPath { records: &[hop], wrap: Wrap::NEVER };
        hpcc.on_ack(&Ack { hops, acked_seq, next_seq: acked_seq + 10_000, packets: 1, ..Ack::EMPTY });
    }

    #[test]
    fn a_full_link_and_a_queue_of_one_bdp_halve_the_window() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        // 13 us at 100 Gbps.
        assert_eq!(hpcc.window, 162_500.0);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        // u = 1 + 1 = 2, one whole T: W = Wc · 0.95/2 + W_AI.
        assert_eq!(hpcc.window, 162_500.0 * 0.475 + 81.25);
        assert_eq!(hpcc.reference, 162_500.0, "the reference waits for the round trip");
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        assert_eq!(hpcc.reference, hpcc.window);
    }

    #[test]
    fn the_reference_keeps_acks_of_one_round_from_compounding() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        for i in 1..10 {
            feed(&mut hpcc, 13 * i, 162_500 * i, 162_500, 1);
        }
        assert_eq!(hpcc.window, 162_500.0 * 0.475 + 81.25);
    }

    #[test]
    fn five_additive_rounds_then_a_multiplicative_one_when_printed() {
        let params = HpccParams { max_stage: 5, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        (hpcc.window, hpcc.reference) = (50_000.0, 50_000.0);
        // Half of the link is used, no queue: U = 0.5.
        let mut windows = std::vec::Vec::new();
        for i in 0..8u64 {
            feed(&mut hpcc, 13 * i, 81_250 * i, 0, 20_000 * i);
            windows.push(hpcc.window);
        }
        // Five rounds add; the sixth divides by U/η.
        assert!(windows[1..=5].iter().all(|window| *window < 50_500.0), "{windows:?}");
        assert!(windows[6] > 90_000.0, "{windows:?}");
    }

    #[test]
    fn a_new_path_is_not_compared_with_the_old_one() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        feed(&mut hpcc, 0, 0, 0, 0);
        let two = [HopRecord { at: Nanos::from_micros(13), ..HopRecord::default() }; 2];
        let before = hpcc.window;
        hpcc.on_ack(&Ack { hops: HopPath { records: &two, wrap: Wrap::NEVER }, ..Ack::EMPTY });
        assert_eq!(hpcc.window, before);
    }

    #[test]
    fn sampling_moves_the_reference_within_a_round_trip() {
        let params = HpccParams { sampling: 30, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        for i in 1..=30 {
            feed(&mut hpcc, 13 * i, 162_500 * i, 162_500, 1);
        }
        assert_eq!(hpcc.reference, 162_500.0 * 0.475 + 81.25);
    }

    #[test]
    fn variable_ai_adds_up_to_a_hundred_increases_after_a_long_queue() {
        let params = HpccParams { vai: true, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        // Two rounds with a queue of 162.5 kB: 162 tokens, dampener 3.25.
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        let spent = 100.0 / (3.25 / 8.0 + 1.0);
        let expected = 162_500.0 * 0.475 + 81.25 * spent;
        assert!((hpcc.window - expected).abs() < 1e-6, "{} {expected}", hpcc.window);
    }

    #[test]
    fn once_per_round_trip_means_once() {
        let params = HpccParams { once_per_rtt: true, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        assert_eq!(hpcc.window, 162_500.0);
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        assert!(hpcc.window < 90_000.0);
    }
}
