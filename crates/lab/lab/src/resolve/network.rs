//! Where packets go: topology, switches, hosts.

use super::laws::set_all;
use crate::scenario::{
    self, EchoSpec, LinkSpec, MarksGo, PlbSpec, PolicySpec, Scenario, SilenceSpec, StampSpec, TopologySpec,
};
use poseidon_laws::AnyParams;
use poseidon_laws::parts::plb::PlbParams;
use poseidon_plan::patterns::Racks;
use poseidon_plan::switch::{
    AnyBuffer, AnyMark, BUFFERS, DelayCarrier, Direction, MARKS, Pause, RecordCarrier, Silence, Stamp, Switch,
};
use poseidon_plan::topology::{Chain, Edges, Tiers};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Link, Topology};
use poseidon_types::{Picos, Signals};

/// A policy of a kind, with its parameters.
macro_rules! policy {
    ($spec:expr, $any:ty, $list:expr, $kind:literal) => {{
        let PolicySpec { policy: name, parameters } = $spec;
        let mut policy = <$any>::of(name).ok_or_else(|| {
            let known: Vec<&str> = $list.iter().map(|policy| policy.name).collect();
            format!(concat!("there is no ", $kind, " policy {:?}; {}"), name, scenario::advice(name, &known))
        })?;
        let mut known = Vec::new();
        policy.each(&mut |info, _| known.push(info.name));
        let owner = format!(concat!($kind, " policy {:?}"), name);
        set_all(&owner, parameters, &known, &mut |key, text| policy.set(key, text))?;
        policy
    }};
}

fn link(spec: LinkSpec) -> Link {
    Link { rate: spec.rate.0, delay: spec.delay.0 }
}

pub(super) fn topology(spec: &TopologySpec) -> Result<Topology, String> {
    Ok(match spec {
        TopologySpec::PoseidonClos { racks } => Topology::poseidon_clos(*racks),
        TopologySpec::PowertcpFatTree {} => Topology::powertcp_fat_tree(),
        TopologySpec::PowertcpRotor { notice } => Topology::powertcp_rotor(notice.0),
        TopologySpec::VaiSfFatTree {} => Topology::vai_sf_fat_tree(),
        TopologySpec::Star { hosts, link: of } => Topology::star(*hosts, link(*of)),
        TopologySpec::Dumbbell { hosts, host_link, middle_link } => {
            Topology::dumbbell(*hosts, link(*host_link), link(*middle_link))
        }
        TopologySpec::Chain { switches, hosts, host_link, middle_link } => Topology::Chain(Chain {
            switches: *switches,
            hosts: *hosts,
            host_link: link(*host_link),
            middle_link: link(*middle_link),
        }),
        TopologySpec::Clos { pods, racks, hosts, aggregation, cores, host_link, rack_link, core_link } => {
            let rack_link = rack_link.unwrap_or(*host_link);
            Topology::Tiers(Tiers {
                pods: *pods,
                racks: *racks,
                hosts: *hosts,
                aggregation: *aggregation,
                cores: *cores,
                host_link: link(*host_link),
                rack_link: link(rack_link),
                core_link: link(core_link.unwrap_or(rack_link)),
            })
        }
        TopologySpec::FatTree { ports, .. } if *ports == 0 || !ports.is_multiple_of(2) => {
            return Err(format!(
                "topology.ports is {ports}; a fat tree needs switches with an even number of ports, such as {}",
                ports.saturating_add(1).next_multiple_of(2)
            ));
        }
        TopologySpec::FatTree { ports, link: of } => Topology::fat_tree(*ports, link(*of)),
        TopologySpec::Links { links } => {
            Topology::Edges(Edges::parse(links).map_err(|error| format!("topology: {error}"))?)
        }
    })
}

