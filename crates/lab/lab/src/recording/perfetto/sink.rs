//! Turns rows into a trace.

use super::budget::{Budget, Share, TraceSummary};
use super::messages::{MessageSlice, Messages, TooManyLanes};
use super::names::Names;
use super::writer::{Annotation, Slice, TraceWriter, TrackId, Unit, Value};
use crate::recording::{RecordedWindow, drop_reason};
use crate::resolve::ResolvedRun;
use core::ops::ControlFlow;
use poseidon_plan::SwitchPort;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{
    DropRow, LawStateRow, MarkRow, MessageRow, PauseRow, Progress, QueueRow, ReceivedRow, ReceiverRow,
    SenderRow, Sink,
};
use poseidon_plan::topology::Node;
use poseidon_types::{BitRate, Bytes, ConnectionId, HostId, MessageId, Nanos, Packets, Picos, SwitchId};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What counters belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CounterOwner {
    Port(SwitchPort),
    Connection(ConnectionId),
}

/// The counters of a port or a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// The track that groups them.
    group: Option<TrackId>,
    values: [Option<Counter>; MAX_COUNTERS],
    /// The last count of bytes that the port sent or the connection received.
    bytes: Option<ByteCount>,
}

/// The largest number of counters of a port or a connection.
const MAX_COUNTERS: usize = 7;

/// A kind of counters: its place among the counters of its owner, its name and its unit.
#[derive(Clone, Copy, Debug)]
struct CounterKind(usize, &'static str, Unit);

/// The unit of windows, which are fractions of packets.
const PACKETS: Unit = Unit::Named("packets");
/// The unit of rates.
const RATE: Unit = Unit::Named("bit/s");

const QUEUE: CounterKind = CounterKind(0, "queue", Unit::Bytes);
const QUEUEING_DELAY: CounterKind = CounterKind(1, "queueing delay", Unit::Nanoseconds);
const PORT_RATE: CounterKind = CounterKind(2, "rate", RATE);
const WINDOW: CounterKind = CounterKind(0, "window", PACKETS);
const IN_FLIGHT: CounterKind = CounterKind(1, "in flight", Unit::Count);
const SMOOTHED_RTT: CounterKind = CounterKind(2, "smoothed RTT", Unit::Nanoseconds);
const GOODPUT: CounterKind = CounterKind(3, "goodput", RATE);
const TARGET: CounterKind = CounterKind(4, "target", Unit::Nanoseconds);
const HOP_DELAY: CounterKind = CounterKind(5, "hop delay", Unit::Nanoseconds);
const PACING_RATE: CounterKind = CounterKind(6, "pacing rate", RATE);

/// A counter and its last value.
#[derive(Clone, Copy, Debug)]
struct Counter {
    track: TrackId,
    last: Value,
}

/// A count of bytes, from which a rate follows.
#[derive(Clone, Copy, Debug)]
struct ByteCount {
    time: Picos,
    bytes: Bytes,
}

/// The marks of a port in one sampling interval.
#[derive(Clone, Copy, Debug)]
struct MarkBurst {
    track: TrackId,
    interval: u64,
    first: MarkRow,
    count: u64,
}

/// The track of a port's pauses.
#[derive(Clone, Copy, Debug)]
struct PauseTrack {
    track: TrackId,
    is_open: bool,
}

/// Writes the rows of a recording as a Perfetto trace.
#[derive(Debug)]
pub struct PerfettoSink<'a, W: Write> {
    writer: TraceWriter<W>,
    names: Names<'a>,
    window: RecordedWindow,
    /// The sampling interval, which is also the interval of marks.
    interval: Picos,
    budget: Budget,
    messages: Messages<'a>,
    nodes: BTreeMap<Node, TrackId>,
    counters: BTreeMap<CounterOwner, Counters>,
    lanes: BTreeMap<(HostId, usize, usize), TrackId>,
    pauses: BTreeMap<(NodePort, u8), PauseTrack>,
    drops: BTreeMap<SwitchId, TrackId>,
    marks: BTreeMap<SwitchPort, MarkBurst>,
}

