//! The topology file of HPCC's ns-3 simulator.

use crate::error::{NetworkProblem, TraceError, TraceErrorKind};
use crate::nodes::NodeMap;
use crate::text::{Line, Lines, quote};
use core::str::FromStr;
use poseidon_plan::topology::{Edge, EdgeError, Edges, Link, Node, Topology};
use poseidon_types::text::UnitError;
use poseidon_types::{BitRate, HostId, SwitchId};
use std::io::BufRead;

const HEADER: &str = "the numbers of nodes, switches and links: \"4 2 3\"";
const LINK: &str = "two nodes, rate, delay and error rate: \"0 2 100Gbps 0.001ms 0\"";

/// A network of HPCC's ns-3 simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpccTopology {
    /// The network, as a list of links.
    pub topology: Topology,
    /// The host or switch of each node, indexed by the node number.
    pub nodes: Vec<Node>,
    /// The node number of each host.
    pub host_nodes: Vec<u32>,
    /// The node number of each switch.
    pub switch_nodes: Vec<u32>,
}

impl HpccTopology {
    /// Returns the map from node numbers to hosts, for flow lists with the same node numbers.
    pub fn node_map(&self) -> NodeMap {
        let host = |node: &Node| match node {
            Node::Host(host) => Some(*host),
            Node::Switch(_) => None,
        };
        NodeMap::Table(self.nodes.iter().map(host).collect())
    }
}

/// A link between two nodes, and its line in the file.
#[derive(Clone, Copy)]
struct NodeLink {
    line: u64,
    ends: [u32; 2],
    link: Link,
}

/// Parses a topology file of HPCC's ns-3 simulator.
///
/// The first line gives the numbers of nodes, switches and links. The second line lists the switches. Each further
/// line gives a link: two nodes, rate, delay and error rate. Nodes that are not switches are hosts. Lines after the
/// announced number of links are ignored, as in ns-3.
///
/// A plan numbers hosts switch by switch, so hosts and switches get new numbers. They keep their relative order, except
/// that hosts are sorted by their switch first.
///
/// ```
/// # use poseidon_traces::parse_hpcc_topology;
/// let text = "4 2 3\n0 1\n0 1 400Gbps 0.001ms 0\n2 0 100Gbps 1us 0\n3 1 100Gbps 1us 0\n";
/// let network = parse_hpcc_topology(text.as_bytes())?;
/// assert_eq!((network.topology.hosts(), network.topology.switches()), (2, 2));
/// assert_eq!(network.host_nodes, [2, 3]);
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_hpcc_topology(reader: impl BufRead) -> Result<HpccTopology, TraceError> {
    let mut lines = Lines::new(reader);
    let line = lines.expect_line(HEADER)?;
    let header = line.number;
    let [nodes, switches, links] = line.fixed_words(HEADER)?;
    let nodes = line.parse_u32("number of nodes", nodes)?;
    let switch_count = line.parse_u64("number of switches", switches)?;
    let link_count = line.parse_u64("number of links", links)?;
    // A connected network has at least one link less than nodes. This also bounds the memory for nodes by the links.
    if u64::from(nodes) > link_count.saturating_add(1) {
        let problem = NetworkProblem::TooFewLinks { nodes, links: link_count };
        return Err(line.error(TraceErrorKind::Network(problem)));
    }
    let switches = parse_switches(&mut lines, switch_count, nodes)?;
    let links = parse_links(&mut lines, link_count, nodes)?;
    build_network(header, nodes, &switches, &links)
}

/// Parses the list of switches, which usually takes one line.
fn parse_switches<R: BufRead>(lines: &mut Lines<R>, count: u64, nodes: u32) -> Result<Vec<u32>, TraceError> {
    let mut switches = Vec::new();
    while (switches.len() as u64) < count {
        let line = lines.expect_line("the node numbers of all switches")?;
        for word in line.words() {
            let switch = line.parse_u32("switch", word)?;
            check_node(line, switch, nodes)?;
            switches.push(switch);
        }
        let actual = switches.len() as u64;
        if actual > count {
            return Err(line.error(TraceErrorKind::Count { items: "switches", announced: count, actual }));
        }
    }
    switches.sort_unstable();
    match switches.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(_) => Err(lines.error(TraceErrorKind::Duplicate { item: "a switch" })),
        None => Ok(switches),
    }
}

