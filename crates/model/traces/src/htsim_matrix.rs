//! Connection matrices of htsim: `.cm` and `.tm` files.

use crate::checks::{check_announced, check_read_flow, check_written_flow, push_limited};
use crate::error::{Feature, TraceError, TraceErrorKind, WriteError, WriteErrorKind};
use crate::flows::{
    FlowFile, FlowStart, LinkFailure, StartUnit, SwitchTier, TraceFlow, Trigger, TriggerKind,
};
use crate::text::{Line, Lines};
use core::iter::Peekable;
use core::num::NonZeroU32;
use poseidon_types::{Bytes, Picos};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};

const HEADER: &str = "Nodes, Connections, Triggers or Failures and a number, or a connection such as \
                      \"0->5 id 1 start 0 size 1000\"";
const FLOW_WORDS: &str = "id, msg, start, trigger, size, send_done_trigger, recv_done_trigger or prio";
const TRIGGER: &str = "\"trigger id 1\" and oneshot, multishot or \"barrier count 2\"";
const FAILURE: &str = "\"failure switch_type AGG switch_id 0 link_id 0\"";
const TIERS: &str = "TOR, AGG or CORE";

/// The largest number that htsim can read, except for start times. It reads numbers as C integers.
const MAX_NUMBER: u64 = (1 << 31) - 1;

/// Parses a connection matrix of htsim.
///
/// The header gives the numbers of nodes, connections, triggers and failures, which must be correct. Each connection is
/// a flow. `unit` is the unit of its start time: microseconds for uet-htsim, picoseconds for csg-htsim and spcl/HTSIM.
/// The file does not tell which.
///
/// Returns an error before it reads flows if the file announces more than `max_flows`. The numbers of triggers and
/// failures have the same limit.
///
/// ```
/// # use poseidon_traces::{FlowStart, StartUnit, parse_cm};
/// # use poseidon_types::Picos;
/// let text = "Nodes 16\nConnections 1\n0->13 id 1 start 40 size 2000000\n";
/// let file = parse_cm(text.as_bytes(), StartUnit::Microseconds, 1_000_000)?;
/// assert_eq!(file.flows[0].start, FlowStart::At(Picos::new(40_000_000)));
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_cm(reader: impl BufRead, unit: StartUnit, max_flows: usize) -> Result<FlowFile, TraceError> {
    let mut lines = Lines::new(reader);
    let mut matrix = Matrix::new(unit, max_flows);
    while let Some(line) = lines.next_line()? {
        matrix.parse_line(line)?;
    }
    let file = &matrix.file;
    let counts = [
        ("connections", matrix.connections, file.flows.len()),
        ("triggers", matrix.triggers, file.triggers.len()),
        ("failures", matrix.failures, file.failures.len()),
    ];
    for (items, announced, actual) in counts {
        let (announced, actual) = (announced.unwrap_or(0), actual as u64);
        if announced != actual {
            return Err(lines.error(TraceErrorKind::Count { items, announced, actual }));
        }
    }
    if let Some((&trigger, &line)) = matrix.undefined.first_key_value() {
        return Err(TraceError { line, kind: TraceErrorKind::UndefinedTrigger { trigger } });
    }
    Ok(matrix.file)
}

