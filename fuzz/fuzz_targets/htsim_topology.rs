#![no_main]
//! Fuzzes the parser of htsim's topologies.
use libfuzzer_sys::fuzz_target;
use poseidon_traces::parse_htsim_topology;

fuzz_target!(|data: &[u8]| {
    let Ok(network) = parse_htsim_topology(data) else { return };
    assert_eq!(network.topology.check(), Ok(()));
    assert!(network.topology.hosts() > 0 && (2..=3).contains(&network.tiers.len()));
    let _ = (network.switch_latency(), network.queue_size());
});
