//! What both simulators are given.

use poseidon_types::{BitRate, Bytes, Nanos};

/// Payload of a packet on both sides.
pub(crate) const SEGMENT: Bytes = Bytes::new(1_448);
/// PPP 2, IP 20, TCP 20 and its timestamps 12: the headers of an ns-3 packet, and all there is to an ACK.
pub(crate) const HEADERS: Bytes = Bytes::new(54);
/// DCTCP's threshold at 10 Gbps, in packets (SIGCOMM'10).
pub(crate) const MARK_PACKETS: u64 = 65;
/// The second half of a run is looked at in this many slices.
pub(crate) const SLICES: usize = 10;

/// A packet on the wire.
pub(crate) fn packet() -> Bytes {
    SEGMENT + HEADERS
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    Dctcp,
    Cubic,
}

/// What the switch does with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disc {
    /// Marks a packet as it leaves more than the threshold behind: what our switch does.
    Leaving,
    /// Marks a packet that finds the threshold as it arrives: ns-3's RED as a step. Our switch cannot.
    Arriving,
    /// Drops what does not fit.
    Fifo,
}

/// N senders, N receivers, one link between their switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dumbbell {
    pub(crate) law: Law,
    pub(crate) flows: u32,
    pub(crate) disc: Disc,
    /// ns-3 only: a cut is spread over a round trip (RFC 6937), as it does by itself. Our hosts fall silent instead.
    pub(crate) spread_cuts: bool,
    /// The link in the middle; those of hosts are four times as fast, so that packets wait in the switch.
    pub(crate) rate: BitRate,
    /// Of every link, one way.
    pub(crate) delay: Nanos,
    /// Packets that may wait in the middle.
    pub(crate) buffer: u64,
    /// Packets; more of them mark.
    pub(crate) threshold: u64,
    pub(crate) stop: Nanos,
    /// Between the starts of two flows.
    pub(crate) gap: Nanos,
    /// What `gap` is in turn: which packet meets which depends on it, and in a world without chance that can last.
    pub(crate) gaps: &'static [Nanos],
    pub(crate) min_rto: Nanos,
}

impl Dumbbell {
    /// Two DCTCP flows in a datacenter: 10 Gbps, 94 us round trip.
    pub(crate) const DCTCP: Self = Self {
        law: Law::Dctcp,
        flows: 2,
        disc: Disc::Leaving,
        spread_cuts: true,
        rate: BitRate::from_gbps(10),
        delay: Nanos::from_micros(15),
        buffer: 1_000,
        threshold: MARK_PACKETS,
        stop: Nanos::from_millis(400),
        gap: Nanos::from_micros(1),
        // From a part of a round trip to a dozen of them.
        gaps: &[
            Nanos::new(6_300),
            Nanos::new(123_300),
            Nanos::new(286_200),
            Nanos::new(423_900),
            Nanos::new(560_700),
            Nanos::new(684_900),
            Nanos::new(826_200),
            Nanos::new(994_500),
            Nanos::new(1_161_000),
        ],
        min_rto: Nanos::from_millis(10),
    };

    /// Two CUBIC flows where CUBIC is cubic: 20 Mbps, 200 ms, a buffer of one bandwidth-delay product. In a datacenter an RFC
    /// 9438 flow is a Reno flow (its section 4.3), which ns-3.37 does not have.
    pub(crate) const CUBIC: Self = Self {
        law: Law::Cubic,
        disc: Disc::Fifo,
        rate: BitRate::from_mbps(20),
        delay: Nanos::from_micros(33_000),
        buffer: 333,
        threshold: 333,
        stop: Nanos::from_millis(400_000),
        // Within one round trip: flows that start one by one need longer than the run to become equal.
        gaps: &[
            Nanos::from_millis(13),
            Nanos::from_millis(37),
            Nanos::from_millis(50),
            Nanos::from_millis(77),
            Nanos::from_millis(123),
        ],
        min_rto: Nanos::from_millis(1_000),
        ..Self::DCTCP
    };

    pub(crate) const fn host_rate(&self) -> BitRate {
        BitRate::from_bps(self.rate.get() * 4)
    }

    /// Between two looks at the queue: some tens in a round trip.
    pub(crate) const fn look_every(&self) -> Nanos {
        Nanos::new(self.delay.get() / 10)
    }
}

/// Hosts on one switch, 10 Gbps, 1 us; each sends to another without end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star {
    pub(crate) hosts: u32,
    pub(crate) stop: Nanos,
}

impl Star {
    /// Host `i` sends to host `i + shift`, round the end.
    pub(crate) const fn shift(&self) -> u32 {
        self.hosts / 2 + 1
    }
}
