//! Resolves a cell's network: topology, switches and transport.

use super::generations::Generations;
use super::policies::{resolve_buffer, resolve_mark, resolve_paths};
use crate::files::{FileTopology, InputFiles};
use crate::scenario::{
    CreditsSpec, EchoSpec, KeyPath, LinkSpec, MarkDirectionSpec, PathFilterSpec, PlbSpec, Scenario,
    SpecError, SpecErrorKind, StampSpec, Subject, TelemetryOffSpec, TopologySpec, TransportSpec,
    select_switches,
};
use poseidon_laws::AnyParams;
use poseidon_laws::plb::PlbParams;
use poseidon_plan::switch::{
    DelayCarrier, MarkDirection, Pause, RecordCarrier, Stamp, Switch, TelemetryOff, Trim,
};
use poseidon_plan::topology::{Chain, Edges, Rails, Tiers};
use poseidon_plan::transport::{
    Acks, AnyPathPolicy, Credits, Echo, Eligibility, PathFilter, Recovery, Transport,
};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{HostId, Nanos, Picos, Signals, SwitchId};
use std::collections::BTreeSet;

fn resolve_link(spec: LinkSpec) -> Link {
    Link { rate: spec.rate.0, delay: spec.delay.0 }
}

pub(super) fn resolve_topology(scenario: &Scenario, files: &InputFiles) -> Result<FileTopology, SpecError> {
    let spec = scenario.topology.as_ref().ok_or_else(|| SpecErrorKind::NoTopology.at_root())?;
    let mut nodes = None;
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
        TopologySpec::Rails {
            servers,
            gpus,
            servers_per_leaf,
            spines,
            local_link,
            rail_link,
            spine_link,
        } => Topology::Rails(Rails {
            servers: *servers,
            gpus: *gpus,
            servers_per_leaf: *servers_per_leaf,
            spines: *spines,
            local_link: resolve_link(*local_link),
            rail_link: resolve_link(*rail_link),
            spine_link: resolve_link(spine_link.unwrap_or(*rail_link)),
        }),
        TopologySpec::Links { links } => {
            let edges = Edges::parse(links);
            Topology::Edges(edges.map_err(|error| SpecErrorKind::Links(error).at(["topology", "links"]))?)
        }
        TopologySpec::File { file, format } => {
            let read = files.topology(file, *format);
            let read = read.map_err(|error| SpecErrorKind::File(error).at(["topology", "file"]))?;
            nodes = read.nodes;
            read.topology
        }
    };
    topology.check().map_err(|reason| SpecErrorKind::Topology(reason).at(["topology"]))?;
    Ok(FileTopology { topology, nodes })
}

