//! Helpers for the fuzz targets. The input is the packet or the file, so captured packets and real files can be used as
//! seeds. The last bytes of a packet determine the values that a switch measures.

use poseidon_plan::patterns::{Pattern, TrafficClass};
use poseidon_plan::traffic::Event;
use poseidon_traces::{FlowFile, NodeMap, PrioritySource, TraceTraffic};
use poseidon_types::{BitRate, Bytes, HopRecord, Nanos};
use poseidon_wire::checksum::{Delta, internet};

/// Returns the last eight bytes as a number. A shorter input is padded with leading zeros.
pub fn tail(data: &[u8]) -> u64 {
    data.iter().rev().take(8).rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// Returns a delay, derived from the input, of any order of magnitude.
pub fn delay(data: &[u8]) -> Nanos {
    let number = tail(data);
    Nanos::new(number >> (number % 64))
}

/// Returns a hop record, derived from the input, with values of any order of magnitude and a rate from the published
/// table.
pub fn record(data: &[u8]) -> HopRecord {
    let number = tail(data);
    HopRecord {
        timestamp: Nanos::new(number),
        sent: Bytes::new(number.rotate_left(17)),
        queue: Bytes::new(number >> (number % 64)),
        rate: BitRate::from_gbps(
            [25, 40, 50, 100, 200, 400][usize::try_from(number % 6).expect("the number is small")],
        ),
    }
}

/// Asserts that `delta` converts the checksum of `before` to the checksum of `after`. Both lengths must be even.
pub fn assert_checksum_delta(delta: Delta, before: &[u8], after: &[u8]) {
    // All-zero data has two valid checksums, so append a nonzero word.
    let checksum = |bytes: &[u8]| internet(&[bytes, &[0, 1]].concat());
    assert_eq!(delta.apply(checksum(before)), checksum(after));
}

/// Converts a flow list to traffic. If that is possible, asserts that a plan accepts its dependencies.
pub fn assert_traffic(file: &FlowFile) {
    let Ok(traffic) = TraceTraffic::new(file, &NodeMap::Identity(u32::MAX), PrioritySource::File) else {
        return;
    };
    let traffic = traffic.generate(&TrafficClass::new(1, "trace")).expect("a converted file is valid");
    let traffic = traffic.into_plan_order();
    assert_eq!(traffic.messages.len(), file.flows.len());
    let connection = |message: usize| traffic.connections[traffic.messages[message].connection.index()];
    for dependency in &traffic.dependencies {
        assert!(dependency.prerequisite < dependency.dependent);
        let prerequisite = connection(dependency.prerequisite.index());
        let host = match dependency.event {
            Event::Acknowledged => prerequisite.from,
            Event::Received => prerequisite.to,
        };
        assert_eq!(host, connection(dependency.dependent.index()).from);
    }
}
