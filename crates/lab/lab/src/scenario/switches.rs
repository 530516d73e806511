//! Selects switches by the names that scenarios use.
//!
//! `rack[0-3]`, `agg0` and `core[0-7]` name switches by tier, and `pod0` names the racks and aggregation switches of a
//! pod. In `pod[0-1].rack0`, racks are numbered within a pod. `s5` and `switch[0-9]` number switches across the whole
//! network, and `all` names all switches.

use super::OneOrMore;
use super::select::{SelectionError, split_word_and_range};
use core::ops::Range;
use poseidon_plan::Topology;
use poseidon_plan::patterns::Racks;
use poseidon_types::{HostId, SwitchId};
use std::collections::BTreeSet;

/// A tier of switches.
struct Tier {
    /// The word that names a switch of the tier.
    word: &'static str,
    /// The tier's switches.
    switches: Vec<u32>,
    /// The number of the tier's switches in each pod, or zero if they do not belong to pods.
    per_pod: u32,
}

impl Tier {
    fn new(word: &'static str, switches: impl Iterator<Item = u32>, per_pod: u32) -> Self {
        Self { word, switches: switches.collect(), per_pod }
    }

    /// Returns the tier's switches in a pod.
    fn in_pod(&self, pod: u32) -> &[u32] {
        let (first, count) = (pod as usize * self.per_pod as usize, self.per_pod as usize);
        self.switches.get(first..first + count).unwrap_or_default()
    }
}

/// The names of a network's switches.
struct SwitchNames {
    tiers: Vec<Tier>,
    pods: u32,
    switches: u32,
}

/// Selects switches, in the order of `selectors`. A switch that is named several times is selected once.
pub fn select_switches(selectors: &OneOrMore, topology: &Topology) -> Result<Vec<SwitchId>, SelectionError> {
    let names = SwitchNames::new(topology);
    let (mut seen, mut selected) = (BTreeSet::new(), Vec::new());
    for text in &selectors.0 {
        for switch in names.parse(text)? {
            if seen.insert(switch) {
                selected.push(SwitchId::new(switch));
            }
        }
    }
    Ok(selected)
}

impl SwitchNames {
    fn new(topology: &Topology) -> Self {
        let tiers = match topology {
            Topology::Tiers(t) => {
                let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
                vec![
                    Tier::new("rack", 0..racks, t.racks),
                    Tier::new("agg", racks..racks + aggregations, t.aggregation),
                    Tier::new("core", racks + aggregations..topology.switches(), 0),
                ]
            }
            Topology::Rails(r) => vec![
                Tier::new("server", 0..r.servers, 0),
                Tier::new("leaf", r.servers..r.spine(0), 0),
                Tier::new("spine", r.spine(0)..topology.switches(), 0),
            ],
            Topology::Chain(c) => vec![Tier::new("rack", 0..c.switches, 0)],
            Topology::Rotor(r) => vec![Tier::new("rack", 0..r.racks, 0)],
            Topology::Edges(e) => {
                let racks = Racks::new(topology);
                let first_hosts = (0..racks.count()).filter_map(|rack| racks.hosts(rack).next());
                vec![Tier::new("rack", first_hosts.map(|host: HostId| e.switch_of(host).get()), 0)]
            }
        };
        let pods = if let Topology::Tiers(t) = topology { t.pods } else { 0 };
        Self { tiers, pods, switches: topology.switches() }
    }

