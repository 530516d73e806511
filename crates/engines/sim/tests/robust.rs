//! Checks that random plans either run or are rejected, without panics or hangs, and that the same plan
//! always produces the same result. At the end of every run, the simulator itself checks that no packets
//! appeared or vanished.

use core::num::NonZeroU32;
use poseidon_laws::plb::PlbParams;
use poseidon_laws::{AnyParams, LAWS};
use poseidon_plan::impairments::{AnyImpairPolicy, Jitter, LinkImpairment, RandomLoss, Reorder};
use poseidon_plan::joins::{JoinDependent, JoinPrerequisite, Joins};
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::records::{DropCause, MemorySink};
use poseidon_plan::switch::{
    AnyBufferPolicy, AnyMarkPolicy, CodelRfc, CodelTofino, DelayCarrier, MarkDirection, Pause, PerQueue,
    RecordCarrier, Red, Shared, SlowPort, Stamp, Step, Switch, SwitchOverride, TelemetryOff, Trim,
};
use poseidon_plan::topology::{Chain, Edge, Edges, Node, Rails, Rotor, Tiers};
use poseidon_plan::traffic::{Amount, Connection, Dependency, Event, Message};
use poseidon_plan::transport::{
    Acks, AnyPathPolicy, Echo, Eligibility, PATH_POLICIES, PathFilter, Recovery, Transport,
};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{
    BitRate, Bytes, ConnectionId, Fraction, HostId, JoinId, MessageId, Nanos, Picos, PortId, SwitchId,
};

const PLANS: u64 = 10_000;

#[test]
fn result_does_not_depend_on_the_number_of_threads() {
    let (mut compared, mut hops) = (0, 0);
    for seed in 0..300 {
        let mut plan = random_plan(&mut SplitMix64::new(seed));
        // Use realistic delays. With windows of one picosecond, threads would do nothing but synchronize.
        raise_link_delays(&mut plan.topology);
        plan.stop = plan.stop.min(Picos::new(60_000_000));
        let run = |threads| {
            let mut rows = MemorySink::default();
            let simulator =
                Simulator::with_threads(NonZeroU32::new(threads).expect("the number is not zero"));
            simulator.run(&plan, &mut rows).map(|report| (report, rows))
        };
        let Ok(single) = run(1) else { continue };
        for threads in [2, 3, 4, 8] {
            assert_eq!(run(threads).as_ref(), Ok(&single), "seed {seed}, {threads} threads");
        }
        compared += 1;
        hops += single.0.packet_hops;
    }
    println!("{compared} plans, {hops} packet-hops, same result on 1, 2, 3, 4 and 8 threads");
    assert!(compared > 200 && hops > 100_000);
}

/// Ports with buffers of their own have no timers. One switch with a shared buffer, which never fills, gives timers to
/// all ports.
#[test]
fn ports_with_and_without_timers_give_the_same_result() {
    let (mut compared, mut dropped, mut trimmed, mut samples) = (0, 0, 0, 0);
    for seed in 0..600 {
        let mut plan = random_plan(&mut SplitMix64::new(seed));
        raise_link_delays(&mut plan.topology);
        plan.stop = plan.stop.min(Picos::new(60_000_000));
        plan.switch.pause = Pause::Off;
        plan.switch.mark_direction = MarkDirection::Forward;
        plan.switch.buffer = PerQueue { size: Bytes::new(2_000 << (seed % 8)) }.into();
        plan.switch_overrides.clear();
        let run = |buffer: AnyBufferPolicy| {
            let mut plan = plan.clone();
            plan.switch_overrides =
                vec![SwitchOverride { switch: SwitchId::new(0), buffer: Some(buffer), mark: None }];
            let mut rows = MemorySink::default();
            let simulator = Simulator::with_threads(NonZeroU32::MIN);
            simulator.run(&plan, &mut rows).map(|report| (report, rows))
        };
        let size = Bytes::new(1 << 40);
        let Ok(without_timers) = run(PerQueue { size }.into()) else { continue };
        let with_timers = run(Shared { size, alpha: Fraction::ratio(8, 1) }.into());
        assert_eq!(with_timers.as_ref(), Ok(&without_timers), "seed {seed}");
        compared += 1;
        dropped += without_timers.0.dropped;
        trimmed += without_timers.0.trimmed;
        samples += without_timers.1.queues.len();
    }
    println!("{compared} plans, {dropped} packets dropped, {trimmed} trimmed, {samples} samples of queues");
    assert!(compared > 200 && dropped > 100 && trimmed > 100 && samples > 100);
}

