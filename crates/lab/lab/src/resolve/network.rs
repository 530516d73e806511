//! Resolves a cell's network: topology, switches and transport.

use super::laws::set_parameters;
use crate::scenario::{
    EchoSpec, KeyPath, LinkSpec, MarkDirectionSpec, ParameterOwner, PlbSpec, PolicySpec, Scenario, SpecError,
    SpecErrorKind, StampSpec, Subject, Suggestion, TelemetryOffSpec, TopologySpec, select_racks,
};
use poseidon_laws::AnyParams;
use poseidon_laws::plb::PlbParams;
use poseidon_plan::patterns::Racks;
use poseidon_plan::switch::{
    AnyBufferPolicy, AnyMarkPolicy, BUFFER_POLICIES, DelayCarrier, MARK_POLICIES, MarkDirection, Pause,
    RecordCarrier, Stamp, Switch, TelemetryOff,
};
use poseidon_plan::topology::{Chain, Edges, Tiers};
use poseidon_plan::transport::{Acks, Echo, Eligibility, LoadBalancing, Recovery, Transport};
use poseidon_plan::{Link, Topology};
use poseidon_types::{Picos, Signals, SwitchId};

/// Resolves a switch policy and its parameters. `$kind` is both the kind of policy and its key in `[switch]`.
macro_rules! resolve_policy {
    ($spec:expr, $any:ty, $list:expr, $kind:literal) => {{
        let PolicySpec { policy: name, parameters } = $spec;
        let mut policy = <$any>::from_name(name).ok_or_else(|| {
            let suggestion = Suggestion::new(name, $list.iter().map(|policy| policy.name));
            SpecErrorKind::UnknownPolicy { kind: $kind, policy: name.clone(), suggestion }
                .at(["switch", $kind, "policy"])
        })?;
        let mut known = Vec::new();
        policy.for_each(&mut |info, _| known.push(info.name));
        let owner = ParameterOwner::Policy($kind, name.clone());
        set_parameters(&owner, parameters, &known, &mut |key, text| policy.set(key, text))
            .map_err(|error| error.prepend_path(KeyPath::new(["switch", $kind])))?;
        policy
    }};
}

fn resolve_link(spec: LinkSpec) -> Link {
    Link { rate: spec.rate.0, delay: spec.delay.0 }
}

pub(super) fn resolve_topology(scenario: &Scenario) -> Result<Topology, SpecError> {
    let spec = scenario.topology.as_ref().ok_or_else(|| SpecErrorKind::NoTopology.at_root())?;
    let topology = match spec {
        TopologySpec::PoseidonClos { racks } => Topology::poseidon_clos(*racks),
        TopologySpec::PowertcpFatTree {} => Topology::powertcp_fat_tree(),
        TopologySpec::PowertcpRotor { notice } => Topology::powertcp_rotor(notice.0),
        TopologySpec::VaiSfFatTree {} => Topology::vai_sf_fat_tree(),
        TopologySpec::Star { hosts, link } => Topology::star(*hosts, resolve_link(*link)),
        TopologySpec::Dumbbell { hosts, host_link, middle_link } => {
            Topology::dumbbell(*hosts, resolve_link(*host_link), resolve_link(*middle_link))
        }
        TopologySpec::Chain { switches, hosts, host_link, middle_link } => Topology::Chain(Chain {
            switches: *switches,
            hosts: *hosts,
            host_link: resolve_link(*host_link),
            middle_link: resolve_link(*middle_link),
        }),
        TopologySpec::Clos { pods, racks, hosts, aggregation, cores, host_link, rack_link, core_link } => {
            let rack_link = rack_link.unwrap_or(*host_link);
            Topology::Tiers(Tiers {
                pods: *pods,
                racks: *racks,
                hosts: *hosts,
                aggregation: *aggregation,
                cores: *cores,
                host_link: resolve_link(*host_link),
                rack_link: resolve_link(rack_link),
                core_link: resolve_link(core_link.unwrap_or(rack_link)),
            })
        }
        TopologySpec::FatTree { ports, .. } if *ports == 0 || !ports.is_multiple_of(2) => {
            return Err(SpecErrorKind::OddPorts { ports: *ports }.at(["topology", "ports"]));
        }
        TopologySpec::FatTree { ports, link } => Topology::fat_tree(*ports, resolve_link(*link)),
        TopologySpec::Links { links } => {
            let edges = Edges::parse(links);
            Topology::Edges(edges.map_err(|error| SpecErrorKind::Links(error).at(["topology", "links"]))?)
        }
    };
    topology.check().map_err(|reason| SpecErrorKind::Topology(reason).at(["topology"]))?;
    Ok(topology)
}