/// Writes a connection matrix for htsim, with start times in whole units.
///
/// Returns an error for a start that is not a whole number of units, for a number above 2^31 - 1, and for a flow that
/// needs an id but has none.
pub fn write_cm(file: &FlowFile, unit: StartUnit, mut output: impl Write) -> Result<(), WriteError> {
    if let Some(nodes) = file.nodes {
        check_number("node count", u64::from(nodes)).map_err(|kind| WriteError { item: None, kind })?;
        writeln!(output, "Nodes {nodes}")?;
    }
    let counts = [
        ("Connections", file.flows.len()),
        ("Triggers", file.triggers.len()),
        ("Failures", file.failures.len()),
    ];
    for (name, count) in counts {
        check_number(name, count as u64).map_err(|kind| WriteError { item: None, kind })?;
        // htsim needs the number of connections, even if it is zero.
        if count > 0 || name == "Connections" {
            writeln!(output, "{name} {count}")?;
        }
    }
    let defined = defined_triggers(file).map_err(|kind| WriteError { item: None, kind })?;
    for (index, flow) in file.flows.iter().enumerate() {
        let reject = |kind| WriteError { item: Some(index), kind };
        check_flow(flow, file.nodes, &defined).map_err(reject)?;
        write_flow(flow, unit, &mut output).map_err(|error| WriteError { item: Some(index), ..error })?;
    }
    for trigger in &file.triggers {
        writeln!(output, "trigger id {} {}", trigger.id, trigger.kind)?;
    }
    for LinkFailure { tier, switch, link } in &file.failures {
        writeln!(output, "failure switch_type {tier} switch_id {switch} link_id {link}")?;
    }
    Ok(output.flush()?)
}

/// The state of the parser.
struct Matrix {
    unit: StartUnit,
    limit: usize,
    connections: Option<u64>,
    triggers: Option<u64>,
    failures: Option<u64>,
    in_body: bool,
    file: FlowFile,
    defined: BTreeSet<NonZeroU32>,
    /// The triggers that are used and not yet defined, with the line of their first use.
    undefined: BTreeMap<NonZeroU32, u64>,
}

impl Matrix {
    fn new(unit: StartUnit, limit: usize) -> Self {
        Self {
            unit,
            limit,
            connections: None,
            triggers: None,
            failures: None,
            in_body: false,
            file: FlowFile::default(),
            defined: BTreeSet::new(),
            undefined: BTreeMap::new(),
        }
    }

    fn parse_line(&mut self, line: Line<'_>) -> Result<(), TraceError> {
        let mut words = line.words().peekable();
        let first = words.next().unwrap_or_default();
        match first {
            b"trigger" => self.parse_trigger(line, words)?,
            b"failure" => {
                let failure = parse_failure(line, words)?;
                check_surplus(line, "failures", self.failures, self.file.failures.len())?;
                push_limited(line, "failures", &mut self.file.failures, failure, self.limit)?;
            }
            _ => match split_ends(first) {
                Some(ends) => self.parse_flow(line, ends, words)?,
                None if self.in_body => {
                    return Err(line.unknown_word(first, "a connection, trigger or failure"));
                }
                None => return self.parse_header(line),
            },
        }
        self.in_body = true;
        Ok(())
    }

    /// Parses a line of the header, such as `Nodes 16`.
    fn parse_header(&mut self, line: Line<'_>) -> Result<(), TraceError> {
        let name = line.words().next().unwrap_or_default();
        let (items, item) = match name {
            b"Nodes" => ("nodes", "the node count"),
            b"Connections" => ("connections", "the number of connections"),
            b"Triggers" => ("triggers", "the number of triggers"),
            b"Failures" => ("failures", "the number of failures"),
            _ => return Err(line.unknown_word(name, HEADER)),
        };
        let [_, word] = line.fixed_words(HEADER)?;
        let duplicate = if name == b"Nodes" {
            self.file.nodes.replace(line.parse_u32(item, word)?).is_some()
        } else {
            let count = line.parse_u64(item, word)?;
            check_announced(line, items, count, self.limit)?;
            let slot = match name {
                b"Connections" => &mut self.connections,
                b"Triggers" => &mut self.triggers,
                _ => &mut self.failures,
            };
            slot.replace(count).is_some()
        };
        if duplicate { Err(line.error(TraceErrorKind::Duplicate { item })) } else { Ok(()) }
    }