/// Raises all link delays to at least 245 ns.
fn raise_link_delays(topology: &mut Topology) {
    let raise = |link: &mut Link| link.delay = link.delay.max(Picos::new(245_000));
    match topology {
        Topology::Tiers(t) => {
            [&mut t.host_link, &mut t.rack_link, &mut t.core_link].into_iter().for_each(raise);
        }
        Topology::Chain(c) => [&mut c.host_link, &mut c.middle_link].into_iter().for_each(raise),
        Topology::Rotor(r) => {
            [&mut r.host_link, &mut r.packet_link, &mut r.circuit_link].into_iter().for_each(raise);
        }
        Topology::Rails(r) => {
            [&mut r.local_link, &mut r.rail_link, &mut r.spine_link].into_iter().for_each(raise);
        }
        Topology::Edges(e) => {
            let mut edges = e.edges().to_vec();
            edges.iter_mut().map(|edge| &mut edge.link).for_each(raise);
            *e = Edges::new(edges).expect("the links are unchanged");
        }
    }
}

#[test]
fn random_plans_run_or_are_rejected() {
    let (mut completed, mut rejected, mut finished) = (0, 0, 0);
    let mut total = Report::default();
    for seed in 0..PLANS {
        let plan = random_plan(&mut SplitMix64::new(seed));
        let run = || {
            let mut rows = MemorySink::default();
            Simulator::with_threads(NonZeroU32::MIN).run(&plan, &mut rows).map(|report| (report, rows))
        };
        match run() {
            Ok((report, rows)) => {
                completed += 1;
                finished += rows.messages.len();
                total.add(&report);
                assert!(report.ended <= plan.stop, "seed {seed}");
                assert!(rows.messages.iter().all(|row| row.acknowledged < plan.stop), "seed {seed}");
                if plan.switch.pause != Pause::Off {
                    let buffer_drop = rows.drops.iter().find(|row| row.cause == DropCause::Buffer);
                    assert_eq!(buffer_drop, None, "seed {seed}: PFC dropped a packet");
                }
                if seed.is_multiple_of(10) {
                    assert_eq!(run(), Ok((report, rows)), "seed {seed}: the second run differs");
                }
            }
            Err(error) => {
                rejected += 1;
                assert!(!error.to_string().is_empty(), "seed {seed}");
            }
        }
    }
    println!(
        "{completed} plans ran, {rejected} were rejected; {finished} messages finished; total {total:?}"
    );
    assert!(completed > PLANS / 2 && rejected > PLANS / 20, "the plans are varied");
    let counts =
        [total.dropped, total.marks, total.pauses, total.repaths, total.timeouts, total.retransmitted];
    assert!(counts.iter().all(|count| *count > 100), "every feature is exercised: {total:?}");
}

fn random_u32(rng: &mut SplitMix64, below: u64) -> u32 {
    u32::try_from(rng.below(below)).expect("the number is small")
}

