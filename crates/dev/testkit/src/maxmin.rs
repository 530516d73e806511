//! Max-min fairness, exactly: what every flow should get.
//!
//! Model   raise all rates together; when a link fills, its flows stop; go on with the others
//!         level(link) = (capacity - rates that already stopped) / flows still rising
//! Why     an allocation is max-min fair exactly when every flow has a bottleneck: a full link on which no
//!         other flow is faster. The tests check that statement, not the procedure.
//! Source  Bertsekas, Gallager: Data Networks, 2nd ed., section 6.5.2
//! Limits  128 bits: a rate's denominator divides the product of the flow counts at the links that filled
//!         up to it, so capacity times that product must stay below 2^128 (else it panics, never rounds).
//!         Random networks of 32 links and 500 flows need at most 90 bits; of 64 and 1000, one in 20 panics

use crate::network::Network;
use crate::rational::Rational;

/// What limits a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// This link is full and no flow on it is faster.
    Link(usize),
    /// The flow's own cap.
    OwnCap,
}

/// What a flow gets, and why not more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The max-min fair rate, in Mbps, exactly.
    pub rate_mbps: Rational,
    /// What holds it there.
    pub bottleneck: Bottleneck,
}

impl Share {
    /// The rate in Mbps as a float.
    pub const fn mbps(&self) -> f64 {
        self.rate_mbps.to_f64()
    }
}

/// The max-min fair share of every flow, in the order of the flows.
///
/// Of several bottlenecks that fill at the same level, the link of the lowest index is named, and a link
/// before the flow's own cap.
///
/// # Panics
/// If the network is unsound ([`Network::check`]), or the exact rates need more than 128 bits.
pub fn max_min(network: &Network) -> Vec<Share> {
    network.check();
    let mut shares: Vec<Option<Share>> = vec![None; network.flows.len()];
    // What each link has left after the flows that stopped, and how many of its flows still rise.
    let mut links: Vec<(Rational, u64)> =
        network.capacities_mbps.iter().map(|&capacity| (Rational::whole(capacity), 0)).collect();
    for &link in network.flows.iter().flat_map(|flow| &flow.path) {
        links[link].1 += 1;
    }
    while let Some((level, bottleneck)) = lowest_level(network, &links, &shares) {
        for (id, flow) in network.flows.iter().enumerate() {
            let stops = match bottleneck {
                Bottleneck::Link(link) => flow.path.contains(&link),
                Bottleneck::OwnCap => flow.cap_mbps.map(Rational::whole) == Some(level),
            };
            if !stops || shares[id].is_some() {
                continue;
            }
            shares[id] = Some(Share { rate_mbps: level, bottleneck });
            for &link in &flow.path {
                let (left, rising) = &mut links[link];
                *left = left.minus(level).expect("no level exceeds an even split of what the link has left");
                *rising -= 1;
            }
        }
    }
    shares
        .into_iter()
        .map(|share| share.expect("every flow crosses a link or has a cap, so it stops"))
        .collect()
}

