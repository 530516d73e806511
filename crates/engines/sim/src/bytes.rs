//! What ranks tell each other, as bytes: little-endian fields in the order of their structs, lists behind their length. A field that
//! is added to one of these structs and not here does not compile.

use poseidon_plan::Report;
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, Kept, MessageRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow,
};
use poseidon_types::{Bytes, Nanos, Packets, Picos};

use crate::run::Done;

/// Has a form in bytes.
pub(crate) trait Coded: Sized {
    /// Adds it to the end of `to`.
    fn write(&self, to: &mut Vec<u8>);

    /// Takes it from the front of `from`; `None` where that is something else.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! coded {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Coded for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.write(to);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Coded::read(from)?),* })
            }
        }
    )*};
}
#[cfg(feature = "mpi")]
pub(crate) use coded;

coded! {
    Kept { messages, received, drops, queues, senders, receivers, decisions }
    MessageRow { message, start, acknowledged, size, retransmitted }
    ReceivedRow { message, at }
    DropRow { at, switch, connection, packet, cause }
    QueueRow { at, switch, port, waiting, delay, sent }
    SenderRow { at, connection, window, in_flight, srtt }
    ReceiverRow { at, connection, received }
    DecisionRow { at, connection, packet, rtt, marked, hop_delay, hop_queue, window }
    Done { report, left_over }
    Report {
        ended, broken_off, late, packet_hops, sent, delivered, replies, dropped, in_flight, retransmitted, timeouts, marks, marks_taken,
        pauses, repaths, decisions, decisions_with_telemetry, sent_bytes, delivered_bytes, result_hash,
    }
}

macro_rules! numbers {
    ($($name:ident),*) => {$(
        impl Coded for $name {
            fn write(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*first))
            }
        }
    )*};
}

numbers!(u8, u32, u64, i128);

macro_rules! quantities {
    ($($name:ident: $new:ident, $get:ident;)*) => {$(
        impl Coded for $name {
            fn write(&self, to: &mut Vec<u8>) {
                self.$get().write(to);
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                u64::read(from).map(Self::$new)
            }
        }
    )*};
}

quantities! {
    Picos: new, get;
    Nanos: new, get;
    Bytes: new, get;
    Packets: from_q24, q24;
}

impl Coded for bool {
    fn write(&self, to: &mut Vec<u8>) {
        u8::from(*self).write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        match u8::read(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Coded for DropCause {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Buffer => 0_u8,
            Self::Link => 1,
        }
        .write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        match u8::read(from)? {
            0 => Some(Self::Buffer),
            1 => Some(Self::Link),
            _ => None,
        }
    }
}

impl<T: Coded> Coded for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.is_some().write(to);
        self.iter().for_each(|some| some.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        if bool::read(from)? { T::read(from).map(Some) } else { Some(None) }
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        self.iter().for_each(|item| item.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        (0..u64::read(from)?).map(|_| T::read(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_testkit::SplitMix64;

    fn some_rows(rng: &mut SplitMix64) -> Kept {
        let small = |rng: &mut SplitMix64| u32::try_from(rng.next_u64() >> 32).unwrap();
        let mut rows = Kept::default();
        for _ in 0..rng.below(4) {
            rows.messages.push(MessageRow {
                message: small(rng),
                start: Picos::new(rng.next_u64()),
                acknowledged: Picos::new(rng.next_u64()),
                size: Bytes::new(rng.next_u64()),
                retransmitted: small(rng),
            });
        }
        for _ in 0..rng.below(4) {
            rows.received.push(ReceivedRow { message: small(rng), at: Picos::new(rng.next_u64()) });
        }
        for _ in 0..rng.below(4) {
            rows.drops.push(DropRow {
                at: Picos::new(rng.next_u64()),
                switch: small(rng),
                connection: small(rng),
                packet: small(rng),
                cause: *rng.pick(&[DropCause::Buffer, DropCause::Link]),
            });
        }
        for _ in 0..rng.below(4) {
            rows.queues.push(QueueRow {
                at: Picos::new(rng.next_u64()),
                switch: small(rng),
                port: small(rng),
                waiting: Bytes::new(rng.next_u64()),
                delay: Nanos::new(rng.next_u64()),
                sent: Bytes::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.senders.push(SenderRow {
                at: Picos::new(rng.next_u64()),
                connection: small(rng),
                window: Packets::from_q24(rng.next_u64()),
                in_flight: small(rng),
                srtt: Nanos::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.receivers.push(ReceiverRow {
                at: Picos::new(rng.next_u64()),
                connection: small(rng),
                received: Bytes::new(rng.next_u64()),
            });
        }
        for _ in 0..rng.below(4) {
            rows.decisions.push(DecisionRow {
                at: Picos::new(rng.next_u64()),
                connection: small(rng),
                packet: small(rng),
                rtt: Nanos::new(rng.next_u64()),
                marked: rng.below(2) == 0,
                hop_delay: (rng.below(2) == 0).then(|| Nanos::new(rng.next_u64())),
                hop_queue: (rng.below(2) == 0).then(|| Bytes::new(rng.next_u64())),
                window: Packets::from_q24(rng.next_u64()),
            });
        }
        rows
    }

    /// What comes back is what went in, and nothing shorter is taken for it.
    fn survives<T: Coded + PartialEq + core::fmt::Debug>(sent: &T) {
        let mut bytes = Vec::new();
        sent.write(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!(T::read(&mut rest).as_ref(), Some(sent));
        assert!(rest.is_empty(), "{} bytes too many", rest.len());
        for cut in 0..bytes.len() {
            assert_eq!(T::read(&mut &bytes[..cut]), None, "{cut} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn rows_survive_their_bytes() {
        for seed in 0..300 {
            survives(&some_rows(&mut SplitMix64::new(seed)));
        }
    }

    #[test]
    fn sums_survive_their_bytes() {
        let mut rng = SplitMix64::new(1);
        let report = Report {
            ended: Picos::new(rng.next_u64()),
            broken_off: true,
            late: Picos::new(rng.next_u64()),
            packet_hops: rng.next_u64(),
            sent: rng.next_u64(),
            delivered: rng.next_u64(),
            replies: rng.next_u64(),
            dropped: rng.next_u64(),
            in_flight: rng.next_u64(),
            retransmitted: rng.next_u64(),
            timeouts: rng.next_u64(),
            marks: rng.next_u64(),
            marks_taken: rng.next_u64(),
            pauses: rng.next_u64(),
            repaths: rng.next_u64(),
            decisions: rng.next_u64(),
            decisions_with_telemetry: rng.next_u64(),
            sent_bytes: Bytes::new(rng.next_u64()),
            delivered_bytes: Bytes::new(rng.next_u64()),
            result_hash: rng.next_u64(),
        };
        survives(&report);
        survives(&(i128::MIN, i128::from(u64::MAX) + 1));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(bool::read(&mut [2].as_slice()), None);
        assert_eq!(DropCause::read(&mut [2].as_slice()), None);
        assert_eq!(Kept::read(&mut [255; 64].as_slice()), None, "a list longer than there are bytes");
    }
}