fn random_plan(rng: &mut SplitMix64) -> Plan {
    let topology = random_topology(rng);
    // About one plan in ten may be invalid.
    let may_be_invalid = rng.below(10) == 0;
    let priorities =
        if rng.below(3) == 0 { 1 + random_u32(rng, 3 + u64::from(may_be_invalid) * 8) } else { 1 };
    let priorities = u8::try_from(priorities).expect("the number is small");
    let (connections, messages, dependencies) = random_traffic(rng, &topology, priorities, may_be_invalid);
    let joins = random_joins(rng, &connections, &messages, may_be_invalid);
    let stamp = *rng.pick(&[
        Stamp::Off,
        Stamp::MaxHopDelay(DelayCarrier::Exact),
        Stamp::MaxHopDelay(DelayCarrier::Shim),
        Stamp::HopRecords(RecordCarrier::Exact),
        Stamp::HopRecords(RecordCarrier::HpccNs3),
    ]);
    // HPCC's header can encode only these rates.
    let is_encodable = |link: &Link| [25, 100, 200, 400].map(BitRate::from_gbps).contains(&link.rate);
    let stamp = if topology.links().iter().all(is_encodable) || may_be_invalid {
        stamp
    } else {
        *rng.pick(&[
            Stamp::Off,
            Stamp::MaxHopDelay(DelayCarrier::Shim),
            Stamp::HopRecords(RecordCarrier::Exact),
        ])
    };
    let is_rotor = matches!(topology, Topology::Rotor(_));
    let law = |rng: &mut SplitMix64| {
        let any_law = rng.pick(LAWS).name;
        let supported_law = match stamp {
            Stamp::Off if is_rotor => "retcp",
            Stamp::Off => {
                *rng.pick(&["swift", "theta-powertcp", "timely", "dcqcn", "dctcp", "cubic", "bbr", "fixed"])
            }
            Stamp::MaxHopDelay(_) => *rng.pick(&["poseidon", "swift"]),
            Stamp::HopRecords(_) => *rng.pick(&["hpcc", "powertcp"]),
        };
        AnyParams::for_law(if may_be_invalid { any_law } else { supported_law }).expect("the law exists")
    };
    let switches = u64::from(topology.switches().max(1));
    let mut link_changes: Vec<LinkChange> = (0..if rng.below(3) == 0 { rng.below(6) } else { 0 })
        .map(|_| LinkChange {
            time: Picos::new(rng.below(60_000_000)),
            switch: SwitchId::new(random_u32(rng, switches)),
            port: PortId::new(random_u32(rng, 1 + 2 * u64::from(may_be_invalid))),
            event: *rng.pick(&[
                LinkEvent::Down,
                LinkEvent::Up,
                LinkEvent::Up,
                LinkEvent::Rate(BitRate::from_gbps(50)),
                LinkEvent::Rate(BitRate::from_gbps(200)),
            ]),
        })
        .collect();
    link_changes.sort_by_key(|change| change.time);
    if is_rotor && !may_be_invalid {
        link_changes.clear();
    }
    let switch = random_switch(rng, priorities, stamp, is_rotor && !may_be_invalid);
    let may_impair = (!is_rotor && switch.pause == Pause::Off) || may_be_invalid;
    let link_impairments = if may_impair { random_impairments(rng, switches) } else { Vec::new() };
    let mut plan = Plan {
        seed: rng.next_u64(),
        stop: Picos::new(rng.below(300_000_000)),
        topology,
        switch_overrides: random_overrides(rng, switches, switch.pause == Pause::Off || may_be_invalid),
        slow_ports: Vec::new(),
        switch,
        telemetry_off: match rng.below(8) {
            0 => vec![TelemetryOff::always(SwitchId::new(0))],
            1 => vec![TelemetryOff {
                switch: SwitchId::new(0),
                from: Picos::new(rng.below(100_000_000)),
                until: Picos::new(100_000_000),
            }],
            _ => Vec::new(),
        },
        transport: random_transport(rng, priorities, may_be_invalid),
        laws: vec![law(rng), law(rng)],
        watched_connections: plans::connection_ids(
            (0..random_u32(rng, 3)).filter(|c| (*c as usize) < connections.len()),
        ),
        stacks: Vec::new(),
        connections,
        messages,
        dependencies,
        joins,
        rings: Vec::new(),
        link_changes,
        link_impairments,
        sample_every: Picos::new(*rng.pick(&[0, 1_000_000])),
        log_decisions: rng.below(4) == 0,
        watched_ports: if rng.below(4) == 0 {
            plans::switch_ports(&[(0, 0), (0, 9_999)])
        } else {
            Vec::new()
        },
    };
    if !may_be_invalid && !is_rotor {
        random_multipath(rng, &mut plan);
    }
    plan
}