/// The first level at which a rising flow must stop, and what stops it; `None` when none rises.
fn lowest_level(
    network: &Network,
    links: &[(Rational, u64)],
    shares: &[Option<Share>],
) -> Option<(Rational, Bottleneck)> {
    let by_link = links
        .iter()
        .enumerate()
        .filter(|(_, (_, rising))| *rising > 0)
        .map(|(link, (left, rising))| (left.split(*rising), Bottleneck::Link(link)));
    let by_cap = (network.flows.iter().zip(shares))
        .filter(|(_, share)| share.is_none())
        .filter_map(|(flow, _)| Some((Rational::whole(flow.cap_mbps?), Bottleneck::OwnCap)));
    // `min_by` keeps the first of equals: links before caps, low indexes first.
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
    fn a_parking_lot_gives_every_flow_half() {
        // One long flow over three links, one short flow on each.
        let flows =
            vec![Flow::through([0, 1, 2]), Flow::through([0]), Flow::through([1]), Flow::through([2])];
        assert_eq!(rates(&[100, 100, 100], flows), whole(&[50; 4]));
    }

    #[test]
    fn what_one_bottleneck_leaves_goes_to_the_others() {
        // After the example of Bertsekas and Gallager: all links 1; three flows share one link, so a fourth, which
        // shares its other link with one of them, takes the remaining 2/3.
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
        // Link 0 (40) fills at 10 with four flows; link 1 (100) then has 80 for its other two.
        let mut flows = vec![Flow::through([0, 1]), Flow::through([1, 0])];
        flows.extend([Flow::through([0]), Flow::through([0])]);
        flows.extend([Flow::through([1]), Flow::through([1])]);
        assert_eq!(rates(&[40, 100], flows), whole(&[10, 10, 10, 10, 40, 40]));
    }

    #[test]
    fn a_capped_flow_leaves_its_rest() {
        let flows = vec![Flow::through([0]).capped(10), Flow::through([0]), Flow::through([0])];
        assert_eq!(rates(&[100], flows), whole(&[10, 45, 45]));
        assert_eq!(rates(&[], vec![Flow::through([]).capped(7)]), whole(&[7]));
    }

    #[test]
    fn a_cap_above_the_fair_share_changes_nothing() {
        let network = Network {
            capacities_mbps: vec![100],
            flows: vec![Flow::through([0]).capped(50), Flow::through([0])],
        };
        let shares = max_min(&network);
        assert_eq!(shares[0], shares[1], "the link is named before the cap");
        assert_eq!(shares[0].mbps(), 50.0);
    }

    #[test]
    fn two_congested_hops_share_by_the_busier_one() {
        // The victim of Poseidon's fig. 14b: 200 Gbps / max(M + 1, N + 1).
        for (m, n) in [(0, 2), (2, 2), (2, 9), (9, 2), (9, 9), (5, 9)] {
            let mut flows = vec![Flow::through([0, 1])];
            flows.extend(vec![Flow::through([0]); m]);
            flows.extend(vec![Flow::through([1]); n]);
            let expected = Rational::new(200_000, u128::try_from(m.max(n) + 1).unwrap());
            assert_eq!(rates(&[200_000, 200_000], flows)[0], expected, "M {m}, N {n}");
        }
    }

    /// Feasible, and every flow held by a full link on which it is among the fastest, or by its cap.
    fn assert_max_min(network: &Network, shares: &[Share], seed: u64) {
        let load = |link| -> Rational { network.flows_on(link).map(|f| shares[f].rate_mbps).sum() };
        for (link, &capacity) in network.capacities_mbps.iter().enumerate() {
            assert!(load(link) <= Rational::whole(capacity), "seed {seed}: link {link} overloaded");
        }
        for (id, (flow, share)) in network.flows.iter().zip(shares).enumerate() {
            let cap = flow.cap_mbps.map(Rational::whole);
            assert!(cap.is_none_or(|cap| share.rate_mbps <= cap), "seed {seed}: flow {id} above its cap");
            match share.bottleneck {
                Bottleneck::OwnCap => assert_eq!(Some(share.rate_mbps), cap, "seed {seed}: flow {id}"),
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
        let mut links_named = 0;
        let mut distinct_levels = 0;
        for seed in 0..3000 {
            let network = random_network(&mut SplitMix64::new(seed), 12, 60);
            let shares = max_min(&network);
            assert_max_min(&network, &shares, seed);
            links_named += shares.iter().filter(|s| matches!(s.bottleneck, Bottleneck::Link(_))).count();
            let mut levels: Vec<Rational> = shares.iter().map(|s| s.rate_mbps).collect();
            levels.sort_unstable();
            levels.dedup();
            distinct_levels = distinct_levels.max(levels.len());
        }
        // The generator must reach the interesting cases, or the property says little.
        assert!(links_named > 50_000, "{links_named}");
        assert!(distinct_levels >= 8, "{distinct_levels}");
    }

    #[test]
    fn random_networks_of_32_links_and_500_flows_fit_128_bits() {
        let mut widest = 0;
        for seed in 0..60 {
            let network = random_network(&mut SplitMix64::new(seed), 32, 500);
            let shares = max_min(&network);
            assert_max_min(&network, &shares, seed);
            let bits = |share: &Share| 128 - share.rate_mbps.numerator().leading_zeros();
            widest = widest.max(shares.iter().map(bits).max().unwrap_or(0));
        }
        assert!(widest <= 96, "{widest} bits: the margin the docs promise is gone");
    }
}
