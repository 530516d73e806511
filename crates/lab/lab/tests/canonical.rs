//! Tests the canonical text of a plan, whose hash identifies a published result.

use core::num::NonZeroU32;
use poseidon_lab::canonical::{plan_hash, plan_text};
use poseidon_lab::resolve::{MessageClass, ResolvedRun};
use poseidon_lab::study::Study;
use poseidon_laws::AnyParams;
use poseidon_plan::impairments::{LinkImpairment, RandomLoss};
use poseidon_plan::joins::{JoinDependent, JoinPrerequisite, Joins};
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::rings::Ring;
use poseidon_plan::switch::{
    AnyMarkPolicy, DelayCarrier, MarkDirection, SlowPort, Stamp, SwitchOverride, TelemetryOff, Trim,
};
use poseidon_plan::topology::{Link, Rails, Topology};
use poseidon_plan::traffic::{Amount, Dependency, Event};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Eligibility, Recovery, Reps};
use poseidon_sim::Simulator;
use poseidon_types::{
    BitRate, Bytes, ConnectionId, Fraction, HostId, JoinId, MessageId, Picos, PortId, SwitchId,
};

/// One message of 3 kB between two hosts, and a watched queue.
const SMALL: &str = r#"title = "one message"
source = "none"
law = "fixed"
stop = "1 ms"

[topology]
kind = "star"
hosts = 2
link = { rate = "10 Gbps", delay = "1 us" }

[[traffic]]
name = "small"
kind = "incast"
from = "host0"
to = "host1"
size = "3 kB"

[observe.queues]
queue = "last hop of small"
"#;

const RING: Ring = Ring {
    first_message: MessageId::new(1),
    first_connection: ConnectionId::new(1),
    ranks: 2,
    channels: 1,
    ranks_per_server: 1,
    size: Bytes::new(4),
    chunk: None,
    steps: 2,
    lag: 1,
    repetitions: 1,
    compute_gap: Picos::ZERO,
    start: Picos::ZERO,
};