impl<'a, W: Write> PerfettoSink<'a, W> {
    /// Creates a sink that writes at most about `max_bytes`. `interval` is the sampling interval of the recording.
    pub fn new(
        output: W,
        resolved: &'a ResolvedRun,
        window: RecordedWindow,
        interval: Picos,
        max_bytes: u64,
    ) -> Self {
        Self {
            writer: TraceWriter::new(output),
            names: Names(resolved),
            window,
            interval,
            budget: Budget::new(max_bytes),
            messages: Messages::new(resolved, window),
            nodes: BTreeMap::new(),
            counters: BTreeMap::new(),
            lanes: BTreeMap::new(),
            pauses: BTreeMap::new(),
            drops: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Completes the trace. `end` is the time at which the recording ended.
    pub fn finish(mut self, end: Picos) -> io::Result<TraceSummary> {
        let end = end.min(self.window.to);
        let ports: Vec<SwitchPort> = self.marks.keys().copied().collect();
        ports.into_iter().for_each(|port| self.write_marks(port));
        for (message, start) in self.messages.unfinished(end) {
            self.write_unfinished(message, start, end);
        }
        for pause in self.pauses.values().filter(|pause| pause.is_open) {
            self.writer.end(pause.track, end);
        }
        let bytes = self.writer.finish()?;
        Ok(self.budget.summary(bytes))
    }

    fn node(&mut self, node: Node) -> TrackId {
        let (writer, names) = (&mut self.writer, self.names);
        *self.nodes.entry(node).or_insert_with(|| writer.process(names.pid(node), &names.node(node)))
    }

    /// Writes the values of counters that have changed. A counter that has always been zero is not in the trace.
    fn count(
        &mut self,
        owner: CounterOwner,
        time: Picos,
        values: impl IntoIterator<Item = (CounterKind, Value)>,
    ) {
        let mut counters = self.counters.get(&owner).copied().unwrap_or_default();
        for (kind, value) in values {
            let known = counters.values[kind.0];
            let is_known = match known {
                Some(counter) => counter.last == value,
                None => value == Value::Int(0),
            };
            if is_known || !self.budget.counters.has_space() {
                continue;
            }
            let before = self.writer.bytes();
            let track = match known {
                Some(counter) => counter.track,
                None => self.new_counter(owner, &mut counters, kind),
            };
            counters.values[kind.0] = Some(Counter { track, last: value });
            self.writer.counter(track, time, value);
            self.budget.counters.add(self.writer.bytes() - before);
        }
        self.counters.insert(owner, counters);
    }

    fn new_counter(&mut self, owner: CounterOwner, counters: &mut Counters, kind: CounterKind) -> TrackId {
        let CounterKind(_, name, unit) = kind;
        let group = counters.group.unwrap_or_else(|| {
            let (node, group) = match owner {
                CounterOwner::Port(port) => (Node::Switch(port.switch), self.names.port(port)),
                CounterOwner::Connection(connection) => {
                    let from = self.names.0.plan.connections[connection.index()].from;
                    (Node::Host(from), self.names.connection(connection))
                }
            };
            let parent = self.node(node);
            self.writer.track(parent, &group)
        });
        counters.group = Some(group);
        let track = self.writer.counter_track(group, name, unit);
        if unit != PACKETS {
            self.writer.counter(track, self.window.from, Value::Int(0));
        }
        track
    }

    /// Stores a count of bytes, and returns the rate since the last one.
    fn count_bytes(&mut self, owner: CounterOwner, time: Picos, bytes: Bytes) -> Option<Value> {
        let counters = self.counters.entry(owner).or_default();
        let last = counters.bytes.replace(ByteCount { time, bytes }).filter(|last| last.time < time)?;
        Some(Value::Int(average_rate(bytes - last.bytes, time - last.time).get()))
    }

    /// Writes the slice of a message that has not finished.
    fn write_unfinished(&mut self, message: MessageId, start: Picos, end: Picos) {
        if !self.budget.slices.has_space() {
            return;
        }
        let size = self.names.0.plan.messages[message.index()].amount.bytes().unwrap_or(Bytes::ZERO);
        match self.messages.slice(message, start, end) {
            Ok(slice) => self.write_slice(&slice, "unfinished", size, 0),
            Err(TooManyLanes) => self.budget.slices.omitted += 1,
        }
    }

    fn write_slice(&mut self, slice: &MessageSlice, state: &str, size: Bytes, retransmitted: u32) {
        let MessageSlice { message, host, group, lane, start, end, .. } = *slice;
        let before = self.writer.bytes();
        let parent = self.node(Node::Host(host));
        let (writer, names) = (&mut self.writer, self.names);
        let lane = self.lanes.entry((host, group, lane));
        let track = *lane.or_insert_with(|| writer.track(parent, &names.group(group)));
        let connection = names.0.plan.connection_of(message).unwrap_or_default();
        let annotations = [
            Annotation::Uint("message", u64::from(message.get())),
            Annotation::Uint("flow", u64::from(connection.get())),
            Annotation::Uint("bytes", size.get()),
            Annotation::Uint("retransmitted packets", u64::from(retransmitted)),
            Annotation::Text("state", state),
        ];
        writer.slice(&Slice {
            track,
            start,
            end,
            name: &slice.name,
            category: "message",
            outgoing: &slice.outgoing,
            incoming: slice.incoming.as_slice(),
            annotations: &annotations,
        });
        self.budget.slices.add(writer.bytes() - before);
    }

    /// Writes the marks of a port in the last interval as one instant.
    fn write_marks(&mut self, port: SwitchPort) {
        let Some(burst) = self.marks.get_mut(&port) else { return };
        let MarkBurst { track, first, count, .. } = *burst;
        if core::mem::take(&mut burst.count) == 0 {
            return;
        }
        let annotations = [
            Annotation::Uint("marks", count),
            Annotation::Uint("first flow", u64::from(first.connection.get())),
            Annotation::Uint("first packet", u64::from(first.packet)),
        ];
        write_instant(
            &mut self.writer,
            &mut self.budget.instants,
            (track, first.time),
            "ECN marks",
            &annotations,
        );
    }
}

fn write_instant<W: Write>(
    writer: &mut TraceWriter<W>,
    share: &mut Share,
    (track, time): (TrackId, Picos),
    name: &str,
    annotations: &[Annotation<'_>],
) {
    if share.has_space() {
        let before = writer.bytes();
        writer.instant(track, time, name, annotations);
        share.add(writer.bytes() - before);
    }
}

/// Returns the average rate of bytes over a time, rounded down.
fn average_rate(bytes: Bytes, time: Picos) -> BitRate {
    let bits_per_second = u128::from(bytes.get()) * 8_000_000_000_000 / u128::from(time.get().max(1));
    BitRate::from_bps(u64::try_from(bits_per_second).unwrap_or(u64::MAX))
}

/// Returns a window in packets. The value is exact.
fn in_packets(window: Packets) -> Value {
    Value::Float(window.q24() as f64 / Packets::ONE.q24() as f64)
}

impl<W: Write> Sink for PerfettoSink<'_, W> {
    fn record_message(&mut self, row: MessageRow) {
        match self.messages.on_acknowledged(&row) {
            Ok(Some(slice)) if self.budget.slices.has_space() => {
                self.write_slice(&slice, "acknowledged", row.size, row.retransmitted);
            }
            Ok(_) => {}
            Err(TooManyLanes) => self.budget.slices.omitted += 1,
        }
    }

    fn record_received(&mut self, row: ReceivedRow) {
        self.messages.on_received(&row);
    }

    fn record_drop(&mut self, row: DropRow) {
        if !self.window.contains(row.time) {
            return;
        }
        let parent = self.node(Node::Switch(row.switch));
        let writer = &mut self.writer;
        let track = *self.drops.entry(row.switch).or_insert_with(|| writer.track(parent, "drops"));
        let annotations = [
            Annotation::Uint("flow", u64::from(row.connection.get())),
            Annotation::Uint("packet", u64::from(row.packet)),
            Annotation::Text("cause", drop_reason(row.cause)),
        ];
        write_instant(writer, &mut self.budget.instants, (track, row.time), "drop", &annotations);
    }

    fn record_queue(&mut self, row: QueueRow) {
        let owner = CounterOwner::Port(SwitchPort::new(row.switch, row.port));
        let rate = self.count_bytes(owner, row.time, row.sent);
        if self.window.contains(row.time) {
            let values = [
                (QUEUE, Value::Int(row.queued.get())),
                (QUEUEING_DELAY, Value::Int(row.delay.get())),
                (PORT_RATE, rate.unwrap_or(Value::Int(0))),
            ];
            self.count(owner, row.time, values);
        }
    }

    fn record_sender(&mut self, row: SenderRow) {
        if self.window.contains(row.time) {
            let values = [
                (WINDOW, in_packets(row.window)),
                (IN_FLIGHT, Value::Int(u64::from(row.in_flight))),
                (SMOOTHED_RTT, Value::Int(row.srtt.get())),
            ];
            self.count(CounterOwner::Connection(row.connection), row.time, values);
        }
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        let owner = CounterOwner::Connection(row.connection);
        if let Some(rate) = self.count_bytes(owner, row.time, row.received)
            && self.window.contains(row.time)
        {
            self.count(owner, row.time, [(GOODPUT, rate)]);
        }
    }

    fn record_mark(&mut self, row: MarkRow) {
        let port = SwitchPort::new(row.switch, row.port);
        let interval = row.time.get() / self.interval.get().max(1);
        if self.marks.get(&port).is_some_and(|burst| burst.interval != interval) {
            self.write_marks(port);
        }
        if let Some(burst) = self.marks.get_mut(&port) {
            if burst.count == 0 {
                (burst.interval, burst.first) = (interval, row);
            }
            burst.count += 1;
            return;
        }
        let parent = self.node(Node::Switch(row.switch));
        let track = self.writer.track(parent, &format!("{}: marks", self.names.port(port)));
        self.marks.insert(port, MarkBurst { track, interval, first: row, count: 1 });
    }

    fn record_pause(&mut self, row: PauseRow) {
        if row.time >= self.window.to {
            return;
        }
        let parent = self.node(row.port.node);
        let (writer, names) = (&mut self.writer, self.names);
        let pause = self.pauses.entry((row.port, row.priority)).or_insert_with(|| {
            let port = match row.port.node {
                Node::Host(_) => "port 0".to_owned(),
                Node::Switch(switch) => names.port(SwitchPort::new(switch, row.port.port)),
            };
            let track = writer.track(parent, &format!("{port}: pauses of priority {}", row.priority));
            PauseTrack { track, is_open: false }
        });
        if row.paused && !pause.is_open && self.budget.slices.has_space() {
            let before = writer.bytes();
            writer.begin(pause.track, row.time, "PFC pause");
            self.budget.slices.add(writer.bytes() - before);
            pause.is_open = true;
        } else if !row.paused && pause.is_open {
            writer.end(pause.track, row.time);
            pause.is_open = false;
        }
    }

    fn record_law_state(&mut self, row: LawStateRow) {
        let values = [
            (TARGET, row.target.map(Nanos::get)),
            (HOP_DELAY, row.hop_delay.map(Nanos::get)),
            // Without pacing, ACKs clock the connection. Zero stands for that.
            (PACING_RATE, Some(row.pacing_rate.map_or(0, BitRate::get))),
        ];
        let values = values.into_iter().filter_map(|(kind, value)| Some((kind, Value::Int(value?))));
        self.count(CounterOwner::Connection(row.connection), row.time, values);
    }

    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        if self.writer.has_failed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
