//! Any network, link by link.

use super::Link;
use core::fmt;
use std::collections::VecDeque;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A host, by number.
    Host(u32),
    /// A switch, by number.
    Switch(u32),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "h{host}"),
            Self::Switch(switch) => write!(f, "s{switch}"),
        }
    }
}

/// A link and its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// One end.
    pub a: End,
    /// The other.
    pub b: End,
    /// The cable between them.
    pub link: Link,
}

/// A connected network of any shape. Each host has one link, to a switch; hosts are numbered switch by switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    edges: Vec<Edge>,
    /// The switch and the link of each host.
    hosts: Vec<(u32, Link)>,
    /// By switch: its ports. Hosts come first, then switches, each in the order of the list.
    ports: Vec<Vec<(End, Link)>>,
}

/// Why a list of links is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeError {
    /// A line of text cannot be read.
    Line {
        /// Its number, from one.
        line: usize,
        /// Why.
        why: String,
    },
    /// The list as a whole makes no sense.
    Network(String),
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, why } => write!(f, "line {line}: {why}"),
            Self::Network(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for EdgeError {}

impl Edges {
    /// A network of these links.
    pub fn new(edges: Vec<Edge>) -> Result<Self, EdgeError> {
        let refuse = |why: String| Err(EdgeError::Network(why));
        let count = |pick: fn(End) -> Option<u32>| {
            let ends = edges.iter().flat_map(|edge| [edge.a, edge.b]);
            ends.filter_map(pick).max().map_or(0, |last| last.saturating_add(1)) as usize
        };
        let hosts = count(|end| if let End::Host(host) = end { Some(host) } else { None });
        let switches = count(|end| if let End::Switch(switch) = end { Some(switch) } else { None });
        if hosts.max(switches) > edges.len() + 1 {
            return refuse("a host or switch has no link: number them from zero without gaps".into());
        }
        let mut of_host: Vec<Option<(u32, Link)>> = vec![None; hosts];
        let mut ports: Vec<Vec<(End, Link)>> = vec![Vec::new(); switches];
        for edge in &edges {
            match (edge.a, edge.b) {
                (End::Host(host), End::Switch(switch)) | (End::Switch(switch), End::Host(host)) => {
                    if of_host[host as usize].replace((switch, edge.link)).is_some() {
                        return refuse(format!("h{host} has two links; give a host one"));
                    }
                    ports[switch as usize].push((End::Host(host), edge.link));
                }
                (End::Switch(a), End::Switch(b)) if a != b => {
                    ports[a as usize].push((End::Switch(b), edge.link));
                    ports[b as usize].push((End::Switch(a), edge.link));
                }
                (a, b) => {
                    return refuse(format!(
                        "a link from {a} to {b}: one end must be a switch, and not the same"
                    ));
                }
            }
        }
        let Some(of_host) = of_host.into_iter().collect::<Option<Vec<_>>>() else {
            return refuse("a host has no link: number them from zero without gaps".into());
        };
        if of_host.is_empty() {
            return refuse("there is no host".into());
        }
        if !of_host.is_sorted_by_key(|(switch, _)| *switch) {
            return refuse(
                "hosts must be numbered switch by switch: all of s0 first, then those of s1".into(),
            );
        }
        for list in &mut ports {
            list.sort_by_key(|(end, _)| match end {
                End::Host(host) => (0, *host),
                // Stable: switches stay in the order of the list.
                End::Switch(_) => (1, 0),
            });
        }
        let network = Self { edges, hosts: of_host, ports };
        if network.distances(0).contains(&u32::MAX) {
            return refuse("not every switch can be reached from s0".into());
        }
        Ok(network)
    }

    /// Reads a network: one link per line, two ends, rate and delay; `#` begins a comment.
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
            let refuse = |why: String| EdgeError::Line { line: index + 1, why };
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [a, b, rate, rate_unit, delay, delay_unit] => edges.push(Edge {
                    a: read_end(a).map_err(refuse)?,
                    b: read_end(b).map_err(refuse)?,
                    link: Link {
                        rate: format!("{rate} {rate_unit}").parse().map_err(|e| refuse(format!("{e}")))?,
                        delay: format!("{delay} {delay_unit}").parse().map_err(|e| refuse(format!("{e}")))?,
                    },
                }),
                _ => return Err(refuse("write two ends, a rate and a delay: \"h0 s0 10 Gbps 1 us\"".into())),
            }
        }
        Self::new(edges)
    }

    /// The links.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        u32::try_from(self.ports.len()).unwrap_or(u32::MAX)
    }

    /// The switch of a host.
    pub fn switch_of(&self, host: u32) -> u32 {
        self.hosts[host as usize].0
    }

    /// The ports of a switch: what is behind each, and the link there.
    pub fn ports(&self, switch: u32) -> &[(End, Link)] {
        &self.ports[switch as usize]
    }

    /// The link of a host.
    pub fn host_link(&self, host: u32) -> Link {
        self.hosts[host as usize].1
    }

    /// How many links each switch is from `switch`.
    pub fn distances(&self, switch: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.ports.len()];
        let mut next = VecDeque::from([switch]);
        distances[switch as usize] = 0;
        while let Some(at) = next.pop_front() {
            for (end, _) in self.ports(at) {
                if let End::Switch(other) = *end
                    && distances[other as usize] == u32::MAX
                {
                    distances[other as usize] = distances[at as usize] + 1;
                    next.push_back(other);
                }
            }
        }
        distances
    }

    /// The links of one of the shortest ways between two hosts: at each switch, the first port that leads nearer.
    pub fn links_between(&self, from: u32, to: u32) -> Vec<Link> {
        let (mut at, goal) = (self.switch_of(from), self.switch_of(to));
        let distances = self.distances(goal);
        let mut links = vec![self.host_link(from)];
        while at != goal {
            let nearer = self.ports(at).iter().find_map(|(end, link)| match *end {
                End::Switch(other) if distances[other as usize] < distances[at as usize] => {
                    Some((other, *link))
                }
                End::Switch(_) | End::Host(_) => None,
            });
            let (other, link) = nearer.expect("a connected network has a nearer neighbour");
            links.push(link);
            at = other;
        }
        links.push(self.host_link(to));
        links
    }
}

