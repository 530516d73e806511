//! Measures a connection from the headers of its segments, because smoltcp does not report these values.

use poseidon_types::{Nanos, Picos};
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket, TcpSeqNumber};

/// The state of one direction of a connection, seen at its sender.
#[derive(Debug, Default)]
pub(super) struct SegmentMonitor {
    /// The end of the data sent and the end of the data acknowledged, once a segment has been sent.
    range: Option<Range>,
    /// A segment whose ACK gives an RTT sample: its end, and the time at which it was sent.
    timed: Option<(TcpSeqNumber, Picos)>,
    srtt: Nanos,
    retransmitted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    acknowledged: TcpSeqNumber,
    sent: TcpSeqNumber,
}

impl SegmentMonitor {
    /// Records a segment that is sent.
    pub(super) fn on_transmit(&mut self, now: Picos, packet: &[u8]) {
        let Some(segment) = tcp_segment(packet) else { return };
        let (start, length) = (segment.seq_number(), segment.segment_len());
        if length == 0 {
            return;
        }
        let end = start + length;
        let range = self.range.get_or_insert(Range { acknowledged: start, sent: start });
        if start < range.sent {
            self.retransmitted += 1;
            // The ACK could belong to either copy (Karn's algorithm).
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        range.sent = range.sent.max(end);
    }

    /// Records a segment that has arrived.
    pub(super) fn on_receive(&mut self, now: Picos, packet: &[u8]) {
        let (Some(segment), Some(range)) = (tcp_segment(packet), &mut self.range) else { return };
        if !segment.ack() || segment.ack_number() > range.sent {
            return;
        }
        let acknowledged = segment.ack_number();
        range.acknowledged = range.acknowledged.max(acknowledged);
        if let Some((_, sent)) = self.timed.take_if(|(end, _)| *end <= acknowledged) {
            self.add_sample((now - sent).to_nanos_floor());
        }
    }

    /// Updates the smoothed RTT (RFC 6298, section 2).
    fn add_sample(&mut self, rtt: Nanos) {
        self.srtt = if self.srtt.is_zero() { rtt } else { Nanos::new((self.srtt.get() * 7 + rtt.get()) / 8) };
    }

    /// Returns the bytes that are sent and not acknowledged.
    pub(super) fn in_flight(&self) -> u64 {
        self.range.map_or(0, |range| (range.sent - range.acknowledged) as u64)
    }

    /// Returns the smoothed RTT, or zero before the first sample.
    pub(super) const fn srtt(&self) -> Nanos {
        self.srtt
    }

    /// Returns the number of segments that were sent again.
    pub(super) const fn retransmitted(&self) -> u64 {
        self.retransmitted
    }
}

/// Returns the TCP segment of an IPv4 packet.
fn tcp_segment(packet: &[u8]) -> Option<TcpPacket<&[u8]>> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    if packet.next_header() != IpProtocol::Tcp {
        return None;
    }
    TcpPacket::new_checked(packet.payload()).ok()
}
