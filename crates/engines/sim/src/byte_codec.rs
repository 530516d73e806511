//! The byte encoding of values exchanged between MPI ranks.
//!
//! Fields are little-endian, in the order of the field lists below. An encoded list starts with its length.
//! Omitting a struct field is a compile error.

use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, MemorySink, MessageRow, PauseTimeRow, PauseWaitRow, QueueRow,
    ReceivedRow, ReceiverRow, RecordedRows, SenderRow, TrimRow,
};
use poseidon_plan::topology::Node;
use poseidon_plan::{Report, SwitchPort};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Nanos, Packets, Picos, PortId, SwitchId};

use crate::run::ShardResult;

/// A value with a byte encoding.
pub(crate) trait ByteCodec: Sized {
    /// Appends the encoded value to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes a value from the front of `input`. Returns `None` if the bytes are not a valid encoding.
    fn decode(input: &mut &[u8]) -> Option<Self>;
}

/// Implements [`ByteCodec`] for structs, field by field.
macro_rules! impl_struct_codec {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl ByteCodec for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.encode(out);)*
            }

            fn decode(input: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: ByteCodec::decode(input)?),* })
            }
        }
    )*};
}
#[cfg(feature = "mpi")]
pub(crate) use impl_struct_codec;

impl_struct_codec! {
    MemorySink { messages, received, drops, trims, pause_times, pause_waits, queues, senders, receivers, decisions, recorded }
    MessageRow { message, start, acknowledged, size, retransmitted }
    ReceivedRow { message, time }
    DropRow { time, switch, connection, packet, cause }
    TrimRow { switch, port, trimmed }
    PauseTimeRow { port, paused }
    PauseWaitRow { waiting, blocked_by, priority }
    SwitchPort { switch, port }
    NodePort { node, port }
    QueueRow { time, switch, port, queued, delay, sent }
    SenderRow { time, connection, window, in_flight, srtt }
    ReceiverRow { time, connection, received }
    DecisionRow { time, connection, packet, rtt, marked, hop_delay, hop_queue, window }
    ShardResult { report, balance }
    Report {
        ended, interrupted, max_lateness, packet_hops, sent, delivered, replies, nacks, dropped, trimmed,
        trimmed_at_last_hop, trimmed_bytes, in_flight, retransmitted, timeouts, marks, marks_carried, pauses,
        repaths, decisions, decisions_with_telemetry, sent_bytes, delivered_bytes, result_hash,
    }
}

macro_rules! impl_integer_codec {
    ($($name:ident),*) => {$(
        impl ByteCodec for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(input: &mut &[u8]) -> Option<Self> {
                let (first, rest) = input.split_first_chunk()?;
                *input = rest;
                Some(Self::from_le_bytes(*first))
            }
        }
    )*};
}

impl_integer_codec!(u8, u32, u64, i128);

/// Implements [`ByteCodec`] for integer newtypes.
macro_rules! impl_newtype_codec {
    ($($name:ident: $integer:ident, $new:ident, $get:ident;)*) => {$(
        impl ByteCodec for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.$get().encode(out);
            }

            fn decode(input: &mut &[u8]) -> Option<Self> {
                $integer::decode(input).map(Self::$new)
            }
        }
    )*};
}

impl_newtype_codec! {
    SwitchId: u32, new, get;
    PortId: u32, new, get;
    ConnectionId: u32, new, get;
    MessageId: u32, new, get;
    Picos: u64, new, get;
    Nanos: u64, new, get;
    Bytes: u64, new, get;
    Packets: u64, from_q24, q24;
}

impl ByteCodec for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        u8::from(*self).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        match u8::decode(input)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl ByteCodec for Node {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Host(host) => (false, host.get()),
            Self::Switch(switch) => (true, switch.get()),
        }
        .encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (is_switch, number) = <(bool, u32)>::decode(input)?;
        Some(if is_switch { Self::Switch(SwitchId::new(number)) } else { Self::Host(HostId::new(number)) })
    }
}

impl ByteCodec for DropCause {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Buffer => 0_u8,
            Self::Link => 1,
            Self::Loss => 2,
        }
        .encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        match u8::decode(input)? {
            0 => Some(Self::Buffer),
            1 => Some(Self::Link),
            2 => Some(Self::Loss),
            _ => None,
        }
    }
}

impl ByteCodec for RecordedRows {
    /// Ranks record nothing, so there is nothing to encode.
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(_: &mut &[u8]) -> Option<Self> {
        Some(Self::default())
    }
}

impl<T: ByteCodec> ByteCodec for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Some(None) }
    }
}

impl<A: ByteCodec, B: ByteCodec> ByteCodec for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        Some((A::decode(input)?, B::decode(input)?))
    }
}