    fn parse_flow<'a>(
        &mut self,
        line: Line<'a>,
        (from, to): (&[u8], &[u8]),
        words: Peekable<impl Iterator<Item = &'a [u8]>>,
    ) -> Result<(), TraceError> {
        let (from, to) = (line.parse_u32("source", from)?, line.parse_u32("destination", to)?);
        let flow = FlowWords::parse(line, words, self.unit)?.into_flow(line, from, to)?;
        check_read_flow(line, &flow)?;
        if let Some(nodes) = self.file.nodes
            && from.max(to) >= nodes
        {
            return Err(line.error(TraceErrorKind::UnknownNode { node: from.max(to), nodes }));
        }
        for trigger in used_triggers(&flow) {
            if !self.defined.contains(&trigger) {
                self.undefined.entry(trigger).or_insert(line.number);
            }
        }
        check_surplus(line, "connections", self.connections, self.file.flows.len())?;
        push_limited(line, "connections", &mut self.file.flows, flow, self.limit)
    }

    fn parse_trigger<'a>(
        &mut self,
        line: Line<'a>,
        words: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), TraceError> {
        let trigger = parse_trigger(line, words)?;
        if !self.defined.insert(trigger.id) {
            return Err(line.error(TraceErrorKind::DuplicateTrigger { trigger: trigger.id }));
        }
        self.undefined.remove(&trigger.id);
        check_surplus(line, "triggers", self.triggers, self.file.triggers.len())?;
        push_limited(line, "triggers", &mut self.file.triggers, trigger, self.limit)
    }
}

/// Returns an error if the next item exceeds the announced number.
fn check_surplus(
    line: Line<'_>,
    items: &'static str,
    announced: Option<u64>,
    read: usize,
) -> Result<(), TraceError> {
    let (announced, actual) = (announced.unwrap_or(0), (read as u64).saturating_add(1));
    if actual > announced {
        Err(line.error(TraceErrorKind::Count { items, announced, actual }))
    } else {
        Ok(())
    }
}

/// Splits a word such as `0->5` into its two numbers.
fn split_ends(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let arrow = word.windows(2).position(|pair| pair == b"->")?;
    Some((&word[..arrow], &word[arrow + 2..]))
}

/// Returns the triggers that a flow waits for or activates.
fn used_triggers(flow: &TraceFlow) -> impl Iterator<Item = NonZeroU32> + use<> {
    let awaited = match flow.start {
        FlowStart::At(_) => None,
        FlowStart::OnTrigger(trigger) => Some(trigger),
    };
    [awaited, flow.send_done, flow.receive_done].into_iter().flatten()
}

/// The words of a connection after its ends.
#[derive(Default)]
struct FlowWords {
    id: Option<NonZeroU32>,
    message: Option<u32>,
    start: Option<Picos>,
    trigger: Option<NonZeroU32>,
    size: Option<u64>,
    send_done: Option<NonZeroU32>,
    receive_done: Option<NonZeroU32>,
    priority: Option<u32>,
}

impl FlowWords {
    fn parse<'a>(
        line: Line<'a>,
        mut words: Peekable<impl Iterator<Item = &'a [u8]>>,
        unit: StartUnit,
    ) -> Result<Self, TraceError> {
        let mut flow = Self::default();
        while let Some(word) = words.next() {
            if word == b"msg" {
                // The number of a message is optional.
                let number = words.next_if(|word| word[0].is_ascii_digit());
                let message = match number {
                    Some(number) => line.parse_positive("msg", number)?.get(),
                    None => 0,
                };
                set_once(line, "msg", &mut flow.message, message)?;
                continue;
            }
            let value = words.next().unwrap_or_default();
            match word {
                b"id" => set_once(line, "id", &mut flow.id, line.parse_positive("id", value)?)?,
                b"start" => {
                    let start = Picos::new(line.parse_decimal("start", value, unit.decimals())?);
                    set_once(line, "start", &mut flow.start, start)?;
                }
                b"trigger" => {
                    set_once(line, "trigger", &mut flow.trigger, line.parse_positive("trigger", value)?)?;
                }
                b"size" => set_once(line, "size", &mut flow.size, line.parse_u64("size", value)?)?,
                b"send_done_trigger" => {
                    let trigger = line.parse_positive("send_done_trigger", value)?;
                    set_once(line, "send_done_trigger", &mut flow.send_done, trigger)?;
                }
                b"recv_done_trigger" => {
                    let trigger = line.parse_positive("recv_done_trigger", value)?;
                    set_once(line, "recv_done_trigger", &mut flow.receive_done, trigger)?;
                }
                b"prio" => set_once(line, "prio", &mut flow.priority, line.parse_u32("prio", value)?)?,
                _ => return Err(line.unknown_word(word, FLOW_WORDS)),
            }
        }
        Ok(flow)
    }

    fn into_flow(self, line: Line<'_>, from: u32, to: u32) -> Result<TraceFlow, TraceError> {
        let missing = |field| line.error(TraceErrorKind::Missing { field });
        let start = match (self.start, self.trigger) {
            (Some(start), None) => FlowStart::At(start),
            (None, Some(trigger)) => FlowStart::OnTrigger(trigger),
            (None, None) => return Err(missing("start or trigger")),
            (Some(_), Some(_)) => {
                return Err(
                    line.error(TraceErrorKind::Duplicate { item: "the start, by start and trigger," })
                );
            }
        };
        let needs_id = self.trigger.is_some() || self.message.is_some();
        if needs_id && self.id.is_none() {
            return Err(missing("id, which trigger and msg need,"));
        }
        Ok(TraceFlow {
            from,
            to,
            size: Bytes::new(self.size.ok_or_else(|| missing("size"))?),
            start,
            id: self.id,
            priority: self.priority,
            send_done: self.send_done,
            receive_done: self.receive_done,
            message: self.message,
        })
    }
}

