//! Topologies of htsim: `.topo` files.

use crate::error::{NetworkProblem, NumberProblem, TraceError, TraceErrorKind};
use crate::text::{Line, Lines};
use poseidon_plan::topology::{Link, Tiers, Topology};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};
use std::io::BufRead;

const HEADER: &str = "Nodes, Tiers, Podsize or Tier and a number";
const TIER: &str = "Tier, Downlink_speed_Gbps, Downlink_Latency_ns, Switch_Latency_ns, Radix_Down, Radix_Up, \
                    Queue_Down, Queue_Up, Oversubscribed or Bundle and a number";

/// A network of htsim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtsimTopology {
    /// The network.
    pub topology: Topology,
    /// The settings of each tier's switches: rack switches, aggregation switches and core switches.
    pub tiers: Vec<TierSettings>,
}

/// The settings of a tier's switches that are not part of the topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSettings {
    /// The delay of a packet in the switch. If `None`, htsim takes it from its command line.
    pub switch_latency: Option<Picos>,
    /// The size of a queue that leads up. If `None`, htsim takes it from its command line.
    pub queue_up: Option<Bytes>,
    /// The size of a queue that leads down. If `None`, htsim takes it from its command line.
    pub queue_down: Option<Bytes>,
}

impl HtsimTopology {
    /// Returns the switch latency, if it is the same in all tiers and the file gives it.
    pub fn switch_latency(&self) -> Option<Picos> {
        common_value(self.tiers.iter().map(|tier| tier.switch_latency))
    }

    /// Returns the queue size, if it is the same at all ports and the file gives it.
    pub fn queue_size(&self) -> Option<Bytes> {
        // No queue leads up from the top tier.
        let (_, lower_tiers) = self.tiers.split_last()?;
        let queues_up = lower_tiers.iter().map(|tier| tier.queue_up);
        common_value(queues_up.chain(self.tiers.iter().map(|tier| tier.queue_down)))
    }
}

/// Returns the common value of several settings.
fn common_value<T: Copy + PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

/// Parses a topology of htsim with two or three tiers.
///
/// The header gives the number of hosts (`Nodes`), the number of tiers and the number of hosts per pod. A block for
/// each tier gives the links that lead down from its switches, and the numbers of links that lead down and up. Keys are
/// not case-sensitive. A rack's hosts are consecutive, so node `n` is host `n`.
///
/// htsim connects aggregation switch `i` of each pod to the cores `i`, `i + a`, `i + 2a` and so on, where `a` is the
/// number of aggregation switches per pod. In a plan, these cores are group `i` and have consecutive numbers. The
/// networks are the same except for the numbers of the cores.
///
/// ```
/// # use poseidon_traces::parse_htsim_topology;
/// let text = "Nodes 32\nTiers 2\nPodsize 32
///             Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 2\nDownlink_Latency_ns 1000\nOversubscribed 4
///             Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000";
/// let network = parse_htsim_topology(text.as_bytes())?;
/// assert_eq!((network.topology.hosts(), network.topology.switches()), (32, 6));
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_htsim_topology(reader: impl BufRead) -> Result<HtsimTopology, TraceError> {
    let mut lines = Lines::new(reader);
    let mut file = TopoFile::default();
    while let Some(line) = lines.next_line()? {
        file.parse_line(line)?;
    }
    file.build(lines.last_number())
}

/// The settings of a file.
#[derive(Default)]
struct TopoFile {
    nodes: Option<Setting>,
    tiers: Option<Setting>,
    pod_size: Option<Setting>,
    blocks: [Block; 3],
    /// The tier whose block is being read.
    current: Option<usize>,
}

/// A number and its line.
#[derive(Clone, Copy)]
struct Setting {
    number: u32,
    line: u64,
}

/// The settings of a tier.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The line of its beginning, if the file has the block.
    line: Option<u64>,
    speed: Option<Setting>,
    latency: Option<Setting>,
    radix_down: Option<Setting>,
    radix_up: Option<Setting>,
    oversubscribed: Option<Setting>,
    bundle: Option<Setting>,
    switch_latency: Option<Setting>,
    queue_down: Option<Setting>,
    queue_up: Option<Setting>,
}

