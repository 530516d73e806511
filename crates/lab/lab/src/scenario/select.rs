//! Selects hosts and queues by the names that scenarios use.
//!
//! `rack0.host3` is one host and `rack[1-9].host0` is nine hosts. `host[0-15]` numbers hosts across the whole network.
//! In `pod0.host[0-3]` and `pod[0-1].rack0.host0`, hosts and racks are numbered within a pod. The last part varies
//! fastest: in `host[0-23].rack[1-10]`, host 0 of each rack comes first, then host 1 of each rack. `server` and `gpu` are
//! other words for `rack` and `host`.

use super::OneOrMore;
use super::suggestion::Suggestion;
use core::ops::Range;
use poseidon_plan::patterns::Racks;
use poseidon_types::HostId;

/// An invalid selector of hosts, switches or a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum SelectionError {
    #[error(
        "{text:?}: there is no host {host} in rack {rack}, which has {hosts}; there are {racks} racks, from 0"
    )]
    UnknownHost { text: String, host: u32, rack: u32, hosts: usize, racks: u32 },
    #[error("{text:?}: there are only {hosts} hosts")]
    TooFewHosts { text: String, hosts: u32 },
    #[error("{text:?}: there is no {node} {number} in pod {pod}, which has {count}; there are {pods} pods")]
    UnknownInPod { text: String, node: &'static str, number: u32, pod: u32, count: usize, pods: u32 },
    #[error("{text:?} does not name hosts; write \"rack0.host3\", \"rack[1-9].host0\" or \"host[0-15]\"")]
    NotHosts { text: String },
    #[error("{text:?}: node {node} of the topology file is not a host")]
    NotAHostNode { text: String, node: u32 },
    #[error("{text:?} does not name switches of this network, which are {names}")]
    NotSwitches { text: String, names: String },
    #[error("{text:?} is not a word with a number or a range; write \"rack0\" or \"rack[1-9]\"")]
    NotARange { text: String },
    #[error("{text:?} runs backwards; write the smaller number first")]
    BackwardRange { text: String },
    #[error("{text:?} does not name a queue; write \"last hop of NAME\" or \"hop 1 of NAME\"")]
    NotAQueue { text: String },
    #[error("{text:?}: there is no traffic {traffic:?}; {suggestion}")]
    UnknownTraffic { text: String, traffic: String, suggestion: Suggestion },
}

/// Selects hosts, in the order of `selectors`.
pub fn select_hosts(selectors: &OneOrMore, racks: &Racks) -> Result<Vec<HostId>, SelectionError> {
    let mut selected = Vec::new();
    for text in &selectors.0 {
        selected.extend(parse_hosts(text, racks)?);
    }
    Ok(selected)
}

fn parse_hosts(text: &str, racks: &Racks) -> Result<Vec<HostId>, SelectionError> {
    let parts: Vec<(&str, Range<u32>)> =
        text.split('.').map(split_word_and_range).collect::<Result<_, _>>()?;
    let position = |words: [&str; 2]| parts.iter().position(|(word, _)| words.contains(word));
    let (pod, rack, host) = (position(["pod"; 2]), position(["rack", "server"]), position(["host", "gpu"]));
    let known = [pod, rack, host].iter().flatten().count();
    let Some(host) = host.filter(|_| known == parts.len()) else {
        return Err(SelectionError::NotHosts { text: text.to_owned() });
    };
    if parts.iter().any(|(_, range)| range.is_empty()) {
        return Ok(Vec::new());
    }
    if parts.len() == 1 && parts[0].1.end > racks.host_count() {
        return Err(SelectionError::TooFewHosts { text: text.to_owned(), hosts: racks.host_count() });
    }
    let mut numbers: Vec<u32> = parts.iter().map(|(_, range)| range.start).collect();
    let mut selected = Vec::new();
    // Each round selects another host, so the loop ends after the last host of the network at the latest.
    loop {
        let number = |part: Option<usize>| part.map(|part| numbers[part]);
        selected.push(find_host(text, racks, number(pod), number(rack), numbers[host])?);
        let can_advance = |part: &usize| numbers[*part] + 1 < parts[*part].1.end;
        let Some(advanced) = (0..parts.len()).rev().find(can_advance) else { return Ok(selected) };
        numbers[advanced] += 1;
        for (number, (_, range)) in numbers.iter_mut().zip(&parts).skip(advanced + 1) {
            *number = range.start;
        }
    }
}

