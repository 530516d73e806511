//! One direction of a link: where it leads, how long the way is, how fast it is.

use poseidon_plan::Link;
use poseidon_plan::changes::LinkEvent;
use poseidon_types::{BitRate, Bytes};

use crate::network::Network;

/// The far end of a port, and the way there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The node at the far end.
    pub(crate) node: u32,
    /// Picoseconds per byte where that is a whole number; otherwise zero.
    ps_per_byte: u32,
    /// From the last bit out to the packet's place in the next node, ps: propagation and pipeline.
    pub(crate) delay: u64,
    pub(crate) rate: BitRate,
    /// Its port.
    pub(crate) port: u16,
    /// The place of its rate among all rates of the network.
    pub(crate) rate_code: u16,
    pub(crate) is_up: bool,
}

impl Wire {
    pub(crate) fn new(node: u32, port: u32, link: Link, pipeline: u64, rate_code: u16) -> Self {
        let mut wire = Self {
            node,
            port: u16::try_from(port).unwrap_or(u16::MAX),
            delay: link.delay.get().saturating_add(pipeline),
            rate: link.rate,
            ps_per_byte: 0,
            rate_code,
            is_up: true,
        };
        wire.set_rate(link.rate, rate_code);
        wire
    }

    fn set_rate(&mut self, rate: BitRate, rate_code: u16) {
        let byte = rate.send_time_ceil(Bytes::new(1)).get();
        let exact = rate.send_time_ceil(Bytes::new(1 << 20)).get() == byte << 20;
        (self.rate, self.rate_code) = (rate, rate_code);
        self.ps_per_byte = if exact { u32::try_from(byte).unwrap_or(0) } else { 0 };
    }

    /// Time to put `size` bytes on the wire, ps.
    #[inline]
    pub(crate) fn send_time(&self, size: u16) -> u64 {
        match self.ps_per_byte {
            0 => self.rate.send_time_ceil(Bytes::new(u64::from(size))).get(),
            ps => u64::from(ps) * u64::from(size),
        }
    }

    /// Something happens to the link.
    pub(crate) fn change(&mut self, what: LinkEvent, network: &Network<'_>) {
        match what {
            LinkEvent::Down => self.is_up = false,
            LinkEvent::Up => self.is_up = true,
            LinkEvent::Rate(rate) => self.set_rate(rate, network.rate_code(rate)),
        }
    }
}
