//! What every flow should get: the max-min fair rates of a network without packets.
//!
//! Model   raise all rates together; when a link fills, its flows stop; go on with the others
//!         level(link) = (capacity - rates that already stopped) / flows still rising
//! Why     an allocation is max-min fair exactly when every flow has a bottleneck: a full link on which no other flow is
//!         faster, or its own limit. The tests check that statement, not the procedure.
//! Cost    one step of a heap per flow and link that it crosses: 10^5 flows over 10^4 links are well below a second
//! Source  Bertsekas, Gallager: Data Networks, 2nd ed., section 6.5.2
//! Limits  floats: a rate is off by at most the flows of its link times 2^-53 of the link's capacity

use core::cmp::Reverse;
use poseidon_types::BitRate;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A flow that always has something to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The links that it crosses, by index, each at most once.
    pub links: Vec<usize>,
    /// The most that it sends whatever the network allows: its application's rate, or its host's.
    pub limit: Option<BitRate>,
}

impl Flow {
    /// A flow over these links that nothing else limits.
    pub fn over(links: impl Into<Vec<usize>>) -> Self {
        Self { links: links.into(), limit: None }
    }

    /// The same flow with a limit of its own.
    #[must_use]
    pub fn limited(self, limit: BitRate) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

/// The max-min fair rate of every flow in bits per second, in the order of the flows, where `links` are capacities. A flow that
/// crosses no link and has no limit gets infinity.
///
/// # Panics
/// If a flow crosses a link that is not there, or one twice.
pub fn max_min(links: &[BitRate], flows: &[Flow]) -> Vec<f64> {
    let mut filling = Filling::new(links, flows);
    let mut limits: Vec<(BitRate, usize)> =
        flows.iter().enumerate().filter_map(|(flow, it)| Some((it.limit?, flow))).collect();
    limits.sort_unstable();
    let mut limits = limits.into_iter().map(|(limit, flow)| (limit.get() as f64, flow)).peekable();
    loop {
        let next_link = filling.next_full();
        match (next_link, limits.peek().copied()) {
            // A limit first: at equal levels it makes no difference to anybody's rate.
            (link, Some((limit, flow))) if link.is_none_or(|(level, _)| limit <= level) => {
                limits.next();
                filling.stop(flow, limit);
            }
            (Some((level, link)), _) => filling.fill(link, level),
            (None, _) => {
                return filling.rates.into_iter().map(|rate| rate.unwrap_or(f64::INFINITY)).collect();
            }
        }
    }
}

/// A network that is being filled.
struct Filling<'a> {
    flows: &'a [Flow],
    /// Per link: the flows that cross it.
    crossing: Vec<Vec<usize>>,
    /// Per link: what the flows that stopped leave of it, and how many still rise.
    links: Vec<(f64, usize)>,
    /// Per flow: where it stopped.
    rates: Vec<Option<f64>>,
    /// Links by the level at which they are full. A level only rises, so an entry is at worst too low: it is put right when it comes up.
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
                // Flows come in order, so one that is there already is the last.
                assert!(flows.last() != Some(&id), "flow {id} crosses link {link} twice");
                flows.push(id);
            }
        }
        let rising = crossing.iter().map(Vec::len);
        let links: Vec<_> = capacities.iter().map(|capacity| capacity.get() as f64).zip(rising).collect();
        let order = (0..links.len()).filter(|link| links[*link].1 > 0);
        let order = order.map(|link| Reverse((Level::of(links[link]), link))).collect();
        Self { flows, crossing, links, rates: vec![None; flows.len()], order }
    }

    /// The link that is full first, and at which level; `None` when no flow rises on any.
    fn next_full(&mut self) -> Option<(f64, usize)> {
        while let Some(mut first) = self.order.peek_mut() {
            let Reverse((known, link)) = *first;
            if self.links[link].1 == 0 {
                PeekMut::pop(first);
                continue;
            }
            let level = Level::of(self.links[link]);
            if level <= known {
                return Some((level.0, link));
            }
            *first = Reverse((level, link));
        }
        None
    }

    /// A link is full: its flows stop.
    fn fill(&mut self, link: usize, level: f64) {
        for flow in core::mem::take(&mut self.crossing[link]) {
            self.stop(flow, level);
        }
    }

    /// A flow stops, if it has not before.
    fn stop(&mut self, flow: usize, level: f64) {
        if self.rates[flow].is_some() {
            return;
        }
        self.rates[flow] = Some(level);
        for link in &self.flows[flow].links {
            let (left, rising) = &mut self.links[*link];
            // Rounding may leave a link a hair below nothing.
            *left = (*left - level).max(0.0);
            *rising -= 1;
        }
    }
}

