//! One direction of a link: the node at its far end, its delay and its rate.

use poseidon_plan::Link;
use poseidon_plan::link_changes::LinkEvent;
use poseidon_types::{BitRate, Bytes, Picos, PortId};

use crate::node::NodeId;

/// All link rates that occur during the run, sorted. Packet telemetry stores an index into this list.
#[derive(Clone, Debug)]
pub(crate) struct LinkRates(Vec<BitRate>);

impl LinkRates {
    pub(crate) fn new(rates: impl Iterator<Item = BitRate>) -> Self {
        let mut rates: Vec<BitRate> = rates.collect();
        rates.sort_unstable();
        rates.dedup();
        Self(rates)
    }

    pub(crate) fn as_slice(&self) -> &[BitRate] {
        &self.0
    }

    /// Returns a rate's index in the list.
    pub(crate) fn index_of(&self, rate: BitRate) -> u16 {
        self.0.binary_search(&rate).ok().and_then(|index| u16::try_from(index).ok()).unwrap_or(0)
    }
}

impl core::ops::Index<usize> for LinkRates {
    type Output = BitRate;
    #[inline]
    fn index(&self, index: usize) -> &BitRate {
        &self.0[index]
    }
}

/// The number of a wire's impairment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImpairmentId(u16);

impl ImpairmentId {
    /// The wire has no impairment.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// Returns the number with this index. The plan was checked, so the index is in range.
    pub(crate) fn from_index(index: usize) -> Self {
        u16::try_from(index).map_or(Self::NONE, Self)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Returns the rate of a link that is slower than its topology states.
pub(crate) fn slow_rate(rate: BitRate, divisor: u8) -> BitRate {
    BitRate::from_bps((rate.get() / u64::from(divisor.max(1))).max(1))
}

/// One direction of a link, as seen from its sending port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The node at the far end.
    pub(crate) peer: NodeId,
    /// Picoseconds per byte, or zero if that is not a whole number.
    ps_per_byte: u32,
    /// The propagation and pipeline delay: the time from the packet's last bit on the wire until the packet
    /// is enqueued at the next node.
    pub(crate) delay: Picos,
    pub(crate) rate: BitRate,
    peer_port: u16,
    /// The rate's index in [`LinkRates`].
    pub(crate) rate_index: u16,
    pub(crate) is_up: bool,
    /// The impairment of this direction of the link.
    pub(crate) impairment: ImpairmentId,
}

impl Wire {
    pub(crate) fn new(
        peer: NodeId,
        peer_port: PortId,
        link: Link,
        pipeline: Picos,
        rates: &LinkRates,
    ) -> Self {
        let mut wire = Self {
            peer,
            peer_port: u16::try_from(peer_port.get()).unwrap_or(u16::MAX),
            delay: link.delay + pipeline,
            rate: link.rate,
            ps_per_byte: 0,
            rate_index: 0,
            is_up: true,
            impairment: ImpairmentId::NONE,
        };
        wire.set_rate(link.rate, rates);
        wire
    }

    /// Returns the wire with an impairment.
    pub(crate) const fn with_impairment(self, impairment: ImpairmentId) -> Self {
        Self { impairment, ..self }
    }

    /// Divides the rate of the wire. The lower rate must be among `rates`.
    pub(crate) fn slow_down(&mut self, divisor: u8, rates: &LinkRates) {
        self.set_rate(slow_rate(self.rate, divisor), rates);
    }

    fn set_rate(&mut self, rate: BitRate, rates: &LinkRates) {
        let ps_per_byte = rate.send_time_ceil(Bytes::new(1)).get();
        let is_exact = rate.send_time_ceil(Bytes::new(1 << 20)).get() == ps_per_byte << 20;
        (self.rate, self.rate_index) = (rate, rates.index_of(rate));
        self.ps_per_byte = if is_exact { u32::try_from(ps_per_byte).unwrap_or(0) } else { 0 };
    }

    /// Returns the port at the far end.
    #[inline]
    pub(crate) const fn peer_port(&self) -> PortId {
        PortId::new(self.peer_port as u32)
    }

    /// Returns the time needed to serialize `size` bytes.
    #[inline]
    pub(crate) fn send_time(&self, size: u16) -> Picos {
        match self.ps_per_byte {
            0 => self.rate.send_time_ceil(Bytes::new(u64::from(size))),
            ps => Picos::new(u64::from(ps) * u64::from(size)),
        }
    }

    /// Applies a link failure, recovery, or change of rate or delay. A packet that crosses the link then waits in the
    /// pipeline of the next switch.
    pub(crate) fn apply(&mut self, event: LinkEvent, rates: &LinkRates, pipeline: Picos) {
        match event {
            LinkEvent::Down => self.is_up = false,
            LinkEvent::Up => self.is_up = true,
            LinkEvent::Rate(rate) => self.set_rate(rate, rates),
            LinkEvent::Delay(delay) => self.delay = delay + pipeline,
        }
    }
}
