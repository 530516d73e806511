//! Arbitrary networks, described by a list of links.

use super::Link;
use core::fmt;
use poseidon_types::{HostId, SwitchId};
use std::collections::VecDeque;

/// A host or switch at one end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "{host}"),
            Self::Switch(switch) => write!(f, "{switch}"),
        }
    }
}

/// A link and its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// One end of the link.
    pub a: Node,
    /// The other end of the link.
    pub b: Node,
    /// The link's rate and delay.
    pub link: Link,
}

/// A connected network of any shape. Each host has exactly one link, which leads to a switch. Hosts are numbered switch
/// by switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    edges: Vec<Edge>,
    /// Each host's switch and link.
    hosts: Vec<(SwitchId, Link)>,
    /// Each switch's ports. Ports to hosts come first, followed by ports to switches in list order.
    ports: Vec<Vec<(Node, Link)>>,
}

/// The reason that a list of links is not a valid network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeError {
    /// A line has a syntax error.
    Line {
        /// The line number, starting at one.
        line: usize,
        /// A description of the error.
        reason: String,
    },
    /// The host or switch numbers have a gap.
    Gap,
    /// The network has no hosts.
    NoHost,
    /// A host has more than one link.
    TwoLinks(HostId),
    /// A link connects two hosts, or connects a switch to itself.
    InvalidEnds(Node, Node),
    /// Hosts are not numbered switch by switch.
    HostOrder,
    /// The network is not connected.
    Disconnected,
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, reason } => write!(f, "line {line}: {reason}"),
            Self::Gap => f.write_str("a host or switch has no link: number them from zero without gaps"),
            Self::NoHost => f.write_str("there is no host"),
            Self::TwoLinks(host) => write!(f, "{host} has two links; a host must have exactly one"),
            Self::InvalidEnds(a, b) => {
                write!(f, "a link from {a} to {b}: one end must be a switch, and the ends must differ")
            }
            Self::HostOrder => f.write_str(
                "hosts must be numbered switch by switch: the hosts of s0 first, then those of s1",
            ),
            Self::Disconnected => f.write_str("not every switch can be reached from s0"),
        }
    }
}

impl core::error::Error for EdgeError {}

impl Edges {
    /// Builds a network from a list of links.
    pub fn new(edges: Vec<Edge>) -> Result<Self, EdgeError> {
        let count = |id_of: fn(Node) -> Option<u32>| {
            let ends = edges.iter().flat_map(|edge| [edge.a, edge.b]);
            ends.filter_map(id_of).max().map_or(0, |last| last.saturating_add(1)) as usize
        };
        let hosts = count(|node| if let Node::Host(host) = node { Some(host.get()) } else { None });
        let switches = count(|node| if let Node::Switch(switch) = node { Some(switch.get()) } else { None });
        if hosts.max(switches) > edges.len() + 1 {
            return Err(EdgeError::Gap);
        }
        let mut host_links: Vec<Option<(SwitchId, Link)>> = vec![None; hosts];
        let mut ports: Vec<Vec<(Node, Link)>> = vec![Vec::new(); switches];
        for edge in &edges {
            match (edge.a, edge.b) {
                (Node::Host(host), Node::Switch(switch)) | (Node::Switch(switch), Node::Host(host)) => {
                    if host_links[host.index()].replace((switch, edge.link)).is_some() {
                        return Err(EdgeError::TwoLinks(host));
                    }
                    ports[switch.index()].push((Node::Host(host), edge.link));
                }
                (Node::Switch(a), Node::Switch(b)) if a != b => {
                    ports[a.index()].push((Node::Switch(b), edge.link));
                    ports[b.index()].push((Node::Switch(a), edge.link));
                }
                (a, b) => return Err(EdgeError::InvalidEnds(a, b)),
            }
        }
        let host_links: Vec<_> = host_links.into_iter().collect::<Option<_>>().ok_or(EdgeError::Gap)?;
        if host_links.is_empty() {
            return Err(EdgeError::NoHost);
        }
        if !host_links.is_sorted_by_key(|(switch, _)| *switch) {
            return Err(EdgeError::HostOrder);
        }
        for switch_ports in &mut ports {
            switch_ports.sort_by_key(|(node, _)| match node {
                Node::Host(host) => (0, host.get()),
                // The sort is stable, so switches stay in list order.
                Node::Switch(_) => (1, 0),
            });
        }
        let network = Self { edges, hosts: host_links, ports };
        if network.distances(SwitchId::new(0)).contains(&u32::MAX) {
            return Err(EdgeError::Disconnected);
        }
        Ok(network)
    }

