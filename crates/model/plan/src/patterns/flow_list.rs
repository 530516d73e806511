//! What a file says.

use super::error::{check_above_zero, check_ends, lines};
use super::pairs::Twins;
use super::{Class, Pattern, PatternError, TextError, Traffic};
use crate::traffic::Amount;
use poseidon_types::{Bytes, Picos};

/// Flows that a file lists, each over a new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowList {
    /// In any order.
    pub flows: Vec<Flow>,
}

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who sends.
    pub from: u32,
    /// To whom.
    pub to: u32,
    /// How much.
    pub size: Bytes,
    /// When.
    pub start: Picos,
    /// In which queue; `None` for that of the class.
    pub priority: Option<u8>,
}

impl FlowList {
    /// Reads a list: one flow per line, who sends to whom, size and start, and a priority if it has one of its own; `#` begins a comment.
    ///
    /// ```
    /// # use poseidon_plan::patterns::FlowList;
    /// let list = FlowList::parse(
    ///     "# from to size start priority
    ///      h0 h5 128 KiB 10 us
    ///      h1 h5   1 MB  20 us 3   # urgent is 0
    ///     ",
    /// )?;
    /// assert_eq!(list.flows[1].priority, Some(3));
    /// # Ok::<(), poseidon_plan::patterns::TextError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let read = |(line, row)| read_flow(row).map_err(|why| TextError { line, why });
        Ok(Self { flows: lines(text).map(read).collect::<Result<_, _>>()? })
    }
}

impl Pattern for FlowList {
    fn expected_messages(&self) -> f64 {
        self.flows.len() as f64
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        let mut traffic = Traffic::default();
        let mut twins = Twins::default();
        for flow in &self.flows {
            check_ends(flow.from, flow.to)?;
            check_above_zero(flow.size.is_zero(), "size")?;
            let twin = twins.next(flow.from, flow.to);
            let mut connection = class.connection(flow.from, flow.to, twin);
            connection.priority = flow.priority.unwrap_or(class.priority);
            let connection = traffic.connect(connection);
            traffic.send(connection, flow.start, Amount::Exactly(flow.size));
        }
        Ok(traffic.grouped(&class.name))
    }
}

fn read_flow(row: &str) -> Result<Flow, String> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let (flow, priority) = words.split_at(words.len().min(6));
    let &[from, to, size, size_unit, start, start_unit] = flow else {
        return Err("write who sends to whom, a size and a start: \"h0 h5 128 KiB 10 us\"".into());
    };
    let (from, to) = (read_host(from)?, read_host(to)?);
    let size: Bytes = format!("{size} {size_unit}").parse().map_err(|error| format!("{error}"))?;
    let start = format!("{start} {start_unit}").parse().map_err(|error| format!("{error}"))?;
    if from == to {
        return Err(format!("h{from} would send to itself"));
    }
    if size.is_zero() {
        return Err("a flow of nothing: give it a size above zero".into());
    }
    let priority = match priority {
        [] => None,
        [word] => Some(word.parse().map_err(|_| format!("{word:?} is not a priority: write 0 to 7"))?),
        [_, more, ..] => return Err(format!("{more:?} is too much: a priority is the last on a line")),
    };
    Ok(Flow { from, to, size, start, priority })
}

fn read_host(word: &str) -> Result<u32, String> {
    // As in a list of links, where switches have numbers of their own.
    let host = word.strip_prefix('h').and_then(|digits| digits.parse().ok());
    host.ok_or_else(|| format!("{word:?} is not a host: write \"h0\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = FlowList::parse("\n h0 h5 128 KiB 10 us # first\n# none\nh1 h5 1.5 MB 0.5 ns 3\n")
            .expect("reads");
        let flow = |from, size, start, priority| Flow {
            from,
            to: 5,
            size: Bytes::new(size),
            start: Picos::new(start),
            priority,
        };
        assert_eq!(list.flows, [flow(0, 131_072, 10_000_000, None), flow(1, 1_500_000, 500, Some(3))]);
        let class = Class { priority: 1, ..Class::new(1, "list") };
        let traffic = list.traffic(&class).expect("a pattern");
        let priorities: Vec<u8> = traffic.connections.iter().map(|c| c.priority).collect();
        assert_eq!(priorities, [1, 3]);
        // The second is first in time.
        assert_eq!(traffic.finish().messages[0].at, Picos::new(500));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let refused = |text: &str| FlowList::parse(text).expect_err("refused").to_string();
        assert_eq!(
            refused("# head\nh0 h5 128 KiB"),
            "line 2: write who sends to whom, a size and a start: \"h0 h5 128 KiB 10 us\""
        );
        assert_eq!(refused("0 h5 1 MB 0 ns"), "line 1: \"0\" is not a host: write \"h0\"");
        assert_eq!(refused("h5 h5 1 MB 0 ns"), "line 1: h5 would send to itself");
        assert_eq!(refused("h0 h5 0 B 0 ns"), "line 1: a flow of nothing: give it a size above zero");
        assert_eq!(
            refused("h0 h5 1 KB 0 ns"),
            "line 1: KB means two things: write kB (1000 bytes) or KiB (1024 bytes)"
        );
        assert_eq!(refused("h0 h5 1 MB 0 ns x"), "line 1: \"x\" is not a priority: write 0 to 7");
        assert!(refused("h0 h5 1 MB 0 ns 3 4").contains("\"4\" is too much"));
    }

    #[test]
    fn any_text_is_answered() {
        use proptest::prelude::*;
        proptest!(|(text in "[hs0-9 MBus#\n.]*")| { let _ = FlowList::parse(&text); });
    }
}