    fn parse(&self, text: &str) -> Result<Vec<u32>, SelectionError> {
        if text == "all" {
            return Ok((0..self.switches).collect());
        }
        let parts: Vec<(&str, Range<u32>)> =
            text.split('.').map(split_word_and_range).collect::<Result<_, _>>()?;
        let selected = match parts.as_slice() {
            [("s" | "switch", range)] => take_range(range, self.switches, |number| vec![number]),
            [("pod", pods)] => take_range(pods, self.pods, |pod| {
                self.tiers.iter().flat_map(|tier| tier.in_pod(pod)).copied().collect()
            }),
            [(word, range)] => self.tier(word).and_then(|tier| {
                take_range(range, count(&tier.switches), |number| vec![tier.switches[number as usize]])
            }),
            [("pod", pods), (word, range)] => {
                let tier = self.tier(word).filter(|tier| fits(range, tier.per_pod));
                tier.and_then(|tier| take_range(pods, self.pods, |pod| pick(tier.in_pod(pod), range)))
            }
            [(word, range), ("pod", pods)] => {
                let in_pods = |tier: &Tier, position: u32| {
                    let at_position = |pod| tier.in_pod(pod).get(position as usize).copied();
                    pods.clone().filter_map(at_position).collect()
                };
                let tier = self.tier(word).filter(|_| fits(pods, self.pods));
                tier.and_then(|tier| take_range(range, tier.per_pod, |position| in_pods(tier, position)))
            }
            _ => None,
        };
        selected.ok_or_else(|| SelectionError::NotSwitches { text: text.to_owned(), names: self.describe() })
    }

    fn tier(&self, word: &str) -> Option<&Tier> {
        let is_rack = |word: &str| matches!(word, "rack" | "server");
        self.tiers.iter().find(|tier| tier.word == word || is_rack(tier.word) && is_rack(word))
    }

    /// Describes the names of all switches.
    fn describe(&self) -> String {
        let tiers = || self.tiers.iter().filter(|tier| !tier.switches.is_empty());
        let mut names: Vec<String> =
            tiers().map(|tier| range_name(tier.word, count(&tier.switches))).collect();
        if self.pods > 1 {
            let pods = range_name("pod", self.pods);
            let in_pods = tiers().filter(|tier| tier.per_pod > 0);
            let in_pods = in_pods.map(|tier| format!("{pods}.{}", range_name(tier.word, tier.per_pod)));
            names.extend(core::iter::once(pods.clone()).chain(in_pods));
        }
        names.push(range_name("s", self.switches));
        format!("{} and all", names.join(", "))
    }
}

fn count(switches: &[u32]) -> u32 {
    u32::try_from(switches.len()).unwrap_or(u32::MAX)
}

/// Returns whether every number in a range is below `count`.
fn fits(range: &Range<u32>, count: u32) -> bool {
    range.is_empty() || range.end <= count
}

/// Returns what `select` returns for each number in a range, or `None` if a number is not below `count`.
fn take_range(range: &Range<u32>, count: u32, select: impl Fn(u32) -> Vec<u32>) -> Option<Vec<u32>> {
    fits(range, count).then(|| range.clone().flat_map(select).collect())
}

/// Returns the switches at the positions in a range.
fn pick(switches: &[u32], range: &Range<u32>) -> Vec<u32> {
    switches.get(range.start as usize..range.end as usize).unwrap_or_default().to_vec()
}