/// Sets a field, or returns an error if it is already set.
fn set_once<T>(
    line: Line<'_>,
    item: &'static str,
    field: &mut Option<T>,
    value: T,
) -> Result<(), TraceError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(line.error(TraceErrorKind::Duplicate { item })),
    }
}

/// Parses the words after `trigger`.
fn parse_trigger<'a>(
    line: Line<'a>,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<Trigger, TraceError> {
    let (mut id, mut kind, mut count) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            b"id" | b"count" => {
                let value = words.next().unwrap_or_default();
                if word == b"id" {
                    set_once(line, "id", &mut id, line.parse_positive("id", value)?)?;
                } else {
                    set_once(line, "count", &mut count, line.parse_positive("count", value)?)?;
                }
            }
            b"oneshot" | b"multishot" | b"barrier" => set_once(line, "the trigger type", &mut kind, word)?,
            _ => return Err(line.unknown_word(word, TRIGGER)),
        }
    }
    let missing = |field| line.error(TraceErrorKind::Missing { field });
    let kind = match (kind.ok_or_else(|| missing("oneshot, multishot or barrier"))?, count) {
        (b"barrier", Some(count)) => TriggerKind::Barrier { count },
        (b"barrier", None) => return Err(missing("the count of the barrier")),
        (_, Some(_)) => return Err(line.unknown_word(b"count", "a count only for a barrier")),
        (b"oneshot", None) => TriggerKind::OneShot,
        (_, None) => TriggerKind::MultiShot,
    };
    Ok(Trigger { id: id.ok_or_else(|| missing("id"))?, kind })
}

/// Parses the words after `failure`.
fn parse_failure<'a>(
    line: Line<'a>,
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<LinkFailure, TraceError> {
    let (mut tier, mut switch, mut link) = (None, None, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match word {
            b"switch_type" => {
                let parsed = match value {
                    b"TOR" => SwitchTier::Tor,
                    b"AGG" => SwitchTier::Aggregation,
                    b"CORE" => SwitchTier::Core,
                    _ => return Err(line.unknown_word(value, TIERS)),
                };
                set_once(line, "switch_type", &mut tier, parsed)?;
            }
            b"switch_id" => set_once(line, "switch_id", &mut switch, line.parse_u32("switch_id", value)?)?,
            b"link_id" => set_once(line, "link_id", &mut link, line.parse_u32("link_id", value)?)?,
            _ => return Err(line.unknown_word(word, FAILURE)),
        }
    }
    let missing = |field| move || line.error(TraceErrorKind::Missing { field });
    Ok(LinkFailure {
        tier: tier.ok_or_else(missing("switch_type"))?,
        switch: switch.ok_or_else(missing("switch_id"))?,
        link: link.ok_or_else(missing("link_id"))?,
    })
}