fn read_end(word: &str) -> Result<End, String> {
    let number = |digits: &str| digits.parse().ok();
    let end = match word.split_at_checked(1) {
        Some(("h", digits)) => number(digits).map(End::Host),
        Some(("s", digits)) => number(digits).map(End::Switch),
        _ => None,
    };
    end.ok_or_else(|| format!("{word:?} is neither a host (\"h0\") nor a switch (\"s0\")"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Picos};

    #[test]
    fn a_list_of_links_is_a_network() {
        let text = "h0 s0 10 Gbps 1 us\n s0 s1 40 Gbps 2 us # up\n\n s1 s2 40 Gbps 2 us\n h1 s2 10 Gbps 3 us";
        let network = Edges::parse(text).expect("reads");
        assert_eq!((network.hosts(), network.switches()), (2, 3));
        let delays: Vec<u64> = network.links_between(0, 1).iter().map(|link| link.delay.get()).collect();
        assert_eq!(delays, [1_000_000, 2_000_000, 2_000_000, 3_000_000]);
        assert_eq!(network.host_link(1), Link { rate: BitRate::from_gbps(10), delay: Picos::new(3_000_000) });
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused_with_its_line() {
        let refused = |text: &str| Edges::parse(text).expect_err("refused").to_string();
        assert_eq!(
            refused("h0 s0 10 Gbps"),
            "line 1: write two ends, a rate and a delay: \"h0 s0 10 Gbps 1 us\""
        );
        assert_eq!(
            refused("\nx0 s0 1 Gbps 1 us"),
            "line 2: \"x0\" is neither a host (\"h0\") nor a switch (\"s0\")"
        );
        assert_eq!(refused("h0 s0 1 Gbps 1 us\nh0 s0 1 Gbps 1 us"), "h0 has two links; give a host one");
        assert_eq!(
            refused("h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us"),
            "not every switch can be reached from s0"
        );
        assert_eq!(
            refused("h0 h1 1 Gbps 1 us"),
            "a link from h0 to h1: one end must be a switch, and not the same"
        );
        assert!(refused("h0 s0 10 Gbit 1 us").starts_with("line 1: "));
        assert!(refused("").contains("no host"));
    }
}