fn resolve_small() -> ResolvedRun {
    let study = Study::read("scenarios/small.toml", SMALL, false).unwrap_or_else(|error| panic!("{error}"));
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    study.resolve(&study.cells[0], 1, &simulator).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_text_of_a_small_plan_does_not_change() {
    let text = plan_text(&resolve_small());
    let expected = include_str!("canonical/small.txt");
    assert!(text == expected, "the canonical text has changed, and so has the hash of every plan:\n{text}");
}

#[test]
fn equivalent_scenarios_have_the_same_plan_hash() {
    let equivalent = format!("# a comment\n{}", SMALL.replace("1 ms", "1000 us"));
    let study = Study::read("scenarios/other.toml", &equivalent, false).expect("the scenario is valid");
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let other = study.resolve(&study.cells[0], 1, &simulator).expect("the plan is valid");
    assert_eq!(plan_hash(&other), plan_hash(&resolve_small()));
}

fn rails(servers_per_leaf: u32) -> Rails {
    let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    Rails {
        servers: 2,
        gpus: 1,
        servers_per_leaf,
        spines: 1,
        local_link: link,
        rail_link: link,
        spine_link: link,
    }
}

/// A change to one run setting.
type Mutation = fn(&mut ResolvedRun);

#[test]
fn plans_that_differ_in_one_setting_have_different_hashes() {
    let changes: [(&str, Mutation); 53] = [
        ("no change", |_| {}),
        ("seed", |r| r.plan.seed = 2),
        ("stop", |r| r.plan.stop = Picos::new(r.plan.stop.get() + 1)),
        ("topology", |r| {
            let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_001) };
            r.plan.topology = Topology::star(2, link);
        }),
        ("hosts", |r| {
            let link = r.plan.topology.host_link(HostId::new(0));
            r.plan.topology = Topology::star(3, link);
        }),
        ("shape", |r| {
            let link = r.plan.topology.host_link(HostId::new(0));
            r.plan.topology = Topology::dumbbell(1, link, link);
        }),
        ("rails", |r| r.plan.topology = Topology::Rails(rails(1))),
        ("groups of rails", |r| r.plan.topology = Topology::Rails(rails(2))),
        ("policies of a switch", |r| {
            let mark = AnyMarkPolicy::from_name("step");
            r.plan.switch_overrides.push(SwitchOverride { switch: SwitchId::new(0), buffer: None, mark });
        }),
        ("buffer", |r| {
            let size = "77 kB";
            r.plan.switch.buffer.set("size", size).expect("buffer policies have a size");
        }),
        ("mark", |r| {
            r.plan.switch.mark = AnyMarkPolicy::from_name("step").expect("step is a marking policy")
        }),
        ("marks on links to hosts", |r| r.plan.switch.mark_host_links = false),
        ("direction of marks", |r| r.plan.switch.mark_direction = MarkDirection::ReversePerPort),
        ("telemetry", |r| r.plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact)),
        ("carrier", |r| r.plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim)),
        ("telemetry off", |r| r.plan.telemetry_off.push(TelemetryOff::always(SwitchId::new(0)))),
        ("eligibility", |r| {
            r.plan.transport.eligibility = match r.plan.transport.eligibility {
                Eligibility::Floor => Eligibility::Ceil,
                Eligibility::Ceil => Eligibility::Floor,
            };
        }),
        ("paths", |r| r.plan.transport.load_balancing = AnyPathPolicy::SPRAY),
        ("paths with feedback", |r| r.plan.transport.load_balancing = AnyPathPolicy::Reps(Reps::default())),
        ("number of paths", |r| {
            r.plan.transport.load_balancing = Reps { paths: 32, ..Reps::default() }.into();
        }),
        ("recovery by NACKs", |r| r.plan.transport.recovery = Recovery::TrimNacks),
        ("ACKs per bytes", |r| r.plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(9) }),
        ("other ACKs per bytes", |r| {
            r.plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(8) };
        }),
        ("trimming", |r| r.plan.switch.trim = Some(Trim { size: Bytes::new(64) })),
        ("slow port", |r| {
            let (switch, port) = (SwitchId::new(0), PortId::new(0));
            r.plan.slow_ports.push(SlowPort { switch, port, divisor: 4 });
        }),
        ("ACK priority", |r| r.plan.transport.ack_priority = Some(0)),
        ("law", |r| r.plan.laws[0] = AnyParams::for_law("swift").expect("Swift is a built-in law")),
        ("parameter of a law", |r| {
            let mut law = AnyParams::for_law("swift").expect("Swift is a built-in law");
            law.set("base_target", "31 us").expect("Swift has this parameter");
            r.plan.laws[0] = law;
        }),
        ("connection", |r| r.plan.connections[0].entropy ^= 1),
        ("time of a message", |r| r.plan.messages[0].start = Picos::new(5)),
        ("size of a message", |r| r.plan.messages[0].amount = Amount::Exactly(Bytes::new(3_001))),
        ("end of a message", |r| r.plan.messages[0].amount = Amount::Until(Picos::new(3_000))),
        ("dependency", |r| {
            r.plan.dependencies.push(Dependency {
                prerequisite: MessageId::new(0),
                event: Event::Received,
                dependent: MessageId::new(1),
            });
        }),
        ("join", |r| {
            r.plan.joins = Joins {
                delays: vec![Picos::ZERO],
                prerequisites: vec![JoinPrerequisite {
                    message: MessageId::new(0),
                    event: Event::Received,
                    join: JoinId::new(0),
                }],
                dependents: vec![JoinDependent { join: JoinId::new(0), message: MessageId::new(1) }],
            };
        }),
        ("delay of a join", |r| r.plan.joins.delays.push(Picos::new(1))),
        ("ring", |r| r.plan.rings.push(RING)),
        ("size of a ring", |r| r.plan.rings.push(Ring { size: Bytes::new(5), ..RING })),
        ("chunks of a ring", |r| r.plan.rings.push(Ring { chunk: Some(Bytes::new(2)), ..RING })),
        ("steps of a ring", |r| r.plan.rings.push(Ring { steps: 3, ..RING })),
        ("lag of a ring", |r| r.plan.rings.push(Ring { lag: 0, ..RING })),
        ("repetitions of a ring", |r| r.plan.rings.push(Ring { repetitions: 2, ..RING })),
        ("gap of a ring", |r| r.plan.rings.push(Ring { compute_gap: Picos::new(1), ..RING })),
        ("start of a ring", |r| r.plan.rings.push(Ring { start: Picos::new(1), ..RING })),
        ("link change", |r| {
            r.plan.link_changes.push(LinkChange {
                time: Picos::ZERO,
                switch: SwitchId::new(0),
                port: PortId::new(0),
                event: LinkEvent::Down,
            });
        }),
        ("link impairment", |r| {
            r.plan.link_impairments.push(LinkImpairment {
                switch: SwitchId::new(0),
                port: PortId::new(0),
                policy: RandomLoss { probability: Fraction::ratio(1, 100) }.into(),
            });
        }),
        ("samples", |r| r.plan.sample_every = Picos::new(r.plan.sample_every.get() * 2)),
        ("watched queue", |r| r.plan.watched_ports.clear()),
        ("decisions", |r| r.plan.log_decisions = true),
        ("pauses", |r| r.measures_pauses = true),
        ("name of traffic", |r| r.groups[0].name = "other".into()),
        ("name of a queue", |r| r.queues[0].name = "other".into()),
        ("phase", |r| r.phases[0].settled_at = Picos::new(r.phases[0].settled_at.get() + 1)),
        ("class", |r| {
            let (from, below) = (Bytes::ZERO, Bytes::MAX);
            r.classes.push(MessageClass { name: "all".into(), groups: vec![0], from, below });
        }),
    ];
    let mut seen: Vec<(&str, String)> = Vec::new();
    for (setting, mutate) in changes {
        let mut changed = resolve_small();
        mutate(&mut changed);
        let hash = plan_hash(&changed);
        let collision = seen.iter().find(|(_, other)| *other == hash);
        assert!(collision.is_none(), "{setting} has the same hash as {collision:?}");
        seen.push((setting, hash));
    }
}
