//! Computes the max-min fair rates of flows in a network, without simulating packets.
//!
//! Model   progressive filling: raise all rates together; when a link is full, freeze the rates of its flows; continue
//!         level(link) = (capacity - frozen rates) / flows that are still rising
//! Why     an allocation is max-min fair if and only if every flow has a bottleneck: a full link on which no other flow
//!         is faster, or its rate limit. The tests check this property, not the procedure.
//! Cost    one heap operation per flow and crossed link: 10^5 flows over 10^4 links take well under a second
//! Source  Bertsekas, Gallager: Data Networks, 2nd ed., section 6.5.2
//! Limits  floating point: the rate error is at most 2^-53 of the link capacity times the number of flows on the link

use core::cmp::Reverse;
use poseidon_types::BitRate;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A flow that always has data to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The indices of the links on the flow's path. Each link may appear only once.
    pub links: Vec<usize>,
    /// The rate limit of the application or host, if any.
    pub limit: Option<BitRate>,
}

impl Flow {
    /// Creates a flow over `links` without a rate limit.
    pub fn over(links: impl Into<Vec<usize>>) -> Self {
        Self { links: links.into(), limit: None }
    }

    /// Sets the rate limit.
    #[must_use]
    pub fn with_limit(self, limit: BitRate) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

/// Returns the max-min fair rate of each flow in bits per second, in the same order as `flows`. `links` lists the link
/// capacities. A flow with neither links nor a limit has an infinite rate.
///
/// # Panics
/// Panics if a flow crosses a link that does not exist, or crosses a link twice.
pub fn max_min(links: &[BitRate], flows: &[Flow]) -> Vec<f64> {
    let mut filling = Filling::new(links, flows);
    let mut limits: Vec<(BitRate, usize)> =
        flows.iter().enumerate().filter_map(|(index, flow)| Some((flow.limit?, index))).collect();
    limits.sort_unstable();
    let mut limits = limits.into_iter().map(|(limit, flow)| (limit.get() as f64, flow)).peekable();
    loop {
        let next_link = filling.next_full();
        match (next_link, limits.peek().copied()) {
            // If both levels are equal, the order does not affect the rates.
            (link, Some((limit, flow))) if link.is_none_or(|(level, _)| limit <= level) => {
                limits.next();
                filling.freeze(flow, limit);
            }
            (Some((level, link)), _) => filling.fill(link, level),
            (None, _) => {
                return filling.rates.into_iter().map(|rate| rate.unwrap_or(f64::INFINITY)).collect();
            }
        }
    }
}

/// The state of progressive filling.
struct Filling<'a> {
    flows: &'a [Flow],
    /// For each link, the flows that cross it.
    crossing: Vec<Vec<usize>>,
    /// For each link, the capacity that frozen flows leave free and the number of flows that are still rising.
    links: Vec<(f64, usize)>,
    /// The rate of each flow that is frozen.
    rates: Vec<Option<f64>>,
    /// Links ordered by the level at which they become full. Levels only rise, so a stale entry is too low and is
    /// corrected when it reaches the top of the heap.
    order: BinaryHeap<Reverse<(Level, usize)>>,
}

impl<'a> Filling<'a> {
    fn new(capacities: &[BitRate], flows: &'a [Flow]) -> Self {
        let mut crossing = vec![Vec::new(); capacities.len()];
        for (id, flow) in flows.iter().enumerate() {
            for link in &flow.links {
                let Some(flows) = crossing.get_mut(*link) else {
                    panic!("flow {id} crosses link {link}; there are {}", capacities.len());
                };
                // Flows are added in order, so a duplicate is the last entry.
                assert!(flows.last() != Some(&id), "flow {id} crosses link {link} twice");
                flows.push(id);
            }
        }
        let rising = crossing.iter().map(Vec::len);
        let links: Vec<_> = capacities.iter().map(|capacity| capacity.get() as f64).zip(rising).collect();
        let order = (0..links.len()).filter(|link| links[*link].1 > 0);
        let order = order.map(|link| Reverse((Level::new(links[link]), link))).collect();
        Self { flows, crossing, links, rates: vec![None; flows.len()], order }
    }

    /// Returns the next link to become full and its level; `None` if no flow is rising on any link.
    fn next_full(&mut self) -> Option<(f64, usize)> {
        while let Some(mut first) = self.order.peek_mut() {
            let Reverse((stored_level, link)) = *first;
            if self.links[link].1 == 0 {
                PeekMut::pop(first);
                continue;
            }
            let level = Level::new(self.links[link]);
            if level <= stored_level {
                return Some((level.0, link));
            }
            *first = Reverse((level, link));
        }
        None
    }

