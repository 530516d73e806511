//! How scenarios name hosts, racks and queues.
//!
//! `rack0.host3` is a host, `rack[1-9].host0` nine of them; `host[0-15]` counts through the network. In `host[0-23].rack[1-10]` the racks
//! run fastest: host 0 of each rack, then host 1 of each.

use super::{OneOrMore, error::advice};
use core::ops::Range;
use poseidon_plan::patterns::Racks;

/// The hosts that texts name, in their order.
pub fn hosts(texts: &OneOrMore, racks: &Racks) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for text in &texts.0 {
        all.extend(hosts_of(text, racks)?);
    }
    Ok(all)
}

fn hosts_of(text: &str, racks: &Racks) -> Result<Vec<u32>, String> {
    let parts: Vec<(&str, Range<u32>)> = text.split('.').map(part).collect::<Result<_, _>>()?;
    let host = |rack: u32, host: u32| {
        let hosts = racks.hosts(rack);
        let number = hosts.start.saturating_add(host);
        hosts.contains(&number).then_some(number).ok_or_else(|| {
            let size = hosts.len();
            format!(
                "{text:?}: there is no host {host} in rack {rack}, which has {size}; there are {} racks",
                racks.count()
            )
        })
    };
    match parts.as_slice() {
        [("host", all)] => {
            let last = all.end.saturating_sub(1);
            if !all.is_empty() && last >= racks.all_hosts() {
                return Err(format!("{text:?}: there are only {} hosts", racks.all_hosts()));
            }
            Ok(all.clone().collect())
        }
        [("rack", outer), ("host", inner)] => {
            outer.clone().flat_map(|rack| inner.clone().map(move |place| host(rack, place))).collect()
        }
        [("host", outer), ("rack", inner)] => {
            outer.clone().flat_map(|place| inner.clone().map(move |rack| host(rack, place))).collect()
        }
        _ => Err(format!(
            "{text:?} names no hosts; write \"rack0.host3\", \"rack[1-9].host0\" or \"host[0-15]\""
        )),
    }
}

/// The racks that texts name.
pub fn racks(texts: &OneOrMore, racks: &Racks) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for text in &texts.0 {
        match part(text)? {
            ("rack", range) if range.end <= racks.count() => all.extend(range),
            ("rack", _) => return Err(format!("{text:?}: there are only {} racks", racks.count())),
            _ => return Err(format!("{text:?} names no racks; write \"rack[0-3]\"")),
        }
    }
    Ok(all)
}

/// A word and a range: `host3`, `rack[1-9]`. A range that ends one before it begins is empty.
fn part(text: &str) -> Result<(&str, Range<u32>), String> {
    let wrong = || format!("{text:?} is no word with a number or a range; write \"rack0\" or \"rack[1-9]\"");
    let at = text.find(|c: char| c == '[' || c.is_ascii_digit()).ok_or_else(wrong)?;
    let (word, range) = text.split_at(at);
    // A range ends behind its last number, which must be one as well.
    let number = |text: &str| text.trim().parse().ok().filter(|n| *n < u32::MAX).ok_or_else(wrong);
    let range = match range.strip_prefix('[').and_then(|range| range.strip_suffix(']')) {
        Some(inside) => match inside.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last + 1 < first {
                    return Err(format!("{text:?} runs backwards; write the smaller number first"));
                }
                first..last + 1
            }
            None => number(inside)?..number(inside)? + 1,
        },
        None => number(range)?..number(range)? + 1,
    };
    Ok((word, range))
}

/// Which queue on the way of a traffic's first flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last.
    LastHop,
    /// From zero.
    Hop(u32),
    /// The circuit of its rack, in a rotor.
    Circuit,
}

/// A queue by the way of a traffic's first flow.
pub fn queue<'a>(text: &'a str, traffic: &[&str]) -> Result<(Place, &'a str), String> {
    let wrong = || format!("{text:?} names no queue; write \"last hop of NAME\" or \"hop 1 of NAME\"");
    let (hop, name) = text.split_once(" of ").ok_or_else(wrong)?;
    let hop = match hop.trim() {
        "last hop" => Place::LastHop,
        "circuit" => Place::Circuit,
        other => {
            let number = other.strip_prefix("hop ").and_then(|number| number.parse::<u32>().ok());
            Place::Hop(number.and_then(|number| number.checked_sub(1)).ok_or_else(wrong)?)
        }
    };
    let name = name.trim();
    if traffic.contains(&name) {
        Ok((hop, name))
    } else {
        Err(format!("{text:?}: there is no traffic {name:?}; {}", advice(name, traffic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;

    fn named(text: &str) -> Result<Vec<u32>, String> {
        hosts(&OneOrMore(vec![text.into()]), &Racks::of(&Topology::poseidon_clos(4)))
    }

    #[test]
    fn hosts_have_names() {
        assert_eq!(named("rack1.host2"), Ok(vec![26]));
        assert_eq!(named("rack[1-3].host0"), Ok(vec![24, 48, 72]));
        assert_eq!(named("rack[1-2].host[0-1]"), Ok(vec![24, 25, 48, 49]));
        assert_eq!(named("host[0-1].rack[1-2]"), Ok(vec![24, 48, 25, 49]));
        assert_eq!(named("host[3-5]"), Ok(vec![3, 4, 5]));
        assert_eq!(named("rack[1-0].host0"), Ok(vec![]));
    }

    #[test]
    fn hosts_that_are_not_there_are_refused() {
        let said = |text| named(text).expect_err("refused");
        assert_eq!(
            said("rack4.host0"),
            "\"rack4.host0\": there is no host 0 in rack 4, which has 0; there are 4 racks"
        );
        assert_eq!(said("host[0-96]"), "\"host[0-96]\": there are only 96 hosts");
        assert!(said("rack[3-1].host0").contains("backwards"));
        assert!(said("hosts").contains("rack0"));
        for text in ["host4294967295", "host[0-4294967295]", "host[4294967295-0]", "host99999999999"] {
            assert!(said(text).contains("is no word with a number"), "{text}");
        }
    }

    #[test]
    fn queues_are_named_by_a_flow_on_their_way() {
        let traffic = ["victim", "others"];
        assert_eq!(queue("last hop of victim", &traffic), Ok((Place::LastHop, "victim")));
        assert_eq!(queue("hop 1 of others", &traffic), Ok((Place::Hop(0), "others")));
        assert_eq!(queue("circuit of others", &traffic), Ok((Place::Circuit, "others")));
        assert!(queue("hop 0 of others", &traffic).is_err());
        assert!(queue("last hop of vicitm", &traffic).expect_err("refused").contains("victim"));
    }
}