pub(super) fn resolve_switch(scenario: &Scenario, laws: &[AnyParams]) -> Result<Switch, SpecError> {
    let spec = &scenario.switch;
    Ok(Switch {
        pipeline: spec.pipeline.0,
        priorities: spec.priorities,
        buffer: resolve_policy!(&spec.buffer, AnyBufferPolicy, BUFFER_POLICIES, "buffer"),
        pause: spec.pfc.map_or(Pause::Off, |pfc| Pause::Pfc {
            memory: pfc.memory.0,
            alpha: pfc.alpha.0,
            resume: pfc.resume.0,
        }),
        mark: resolve_policy!(&spec.mark, AnyMarkPolicy, MARK_POLICIES, "mark"),
        mark_direction: match spec.mark_direction {
            MarkDirectionSpec::Forward => MarkDirection::Forward,
            MarkDirectionSpec::ReversePerFlow => {
                MarkDirection::ReversePerFlow { counters: spec.mark_counters }
            }
            MarkDirectionSpec::ReversePerPort => MarkDirection::ReversePerPort,
        },
        stamp: resolve_stamp(spec.stamp, laws)?,
    })
}

/// Resolves the telemetry that a cell's laws need.
fn resolve_stamp(spec: StampSpec, laws: &[AnyParams]) -> Result<Stamp, SpecError> {
    let needs = laws.iter().fold(Signals::NONE, |needs, law| needs.union(law.needs()));
    let records = needs.contains(Signals::HOP_RECORDS);
    // Poseidon uses telemetry from some hops even if its signal does not require it from all hops (section 4.1).
    let delay = needs.contains(Signals::MAX_HOP_DELAY) || laws.iter().any(|law| law.law_name() == "poseidon");
    match (spec, records, delay) {
        (StampSpec::Off, ..) | (_, false, false) => Ok(Stamp::Off),
        (_, true, true) => Err(SpecErrorKind::ConflictingTelemetry.at_root()),
        (StampSpec::Auto, true, false) => Ok(Stamp::HopRecords(RecordCarrier::Exact)),
        (StampSpec::Wire, true, false) => Ok(Stamp::HopRecords(RecordCarrier::HpccNs3)),
        (StampSpec::Auto, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Exact)),
        (StampSpec::Wire, false, true) => Ok(Stamp::MaxHopDelay(DelayCarrier::Shim)),
    }
}

/// Determines which switches write no telemetry during all or part of the run.
pub(super) fn resolve_telemetry_off(
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<TelemetryOff>, SpecError> {
    // A rack's switch has the same number as the rack.
    let select = |selectors, key: &str| {
        select_racks(selectors, racks).map_err(|error| switch_error(SpecErrorKind::Selection(error), key))
    };
    let mut telemetry_off = Vec::new();
    if let Some(stamping) = &scenario.switch.stamping {
        let stamping = select(stamping, "stamping")?;
        let other_switches = topology.switch_ids().filter(|switch| !stamping.contains(&switch.get()));
        telemetry_off.extend(other_switches.map(TelemetryOff::always));
    }
    if let Some(TelemetryOffSpec { switches, from, until }) = &scenario.switch.telemetry_off {
        let switches = select(switches, "silence")?.into_iter().map(SwitchId::new);
        let until = until.map_or(Picos::MAX, |until| until.0);
        telemetry_off.extend(switches.map(|switch| TelemetryOff { switch, from: from.0, until }));
        telemetry_off.sort_by_key(|period| period.switch);
        if telemetry_off.windows(2).any(|pair| pair[0].switch == pair[1].switch) {
            return Err(switch_error(SpecErrorKind::TelemetryAlwaysOff, "silence"));
        }
    }
    Ok(telemetry_off)
}

fn switch_error(kind: SpecErrorKind, key: &str) -> SpecError {
    let path = KeyPath::new(["switch", key]);
    kind.at_path(path.clone()).about(Subject::Key(path))
}

pub(super) fn resolve_transport(scenario: &Scenario) -> Transport {
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
        load_balancing: if spec.spray { LoadBalancing::PerPacket } else { LoadBalancing::PerFlow },
        plb: match spec.plb {
            PlbSpec::Off => None,
            PlbSpec::Falcon => Some(PlbParams::FALCON),
            PlbSpec::Linux => Some(PlbParams::LINUX),
        },
        coexistence: spec.coexistence,
    }
}