/// Chooses a path policy, slow links and packet trimming for some plans.
fn random_multipath(rng: &mut SplitMix64, plan: &mut Plan) {
    if rng.below(2) == 0 {
        let policy = PATH_POLICIES[random_u32(rng, PATH_POLICIES.len() as u64) as usize].name;
        plan.transport.load_balancing = AnyPathPolicy::from_name(policy).expect("the policy exists");
    }
    if plan.link_changes.is_empty() && rng.below(3) == 0 {
        plan.slow_ports = vec![SlowPort { switch: SwitchId::new(0), port: PortId::new(0), divisor: 4 }];
    }
    if plan.switch.pause != Pause::Off || rng.below(3) != 0 {
        return;
    }
    plan.switch.trim = Some(Trim { size: Bytes::new(*rng.pick(&[1, 32, 63])) });
    plan.switch.priorities = (plan.switch.priorities + 1).min(8);
    let lowest = plan.switch.priorities - 1;
    for connection in &mut plan.connections {
        connection.priority = (connection.priority + 1).min(lowest);
    }
    plan.transport.ack_priority = Some(0);
    plan.transport.recovery = Recovery::TrimNacks;
    plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(*rng.pick(&[1, 16_384])) };
    plan.transport.echo = Echo::Exact;
    plan.transport.plb = None;
    // A shorter timeout would send each packet again and again, at the rate of the link.
    plan.transport.min_rto = plan.transport.min_rto.max(Nanos::from_micros(20));
}

/// Impairs the first port of some switches.
fn random_impairments(rng: &mut SplitMix64, switches: u64) -> Vec<LinkImpairment> {
    let mut impairments = Vec::new();
    for switch in 0..u32::try_from(switches).expect("the number is small") {
        let policy: AnyImpairPolicy = match rng.below(12) {
            0 => RandomLoss { probability: Fraction::ratio(1, 1 + random_u32(rng, 200)) }.into(),
            1 => Jitter { max: Nanos::new(rng.below(50_000)), keep_order: rng.below(2) == 0 }.into(),
            2 => Reorder { probability: Fraction::ratio(1, 10), delay: Nanos::new(rng.below(50_000)) }.into(),
            _ => continue,
        };
        impairments.push(LinkImpairment { switch: SwitchId::new(switch), port: PortId::new(0), policy });
    }
    impairments
}

