//! UDP sockets that send and receive single datagrams with their ECN codepoints.

use core::net::SocketAddrV4;
use nix::sys::socket::sockopt::IpRecvTos;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
};
use poseidon_plan::stack::Arrival;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// The size of the receive buffer. The default of 208 KiB overflows while the receiving thread waits for a processor.
const RECEIVE_BUFFER: usize = 4 << 20;
/// The ECN field of the TOS byte.
const ECN_MASK: u8 = 0b11;
/// ECT(0).
const ECT0: u8 = 0b10;
/// CE.
const CE: u8 = 0b11;

/// A connected socket that does not block.
pub(crate) struct DatagramSocket(OwnedFd);

impl DatagramSocket {
    /// Opens a socket in the namespace of the calling thread.
    pub(crate) fn open(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        // Several connections of a host can share a port. The kernel then finds the socket by both addresses.
        set_socket_reuseaddr(&socket, true)?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)?;
        setsockopt(&socket, IpRecvTos, &true)?;
        bind(&socket, &from)?;
        connect(&socket, &to)?;
        Ok(Self(socket))
    }

    /// Sends a datagram. `ecn_capable` sets ECT(0).
    pub(crate) fn send(&self, datagram: &[u8], ecn_capable: bool) -> io::Result<()> {
        let tos = if ecn_capable { ECT0 } else { 0 };
        let (data, control) = ([IoSlice::new(datagram)], [ControlMessage::Ipv4Tos(&tos)]);
        sendmsg::<SockaddrIn>(self.0.as_raw_fd(), &data, &control, MsgFlags::empty(), None)?;
        Ok(())
    }

    /// Receives a datagram, and returns its length and its ECN codepoint. The telemetry is part of the datagram.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Arrival)> {
        let mut control = nix::cmsg_space!(u8);
        let mut data = [IoSliceMut::new(buffer)];
        let message =
            recvmsg::<SockaddrIn>(self.0.as_raw_fd(), &mut data, Some(&mut control), MsgFlags::empty())?;
        let tos = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4Tos(tos) => Some(tos & ECN_MASK),
            _ => None,
        });
        let ecn = tos.unwrap_or(0);
        let arrival = Arrival { ecn_capable: ecn != 0, marked: ecn == CE, max_hop_delay: None };
        Ok((message.bytes, arrival))
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    /// Sends two datagrams between two sockets of this machine, one of them with ECT(0).
    #[test]
    fn ecn_codepoints_arrive() {
        // Other programs rarely use these ports of an address that only this test uses.
        let [a, b] = [40_661, 40_662].map(|port| SocketAddrV4::new(Ipv4Addr::new(127, 77, 3, 9), port));
        let (Ok(sender), Ok(receiver)) = (DatagramSocket::open(a, b), DatagramSocket::open(b, a)) else {
            // SO_RCVBUFFORCE needs CAP_NET_ADMIN, as the testbed does.
            println!("skipped: this test needs root");
            return;
        };
        let mut buffer = [0; 64];
        for ecn_capable in [true, false] {
            sender.send(b"datagram", ecn_capable).expect("the receiver exists");
            let (length, arrival) = receiver.receive(&mut buffer).expect("the datagram has arrived");
            assert_eq!(&buffer[..length], b"datagram");
            assert_eq!(arrival, Arrival { ecn_capable, marked: false, max_hop_delay: None });
        }
        let error = receiver.receive(&mut buffer).expect_err("there is no other datagram");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
