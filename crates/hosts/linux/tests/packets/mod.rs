//! Generates packets for the programs at a port: valid packets of every supported form, and malformed packets.
//!
//! ```text
//! Ethernet | 0 to 2 VLAN tags | IPv4, options | IPv6, extension headers | TCP, options | UDP, shim | payload
//! ```

use poseidon_testkit::SplitMix64;
use poseidon_wire::checksum::internet;
use poseidon_wire::{shim, tcp_option};

/// Protocol numbers.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The header offsets of a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) network: usize,
    pub(crate) transport: usize,
    pub(crate) end: usize,
    pub(crate) protocol: u8,
    pub(crate) is_first_fragment: bool,
}

/// Returns how many packets a test sends: `count`, or a part of it in a slow guest (tools/kernels/check.py), which sets
/// `POSEIDON_TEST_DIVISOR`.
pub(crate) fn packet_count(count: u64) -> u64 {
    let divisor = std::env::var("POSEIDON_TEST_DIVISOR")
        .map_or(1, |text| text.parse().expect("POSEIDON_TEST_DIVISOR is a number from 1 on"));
    count / divisor
}

/// A flow's endpoints and ECN bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) is_v6: bool,
    pub(crate) source: u8,
    pub(crate) destination: u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) ecn: u8,
}

impl Flow {
    pub(crate) fn random(rng: &mut SplitMix64) -> Self {
        Self {
            is_v6: coin_flip(rng),
            source: byte(rng),
            destination: byte(rng),
            source_port: word(rng),
            destination_port: word(rng),
            ecn: byte(rng) & 3,
        }
    }

    /// Returns the reverse direction of the flow.
    #[allow(dead_code, reason = "not every test sends ACKs")]
    pub(crate) const fn reverse(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }

    /// Builds a frame around a transport header and payload, and sets the checksum.
    pub(crate) fn frame(&self, rng: &mut SplitMix64, protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        for _ in 0..rng.below(3) {
            let tag: u16 = *rng.pick(&[0x8100, 0x88a8]);
            frame.extend(tag.to_be_bytes());
            frame.extend(word(rng).to_be_bytes());
        }
        let network = frame.len() + 2;
        if self.is_v6 {
            frame.extend(0x86dd_u16.to_be_bytes());
            self.ipv6(rng, &mut frame, protocol, transport.len());
        } else {
            frame.extend(0x0800_u16.to_be_bytes());
            self.ipv4(rng, &mut frame, protocol, transport.len());
        }
        let transport_offset = frame.len();
        frame.extend(transport);
        set_checksum(&mut frame, network, transport_offset, protocol);
        // Ethernet pads short frames with arbitrary bytes.
        frame.extend((0..rng.below(3) * 4).map(|_| byte(rng)));
        frame
    }