fn random_traffic(
    rng: &mut SplitMix64,
    topology: &Topology,
    priorities: u8,
    may_be_invalid: bool,
) -> (Vec<Connection>, Vec<Message>, Vec<Dependency>) {
    let hosts = u64::from(topology.hosts().max(1));
    let connections: Vec<_> = (0..rng.below(12))
        .map(|_| {
            let from = random_u32(rng, hosts + u64::from(may_be_invalid));
            let other = random_u32(rng, hosts.max(2) - 1);
            let to = if may_be_invalid { other } else { (from + 1 + other) % topology.hosts().max(1) };
            Connection {
                from: HostId::new(from),
                to: HostId::new(to),
                law: random_u32(rng, 2 + u64::from(may_be_invalid)),
                entropy: random_u32(rng, 1_000),
                priority: u8::try_from(rng.below(u64::from(priorities))).expect("the number is small"),
            }
        })
        .filter(|connection| may_be_invalid || connection.from != connection.to)
        .collect();
    let mut messages: Vec<_> = (0..rng.below(20))
        .map(|_| Message {
            connection: ConnectionId::new(random_u32(rng, connections.len() as u64 + 1).min(11)),
            start: Picos::new(rng.below(50_000_000)),
            amount: match rng.below(8) {
                0 => Amount::ENDLESS,
                1 => Amount::Until(Picos::new(rng.below(100_000_000))),
                _ => Amount::Exactly(Bytes::new(rng.below(100_000))),
            },
        })
        .collect();
    let mut dependencies = Vec::new();
    if !may_be_invalid {
        messages.sort_by_key(|message| message.start);
        messages.retain(|message| message.connection.index() < connections.len());
        // An open-ended message must be the only message on its connection.
        let mut used_connections: Vec<ConnectionId> = Vec::new();
        messages.retain(|message| match message.amount {
            Amount::Exactly(size) if size.is_zero() => false,
            Amount::Until(until) if until <= message.start => false,
            _ => {
                used_connections.push(message.connection);
                true
            }
        });
        let use_count =
            |connection: ConnectionId| used_connections.iter().filter(|other| **other == connection).count();
        messages.retain(|message| message.amount.bytes().is_some() || use_count(message.connection) == 1);
        for dependent in 1..messages.len() {
            let prerequisite = rng.index(dependent);
            let ends = |index: usize| connections[messages[index].connection.index()];
            let event = if ends(prerequisite).to == ends(dependent).from {
                Event::Received
            } else if ends(prerequisite).from == ends(dependent).from {
                Event::Acknowledged
            } else {
                continue;
            };
            if messages[prerequisite].amount.bytes().is_some() && rng.below(3) == 0 {
                dependencies.push(Dependency {
                    prerequisite: MessageId::from_index(prerequisite),
                    event,
                    dependent: MessageId::from_index(dependent),
                });
            }
        }
        dependencies.sort_unstable();
    }
    (connections, messages, dependencies)
}

/// Returns up to two joins. Each waits for up to three events at the sender of a later message.
fn random_joins(
    rng: &mut SplitMix64,
    connections: &[Connection],
    messages: &[Message],
    may_be_invalid: bool,
) -> Joins {
    let mut joins = Joins::default();
    for _ in 0..if messages.is_empty() { 0 } else { rng.below(3) } {
        let dependent = rng.index(messages.len());
        let join = JoinId::from_index(joins.len() + usize::from(may_be_invalid && rng.below(2) == 0));
        let ends = |message: &Message| connections.get(message.connection.index());
        let event_at_sender = |(index, message): (usize, &Message)| {
            let (earlier, later) = (ends(message)?, ends(&messages[dependent])?);
            let event = if earlier.to == later.from { Event::Received } else { Event::Acknowledged };
            let is_valid =
                message.amount.bytes().is_some() && (event == Event::Received || earlier.from == later.from);
            let message = MessageId::from_index(index);
            (is_valid || may_be_invalid).then_some(JoinPrerequisite { message, event, join })
        };
        let earlier = messages[..dependent].iter().enumerate();
        let prerequisites: Vec<_> = earlier.filter_map(event_at_sender).take(3).collect();
        if !prerequisites.is_empty() {
            joins.delays.push(Picos::new(*rng.pick(&[0, 0, 1, 5_000_000])));
            joins.prerequisites.extend(prerequisites);
            joins.dependents.push(JoinDependent { join, message: MessageId::from_index(dependent) });
        }
    }
    joins.prerequisites.sort_unstable();
    joins.dependents.sort_unstable();
    joins
}

