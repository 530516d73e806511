//! Builds the Ethernet frame of a captured packet.

use super::stream::Streams;
use poseidon_plan::Plan;
use poseidon_plan::records::{CapturedKind, CapturedPacket, CapturedTelemetry};
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_types::{HostId, MaxHopDelay};
use poseidon_wire::checksum::internet;
use poseidon_wire::quantiser::Scale as _;
use poseidon_wire::{hop_word, hpcc_ns3, tcp_option};

/// The number of bytes of a frame that a capture stores.
pub const SNAP_LENGTH: usize = 128;

/// The TCP port of all receivers. The dissector registers HPCC's header for this port.
const RECEIVER_PORT: u16 = 65_053;
/// Senders use the ports from this one to the port before the receivers' port.
const FIRST_SENDER_PORT: u32 = 1_024;

const ETHERNET_HEADER: usize = 14;
const IPV4_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_MAC_CONTROL: [u8; 2] = [0x88, 0x08];
const PROTOCOL_TCP: u8 = 6;
const INITIAL_TTL: u8 = 64;

/// ECN in the IP header.
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

/// TCP flags.
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// The hop words of HPCC's ns-3 artifact.
const HPCC: hop_word::Codec = hop_word::Codec::new(hop_word::Layout::Ns3);

/// A frame without its zero payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The headers and the telemetry, and as much payload as is stored.
    pub(super) bytes: Vec<u8>,
    /// The size of the whole frame.
    pub(super) length: usize,
    /// What the headers do not say.
    pub(super) comment: String,
}

/// Builds the frames of a plan's packets.
#[derive(Debug)]
pub(super) struct FrameBuilder<'a> {
    plan: &'a Plan,
    streams: Streams,
    /// The bytes that telemetry adds to the payload of every packet.
    telemetry_payload: u64,
}

