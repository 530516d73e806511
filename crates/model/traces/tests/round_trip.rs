//! Properties of all readers and writers: written files are read back as the same value, and no input causes a panic.

use core::num::NonZeroU32;
use poseidon_plan::patterns::{Pattern, TrafficClass};
use poseidon_plan::traffic::Event;
use poseidon_traces::{
    FlowFile, FlowStart, LinkFailure, NodeMap, PrioritySource, StartUnit, SwitchTier, TraceFlow,
    TraceTraffic, Trigger, TriggerKind, parse_cm, parse_csv, parse_fct, parse_hpcc, parse_hpcc_topology,
    parse_htsim_topology, parse_sizes, write_cm, write_csv, write_hpcc,
};
use poseidon_types::{Bytes, Picos};
use proptest::prelude::*;

const NODES: u32 = 1 << 20;
const TRIGGERS: u32 = 8;

/// Returns a strategy for two different nodes.
fn ends() -> impl Strategy<Value = (u32, u32)> {
    (0..NODES, 1..NODES).prop_map(|(from, step)| (from, (from + step) % NODES))
}

/// Returns a strategy for flows with ends, size, start and an optional priority.
fn plain_flow(sizes: u64, starts: u64) -> impl Strategy<Value = TraceFlow> {
    (ends(), 1..=sizes, 0..=starts, any::<Option<u32>>()).prop_map(|((from, to), size, start, priority)| {
        TraceFlow { priority, ..TraceFlow::new(from, to, Bytes::new(size), FlowStart::At(Picos::new(start))) }
    })
}

fn trigger_id() -> impl Strategy<Value = NonZeroU32> {
    (1..=TRIGGERS).prop_map(|id| NonZeroU32::new(id).expect("ids start at one"))
}

/// A number from 1 to 2^31 - 1.
fn positive() -> impl Strategy<Value = NonZeroU32> {
    (1..=i32::MAX.cast_unsigned()).prop_map(|id| NonZeroU32::new(id).expect("the number is above zero"))
}

/// Returns a strategy for flows of a connection matrix, with start times in whole seconds.
fn matrix_flow() -> impl Strategy<Value = TraceFlow> {
    let size = 1..=u64::from(u32::MAX >> 1);
    let start = prop_oneof![
        (0..=u64::MAX / 1_000_000_000_000)
            .prop_map(|seconds| FlowStart::At(Picos::new(seconds * 1_000_000_000_000))),
        trigger_id().prop_map(FlowStart::OnTrigger),
    ];
    let labels = (any::<bool>(), positive(), prop::option::of(0..=i32::MAX.cast_unsigned()));
    let triggers = (prop::option::of(trigger_id()), prop::option::of(trigger_id()));
    let priority = prop::option::of(0..=i32::MAX.cast_unsigned());
    (ends(), size, start, labels, triggers, priority).prop_map(
        |((from, to), size, start, (has_id, id, message), (send_done, receive_done), priority)| {
            // Messages and triggered flows need an id.
            let needs_id = message.is_some() || matches!(start, FlowStart::OnTrigger(_));
            let id = (has_id || needs_id).then_some(id);
            let size = Bytes::new(size);
            TraceFlow { from, to, size, start, id, priority, send_done, receive_done, message }
        },
    )
}

fn matrix() -> impl Strategy<Value = FlowFile> {
    let kind = prop_oneof![
        Just(TriggerKind::OneShot),
        Just(TriggerKind::MultiShot),
        positive().prop_map(|count| TriggerKind::Barrier { count }),
    ];
    let triggers = prop::collection::vec(kind, TRIGGERS as usize).prop_map(|kinds| {
        let trigger = |(id, kind)| Trigger { id: NonZeroU32::new(id).expect("ids start at one"), kind };
        (1..).zip(kinds).map(trigger).collect::<Vec<_>>()
    });
    let tier = prop_oneof![Just(SwitchTier::Tor), Just(SwitchTier::Aggregation), Just(SwitchTier::Core)];
    let failure =
        (tier, 0..100u32, 0..100u32).prop_map(|(tier, switch, link)| LinkFailure { tier, switch, link });
    let flows = prop::collection::vec(matrix_flow(), 0..30);
    let failures = prop::collection::vec(failure, 0..4);
    (flows, triggers, failures, prop::option::of(Just(NODES)))
        .prop_map(|(flows, triggers, failures, nodes)| FlowFile { flows, triggers, failures, nodes })
}

