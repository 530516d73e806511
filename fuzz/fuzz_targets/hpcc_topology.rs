#![no_main]
//! Fuzzes the parser of HPCC's topology files.
use libfuzzer_sys::fuzz_target;
use poseidon_traces::parse_hpcc_topology;

fuzz_target!(|data: &[u8]| {
    let Ok(network) = parse_hpcc_topology(data) else { return };
    let (hosts, switches) = (network.topology.hosts() as usize, network.topology.switches() as usize);
    assert_eq!((network.host_nodes.len(), network.switch_nodes.len()), (hosts, switches));
    assert_eq!(network.nodes.len(), hosts + switches);
    let nodes = network.node_map();
    for (host, node) in network.topology.host_ids().zip(&network.host_nodes) {
        assert_eq!(nodes.host(*node), Some(host));
    }
    // The network is connected.
    let mut ids = network.topology.host_ids();
    if let (Some(first), Some(last)) = (ids.next(), ids.next_back()) {
        assert!(network.topology.links_between(first, last).len() >= 2);
    }
});