/// Finds a host by its number in a rack, in a pod or in the network. The rack's number is relative to the pod, if there
/// is one.
fn find_host(
    text: &str,
    racks: &Racks,
    pod: Option<u32>,
    rack: Option<u32>,
    host: u32,
) -> Result<HostId, SelectionError> {
    let not_in_pod = |node, number, pod, count| {
        let (text, pods) = (text.to_owned(), racks.pods());
        SelectionError::UnknownInPod { text, node, number, pod, count, pods }
    };
    let rack = match (pod, rack) {
        (None, None) => return Ok(HostId::new(host)),
        (Some(pod), None) => {
            let mut hosts = racks.hosts_in_pod(pod);
            let count = hosts.len();
            return hosts.nth(host as usize).ok_or_else(|| not_in_pod("host", host, pod, count));
        }
        (Some(pod), Some(rack)) => {
            let mut racks = racks.racks_in_pod(pod);
            let count = racks.len();
            racks.nth(rack as usize).ok_or_else(|| not_in_pod("rack", rack, pod, count))?
        }
        (None, Some(rack)) => rack,
    };
    let mut hosts = racks.hosts(rack);
    let (count, racks) = (hosts.len(), racks.count());
    let unknown = || SelectionError::UnknownHost { text: text.to_owned(), host, rack, hosts: count, racks };
    hosts.nth(host as usize).ok_or_else(unknown)
}

/// Splits `host3` or `rack[1-9]` into a word and a range. A range is empty if its end is one less than its start.
pub(super) fn split_word_and_range(text: &str) -> Result<(&str, Range<u32>), SelectionError> {
    let not_a_range = || SelectionError::NotARange { text: text.to_owned() };
    let split = text.find(|c: char| c == '[' || c.is_ascii_digit()).ok_or_else(not_a_range)?;
    let (word, range) = text.split_at(split);
    // The exclusive end of a range must fit into a `u32` as well.
    let number = |text: &str| text.trim().parse().ok().filter(|n| *n < u32::MAX).ok_or_else(not_a_range);
    let range = match range.strip_prefix('[').and_then(|range| range.strip_suffix(']')) {
        Some(bounds) => match bounds.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last + 1 < first {
                    return Err(SelectionError::BackwardRange { text: text.to_owned() });
                }
                first..last + 1
            }
            None => number(bounds)?..number(bounds)? + 1,
        },
        None => number(range)?..number(range)? + 1,
    };
    Ok((word, range))
}

/// A queue's position on the path of a traffic pattern's first flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePosition {
    /// The queue at the last hop.
    LastHop,
    /// The queue at a hop, given as a zero-based index.
    Hop(u32),
    /// The circuit of the sender's rack, in a rotor network.
    Circuit,
}