pub(super) fn resolve_switch(scenario: &Scenario, laws: &[AnyParams]) -> Result<Switch, SpecError> {
    let spec = &scenario.switch;
    let path = KeyPath::new(["switch"]);
    Ok(Switch {
        pipeline: spec.pipeline.0,
        // With trimming, one more queue holds headers, ACKs and NACKs.
        priorities: spec.priorities.saturating_add(u8::from(spec.trim.is_some())),
        buffer: resolve_buffer(&spec.buffer, &path)?,
        trim: spec.trim.map(|trim| Trim { size: trim.size.0 }),
        pause: spec.pfc.map_or(Pause::Off, |pfc| Pause::Pfc {
            memory: pfc.memory.0,
            alpha: pfc.alpha.0,
            resume: pfc.resume.0,
        }),
        mark: resolve_mark(&spec.mark, &path)?,
        mark_host_links: spec.mark_host_links,
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
    generations: &Generations<'_>,
) -> Result<Vec<TelemetryOff>, SpecError> {
    let select = |selectors, key: &str| {
        let switches = select_switches(selectors, topology);
        switches.map_err(|error| switch_error(SpecErrorKind::Selection(error), key))
    };
    let stamping = match &scenario.switch.stamping {
        Some(stamping) => Some(BTreeSet::from_iter(select(stamping, "stamping")?)),
        None => None,
    };
    let is_always_off = |switch: &SwitchId| {
        let is_excluded = stamping.as_ref().is_some_and(|stamping| !stamping.contains(switch));
        is_excluded || !generations.writes_telemetry(*switch)
    };
    let mut telemetry_off: Vec<TelemetryOff> =
        topology.switch_ids().filter(is_always_off).map(TelemetryOff::always).collect();
    if let Some(TelemetryOffSpec { switches, from, until }) = &scenario.switch.telemetry_off {
        let switches = select(switches, "silence")?.into_iter();
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

/// Resolves the path policy of `transport.paths` or `transport.spray`.
fn resolve_load_balancing(spec: &TransportSpec) -> Result<AnyPathPolicy, SpecError> {
    let path = KeyPath::new(["transport"]);
    match &spec.paths {
        None if spec.spray => Ok(AnyPathPolicy::SPRAY),
        None => Ok(AnyPathPolicy::ECMP),
        Some(_) if spec.spray => {
            let reason = "transport.spray and transport.paths both choose paths; leave out transport.spray";
            Err(SpecErrorKind::InvalidInPlan(reason).at_path(path.join("spray")))
        }
        Some(paths) => resolve_paths(paths, &path),
    }
}

/// Resolves `transport.plb` and the keys that belong to it.
fn resolve_plb(spec: &TransportSpec) -> Result<Option<PlbParams>, SpecError> {
    let hop_delay = spec.plb_hop_delay.map(|delay| delay.0);
    let params = match spec.plb {
        PlbSpec::Off if hop_delay.is_some() => {
            let reason =
                "transport.plb-hop-delay has no effect without PLB; set transport.plb or leave it out";
            return Err(SpecErrorKind::InvalidInPlan(reason)
                .at_path(KeyPath::new(["transport"]).join("plb-hop-delay")));
        }
        PlbSpec::Off => return Ok(None),
        PlbSpec::Falcon => PlbParams::FALCON,
        PlbSpec::Linux => PlbParams::LINUX,
    };
    Ok(Some(PlbParams { hop_delay, ..params }))
}

/// Resolves credits. Without a stated RTT of the network, [`set_network_rtt`] sets it.
fn resolve_credits(spec: &CreditsSpec) -> Credits {
    Credits {
        pull: spec.pull.0,
        rate: spec.rate.0,
        window: spec.window.0,
        oversubscription: spec.oversubscription,
        min_rate: spec.min_rate.0,
        network_rtt: spec.network_rtt.map_or(Nanos::ZERO, |rtt| rtt.0),
    }
}

/// Sets the RTT that credits assume to the one between the first and the last host, if the scenario does not state it.
pub(super) fn set_network_rtt(plan: &mut Plan) {
    let last = HostId::new(plan.topology.hosts().saturating_sub(1));
    let network_rtt = plan.base_rtt(HostId::new(0), last).to_nanos_floor();
    if let Some(credits) = plan.transport.credits.as_mut().filter(|credits| credits.network_rtt.is_zero()) {
        credits.network_rtt = network_rtt;
    }
}

pub(super) fn resolve_transport(scenario: &Scenario) -> Result<Transport, SpecError> {
    let spec = &scenario.transport;
    let trims = scenario.switch.trim.is_some();
    Ok(Transport {
        mtu: spec.mtu.0,
        header: spec.header.0,
        ack: spec.ack.0,
        eligibility: if spec.round_up { Eligibility::Ceil } else { Eligibility::Floor },
        min_rto: spec.min_rto.0,
        first_rto: spec.first_rto.0,
        recovery: match (trims, spec.go_back_n) {
            (true, _) => Recovery::TrimNacks,
            (false, true) => Recovery::GoBackN,
            (false, false) => Recovery::Selective { reordering: 3 },
        },
        acks: if trims {
            Acks::CoalescedBytes { bytes: spec.ack_bytes.0 }
        } else if spec.ack_every > 1 {
            Acks::Coalesced { packets: spec.ack_every, delay: spec.ack_delay.0 }
        } else {
            Acks::EveryPacket
        },
        echo: match spec.echo {
            EchoSpec::Exact => Echo::Exact,
            EchoSpec::UntilReduced => Echo::UntilReduced,
            EchoSpec::Notification => Echo::Notification { gap: spec.notification_gap.0 },
        },
        ack_priority: (spec.acks_first || trims).then_some(0),
        load_balancing: resolve_load_balancing(spec)?,
        plb: resolve_plb(spec)?,
        coexistence: spec.coexistence,
        credits: spec.credits.as_ref().map(resolve_credits),
        path_filter: match spec.path_filter {
            PathFilterSpec::Each => PathFilter::Each,
            PathFilterSpec::Median => PathFilter::Median,
            PathFilterSpec::Max => PathFilter::Max,
        },
    })
}