fn parse_links<R: BufRead>(
    lines: &mut Lines<R>,
    announced: u64,
    nodes: u32,
) -> Result<Vec<NodeLink>, TraceError> {
    let mut links = Vec::new();
    for actual in 0..announced {
        let Some(line) = lines.next_line()? else {
            return Err(lines.error(TraceErrorKind::Count { items: "links", announced, actual }));
        };
        links.push(parse_link(line, nodes)?);
    }
    Ok(links)
}

fn parse_link(line: Line<'_>, nodes: u32) -> Result<NodeLink, TraceError> {
    let [a, b, rate, delay, error_rate] = line.fixed_words(LINK)?;
    let (a, b) = (line.parse_u32("first node", a)?, line.parse_u32("second node", b)?);
    check_node(line, a.max(b), nodes)?;
    if a == b {
        return Err(line.error(TraceErrorKind::SameEnds { node: a }));
    }
    let reject = |problem| Err(line.error(TraceErrorKind::Network(problem)));
    let link = Link { rate: parse_rate(line, rate)?, delay: parse_quantity(line, "delay", delay)? };
    if link.rate.is_zero() {
        return reject(NetworkProblem::ZeroRate);
    }
    if link.delay.is_zero() {
        return reject(NetworkProblem::ZeroDelay);
    }
    if !error_rate.iter().all(|byte| matches!(byte, b'0' | b'.')) {
        return reject(NetworkProblem::BitErrors);
    }
    Ok(NodeLink { line: line.number, ends: [a, b], link })
}

/// Parses a rate. ns-3 also accepts `Gb/s` for `Gbps`.
fn parse_rate(line: Line<'_>, word: &[u8]) -> Result<BitRate, TraceError> {
    match word.strip_suffix(b"b/s") {
        Some(number) => parse_quantity(line, "rate", &[number, b"bps"].concat()),
        None => parse_quantity(line, "rate", word),
    }
}

fn parse_quantity<T: FromStr<Err = UnitError>>(
    line: Line<'_>,
    field: &'static str,
    word: &[u8],
) -> Result<T, TraceError> {
    let text = String::from_utf8_lossy(word);
    text.parse().map_err(|error| line.error(TraceErrorKind::Quantity { field, text: quote(word), error }))
}

fn check_node(line: Line<'_>, node: u32, nodes: u32) -> Result<(), TraceError> {
    if node < nodes { Ok(()) } else { Err(line.error(TraceErrorKind::UnknownNode { node, nodes })) }
}