/// Parses a queue position and the name of the traffic pattern whose first flow crosses the queue.
pub fn select_queue<'a>(text: &'a str, traffic: &[&str]) -> Result<(QueuePosition, &'a str), SelectionError> {
    let not_a_queue = || SelectionError::NotAQueue { text: text.to_owned() };
    let (position, name) = text.split_once(" of ").ok_or_else(not_a_queue)?;
    let position = match position.trim() {
        "last hop" => QueuePosition::LastHop,
        "circuit" => QueuePosition::Circuit,
        other => {
            let number = other.strip_prefix("hop ").and_then(|number| number.parse::<u32>().ok());
            QueuePosition::Hop(number.and_then(|number| number.checked_sub(1)).ok_or_else(not_a_queue)?)
        }
    };
    let name = name.trim();
    if traffic.contains(&name) {
        return Ok((position, name));
    }
    let suggestion = Suggestion::new(name, traffic);
    Err(SelectionError::UnknownTraffic { text: text.to_owned(), traffic: name.to_owned(), suggestion })
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;

    fn select(text: &str) -> Result<Vec<u32>, SelectionError> {
        let racks = Racks::new(&Topology::poseidon_clos(4));
        let hosts = select_hosts(&OneOrMore(vec![text.into()]), &racks)?;
        Ok(hosts.into_iter().map(HostId::get).collect())
    }

    #[test]
    fn selectors_expand_to_hosts() {
        assert_eq!(select("rack1.host2"), Ok(vec![26]));
        assert_eq!(select("rack[1-3].host0"), Ok(vec![24, 48, 72]));
        assert_eq!(select("rack[1-2].host[0-1]"), Ok(vec![24, 25, 48, 49]));
        assert_eq!(select("host[0-1].rack[1-2]"), Ok(vec![24, 48, 25, 49]));
        assert_eq!(select("host[3-5]"), Ok(vec![3, 4, 5]));
        assert_eq!(select("rack[1-0].host0"), Ok(vec![]));
        assert_eq!(select("rack[0-4294967290].host[1-0]"), Ok(vec![]));
        assert_eq!(select("server1.gpu2"), Ok(vec![26]));
        assert_eq!(select("gpu[3-5]"), Ok(vec![3, 4, 5]));
    }

    #[test]
    fn hosts_and_racks_are_numbered_within_a_pod() {
        // Four pods of two racks with 32 hosts each.
        let racks = Racks::new(&Topology::powertcp_fat_tree());
        let select = |text: &str| select_hosts(&OneOrMore(vec![text.into()]), &racks);
        let numbers = |text| select(text).map(|hosts| hosts.into_iter().map(HostId::get).collect::<Vec<_>>());
        assert_eq!(numbers("pod1.host[0-2]"), Ok(vec![64, 65, 66]));
        assert_eq!(numbers("pod[0-1].rack1.host0"), Ok(vec![32, 96]));
        assert_eq!(numbers("host[0-1].pod[2-3]"), Ok(vec![128, 192, 129, 193]));
        assert_eq!(numbers("rack[0-1].pod[0-1].host3"), Ok(vec![3, 67, 35, 99]));
        let message = |text| select(text).expect_err("the hosts do not exist").to_string();
        assert_eq!(
            message("pod0.host[60-64]"),
            "\"pod0.host[60-64]\": there is no host 64 in pod 0, which has 64; there are 4 pods"
        );
        assert_eq!(
            message("pod4.rack0.host0"),
            "\"pod4.rack0.host0\": there is no rack 0 in pod 4, which has 0; there are 4 pods"
        );
        for text in ["pod0", "pod0.rack0", "pod0.pod0.host0", "host0.gpu0", "agg0.host0"] {
            assert!(message(text).contains("does not name hosts"), "{text}");
        }
    }

    #[test]
    fn hosts_that_do_not_exist_are_rejected() {
        let message = |text| select(text).expect_err("the hosts do not exist").to_string();
        assert_eq!(
            message("rack4.host0"),
            "\"rack4.host0\": there is no host 0 in rack 4, which has 0; there are 4 racks, from 0"
        );
        assert_eq!(message("host[0-96]"), "\"host[0-96]\": there are only 96 hosts");
        assert!(message("rack[3-1].host0").contains("backwards"));
        assert!(message("hosts").contains("rack0"));
        for text in ["host4294967295", "host[0-4294967295]", "host[4294967295-0]", "host99999999999"] {
            assert!(message(text).contains("is not a word with a number"), "{text}");
        }
    }

    #[test]
    fn queues_are_selected_by_the_path_of_a_flow() {
        let traffic = ["victim", "others"];
        assert_eq!(select_queue("last hop of victim", &traffic), Ok((QueuePosition::LastHop, "victim")));
        assert_eq!(select_queue("hop 1 of others", &traffic), Ok((QueuePosition::Hop(0), "others")));
        assert_eq!(select_queue("circuit of others", &traffic), Ok((QueuePosition::Circuit, "others")));
        assert!(select_queue("hop 0 of others", &traffic).is_err());
        let error = select_queue("last hop of vicitm", &traffic).expect_err("no traffic has that name");
        assert!(error.to_string().contains("did you mean \"victim\"?"));
    }
}
