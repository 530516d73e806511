//! Writes Perfetto's protobuf traces: processes, tracks, counters, slices, instants and flows.
//!
//! A file is a sequence of `TracePacket` messages, each as field 1 of `Trace`. The field numbers are those of
//! `protos/perfetto/trace` in Perfetto 59.1.

use super::proto::ProtoBuffer;
use poseidon_types::Picos;
use std::io::{self, Write};

/// The number of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TrackId(u64);

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Nanoseconds,
    Bytes,
    Count,
    /// A unit that Perfetto does not define.
    Named(&'static str),
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Int(u64),
    Float(f64),
}

/// A named value of a slice or an instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Annotation<'a> {
    Uint(&'static str, u64),
    Text(&'static str, &'a str),
}

/// A slice of a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    pub(super) track: TrackId,
    pub(super) start: Picos,
    pub(super) end: Picos,
    pub(super) name: &'a str,
    pub(super) category: &'static str,
    /// The arrows that begin at this slice.
    pub(super) outgoing: &'a [u64],
    /// The arrows that end at this slice.
    pub(super) incoming: &'a [u64],
    pub(super) annotations: &'a [Annotation<'a>],
}

// Fields of `Trace`, `TracePacket`, `TrackDescriptor`, `ProcessDescriptor`, `CounterDescriptor`, `TrackEvent` and
// `DebugAnnotation`.
const TRACE_PACKET: u32 = 1;
const PACKET_TIMESTAMP: u32 = 8;
const PACKET_SEQUENCE_ID: u32 = 10;
const PACKET_TRACK_EVENT: u32 = 11;
const PACKET_SEQUENCE_FLAGS: u32 = 13;
const PACKET_TRACK_DESCRIPTOR: u32 = 60;
const PACKET_FIRST_ON_SEQUENCE: u32 = 87;
const TRACK_UUID: u32 = 1;
const TRACK_NAME: u32 = 2;
const TRACK_PROCESS: u32 = 3;
const TRACK_PARENT: u32 = 5;
const TRACK_COUNTER: u32 = 8;
const PROCESS_PID: u32 = 1;
const PROCESS_NAME: u32 = 6;
const COUNTER_UNIT: u32 = 3;
const COUNTER_UNIT_NAME: u32 = 6;
const EVENT_ANNOTATIONS: u32 = 4;
const EVENT_TYPE: u32 = 9;
const EVENT_TRACK: u32 = 11;
const EVENT_CATEGORIES: u32 = 22;
const EVENT_NAME: u32 = 23;
const EVENT_COUNTER_VALUE: u32 = 30;
const EVENT_DOUBLE_VALUE: u32 = 44;
const EVENT_FLOWS: u32 = 47;
const EVENT_TERMINATING_FLOWS: u32 = 48;
const ANNOTATION_UINT: u32 = 3;
const ANNOTATION_STRING: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// The values of `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// All packets belong to this sequence.
const SEQUENCE: u64 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`, which the first packet of a sequence must have.
const STATE_CLEARED: u64 = 1;

/// Writes a trace.
#[derive(Debug)]
pub(super) struct TraceWriter<W> {
    output: W,
    packet: ProtoBuffer,
    bytes: u64,
    next_track: u64,
    is_first_packet: bool,
    /// The first error. After it, nothing is written.
    error: Option<io::Error>,
}

impl<W: Write> TraceWriter<W> {
    pub(super) fn new(output: W) -> Self {
        Self {
            output,
            packet: ProtoBuffer::default(),
            bytes: 0,
            next_track: 1,
            is_first_packet: true,
            error: None,
        }
    }

    /// Returns the number of bytes written so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether an error has occurred.
    pub(super) const fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Flushes the file and returns its size, or the first error.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.output.flush()?;
        Ok(self.bytes)
    }

    /// Adds a process, which is a host or a switch. Process IDs must be above zero.
    pub(super) fn process(&mut self, pid: u64, name: &str) -> TrackId {
        self.descriptor(|descriptor| {
            descriptor.message(TRACK_PROCESS, |process| {
                process.uint(PROCESS_PID, pid);
                process.text(PROCESS_NAME, name);
            });
        })
    }

    /// Adds a track for slices and instants, or a group of tracks.
    pub(super) fn track(&mut self, parent: TrackId, name: &str) -> TrackId {
        self.descriptor(|descriptor| {
            descriptor.text(TRACK_NAME, name);
            descriptor.uint(TRACK_PARENT, parent.0);
        })
    }

    /// Adds a counter.
    pub(super) fn counter_track(&mut self, parent: TrackId, name: &str, unit: Unit) -> TrackId {
        self.descriptor(|descriptor| {
            descriptor.text(TRACK_NAME, name);
            descriptor.uint(TRACK_PARENT, parent.0);
            descriptor.message(TRACK_COUNTER, |counter| match unit {
                Unit::Nanoseconds => counter.uint(COUNTER_UNIT, 1),
                Unit::Count => counter.uint(COUNTER_UNIT, 2),
                Unit::Bytes => counter.uint(COUNTER_UNIT, 3),
                Unit::Named(name) => counter.text(COUNTER_UNIT_NAME, name),
            });
        })
    }

    fn descriptor(&mut self, write: impl FnOnce(&mut ProtoBuffer)) -> TrackId {
        let track = TrackId(self.next_track);
        self.next_track += 1;
        self.write_packet(|packet| {
            packet.message(PACKET_TRACK_DESCRIPTOR, |descriptor| {
                descriptor.uint(TRACK_UUID, track.0);
                write(descriptor);
            });
        });
        track
    }

    /// Writes a counter's value.
    pub(super) fn counter(&mut self, track: TrackId, time: Picos, value: Value) {
        self.event(track, time, COUNTER, |event| match value {
            Value::Int(value) => {
                event.int(EVENT_COUNTER_VALUE, i64::try_from(value).unwrap_or(i64::MAX));
            }
            Value::Float(value) => event.double(EVENT_DOUBLE_VALUE, value),
        });
    }

    /// Writes an instant.
    pub(super) fn instant(
        &mut self,
        track: TrackId,
        time: Picos,
        name: &str,
        annotations: &[Annotation<'_>],
    ) {
        self.event(track, time, INSTANT, |event| {
            event.text(EVENT_NAME, name);
            annotations.iter().for_each(|annotation| write_annotation(event, *annotation));
        });
    }

    /// Writes the begin of a slice, whose end follows later.
    pub(super) fn begin(&mut self, track: TrackId, time: Picos, name: &str) {
        self.event(track, time, SLICE_BEGIN, |event| event.text(EVENT_NAME, name));
    }

    /// Writes the end of a track's last slice.
    pub(super) fn end(&mut self, track: TrackId, time: Picos) {
        self.event(track, time, SLICE_END, |_| {});
    }

    /// Writes a complete slice. Slices of one track must not overlap.
    pub(super) fn slice(&mut self, slice: &Slice<'_>) {
        self.event(slice.track, slice.start, SLICE_BEGIN, |event| {
            event.text(EVENT_CATEGORIES, slice.category);
            event.text(EVENT_NAME, slice.name);
            slice.outgoing.iter().for_each(|flow| event.fixed64(EVENT_FLOWS, *flow));
            slice.incoming.iter().for_each(|flow| event.fixed64(EVENT_TERMINATING_FLOWS, *flow));
            slice.annotations.iter().for_each(|annotation| write_annotation(event, *annotation));
        });
        self.end(slice.track, slice.end);
    }

    fn event(&mut self, track: TrackId, time: Picos, kind: u64, write: impl FnOnce(&mut ProtoBuffer)) {
        self.write_packet(|packet| {
            packet.uint(PACKET_TIMESTAMP, time.to_nanos_floor().get());
            packet.message(PACKET_TRACK_EVENT, |event| {
                event.uint(EVENT_TYPE, kind);
                event.uint(EVENT_TRACK, track.0);
                write(event);
            });
        });
    }

    fn write_packet(&mut self, write: impl FnOnce(&mut ProtoBuffer)) {
        if self.error.is_some() {
            return;
        }
        let is_first = core::mem::take(&mut self.is_first_packet);
        self.packet.clear();
        self.packet.message(TRACE_PACKET, |packet| {
            packet.uint(PACKET_SEQUENCE_ID, SEQUENCE);
            if is_first {
                packet.uint(PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
                packet.uint(PACKET_FIRST_ON_SEQUENCE, 1);
            }
            write(packet);
        });
        match self.output.write_all(self.packet.as_bytes()) {
            Ok(()) => self.bytes += self.packet.as_bytes().len() as u64,
            Err(error) => self.error = Some(error),
        }
    }
}

fn write_annotation(event: &mut ProtoBuffer, annotation: Annotation<'_>) {
    event.message(EVENT_ANNOTATIONS, |message| match annotation {
        Annotation::Uint(name, value) => {
            message.text(ANNOTATION_NAME, name);
            message.uint(ANNOTATION_UINT, value);
        }
        Annotation::Text(name, value) => {
            message.text(ANNOTATION_NAME, name);
            message.text(ANNOTATION_STRING, value);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_event_has_these_bytes() {
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file);
        let process = writer.process(7, "h6");
        let counter = writer.counter_track(process, "q", Unit::Bytes);
        writer.counter(counter, Picos::new(1_999), Value::Int(300));
        assert_eq!(writer.bytes(), writer.finish().expect("a vector is writable"));
        let expected: &[u8] = &[
            // The process: sequence 1, first packet, descriptor with UUID 1.
            0x0a, 20, 0x50, 1, 0x68, 1, 0xb8, 0x05, 1, 0xe2, 0x03, 10, 0x08, 1, 0x1a, 6, 0x08, 7, 0x32, 2,
            b'h', b'6', // The counter: UUID 2, name, parent 1, unit bytes.
            0x0a, 16, 0x50, 1, 0xe2, 0x03, 11, 0x08, 2, 0x12, 1, b'q', 0x28, 1, 0x42, 2, 0x18, 3,
            // The value at 1 ns: type counter, track 2, value 300.
            0x0a, 14, 0x50, 1, 0x40, 1, 0x5a, 8, 0x48, 4, 0x58, 2, 0xf0, 0x01, 0xac, 0x02,
        ];
        assert_eq!(file, expected);
    }

    #[test]
    fn nothing_is_written_after_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("no space"))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = TraceWriter::new(Full);
        let process = writer.process(1, "host0");
        writer.begin(process, Picos::ZERO, "pause");
        assert!(writer.has_failed() && writer.bytes() == 0);
        assert_eq!(writer.finish().expect_err("the disk is full").to_string(), "no space");
    }
}
