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
    Gap {
        /// The node that has no link.
        missing: Node,
        /// The next node of the same kind that has a link.
        next: Node,
        /// The index of a link of that node.
        edge: usize,
    },
    /// The network has no hosts.
    NoHost,
    /// A host has more than one link.
    TwoLinks {
        /// The host.
        host: HostId,
        /// The index of the second link.
        edge: usize,
    },
    /// A link connects two hosts, or connects a switch to itself.
    InvalidEnds {
        /// One end of the link.
        a: Node,
        /// The other end of the link.
        b: Node,
        /// The index of the link.
        edge: usize,
    },
    /// Hosts are not numbered switch by switch.
    HostOrder {
        /// A host whose switch comes before the switch of the previous host.
        host: HostId,
        /// The switch of the host.
        switch: SwitchId,
        /// The switch of the previous host.
        previous: SwitchId,
        /// The index of the host's link.
        edge: usize,
    },
    /// The network is not connected.
    Disconnected {
        /// A switch that cannot be reached from the first switch.
        switch: SwitchId,
        /// The index of a link of that switch.
        edge: usize,
    },
}

impl EdgeError {
    /// Returns the index of the link that causes the error, if there is one.
    pub const fn edge(&self) -> Option<usize> {
        match self {
            Self::Line { .. } | Self::NoHost => None,
            Self::Gap { edge, .. }
            | Self::TwoLinks { edge, .. }
            | Self::InvalidEnds { edge, .. }
            | Self::HostOrder { edge, .. }
            | Self::Disconnected { edge, .. } => Some(*edge),
        }
    }
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, reason } => write!(f, "line {line}: {reason}"),
            Self::Gap { missing, next, .. } => write!(
                f,
                "there is {next}, but {missing} has no link; number hosts and switches from zero without gaps"
            ),
            Self::NoHost => f.write_str("there is no host; add a link such as \"h0 s0 10 Gbps 1 us\""),
            Self::TwoLinks { host, .. } => write!(f, "{host} has two links; a host must have exactly one"),
            Self::InvalidEnds { a, b, .. } => {
                write!(f, "a link from {a} to {b}: one end must be a switch, and the ends must differ")
            }
            Self::HostOrder { host, switch, previous, .. } => write!(
                f,
                "{host} is at {switch}, but the host before it is at {previous}; number the hosts switch by switch: \
                 the hosts of s0 first, then those of s1"
            ),
            Self::Disconnected { switch, .. } => {
                write!(f, "{switch} cannot be reached from s0; add links between switches that connect them")
            }
        }
    }
}

impl core::error::Error for EdgeError {}