/// The links and ports that lead down from the switches of a tier.
#[derive(Clone, Copy)]
struct Downlinks {
    link: Link,
    gbps: u32,
    radix: Setting,
}

impl TopoFile {
    fn parse_line(&mut self, line: Line<'_>) -> Result<(), TraceError> {
        let syntax = if self.current.is_some() { TIER } else { HEADER };
        let [key, word] = line.fixed_words(syntax)?;
        let name = key.to_ascii_lowercase();
        if name == b"tier" {
            return self.parse_tier(line, word);
        }
        let slot = match self.current {
            None => match &name[..] {
                b"nodes" => Some(("Nodes", &mut self.nodes)),
                b"tiers" => Some(("Tiers", &mut self.tiers)),
                b"podsize" => Some(("Podsize", &mut self.pod_size)),
                _ => None,
            },
            Some(tier) => self.blocks[tier].find_setting(&name),
        };
        let (item, slot) = slot.ok_or_else(|| line.unknown_word(key, syntax))?;
        let number = line.parse_u32(item, word)?;
        // A switch latency of zero is usual. htsim regards any other zero as missing.
        if number == 0 && item != "Switch_Latency_ns" {
            return Err(line.number_error(item, word, NumberProblem::Zero));
        }
        if item == "Tiers" && !(2..=3).contains(&number) {
            return Err(line.unknown_word(word, "2 or 3 tiers"));
        }
        match slot.replace(Setting { number, line: line.number }) {
            None => Ok(()),
            Some(_) => Err(line.error(TraceErrorKind::Duplicate { item })),
        }
    }

    /// Parses the first line of a tier's block.
    fn parse_tier(&mut self, line: Line<'_>, word: &[u8]) -> Result<(), TraceError> {
        let tier = line.parse_u32("Tier", word)? as usize;
        let Some(block) = self.blocks.get_mut(tier) else {
            return Err(line.unknown_word(word, "Tier 0, Tier 1 or Tier 2"));
        };
        self.current = Some(tier);
        match block.line.replace(line.number) {
            None => Ok(()),
            Some(_) => Err(line.error(TraceErrorKind::Duplicate { item: "the tier" })),
        }
    }

    const fn block(&self, tier: u32) -> &Block {
        &self.blocks[tier as usize]
    }

    /// Builds the network. Errors about missing settings of the header have the number of the last line.
    fn build(&self, last_line: u64) -> Result<HtsimTopology, TraceError> {
        let missing = |field| move || missing(last_line, field);
        let nodes = self.nodes.ok_or_else(missing("Nodes"))?;
        let tiers = self.tiers.ok_or_else(missing("Tiers"))?;
        let pod_size = self.pod_size.ok_or_else(missing("Podsize"))?;
        let top = tiers.number - 1;
        if top == 1 && self.blocks[2].line.is_some() {
            return Err(mismatch("Tiers", None, tiers, "the number of Tier blocks", 3));
        }
        let downlinks = |tier: u32| {
            let line = self.block(tier).line;
            let line = line.ok_or_else(missing(["Tier 0", "Tier 1", "Tier 2"][tier as usize]))?;
            self.block(tier).downlinks(tier, line)
        };
        let (rack_tier, aggregation_tier, top_tier) = (downlinks(0)?, downlinks(1)?, downlinks(top)?);
        self.block(top).check_top(top)?;
        let hosts = rack_tier.radix.number;
        check_multiple("Nodes", nodes, "a multiple of Podsize", pod_size.number)?;
        check_multiple("Podsize", pod_size, "a multiple of Radix_Down of tier 0", hosts)?;
        if top == 1 && pod_size.number != nodes.number {
            let rule = "the number of nodes, because there are two tiers";
            return Err(mismatch("Podsize", None, pod_size, rule, nodes.number));
        }
        let (pods, racks) = (nodes.number / pod_size.number, pod_size.number / hosts);
        check_radix(1, aggregation_tier, "the number of racks per pod", racks)?;
        let aggregation = self.block(0).uplinks(0, rack_tier, aggregation_tier)?;
        let cores = if top == 2 {
            check_radix(2, top_tier, "the number of pods", pods)?;
            self.block(1).uplinks(1, aggregation_tier, top_tier)?
        } else {
            0
        };
        let topology = Topology::Tiers(Tiers {
            pods,
            racks,
            hosts,
            aggregation,
            cores,
            host_link: rack_tier.link,
            rack_link: aggregation_tier.link,
            // Without cores, the plan does not use this link.
            core_link: top_tier.link,
        });
        topology.check().map_err(|reason| network_error(nodes.line, NetworkProblem::TooLarge(reason)))?;
        Ok(HtsimTopology {
            topology,
            tiers: self.blocks[..=top as usize].iter().map(Block::settings).collect(),
        })
    }
}

