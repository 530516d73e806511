//! Theorem 1: Poseidon converges to network-wide max-min fairness.
//!
//! The tests run the law in a fluid network model and compare the rates with exact max-min shares. Other laws do not
//! reach these shares in the same model.

use poseidon_laws::LawDefinition;
use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Target, Update};
use poseidon_laws::laws::swift::{Swift, SwiftParams};
use poseidon_testkit::{
    Bottleneck, Flow, FluidLoop, Network, Rational, Share, SplitMix64, max_min, random_network,
};
use poseidon_types::{BitRate, Bytes, Packets};

const MTU: Bytes = Bytes::new(1_000);
const STEP_NS: f64 = 500.0;

/// Returns Poseidon's parameters for fabrics with links of up to 400 Gbps.
fn poseidon() -> PoseidonParams {
    PoseidonParams {
        max_rate: BitRate::from_gbps(400),
        max_window: Packets::whole(32_768),
        ..PoseidonParams::default()
    }
}

/// Returns the target of Eq. 3 for these parameters, in ns.
fn target_ns(mbps: f64) -> f64 {
    let (max, min) = (400_000.0f64, 20.0f64);
    40_000.0 * (max / mbps.clamp(min, max)).ln() / (max / min).ln() + 2_000.0
}

/// The max-min shares, and the rates and delays averaged over 5 ms after convergence.
struct Outcome {
    shares: Vec<Share>,
    rates_mbps: Vec<f64>,
    delays_ns: Vec<f64>,
}

impl Outcome {
    fn run<L: LawDefinition>(network: &Network, settle_ms: f64, params: impl Fn() -> L::Params) -> Self {
        Self::run_with_mtu::<L>(MTU, network, settle_ms, params)
    }

    fn run_with_mtu<L: LawDefinition>(
        mtu: Bytes,
        network: &Network,
        settle_ms: f64,
        params: impl Fn() -> L::Params,
    ) -> Self {
        let params = params();
        let mut net = FluidLoop::new(network, mtu, |_, path| L::new(&params, path));
        net.run(settle_ms * 1e6, STEP_NS);
        let average = net.run(5e6, STEP_NS);
        Self { shares: max_min(network), rates_mbps: average.rates_mbps, delays_ns: average.delays_ns }
    }

    /// Returns the largest relative error of any flow's rate.
    fn max_rate_error(&self) -> f64 {
        let errors = self.shares.iter().zip(&self.rates_mbps).map(|(share, rate)| rate / share.mbps() - 1.0);
        errors.map(f64::abs).fold(0.0, f64::max)
    }

    /// Returns the largest relative error of any bottleneck's delay, compared with T(fair share).
    ///
    /// If a flow's cap equals its share of the link, the link is full without a queue, and its delay is undefined.
    fn max_delay_error(&self, network: &Network) -> f64 {
        let bottlenecks =
            self.shares.iter().zip(&network.flows).filter_map(|(share, flow)| match share.bottleneck {
                Bottleneck::Link(_) if flow.cap_mbps.map(Rational::whole) == Some(share.rate_mbps) => None,
                Bottleneck::Link(link) => Some((link, share.mbps())),
                Bottleneck::FlowCap => None,
            });
        bottlenecks
            .map(|(link, mbps)| (self.delays_ns[link] / target_ns(mbps) - 1.0).abs())
            .fold(0.0, f64::max)
    }
}

#[test]
fn poseidon_converges_to_the_max_min_shares_of_300_random_networks() {
    let (mut worst_rate, mut worst_delay) = (0.0f64, 0.0f64);
    for seed in 0..300 {
        let network = random_network(&mut SplitMix64::new(seed), 10, 30);
        let outcome = Outcome::run::<Poseidon>(&network, 25.0, poseidon);
        let (rate, delay) = (outcome.max_rate_error(), outcome.max_delay_error(&network));
        assert!(rate < 0.02, "seed {seed}: the rate error is {rate:.3}\n{network:?}");
        assert!(delay < 0.05, "seed {seed}: the delay error is {delay:.3}\n{network:?}");
        (worst_rate, worst_delay) = (worst_rate.max(rate), worst_delay.max(delay));
    }
    println!("300 networks: worst rate error {worst_rate:.4}, worst delay error {worst_delay:.4}");
}

#[test]
fn the_delay_of_one_hop_equals_the_target() {
    for (flows, us) in [(2, 5.01), (10, 12.00), (100, 22.00)] {
        let network = Network {
            capacities_mbps: vec![200_000],
            flows: vec![Flow { base_rtt_ns: 9_900, ..Flow::through([0]) }; flows],
        };
        let params = || PoseidonParams { max_rate: BitRate::from_gbps(200), ..poseidon() };
        let outcome = Outcome::run::<Poseidon>(&network, 25.0, params);
        let delay = outcome.delays_ns[0] / 1_000.0;
        println!("{flows} flows on 200 Gbps: {delay:.2} us, T {us:.2} us");
        assert!((delay / us - 1.0).abs() < 0.01, "{flows} flows: {delay} us");
        assert!(outcome.max_rate_error() < 0.02);
    }
}

