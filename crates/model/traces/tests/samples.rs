//! Parses every sample file and converts it to a network or to traffic.

use poseidon_plan::patterns::{Pattern, SizeDistribution, Traffic, TrafficClass};
use poseidon_plan::topology::{Node, Tiers, Topology};
use poseidon_plan::traffic::Event;
use poseidon_traces::{
    FlowFile, FlowStart, LowerError, NodeMap, PrioritySource, StartUnit, TraceTraffic, parse_cm, parse_fct,
    parse_hpcc, parse_hpcc_topology, parse_htsim_topology, parse_sizes, write_cm, write_csv, write_fct,
    write_hpcc,
};
use poseidon_types::{HostId, Picos};
use std::path::PathBuf;

const MAX_FLOWS: usize = 10_000;

/// For each connection matrix: nodes, flows, connections and dependencies.
const MATRICES: [(&str, u32, usize, usize, usize); 16] = [
    ("alltoall_serial_16n.cm", 16, 240, 240, 224),
    ("bidir.cm", 16, 2, 2, 0),
    ("incast.cm", 16, 15, 15, 0),
    ("incast_1024_100K.cm", 1_024, 1_023, 1_023, 0),
    ("incast_128.cm", 128, 127, 127, 0),
    ("incast_3-1_overlapped.tm", 128, 3, 3, 0),
    ("one.cm", 16, 1, 1, 0),
    ("outcast_incast.cm", 128, 21, 21, 0),
    ("perm_1024n_1024c_0u_2000000b.cm", 1_024, 1_024, 1_024, 0),
    ("perm_128n_128c_2MB.cm", 128, 128, 128, 0),
    ("perm_16n_16c_2MB.cm", 16, 16, 16, 0),
    ("perm_32n_32c_2MB.cm", 32, 32, 32, 0),
    ("test_cr_1f10m10p.cm", 2, 10, 1, 0),
    ("test_cr_1f10m1p.cm", 2, 10, 1, 0),
    ("test_cr_1f1m100p.cm", 2, 1, 1, 0),
    ("test_cr_1f1m10p.cm", 2, 1, 1, 0),
];

/// For each topology: pods, racks per pod, hosts per rack, aggregation switches per pod, cores per aggregation switch
/// and the link rate in Gbps.
const TOPOLOGIES: [(&str, [u32; 5], u64); 6] = [
    ("fat_tree_128_4os.topo", [8, 4, 4, 4, 1], 100),
    ("leaf_spine_1024.topo", [1, 32, 32, 32, 0], 100),
    ("leaf_spine_1024_oversub.topo", [1, 32, 32, 8, 0], 100),
    ("leaf_spine_1024_oversub_8-1.topo", [1, 32, 32, 4, 0], 100),
    ("leaf_spine_8192_400g.topo", [1, 128, 64, 64, 0], 400),
    ("leaf_spine_tiny.topo", [1, 4, 8, 2, 0], 100),
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder(path)).expect("the sample is readable")
}

