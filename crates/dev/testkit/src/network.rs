//! Networks of links and flows, which are the input to the fairness oracle and the fluid model.

use crate::rng::SplitMix64;

/// The link rates in random networks, in Mbps, which match current datacenter port speeds.
pub const LINK_RATES_MBPS: [u64; 6] = [25_000, 40_000, 50_000, 100_000, 200_000, 400_000];

/// The range of base round-trip times in random networks, in ns, from a single rack to a large building.
pub const BASE_RTT_RANGE_NS: (u64, u64) = (4_000, 40_000);

/// The maximum number of links that a flow in a random network crosses.
pub const MAX_HOPS: usize = 4;

/// Links with capacities, and flows that cross them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Each link's capacity in Mbps. The index is the link's id.
    pub capacities_mbps: Vec<u64>,
    /// The flows. The index is the flow's id.
    pub flows: Vec<Flow>,
}

/// A flow that always has data to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The links on the flow's path, in order. Each link occurs at most once.
    pub path: Vec<usize>,
    /// The sending host's line rate in Mbps, which caps the flow's rate.
    pub cap_mbps: Option<u64>,
    /// The round-trip time with empty queues, in ns. Max-min shares do not depend on this value.
    pub base_rtt_ns: u64,
}

impl Flow {
    /// Creates an uncapped flow over these links with the smallest base RTT.
    pub fn through(path: impl Into<Vec<usize>>) -> Self {
        Self { path: path.into(), cap_mbps: None, base_rtt_ns: BASE_RTT_RANGE_NS.0 }
    }

    /// Sets the sending host's line rate.
    pub fn with_cap(self, cap_mbps: u64) -> Self {
        Self { cap_mbps: Some(cap_mbps), ..self }
    }
}

impl Network {
    /// Returns the flows that cross a link, in order.
    pub fn flows_on(&self, link: usize) -> impl Iterator<Item = usize> {
        (0..self.flows.len()).filter(move |&flow| self.flows[flow].path.contains(&link))
    }

    /// Checks the network.
    ///
    /// # Panics
    /// Panics if a path contains an unknown or repeated link, or if a flow has neither a link nor a cap.
    pub fn check(&self) {
        for (id, flow) in self.flows.iter().enumerate() {
            assert!(
                !flow.path.is_empty() || flow.cap_mbps.is_some(),
                "flow {id} crosses no link and has no cap: add one"
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

/// Returns a random network with 1 to `max_links` links and 1 to `max_flows` flows.
///
/// Each flow crosses 1 to [`MAX_HOPS`] different links in random order and has a base RTT from [`BASE_RTT_RANGE_NS`].
/// On average, one flow in four has a cap, drawn from the link rates.
///
/// # Panics
/// Panics if `max_links` or `max_flows` is zero.
pub fn random_network(rng: &mut SplitMix64, max_links: usize, max_flows: usize) -> Network {
    let links = 1 + rng.index(max_links);
    let capacities_mbps = (0..links).map(|_| *rng.pick(&LINK_RATES_MBPS)).collect();
    let flows = (0..=rng.index(max_flows)).map(|_| random_flow(rng, links)).collect();
    Network { capacities_mbps, flows }
}

/// Returns a random flow that crosses some of the `links` links.
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
    fn random_networks_are_valid_and_varied() {
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
    fn the_same_seed_produces_the_same_network() {
        let generate = || random_network(&mut SplitMix64::new(42), 8, 20);
        assert_eq!(generate(), generate());
    }

    #[test]
    #[should_panic(expected = "flow 0 crosses link 1 twice")]
    fn a_path_with_a_repeated_link_is_rejected() {
        Network { capacities_mbps: vec![1, 1], flows: vec![Flow::through([1, 0, 1])] }.check();
    }

    #[test]
    #[should_panic(expected = "crosses no link and has no cap")]
    fn a_flow_without_a_link_or_a_cap_is_rejected() {
        Network { capacities_mbps: vec![1], flows: vec![Flow::through([])] }.check();
    }
}