impl Block {
    /// Returns the setting with this name in lower case, and its usual spelling.
    fn find_setting(&mut self, name: &[u8]) -> Option<(&'static str, &mut Option<Setting>)> {
        Some(match name {
            b"downlink_speed_gbps" => ("Downlink_speed_Gbps", &mut self.speed),
            b"downlink_latency_ns" => ("Downlink_Latency_ns", &mut self.latency),
            b"switch_latency_ns" => ("Switch_Latency_ns", &mut self.switch_latency),
            b"radix_down" => ("Radix_Down", &mut self.radix_down),
            b"radix_up" => ("Radix_Up", &mut self.radix_up),
            b"queue_down" => ("Queue_Down", &mut self.queue_down),
            b"queue_up" => ("Queue_Up", &mut self.queue_up),
            b"oversubscribed" => ("Oversubscribed", &mut self.oversubscribed),
            b"bundle" => ("Bundle", &mut self.bundle),
            _ => return None,
        })
    }

    /// Returns the links and ports that lead down. `line` is the line of the block.
    fn downlinks(&self, tier: u32, line: u64) -> Result<Downlinks, TraceError> {
        let missing = |field| move || missing(line, field);
        let gbps = self.speed.ok_or_else(missing("Downlink_speed_Gbps"))?.number;
        let delay = self.latency.ok_or_else(missing("Downlink_Latency_ns"))?.number;
        let radix = self.radix_down.ok_or_else(missing("Radix_Down"))?;
        if let Some(bundle) = self.bundle.filter(|bundle| bundle.number > 1) {
            return Err(network_error(bundle.line, NetworkProblem::Bundle { tier, links: bundle.number }));
        }
        let link = Link {
            rate: BitRate::from_gbps(u64::from(gbps)),
            delay: Picos::from_nanos(Nanos::new(u64::from(delay))),
        };
        Ok(Downlinks { link, gbps, radix })
    }

    /// Checks that the top tier has no settings for links that lead up.
    fn check_top(&self, tier: u32) -> Result<(), TraceError> {
        let oversubscribed = self.oversubscribed.filter(|ratio| ratio.number != 1);
        let settings =
            [("Radix_Up", self.radix_up), ("Queue_Up", self.queue_up), ("Oversubscribed", oversubscribed)];
        match settings.into_iter().find_map(|(name, setting)| Some((name, setting?.line))) {
            Some((setting, line)) => Err(network_error(line, NetworkProblem::TopTier { setting, tier })),
            None => Ok(()),
        }
    }

    /// Returns the number of links that lead up. Checks that the capacity of the links that lead down is
    /// `Oversubscribed` times that of the links that lead up.
    fn uplinks(&self, tier: u32, down: Downlinks, up: Downlinks) -> Result<u32, TraceError> {
        let radix_up = self.radix_up.ok_or_else(|| missing(down.radix.line, "Radix_Up"))?;
        let ratio = self.oversubscribed.unwrap_or(Setting { number: 1, line: radix_up.line });
        let capacity_down = u64::from(down.radix.number) * u64::from(down.gbps);
        let capacity_up = u64::from(radix_up.number) * u64::from(up.gbps);
        if u128::from(capacity_down) == u128::from(capacity_up) * u128::from(ratio.number) {
            return Ok(radix_up.number);
        }
        let problem = NetworkProblem::Mismatch {
            setting: "Oversubscribed",
            tier: Some(tier),
            value: u64::from(ratio.number),
            rule: "the capacity of its downlinks divided by that of its uplinks, without a remainder",
            required: capacity_down / capacity_up.max(1),
        };
        Err(network_error(ratio.line, problem))
    }

