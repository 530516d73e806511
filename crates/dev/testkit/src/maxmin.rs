//! Exact max-min fair rates by progressive filling.
//!
//! Model   Raise all rates together. When a link is full, its flows stop and the others continue.
//!         level(link) = (capacity - rates of stopped flows) / number of rising flows
//! Why     An allocation is max-min fair if and only if every flow has a bottleneck: a full link on which no other flow
//!         is faster. The tests check this property.
//! Source  Bertsekas, Gallager: Data Networks, 2nd ed., section 6.5.2
//! Limits  Rates are 128-bit fractions. A rate's denominator divides the product of the flow counts on all links that
//!         filled earlier, so capacity times this product must stay below 2^128. Otherwise the function panics; it
//!         never rounds. Random networks of 32 links and 500 flows need at most 90 bits. With 64 links and 1000 flows,
//!         one network in 20 panics.

use crate::network::Network;
use crate::rational::Rational;

/// What limits a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// A full link on which no other flow is faster.
    Link(usize),
    /// The sending host's line rate.
    FlowCap,
}

/// A flow's max-min fair rate and its bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The exact max-min fair rate in Mbps.
    pub rate_mbps: Rational,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
}

impl Share {
    /// Returns the rate in Mbps as a float.
    pub const fn mbps(&self) -> f64 {
        self.rate_mbps.to_f64()
    }
}

/// Returns every flow's max-min fair share, in flow order.
///
/// If several bottlenecks fill at the same level, the result names the link with the lowest index. Links take
/// precedence over the flow's cap.
///
/// # Panics
/// Panics if the network is invalid ([`Network::check`]) or the exact rates need more than 128 bits.
pub fn max_min(network: &Network) -> Vec<Share> {
    network.check();
    let mut shares: Vec<Option<Share>> = vec![None; network.flows.len()];
    // Each link's remaining capacity and number of rising flows.
    let mut links: Vec<(Rational, u64)> =
        network.capacities_mbps.iter().map(|&capacity| (Rational::whole(capacity), 0)).collect();
    for &link in network.flows.iter().flat_map(|flow| &flow.path) {
        links[link].1 += 1;
    }
    while let Some((level, bottleneck)) = lowest_level(network, &links, &shares) {
        for (id, flow) in network.flows.iter().enumerate() {
            let stops = match bottleneck {
                Bottleneck::Link(link) => flow.path.contains(&link),
                Bottleneck::FlowCap => flow.cap_mbps.map(Rational::whole) == Some(level),
            };
            if !stops || shares[id].is_some() {
                continue;
            }
            shares[id] = Some(Share { rate_mbps: level, bottleneck });
            for &link in &flow.path {
                let (remaining, rising) = &mut links[link];
                *remaining = remaining
                    .minus(level)
                    .expect("a level is at most an even split of the remaining capacity");
                *rising -= 1;
            }
        }
    }
    shares.into_iter().map(|share| share.expect("every flow has a link or a cap")).collect()
}