impl<T: ByteCodec> ByteCodec for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        (0..u64::decode(input)?).map(|_| T::decode(input)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_testkit::SplitMix64;

    fn random_rows(rng: &mut SplitMix64) -> MemorySink {
        let next_u32 = |rng: &mut SplitMix64| u32::try_from(rng.next_u64() >> 32).unwrap();
        let mut rows = MemorySink::default();
        for _ in 0..rng.below(4) {
            rows.messages.push(MessageRow {
                message: MessageId::new(next_u32(rng)),
                start: Picos::new(rng.next_u64()),
                acknowledged: Picos::new(rng.next_u64()),
                size: Bytes::new(rng.next_u64()),
                retransmitted: next_u32(rng),
            });
        }
        for _ in 0..rng.below(4) {
            rows.received.push(ReceivedRow {
                message: MessageId::new(next_u32(rng)),
                time: Picos::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.drops.push(DropRow {
                time: Picos::new(rng.next_u64()),
                switch: SwitchId::new(next_u32(rng)),
                connection: ConnectionId::new(next_u32(rng)),
                packet: next_u32(rng),
                cause: *rng.pick(&[DropCause::Buffer, DropCause::Link, DropCause::Loss]),
            });
        }
        for _ in 0..rng.below(4) {
            rows.trims.push(TrimRow {
                switch: SwitchId::new(next_u32(rng)),
                port: PortId::new(next_u32(rng)),
                trimmed: rng.next_u64(),
            });
        }
        for _ in 0..rng.below(4) {
            let host = Node::Host(HostId::new(next_u32(rng)));
            let switch = Node::Switch(SwitchId::new(next_u32(rng)));
            let port = NodePort::new(*rng.pick(&[host, switch]), PortId::new(next_u32(rng)));
            rows.pause_times.push(PauseTimeRow { port, paused: Picos::new(rng.next_u64()) });
        }
        for _ in 0..rng.below(4) {
            let mut port = || SwitchPort::new(SwitchId::new(next_u32(rng)), PortId::new(next_u32(rng)));
            rows.pause_waits.push(PauseWaitRow { waiting: port(), blocked_by: port(), priority: 3 });
        }
        for _ in 0..rng.below(4) {
            rows.queues.push(QueueRow {
                time: Picos::new(rng.next_u64()),
                switch: SwitchId::new(next_u32(rng)),
                port: PortId::new(next_u32(rng)),
                queued: Bytes::new(rng.next_u64()),
                delay: Nanos::new(rng.next_u64()),
                sent: Bytes::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.senders.push(SenderRow {
                time: Picos::new(rng.next_u64()),
                connection: ConnectionId::new(next_u32(rng)),
                window: Packets::from_q24(rng.next_u64()),
                in_flight: next_u32(rng),
                srtt: Nanos::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.receivers.push(ReceiverRow {
                time: Picos::new(rng.next_u64()),
                connection: ConnectionId::new(next_u32(rng)),
                received: Bytes::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.decisions.push(DecisionRow {
                time: Picos::new(rng.next_u64()),
                connection: ConnectionId::new(next_u32(rng)),
                packet: next_u32(rng),
                rtt: Nanos::new(rng.next_u64()),
                marked: rng.below(2) == 0,
                hop_delay: (rng.below(2) == 0).then(|| Nanos::new(rng.next_u64())),
                hop_queue: (rng.below(2) == 0).then(|| Bytes::new(rng.next_u64())),
                window: Packets::from_q24(rng.next_u64()),
            });
        }
        rows
    }

    /// Checks that decoding returns the original value and that every proper prefix of the encoding is
    /// rejected.
    fn assert_round_trip<T: ByteCodec + PartialEq + core::fmt::Debug>(value: &T) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!(T::decode(&mut rest).as_ref(), Some(value));
        assert!(rest.is_empty(), "{} trailing bytes", rest.len());
        for length in 0..bytes.len() {
            assert_eq!(T::decode(&mut &bytes[..length]), None, "{length} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn rows_round_trip() {
        for seed in 0..300 {
            assert_round_trip(&random_rows(&mut SplitMix64::new(seed)));
        }
    }

    #[test]
    fn report_round_trips() {
        let mut rng = SplitMix64::new(1);
        let report = Report {
            ended: Picos::new(rng.next_u64()),
            interrupted: true,
            max_lateness: Picos::new(rng.next_u64()),
            packet_hops: rng.next_u64(),
            sent: rng.next_u64(),
            delivered: rng.next_u64(),
            replies: rng.next_u64(),
            nacks: rng.next_u64(),
            dropped: rng.next_u64(),
            trimmed: rng.next_u64(),
            trimmed_at_last_hop: rng.next_u64(),
            trimmed_bytes: Bytes::new(rng.next_u64()),
            in_flight: rng.next_u64(),
            retransmitted: rng.next_u64(),
            timeouts: rng.next_u64(),
            marks: rng.next_u64(),
            marks_carried: rng.next_u64(),
            pauses: rng.next_u64(),
            repaths: rng.next_u64(),
            decisions: rng.next_u64(),
            decisions_with_telemetry: rng.next_u64(),
            sent_bytes: Bytes::new(rng.next_u64()),
            delivered_bytes: Bytes::new(rng.next_u64()),
            result_hash: rng.next_u64(),
        };
        assert_round_trip(&report);
        assert_round_trip(&(i128::MIN, i128::from(u64::MAX) + 1));
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        assert_eq!(bool::decode(&mut [2].as_slice()), None);
        assert_eq!(DropCause::decode(&mut [3].as_slice()), None);
        assert_eq!(MemorySink::decode(&mut [255; 64].as_slice()), None, "the list length exceeds the input");
    }
}