    fn settings(&self) -> TierSettings {
        let bytes = |setting: Option<Setting>| setting.map(|setting| Bytes::new(u64::from(setting.number)));
        let nanos = |setting: Setting| Nanos::new(u64::from(setting.number));
        TierSettings {
            switch_latency: self.switch_latency.map(|setting| Picos::from_nanos(nanos(setting))),
            queue_up: bytes(self.queue_up),
            queue_down: bytes(self.queue_down),
        }
    }
}

const fn missing(line: u64, field: &'static str) -> TraceError {
    TraceError { line, kind: TraceErrorKind::Missing { field } }
}

const fn network_error(line: u64, problem: NetworkProblem) -> TraceError {
    TraceError { line, kind: TraceErrorKind::Network(problem) }
}

fn mismatch(
    setting: &'static str,
    tier: Option<u32>,
    actual: Setting,
    rule: &'static str,
    required: u32,
) -> TraceError {
    let (value, required) = (u64::from(actual.number), u64::from(required));
    network_error(actual.line, NetworkProblem::Mismatch { setting, tier, value, rule, required })
}

/// Checks the number of links that lead down from a switch.
fn check_radix(tier: u32, down: Downlinks, rule: &'static str, required: u32) -> Result<(), TraceError> {
    if down.radix.number == required {
        return Ok(());
    }
    Err(mismatch("Radix_Down", Some(tier), down.radix, rule, required))
}

