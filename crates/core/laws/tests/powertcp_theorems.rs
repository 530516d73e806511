//! Tests PowerTCP's Theorems 1 to 3 by running the law in a fluid network model.
//!
//! The theorems' differential equations are in `poseidon_models::powertcp_fluid`.

use poseidon_laws::laws::powertcp::{PowerTcp, PowerTcpParams};
use poseidon_laws::laws::theta_powertcp::{ThetaPowerTcp, ThetaPowerTcpParams};
use poseidon_laws::{LawDefinition, Path};
use poseidon_testkit::{Flow, FluidLoop, Network};
use poseidon_types::{BitRate, Bytes};

const TAU_NS: u64 = 20_000;
/// The bandwidth-delay product of 100 Gbps and 20 us.
const BDP_BYTES: f64 = 250_000.0;

fn single_link(flows: usize) -> Network {
    Network {
        capacities_mbps: vec![100_000],
        flows: vec![Flow { base_rtt_ns: TAU_NS, ..Flow::through([0]) }; flows],
    }
}

/// Creates a network with one flow per additive increase (β as a rate).
fn network_with_increases(increases_mbps: &[u64]) -> FluidLoop<PowerTcp> {
    let params: Vec<_> = (increases_mbps.iter())
        .map(|&mbps| PowerTcpParams {
            additive_increase: BitRate::from_mbps(mbps),
            ..PowerTcpParams::default()
        })
        .collect();
    let make = |id: usize, path: &Path| PowerTcp::new(&params[id], path);
    FluidLoop::new(&single_link(increases_mbps.len()), Bytes::new(1_000), make)
}

/// Returns β in bytes.
fn beta(mbps: u64) -> f64 {
    mbps as f64 * 1e6 * TAU_NS as f64 / 8e9
}

#[test]
fn theorem_1_windows_sum_to_the_bdp_plus_beta_and_the_queue_is_beta() {
    for increases in [&[500, 500][..], &[200; 10]] {
        let mut net = network_with_increases(increases);
        net.run(40e6, 200.0);
        let expected: f64 = increases.iter().map(|&mbps| beta(mbps)).sum();
        let windows: f64 = (0..increases.len()).map(|flow| net.window_bytes(flow)).sum();
        let queue = net.queue_bytes(0);
        println!(
            "{} flows: window {windows:.0} (theorem {:.0}), queue {queue:.0} (theorem {expected:.0})",
            increases.len(),
            BDP_BYTES + expected
        );
        assert!((windows / (BDP_BYTES + expected) - 1.0).abs() < 0.005, "{windows}");
        assert!((queue / expected - 1.0).abs() < 0.1, "{queue}");
    }
}

/// The theorem's differential equation decays by 99.3 % in 5 δt/γ; `poseidon_models` tests the equation itself. The law
/// also smooths power over τ (Alg. 1 line 24), which the theorem omits, so it converges more slowly.
#[test]
fn theorem_2_the_law_converges_slightly_slower_than_the_equation() {
    let mut net = network_with_increases(&[500, 500]);
    let expected = BDP_BYTES + 2.0 * beta(500);
    let unit = TAU_NS as f64 / 0.9;
    // Each flow starts with one bandwidth-delay product, so the total is about twice the expected value.
    let error =
        |net: &FluidLoop<PowerTcp>| (net.window_bytes(0) + net.window_bytes(1) - expected).abs() / expected;
    let (steps, mut last_outside) = (1_000, 0);
    for step in 1..=steps {
        net.run(unit / 100.0, unit / 1_000.0);
        if error(&net) > 0.007 {
            last_outside = step;
        }
    }
    let convergence_time = f64::from(last_outside) / 100.0;
    println!("the error stays below 0.7 % after {convergence_time:.2} τ/γ");
    assert!((5.0..6.5).contains(&convergence_time), "{convergence_time}");
}

#[test]
fn theorem_3_shares_are_proportional_to_beta() {
    let increases = [200, 400, 800];
    let mut net = network_with_increases(&increases);
    net.run(40e6, 200.0);
    let sum: f64 = increases.iter().map(|&mbps| beta(mbps)).sum();
    for (flow, &mbps) in increases.iter().enumerate() {
        let expected = (sum + BDP_BYTES) / sum * beta(mbps);
        let window = net.window_bytes(flow);
        println!("β of {mbps} Mbps: window {window:.0}, theorem {expected:.0}");
        assert!((window / expected - 1.0).abs() < 0.01, "{window} {expected}");
    }
}

#[test]
fn theta_powertcp_has_the_same_equilibrium_on_one_bottleneck() {
    let params =
        ThetaPowerTcpParams { additive_increase: BitRate::from_mbps(500), ..ThetaPowerTcpParams::default() };
    let make = |_: usize, path: &Path| ThetaPowerTcp::new(&params, path);
    let mut net = FluidLoop::new(&single_link(2), Bytes::new(1_000), make);
    net.run(40e6, 200.0);
    let windows = net.window_bytes(0) + net.window_bytes(1);
    let expected = BDP_BYTES + 2.0 * beta(500);
    println!("θ: window {windows:.0}, theorem {expected:.0}");
    assert!((windows / expected - 1.0).abs() < 0.01, "{windows}");
}
