//! Sends packets and prefixes to the kernel without copying them into one buffer first.
//!
//! ```text
//!   quinn's buffer    | packet 1 | packet 2 | pack |
//!   I/O vector        prefix, packet 1, prefix, packet 2, prefix, pack        one sendmsg with UDP_SEGMENT
//! ```
//!
//! quinn's own socket accepts a single slice and therefore needs a copy. With jumbo frames, that copy accounts
//! for most of the cost of the shim. The control messages are the same as in quinn-udp: ECN, segment size and
//! source address.

use crate::core::prefix::PREFIX_BYTES;
use core::net::IpAddr;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use quinn::udp::Transmit;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// The smallest packet size for which scatter-gather I/O is faster than a copy. Each I/O vector entry costs the
/// kernel about as much as copying one kilobyte. The CPU time per byte, relative to plain quinn:
///
/// | packet | I/O vector | copy |
/// |---|---|---|
/// | 1452 bytes | 1.065 | 1.03 |
/// | 8900 bytes | 1.046 | 1.074 |
const MIN_PACKET_BYTES: usize = 4_096;
/// The maximum number of packets per call on Linux (`UDP_MAX_SEGMENTS` before 6.9). quinn sends up to ten
/// packets at a time.
const MAX_PACKETS: usize = 64;

/// Tries to send all packets and returns whether the kernel accepted them. The kernel accepts either all
/// packets or none. After a failure, the caller sends the packets through the inner socket, which reports the
/// error. For small packets, this function always returns false.
pub(crate) fn try_send(socket: &UdpSocket, transmit: &Transmit<'_>, prefix: &[u8; PREFIX_BYTES]) -> bool {
    let packet_size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
    let packets = transmit.contents.len().div_ceil(packet_size);
    let Ok(segment_size) = u16::try_from(packet_size + PREFIX_BYTES) else { return false };
    if packet_size < MIN_PACKET_BYTES || packets > MAX_PACKETS {
        return false;
    }
    let mut io_vector = [IoSlice::new(prefix); 2 * MAX_PACKETS];
    for (entry, packet) in io_vector.iter_mut().skip(1).step_by(2).zip(transmit.contents.chunks(packet_size))
    {
        *entry = IoSlice::new(packet);
    }
    let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
    let traffic_class = i32::from(ecn);
    let (source_v4, source_v6) = (transmit.src_ip.and_then(pktinfo_v4), transmit.src_ip.and_then(pktinfo_v6));
    let control = [
        Some(if is_v4(transmit.destination.ip()) {
            ControlMessage::Ipv4Tos(&ecn)
        } else {
            ControlMessage::Ipv6TClass(&traffic_class)
        }),
        (packets > 1).then_some(ControlMessage::UdpGsoSegments(&segment_size)),
        source_v4.as_ref().map(ControlMessage::Ipv4PacketInfo),
        source_v6.as_ref().map(ControlMessage::Ipv6PacketInfo),
    ];
    // Keep only the control messages that are present.
    let mut messages = [ControlMessage::Ipv4Tos(&ecn); 4];
    let count =
        messages.iter_mut().zip(control.into_iter().flatten()).map(|(slot, message)| *slot = message).count();
    let destination = SockaddrStorage::from(transmit.destination);
    let (entries, messages) = (&io_vector[..2 * packets], &messages[..count]);
    sendmsg(socket.as_raw_fd(), entries, messages, MsgFlags::MSG_DONTWAIT, Some(&destination)).is_ok()
}

/// Returns whether packets to this address are IPv4 packets, even if an IPv6 socket sends them.
fn is_v4(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    }
}

fn pktinfo_v4(ip: IpAddr) -> Option<in_pktinfo> {
    let IpAddr::V4(ip) = ip else { return None };
    let ipi_spec_dst = in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
    Some(in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: in_addr { s_addr: 0 } })
}

fn pktinfo_v6(ip: IpAddr) -> Option<in6_pktinfo> {
    let IpAddr::V6(ip) = ip else { return None };
    Some(in6_pktinfo { ipi6_ifindex: 0, ipi6_addr: in6_addr { s6_addr: ip.octets() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use nix::sys::socket::{ControlMessageOwned, recvmsg, setsockopt, sockopt};
    use quinn::udp::EcnCodepoint;
    use std::io::IoSliceMut;

    const PREFIX: [u8; PREFIX_BYTES] = [0x10, 1, 2, 3, 0x10, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).expect("a port is free");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("the timeout is not zero");
        socket
    }

    fn transmit<'a>(receiver: &UdpSocket, contents: &'a [u8], segment_size: Option<usize>) -> Transmit<'a> {
        let destination = receiver.local_addr().expect("the socket is bound");
        Transmit { destination, ecn: Some(EcnCodepoint::Ect0), contents, segment_size, src_ip: None }
    }

    #[test]
    fn every_packet_follows_its_prefix() {
        for (bind_address, source) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")] {
            let (sender, receiver) = (socket(bind_address), socket(bind_address));
            let contents: Vec<u8> = (0_u8..251).cycle().take(3 * MIN_PACKET_BYTES).collect();
            for (size, src_ip) in [
                (Some(5_000), None),
                (None, source.parse().ok()),
                (Some(contents.len()), None),
                (Some(MIN_PACKET_BYTES), None),
            ] {
                let transmit = Transmit { src_ip, ..transmit(&receiver, &contents, size) };
                assert!(try_send(&sender, &transmit, &PREFIX), "{bind_address} {size:?}");
                for packet in contents.chunks(size.unwrap_or(3 * MIN_PACKET_BYTES)) {
                    let mut bytes = [0; 4 * MIN_PACKET_BYTES];
                    let length = receiver.recv(&mut bytes).expect("the packet arrives");
                    assert_eq!(bytes[..length], [&PREFIX, packet].concat(), "{bind_address} {size:?}");
                }
            }
        }
    }

    #[test]
    fn ecn_codepoint_is_sent() {
        let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        setsockopt(&receiver, sockopt::IpRecvTos, &true).expect("Linux supports the option");
        for (ecn, expected) in [(Some(EcnCodepoint::Ect0), 2), (Some(EcnCodepoint::Ce), 3), (None, 0)] {
            assert!(try_send(
                &sender,
                &Transmit { ecn, ..transmit(&receiver, &[7; 3 * MIN_PACKET_BYTES], Some(MIN_PACKET_BYTES)) },
                &PREFIX
            ));
            for _ in 0..3 {
                let mut bytes = [0; 64];
                let (mut io_vector, mut control) = ([IoSliceMut::new(&mut bytes)], nix::cmsg_space!(u8));
                let fd = receiver.as_raw_fd();
                let message = recvmsg::<()>(fd, &mut io_vector, Some(&mut control), MsgFlags::empty())
                    .expect("the packet arrives");
                let messages: Vec<_> =
                    message.cmsgs().expect("the control messages are not truncated").collect();
                assert_eq!(messages, [ControlMessageOwned::Ipv4Tos(expected)]);
            }
        }
    }

    #[test]
    fn small_and_oversized_packets_are_not_sent() {
        let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let contents = vec![0; 65_600];
        for (bytes, size) in
            [(65_600, None), (65_600, Some(9_000)), (65_600, Some(65_530)), (MIN_PACKET_BYTES, Some(1_452))]
        {
            let was_sent = try_send(&sender, &transmit(&receiver, &contents[..bytes], size), &PREFIX);
            assert!(!was_sent, "{bytes} bytes in packets of {size:?}");
        }
        receiver.set_nonblocking(true).expect("the socket supports nonblocking mode");
        assert!(receiver.recv(&mut [0; 10]).is_err());
    }
}