/// Numbers hosts and switches and builds the network. `switches` is sorted.
fn build_network(
    header: u64,
    nodes: u32,
    switches: &[u32],
    links: &[NodeLink],
) -> Result<HpccTopology, TraceError> {
    let reject = |line, problem| TraceError { line, kind: TraceErrorKind::Network(problem) };
    check_parallel_links(links)?;
    let mut switch_ids = vec![None; nodes as usize];
    for (index, switch) in switches.iter().enumerate() {
        switch_ids[*switch as usize] = Some(SwitchId::from_index(index));
    }
    let mut has_link = vec![false; nodes as usize];
    // Each host's switch and node number.
    let mut hosts: Vec<(SwitchId, u32)> = Vec::new();
    for &NodeLink { line, ends: [a, b], .. } in links {
        let host = match (switch_ids[a as usize], switch_ids[b as usize]) {
            (None, None) => return Err(reject(line, NetworkProblem::HostToHost { a, b })),
            (None, Some(switch)) => Some((switch, a)),
            (Some(switch), None) => Some((switch, b)),
            (Some(_), Some(_)) => None,
        };
        if let Some((_, node)) = host
            && has_link[node as usize]
        {
            return Err(reject(line, NetworkProblem::TwoLinks { node }));
        }
        hosts.extend(host);
        has_link[a as usize] = true;
        has_link[b as usize] = true;
    }
    if let Some((node, _)) = (0..).zip(&has_link).find(|(_, has_link)| !**has_link) {
        return Err(reject(header, NetworkProblem::NoLink { node }));
    }
    hosts.sort_unstable();
    let mut ids: Vec<Node> =
        switch_ids.iter().map(|switch| Node::Switch(switch.unwrap_or_default())).collect();
    for (index, (_, node)) in hosts.iter().enumerate() {
        ids[*node as usize] = Node::Host(HostId::from_index(index));
    }
    let edge = |link: &NodeLink| {
        let [a, b] = link.ends.map(|node| ids[node as usize]);
        Edge { a, b, link: link.link }
    };
    let edges = Edges::new(links.iter().map(edge).collect()).map_err(|error| match error {
        EdgeError::Disconnected { switch, edge } => {
            let (node, from) = (switches[switch.index()], switches[0]);
            reject(links[edge].line, NetworkProblem::Disconnected { node, from })
        }
        error => reject(header, NetworkProblem::Edges(error)),
    })?;
    let topology = Topology::Edges(edges);
    topology.check().map_err(|reason| reject(header, NetworkProblem::TooLarge(reason)))?;
    let host_nodes = hosts.iter().map(|(_, node)| *node).collect();
    Ok(HpccTopology { topology, nodes: ids, host_nodes, switch_nodes: switches.to_vec() })
}

