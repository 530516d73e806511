//! The canonical text of a plan: what identifies a published result.

use core::num::NonZeroU32;
use poseidon_lab::canonical::{plan_hash, plan_text};
use poseidon_lab::resolve::{ClassOf, Resolved};
use poseidon_lab::study::Study;
use poseidon_laws::AnyParams;
use poseidon_plan::changes::{Change, LinkEvent};
use poseidon_plan::switch::{AnyMark, DelayCarrier, Direction, Silence, Stamp};
use poseidon_plan::topology::{Link, Topology};
use poseidon_plan::traffic::{After, Amount, Event};
use poseidon_plan::transport::{Eligibility, Spread};
use poseidon_sim::Simulator;
use poseidon_types::{BitRate, Bytes, Picos};

/// One message of 3 kB between two hosts, and a queue that is watched.
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

fn resolved() -> Resolved {
    let study = Study::read("scenarios/small.toml", SMALL, false).unwrap_or_else(|error| panic!("{error}"));
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    study.resolve(&study.cells[0], 1, &simulator).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_text_of_a_small_plan_stays_as_it_is() {
    let text = plan_text(&resolved());
    let expected = include_str!("canonical/small.txt");
    assert!(text == expected, "the canonical text has changed, and with it every plan's hash:\n{text}");
}

#[test]
fn scenarios_that_say_the_same_have_the_same_plan() {
    let comment = format!("# a comment\n{}", SMALL.replace("1 ms", "1000 us"));
    let study = Study::read("scenarios/other.toml", &comment, false).expect("a scenario");
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let other = study.resolve(&study.cells[0], 1, &simulator).expect("a plan");
    assert_eq!(plan_hash(&other), plan_hash(&resolved()));
}

/// A change of one thing in a plan.
type Mutate = fn(&mut Resolved);

#[test]
fn plans_that_differ_in_one_thing_have_different_hashes() {
    let changes: [(&str, Mutate); 30] = [
        ("nothing", |_| {}),
        ("seed", |r| r.plan.seed = 2),
        ("stop", |r| r.plan.stop = Picos::new(r.plan.stop.get() + 1)),
        ("topology", |r| {
            let link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_001) };
            r.plan.topology = Topology::star(2, link);
        }),
        ("hosts", |r| {
            let link = r.plan.topology.host_link(0);
            r.plan.topology = Topology::star(3, link);
        }),
        ("shape", |r| {
            let link = r.plan.topology.host_link(0);
            r.plan.topology = Topology::dumbbell(1, link, link);
        }),
        ("buffer", |r| {
            let size = "77 kB";
            r.plan.switch.buffer.set("size", size).expect("buffers have a size");
        }),
        ("mark", |r| r.plan.switch.mark = AnyMark::of("step").expect("in the table")),
        ("direction of marks", |r| r.plan.switch.marks_go = Direction::ReversePerPort),
        ("telemetry", |r| r.plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact)),
        ("carrier", |r| r.plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim)),
        ("silence", |r| r.plan.silences.push(Silence::always(0))),
        ("eligibility", |r| {
            r.plan.transport.eligibility = match r.plan.transport.eligibility {
                Eligibility::Floor => Eligibility::Ceil,
                Eligibility::Ceil => Eligibility::Floor,
            };
        }),
        ("paths", |r| r.plan.transport.spread = Spread::PerPacket),
        ("ACK priority", |r| r.plan.transport.ack_priority = Some(0)),
        ("law", |r| r.plan.laws[0] = AnyParams::of("swift").expect("in the table")),
        ("parameter of a law", |r| {
            let mut law = AnyParams::of("swift").expect("in the table");
            law.set("base_target", "31 us").expect("a parameter of Swift");
            r.plan.laws[0] = law;
        }),
        ("connection", |r| r.plan.connections[0].entropy ^= 1),
        ("time of a message", |r| r.plan.messages[0].at = Picos::new(5)),
        ("size of a message", |r| r.plan.messages[0].amount = Amount::Exactly(Bytes::new(3_001))),
        ("end of a message", |r| r.plan.messages[0].amount = Amount::Until(Picos::new(3_000))),
        ("dependency", |r| r.plan.after.push(After { message: 0, event: Event::Received, then: 1 })),
        ("link change", |r| {
            r.plan.changes.push(Change { at: Picos::ZERO, switch: 0, port: 0, what: LinkEvent::Down });
        }),
        ("samples", |r| r.plan.sample_every = Picos::new(r.plan.sample_every.get() * 2)),
        ("watched queue", |r| r.plan.watched.clear()),
        ("decisions", |r| r.plan.log_decisions = true),
        ("name of traffic", |r| r.groups[0].name = "other".into()),
        ("name of a queue", |r| r.queues[0].name = "other".into()),
        ("phase", |r| r.phases[0].settled = Picos::new(r.phases[0].settled.get() + 1)),
        ("class", |r| {
            let (from, below) = (Bytes::ZERO, Bytes::MAX);
            r.classes.push(ClassOf { name: "all".into(), groups: vec![0], from, below });
        }),
    ];
    let mut seen: Vec<(&str, String)> = Vec::new();
    for (what, change) in changes {
        let mut changed = resolved();
        change(&mut changed);
        let hash = plan_hash(&changed);
        let same = seen.iter().find(|(_, other)| *other == hash);
        assert!(same.is_none(), "{what} has the same hash as {same:?}");
        seen.push((what, hash));
    }
}
