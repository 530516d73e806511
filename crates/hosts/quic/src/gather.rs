//! Packets to the kernel from where they lie, each behind a prefix: no copy of them is put together first.
//!
//! ```text
//!   quinn's buffer    | packet 1 | packet 2 | pack |
//!   pieces            prefix, packet 1, prefix, packet 2, prefix, pack        one sendmsg with UDP_SEGMENT
//! ```
//!
//! quinn's own socket takes one slice and so wants a copy, which is most of what the shim costs a jumbo frame. What is sent beside the bytes is what
//! quinn-udp sends: ECN, the length of a packet, the address to send from.

use crate::prefix::PREFIX_BYTES;
use core::net::IpAddr;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use quinn::udp::Transmit;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// Packets from which on it pays. A piece costs the kernel about as much as copying a kilobyte costs us: at 1452 bytes CPU per byte is 1.065 of bare
/// quinn's this way and 1.03 with a copy, at 8900 bytes 1.046 and 1.074.
const LARGE: usize = 4_096;
/// What Linux takes at a time (`UDP_MAX_SEGMENTS` before 6.9); quinn hands out ten.
const MOST_PACKETS: usize = 64;

/// Whether the kernel has taken all of it, or else nothing, whatever the reason: who then goes the long way learns it there.
/// Small packets are not even tried.
pub(crate) fn send(socket: &UdpSocket, transmit: &Transmit<'_>, prefix: &[u8; PREFIX_BYTES]) -> bool {
    let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
    let packets = transmit.contents.len().div_ceil(size);
    let Ok(segment) = u16::try_from(size + PREFIX_BYTES) else { return false };
    if size < LARGE || packets > MOST_PACKETS {
        return false;
    }
    let mut pieces = [IoSlice::new(prefix); 2 * MOST_PACKETS];
    for (piece, packet) in pieces.iter_mut().skip(1).step_by(2).zip(transmit.contents.chunks(size)) {
        *piece = IoSlice::new(packet);
    }
    let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
    let class = i32::from(ecn);
    let (from_v4, from_v6) = (transmit.src_ip.and_then(source_v4), transmit.src_ip.and_then(source_v6));
    let control = [
        Some(if is_v4(transmit.destination.ip()) {
            ControlMessage::Ipv4Tos(&ecn)
        } else {
            ControlMessage::Ipv6TClass(&class)
        }),
        (packets > 1).then_some(ControlMessage::UdpGsoSegments(&segment)),
        from_v4.as_ref().map(ControlMessage::Ipv4PacketInfo),
        from_v6.as_ref().map(ControlMessage::Ipv6PacketInfo),
    ];
    // As many as there are, at the beginning.
    let mut given = [ControlMessage::Ipv4Tos(&ecn); 4];
    let count =
        given.iter_mut().zip(control.into_iter().flatten()).map(|(place, message)| *place = message).count();
    let to = SockaddrStorage::from(transmit.destination);
    sendmsg(socket.as_raw_fd(), &pieces[..2 * packets], &given[..count], MsgFlags::MSG_DONTWAIT, Some(&to))
        .is_ok()
}

/// Also where a socket of IPv6 sends to it.
fn is_v4(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    }
}

fn source_v4(ip: IpAddr) -> Option<in_pktinfo> {
    let IpAddr::V4(ip) = ip else { return None };
    let ipi_spec_dst = in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
    Some(in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: in_addr { s_addr: 0 } })
}

fn source_v6(ip: IpAddr) -> Option<in6_pktinfo> {
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
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("more than zero");
        socket
    }

    fn transmit<'a>(to: &UdpSocket, contents: &'a [u8], segment_size: Option<usize>) -> Transmit<'a> {
        let destination = to.local_addr().expect("bound");
        Transmit { destination, ecn: Some(EcnCodepoint::Ect0), contents, segment_size, src_ip: None }
    }

    #[test]
    fn each_packet_comes_behind_its_prefix() {
        for (here, from) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")] {
            let (sender, receiver) = (socket(here), socket(here));
            let contents: Vec<u8> = (0_u8..251).cycle().take(3 * LARGE).collect();
            let whole = Some(contents.len());
            for (size, src_ip) in
                [(Some(5_000), None), (None, from.parse().ok()), (whole, None), (Some(LARGE), None)]
            {
                let transmit = Transmit { src_ip, ..transmit(&receiver, &contents, size) };
                assert!(send(&sender, &transmit, &PREFIX), "{here} {size:?}");
                for packet in contents.chunks(size.unwrap_or(3 * LARGE)) {
                    let mut bytes = [0; 4 * LARGE];
                    let length = receiver.recv(&mut bytes).expect("it comes");
                    assert_eq!(bytes[..length], [&PREFIX, packet].concat(), "{here} {size:?}");
                }
            }
        }
    }

    #[test]
    fn ecn_is_sent_as_it_was_asked_for() {
        let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        setsockopt(&receiver, sockopt::IpRecvTos, &true).expect("Linux");
        for (ecn, expected) in [(Some(EcnCodepoint::Ect0), 2), (Some(EcnCodepoint::Ce), 3), (None, 0)] {
            assert!(send(
                &sender,
                &Transmit { ecn, ..transmit(&receiver, &[7; 3 * LARGE], Some(LARGE)) },
                &PREFIX
            ));
            for _ in 0..3 {
                let mut bytes = [0; 64];
                let (mut pieces, mut room) = ([IoSliceMut::new(&mut bytes)], nix::cmsg_space!(u8));
                let fd = receiver.as_raw_fd();
                let message =
                    recvmsg::<()>(fd, &mut pieces, Some(&mut room), MsgFlags::empty()).expect("it comes");
                let told: Vec<_> = message.cmsgs().expect("whole").collect();
                assert_eq!(told, [ControlMessageOwned::Ipv4Tos(expected)]);
            }
        }
    }

    #[test]
    fn what_is_small_or_the_kernel_would_not_take_is_not_sent() {
        let (sender, receiver) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let contents = vec![0; 65_600];
        for (bytes, size) in
            [(65_600, None), (65_600, Some(9_000)), (65_600, Some(65_530)), (LARGE, Some(1_452))]
        {
            let is_sent = send(&sender, &transmit(&receiver, &contents[..bytes], size), &PREFIX);
            assert!(!is_sent, "{bytes} bytes in packets of {size:?}");
        }
        receiver.set_nonblocking(true).expect("a socket");
        assert!(receiver.recv(&mut [0; 10]).is_err());
    }
}