fn random_switch(rng: &mut SplitMix64, priorities: u8, stamp: Stamp, in_rotor: bool) -> Switch {
    let pfc = Pause::Pfc {
        memory: Bytes::new(*rng.pick(&[1_000_000, 30_000_000, 300_000_000])),
        alpha: Fraction::ratio(*rng.pick(&[1, 1, 8]), *rng.pick(&[1, 8])),
        resume: Bytes::new(*rng.pick(&[0, 3_000])),
    };
    let codel = [
        (Nanos::ZERO, Nanos::MAX),
        (Nanos::from_micros(1), Nanos::from_micros(20)),
        (Nanos::from_micros(1), Nanos::ZERO),
    ];
    let (target, interval) = *rng.pick(&codel);
    Switch {
        pipeline: Picos::new(*rng.pick(&[0, 1, 600_000, 5_000_000])),
        priorities: if in_rotor { 1 } else { priorities },
        buffer: if rng.below(2) == 0 {
            PerQueue { size: Bytes::new(*rng.pick(&[9_000, 20_000, 1_000_000])) }.into()
        } else {
            let size = Bytes::new(*rng.pick(&[40_000, 100_000, 64_000_000]));
            Shared { size, alpha: Fraction::ratio(*rng.pick(&[1, 1, 8]), *rng.pick(&[1, 8])) }.into()
        },
        trim: None,
        pause: if rng.below(3) == 0 && !in_rotor { pfc } else { Pause::Off },
        mark: rng
            .pick(&[
                AnyMarkPolicy::OFF,
                Step { threshold: Bytes::new(10_000) }.into(),
                Red {
                    min: Bytes::new(5_000),
                    max: Bytes::new(1),
                    probability: Fraction::ratio(1, 5),
                    ..Red::default()
                }
                .into(),
                CodelRfc { target, interval }.into(),
                CodelTofino { target, interval }.into(),
            ])
            .clone(),
        mark_host_links: rng.below(4) != 0,
        mark_direction: *rng.pick(&[
            MarkDirection::Forward,
            MarkDirection::Forward,
            MarkDirection::ReversePerFlow { counters: 3 },
            MarkDirection::ReversePerPort,
        ]),
        stamp,
    }
}

/// Gives some switches their own policies.
fn random_overrides(rng: &mut SplitMix64, switches: u64, may_set_buffer: bool) -> Vec<SwitchOverride> {
    if rng.below(4) != 0 {
        return Vec::new();
    }
    let with_own = (0..random_u32(rng, switches)).filter(|_| rng.below(2) == 0).collect::<Vec<_>>();
    let with_policies = |switch| SwitchOverride {
        switch: SwitchId::new(switch),
        buffer: may_set_buffer.then(|| PerQueue { size: Bytes::new(12_000) }.into()),
        mark: Some(Step { threshold: Bytes::new(6_000) }.into()),
    };
    with_own.into_iter().map(with_policies).collect()
}

fn random_transport(rng: &mut SplitMix64, priorities: u8, may_be_invalid: bool) -> Transport {
    let recovery = *rng.pick(&[
        Recovery::Selective { reordering: 3 },
        Recovery::Selective { reordering: 0 },
        Recovery::Selective { reordering: 1_000 },
        Recovery::GoBackN,
    ]);
    let coalesced = Acks::Coalesced { packets: 4, delay: Nanos::from_micros(5) };
    Transport {
        mtu: Bytes::new(*rng.pick(if may_be_invalid { &[0, 65_000] } else { &[64, 1_000, 4_096] })),
        header: Bytes::new(*rng.pick(&[0, 64, 600])),
        ack: Bytes::new(*rng.pick(&[1, 64, 64, 64])),
        eligibility: *rng.pick(&[Eligibility::Floor, Eligibility::Ceil]),
        min_rto: Nanos::new(*rng.pick(&[1, 1_000, 250_000, 1_000_000])),
        first_rto: Nanos::new(*rng.pick(&[1, 100_000, 1_000_000])),
        acks: if recovery == Recovery::GoBackN && !may_be_invalid {
            Acks::EveryPacket
        } else {
            *rng.pick(&[Acks::EveryPacket, coalesced])
        },
        recovery,
        echo: *rng.pick(&[
            Echo::Exact,
            Echo::UntilReduced,
            Echo::Notification { gap: Nanos::from_micros(4) },
        ]),
        ack_priority: (rng.below(3) == 0).then_some(priorities - 1),
        load_balancing: *rng.pick(&[AnyPathPolicy::ECMP, AnyPathPolicy::SPRAY]),
        plb: *rng.pick(&[None, Some(PlbParams::LINUX), Some(PlbParams::FALCON)]),
        coexistence: rng.below(4) == 0,
        credits: None,
        path_filter: PathFilter::Each,
    }
}