    /// Parses a network with one link per line. Each line lists two ends, a rate and a delay. `#` starts a comment.
    ///
    /// ```
    /// # use poseidon_plan::topology::Edges;
    /// let text = "h0 s0 10 Gbps 1 us
    ///             h1 s1 10 Gbps 1 us   # the receiver
    ///             s0 s1 40 Gbps 500 ns";
    /// assert_eq!(Edges::parse(text)?.switches(), 2);
    /// # Ok::<(), poseidon_plan::topology::EdgeError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, EdgeError> {
        let mut edges = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let reject = |reason: String| EdgeError::Line { line: index + 1, reason };
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [a, b, rate, rate_unit, delay, delay_unit] => edges.push(Edge {
                    a: parse_node(a).map_err(reject)?,
                    b: parse_node(b).map_err(reject)?,
                    link: Link {
                        rate: format!("{rate} {rate_unit}").parse().map_err(|e| reject(format!("{e}")))?,
                        delay: format!("{delay} {delay_unit}").parse().map_err(|e| reject(format!("{e}")))?,
                    },
                }),
                _ => return Err(reject("write two ends, a rate and a delay: \"h0 s0 10 Gbps 1 us\"".into())),
            }
        }
        Self::new(edges)
    }

    /// Returns the links.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> u32 {
        u32::try_from(self.ports.len()).unwrap_or(u32::MAX)
    }

    /// Returns the switch that a host is connected to.
    pub fn switch_of(&self, host: HostId) -> SwitchId {
        self.hosts[host.index()].0
    }

    /// Returns the neighbor and the link on each port of a switch.
    pub fn ports(&self, switch: SwitchId) -> &[(Node, Link)] {
        &self.ports[switch.index()]
    }

    /// Returns a host's link.
    pub fn host_link(&self, host: HostId) -> Link {
        self.hosts[host.index()].1
    }

    /// Returns the distance from `switch` to every switch, in links.
    pub fn distances(&self, switch: SwitchId) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.ports.len()];
        let mut pending = VecDeque::from([switch]);
        distances[switch.index()] = 0;
        while let Some(switch) = pending.pop_front() {
            for (node, _) in self.ports(switch) {
                if let Node::Switch(neighbor) = *node
                    && distances[neighbor.index()] == u32::MAX
                {
                    distances[neighbor.index()] = distances[switch.index()] + 1;
                    pending.push_back(neighbor);
                }
            }
        }
        distances
    }

    /// Returns the links on a shortest path between two hosts. At each switch, the path uses the first port that leads
    /// closer to the destination.
    pub fn links_between(&self, from: HostId, to: HostId) -> Vec<Link> {
        let (mut switch, destination) = (self.switch_of(from), self.switch_of(to));
        let distances = self.distances(destination);
        let mut links = vec![self.host_link(from)];
        while switch != destination {
            let closer = self.ports(switch).iter().find_map(|(node, link)| match *node {
                Node::Switch(neighbor) if distances[neighbor.index()] < distances[switch.index()] => {
                    Some((neighbor, *link))
                }
                Node::Switch(_) | Node::Host(_) => None,
            });
            let (neighbor, link) = closer.expect("a connected network has a closer neighbor");
            links.push(link);
            switch = neighbor;
        }
        links.push(self.host_link(to));
        links
    }
}

fn parse_node(word: &str) -> Result<Node, String> {
    let number = |digits: &str| digits.parse().ok();
    let node = match word.split_at_checked(1) {
        Some(("h", digits)) => number(digits).map(|host| Node::Host(HostId::new(host))),
        Some(("s", digits)) => number(digits).map(|switch| Node::Switch(SwitchId::new(switch))),
        _ => None,
    };
    node.ok_or_else(|| format!("{word:?} is neither a host (\"h0\") nor a switch (\"s0\")"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Picos};

    #[test]
    fn valid_list_of_links_is_parsed() {
        let text = "h0 s0 10 Gbps 1 us\n s0 s1 40 Gbps 2 us # up\n\n s1 s2 40 Gbps 2 us\n h1 s2 10 Gbps 3 us";
        let network = Edges::parse(text).expect("the list is valid");
        assert_eq!((network.hosts(), network.switches()), (2, 3));
        let delays: Vec<u64> = network
            .links_between(HostId::new(0), HostId::new(1))
            .iter()
            .map(|link| link.delay.get())
            .collect();
        assert_eq!(delays, [1_000_000, 2_000_000, 2_000_000, 3_000_000]);
        let last = Link { rate: BitRate::from_gbps(10), delay: Picos::new(3_000_000) };
        assert_eq!(network.host_link(HostId::new(1)), last);
    }

    #[test]
    fn invalid_list_is_rejected_with_the_cause() {
        let error = |text: &str| Edges::parse(text).expect_err("the list is invalid").to_string();
        assert_eq!(
            error("h0 s0 10 Gbps"),
            "line 1: write two ends, a rate and a delay: \"h0 s0 10 Gbps 1 us\""
        );
        assert_eq!(
            error("\nx0 s0 1 Gbps 1 us"),
            "line 2: \"x0\" is neither a host (\"h0\") nor a switch (\"s0\")"
        );
        assert_eq!(
            error("h0 s0 1 Gbps 1 us\nh0 s0 1 Gbps 1 us"),
            "h0 has two links; a host must have exactly one"
        );
        assert_eq!(error("h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us"), "not every switch can be reached from s0");
        assert_eq!(
            error("h0 h1 1 Gbps 1 us"),
            "a link from h0 to h1: one end must be a switch, and the ends must differ"
        );
        assert!(error("h0 s0 10 Gbit 1 us").starts_with("line 1: "));
        assert!(error("").contains("no host"));
    }
}