    /// Freezes all flows on a full link.
    fn fill(&mut self, link: usize, level: f64) {
        for flow in core::mem::take(&mut self.crossing[link]) {
            self.freeze(flow, level);
        }
    }

    /// Freezes a flow at a level, unless it is already frozen.
    fn freeze(&mut self, flow: usize, level: f64) {
        if self.rates[flow].is_some() {
            return;
        }
        self.rates[flow] = Some(level);
        for link in &self.flows[flow].links {
            let (free, rising) = &mut self.links[*link];
            // Rounding may make the free capacity slightly negative.
            *free = (*free - level).max(0.0);
            *rising -= 1;
        }
    }
}

/// The rate of the rising flows at which a link becomes full. Levels are never NaN and use the total order of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level(f64);

impl Level {
    /// Computes a link's level from its free capacity and its number of rising flows.
    fn new((free, rising): (f64, usize)) -> Self {
        Self(free / rising as f64)
    }
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_testkit::{Network, SplitMix64, random_network};
    use proptest::prelude::*;

    const fn gbps(gbps: u64) -> BitRate {
        BitRate::from_gbps(gbps)
    }

    fn rates_gbps(links: &[u64], flows: &[Flow]) -> Vec<f64> {
        let links: Vec<BitRate> = links.iter().map(|link| gbps(*link)).collect();
        max_min(&links, flows).into_iter().map(|rate| rate / 1e9).collect()
    }

    #[test]
    fn flows_share_one_link_equally() {
        for n in 1..=64u32 {
            let shares = max_min(&[gbps(100)], &vec![Flow::over([0]); n as usize]);
            assert_eq!(shares, vec![100e9 / f64::from(n); n as usize]);
        }
        assert!(rates_gbps(&[100], &[]).is_empty());
    }

    #[test]
    fn every_flow_in_a_parking_lot_gets_half_the_capacity() {
        let flows = [Flow::over([0, 1, 2]), Flow::over([0]), Flow::over([1]), Flow::over([2])];
        assert_eq!(rates_gbps(&[100, 100, 100], &flows), [50.0; 4]);
    }

    #[test]
    fn the_flow_over_two_links_shares_the_busier_one() {
        // Poseidon, fig. 14a: the red flow shares link A with M flows and link B with N flows.
        for (m, n) in [(0, 2), (2, 2), (2, 9), (9, 2), (9, 9), (5, 9)] {
            let mut flows = vec![Flow::over([0, 1])];
            flows.extend(vec![Flow::over([0]); m]);
            flows.extend(vec![Flow::over([1]); n]);
            let red = rates_gbps(&[200, 200], &flows)[0];
            assert!((red - 200.0 / (m.max(n) + 1) as f64).abs() < 1e-12, "M {m}, N {n}: {red}");
        }
    }

    #[test]
    fn rates_match_figure_8() {
        // Poseidon, fig. 8: two red and two blue flows cross link A. The same red flows and one green flow cross link
        // B.
        let flows = [[0, 1].to_vec(), [0, 1].to_vec(), vec![0], vec![0], vec![1]].map(Flow::over);
        assert_eq!(rates_gbps(&[100, 100], &flows), [25.0, 25.0, 25.0, 25.0, 50.0]);
    }

    #[test]
    fn other_flows_get_the_capacity_that_a_limited_flow_leaves() {
        let flows =
            [Flow::over([0]).with_limit(gbps(10)), Flow::over([0]), Flow::over([0]).with_limit(gbps(90))];
        assert_eq!(rates_gbps(&[100], &flows), [10.0, 45.0, 45.0]);
        assert_eq!(
            rates_gbps(&[], &[Flow::over([]).with_limit(gbps(7)), Flow::default()]),
            [7.0, f64::INFINITY]
        );
    }

    #[test]
    fn a_link_without_capacity_affects_only_its_flows() {
        assert_eq!(rates_gbps(&[0, 100], &[Flow::over([0, 1]), Flow::over([1])]), [0.0, 100.0]);
    }

    #[test]
    #[should_panic(expected = "flow 1 crosses link 0 twice")]
    fn a_path_with_a_repeated_link_is_rejected() {
        max_min(&[gbps(1)], &[Flow::over([0]), Flow::over([0, 0])]);
    }

    #[test]
    #[should_panic(expected = "flow 0 crosses link 3; there are 1")]
    fn an_unknown_link_is_rejected() {
        max_min(&[gbps(1)], &[Flow::over([3])]);
    }