    fn ipv4(&self, rng: &mut SplitMix64, frame: &mut Vec<u8>, protocol: u8, payload: usize) {
        let start = frame.len();
        let options = usize::try_from(*rng.pick(&[0, 0, 0, 1, 10])).expect("the number is small") * 4;
        let total = u16::try_from(20 + options + payload).expect("the packet fits in a frame");
        // The packet is mostly "don't fragment", and sometimes a first fragment.
        let fragment: u16 = *rng.pick(&[0x4000, 0x4000, 0, 0x2000]);
        frame.extend([0x45 + u8::try_from(options / 4).expect("the number is small"), 0xb8 | self.ecn]);
        frame.extend(total.to_be_bytes());
        frame.extend(word(rng).to_be_bytes());
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 10, 0, 0, self.source, 10, 0, 0, self.destination]);
        frame.extend(core::iter::repeat_n(1, options));
        let sum = internet(&frame[start..]);
        frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn ipv6(&self, rng: &mut SplitMix64, frame: &mut Vec<u8>, protocol: u8, payload: usize) {
        let mut kinds = Vec::new();
        for _ in 0..*rng.pick(&[0_u8, 0, 0, 1, 2, 4]) {
            kinds.push(*rng.pick(&[HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION]));
        }
        let mut extensions = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let next = kinds.get(index + 1).copied().unwrap_or(protocol);
            if *kind == FRAGMENT {
                extensions.extend([next, byte(rng), 0, byte(rng) & 1, 1, 2, 3, 4]);
            } else {
                let octets = u8::try_from(rng.below(3)).expect("the number is small");
                extensions.extend([next, octets]);
                extensions.extend(core::iter::repeat_n(0, 6 + 8 * usize::from(octets)));
            }
        }
        let payload = u16::try_from(extensions.len() + payload).expect("the packet fits in a frame");
        frame.extend([0x6b, 0x80 | self.ecn << 4, 0, 7]);
        frame.extend(payload.to_be_bytes());
        frame.extend([kinds.first().copied().unwrap_or(protocol), 64]);
        for host in [self.source, self.destination] {
            frame.extend([0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        frame.extend(extensions);
    }

    /// Builds a TCP segment.
    pub(crate) fn tcp(&self, options: &[u8], flags: u8, payload: &[u8]) -> Vec<u8> {
        assert!(options.len().is_multiple_of(4) && options.len() <= 40);
        let words = u8::try_from(5 + options.len() / 4).expect("the header has at most 15 words");
        let mut bytes = self.ports();
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, words << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(payload);
        bytes
    }

    /// Builds a UDP datagram.
    pub(crate) fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = self.ports();
        bytes.extend(u16::try_from(8 + payload.len()).expect("the packet fits in a frame").to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(payload);
        bytes
    }

    fn ports(&self) -> Vec<u8> {
        [self.source_port.to_be_bytes(), self.destination_port.to_be_bytes()].concat()
    }
}

/// Returns a TCP segment with our option among others.
pub(crate) fn segment_with_option(rng: &mut SplitMix64) -> Vec<u8> {
    let flow = Flow::random(rng);
    let mut option = [0; tcp_option::HEADER_BYTES];
    let echo = Some(word(rng)).filter(|echo| *echo > 0x8000);
    let repr = tcp_option::Repr { max_hop_delay: delay_code(rng), echo, ..tcp_option::Repr::default() };
    repr.emit(&mut option).expect("the buffer is large enough");
    let mut options = Vec::new();
    match rng.below(3) {
        // The position that Linux uses.
        0 => options.extend([1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]),
        // Any offset, including odd offsets.
        1 => options
            .extend(core::iter::repeat_n(1, usize::try_from(rng.below(33)).expect("the number is small"))),
        // After options whose bytes resemble ours.
        _ => {
            options.extend([2, 4, 5, 0xb4, 1, 3, 3, 7, 253, 6, 0x50, 0x53, 1, 1]);
            options.extend([254, 8, 0x50, 0x53, 0, 1, 0, 1]);
        }
    }
    options.extend(option);
    while options.len() % 4 != 0 || (options.len() < 40 && rng.below(4) == 0) {
        options.push(u8::from(coin_flip(rng)));
    }
    let transport = flow.tcp(&options, byte(rng), &payload(rng));
    flow.frame(rng, TCP, &transport)
}

/// Returns a UDP datagram with our shim.
pub(crate) fn datagram_with_shim(rng: &mut SplitMix64) -> Vec<u8> {
    let flow = Flow { destination_port: shim::DEFAULT_UDP_PORT, ..Flow::random(rng) };
    let flags =
        shim::Flags { incomplete: coin_flip(rng), frozen: rng.below(8) == 0, wants_coverage: coin_flip(rng) };
    let int_hops = *rng.pick(&[0, 1, 7, 254, 255]);
    let mut bytes = [0; shim::HEADER_BYTES];
    shim::Repr { flags, int_hops, max_hop_delay: delay_code(rng) }
        .emit(&mut bytes)
        .expect("the buffer is large enough");
    let transport = flow.udp(&[&bytes[..], &payload(rng)].concat());
    let mut frame = flow.frame(rng, UDP, &transport);
    if !flow.is_v6
        && rng.below(4) == 0
        && let Some(offsets) = find_offsets(&frame)
    {
        // The checksum is optional in IPv4.
        frame[offsets.transport + 6..offsets.transport + 8].fill(0);
    }
    frame
}

/// Corrupts a packet: a few bytes of its headers, its length, or the whole packet.
pub(crate) fn corrupt(rng: &mut SplitMix64, packet: &mut Vec<u8>) {
    for _ in 0..rng.within(1, 4) {
        let index = rng.index(packet.len());
        match rng.below(6) {
            0 => packet[index] = byte(rng),
            1 => packet[index] ^= 1 << rng.below(8),
            2 => packet[index] = *rng.pick(&[0, 1, 2, 8, 0xff, 253, 0x40, 44, 60]),
            // Change a byte within the headers.
            3 | 4 => {
                let index = rng.index(packet.len().min(90));
                packet[index] = byte(rng);
            }
            _ => packet.truncate(index.max(15)),
        }
    }
    if rng.below(50) == 0 {
        packet.iter_mut().for_each(|out| *out = byte(rng));
    }
    if rng.below(20) == 0 {
        packet.extend((0..rng.below(40)).map(|_| byte(rng)));
    }
    // The kernel runs no program on a frame that ends within its IP header, unless the header follows a VLAN tag.
    let min_length = match word_at(packet, 12) {
        Some(0x0800) => 34,
        Some(0x86dd) => 54,
        _ => 15,
    };
    while packet.len() < min_length {
        packet.push(byte(rng));
    }
}

/// Finds the transport header of a packet: the reference for `packet_find` in `bpf/packet.h`.
pub(crate) fn find_offsets(packet: &[u8]) -> Option<Offsets> {
    let mut network = 14;
    for _ in 0..2 {
        if matches!(word_at(packet, network - 2)?, 0x8100 | 0x88a8) {
            network += 4;
        }
    }
    let offsets = match word_at(packet, network - 2)? {
        0x0800 => find_offsets_ipv4(packet, network)?,
        0x86dd => find_offsets_ipv6(packet, network)?,
        _ => return None,
    };
    let is_valid = offsets.end <= packet.len() && offsets.transport <= offsets.end;
    (is_valid && matches!(offsets.protocol, TCP | UDP)).then_some(offsets)
}

fn find_offsets_ipv4(packet: &[u8], network: usize) -> Option<Offsets> {
    let ip = packet.get(network..network + 20)?;
    let (header, total) = (usize::from(ip[0] & 15) * 4, usize::from(word_at(ip, 2)?));
    let fragment = word_at(ip, 6)?;
    let is_valid = ip[0] >> 4 == 4 && header >= 20 && total >= header && fragment & 0x1fff == 0;
    is_valid.then_some(Offsets {
        network,
        transport: network + header,
        end: network + total,
        protocol: ip[9],
        is_first_fragment: fragment & 0x2000 != 0,
    })
}

fn find_offsets_ipv6(packet: &[u8], network: usize) -> Option<Offsets> {
    let ip = packet.get(network..network + 40)?;
    let end = network + 40 + usize::from(word_at(ip, 4)?);
    let (mut transport, mut protocol, mut is_first_fragment) = (network + 40, ip[6], false);
    for _ in 0..4 {
        if !matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            break;
        }
        let extension = packet.get(transport..transport + 4)?;
        if protocol == FRAGMENT {
            let fragment = word_at(extension, 2)?;
            if fragment >> 3 != 0 {
                return None;
            }
            is_first_fragment = fragment & 1 != 0;
            transport += 8;
        } else {
            transport += 8 + 8 * usize::from(extension[1]);
        }
        protocol = extension[0];
    }
    (ip[0] >> 4 == 6).then_some(Offsets { network, transport, end, protocol, is_first_fragment })
}