pub(super) fn switch(scenario: &Scenario, laws: &[AnyParams]) -> Result<Switch, String> {
    let spec = &scenario.switch;
    Ok(Switch {
        pipeline: spec.pipeline.0,
        priorities: spec.priorities,
        buffer: policy!(&spec.buffer, AnyBuffer, BUFFERS, "buffer"),
        pause: spec.pfc.map_or(Pause::Off, |pfc| Pause::Pfc {
            memory: pfc.memory.0,
            alpha: pfc.alpha.0,
            resume: pfc.resume.0,
        }),
        mark: policy!(&spec.mark, AnyMark, MARKS, "mark"),
        marks_go: match spec.marks_go {
            MarksGo::Forward => Direction::Forward,
            MarksGo::ReversePerFlow => Direction::ReversePerFlow { counters: spec.mark_counters },
            MarksGo::ReversePerPort => Direction::ReversePerPort,
        },
        stamp: stamp(spec.stamp, laws)?,
    })
}

/// What the laws of a cell need written into packets.
fn stamp(spec: StampSpec, laws: &[AnyParams]) -> Result<Stamp, String> {
    let needs = laws.iter().fold(Signals::NONE, |needs, law| needs.union(law.needs()));
    let records = needs.supplies(Signals::HOP_RECORDS);
    // Poseidon uses what hops say even where its signal does not need all of them to (section 4.1).
    let delay = needs.supplies(Signals::MAX_HOP_DELAY) || laws.iter().any(|law| law.law() == "poseidon");
    match (spec, records, delay) {
        (StampSpec::Off, ..) | (_, false, false) => Ok(Stamp::Off),
        (_, true, true) => Err("one law needs records of hops and another the largest hop delay; switches write one of them: run them in cells of their own".into()),
        (StampSpec::Auto, true, false) => Ok(Stamp::HopRecords(RecordCarrier::Exact)),
        (StampSpec::Wire, true, false) => Ok(Stamp::HopRecords(RecordCarrier::HpccNs3)),
        (StampSpec::Auto, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Exact)),
        (StampSpec::Wire, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Shim)),
    }
}

/// The switches that do not stamp: never, or not for a while.
pub(super) fn silences(
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<Silence>, String> {
    // Switches of racks have the numbers of their racks.
    let mut silences = Vec::new();
    if let Some(stamping) = &scenario.switch.stamping {
        let speaks = scenario::racks(stamping, racks).map_err(|why| format!("switch.stamping: {why}"))?;
        silences.extend((0..topology.switches()).filter(|at| !speaks.contains(at)).map(Silence::always));
    }
    if let Some(SilenceSpec { switches, from, until }) = &scenario.switch.silence {
        let some = scenario::racks(switches, racks).map_err(|why| format!("switch.silence: {why}"))?;
        let until = until.map_or(Picos::MAX, |until| until.0);
        silences.extend(some.into_iter().map(|switch| Silence { switch, from: from.0, until }));
        silences.sort_by_key(|silence| silence.switch);
        // One that never stamps has nothing to fall silent with.
        if silences.windows(2).any(|pair| pair[0].switch == pair[1].switch) {
            return Err("switch.silence: one of its switches is not among those of switch.stamping".into());
        }
    }
    Ok(silences)
}

pub(super) fn transport(scenario: &Scenario) -> Transport {
    let spec = &scenario.transport;
    Transport {
        mtu: spec.mtu.0,
        header: spec.header.0,
        ack: spec.ack.0,
        eligibility: if spec.round_up { Eligibility::Ceil } else { Eligibility::Floor },
        min_rto: spec.min_rto.0,
        first_rto: spec.first_rto.0,
        recovery: if spec.go_back_n { Recovery::GoBackN } else { Recovery::Selective { reordering: 3 } },
        acks: if spec.ack_every > 1 {
            Acks::Coalesced { packets: spec.ack_every, delay: spec.ack_delay.0 }
        } else {
            Acks::EveryPacket
        },
        echo: match spec.echo {
            EchoSpec::Exact => Echo::Exact,
            EchoSpec::UntilReduced => Echo::UntilReduced,
            EchoSpec::Notification => Echo::Notification { gap: spec.notification_gap.0 },
        },
        ack_priority: spec.acks_first.then_some(0),
        spread: if spec.spray { Spread::PerPacket } else { Spread::PerFlow },
        plb: match spec.plb {
            PlbSpec::Off => None,
            PlbSpec::Falcon => Some(PlbParams::FALCON),
            PlbSpec::Linux => Some(PlbParams::LINUX),
        },
        coexistence: spec.coexistence,
    }
}