    fn convert(network: &Network) -> (Vec<BitRate>, Vec<Flow>) {
        let rate = BitRate::from_mbps;
        let flows = network.flows.iter();
        let flows = flows.map(|flow| Flow { links: flow.path.clone(), limit: flow.cap_mbps.map(rate) });
        (network.capacities_mbps.iter().map(|mbps| rate(*mbps)).collect(), flows.collect())
    }

    /// The tolerance is relative to the largest capacity, because rounding errors are too.
    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * 400e9
    }

    #[test]
    fn rates_match_exact_arithmetic() {
        for seed in 0..500 {
            let network = random_network(&mut SplitMix64::new(seed), 20, 150);
            let (links, flows) = convert(&network);
            let exact = poseidon_testkit::max_min(&network);
            for (rate, exact) in max_min(&links, &flows).into_iter().zip(exact) {
                assert!(near(rate, exact.mbps() * 1e6), "seed {seed}: {rate} is not {}", exact.mbps() * 1e6);
            }
        }
    }

    /// Checks that the rates are feasible, and that each flow is at its limit or has a full link on which no flow is
    /// faster. Exactly one allocation has this property.
    fn assert_max_min(links: &[BitRate], flows: &[Flow], rates: &[f64]) {
        let mut load = vec![0.0; links.len()];
        let mut fastest = vec![0.0f64; links.len()];
        for (flow, rate) in flows.iter().zip(rates) {
            for link in &flow.links {
                load[*link] += rate;
                fastest[*link] = fastest[*link].max(*rate);
            }
        }
        // The sum over all flows rounds once per flow.
        let slack = |link: usize| links[link].get() as f64 * 1e-15 * (flows.len() + 10) as f64;
        for (link, capacity) in links.iter().enumerate() {
            assert!(load[link] <= capacity.get() as f64 + slack(link), "link {link} carries {}", load[link]);
        }
        for (id, (flow, rate)) in flows.iter().zip(rates).enumerate() {
            let limit = flow.limit.map_or(f64::INFINITY, |limit| limit.get() as f64);
            let is_bottleneck = |link: &usize| {
                load[*link] >= links[*link].get() as f64 - slack(*link)
                    && *rate >= fastest[*link] - slack(*link)
            };
            assert!(*rate <= limit, "flow {id} is above its limit");
            assert!(*rate == limit || flow.links.iter().any(is_bottleneck), "flow {id} could be faster");
        }
    }

    #[test]
    fn a_hundred_thousand_flows_over_ten_thousand_links_are_fair() {
        let rng = &mut SplitMix64::new(3);
        let links: Vec<BitRate> = (0..10_000).map(|_| gbps(rng.within(10, 800))).collect();
        let random_flow = |rng: &mut SplitMix64| {
            let mut path: Vec<usize> = (0..1 + rng.index(6)).map(|_| rng.index(links.len())).collect();
            path.sort_unstable();
            path.dedup();
            Flow { links: path, limit: (rng.below(4) == 0).then(|| gbps(rng.within(1, 100))) }
        };
        let flows: Vec<Flow> = (0..100_000).map(|_| random_flow(rng)).collect();
        assert_max_min(&links, &flows, &max_min(&links, &flows));
    }

    proptest! {
        #[test]
        fn every_flow_has_a_bottleneck(seed: u64, links in 1usize..40, flows in 1usize..300) {
            let (links, flows) = convert(&random_network(&mut SplitMix64::new(seed), links, flows));
            assert_max_min(&links, &flows, &max_min(&links, &flows));
        }

        #[test]
        fn rates_scale_with_capacities(seed: u64, factor in 1u64..1_000) {
            let (links, flows) = convert(&random_network(&mut SplitMix64::new(seed), 12, 60));
            let faster_links: Vec<BitRate> = links.iter().map(|link| *link * factor).collect();
            let faster_flows: Vec<Flow> = flows
                .iter()
                .map(|flow| Flow { limit: flow.limit.map(|limit| limit * factor), ..flow.clone() })
                .collect();
            for (slow, fast) in max_min(&links, &flows).into_iter().zip(max_min(&faster_links, &faster_flows)) {
                prop_assert!(near(slow, fast / factor as f64));
            }
        }

        #[test]
        fn the_order_of_flows_does_not_matter(seed: u64) {
            let mut rng = SplitMix64::new(seed);
            let (links, flows) = convert(&random_network(&mut rng, 12, 60));
            let rates = max_min(&links, &flows);
            let mut order: Vec<usize> = (0..flows.len()).collect();
            rng.shuffle(&mut order);
            let shuffled: Vec<Flow> = order.iter().map(|flow| flows[*flow].clone()).collect();
            for (flow, rate) in order.into_iter().zip(max_min(&links, &shuffled)) {
                prop_assert!(near(rate, rates[flow]));
            }
        }
    }
}
