//! PowerTCP's Theorems 1 to 3 on the real law, in a fluid loop. The theorems' own differential equations are in
//! `poseidon_models::powertcp_fluid`; here the law runs as a host would run it.

use poseidon_laws::laws::powertcp::{PowerTcp, PowerTcpParams};
use poseidon_laws::laws::theta_powertcp::{ThetaPowerTcp, ThetaPowerTcpParams};
use poseidon_laws::{Law, Path};
use poseidon_testkit::{Flow, FluidLoop, Network};
use poseidon_types::{BitRate, Bytes};

const TAU_NS: u64 = 20_000;
/// 100 Gbps over 20 us.
const PIPE_BYTES: f64 = 250_000.0;

fn one_link(flows: usize) -> Network {
    Network {
        capacities_mbps: vec![100_000],
        flows: vec![Flow { base_rtt_ns: TAU_NS, ..Flow::through([0]) }; flows],
    }
}

/// β of each flow in bytes, by its rate.
fn loop_of(increases_mbps: &[u64]) -> FluidLoop<PowerTcp> {
    let params: Vec<_> = (increases_mbps.iter())
        .map(|&mbps| PowerTcpParams {
            additive_increase: BitRate::from_mbps(mbps),
            ..PowerTcpParams::default()
        })
        .collect();
    let make = |id: usize, path: &Path| PowerTcp::new(&params[id], path);
    FluidLoop::new(&one_link(increases_mbps.len()), Bytes::new(1_000), make)
}

/// β in bytes.
fn beta(mbps: u64) -> f64 {
    mbps as f64 * 1e6 * TAU_NS as f64 / 8e9
}

#[test]
fn theorem_1_windows_fill_the_pipe_plus_beta_and_beta_waits_in_the_queue() {
    for increases in [&[500, 500][..], &[200; 10]] {
        let mut net = loop_of(increases);
        net.run(40e6, 200.0);
        let expected: f64 = increases.iter().map(|&mbps| beta(mbps)).sum();
        let windows: f64 = (0..increases.len()).map(|flow| net.window_bytes(flow)).sum();
        let queue = net.queue_bytes(0);
        println!(
            "{} flows: window {windows:.0} (theorem {:.0}), queue {queue:.0} (theorem {expected:.0})",
            increases.len(),
            PIPE_BYTES + expected
        );
        assert!((windows / (PIPE_BYTES + expected) - 1.0).abs() < 0.005, "{windows}");
        assert!((queue / expected - 1.0).abs() < 0.1, "{queue}");
    }
}

/// The theorem's differential equation decays by 99.3 % in 5 δt/γ (tested on the equation itself in testkit). The law
/// also smooths power over τ (Alg. 1 line 24), which the theorem leaves out, so it needs a little longer.
#[test]
fn theorem_2_the_law_needs_a_little_longer_than_the_equation() {
    let mut net = loop_of(&[500, 500]);
    let expected = PIPE_BYTES + 2.0 * beta(500);
    let unit = TAU_NS as f64 / 0.9;
    // Both flows start with a whole pipe each: twice too much.
    let error =
        |net: &FluidLoop<PowerTcp>| (net.window_bytes(0) + net.window_bytes(1) - expected).abs() / expected;
    let (steps, mut within_since) = (1_000, 0);
    for step in 1..=steps {
        net.run(unit / 100.0, unit / 1_000.0);
        if error(&net) > 0.007 {
            within_since = step;
        }
    }
    let needed = f64::from(within_since) / 100.0;
    println!("99.3 % of the error is gone for good after {needed:.2} τ/γ");
    assert!((5.0..6.5).contains(&needed), "{needed}");
}

#[test]
fn theorem_3_shares_are_proportional_to_beta() {
    let increases = [200, 400, 800];
    let mut net = loop_of(&increases);
    net.run(40e6, 200.0);
    let sum: f64 = increases.iter().map(|&mbps| beta(mbps)).sum();
    for (flow, &mbps) in increases.iter().enumerate() {
        let expected = (sum + PIPE_BYTES) / sum * beta(mbps);
        let window = net.window_bytes(flow);
        println!("β of {mbps} Mbps: window {window:.0}, theorem {expected:.0}");
        assert!((window / expected - 1.0).abs() < 0.01, "{window} {expected}");
    }
}

#[test]
fn theta_powertcp_ends_at_the_same_point_on_one_bottleneck() {
    let params =
        ThetaPowerTcpParams { additive_increase: BitRate::from_mbps(500), ..ThetaPowerTcpParams::default() };
    let make = |_: usize, path: &Path| ThetaPowerTcp::new(&params, path);
    let mut net = FluidLoop::new(&one_link(2), Bytes::new(1_000), make);
    net.run(40e6, 200.0);
    let windows = net.window_bytes(0) + net.window_bytes(1);
    let expected = PIPE_BYTES + 2.0 * beta(500);
    println!("θ: window {windows:.0}, theorem {expected:.0}");
    assert!((windows / expected - 1.0).abs() < 0.01, "{windows}");
}