impl Edges {
    /// Builds a network from a list of links.
    pub fn new(edges: Vec<Edge>) -> Result<Self, EdgeError> {
        check_numbers(&edges)?;
        let count = |is_counted: fn(&Node) -> bool| {
            let ends = edges.iter().flat_map(|edge| [edge.a, edge.b]);
            ends.filter(is_counted).max().map_or(0, |last| number_of(last) as usize + 1)
        };
        let hosts = count(|node| matches!(node, Node::Host(_)));
        let switches = count(|node| matches!(node, Node::Switch(_)));
        // Each host's switch, link and index in the list.
        let mut host_links: Vec<Option<(SwitchId, Link, usize)>> = vec![None; hosts];
        let mut ports: Vec<Vec<(Node, Link)>> = vec![Vec::new(); switches];
        for (index, edge) in edges.iter().enumerate() {
            match (edge.a, edge.b) {
                (Node::Host(host), Node::Switch(switch)) | (Node::Switch(switch), Node::Host(host)) => {
                    if host_links[host.index()].replace((switch, edge.link, index)).is_some() {
                        return Err(EdgeError::TwoLinks { host, edge: index });
                    }
                    ports[switch.index()].push((Node::Host(host), edge.link));
                }
                (Node::Switch(a), Node::Switch(b)) if a != b => {
                    ports[a.index()].push((Node::Switch(b), edge.link));
                    ports[b.index()].push((Node::Switch(a), edge.link));
                }
                (a, b) => return Err(EdgeError::InvalidEnds { a, b, edge: index }),
            }
        }
        // Every host has a link, because the numbers have no gaps.
        let host_links: Vec<_> = host_links.into_iter().flatten().collect();
        if host_links.is_empty() {
            return Err(EdgeError::NoHost);
        }
        check_host_order(&host_links)?;
        for switch_ports in &mut ports {
            switch_ports.sort_by_key(|(node, _)| match node {
                Node::Host(host) => (0, host.get()),
                // The sort is stable, so switches stay in list order.
                Node::Switch(_) => (1, 0),
            });
        }
        let hosts = host_links.into_iter().map(|(switch, link, _)| (switch, link)).collect();
        let network = Self { edges, hosts, ports };
        network.check_connected()?;
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
        let (mut edges, mut lines) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let reject = |reason: String| EdgeError::Line { line: index + 1, reason };
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => continue,
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
            lines.push(index + 1);
        }
        Self::new(edges).map_err(|error| match error.edge().map(|edge| lines[edge]) {
            Some(line) => EdgeError::Line { line, reason: error.to_string() },
            None => error,
        })
    }

    /// Returns an error if a switch cannot be reached from the first switch.
    fn check_connected(&self) -> Result<(), EdgeError> {
        let distances = self.distances(SwitchId::new(0));
        let Some(index) = distances.iter().position(|distance| *distance == u32::MAX) else { return Ok(()) };
        let switch = SwitchId::from_index(index);
        let has_switch = |edge: &Edge| [edge.a, edge.b].contains(&Node::Switch(switch));
        let edge = self.edges.iter().position(has_switch).unwrap_or_default();
        Err(EdgeError::Disconnected { switch, edge })
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

/// Returns the number of a host or a switch.
const fn number_of(node: Node) -> u32 {
    match node {
        Node::Host(host) => host.get(),
        Node::Switch(switch) => switch.get(),
    }
}

/// Returns an error if the numbers of hosts or of switches do not start at zero or have a gap.
fn check_numbers(edges: &[Edge]) -> Result<(), EdgeError> {
    let mut nodes: Vec<(Node, usize)> = Vec::with_capacity(2 * edges.len());
    for (index, edge) in edges.iter().enumerate() {
        nodes.extend([(edge.a, index), (edge.b, index)]);
    }
    // Hosts come before switches.
    nodes.sort_unstable();
    nodes.dedup_by_key(|(node, _)| *node);
    let (mut host, mut switch) = (0, 0);
    for (next, edge) in nodes {
        let missing = match next {
            Node::Host(_) => Node::Host(HostId::new(host)),
            Node::Switch(_) => Node::Switch(SwitchId::new(switch)),
        };
        if next != missing {
            return Err(EdgeError::Gap { missing, next, edge });
        }
        match next {
            Node::Host(_) => host += 1,
            Node::Switch(_) => switch += 1,
        }
    }
    Ok(())
}

/// Returns an error if hosts are not numbered switch by switch.
fn check_host_order(hosts: &[(SwitchId, Link, usize)]) -> Result<(), EdgeError> {
    match hosts.windows(2).position(|pair| pair[1].0 < pair[0].0) {
        Some(index) => {
            let ((previous, ..), (switch, _, edge)) = (hosts[index], hosts[index + 1]);
            Err(EdgeError::HostOrder { host: HostId::from_index(index + 1), switch, previous, edge })
        }
        None => Ok(()),
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
            "line 2: h0 has two links; a host must have exactly one"
        );
        assert_eq!(
            error("h0 h1 1 Gbps 1 us"),
            "line 1: a link from h0 to h1: one end must be a switch, and the ends must differ"
        );
        assert!(error("h0 s0 10 Gbit 1 us").starts_with("line 1: "));
        assert!(error("").contains("no host"));
    }

    #[test]
    fn invalid_network_is_rejected_with_line_name_and_remedy() {
        let error = |text: &str| Edges::parse(text).expect_err("the network is invalid").to_string();
        assert_eq!(
            error("# two islands\nh0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us"),
            "line 3: s1 cannot be reached from s0; add links between switches that connect them"
        );
        assert_eq!(
            error("h0 s0 1 Gbps 1 us\n\nh4000000000 s0 1 Gbps 1 us"),
            "line 3: there is h4000000000, but h1 has no link; number hosts and switches from zero without gaps"
        );
        assert_eq!(
            error("h0 s1 1 Gbps 1 us"),
            "line 1: there is s1, but s0 has no link; number hosts and switches from zero without gaps"
        );
        assert_eq!(
            error("h0 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\nh1 s0 1 Gbps 1 us"),
            "line 3: h1 is at s0, but the host before it is at s1; number the hosts switch by switch: the hosts of s0 \
             first, then those of s1"
        );
    }
}