fn random_topology(rng: &mut SplitMix64) -> Topology {
    let link = |rng: &mut SplitMix64| Link {
        rate: BitRate::from_mbps(*rng.pick(&[100, 3_333, 25_000, 100_000, 200_000, 400_000])),
        delay: Picos::new(*rng.pick(&[0, 1, 245_000, 1_000_000, 40_000_000])),
    };
    let small_count = |rng: &mut SplitMix64| random_u32(rng, 4);
    match rng.below(9) {
        0 | 1 => {
            let (host_link, middle_link) = (link(rng), link(rng));
            Topology::Chain(Chain {
                switches: small_count(rng) + 1,
                hosts: small_count(rng) + 1,
                host_link,
                middle_link,
            })
        }
        2 => Topology::Rotor(Rotor {
            racks: small_count(rng) + 2,
            hosts: small_count(rng) + 1,
            host_link: link(rng),
            packet_link: link(rng),
            circuit_link: link(rng),
            day: Picos::new(*rng.pick(&[1_000_000, 20_000_000])),
            night: Picos::new(*rng.pick(&[0, 1_000_000])),
            notice: Picos::new(*rng.pick(&[0, 30_000_000])),
        }),
        3 => random_edges(rng, &link),
        4 => Topology::Rails(Rails {
            servers: small_count(rng) + 1,
            gpus: small_count(rng) + 1,
            servers_per_leaf: small_count(rng) + 1,
            spines: small_count(rng) + u32::from(rng.below(8) != 0),
            local_link: link(rng),
            rail_link: link(rng),
            spine_link: link(rng),
        }),
        _ => Topology::Tiers(Tiers {
            pods: small_count(rng) + 1,
            racks: small_count(rng) + 1,
            hosts: small_count(rng) + 1,
            aggregation: small_count(rng) + u32::from(rng.below(8) != 0),
            cores: small_count(rng) + u32::from(rng.below(8) != 0),
            host_link: link(rng),
            rack_link: link(rng),
            core_link: link(rng),
        }),
    }
}

/// Builds a tree of switches with additional links, and with hosts at some of the switches.
fn random_edges(rng: &mut SplitMix64, link: &impl Fn(&mut SplitMix64) -> Link) -> Topology {
    let switches = random_u32(rng, 6) + 1;
    let switch_node = |number| Node::Switch(SwitchId::new(number));
    let mut edges = Vec::new();
    // Slow links would carry too few packets.
    let link = |rng: &mut SplitMix64| {
        let link = link(rng);
        Link { rate: link.rate.max(BitRate::from_gbps(25)), ..link }
    };
    for switch in 1..switches {
        let other = random_u32(rng, u64::from(switch));
        edges.push(Edge { a: switch_node(switch), b: switch_node(other), link: link(rng) });
    }
    for _ in 0..random_u32(rng, 6) {
        let (a, b) = (random_u32(rng, u64::from(switches)), random_u32(rng, u64::from(switches)));
        if a != b {
            edges.push(Edge { a: switch_node(a), b: switch_node(b), link: link(rng) });
        }
    }
    let mut host = 0;
    for switch in 0..switches {
        for _ in 0..random_u32(rng, 3) + u32::from(switch == 0) {
            edges.push(Edge { a: Node::Host(HostId::new(host)), b: switch_node(switch), link: link(rng) });
            host += 1;
        }
    }
    Topology::Edges(Edges::new(edges).expect("the links form a network"))
}
