//! Scenarios that run in both simulators.

use poseidon_types::{BitRate, Bytes, Nanos};

/// The payload size of a packet in both simulators.
pub(crate) const SEGMENT: Bytes = Bytes::new(1_448);
/// The header size of an ns-3 packet in bytes, which is also the size of an ACK: 2 for PPP, 20 for IP, 20 for TCP and
/// 12 for TCP timestamps.
pub(crate) const HEADERS: Bytes = Bytes::new(54);
/// DCTCP's marking threshold at 10 Gbps, in packets (SIGCOMM 2010).
pub(crate) const MARK_PACKETS: u64 = 65;
/// The number of time slices in the second half of a run.
pub(crate) const SLICES: usize = 10;

/// Returns the size of a full packet on the wire.
pub(crate) fn packet_size() -> Bytes {
    SEGMENT + HEADERS
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    Dctcp,
    Cubic,
}

/// The switches' queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueDiscipline {
    /// Marks a packet on dequeue if the remaining queue exceeds the threshold, as in Poseidon's simulator.
    MarkOnDequeue,
    /// Marks a packet on enqueue if the queue has reached the threshold. Uses ns-3's RED with a step function, so only
    /// ns-3 supports this discipline.
    MarkOnEnqueue,
    /// Drops packets that do not fit in the buffer, and never marks packets.
    Fifo,
}

/// A dumbbell with N senders at one switch, N receivers at another switch, and one link between the switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dumbbell {
    pub(crate) law: Law,
    pub(crate) flows: u32,
    pub(crate) discipline: QueueDiscipline,
    /// Whether ns-3 uses proportional rate reduction (RFC 6937), which is its default. Hosts in Poseidon's simulator
    /// pause instead.
    pub(crate) prr: bool,
    /// The middle link's rate. Host links are four times as fast, so the queue builds up in the switch.
    pub(crate) rate: BitRate,
    /// The propagation delay of every link.
    pub(crate) delay: Nanos,
    /// The middle link's buffer size, in packets.
    pub(crate) buffer: u64,
    /// The marking threshold, in packets.
    pub(crate) threshold: u64,
    pub(crate) stop: Nanos,
    /// The time between consecutive flow starts.
    pub(crate) start_gap: Nanos,
    /// The `start_gap` values to run. In a deterministic simulation, the start gap can affect the whole run.
    pub(crate) start_gaps: &'static [Nanos],
    pub(crate) min_rto: Nanos,
}

impl Dumbbell {
    /// Two DCTCP flows in a datacenter, with a 10 Gbps bottleneck and an RTT of 94 us.
    pub(crate) const DCTCP: Self = Self {
        law: Law::Dctcp,
        flows: 2,
        discipline: QueueDiscipline::MarkOnDequeue,
        prr: true,
        rate: BitRate::from_gbps(10),
        delay: Nanos::from_micros(15),
        buffer: 1_000,
        threshold: MARK_PACKETS,
        stop: Nanos::from_millis(400),
        start_gap: Nanos::from_micros(1),
        // The gaps range from less than one RTT to twelve RTTs.
        start_gaps: &[
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

    /// Two CUBIC flows at 20 Mbps with an RTT of 200 ms and a buffer of one bandwidth-delay product.
    ///
    /// On such paths, CUBIC's window follows the cubic function. In a datacenter, CUBIC stays in the Reno-friendly
    /// region (RFC 9438 section 4.3), which ns-3.37 does not implement.
    pub(crate) const CUBIC: Self = Self {
        law: Law::Cubic,
        discipline: QueueDiscipline::Fifo,
        rate: BitRate::from_mbps(20),
        delay: Nanos::from_micros(33_000),
        buffer: 333,
        threshold: 333,
        stop: Nanos::from_millis(400_000),
        // All flows start within one RTT. Otherwise, they would not converge before the run ends.
        start_gaps: &[
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

    /// Returns the queue sampling interval, which yields several dozen samples per RTT.
    pub(crate) const fn sample_interval(&self) -> Nanos {
        Nanos::new(self.delay.get() / 10)
    }
}

/// A star in which all hosts are connected to one switch by 10 Gbps links with a 1 us delay. Each host sends one
/// endless flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star {
    pub(crate) hosts: u32,
    pub(crate) stop: Nanos,
}

impl Star {
    /// Returns the offset between sender and receiver: host `i` sends to host `i + shift` modulo the number of hosts.
    pub(crate) const fn shift(&self) -> u32 {
        self.hosts / 2 + 1
    }
}