/// Returns a strategy for files that are nearly valid: words of all formats in random order.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[0-9]{1,3}",
        1 => "[0-9]{15,30}",
        1 => "[0-9]{0,2}\\.[0-9]{0,2}",
        1 => prop::sample::select(vec![
            "0->1", "1->2", "h3", "id", "msg", "start", "trigger", "size", "send_done_trigger",
            "recv_done_trigger", "prio", "oneshot", "multishot", "barrier", "count", "Nodes", "Connections",
            "Triggers", "Failures", "failure", "switch_type", "AGG", "switch_id", "link_id", "Tiers",
            "Podsize", "Tier", "Radix_Up", "Radix_Down", "Bundle", "Oversubscribed", "Downlink_speed_Gbps",
            "Downlink_Latency_ns", "100Gbps", "1us", "0b000101", "from,to", "size_bytes,cdf",
            "from,to,size_bytes,start_us,priority", ",", "#", "->", "\u{e9}",
        ]).prop_map(String::from),
    ];
    let separator = prop::sample::select(vec![" ", "\n", "\t", "\r\n", ","]);
    prop::collection::vec((word, separator), 0..60)
        .prop_map(|words| words.into_iter().map(|(word, separator)| word + separator).collect())
}

proptest! {
    #[test]
    fn csv_is_read_back(flows in prop::collection::vec(plain_flow(u64::MAX, u64::MAX), 0..30)) {
        let file = FlowFile { flows, ..FlowFile::default() };
        let mut text = Vec::new();
        prop_assert_eq!(write_csv(&file, &mut text), Ok(()));
        prop_assert_eq!(parse_csv(&text[..], file.flows.len()), Ok(file));
    }

    #[test]
    fn hpcc_flow_file_is_read_back(
        mut flows in prop::collection::vec(plain_flow(u64::from(u32::MAX), u64::MAX), 0..30)
    ) {
        flows.sort_by_key(|flow| match flow.start {
            FlowStart::At(start) => start,
            FlowStart::OnTrigger(_) => Picos::ZERO,
        });
        flows.iter_mut().for_each(|flow| flow.priority = flow.priority.or(Some(3)));
        let file = FlowFile { flows, ..FlowFile::default() };
        let mut text = Vec::new();
        prop_assert_eq!(write_hpcc(&file, &mut text), Ok(()));
        prop_assert_eq!(parse_hpcc(&text[..], file.flows.len()), Ok(file));
    }

    #[test]
    fn matrix_is_read_back(file in matrix(), unit in prop::sample::select(StartUnit::ALL.to_vec())) {
        let mut text = Vec::new();
        prop_assert_eq!(write_cm(&file, unit, &mut text), Ok(()));
        prop_assert_eq!(parse_cm(&text[..], unit, 100), Ok(file));
    }

    #[test]
    fn no_reader_panics(text in words()) {
        let bytes = text.as_bytes();
        let _ = parse_csv(bytes, 10);
        let _ = parse_hpcc(bytes, 10);
        let _ = parse_cm(bytes, StartUnit::Microseconds, 10);
        let _ = parse_hpcc_topology(bytes);
        let _ = parse_htsim_topology(bytes);
        let _ = parse_fct(bytes, 10);
        let _ = parse_sizes(&text);
    }

    /// Node 0 sends a tree of flows, listed in any order: flow `i` starts when its parent is acknowledged.
    #[test]
    fn any_order_of_triggered_flows_becomes_a_valid_plan(
        parents in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        seeds in prop::collection::vec(any::<u64>(), 21),
    ) {
        let id = |number: usize| u32::try_from(number).ok().and_then(NonZeroU32::new);
        let flow = |index: usize| TraceFlow {
            id: id(index + 1),
            // The trigger of flow `i` has the id `i + 1`.
            send_done: id(index + 1),
            ..TraceFlow::new(0, 1, Bytes::new(index as u64 + 1), FlowStart::At(Picos::ZERO))
        };
        let mut flows = vec![flow(0)];
        for parent in &parents {
            let parent = id(parent.index(flows.len()) + 1).expect("ids start at one");
            flows.push(TraceFlow { start: FlowStart::OnTrigger(parent), ..flow(flows.len()) });
        }
        let triggers = flows.iter().filter_map(|flow| Some(Trigger { id: flow.id?, kind: TriggerKind::OneShot }));
        let triggers = triggers.collect();
        let mut listed: Vec<(u64, TraceFlow)> = seeds.into_iter().zip(flows).collect();
        listed.sort_by_key(|(seed, _)| *seed);
        let flows: Vec<TraceFlow> = listed.into_iter().map(|(_, flow)| flow).collect();
        let file = FlowFile { flows, triggers, ..FlowFile::default() };
        let traffic = TraceTraffic::new(&file, &NodeMap::Identity(2), PrioritySource::Class);
        let traffic = traffic.expect("the flows form a tree").generate(&TrafficClass::new(7, "tree"));
        let traffic = traffic.expect("a converted file is valid").into_plan_order();
        prop_assert_eq!(traffic.messages.len(), parents.len() + 1);
        prop_assert_eq!(traffic.dependencies.len(), parents.len());
        for dependency in &traffic.dependencies {
            prop_assert!(dependency.prerequisite < dependency.dependent);
            prop_assert_eq!(dependency.event, Event::Acknowledged);
        }
    }
}