/// Returns an error if two links have the same ends.
fn check_parallel_links(links: &[NodeLink]) -> Result<(), TraceError> {
    let sorted_ends = |link: &NodeLink| (link.ends[0].min(link.ends[1]), link.ends[0].max(link.ends[1]));
    let mut sorted: Vec<((u32, u32), u64)> =
        links.iter().map(|link| (sorted_ends(link), link.line)).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(&[_, ((a, b), line)]) => {
            Err(TraceError { line, kind: TraceErrorKind::Network(NetworkProblem::ParallelLinks { a, b }) })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Picos;

    /// The hosts 0 and 1 at switch 5, and the hosts 3 and 4 at switch 2.
    const MIXED: &str = "6 2 5\n5 2\n0 5 100Gbps 0.001ms 0\n4 2 25Gbps 1000ns 0.000000\n\
                         5 2 0.4Tbps 1us 0\n1 5 100Gb/s 1us 0\n3 2 1Gbps 2us 0\n";

    fn error(text: &str) -> String {
        parse_hpcc_topology(text.as_bytes()).expect_err("the file is invalid").to_string()
    }

    #[test]
    fn hosts_are_numbered_switch_by_switch() {
        let network = parse_hpcc_topology(MIXED.as_bytes()).expect("the file is valid");
        // Node 2 is switch 0, with the hosts 3 and 4. Node 5 is switch 1, with the hosts 0 and 1.
        assert_eq!(network.switch_nodes, [2, 5]);
        assert_eq!(network.host_nodes, [3, 4, 0, 1]);
        for (host, node) in (0..).zip(&network.host_nodes) {
            assert_eq!(network.nodes[*node as usize], Node::Host(HostId::new(host)));
            assert_eq!(network.node_map().host(*node), Some(HostId::new(host)));
        }
        assert_eq!(network.nodes[2], Node::Switch(SwitchId::new(0)));
        assert_eq!(network.nodes[5], Node::Switch(SwitchId::new(1)));
        assert_eq!((network.node_map().host(2), network.node_map().host(6)), (None, None));
    }

    #[test]
    fn rates_and_delays_are_exact() {
        let network = parse_hpcc_topology(MIXED.as_bytes()).expect("the file is valid");
        let link = |gbps, delay| Link { rate: BitRate::from_gbps(gbps), delay: Picos::new(delay) };
        let hosts = [link(1, 2_000_000), link(25, 1_000_000), link(100, 1_000_000), link(100, 1_000_000)];
        for (host, link) in (0..).zip(hosts) {
            assert_eq!(network.topology.host_link(HostId::new(host)), link, "h{host}");
        }
        let path = network.topology.links_between(HostId::new(1), HostId::new(2));
        assert_eq!(path, [link(25, 1_000_000), link(400, 1_000_000), link(100, 1_000_000)]);
    }

    #[test]
    fn lines_after_the_announced_links_are_ignored() {
        let text =
            format!("{MIXED}0 2 25Gbps 0.001ms 0\n\nFirst line: total node #, switch node #, link #\n");
        assert_eq!(parse_hpcc_topology(text.as_bytes()), parse_hpcc_topology(MIXED.as_bytes()));
    }

    #[test]
    fn invalid_header_is_refused() {
        assert_eq!(error("3 1 1\n"), "line 1: 1 links cannot connect 3 nodes; correct the header");
        assert_eq!(
            error("4294967295 1 18446744073709551615\n0\n"),
            "line 2: the header announces 18446744073709551615 links, but the file has 0; correct the header"
        );
        assert_eq!(
            error("3 1 2\n0 1\n"),
            "line 2: the header announces 1 switches, but the file has more; correct the header"
        );
        assert_eq!(error("3 2 2\n0 0\n"), "line 2: a switch is given twice; keep one");
        assert_eq!(error("3 1 2\n3\n"), "line 2: node 3 does not exist; nodes are numbered from 0 to 2");
        assert_eq!(error("3 1 2\n"), "line 2: the file ends too early; add the node numbers of all switches");
    }

    #[test]
    fn invalid_link_is_refused_with_its_line() {
        let error = |links: &str| error(&format!("4 1 3\n0\n{links}"));
        let table = [
            (
                "0 1 1Gbps 1us 1e-6",
                "3: the error rate is not 0, but bit errors are not modelled; set the error rate to 0",
            ),
            (
                "0 1 1Gbps 1us 0.01",
                "3: the error rate is not 0, but bit errors are not modelled; set the error rate to 0",
            ),
            ("0 1 0Gbps 1us 0", "3: the link has the rate 0; give it a rate above zero"),
            ("0 1 1Gbps 0ms 0", "3: the link has the delay 0; give it a delay above zero"),
            ("0 1 1Gbps 5 0", "3: delay \"5\": time without a unit: add one of ps, ns, us, ms, s"),
            ("0 0 1Gbps 1us 0", "3: both ends are node 0; choose two nodes"),
            ("0 4 1Gbps 1us 0", "3: node 4 does not exist; nodes are numbered from 0 to 3"),
            ("0 1 1Gbps 1us 0", "3: the header announces 3 links, but the file has 1; correct the header"),
        ];
        for (link, reason) in table {
            assert_eq!(error(link), format!("line {reason}"), "{link}");
        }
        let link = "1Gbps 1us 0\n";
        let two = |third: &str| error(&format!("0 1 {link}0 2 {link}{third} {link}"));
        assert_eq!(two("3 1"), "line 5: the link connects the hosts 3 and 1; put a switch between them");
        assert_eq!(
            two("1 0"),
            "line 5: nodes 0 and 1 have two links, of which ns-3 uses only one; keep one, with the rate of both"
        );
    }

    #[test]
    fn unconnected_nodes_are_refused() {
        let link = "1Gbps 1us 0\n";
        assert_eq!(
            error(&format!("5 3 4\n0 1 2\n0 1 {link}0 3 {link}1 2 {link}1 3 {link}")),
            "line 6: host 3 has two links; give each host exactly one"
        );
        assert_eq!(
            error(&format!("4 3 3\n0 1 2\n0 1 {link}0 2 {link}1 2 {link}")),
            "line 1: node 3 has no link; connect it or lower the node count"
        );
        // A ring of three switches, and a pair of switches with a host: six links, but two parts.
        let ring = format!("0 1 {link}0 2 {link}1 2 {link}3 4 {link}4 5 {link}");
        assert_eq!(
            error(&format!("6 5 5\n0 1 2 3 4\n{ring}")),
            "line 6: switch 3 cannot be reached from switch 0; add links between switches that connect them"
        );
    }
}