/// At how much per rising flow a link is full. Floats in their total order; none is not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level(f64);

impl Level {
    /// Of what is left for how many.
    fn of((left, rising): (f64, usize)) -> Self {
        Self(left / rising as f64)
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
    fn one_link_is_split_evenly() {
        for n in 1..=64u32 {
            let shares = max_min(&[gbps(100)], &vec![Flow::over([0]); n as usize]);
            assert_eq!(shares, vec![100e9 / f64::from(n); n as usize]);
        }
        assert!(rates_gbps(&[100], &[]).is_empty());
    }

    #[test]
    fn a_parking_lot_gives_every_flow_half() {
        let flows = [Flow::over([0, 1, 2]), Flow::over([0]), Flow::over([1]), Flow::over([2])];
        assert_eq!(rates_gbps(&[100, 100, 100], &flows), [50.0; 4]);
    }

    #[test]
    fn the_flow_over_two_links_shares_the_busier_one() {
        // Poseidon, fig. 14a: red crosses A with M others and B with N others.
        for (m, n) in [(0, 2), (2, 2), (2, 9), (9, 2), (9, 9), (5, 9)] {
            let mut flows = vec![Flow::over([0, 1])];
            flows.extend(vec![Flow::over([0]); m]);
            flows.extend(vec![Flow::over([1]); n]);
            let red = rates_gbps(&[200, 200], &flows)[0];
            assert!((red - 200.0 / (m.max(n) + 1) as f64).abs() < 1e-12, "M {m}, N {n}: {red}");
        }
    }

    #[test]
    fn the_network_of_figure_8() {
        // Poseidon, fig. 8: link A has two red and two blue flows, link B the same two red and a green one.
        let flows = [[0, 1].to_vec(), [0, 1].to_vec(), vec![0], vec![0], vec![1]].map(Flow::over);
        assert_eq!(rates_gbps(&[100, 100], &flows), [25.0, 25.0, 25.0, 25.0, 50.0]);
    }

    #[test]
    fn what_a_limited_flow_leaves_goes_to_the_others() {
        let flows = [Flow::over([0]).limited(gbps(10)), Flow::over([0]), Flow::over([0]).limited(gbps(90))];
        assert_eq!(rates_gbps(&[100], &flows), [10.0, 45.0, 45.0]);
        assert_eq!(
            rates_gbps(&[], &[Flow::over([]).limited(gbps(7)), Flow::default()]),
            [7.0, f64::INFINITY]
        );
    }

    #[test]
    fn a_link_without_capacity_stops_its_flows_alone() {
        assert_eq!(rates_gbps(&[0, 100], &[Flow::over([0, 1]), Flow::over([1])]), [0.0, 100.0]);
    }

    #[test]
    #[should_panic(expected = "flow 1 crosses link 0 twice")]
    fn a_link_crossed_twice_is_refused() {
        max_min(&[gbps(1)], &[Flow::over([0]), Flow::over([0, 0])]);
    }

    #[test]
    #[should_panic(expected = "flow 0 crosses link 3; there are 1")]
    fn a_link_that_is_not_there_is_refused() {
        max_min(&[gbps(1)], &[Flow::over([3])]);
    }

    fn ours(network: &Network) -> (Vec<BitRate>, Vec<Flow>) {
        let rate = BitRate::from_mbps;
        let flows = network.flows.iter();
        let flows = flows.map(|flow| Flow { links: flow.path.clone(), limit: flow.cap_mbps.map(rate) });
        (network.capacities_mbps.iter().map(|mbps| rate(*mbps)).collect(), flows.collect())
    }

    /// Relative to the largest capacity: rounding is relative to what flows are subtracted from.
    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * 400e9
    }