fn check_multiple(
    setting: &'static str,
    actual: Setting,
    rule: &'static str,
    divisor: u32,
) -> Result<(), TraceError> {
    if actual.number.is_multiple_of(divisor) {
        return Ok(());
    }
    Err(mismatch(setting, None, actual, rule, divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rack has 4 links of 100 Gbps down and 2 links of 200 Gbps up.
    const THREE_TIERS: &str = "Nodes 128\nTiers 3\nPodsize 16\n\n\
        Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 2\nDownlink_Latency_ns 1000\n\
        Switch_Latency_ns 500\nQueue_Up 9000\nQueue_Down 9000\n\n\
        tier 1\nOVERSUBSCRIBED 4\nDownlink_speed_Gbps 200\nRadix_Down 4\nRadix_Up 1\nDownlink_Latency_ns 2000\n\
        Switch_Latency_ns 500\nQueue_Up 9000\nQueue_Down 9000\nBundle 1\n\n\
        Tier 2\nDownlink_speed_Gbps 200\nRadix_Down 8\nDownlink_Latency_ns 3000\nSwitch_Latency_ns 500\n\
        Queue_Down 9000\n";

    fn parse(text: &str) -> Result<HtsimTopology, TraceError> {
        parse_htsim_topology(text.as_bytes())
    }

    /// Returns the error after one replacement in a valid file.
    fn error(from: &str, to: &str) -> String {
        assert!(THREE_TIERS.contains(from), "{from}");
        let error = parse(&THREE_TIERS.replacen(from, to, 1)).expect_err("the file is invalid").to_string();
        error.split_once(": ").expect("the error names a line").1.into()
    }

    #[test]
    fn three_tiers_have_the_given_shape() {
        let network = parse(THREE_TIERS).expect("the file is valid");
        let link =
            |gbps, ns| Link { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(Nanos::new(ns)) };
        let tiers = Tiers {
            pods: 8,
            racks: 4,
            hosts: 4,
            aggregation: 2,
            cores: 1,
            host_link: link(100, 1_000),
            rack_link: link(200, 2_000),
            core_link: link(200, 3_000),
        };
        assert_eq!(network.topology, Topology::Tiers(tiers));
        assert_eq!(network.switch_latency(), Some(Picos::new(500_000)));
        assert_eq!(network.queue_size(), Some(Bytes::new(9_000)));
        assert_eq!(network.tiers.len(), 3);
    }

    #[test]
    fn settings_that_differ_between_tiers_are_reported_per_tier() {
        let text = THREE_TIERS.replacen("Switch_Latency_ns 500", "Switch_Latency_ns 0", 1);
        let network = parse(&text.replacen("Queue_Up 9000\n", "", 1)).expect("the file is valid");
        assert_eq!((network.switch_latency(), network.queue_size()), (None, None));
        let latencies: Vec<_> =
            network.tiers.iter().map(|tier| tier.switch_latency.map(Picos::get)).collect();
        assert_eq!(latencies, [Some(0), Some(500_000), Some(500_000)]);
        assert_eq!(network.tiers[0].queue_up, None);
    }

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        let table = [
            ("Nodes 128", "Nodes 100", "Nodes is 100, but it must be a multiple of Podsize (16); change one"),
            (
                "Podsize 16",
                "Podsize 2",
                "Podsize is 2, but it must be a multiple of Radix_Down of tier 0 (4); change one",
            ),
            ("Tiers 3", "Tiers 4", "\"4\" is unknown; write 2 or 3 tiers"),
            ("Tiers 3", "Tiers 2", "Tiers is 2, but it must be the number of Tier blocks (3); change one"),
            (
                "200\nRadix_Down 4",
                "200\nRadix_Down 5",
                "Radix_Down of tier 1 is 5, but it must be the number of racks per pod (4); change one",
            ),
            (
                "Radix_Down 8",
                "Radix_Down 4",
                "Radix_Down of tier 2 is 4, but it must be the number of pods (8); change one",
            ),
            (
                "Radix_Up 2",
                "Radix_Up 1",
                "Oversubscribed of tier 0 is 1, but it must be the capacity of its downlinks divided by that of its \
                 uplinks, without a remainder (2); change one",
            ),
            (
                "Radix_Down 8\n",
                "Radix_Down 8\nRadix_Up 1\n",
                "Radix_Up has no meaning in tier 2, because no link leads up from the top tier; remove it",
            ),
            (
                "Bundle 1",
                "Bundle 3",
                "tier 1 bundles 3 links; multiply its Downlink_speed_Gbps by 3, divide its Radix_Down and the \
                 Radix_Up below it by 3, and set Bundle to 1",
            ),
        ];
        for (from, to, reason) in table {
            assert_eq!(error(from, to), reason);
        }
    }

    #[test]
    fn two_tiers_form_one_pod() {
        let text = "Nodes 32\nTiers 2\nPodsize 16\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 8\n\
                    Downlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1\n";
        assert_eq!(
            parse(text).expect_err("there are two pods").to_string(),
            "line 3: Podsize is 16, but it must be the number of nodes, because there are two tiers (32); change one"
        );
    }

    #[test]
    fn invalid_setting_is_refused_with_its_line() {
        let error = |text: &str| parse(text).expect_err("the file is invalid").to_string();
        assert_eq!(error("Nodes 0"), "line 1: Nodes \"0\" is zero; write a number above zero");
        assert_eq!(error("Nodes 1\nnodes 1"), "line 2: Nodes is given twice; keep one");
        assert_eq!(error("Tier 0\nTier 0"), "line 2: the tier is given twice; keep one");
        assert_eq!(error("Tier 3"), "line 1: \"3\" is unknown; write Tier 0, Tier 1 or Tier 2");
        assert!(error("Radix_Down 1").starts_with("line 1: \"Radix_Down\" is unknown; write Nodes, Tiers"));
        assert!(error("Tier 0\nNodes 1").starts_with("line 2: \"Nodes\" is unknown; write Tier, Downlink"));
        assert!(error("Nodes").starts_with("line 1: the line has too few or too many words; write Nodes"));
        assert_eq!(error(""), "line 1: Nodes is missing; add it");
        assert_eq!(error("Nodes 4\nTiers 2\nPodsize 4\n"), "line 3: Tier 0 is missing; add it");
        assert_eq!(
            error("Nodes 4\nTiers 2\nPodsize 4\nTier 0\nRadix_Down 4\n"),
            "line 4: Downlink_speed_Gbps is missing; add it"
        );
    }
}
