//! Links that lose, delay or reorder packets.

use poseidon_plan::Plan;
use poseidon_plan::impairments::AnyImpairPolicy;
use poseidon_plan::link_changes::LinkEvent;
use poseidon_policies::impair::{ImpairState, Impairment, Transit};
use poseidon_types::{Picos, PortId, SwitchId};
use std::collections::BTreeSet;

use crate::hash::{hash_pair, splitmix64};
use crate::network::Network;
use crate::wire::ImpairmentId;

/// The impaired wires of a network.
///
/// Links whose delay changes are among them, because a packet can then overtake another.
#[derive(Debug)]
pub(crate) struct Impairments {
    links: Vec<ImpairedLink>,
}

/// One direction of a link that loses, delays or reorders packets.
#[derive(Debug)]
struct ImpairedLink {
    switch: SwitchId,
    port: PortId,
    policy: Option<AnyImpairPolicy>,
    state: ImpairState,
    random_seed: u64,
    /// The arrival times of the packets on the link. They differ, so that the order of arrivals is defined.
    arrivals: BTreeSet<Picos>,
}

/// The largest number of impaired wires.
pub(crate) const MAX_IMPAIRMENTS: usize = u16::MAX as usize;

impl Impairments {
    pub(crate) fn new(plan: &Plan, network: &Network<'_>) -> Self {
        let mut links: Vec<ImpairedLink> = Vec::new();
        let mut add = |switch: SwitchId, port: PortId, policy: Option<&AnyImpairPolicy>| {
            let key = (switch, port);
            if let Err(index) = links.binary_search_by_key(&key, |link| (link.switch, link.port)) {
                let random_seed = splitmix64(!plan.seed ^ hash_pair(switch.get(), port.get()));
                let (policy, state, arrivals) = (policy.cloned(), ImpairState::default(), BTreeSet::new());
                links.insert(index, ImpairedLink { switch, port, policy, state, random_seed, arrivals });
            }
        };
        for impairment in &plan.link_impairments {
            add(impairment.switch, impairment.port, Some(&impairment.policy));
        }
        for change in plan.link_changes.iter().filter(|change| matches!(change.event, LinkEvent::Delay(_))) {
            add(change.switch, change.port, None);
            let peer = network.peer_of(change.switch, change.port);
            add(SwitchId::new(peer.node.get()), peer.port, None);
        }
        Self { links }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the number of a port's impairment.
    pub(crate) fn find(&self, switch: SwitchId, port: PortId) -> ImpairmentId {
        let found = self.links.binary_search_by_key(&(switch, port), |link| (link.switch, link.port));
        found.ok().map_or(ImpairmentId::NONE, ImpairmentId::from_index)
    }

    /// Returns the port of an impaired wire.
    pub(crate) fn port(&self, id: ImpairmentId) -> (SwitchId, PortId) {
        let link = &self.links[id.index()];
        (link.switch, link.port)
    }

    /// Returns the time at which a packet arrives, or `None` if the link loses it. The packet would arrive at `arrival`
    /// without the impairment, and its last bit enters the link at `now`.
    pub(crate) fn impair(&mut self, id: ImpairmentId, now: Picos, arrival: Picos) -> Option<Picos> {
        let link = &mut self.links[id.index()];
        let transit = Transit { now, random_seed: link.random_seed ^ now.get() };
        let impairment =
            link.policy.as_ref().map_or(Impairment::NONE, |policy| policy.impair(&mut link.state, &transit));
        let Impairment::Delayed(delay) = impairment else { return None };
        while link.arrivals.first().is_some_and(|first| *first < now) {
            link.arrivals.pop_first();
        }
        let mut time = arrival + delay;
        while !link.arrivals.insert(time) {
            time += Picos::new(1);
        }
        Some(time)
    }
}