/// Returns an error if htsim cannot read a number.
const fn check_number(field: &'static str, value: u64) -> Result<(), WriteErrorKind> {
    if value > MAX_NUMBER { Err(WriteErrorKind::TooLarge { field, value, max: MAX_NUMBER }) } else { Ok(()) }
}

/// Returns the defined triggers. Returns an error if one is defined twice, or if htsim cannot read a trigger or a
/// failure.
fn defined_triggers(file: &FlowFile) -> Result<BTreeSet<NonZeroU32>, WriteErrorKind> {
    for failure in &file.failures {
        check_number("switch_id", u64::from(failure.switch))?;
        check_number("link_id", u64::from(failure.link))?;
    }
    let mut defined = BTreeSet::new();
    for trigger in &file.triggers {
        check_number("trigger id", u64::from(trigger.id.get()))?;
        if let TriggerKind::Barrier { count } = trigger.kind {
            check_number("barrier count", u64::from(count.get()))?;
        }
        if !defined.insert(trigger.id) {
            return Err(WriteErrorKind::BadTrigger { trigger: trigger.id });
        }
    }
    Ok(defined)
}

/// Returns an error if htsim cannot read a flow.
fn check_flow(
    flow: &TraceFlow,
    nodes: Option<u32>,
    defined: &BTreeSet<NonZeroU32>,
) -> Result<(), WriteErrorKind> {
    check_written_flow(flow)?;
    check_number("node", u64::from(flow.from.max(flow.to)))?;
    check_number("size", flow.size.get())?;
    check_number("id", u64::from(flow.id.map_or(0, NonZeroU32::get)))?;
    check_number("prio", u64::from(flow.priority.unwrap_or(0)))?;
    check_number("msg", u64::from(flow.message.unwrap_or(0)))?;
    if nodes.is_some_and(|nodes| flow.from.max(flow.to) >= nodes) {
        return Err(WriteErrorKind::UnknownNode);
    }
    let needs_id = flow.message.is_some() || matches!(flow.start, FlowStart::OnTrigger(_));
    if needs_id && flow.id.is_none() {
        return Err(WriteErrorKind::Missing(Feature::Id));
    }
    match used_triggers(flow).find(|trigger| !defined.contains(trigger)) {
        Some(trigger) => Err(WriteErrorKind::BadTrigger { trigger }),
        None => Ok(()),
    }
}

