//! Selects hosts, racks and queues by the names that scenarios use.
//!
//! `rack0.host3` is one host and `rack[1-9].host0` is nine hosts. `host[0-15]` numbers hosts across the whole network.
//! In `host[0-23].rack[1-10]` the rack varies fastest: host 0 of each rack comes first, then host 1 of each rack.

use super::OneOrMore;
use super::suggestion::Suggestion;
use core::ops::Range;
use poseidon_plan::patterns::Racks;
use poseidon_types::HostId;

/// An invalid selector of hosts, racks or a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum SelectionError {
    #[error("{text:?}: there is no host {host} in rack {rack}, which has {hosts}; there are {racks} racks")]
    UnknownHost { text: String, host: u32, rack: u32, hosts: usize, racks: u32 },
    #[error("{text:?}: there are only {hosts} hosts")]
    TooFewHosts { text: String, hosts: u32 },
    #[error("{text:?}: there are only {racks} racks")]
    TooFewRacks { text: String, racks: u32 },
    #[error("{text:?} does not name hosts; write \"rack0.host3\", \"rack[1-9].host0\" or \"host[0-15]\"")]
    NotHosts { text: String },
    #[error("{text:?} does not name racks; write \"rack[0-3]\"")]
    NotRacks { text: String },
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
    let ranges: Vec<(&str, Range<u32>)> =
        text.split('.').map(split_word_and_range).collect::<Result<_, _>>()?;
    let host = |rack: u32, host: u32| {
        let mut hosts = racks.hosts(rack);
        let size = hosts.len();
        hosts.nth(host as usize).ok_or_else(|| SelectionError::UnknownHost {
            text: text.to_owned(),
            host,
            rack,
            hosts: size,
            racks: racks.count(),
        })
    };
    match ranges.as_slice() {
        [("host", range)] => {
            let last = range.end.saturating_sub(1);
            if !range.is_empty() && last >= racks.host_count() {
                return Err(SelectionError::TooFewHosts { text: text.to_owned(), hosts: racks.host_count() });
            }
            Ok(range.clone().map(HostId::new).collect())
        }
        [("rack", outer), ("host", inner)] => {
            outer.clone().flat_map(|rack| inner.clone().map(move |number| host(rack, number))).collect()
        }
        [("host", outer), ("rack", inner)] => {
            outer.clone().flat_map(|number| inner.clone().map(move |rack| host(rack, number))).collect()
        }
        _ => Err(SelectionError::NotHosts { text: text.to_owned() }),
    }
}

/// Selects racks, in the order of `selectors`.
pub fn select_racks(selectors: &OneOrMore, racks: &Racks) -> Result<Vec<u32>, SelectionError> {
    let mut selected = Vec::new();
    for text in &selectors.0 {
        match split_word_and_range(text)? {
            ("rack", range) if range.end <= racks.count() => selected.extend(range),
            ("rack", _) => {
                return Err(SelectionError::TooFewRacks { text: text.clone(), racks: racks.count() });
            }
            _ => return Err(SelectionError::NotRacks { text: text.clone() }),
        }
    }
    Ok(selected)
}

/// Splits `host3` or `rack[1-9]` into a word and a range. A range is empty if its end is one less than its start.
fn split_word_and_range(text: &str) -> Result<(&str, Range<u32>), SelectionError> {
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
    }

    #[test]
    fn hosts_that_do_not_exist_are_rejected() {
        let message = |text| select(text).expect_err("the hosts do not exist").to_string();
        assert_eq!(
            message("rack4.host0"),
            "\"rack4.host0\": there is no host 0 in rack 4, which has 0; there are 4 racks"
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