/// A small version of Poseidon's Fig. 14a: a victim flow crosses two congested links with M and N other flows.
fn two_hops(m: usize, n: usize) -> Network {
    let flow = |path: &[usize]| Flow { base_rtt_ns: 9_900, ..Flow::through(path) };
    let mut flows = vec![flow(&[0, 1])];
    flows.extend(vec![flow(&[0]); m]);
    flows.extend(vec![flow(&[1]); n]);
    Network { capacities_mbps: vec![200_000, 200_000], flows }
}

#[test]
fn swift_and_a_fixed_target_miss_the_fair_share_of_a_two_hop_flow() {
    let fixed = || PoseidonParams { target: Target::Fixed, ..poseidon() };
    for (m, n) in [(2, 2), (9, 9), (2, 9)] {
        let network = two_hops(m, n);
        let victim = |outcome: &Outcome| outcome.rates_mbps[0] / outcome.shares[0].mbps();
        let poseidon_ratio = victim(&Outcome::run::<Poseidon>(&network, 25.0, poseidon));
        let swift_ratio = victim(&Outcome::run::<Swift>(&network, 100.0, SwiftParams::default));
        let fixed_ratio = victim(&Outcome::run::<Poseidon>(&network, 100.0, fixed));
        println!(
            "({m}, {n}): rate over fair share: poseidon {poseidon_ratio:.3}, \
             swift {swift_ratio:.3}, fixed {fixed_ratio:.3}"
        );
        assert!((poseidon_ratio - 1.0).abs() < 0.02, "({m}, {n}): {poseidon_ratio}");
        assert!(swift_ratio < 0.5, "({m}, {n}): {swift_ratio}");
        assert!((fixed_ratio - 1.0).abs() > 0.1, "({m}, {n}): {fixed_ratio}");
    }
}

#[test]
fn swift_and_a_fixed_target_miss_the_shares_of_most_random_networks() {
    let fixed = || PoseidonParams { target: Target::Fixed, ..poseidon() };
    let swift = || SwiftParams { max_window: Packets::whole(32_768), ..SwiftParams::default() };
    let (mut missed_fixed, mut missed_swift) = (0, 0);
    for seed in 0..40 {
        let network = random_network(&mut SplitMix64::new(seed), 10, 30);
        missed_fixed += u32::from(Outcome::run::<Poseidon>(&network, 25.0, fixed).max_rate_error() > 0.1);
        missed_swift += u32::from(Outcome::run::<Swift>(&network, 25.0, swift).max_rate_error() > 0.1);
    }
    println!("of 40 networks, errors above 10 %: fixed target {missed_fixed}, swift {missed_swift}");
    assert!(missed_fixed >= 30, "{missed_fixed}");
    assert!(missed_swift >= 30, "{missed_swift}");
}

#[test]
fn a_long_base_rtt_does_not_lower_the_share() {
    // Flows with base RTTs of 4 and 40 us share a link. Poseidon controls rates, not windows.
    let network = Network {
        capacities_mbps: vec![100_000],
        flows: vec![
            Flow { base_rtt_ns: 4_000, ..Flow::through([0]) },
            Flow { base_rtt_ns: 40_000, ..Flow::through([0]) },
        ],
    };
    let outcome = Outcome::run::<Poseidon>(&network, 25.0, poseidon);
    assert!(outcome.max_rate_error() < 0.02, "{:?}", outcome.rates_mbps);
}

/// A packet size at which most flows send less than one packet per round trip.
const LARGE_MTU: Bytes = Bytes::new(30_000);

fn steady() -> PoseidonParams {
    PoseidonParams { update: Update::Steady, ..poseidon() }
}

#[test]
fn the_steady_update_converges_to_the_max_min_shares() {
    for seed in 0..60 {
        let network = random_network(&mut SplitMix64::new(seed), 10, 30);
        let outcome = Outcome::run::<Poseidon>(&network, 25.0, steady);
        let (rate, delay) = (outcome.max_rate_error(), outcome.max_delay_error(&network));
        assert!(rate < 0.02, "seed {seed}: the rate error is {rate:.3}\n{network:?}");
        assert!(delay < 0.05, "seed {seed}: the delay error is {delay:.3}\n{network:?}");
    }
}

/// Convergence takes longer because each ACK changes the rate less when the gap is longer.
#[test]
fn the_steady_update_converges_to_the_max_min_shares_below_one_packet() {
    let (mut worst_rate, mut worst_delay) = (0.0f64, 0.0f64);
    for seed in 0..20 {
        let network = random_network(&mut SplitMix64::new(seed), 10, 30);
        let outcome = Outcome::run_with_mtu::<Poseidon>(LARGE_MTU, &network, 250.0, steady);
        let (rate, delay) = (outcome.max_rate_error(), outcome.max_delay_error(&network));
        assert!(rate < 0.02, "seed {seed}: the rate error is {rate:.3}\n{network:?}");
        assert!(delay < 0.05, "seed {seed}: the delay error is {delay:.3}\n{network:?}");
        (worst_rate, worst_delay) = (worst_rate.max(rate), worst_delay.max(delay));
    }
    println!("20 networks: worst rate error {worst_rate:.4}, worst delay error {worst_delay:.4}");
}