/// Returns the lowest level at which a rising flow stops, and that flow's bottleneck, or `None` if no flow is rising.
fn lowest_level(
    network: &Network,
    links: &[(Rational, u64)],
    shares: &[Option<Share>],
) -> Option<(Rational, Bottleneck)> {
    let by_link = links
        .iter()
        .enumerate()
        .filter(|(_, (_, rising))| *rising > 0)
        .map(|(link, (remaining, rising))| (remaining.split(*rising), Bottleneck::Link(link)));
    let by_cap = (network.flows.iter().zip(shares))
        .filter(|(_, share)| share.is_none())
        .filter_map(|(flow, _)| Some((Rational::whole(flow.cap_mbps?), Bottleneck::FlowCap)));
    // `min_by` returns the first of equal elements: links before caps, low indexes first.
    by_link.chain(by_cap).min_by(|(a, _), (b, _)| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Flow, random_network};
    use crate::rng::SplitMix64;

    fn rates(capacities_mbps: &[u64], flows: Vec<Flow>) -> Vec<Rational> {
        let network = Network { capacities_mbps: capacities_mbps.to_vec(), flows };
        max_min(&network).iter().map(|share| share.rate_mbps).collect()
    }

    fn whole(values: &[u64]) -> Vec<Rational> {
        values.iter().copied().map(Rational::whole).collect()
    }

    #[test]
    fn one_link_is_split_evenly() {
        assert_eq!(rates(&[100], vec![Flow::through([0]); 3]), vec![Rational::new(100, 3); 3]);
        assert_eq!(rates(&[100], vec![]), vec![]);
    }

    #[test]
    fn every_flow_in_a_parking_lot_gets_half_of_a_link() {
        // One long flow crosses three links, each with one short flow.
        let flows =
            vec![Flow::through([0, 1, 2]), Flow::through([0]), Flow::through([1]), Flow::through([2])];
        assert_eq!(rates(&[100, 100, 100], flows), whole(&[50; 4]));
    }

    #[test]
    fn capacity_left_by_a_bottleneck_goes_to_other_flows() {
        // Based on the example in Bertsekas and Gallager. All links have capacity 1. Three flows share one link. A
        // fourth flow shares another link with one of these flows and gets the remaining 2/3.
        let flows = vec![
            Flow::through([0, 1, 2]),
            Flow::through([1]),
            Flow::through([1]),
            Flow::through([2]),
            Flow::through([3]),
        ];
        assert_eq!(
            rates(&[1, 1, 1, 1], flows),
            [(1, 3), (1, 3), (1, 3), (2, 3), (1, 1)].map(|(n, d)| Rational::new(n, d))
        );
    }

    #[test]
    fn unequal_links_fill_one_after_another() {
        // Link 0 (40) fills at 10 with four flows. Link 1 (100) then has 80 for its other two flows.
        let mut flows = vec![Flow::through([0, 1]), Flow::through([1, 0])];
        flows.extend([Flow::through([0]), Flow::through([0])]);
        flows.extend([Flow::through([1]), Flow::through([1])]);
        assert_eq!(rates(&[40, 100], flows), whole(&[10, 10, 10, 10, 40, 40]));
    }

    #[test]
    fn a_capped_flow_leaves_capacity_to_others() {
        let flows = vec![Flow::through([0]).with_cap(10), Flow::through([0]), Flow::through([0])];
        assert_eq!(rates(&[100], flows), whole(&[10, 45, 45]));
        assert_eq!(rates(&[], vec![Flow::through([]).with_cap(7)]), whole(&[7]));
    }

    #[test]
    fn a_cap_above_the_fair_share_changes_nothing() {
        let network = Network {
            capacities_mbps: vec![100],
            flows: vec![Flow::through([0]).with_cap(50), Flow::through([0])],
        };
        let shares = max_min(&network);
        assert_eq!(shares[0], shares[1], "the link takes precedence over the cap");
        assert_eq!(shares[0].mbps(), 50.0);
    }

    #[test]
    fn the_busier_of_two_hops_determines_the_share() {
        // The victim flow of Poseidon's Fig. 14b gets 200 Gbps / max(M + 1, N + 1).
        for (m, n) in [(0, 2), (2, 2), (2, 9), (9, 2), (9, 9), (5, 9)] {
            let mut flows = vec![Flow::through([0, 1])];
            flows.extend(vec![Flow::through([0]); m]);
            flows.extend(vec![Flow::through([1]); n]);
            let expected = Rational::new(200_000, u128::try_from(m.max(n) + 1).unwrap());
            assert_eq!(rates(&[200_000, 200_000], flows)[0], expected, "M {m}, N {n}");
        }
    }

    /// Checks that the rates are feasible and that every flow has a bottleneck.
    fn assert_max_min(network: &Network, shares: &[Share], seed: u64) {
        let load = |link| -> Rational { network.flows_on(link).map(|f| shares[f].rate_mbps).sum() };
        for (link, &capacity) in network.capacities_mbps.iter().enumerate() {
            assert!(load(link) <= Rational::whole(capacity), "seed {seed}: link {link} overloaded");
        }
        for (id, (flow, share)) in network.flows.iter().zip(shares).enumerate() {
            let cap = flow.cap_mbps.map(Rational::whole);
            assert!(cap.is_none_or(|cap| share.rate_mbps <= cap), "seed {seed}: flow {id} above its cap");
            match share.bottleneck {
                Bottleneck::FlowCap => assert_eq!(Some(share.rate_mbps), cap, "seed {seed}: flow {id}"),
                Bottleneck::Link(link) => {
                    let full = load(link) == Rational::whole(network.capacities_mbps[link]);
                    let fastest = network.flows_on(link).all(|f| shares[f].rate_mbps <= share.rate_mbps);
                    assert!(flow.path.contains(&link) && full && fastest, "seed {seed}: flow {id}");
                }
            }
        }
    }

    #[test]
    fn every_flow_has_a_bottleneck_on_random_networks() {
        let mut link_bottlenecks = 0;
        let mut distinct_levels = 0;
        for seed in 0..3000 {
            let network = random_network(&mut SplitMix64::new(seed), 12, 60);
            let shares = max_min(&network);
            assert_max_min(&network, &shares, seed);
            link_bottlenecks += shares.iter().filter(|s| matches!(s.bottleneck, Bottleneck::Link(_))).count();
            let mut levels: Vec<Rational> = shares.iter().map(|s| s.rate_mbps).collect();
            levels.sort_unstable();
            levels.dedup();
            distinct_levels = distinct_levels.max(levels.len());
        }
        // The random networks must include enough different cases.
        assert!(link_bottlenecks > 50_000, "{link_bottlenecks}");
        assert!(distinct_levels >= 8, "{distinct_levels}");
    }

    #[test]
    fn rates_of_networks_with_32_links_and_500_flows_fit_in_128_bits() {
        let mut max_bits = 0;
        for seed in 0..60 {
            let network = random_network(&mut SplitMix64::new(seed), 32, 500);
            let shares = max_min(&network);
            assert_max_min(&network, &shares, seed);
            let bits = |share: &Share| 128 - share.rate_mbps.numerator().leading_zeros();
            max_bits = max_bits.max(shares.iter().map(bits).max().unwrap_or(0));
        }
        assert!(max_bits <= 96, "{max_bits} bits exceed the documented margin");
    }
}
