//! HPCC: a window controlled by the utilisation that each hop reports.
//!
//! ```text
//! Model      per hop    u = min(current queue, previous queue)/(B·T) + txRate/B
//!            U = average of the largest u over about one T
//!            U ≥ η, or too many rounds of increase:  W = Wc/(U/η) + W_AI
//!            otherwise                            :  W = Wc + W_AI
//!            every ACK computes W from the reference Wc; Wc is set to W once per round trip
//! ```
//!
//! Signals    one record per hop {queue, bytes sent, time, rate}
//! Lifecycle  one bandwidth-delay product at line rate → about η of the bottleneck, near-empty queues
//! Source     Li et al., SIGCOMM 2019, algorithm 1. `vai`, `sampling`, `probabilistic`: Snyder and Lebeck, "Fast
//!            convergence to fairness", sections III-D, IV and V
//! Differs    - The paper prints `max_stage` as 5, but the published simulations ran with 0 (stated by the author in
//!              issue 24 of `alibaba-edu/High-Precision-Congestion-Control`). The default is 0. The `printed` preset
//!              uses 5, as in the PowerTCP and VAI/SF evaluations.
//!            - PLB is not in the paper. A path counts as congested if U ≥ η and the flow gets at most three quarters
//!              of its line rate.
//!            - A hop whose timestamp did not advance is skipped. A change in the number of hops or in a line rate
//!              indicates a new path.
//! Limits     Designed for lossless fabrics: a loss or a timeout does not change the window, as in the artifact. There
//!            is no special case for an application-limited flow, because the window never exceeds one bandwidth-delay
//!            product. T is a network-wide constant. If it is too small, links are underused; if it is too large, a
//!            standing queue remains.

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::time_weighted_average;
use crate::parts::float::{bytes, bytes_per_ns, clamp, ns, to_nanos, to_rate, to_window};
use crate::parts::hop_delta::LastHops;
use crate::parts::probabilistic;
use crate::parts::round_trip::RoundTrip;
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Hpcc`].
    pub struct HpccParams {
        /// η: the target utilisation.
        target_utilisation: f64 = 0.95,
        /// The number of additive rounds before a multiplicative round (0 in the published simulations, 5 in the
        /// paper).
        max_stage: u32 = 0,
        /// W_AI as a rate per round trip: 81 B per 13 us, which is W_init(1-η)/N for N = 100 at 100 Gbps.
        additive_increase: BitRate = BitRate::from_mbps(50),
        /// The initial window; 0 packets means one bandwidth-delay product, as in the paper.
        initial_window: Packets = Packets::whole(0),
        /// The minimum window, expressed as a rate (from the artifact's configuration).
        min_rate: BitRate = BitRate::from_mbps(100),
        /// T: the network-wide base RTT; 0 ns means the path's base RTT.
        network_rtt: Nanos = Nanos::ZERO,
        /// Always pace at W/T. If false, pace only if the window is below one packet, as in Poseidon's evaluation.
        paced: bool = true,
        /// Use variable additive increase (VAI/SF section IV-A).
        vai: bool = false,
        /// VAI: the queue length that indicates a new flow, equal to the smallest bandwidth-delay product (section
        /// V-A).
        vai_threshold: Bytes = Bytes::new(50_000),
        /// VAI: the queue length that earns one token.
        vai_per_token: Bytes = Bytes::new(1_000),
        /// Sampling frequency: the number of ACKs between decreases (VAI/SF section IV-B); 0 means once per round trip.
        sampling: u32 = 0,
        /// Use probabilistic feedback (VAI/SF section III-D).
        probabilistic: bool = false,
        /// Change the window at most once per round trip (for the reconfigurable datacenter in PowerTCP's section 5).
        once_per_rtt: bool = false,
    }
    presets {
        "printed", "max_stage 5 as printed, which the PowerTCP and VAI/SF evaluations used", |p| p.max_stage = 5;
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

/// The state of one HPCC flow. Windows are in bytes, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpcc {
    window: f64,
    /// The reference window, Wc in the paper.
    reference: f64,
    /// The smoothed utilisation U.
    utilisation: f64,
    stage: u32,
    round: RoundTrip,
    sampling_counter: Sampling,
    vai: VariableAi,
    /// The hop records of the last ACK, L in the paper.
    last_hops: LastHops,

    horizon: f64,
    target: f64,
    increase: f64,
    min_window: f64,
    max_window: f64,
    mtu: f64,
    vai_params: VariableAiParams,
    vai_threshold: f64,
    max_stage: u32,
    sampling: u32,
    uses_vai: bool,
    probabilistic: bool,
    paced: bool,
    once_per_rtt: bool,
}

impl LawDefinition for Hpcc {
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
        let initial = match params.initial_window.q24() {
            0 => max_window,
            q24 => clamp(q24 as f64 / 16_777_216.0 * bytes(path.mtu), min_window, max_window),
        };
        Self {
            window: initial,
            reference: initial,
            utilisation: 1.0,
            stage: 0,
            round: RoundTrip::default(),
            sampling_counter: Sampling::default(),
            vai: VariableAi::default(),
            last_hops: LastHops::default(),
            horizon,
            target: params.target_utilisation,
            increase: bytes_per_ns(params.additive_increase) * horizon,
            min_window,
            max_window,
            mtu: bytes(path.mtu),
            vai_params: VariableAiParams::published(bytes(params.vai_per_token)),
            vai_threshold: bytes(params.vai_threshold),
            max_stage: params.max_stage,
            sampling: params.sampling,
            uses_vai: params.vai,
            probabilistic: params.probabilistic,
            paced: params.paced,
            once_per_rtt: params.once_per_rtt,
        }
    }
}

impl Law for Hpcc {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let round_ended = self.round.ends_with(ack.acked_seq, ack.next_seq);
        let Some(sample) = self.measure_in_flight(ack) else { return };
        self.utilisation =
            time_weighted_average(self.utilisation, sample.utilisation, sample.elapsed, self.horizon);
        let should_decrease = self.utilisation >= self.target;
        if self.uses_vai {
            self.vai.observe(sample.queue, should_decrease);
            if round_ended {
                self.vai.end_round(self.vai_threshold, 0.0, &self.vai_params);
            }
        }
        // SF: a decrease may update the reference every `sampling` ACKs, but an increase only once per round trip.
        let sampling_due = self.sampling_counter.on_ack(self.sampling);
        let updates_reference = if should_decrease && self.sampling > 0 { sampling_due } else { round_ended };
        if should_decrease && updates_reference && self.ignores_decrease(ack.random) {
            // The law draws a random number once per decrease, not once per ACK.
            self.sampling_counter.reset();
            return;
        }
        if self.once_per_rtt && !round_ended {
            return;
        }
        let tokens = if self.uses_vai { self.vai.spend(updates_reference, &self.vai_params) } else { 1.0 };
        let increase = self.increase * tokens;
        let is_multiplicative = should_decrease || self.stage >= self.max_stage;
        let window = if is_multiplicative {
            self.reference / (self.utilisation / self.target) + increase
        } else {
            self.reference + increase
        };
        self.window = clamp(window, self.min_window, self.max_window);
        if updates_reference {
            self.stage = if is_multiplicative { 0 } else { self.stage + 1 };
            self.reference = self.window;
            self.sampling_counter.reset();
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    /// Returns whether U is at least η and the flow gets at most three quarters of its line rate.
    ///
    /// The second condition excludes a flow that fills a path alone: U stays at η, but another path would be no better.
    /// Each of two flows gets half of the line rate.
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

/// The path state reported by one ACK.
struct PathSample {
    /// The largest utilisation at any hop.
    utilisation: f64,
    /// That hop's measurement interval in ns.
    elapsed: f64,
    /// The longest queue at any hop, in bytes.
    queue: f64,
}

impl Hpcc {
    /// Implements `MeasureInflight` from Alg. 1.
    ///
    /// Returns `None` for the first ACK, for a new path, or if no hop has a newer timestamp.
    fn measure_in_flight(&mut self, ack: &Ack<'_>) -> Option<PathSample> {
        let mut worst: Option<PathSample> = None;
        let mut longest_queue: f64 = 0.0;
        for hop in self.last_hops.deltas(ack.hops) {
            // Taking the minimum of two queue lengths filters out single-packet spikes.
            let queue = hop.queue.min(hop.old_queue);
            let utilisation = queue / (hop.rate * self.horizon) + hop.sent / hop.elapsed / hop.rate;
            longest_queue = longest_queue.max(hop.queue);
            if worst.as_ref().is_none_or(|sample| utilisation > sample.utilisation) {
                worst = Some(PathSample { utilisation, elapsed: hop.elapsed, queue: 0.0 });
            }
        }
        self.last_hops.store(ack.hops);
        worst.map(|sample| PathSample { queue: longest_queue, ..sample })
    }

    fn ignores_decrease(&self, random: u32) -> bool {
        self.probabilistic && probabilistic::ignores_decrease(self.reference, self.max_window, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{CounterWrap, HopPath, HopRecord};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(100), base_rtt: Nanos::from_micros(13) };

    /// Feeds the law an ACK whose hop has sent `sent` bytes and holds `queue` bytes at `us` microseconds.
    fn feed(hpcc: &mut Hpcc, us: u64, sent: u64, queue: u64, acked_seq: u64) {
        let hop = HopRecord {
            timestamp: Nanos::from_micros(us),
            sent: Bytes::new(sent),
            queue: Bytes::new(queue),
            rate: BitRate::from_gbps(100),
        };
        let hops = HopPath { records: &[hop], wrap: CounterWrap::NEVER };
        hpcc.on_ack(&Ack { hops, acked_seq, next_seq: acked_seq + 10_000, packets: 1, ..Ack::EMPTY });
    }

    #[test]
    fn a_full_link_and_a_queue_of_one_bdp_halve_the_window() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        // The bandwidth-delay product of 13 us at 100 Gbps.
        assert_eq!(hpcc.window, 162_500.0);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        // u = 1 + 1 = 2 over a whole T, so W = Wc · 0.95/2 + W_AI.
        assert_eq!(hpcc.window, 162_500.0 * 0.475 + 81.25);
        assert_eq!(hpcc.reference, 162_500.0, "the reference changes at the end of the round trip");
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        assert_eq!(hpcc.reference, hpcc.window);
    }

    #[test]
    fn acks_of_one_round_do_not_compound() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        for i in 1..10 {
            feed(&mut hpcc, 13 * i, 162_500 * i, 162_500, 1);
        }
        assert_eq!(hpcc.window, 162_500.0 * 0.475 + 81.25);
    }

    #[test]
    fn max_stage_5_gives_five_additive_rounds_before_a_multiplicative_one() {
        let params = HpccParams { max_stage: 5, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        (hpcc.window, hpcc.reference) = (50_000.0, 50_000.0);
        // The link is half utilised and has no queue, so U = 0.5.
        let mut windows = std::vec::Vec::new();
        for i in 0..8u64 {
            feed(&mut hpcc, 13 * i, 81_250 * i, 0, 20_000 * i);
            windows.push(hpcc.window);
        }
        // Five rounds are additive; the sixth divides by U/η.
        assert!(windows[1..=5].iter().all(|window| *window < 50_500.0), "{windows:?}");
        assert!(windows[6] > 90_000.0, "{windows:?}");
    }

    #[test]
    fn a_new_path_is_not_compared_with_the_old_one() {
        let mut hpcc = Hpcc::new(&HpccParams::default(), &PATH);
        feed(&mut hpcc, 0, 0, 0, 0);
        let two_hops = [HopRecord { timestamp: Nanos::from_micros(13), ..HopRecord::default() }; 2];
        let before = hpcc.window;
        hpcc.on_ack(&Ack { hops: HopPath { records: &two_hops, wrap: CounterWrap::NEVER }, ..Ack::EMPTY });
        assert_eq!(hpcc.window, before);
    }

    #[test]
    fn sampling_updates_the_reference_within_a_round_trip() {
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
        // Two rounds with a queue of 162.5 kB earn 162 tokens and raise the dampener to 3.25.
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        let spent = 100.0 / (3.25 / 8.0 + 1.0);
        let expected = 162_500.0 * 0.475 + 81.25 * spent;
        assert!((hpcc.window - expected).abs() < 1e-6, "{} {expected}", hpcc.window);
    }

    #[test]
    fn once_per_rtt_limits_updates_to_one_per_round_trip() {
        let params = HpccParams { once_per_rtt: true, ..HpccParams::default() };
        let mut hpcc = Hpcc::new(&params, &PATH);
        feed(&mut hpcc, 0, 0, 162_500, 0);
        feed(&mut hpcc, 13, 162_500, 162_500, 1);
        assert_eq!(hpcc.window, 162_500.0);
        feed(&mut hpcc, 26, 325_000, 162_500, 20_000);
        assert!(hpcc.window < 90_000.0);
    }
}