fn read_matrix(name: &str) -> FlowFile {
    let text = read(&format!("htsim/{name}"));
    parse_cm(text.as_bytes(), StartUnit::Microseconds, MAX_FLOWS)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn generate(file: &FlowFile, hosts: u32) -> Result<Traffic, LowerError> {
    let traffic = TraceTraffic::new(file, &NodeMap::Identity(hosts), PrioritySource::File)?;
    Ok(traffic.generate(&TrafficClass::new(7, "trace")).expect("a converted file is valid").into_plan_order())
}

#[test]
fn every_matrix_becomes_traffic() {
    for (name, nodes, flows, connections, dependencies) in MATRICES {
        let file = read_matrix(name);
        assert_eq!((file.nodes, file.flows.len()), (Some(nodes), flows), "{name}");
        let traffic = generate(&file, nodes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let counts = (traffic.connections.len(), traffic.messages.len(), traffic.dependencies.len());
        assert_eq!(counts, (connections, flows, dependencies), "{name}");
    }
}

#[test]
fn every_matrix_survives_writing() {
    for (name, ..) in MATRICES {
        let file = read_matrix(name);
        let mut text = Vec::new();
        write_cm(&file, StartUnit::Microseconds, &mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(parse_cm(&text[..], StartUnit::Microseconds, MAX_FLOWS), Ok(file), "{name}");
    }
}

#[test]
fn every_topology_has_its_shape() {
    for (name, shape, gbps) in TOPOLOGIES {
        let text = read(&format!("htsim/{name}"));
        let network = parse_htsim_topology(text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Topology::Tiers(Tiers { pods, racks, hosts, aggregation, cores, host_link, rack_link, .. }) =
            network.topology
        else {
            panic!("{name} has tiers");
        };
        assert_eq!([pods, racks, hosts, aggregation, cores], shape, "{name}");
        for link in [host_link, rack_link] {
            assert_eq!(
                (link.rate.get(), link.delay),
                (gbps * 1_000_000_000, Picos::new(1_000_000)),
                "{name}"
            );
        }
        assert_eq!((network.switch_latency(), network.queue_size()), (Some(Picos::ZERO), None), "{name}");
    }
}

#[test]
fn tables_list_every_sample() {
    let mut files: Vec<String> = std::fs::read_dir(folder("htsim"))
        .expect("the folder is readable")
        .map(|entry| entry.expect("the entry is readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "LICENSE")
        .collect();
    files.sort_unstable();
    let matrices = MATRICES.iter().map(|(name, ..)| String::from(*name));
    let mut listed: Vec<String> =
        matrices.chain(TOPOLOGIES.iter().map(|(name, ..)| String::from(*name))).collect();
    listed.sort_unstable();
    assert_eq!(files, listed);
}

#[test]
fn serial_all_to_all_is_a_chain_per_sender() {
    let traffic = generate(&read_matrix("alltoall_serial_16n.cm"), 16).expect("the file is valid");
    let sender = |message: usize| traffic.connections[traffic.messages[message].connection.index()].from;
    for dependency in &traffic.dependencies {
        assert_eq!(dependency.event, Event::Acknowledged);
        assert_eq!(sender(dependency.prerequisite.index()), sender(dependency.dependent.index()));
    }
    // Each of the 16 chains has 15 messages, so one message of each waits for nothing.
    let mut dependents: Vec<u32> = traffic.dependencies.iter().map(|d| d.dependent.get()).collect();
    dependents.sort_unstable();
    dependents.dedup();
    assert_eq!(traffic.messages.len() - dependents.len(), 16);
}

/// Returns a ring all-reduce as htsim's generator writes it: a chain of 2n - 1 flows for each of n nodes.
fn ring_all_reduce(nodes: u32, done: &str) -> String {
    let chain = 2 * nodes - 1;
    let (flows, triggers) = (nodes * chain, nodes * (chain - 1));
    let mut text = format!("Nodes {nodes}\nConnections {flows}\nTriggers {triggers}\n");
    let (mut id, mut trigger) = (0, 1);
    for first in 0..nodes {
        for step in 0..chain {
            id += 1;
            text += &format!("{}->{} id {id}", (first + step) % nodes, (first + step + 1) % nodes);
            if step == 0 {
                text += " start 0 size 1000";
            } else {
                text += &format!(" trigger {trigger} size 1000");
                trigger += 1;
            }
            text += &if step + 1 < chain { format!(" {done} {trigger}\n") } else { "\n".into() };
        }
    }
    (1..=triggers).for_each(|trigger| text += &format!("trigger id {trigger} oneshot\n"));
    text
}

#[test]
fn ring_all_reduce_needs_triggers_at_the_receiver() {
    let lower = |done: &str| {
        let text = ring_all_reduce(4, done);
        generate(&parse_cm(text.as_bytes(), StartUnit::Picoseconds, MAX_FLOWS).expect("the file is valid"), 4)
    };
    // The generator uses send_done_trigger. It fires at the sender, but the next flow starts at the receiver.
    assert_eq!(
        lower("send_done_trigger").expect_err("the trigger is at another host").to_string(),
        "trigger 1 fires when flow 1 (0->1) is acknowledged at its sender, but flow 2 (1->2) starts at another host; \
         use recv_done_trigger 1 instead of send_done_trigger"
    );
    let traffic = lower("recv_done_trigger").expect("the triggers are at the receivers");
    assert_eq!((traffic.messages.len(), traffic.dependencies.len()), (28, 24));
    assert!(traffic.dependencies.iter().all(|dependency| dependency.event == Event::Received));
}

#[test]
fn hpcc_files_fit_together() {
    let network = parse_hpcc_topology(read("hpcc/topology.txt").as_bytes()).expect("the topology is valid");
    assert_eq!((network.topology.hosts(), network.topology.switches()), (5, 3));
    // The hosts of switch node 5, then those of 6, then those of 7.
    assert_eq!(network.host_nodes, [1, 3, 0, 2, 4]);
    assert_eq!(network.nodes[4], Node::Host(HostId::new(4)));
    let file = parse_hpcc(read("hpcc/flow.txt").as_bytes(), MAX_FLOWS).expect("the flows are valid");
    let traffic =
        TraceTraffic::new(&file, &network.node_map(), PrioritySource::File).expect("all nodes are hosts");
    let traffic = traffic.generate(&TrafficClass::new(7, "trace")).expect("a converted file is valid");
    let ends: Vec<_> = traffic.connections.iter().map(|c| (c.from.get(), c.to.get(), c.priority)).collect();
    assert_eq!(ends, [(2, 0, 3), (3, 0, 3), (4, 1, 3)]);
    let starts: Vec<u64> = traffic.messages.iter().map(|message| message.start.get()).collect();
    assert_eq!(starts, [2_000_000_000_000, 2_000_001_000_000, 2_100_000_000_000]);

    let rows = parse_fct(read("hpcc/fct.txt").as_bytes(), MAX_FLOWS).expect("the rows are valid");
    for (row, flow) in rows.iter().zip(&file.flows) {
        assert_eq!((row.from, row.to, row.size), (flow.from, flow.to, flow.size));
        let start = Picos::from_nanos(row.start);
        assert_eq!(flow.start, FlowStart::At(start));
    }
    let mut text = Vec::new();
    write_fct(&rows, &mut text).expect("all nodes have addresses");
    assert_eq!(String::from_utf8(text).expect("the text is ASCII"), read("hpcc/fct.txt"));
}

#[test]
fn flow_list_can_change_its_format() {
    let mut file = read_matrix("incast_3-1_overlapped.tm");
    file.remove_labels();
    let mut csv = Vec::new();
    write_csv(&file, &mut csv).expect("the flows have only ends, sizes and starts");
    let text = "from,to,size_bytes,start_ps\n127,0,2000000,0\n95,0,250000,40000000\n61,0,250000,40000000\n";
    assert_eq!(String::from_utf8(csv).expect("the text is ASCII"), text);
    file.flows.iter_mut().for_each(|flow| flow.priority = Some(3));
    let mut hpcc = Vec::new();
    write_hpcc(&file, &mut hpcc).expect("the flows have priorities and are in order");
    let text = "3\n127 0 3 100 2000000 0\n95 0 3 100 250000 0.00004\n61 0 3 100 250000 0.00004\n";
    assert_eq!(String::from_utf8(hpcc).expect("the text is ASCII"), text);
}

#[test]
fn percentages_give_the_published_workload() {
    let published = SizeDistribution::named("alistorage2019").expect("the workload exists");
    assert_eq!(parse_sizes(&read("hpcc/sizes.txt")), Ok(published));
}