fn write_flow(flow: &TraceFlow, unit: StartUnit, output: &mut impl Write) -> Result<(), WriteError> {
    write!(output, "{}->{}", flow.from, flow.to)?;
    if let Some(id) = flow.id {
        write!(output, " id {id}")?;
    }
    match flow.message {
        None => {}
        Some(0) => output.write_all(b" msg")?,
        Some(message) => write!(output, " msg {message}")?,
    }
    match flow.start {
        FlowStart::At(start) => {
            let size = 10u64.pow(unit.decimals());
            if !start.get().is_multiple_of(size) {
                return Err(WriteError { item: None, kind: WriteErrorKind::FractionalStart { start, unit } });
            }
            write!(output, " start {}", start.get() / size)?;
        }
        FlowStart::OnTrigger(trigger) => write!(output, " trigger {trigger}")?,
    }
    write!(output, " size {}", flow.size.get())?;
    if let Some(trigger) = flow.send_done {
        write!(output, " send_done_trigger {trigger}")?;
    }
    if let Some(trigger) = flow.receive_done {
        write!(output, " recv_done_trigger {trigger}")?;
    }
    if let Some(priority) = flow.priority {
        write!(output, " prio {priority}")?;
    }
    Ok(output.write_all(b"\n")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FlowFile, TraceError> {
        parse_cm(text.as_bytes(), StartUnit::Microseconds, 1_000)
    }

    fn error(text: &str) -> String {
        parse(text).expect_err("the file is invalid").to_string()
    }

    /// Returns the error of the only connection in a file.
    fn flow_error(words: &str) -> String {
        error(&format!("Nodes 16\nConnections 1\nTriggers 1\n{words}\ntrigger id 1 oneshot\n"))
    }

    const fn id(number: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(number)
    }

    #[test]
    fn every_word_is_parsed() {
        let text = "# comment\nNodes 16\n\nConnections 3\nTriggers 3\nFailures 1\n\
                    0->13 id 1 start 40 size 2000000 send_done_trigger 1 recv_done_trigger 2 prio 7\n\
                    0->1 id 2 msg trigger 1 size 40860\n\
                    # comment\n13->2 prio 0 size 1 id 3 msg 9 trigger 2 send_done_trigger 3\n\
                    trigger id 1 oneshot\ntrigger id 2 multishot\ntrigger barrier id 3 count 4\n\
                    failure switch_type AGG switch_id 5 link_id 1\n";
        let file = parse(text).expect("the file is valid");
        let first = TraceFlow {
            id: id(1),
            priority: Some(7),
            send_done: id(1),
            receive_done: id(2),
            ..TraceFlow::new(0, 13, Bytes::new(2_000_000), FlowStart::At(Picos::new(40_000_000)))
        };
        assert_eq!(file.flows[0], first);
        assert_eq!(file.flows[1].start, FlowStart::OnTrigger(NonZeroU32::MIN));
        assert_eq!((file.flows[1].message, file.flows[2].message), (Some(0), Some(9)));
        let kinds: Vec<TriggerKind> = file.triggers.iter().map(|trigger| trigger.kind).collect();
        let count = id(4).expect("four is not zero");
        assert_eq!(kinds, [TriggerKind::OneShot, TriggerKind::MultiShot, TriggerKind::Barrier { count }]);
        assert_eq!(file.failures, [LinkFailure { tier: SwitchTier::Aggregation, switch: 5, link: 1 }]);
        assert_eq!(file.nodes, Some(16));
    }

    #[test]
    fn caller_chooses_the_unit_of_start() {
        let text = "Connections 1\n0->1 start 40.5 size 1\n";
        let start = |unit| parse_cm(text.as_bytes(), unit, 1).map(|file| file.flows[0].start);
        assert_eq!(start(StartUnit::Microseconds), Ok(FlowStart::At(Picos::new(40_500_000))));
        assert_eq!(start(StartUnit::Seconds), Ok(FlowStart::At(Picos::new(40_500_000_000_000))));
        let error = start(StartUnit::Picoseconds).expect_err("half a picosecond is refused").to_string();
        assert_eq!(error, "line 2: start \"40.5\" has too many decimals; write fewer");
    }

    #[test]
    fn wrong_counts_are_refused() {
        assert_eq!(
            error("Connections 2\n0->1 start 0 size 1\n"),
            "line 2: the header announces 2 connections, but the file has 1; correct the header"
        );
        assert_eq!(
            error("Connections 1\n0->1 start 0 size 1\n1->0 start 0 size 1\nnot read"),
            "line 3: the header announces 1 connections, but the file has more; correct the header"
        );
        assert_eq!(
            error("trigger id 1 oneshot\n"),
            "line 1: the header announces 0 triggers, but the file has more; correct the header"
        );
        assert_eq!(
            error("Failures 1\n"),
            "line 1: the header announces 1 failures, but the file has 0; correct the header"
        );
        assert_eq!(
            error("Connections 1001\nnot read"),
            "line 1: the file has more than 1000 connections; split or shorten the file"
        );
        assert_eq!(error("Nodes 1\nNodes 1\n"), "line 2: the node count is given twice; keep one");
    }

    #[test]
    fn invalid_connection_is_refused_with_its_line() {
        let table = [
            ("0->1 size 1", "start or trigger is missing; add it"),
            (
                "0->1 id 1 start 0 trigger 1 size 1",
                "the start, by start and trigger, is given twice; keep one",
            ),
            ("0->1 trigger 1 size 1", "id, which trigger and msg need, is missing; add it"),
            ("0->1 msg start 0 size 1", "id, which trigger and msg need, is missing; add it"),
            ("0->1 start 0", "size is missing; add it"),
            ("0->1 start 0 size", "size \"\" is not a number; write decimal digits"),
            ("0->1 start 0 size 0", "the flow is empty; give it a size above zero"),
            ("0->1 start 0 size 1 size 1", "size is given twice; keep one"),
            ("0->1 id 0 start 0 size 1", "id \"0\" is zero; write a number above zero"),
            ("0->1 start -1 size 1", "start \"-1\" is not a number; write decimal digits"),
            ("0->16 start 0 size 1", "node 16 does not exist; nodes are numbered from 0 to 15"),
            ("1->1 start 0 size 1", "both ends are node 1; choose two nodes"),
            ("->1 start 0 size 1", "source \"\" is not a number; write decimal digits"),
            (
                "0->1 start 0 size 1 send_done_trigger 2",
                "trigger 2 is not defined; add \"trigger id 2 oneshot\"",
            ),
        ];
        for (words, error) in table {
            assert_eq!(flow_error(words), format!("line 4: {error}"), "{words}");
        }
        assert!(flow_error("0->1 addon 1").starts_with("line 4: \"addon\" is unknown; write id, msg, start"));
        assert!(flow_error("0 -> 1 start 0 size 1").starts_with("line 4: \"0\" is unknown; write Nodes"));
    }

    #[test]
    fn invalid_trigger_or_failure_is_refused() {
        let trigger = |words: &str| error(&format!("Triggers 9\ntrigger {words}\n"));
        assert_eq!(trigger("oneshot"), "line 2: id is missing; add it");
        assert_eq!(trigger("id 1"), "line 2: oneshot, multishot or barrier is missing; add it");
        assert_eq!(trigger("id 1 barrier"), "line 2: the count of the barrier is missing; add it");
        assert_eq!(trigger("id 1 oneshot multishot"), "line 2: the trigger type is given twice; keep one");
        assert_eq!(
            trigger("id 1 oneshot count 2"),
            "line 2: \"count\" is unknown; write a count only for a barrier"
        );
        assert_eq!(
            trigger("id 1 oneshot\ntrigger id 1 oneshot"),
            "line 3: trigger 1 is defined twice; keep one definition"
        );
        let failure = |words: &str| error(&format!("Failures 9\nfailure {words}\n"));
        assert_eq!(failure("switch_type AGG switch_id 0"), "line 2: link_id is missing; add it");
        assert_eq!(failure("switch_type POD"), "line 2: \"POD\" is unknown; write TOR, AGG or CORE");
    }

    #[test]
    fn writer_refuses_what_htsim_cannot_read() {
        let flow = TraceFlow::new(0, 1, Bytes::new(7), FlowStart::At(Picos::new(1_500_000)));
        let error = |flow: TraceFlow| {
            let file = FlowFile { flows: vec![flow], nodes: Some(2), ..FlowFile::default() };
            write_cm(&file, StartUnit::Microseconds, Vec::new())
                .expect_err("htsim cannot read it")
                .to_string()
        };
        assert_eq!(
            error(flow),
            "flow 1: the start 1.5 us is not a whole number of us; choose a smaller unit"
        );
        assert_eq!(
            error(TraceFlow { size: Bytes::new(1 << 31), ..flow }),
            "flow 1: size 2147483648 is too large for this format; at most 2147483647 is possible"
        );
        let triggered = TraceFlow { start: FlowStart::OnTrigger(NonZeroU32::MIN), ..flow };
        assert_eq!(error(triggered), "flow 1: this format needs a flow id; set one");
        assert_eq!(
            error(TraceFlow { id: id(1), ..triggered }),
            "flow 1: trigger 1 is used but not defined, or it is defined twice; define it once"
        );
        assert_eq!(
            error(TraceFlow { to: 2, ..flow }),
            "flow 1: its node number is not below the node count; raise the node count"
        );
    }
}
