//! Resolves the failed links that flow lists name.

use super::traffic::{MAX_MESSAGES, TrafficNetwork};
use super::{traffic_error, traffic_path};
use crate::scenario::{Scenario, SpecError, SpecErrorKind, TrafficKind};
use poseidon_plan::Topology;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_traces::{LinkFailure, SwitchTier};
use poseidon_types::{Picos, PortId, SwitchId};

/// Returns the failures of all flow lists, as link changes at the start of the run.
pub(super) fn resolve_file_failures(
    scenario: &Scenario,
    network: &TrafficNetwork<'_>,
) -> Result<Vec<LinkChange>, SpecError> {
    let mut changes = Vec::new();
    for (index, spec) in scenario.traffic.iter().enumerate() {
        let (TrafficKind::FlowList, Some(file)) = (spec.kind, &spec.file) else { continue };
        let error = |kind: SpecErrorKind| traffic_error(kind.at(["file"]), traffic_path(index), &spec.name);
        let flows = network.files.flows(file, spec.format, spec.start_unit, MAX_MESSAGES as usize);
        for failure in &flows.map_err(|cause| error(SpecErrorKind::File(cause)))?.failures {
            changes.push(link_change(failure, network.topology).ok_or_else(|| {
                let LinkFailure { tier, switch, link } = *failure;
                error(SpecErrorKind::UnknownFailure { tier: tier.to_string(), switch, link })
            })?);
        }
    }
    Ok(changes)
}

/// Returns the change that takes a link down, or `None` if the network has no such link.
fn link_change(failure: &LinkFailure, topology: &Topology) -> Option<LinkChange> {
    let Topology::Tiers(tiers) = topology else { return None };
    let (switch, first_uplink, uplinks) = match failure.tier {
        SwitchTier::Tor if failure.switch < tiers.pods * tiers.racks => {
            (failure.switch, tiers.hosts, tiers.aggregation)
        }
        SwitchTier::Aggregation if failure.switch < tiers.pods * tiers.aggregation => {
            (tiers.pods * tiers.racks + failure.switch, tiers.racks, tiers.cores)
        }
        _ => return None,
    };
    (failure.link < uplinks).then(|| LinkChange {
        time: Picos::ZERO,
        switch: SwitchId::new(switch),
        port: PortId::new(first_uplink + failure.link),
        event: LinkEvent::Down,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Link, Node};
    use poseidon_types::BitRate;

    #[test]
    fn failed_links_lead_up() {
        let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
        let tree = Topology::fat_tree(4, link);
        let neighbor = |tier, switch, link| {
            let change = link_change(&LinkFailure { tier, switch, link }, &tree)?;
            Some(tree.ports(change.switch)[change.port.get() as usize].0)
        };
        let switch = |number| Some(Node::Switch(SwitchId::new(number)));
        // Racks are switches 0 to 7, aggregation switches 8 to 15 and cores 16 to 19.
        assert_eq!(neighbor(SwitchTier::Tor, 2, 1), switch(11));
        assert_eq!(neighbor(SwitchTier::Aggregation, 3, 0), switch(18));
        assert_eq!(neighbor(SwitchTier::Tor, 2, 2), None);
        assert_eq!(neighbor(SwitchTier::Core, 0, 0), None);
    }
}