    #[test]
    fn rates_are_those_of_exact_arithmetic() {
        for seed in 0..500 {
            let network = random_network(&mut SplitMix64::new(seed), 20, 150);
            let (links, flows) = ours(&network);
            let exact = poseidon_testkit::max_min(&network);
            for (rate, exact) in max_min(&links, &flows).into_iter().zip(exact) {
                assert!(near(rate, exact.mbps() * 1e6), "seed {seed}: {rate} is not {}", exact.mbps() * 1e6);
            }
        }
    }

    /// Feasible, and every flow held by its limit or by a full link on which none is faster: there is exactly one such allocation.
    fn assert_max_min(links: &[BitRate], flows: &[Flow], rates: &[f64]) {
        let mut load = vec![0.0; links.len()];
        let mut fastest = vec![0.0f64; links.len()];
        for (flow, rate) in flows.iter().zip(rates) {
            for link in &flow.links {
                load[*link] += rate;
                fastest[*link] = fastest[*link].max(*rate);
            }
        }
        // A sum of as many terms as flows rounds as often.
        let slack = |link: usize| links[link].get() as f64 * 1e-15 * (flows.len() + 10) as f64;
        for (link, capacity) in links.iter().enumerate() {
            assert!(load[link] <= capacity.get() as f64 + slack(link), "link {link} carries {}", load[link]);
        }
        for (id, (flow, rate)) in flows.iter().zip(rates).enumerate() {
            let limit = flow.limit.map_or(f64::INFINITY, |limit| limit.get() as f64);
            let holds = |link: &usize| {
                load[*link] >= links[*link].get() as f64 - slack(*link)
                    && *rate >= fastest[*link] - slack(*link)
            };
            assert!(*rate <= limit, "flow {id} is above its limit");
            assert!(*rate == limit || flow.links.iter().any(holds), "flow {id} could be faster");
        }
    }

    #[test]
    fn a_hundred_thousand_flows_over_ten_thousand_links_are_fair() {
        let rng = &mut SplitMix64::new(3);
        let links: Vec<BitRate> = (0..10_000).map(|_| gbps(rng.within(10, 800))).collect();
        let flow = |rng: &mut SplitMix64| {
            let mut path: Vec<usize> = (0..1 + rng.index(6)).map(|_| rng.index(links.len())).collect();
            path.sort_unstable();
            path.dedup();
            Flow { links: path, limit: (rng.below(4) == 0).then(|| gbps(rng.within(1, 100))) }
        };
        let flows: Vec<Flow> = (0..100_000).map(|_| flow(rng)).collect();
        assert_max_min(&links, &flows, &max_min(&links, &flows));
    }

    proptest! {
        #[test]
        fn every_flow_has_a_bottleneck(seed: u64, links in 1usize..40, flows in 1usize..300) {
            let (links, flows) = ours(&random_network(&mut SplitMix64::new(seed), links, flows));
            assert_max_min(&links, &flows, &max_min(&links, &flows));
        }

        #[test]
        fn a_network_times_as_fast_gives_rates_times_as_fast(seed: u64, by in 1u64..1_000) {
            let (links, flows) = ours(&random_network(&mut SplitMix64::new(seed), 12, 60));
            let faster: Vec<BitRate> = links.iter().map(|link| *link * by).collect();
            let hurried: Vec<Flow> = flows
                .iter()
                .map(|flow| Flow { limit: flow.limit.map(|limit| limit * by), ..flow.clone() })
                .collect();
            for (slow, fast) in max_min(&links, &flows).into_iter().zip(max_min(&faster, &hurried)) {
                prop_assert!(near(slow, fast / by as f64));
            }
        }

        #[test]
        fn the_order_of_flows_does_not_matter(seed: u64) {
            let mut rng = SplitMix64::new(seed);
            let (links, flows) = ours(&random_network(&mut rng, 12, 60));
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
