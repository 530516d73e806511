//! A plan to start from: tests change what they are about and leave the rest. And a list of them that are all different.

mod varied;

pub use varied::varied;

use poseidon_laws::AnyParams;
use poseidon_plan::switch::{AnyMark, DelayCarrier, Direction, Pause, Shared, Stamp, Switch};
use poseidon_plan::traffic::{Amount, Connection, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};

/// The links of Poseidon's evaluation (section 5): 200 Gbps, 245 ns.
pub const LINK: Link = Link { rate: BitRate::from_gbps(200), delay: Picos::new(245_000) };

/// The fabric of Poseidon's evaluation (section 5): 600 ns per switch, 64 MB shared with dynamic thresholds, 4096 B packets, exact
/// telemetry. The one law has its defaults; connection `i` sends from `ends[i].0` to `ends[i].1`, from `i` us on, without end.
pub fn plan(topology: Topology, law: &str, ends: &[(u32, u32)]) -> Plan {
    let number = |i: usize| u32::try_from(i).expect("few connections");
    Plan {
        seed: 7,
        stop: Picos::from_nanos(Nanos::from_millis(20)),
        topology,
        switch: Switch {
            pipeline: Picos::new(600_000),
            priorities: 1,
            buffer: Shared { size: Bytes::new(64_000_000), alpha: Fraction::ratio(8, 1) }.into(),
            pause: Pause::Off,
            mark: AnyMark::OFF,
            marks_go: Direction::Forward,
            stamp: Stamp::MaxHopDelay(DelayCarrier::Exact),
        },
        silences: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(4_096),
            header: Bytes::ZERO,
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_micros(250),
            first_rto: Nanos::from_millis(1),
            recovery: Recovery::Selective { reordering: 3 },
            acks: Acks::EveryPacket,
            echo: Echo::Exact,
            ack_priority: None,
            spread: Spread::PerFlow,
            plb: None,
            coexistence: false,
        },
        laws: vec![AnyParams::of(law).expect("a law of the table")],
        connections: ends
            .iter()
            .map(|&(from, to)| Connection { from, to, law: 0, entropy: 0, priority: 0 })
            .collect(),
        messages: (0..ends.len())
            .map(|i| Message {
                connection: number(i),
                at: Picos::from_nanos(Nanos::from_micros(i as u64)),
                amount: Amount::ENDLESS,
            })
            .collect(),
        after: Vec::new(),
        changes: Vec::new(),
        sample_every: Picos::ZERO,
        watched: Vec::new(),
        watched_connections: Vec::new(),
        log_decisions: false,
    }
}