/// Returns the name of `count` switches: `rack0` or `rack[0-7]`.
fn range_name(word: &str, count: u32) -> String {
    if count == 1 { format!("{word}0") } else { format!("{word}[0-{}]", count.saturating_sub(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Chain, Edges, Link, Rails};
    use poseidon_types::{BitRate, Picos};

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    fn select(topology: &Topology, text: &str) -> Result<Vec<u32>, SelectionError> {
        let switches = select_switches(&OneOrMore(vec![text.into()]), topology)?;
        Ok(switches.into_iter().map(SwitchId::get).collect())
    }

    #[test]
    fn tiers_and_pods_of_a_fat_tree_have_names() {
        // Four pods of two racks and two aggregation switches, and four core switches.
        let tree = Topology::powertcp_fat_tree();
        let select = |text| select(&tree, text);
        assert_eq!(select("rack[0-7]"), Ok((0..8).collect()));
        assert_eq!(select("agg[1-2]"), Ok(vec![9, 10]));
        assert_eq!(select("core3"), Ok(vec![19]));
        assert_eq!(select("pod1"), Ok(vec![2, 3, 10, 11]));
        assert_eq!(select("pod[0-1].rack1"), Ok(vec![1, 3]));
        assert_eq!(select("pod3.agg[0-1]"), Ok(vec![14, 15]));
        assert_eq!(select("agg[0-1].pod[0-1]"), Ok(vec![8, 10, 9, 11]));
        assert_eq!(select("s19"), Ok(vec![19]));
        assert_eq!(select("switch[18-19]"), Ok(vec![18, 19]));
        assert_eq!(select("all"), Ok((0..20).collect()));
        assert_eq!(select("rack[1-0]"), Ok(vec![]));
    }

    #[test]
    fn order_is_kept_and_duplicates_are_not() {
        let text = ["agg0", "rack[0-1]", "rack1", "pod0"].map(String::from).to_vec();
        let switches = select_switches(&OneOrMore(text), &Topology::powertcp_fat_tree());
        let numbers: Vec<u32> =
            switches.expect("the switches exist").into_iter().map(SwitchId::get).collect();
        assert_eq!(numbers, [8, 0, 1, 9]);
    }

    #[test]
    fn rails_have_servers_leaves_and_spines() {
        let rails = Rails {
            servers: 4,
            gpus: 2,
            servers_per_leaf: 2,
            spines: 3,
            local_link: LINK,
            rail_link: LINK,
            spine_link: LINK,
        };
        let select = |text| select(&Topology::Rails(rails), text);
        assert_eq!((select("server[0-1]"), select("rack[0-1]")), (Ok(vec![0, 1]), Ok(vec![0, 1])));
        assert_eq!((select("leaf[2-3]"), select("spine[0-2]")), (Ok(vec![6, 7]), Ok(vec![8, 9, 10])));
        let error = select("pod0").expect_err("there are no pods").to_string();
        assert_eq!(
            error,
            "\"pod0\" does not name switches of this network, which are server[0-3], leaf[0-3], spine[0-2], \
             s[0-10] and all"
        );
    }

    #[test]
    fn chains_and_link_lists_have_only_racks_and_numbers() {
        let chain = Topology::Chain(Chain { switches: 3, hosts: 1, host_link: LINK, middle_link: LINK });
        assert_eq!(select(&chain, "rack[1-2]"), Ok(vec![1, 2]));
        // The switch s1 has no hosts, so the second rack is the switch s2.
        let text = "h0 s0 1 Gbps 1 us\nh1 s2 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns1 s2 1 Gbps 1 us";
        let list = Topology::Edges(Edges::parse(text).expect("the list is valid"));
        assert_eq!(select(&list, "rack[0-1]"), Ok(vec![0, 2]));
        assert_eq!(select(&list, "s1"), Ok(vec![1]));
        for name in ["agg0", "core0", "pod0", "rack2", "s3"] {
            let error = select(&list, name).expect_err("the switch does not exist").to_string();
            assert!(error.ends_with("which are rack[0-1], s[0-2] and all"), "{error}");
        }
    }

    #[test]
    fn names_beyond_the_network_are_rejected() {
        let tree = Topology::powertcp_fat_tree();
        for name in [
            "rack8",
            "agg[0-8]",
            "core4",
            "pod4",
            "pod[0-4].rack0",
            "pod0.rack2",
            "pod0.core0",
            "core0.pod0",
            "pod4294967294",
            "rack[0-4294967294]",
            "s[0-20]",
            "rack0.agg0",
            "pod0.rack0.agg0",
            "host0",
        ] {
            let error = select(&tree, name).expect_err(name).to_string();
            assert!(error.contains("pod[0-3].agg[0-1], s[0-19] and all"), "{error}");
        }
        assert!(select(&tree, "racks").is_err());
        assert!(select(&tree, "rack[3-1]").is_err());
    }
}