/// Returns whether the transport checksum is valid. A UDP checksum of zero means that the sender computed none.
pub(crate) fn has_valid_checksum(packet: &[u8], offsets: &Offsets) -> bool {
    let checksum = offsets.transport + checksum_offset(offsets.protocol);
    if offsets.protocol == UDP && word_at(packet, checksum) == Some(0) {
        return true;
    }
    internet(&checksummed_bytes(packet, offsets.network, offsets.transport, offsets.end, offsets.protocol))
        == 0
}

/// Returns the checksum offset in the transport header.
pub(crate) const fn checksum_offset(protocol: u8) -> usize {
    if protocol == TCP { 16 } else { 6 }
}

fn set_checksum(frame: &mut [u8], network: usize, transport: usize, protocol: u8) {
    let sum = internet(&checksummed_bytes(frame, network, transport, frame.len(), protocol));
    let sum = if protocol == UDP && sum == 0 { 0xffff } else { sum };
    let offset = transport + checksum_offset(protocol);
    frame[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the pseudo header and the transport segment: RFC 9293 section 3.1, RFC 8200 section 8.1.
fn checksummed_bytes(packet: &[u8], network: usize, transport: usize, end: usize, protocol: u8) -> Vec<u8> {
    let is_v4 = packet[network] >> 4 == 4;
    let addresses = if is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
    let length = u16::try_from(end - transport).expect("the packet fits in a frame").to_be_bytes();
    [&packet[addresses], &[0, protocol], &length, &packet[transport..end]].concat()
}

pub(crate) fn word_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..offset + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

pub(crate) fn coin_flip(rng: &mut SplitMix64) -> bool {
    rng.below(2) == 0
}

pub(crate) fn byte(rng: &mut SplitMix64) -> u8 {
    rng.next_u64().to_le_bytes()[0]
}

fn word(rng: &mut SplitMix64) -> u16 {
    u16::from_le_bytes([byte(rng), byte(rng)])
}

fn delay_code(rng: &mut SplitMix64) -> u16 {
    let random = word(rng);
    *rng.pick(&[0, 1, 100, random, 0xfffe, 0xffff])
}

fn payload(rng: &mut SplitMix64) -> Vec<u8> {
    (0..rng.below(40)).map(|_| byte(rng)).collect()
}
