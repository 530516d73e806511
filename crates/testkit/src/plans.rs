//! A plan to start from: tests change what they are about and leave the rest.

use poseidon_laws::AnyParams;
use poseidon_plan::switch::{Buffer, Carrier, Mark, Stamp, Switch};
use poseidon_plan::traffic::{Connection, Message};
use poseidon_plan::transport::{Eligibility, Transport};
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
            buffer: Buffer::Shared { total: Bytes::new(64_000_000), alpha: Fraction::ratio(8, 1) },
            mark: Mark::Off,
            stamp: Stamp::MaxHopDelay(Carrier::Exact),
        },
        silent_switches: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(4_096),
            header: Bytes::ZERO,
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_micros(250),
        },
        laws: vec![AnyParams::of(law).expect("a law of the table")],
        connections: ends.iter().map(|&(from, to)| Connection { from, to, law: 0, entropy: 0 }).collect(),
        messages: (0..ends.len())
            .map(|i| Message {
                connection: number(i),
                at: Picos::from_nanos(Nanos::from_micros(i as u64)),
                size: None,
            })
            .collect(),
        sample_every: Picos::ZERO,
        watched: Vec::new(),
    }
}
