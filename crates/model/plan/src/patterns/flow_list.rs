//! Flows listed in a file.

use super::error::{check_above_zero, check_ends, lines};
use super::pairs::PairCounters;
use super::{Pattern, PatternError, TextError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{Bytes, HostId, Picos};

/// The flows listed in a file. Each flow uses a separate connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowList {
    /// The flows, in any order.
    pub flows: Vec<Flow>,
}

/// A flow, as described by one line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// The flow size.
    pub size: Bytes,
    /// The flow's start time.
    pub start: Picos,
    /// The flow's priority queue. If `None`, the flow uses the traffic class's queue.
    pub priority: Option<u8>,
}

impl FlowList {
    /// Parses a list with one flow per line. Each line gives the sender, receiver, size, start time and an optional
    /// priority. `#` starts a comment.
    ///
    /// ```
    /// # use poseidon_plan::patterns::FlowList;
    /// let list = FlowList::parse(
    ///     "# from to size start priority
    ///      h0 h5 128 KiB 10 us
    ///      h1 h5   1 MB  20 us 3   # 0 is the highest priority
    ///     ",
    /// )?;
    /// assert_eq!(list.flows[1].priority, Some(3));
    /// # Ok::<(), poseidon_plan::patterns::TextError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let parse = |(line, row)| parse_flow(row).map_err(|reason| TextError { line, reason });
        Ok(Self { flows: lines(text).map(parse).collect::<Result<_, _>>()? })
    }
}

impl Pattern for FlowList {
    fn expected_messages(&self) -> f64 {
        self.flows.len() as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        let mut traffic = Traffic::default();
        let mut counters = PairCounters::default();
        for flow in &self.flows {
            check_ends(flow.from, flow.to)?;
            check_above_zero(flow.size.is_zero(), "size")?;
            let number = counters.next(flow.from, flow.to);
            let mut connection = class.connection(flow.from, flow.to, number);
            connection.priority = flow.priority.unwrap_or(class.priority);
            let connection = traffic.add_connection(connection);
            traffic.add_message(connection, flow.start, Amount::Exactly(flow.size));
        }
        Ok(traffic.grouped(&class.name))
    }
}

fn parse_flow(row: &str) -> Result<Flow, String> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let (flow, priority) = words.split_at(words.len().min(6));
    let &[from, to, size, size_unit, start, start_unit] = flow else {
        return Err("write a sender, a receiver, a size and a start: \"h0 h5 128 KiB 10 us\"".into());
    };
    let (from, to) = (parse_host(from)?, parse_host(to)?);
    let size: Bytes = format!("{size} {size_unit}").parse().map_err(|error| format!("{error}"))?;
    let start = format!("{start} {start_unit}").parse().map_err(|error| format!("{error}"))?;
    if from == to {
        return Err(format!("{from} would send to itself"));
    }
    if size.is_zero() {
        return Err("the flow is empty: give it a size above zero".into());
    }
    let priority = match priority {
        [] => None,
        [word] => Some(word.parse().map_err(|_| format!("{word:?} is not a priority: write 0 to 7"))?),
        [_, extra, ..] => return Err(format!("{extra:?} is unexpected: a line ends after the priority")),
    };
    Ok(Flow { from, to, size, start, priority })
}

fn parse_host(word: &str) -> Result<HostId, String> {
    // Host names have the same syntax as in a list of links.
    let host = word.strip_prefix('h').and_then(|digits| digits.parse().ok());
    host.map(HostId::new).ok_or_else(|| format!("{word:?} is not a host: write \"h0\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_list_is_parsed() {
        let list = FlowList::parse("\n h0 h5 128 KiB 10 us # first\n# none\nh1 h5 1.5 MB 0.5 ns 3\n")
            .expect("the list is valid");
        let flow = |from, size, start, priority| Flow {
            from: HostId::new(from),
            to: HostId::new(5),
            size: Bytes::new(size),
            start: Picos::new(start),
            priority,
        };
        assert_eq!(list.flows, [flow(0, 131_072, 10_000_000, None), flow(1, 1_500_000, 500, Some(3))]);
        let class = TrafficClass { priority: 1, ..TrafficClass::new(1, "list") };
        let traffic = list.generate(&class).expect("the pattern is valid");
        let priorities: Vec<u8> = traffic.connections.iter().map(|c| c.priority).collect();
        assert_eq!(priorities, [1, 3]);
        // The second flow in the list starts first.
        assert_eq!(traffic.into_plan_order().messages[0].start, Picos::new(500));
    }

    #[test]
    fn invalid_line_is_rejected_with_its_line_number() {
        let error = |text: &str| FlowList::parse(text).expect_err("the list is invalid").to_string();
        assert_eq!(
            error("# head\nh0 h5 128 KiB"),
            "line 2: write a sender, a receiver, a size and a start: \"h0 h5 128 KiB 10 us\""
        );
        assert_eq!(error("0 h5 1 MB 0 ns"), "line 1: \"0\" is not a host: write \"h0\"");
        assert_eq!(error("h5 h5 1 MB 0 ns"), "line 1: h5 would send to itself");
        assert_eq!(error("h0 h5 0 B 0 ns"), "line 1: the flow is empty: give it a size above zero");
        assert_eq!(
            error("h0 h5 1 KB 0 ns"),
            "line 1: KB is ambiguous: write kB (1000 bytes) or KiB (1024 bytes)"
        );
        assert_eq!(error("h0 h5 1 MB 0 ns x"), "line 1: \"x\" is not a priority: write 0 to 7");
        assert!(error("h0 h5 1 MB 0 ns 3 4").contains("\"4\" is unexpected"));
    }

    #[test]
    fn parse_never_panics() {
        use proptest::prelude::*;
        proptest!(|(text in "[hs0-9 MBus#\n.]*")| { let _ = FlowList::parse(&text); });
    }
}
