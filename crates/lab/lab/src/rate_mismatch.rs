//! Finds laws whose parameters do not fit the rate of the network.

use core::fmt::{self, Display};
use poseidon_laws::AnyParams;
use poseidon_plan::Plan;
use poseidon_plan::traffic::Connection;
use poseidon_types::BitRate;

/// A law that is configured for another rate than that of the hosts that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateMismatch {
    /// Poseidon's parameter `max-rate`.
    pub max_rate: BitRate,
    /// The rate at which the hosts that use the law send to other racks or servers.
    pub line_rate: BitRate,
}

impl RateMismatch {
    /// Returns the first mismatch in a plan.
    pub fn find(plan: &Plan) -> Option<Self> {
        let mismatch = |(index, law): (usize, &AnyParams)| {
            let AnyParams::Poseidon(params) = law else { return None };
            let uses_law = |law: u32| usize::try_from(law).is_ok_and(|law| law == index);
            let connections = plan.connections.iter().filter(|connection| uses_law(connection.law));
            // In a rail network, GPUs of one server have faster links than its NICs. The longest paths count.
            let rates = connections.map(|Connection { from, to, .. }| {
                (plan.topology.hops(*from, *to), plan.topology.line_rate(*from, *to))
            });
            let (max_rate, (_, line_rate)) = (params.max_rate, rates.max()?);
            (max_rate != line_rate).then_some(Self { max_rate, line_rate })
        };
        plan.laws.iter().enumerate().find_map(mismatch)
    }
}

impl Display for RateMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_rate, line_rate } = self;
        write!(
            f,
            "Poseidon's max-rate is {max_rate}, but the hosts send at {line_rate}; for the paper's targets at this rate, \
             add a table [laws.poseidon] with base = \"poseidon\" and max-rate = \"{line_rate}\""
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::Rails;
    use poseidon_plan::{Link, Topology};
    use poseidon_testkit::plans::{self, LINK};
    use poseidon_types::Picos;

    /// A plan for Poseidon with a host link of this rate.
    fn star(gbps: u64) -> Plan {
        let link = Link { rate: BitRate::from_gbps(gbps), ..LINK };
        plans::plan(Topology::star(3, link), "poseidon", &[(0, 1), (1, 2)])
    }

    #[test]
    fn another_rate_than_that_of_the_hosts_is_found() {
        assert_eq!(RateMismatch::find(&star(200)), None);
        let found = RateMismatch::find(&star(100)).expect("the hosts are slower");
        assert_eq!((found.max_rate, found.line_rate), (BitRate::from_gbps(200), BitRate::from_gbps(100)));
        assert!(found.to_string().contains("max-rate = \"100 Gbps\""), "{found}");
        let swift = Plan { laws: vec![AnyParams::for_law("swift").expect("the law exists")], ..star(100) };
        assert_eq!(RateMismatch::find(&swift), None);
    }

    #[test]
    fn the_rate_of_a_rail_network_is_that_of_its_nics() {
        let link = |gbps| Link { rate: BitRate::from_gbps(gbps), delay: Picos::new(500_000) };
        let rails = Topology::Rails(Rails {
            servers: 4,
            gpus: 2,
            servers_per_leaf: 2,
            spines: 2,
            local_link: link(3_600),
            rail_link: link(200),
            spine_link: link(200),
        });
        assert_eq!(RateMismatch::find(&plans::plan(rails, "poseidon", &[(0, 1), (0, 6)])), None);
    }
}
