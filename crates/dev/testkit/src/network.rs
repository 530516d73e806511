//! Links and flows, without packets: what a fairness oracle and a closed-loop test are given.

use crate::rng::SplitMix64;

/// Link rates that random networks mix, in Mbps: today's datacenter ports.
pub const LINK_RATES_MBPS: [u64; 6] = [25_000, 40_000, 50_000, 100_000, 200_000, 400_000];

/// Base round-trip times that random networks mix, in ns: inside a rack to across a large building.
pub const BASE_RTT_RANGE_NS: (u64, u64) = (4_000, 40_000);

/// Links a flow of a random network crosses at most.
pub const MAX_HOPS: usize = 4;

/// Links with capacities, and flows that cross them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The capacity of each link, in Mbps; a link is named by its index.
    pub capacities_mbps: Vec<u64>,
    /// The flows; a flow is named by its index.
    pub flows: Vec<Flow>,
}

/// One flow that always has data to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The links it crosses, in order, each at most once.
    pub path: Vec<usize>,
    /// The most it can send whatever the network allows, in Mbps: its host's line rate.
    pub cap_mbps: Option<u64>,
    /// Its round-trip time with empty queues, in ns. Max-min shares do not depend on it.
    pub base_rtt_ns: u64,
}

impl Flow {
    /// A flow over these links, without a cap of its own, with the smallest base RTT.
    pub fn through(path: impl Into<Vec<usize>>) -> Self {
        Self { path: path.into(), cap_mbps: None, base_rtt_ns: BASE_RTT_RANGE_NS.0 }
    }

    /// The same flow from a host of this line rate.
    pub fn capped(self, cap_mbps: u64) -> Self {
        Self { cap_mbps: Some(cap_mbps), ..self }
    }
}

impl Network {
    /// The flows that cross a link, in order.
    pub fn flows_on(&self, link: usize) -> impl Iterator<Item = usize> {
        (0..self.flows.len()).filter(move |&flow| self.flows[flow].path.contains(&link))
    }

    /// Refuses a network that says nothing: an unknown or repeated link, or a flow that nothing limits.
    ///
    /// # Panics
    /// With the flow and the reason.
    pub fn check(&self) {
        for (id, flow) in self.flows.iter().enumerate() {
            assert!(
                !flow.path.is_empty() || flow.cap_mbps.is_some(),
                "flow {id} crosses no link and has no cap: give it one"
            );
            for (hop, &link) in flow.path.iter().enumerate() {
                assert!(
                    link < self.capacities_mbps.len(),
                    "flow {id} crosses link {link}; there are {}",
                    self.capacities_mbps.len()
                );
                assert!(!flow.path[..hop].contains(&link), "flow {id} crosses link {link} twice");
            }
        }
    }
}

/// A network with 1 to `max_links` links of mixed rates and 1 to `max_flows` flows.
///
/// Each flow crosses 1 to [`MAX_HOPS`] links in random order without repetition and has a base RTT from
/// [`BASE_RTT_RANGE_NS`]; every fourth flow or so has a cap of its own, drawn from the link rates.
///
/// # Panics
/// If `max_links` or `max_flows` is zero.
pub fn random_network(rng: &mut SplitMix64, max_links: usize, max_flows: usize) -> Network {
    let links = 1 + rng.index(max_links);
    let capacities_mbps = (0..links).map(|_| *rng.pick(&LINK_RATES_MBPS)).collect();
    let flows = (0..=rng.index(max_flows)).map(|_| random_flow(rng, links)).collect();
    Network { capacities_mbps, flows }
}

/// One flow over some of `links` links.
fn random_flow(rng: &mut SplitMix64, links: usize) -> Flow {
    let mut path: Vec<usize> = (0..links).collect();
    rng.shuffle(&mut path);
    path.truncate(1 + rng.index(MAX_HOPS));
    let cap_mbps = (rng.below(4) == 0).then(|| *rng.pick(&LINK_RATES_MBPS));
    let base_rtt_ns = rng.within(BASE_RTT_RANGE_NS.0, BASE_RTT_RANGE_NS.1);
    Flow { path, cap_mbps, base_rtt_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_networks_are_sound_and_varied() {
        let mut rng = SplitMix64::new(1);
        let mut hops_seen = [false; MAX_HOPS + 1];
        let mut caps_seen = [false; 2];
        for _ in 0..1000 {
            let network = random_network(&mut rng, 10, 30);
            network.check();
            assert!((1..=10).contains(&network.capacities_mbps.len()));
            assert!((1..=30).contains(&network.flows.len()));
            assert!(network.capacities_mbps.iter().all(|c| LINK_RATES_MBPS.contains(c)));
            for flow in &network.flows {
                hops_seen[flow.path.len()] = true;
                caps_seen[usize::from(flow.cap_mbps.is_some())] = true;
                assert!((BASE_RTT_RANGE_NS.0..=BASE_RTT_RANGE_NS.1).contains(&flow.base_rtt_ns));
            }
        }
        assert_eq!(hops_seen, [false, true, true, true, true]);
        assert_eq!(caps_seen, [true, true]);
    }

    #[test]
    fn the_same_seed_gives_the_same_network() {
        let draw = || random_network(&mut SplitMix64::new(42), 8, 20);
        assert_eq!(draw(), draw());
    }

    #[test]
    #[should_panic(expected = "flow 0 crosses link 1 twice")]
    fn a_path_with_a_loop_is_refused() {
        Network { capacities_mbps: vec![1, 1], flows: vec![Flow::through([1, 0, 1])] }.check();
    }

    #[test]
    #[should_panic(expected = "crosses no link and has no cap")]
    fn a_flow_that_nothing_limits_is_refused() {
        Network { capacities_mbps: vec![1], flows: vec![Flow::through([])] }.check();
    }
}