impl<'a> FrameBuilder<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let telemetry_payload = match plan.switch.stamp {
            Stamp::HopRecords(RecordCarrier::HpccNs3) => hpcc_ns3::HEADER_BYTES as u64,
            Stamp::HopRecords(RecordCarrier::Exact) | Stamp::MaxHopDelay(_) | Stamp::Off => 0,
        };
        Self { plan, streams: Streams::new(plan), telemetry_payload }
    }

    /// Builds the frame of a packet.
    pub(super) fn build(&self, packet: &CapturedPacket) -> Frame {
        match packet.kind {
            CapturedKind::Pause | CapturedKind::Resume => pfc_frame(packet),
            CapturedKind::Data
            | CapturedKind::Trimmed
            | CapturedKind::Ack
            | CapturedKind::Nack
            | CapturedKind::Cnp => self.tcp_frame(packet),
        }
    }

    /// Returns the position of a packet in its sender's byte stream, as a TCP sequence number.
    pub(super) fn sequence_number(&self, packet: &CapturedPacket, number: u32) -> u32 {
        let bytes = self.streams.bytes_before(packet.connection, number);
        let telemetry = self.telemetry_payload.wrapping_mul(u64::from(number));
        low32(bytes.wrapping_add(telemetry).wrapping_add(1))
    }

    fn tcp_frame(&self, packet: &CapturedPacket) -> Frame {
        let connection = self.plan.connections[packet.connection.index()];
        let is_data = packet.kind.is_from_sender();
        let (from, to) =
            if is_data { (connection.from, connection.to) } else { (connection.to, connection.from) };
        let options = self.tcp_options(packet);
        let telemetry = hop_record_header(packet, self.telemetry_payload > 0);
        let payload = telemetry.len() + usize::try_from(packet.payload.get()).unwrap_or(usize::MAX);
        let ip_length = IPV4_HEADER + TCP_HEADER + options.len() + payload;
        let mut bytes = Vec::with_capacity(SNAP_LENGTH);
        bytes.extend(host_mac(to));
        bytes.extend(host_mac(from));
        bytes.extend(ETHERTYPE_IPV4);
        bytes.extend(ipv4_header(packet, from, to, low16(ip_length)));
        bytes.extend(self.tcp_header(packet, &options));
        bytes.extend(&options);
        bytes.extend(&telemetry);
        fill_tcp_checksum(&mut bytes, low16(ip_length - IPV4_HEADER));
        let length = ETHERNET_HEADER + ip_length;
        bytes.resize(length.min(SNAP_LENGTH), 0);
        Frame { bytes, length, comment: comment(packet, self.plan) }
    }

    fn tcp_header(&self, packet: &CapturedPacket, options: &[u8]) -> [u8; TCP_HEADER] {
        let sender_ports = u32::from(RECEIVER_PORT) - FIRST_SENDER_PORT;
        let sender_port = low16((FIRST_SENDER_PORT + packet.connection.get() % sender_ports) as usize);
        let is_data = packet.kind.is_from_sender();
        let (source, destination) =
            if is_data { (sender_port, RECEIVER_PORT) } else { (RECEIVER_PORT, sender_port) };
        let (sequence, acknowledgement) = if is_data {
            (self.sequence_number(packet, packet.number), 1)
        } else {
            // The telemetry of ACKs also takes bytes of the stream. ACKs are numbered like their packets.
            let position = self.telemetry_payload.wrapping_mul(u64::from(packet.number)).wrapping_add(1);
            (low32(position), self.sequence_number(packet, packet.cumulative_ack))
        };
        let mut flags = ACK;
        if packet.cwr {
            flags |= CWR;
        }
        if !is_data && packet.marked {
            flags |= ECE;
        }
        let offset = u8::try_from((TCP_HEADER + options.len()) / 4).unwrap_or(15) << 4;
        let mut header = [0; TCP_HEADER];
        header[0..2].copy_from_slice(&source.to_be_bytes());
        header[2..4].copy_from_slice(&destination.to_be_bytes());
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        header[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
        (header[12], header[13]) = (offset, flags);
        // The receivers of the simulator have unlimited buffers.
        header[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        header
    }

    /// Returns the TCP options: the maximum hop delay, and a SACK block if the ACK is ahead of the cumulative ACK.
    fn tcp_options(&self, packet: &CapturedPacket) -> Vec<u8> {
        let mut options = Vec::new();
        if let CapturedTelemetry::MaxHopDelay { path, reflected } = packet.telemetry {
            let code = |delay: MaxHopDelay| tcp_option::SCALE.encode_delay_u16(delay.worst);
            let is_reply = !packet.kind.is_from_sender();
            let repr = tcp_option::Repr {
                ids: tcp_option::Ids::default(),
                max_hop_delay: code(path),
                echo: (is_reply && reflected.hops > 0).then(|| code(reflected)),
            };
            let mut bytes = [0; tcp_option::HEADER_BYTES];
            repr.emit(&mut bytes).expect("the buffer has the size of the option");
            options.extend(bytes);
        }
        if packet.kind == CapturedKind::Ack && packet.number >= packet.cumulative_ack {
            // Two NOPs align the block.
            options.extend([1, 1, 5, 10]);
            options.extend(self.sequence_number(packet, packet.number).to_be_bytes());
            options.extend(self.sequence_number(packet, packet.number.saturating_add(1)).to_be_bytes());
        }
        options
    }
}

/// Returns HPCC's header with the packet's hop records, or nothing if the plan has no such header.
fn hop_record_header(packet: &CapturedPacket, has_header: bool) -> Vec<u8> {
    if !has_header {
        return Vec::new();
    }
    let mut bytes = vec![0; hpcc_ns3::HEADER_BYTES];
    if let CapturedTelemetry::HopRecords(records) = packet.telemetry {
        let mut header =
            hpcc_ns3::Packet::new_checked(&mut bytes).expect("the buffer has the size of the header");
        for record in records.as_slice() {
            // The simulator accepts only rates that the header can encode.
            let _ = header.push(record, &HPCC);
        }
    }
    bytes
}

fn ipv4_header(packet: &CapturedPacket, from: HostId, to: HostId, length: u16) -> [u8; IPV4_HEADER] {
    let is_data = packet.kind.is_from_sender();
    let ecn = match (is_data, packet.marked) {
        (true, true) => CE,
        (true, false) => ECT_0,
        (false, _) => 0,
    };
    let ttl = if is_data { INITIAL_TTL.saturating_sub(packet.switches) } else { INITIAL_TTL };
    let mut header = [0; IPV4_HEADER];
    // Version 4, five words. The priority is the class selector of DSCP.
    (header[0], header[1]) = (0x45, packet.priority << 5 | ecn);
    header[2..4].copy_from_slice(&length.to_be_bytes());
    // Don't fragment.
    header[6] = 0x40;
    (header[8], header[9]) = (ttl, PROTOCOL_TCP);
    header[12..16].copy_from_slice(&host_address(from));
    header[16..20].copy_from_slice(&host_address(to));
    let checksum = internet(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Writes the TCP checksum of a frame whose remaining payload is zero.
fn fill_tcp_checksum(frame: &mut [u8], tcp_length: u16) {
    let tcp = ETHERNET_HEADER + IPV4_HEADER;
    let mut covered = frame[ETHERNET_HEADER + 12..tcp].to_vec();
    covered.extend([0, PROTOCOL_TCP]);
    covered.extend(tcp_length.to_be_bytes());
    covered.extend(&frame[tcp..]);
    let checksum = internet(&covered);
    frame[tcp + 16..tcp + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns a PFC frame: one priority with the largest pause time, or with zero to resume it.
fn pfc_frame(packet: &CapturedPacket) -> Frame {
    let is_pause = packet.kind == CapturedKind::Pause;
    let mut bytes = vec![0x01, 0x80, 0xc2, 0, 0, 0x01, 0x02, 0x01, 0, 0, 0, 0];
    bytes.extend(ETHERTYPE_MAC_CONTROL);
    // The opcode of PFC, and a bit per priority.
    bytes.extend([0x01, 0x01, 0, 1 << packet.priority]);
    for priority in 0..8 {
        let is_paused = is_pause && priority == packet.priority;
        bytes.extend(if is_paused { u16::MAX } else { 0 }.to_be_bytes());
    }
    // The smallest Ethernet frame without its checksum.
    bytes.resize(60, 0);
    let verb = if is_pause { "pauses" } else { "resumes" };
    Frame { length: bytes.len(), bytes, comment: format!("{verb} priority {}", packet.priority) }
}

/// Describes what the headers do not say.
fn comment(packet: &CapturedPacket, plan: &Plan) -> String {
    let mut parts = Vec::new();
    match packet.kind {
        CapturedKind::Nack => parts.push("NACK".to_owned()),
        CapturedKind::Cnp => parts.push("CNP".to_owned()),
        CapturedKind::Trimmed => parts.push("trimmed".to_owned()),
        CapturedKind::Data if packet.marked => parts.push("marked (CE)".to_owned()),
        CapturedKind::Data | CapturedKind::Ack | CapturedKind::Pause | CapturedKind::Resume => {}
    }
    match packet.telemetry {
        CapturedTelemetry::MaxHopDelay { path, reflected }
            if plan.switch.stamp == Stamp::MaxHopDelay(DelayCarrier::Exact) =>
        {
            if path.hops > 0 {
                parts.push(format!("largest hop delay {} over {} hops", path.worst, path.hops));
            }
            if !packet.kind.is_from_sender() && reflected.hops > 0 {
                parts.push(format!("echo {} over {} hops", reflected.worst, reflected.hops));
            }
        }
        CapturedTelemetry::HopRecords(records)
            if plan.switch.stamp == Stamp::HopRecords(RecordCarrier::Exact) =>
        {
            for (hop, record) in records.as_slice().iter().enumerate() {
                parts.push(format!(
                    "hop {}: time {}, sent {}, queue {}, rate {}",
                    hop + 1,
                    record.timestamp,
                    record.sent,
                    record.queue,
                    record.rate
                ));
            }
        }
        CapturedTelemetry::HopRecords(_)
        | CapturedTelemetry::MaxHopDelay { .. }
        | CapturedTelemetry::None => {}
    }
    parts.join("; ")
}

/// Returns a host's IPv4 address, which contains its number.
fn host_address(host: HostId) -> [u8; 4] {
    let [_, b, c, d] = host.get().to_be_bytes();
    [10, b, c, d]
}

/// Returns a host's MAC address, which is locally administered and contains its number.
fn host_mac(host: HostId) -> [u8; 6] {
    let [_, b, c, d] = host.get().to_be_bytes();
    [0x02, 0, 0, b, c, d]
}

fn low32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}

/// Converts a length. Frames of the simulator are below 64 kB.
fn low16(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;
    use poseidon_plan::switch::DelayCarrier;
    use poseidon_testkit::plans::{self, LINK};
    use poseidon_types::{Bytes, ConnectionId, HopRecord, HopStack, Nanos};

    const DATA: CapturedPacket = CapturedPacket {
        connection: ConnectionId::new(1),
        kind: CapturedKind::Data,
        number: 2,
        cumulative_ack: 0,
        size: Bytes::new(1_064),
        payload: Bytes::new(1_000),
        priority: 1,
        marked: true,
        cwr: true,
        switches: 3,
        telemetry: CapturedTelemetry::None,
    };

    fn plan(stamp: Stamp) -> Plan {
        let mut plan = plans::plan(Topology::fat_tree(4, LINK), "fixed", &[(0, 1), (2, 3)]);
        plan.transport.mtu = Bytes::new(1_000);
        plan.switch.stamp = stamp;
        plan
    }

    const fn delay(ns: u64, hops: u8) -> MaxHopDelay {
        MaxHopDelay { worst: Nanos::new(ns), hops, incomplete: false, saturated: false }
    }

    #[test]
    fn a_data_packet_has_these_headers() {
        let plan = plan(Stamp::MaxHopDelay(DelayCarrier::Shim));
        let telemetry = CapturedTelemetry::MaxHopDelay { path: delay(700, 3), reflected: delay(0, 0) };
        let frame = FrameBuilder::new(&plan).build(&CapturedPacket { telemetry, ..DATA });
        assert_eq!((frame.length, frame.bytes.len()), (14 + 20 + 28 + 1_000, SNAP_LENGTH));
        assert_eq!(frame.comment, "marked (CE)");
        let expected: &[u8] = &[
            2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 2, 0x08, 0x00, // Ethernet from host 2 to host 3
            0x45, 0x23, 0x04, 0x18, 0, 0, 0x40, 0, 61, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0,
            3, // IPv4: CS1, CE, TTL 61
            0x04, 0x01, 0xfe, 0x1d, 0, 0, 0x07, 0xd1, 0, 0, 0, 1, 0x70, 0x90, 0xff, 0xff, 0, 0, 0,
            0, // TCP: CWR, ACK
            253, 8, 0x50, 0x53, 0, 2, 0xff, 0xff, // the delay in steps of 256 ns, without an echo
        ];
        // The checksums are checked below.
        let without_checksums = |bytes: &[u8]| {
            let mut bytes = bytes[..expected.len()].to_vec();
            bytes[24..26].fill(0);
            bytes[50..52].fill(0);
            bytes
        };
        assert_eq!(without_checksums(&frame.bytes), expected);
        assert_eq!(internet(&frame.bytes[14..34]), 0, "the IPv4 checksum");
        let mut covered = frame.bytes[26..34].to_vec();
        covered.extend([0, PROTOCOL_TCP, 0x04, 0x04]);
        covered.extend(&frame.bytes[34..]);
        assert_eq!(internet(&covered), 0, "the TCP checksum, over a payload of zeros");
    }

    #[test]
    fn an_ack_beyond_a_gap_has_an_echo_and_a_sack_block() {
        let plan = plan(Stamp::MaxHopDelay(DelayCarrier::Exact));
        let telemetry = CapturedTelemetry::MaxHopDelay { path: delay(10, 1), reflected: delay(600, 3) };
        let ack = CapturedPacket {
            kind: CapturedKind::Ack,
            cumulative_ack: 1,
            payload: Bytes::ZERO,
            cwr: false,
            telemetry,
            ..DATA
        };
        let frame = FrameBuilder::new(&plan).build(&ack);
        assert_eq!(frame.length, 14 + 20 + 20 + 8 + 12);
        assert_eq!(frame.bytes.len(), frame.length);
        assert_eq!(frame.comment, "largest hop delay 10 ns over 1 hops; echo 600 ns over 3 hops");
        assert_eq!(frame.bytes[15] & 3, 0, "ACKs are not ECN-capable");
        assert_eq!(frame.bytes[34..38], [0xfe, 0x1d, 0x04, 0x01], "the ports are swapped");
        assert_eq!(frame.bytes[42..46], 1_001_u32.to_be_bytes(), "the cumulative ACK");
        assert_eq!(frame.bytes[47], ACK | ECE);
        assert_eq!(frame.bytes[54..62], [253, 8, 0x50, 0x53, 0, 0, 0, 2]);
        let block = [[1, 1, 5, 10], 2_001_u32.to_be_bytes(), 3_001_u32.to_be_bytes()].concat();
        assert_eq!(frame.bytes[62..74], block);
    }

    #[test]
    fn hop_records_come_before_the_payload() {
        let plan = plan(Stamp::HopRecords(RecordCarrier::HpccNs3));
        let mut records = HopStack::EMPTY;
        let record = HopRecord {
            timestamp: Nanos::new(5),
            sent: Bytes::new(256),
            queue: Bytes::new(800),
            rate: LINK.rate,
        };
        assert!(records.push(record));
        let telemetry = CapturedTelemetry::HopRecords(records);
        let frame = FrameBuilder::new(&plan).build(&CapturedPacket { telemetry, ..DATA });
        assert_eq!(frame.length, 14 + 20 + 20 + 42 + 1_000);
        assert_eq!(frame.bytes[38..42], (2 * 1_042 + 1_u32).to_be_bytes(), "the header counts as payload");
        let header = hpcc_ns3::Packet::new_checked(&frame.bytes[54..]).expect("the header is complete");
        assert_eq!(header.hop_stack(&HPCC).expect("the records are valid").as_slice(), [record]);
    }

    #[test]
    fn pfc_frames_pause_one_priority() {
        let plan = plan(Stamp::Off);
        let build = |kind| FrameBuilder::new(&plan).build(&CapturedPacket { kind, ..DATA });
        let (pause, resume) = (build(CapturedKind::Pause), build(CapturedKind::Resume));
        assert_eq!(
            pause.bytes[..22],
            [1, 128, 194, 0, 0, 1, 2, 1, 0, 0, 0, 0, 0x88, 8, 1, 1, 0, 2, 0, 0, 255, 255]
        );
        assert_eq!(resume.bytes[16..22], [0, 2, 0, 0, 0, 0]);
        assert!(pause.bytes.len() == 60 && pause.comment == "pauses priority 1");
    }
}
