//! Generations of switches, link changes, link impairments and rail networks in scenarios.

use core::num::NonZeroU32;
use poseidon_lab::canonical::plan_hash;
use poseidon_lab::explain::describe_run;
use poseidon_lab::reduce::Reducer;
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::study::Study;
use poseidon_plan::impairments::{AnyImpairPolicy, Jitter, RandomLoss};
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::switch::{TelemetryOff, Trim};
use poseidon_plan::transport::{Acks, Recovery, Reps};
use poseidon_plan::{Backend, Topology};
use poseidon_sim::Simulator;
use poseidon_types::{BitRate, Bytes, Fraction, HostId, Nanos, Picos, PortId, SwitchId};

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

/// Resolves a scenario with one flow of a fixed window and these tables.
fn resolve(tables: &str) -> ResolvedRun {
    let text = format!(
        "title = \"a test\"\nsource = \"none\"\nstop = \"1 ms\"\nlaw = \"full\"\n\
         [laws.full]\nbase = \"fixed\"\nwindow = \"256 packets\"\n{tables}"
    );
    let study = Study::read("test.toml", &text, false).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.check(&simulator()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.resolve(&study.cells[0], 1, &simulator()).expect("the scenario was checked")
}

/// Returns the rate of the only flow in Gbps, and its fair share.
fn rate_and_share(resolved: &ResolvedRun) -> (f64, f64) {
    let mut reducer = Reducer::new(resolved, true);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    let values = &reducer.summary(&report).phases[0].values;
    (values["flow.rate_gbps"], values["flow.fair_share_gbps"])
}

fn flow(from: &str, to: &str) -> String {
    format!("[[traffic]]\nname = \"flow\"\nkind = \"long-flows\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
}

/// Two pods of two racks with two hosts each. Switches 0 to 3 are racks, 4 to 7 aggregation switches and 8 to 11 core
/// switches.
const CLOS: &str = r#"
[topology]
kind = "clos"
pods = 2
racks = 2
hosts = 2
aggregation = 2
cores = 2
host-link = { rate = "100 Gbps", delay = "1 us" }
"#;

fn clos(tables: &str) -> ResolvedRun {
    resolve(&format!("{}{CLOS}{tables}", flow("rack0.host0", "rack3.host0")))
}

#[test]
fn policies_of_a_generation_apply_to_its_switches() {
    let resolved = clos(
        r#"
[generation.old]
switches = ["core0", "agg[1-2]"]
buffer = { policy = "per-queue", size = "100 kB" }
[generation.new]
switches = "pod0.rack[0-1]"
mark = { policy = "step", threshold = "20 kB" }
"#,
    );
    let overrides: Vec<_> = resolved
        .plan
        .switch_overrides
        .iter()
        .map(|own| {
            let buffer = own.buffer.as_ref().map(|buffer| buffer.name());
            (own.switch.get(), buffer, own.mark.as_ref().map(|mark| mark.name()))
        })
        .collect();
    let (old, new) = (Some("per-queue"), Some("step"));
    assert_eq!(overrides, [(0, None, new), (1, None, new), (5, old, None), (6, old, None), (8, old, None)]);
    let text = describe_run(&resolved);
    assert!(text.contains("switches 5 to 6: per-queue, size 100 kB"), "{text}");
}

#[test]
fn generation_without_differences_does_not_change_the_plan() {
    let plain = plan_hash(&clos(""));
    assert_eq!(plan_hash(&clos("[generation.old]\nswitches = \"all\"\n")), plain);
    assert_ne!(plan_hash(&clos("[generation.old]\nswitches = \"s3\"\nstamp = false\n")), plain);
}

#[test]
fn generation_without_telemetry_adds_to_the_switches_that_do_not_stamp() {
    let tables = "[switch]\nstamping = [\"pod0\", \"core[0-3]\"]\n[generation.old]\nswitches = \"agg[0-1]\"\nstamp = false\n";
    let off: Vec<u32> = clos(tables)
        .plan
        .telemetry_off
        .iter()
        .inspect(|period| assert_eq!(**period, TelemetryOff::always(period.switch)))
        .map(|period| period.switch.get())
        .collect();
    assert_eq!(off, [2, 3, 4, 5, 6, 7]);
}

#[test]
fn slower_end_limits_a_link_between_generations() {
    let tables = r#"
[generation.fast]
switches = "agg[0-1]"
rate = "400 Gbps"
[generation.slow]
switches = ["agg[2-3]", "core[2-3]"]
rate = "40 Gbps"
"#;
    let resolved = clos(tables);
    let Topology::Edges(edges) = &resolved.plan.topology else { panic!("the rates need a list of links") };
    let rates = |switch| -> Vec<u64> {
        let ports = edges.ports(SwitchId::new(switch)).iter();
        ports.map(|(_, link)| link.rate.get() / 1_000_000_000).collect()
    };
    // The ports of an aggregation switch lead to two racks and two core switches.
    assert_eq!((rates(0), rates(2)), (vec![100; 4], vec![100, 100, 40, 40]));
    assert_eq!((rates(4), rates(5), rates(6)), (vec![100; 4], vec![100, 100, 40, 40], vec![40; 4]));
    let (rate, share) = rate_and_share(&resolved);
    assert!((39.5..=40.1).contains(&rate) && (share - 40.0).abs() < 1e-9, "{rate} {share}");
    assert_eq!(resolved.plan.topology.host_link(HostId::new(0)).rate, BitRate::from_gbps(100));
}

#[test]
fn equal_rates_leave_the_packets_unchanged() {
    let result = |resolved: &ResolvedRun| {
        simulator().run(&resolved.plan, &mut Reducer::new(resolved, true)).expect("the scenario was checked")
    };
    let listed = clos("[generation.same]\nswitches = \"all\"\nrate = \"100 Gbps\"\n");
    assert!(matches!(listed.plan.topology, Topology::Edges(_)));
    assert_eq!(result(&listed), result(&clos("")));
}

#[test]
fn link_changes_name_their_link_by_neighbor_or_port() {
    let resolved = clos(
        r#"
[[link-change]]
at = "0.5 ms"
switch = "core1"
to = "agg2"
event = "up"
[[link-change]]
at = "0.2 ms"
switch = "agg3"
to = "core2"
event = "down"
[[link-change]]
at = "0.2 ms"
switch = "rack0"
to = "rack0.host1"
rate = "50 Gbps"
[[link-change]]
at = "0.3 ms"
switch = "pod1.rack1"
port = 3
event = "down"
"#,
    );
    let changes: Vec<_> = resolved
        .plan
        .link_changes
        .iter()
        .map(|change| (change.time.get() / 100_000_000, change.switch.get(), change.port.get(), change.event))
        .collect();
    let slow = LinkEvent::Rate(BitRate::from_gbps(50));
    assert_eq!(
        changes,
        [(2, 7, 2, LinkEvent::Down), (2, 0, 1, slow), (3, 3, 3, LinkEvent::Down), (5, 9, 1, LinkEvent::Up)]
    );
    let text = describe_run(&resolved);
    assert!(text.contains("switch 0 port 1: 50 Gbps"), "{text}");
}

#[test]
fn impairments_apply_to_one_direction_of_a_link() {
    let resolved = clos(
        r#"
[[impairment]]
switch = "core1"
to = "agg2"
impair = { policy = "jitter", max = "3 us", keep-order = false }
[[impairment]]
switch = "rack0"
port = 1
impair = { policy = "random-loss", probability = 0.25 }
[[link-change]]
at = "0.2 ms"
switch = "agg3"
to = "core2"
delay = "7 us"
"#,
    );
    let loss: AnyImpairPolicy = RandomLoss { probability: Fraction::ratio(1, 4) }.into();
    let jitter: AnyImpairPolicy = Jitter { max: Nanos::from_micros(3), keep_order: false }.into();
    let impairments: Vec<_> = resolved
        .plan
        .link_impairments
        .iter()
        .map(|impairment| (impairment.switch.get(), impairment.port.get(), impairment.policy.clone()))
        .collect();
    assert_eq!(impairments, [(0, 1, loss), (9, 1, jitter)]);
    assert_eq!(
        resolved.plan.link_changes[0].event,
        LinkEvent::Delay(Picos::from_nanos(Nanos::from_micros(7)))
    );
    let text = describe_run(&resolved);
    assert!(text.contains("switch 0 port 1: random-loss") && text.contains("delay 7 us"), "{text}");
}

#[test]
fn slower_link_slows_the_flow_from_its_change_on() {
    let tables =
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack3\"\nto = \"rack3.host0\"\nrate = \"50 Gbps\"\n";
    let (rate, share) = rate_and_share(&clos(tables));
    // The fair share describes the network at the start of the run.
    assert!((49.5..=50.1).contains(&rate) && (share - 100.0).abs() < 1e-9, "{rate} {share}");
}

/// Four servers of four GPUs in two groups.
const RAILS: &str = r#"
[topology]
kind = "rails"
servers = 4
gpus = 4
servers-per-leaf = 2
spines = 2
local-link = { rate = "3.6 Tbps", delay = "100 ns" }
rail-link = { rate = "400 Gbps", delay = "500 ns" }

[switch]
stamping = ["leaf[0-7]", "spine[0-1]"]

[generation.nics]
switches = "server[0-3]"
buffer = { policy = "per-queue", size = "10 MB" }

[observe]
queues = { nic = "hop 1 of flow" }
buffers = { leaves = "leaf[0-7]" }
"#;

#[test]
fn rail_network_carries_a_flow_at_the_rate_of_the_nic() {
    let resolved = resolve(&format!("{}{RAILS}", flow("server0.gpu1", "server3.gpu2")));
    let plan = &resolved.plan;
    assert_eq!((plan.connections[0].from, plan.connections[0].to), (HostId::new(1), HostId::new(14)));
    // Four server switches write no telemetry, and eight leaf switches are measured.
    assert_eq!((plan.telemetry_off.len(), resolved.buffers[0].switches.len()), (4, 8));
    // The NIC of rail 2 is port 6 of the first server.
    let nic = &resolved.queues[0];
    assert_eq!((nic.port.switch, nic.port.port), (SwitchId::new(0), PortId::new(6)));
    assert_eq!(nic.rate, BitRate::from_gbps(400));
    let (rate, share) = rate_and_share(&resolved);
    assert!((398.0..=400.7).contains(&rate) && (share - 400.0).abs() < 1e-9, "{rate} {share}");
}

#[test]
fn trimming_adds_a_queue_and_replaces_acks_and_recovery() {
    let resolved =
        clos("[switch]\ntrim = {}\npriorities = 2\n[transport]\npaths = { policy = \"reps\", paths = 32 }\n");
    let plan = &resolved.plan;
    assert_eq!(plan.switch.trim, Some(Trim { size: Bytes::new(64) }));
    assert_eq!((plan.switch.priorities, plan.connections[0].priority), (3, 1));
    assert_eq!((plan.transport.ack_priority, plan.transport.recovery), (Some(0), Recovery::TrimNacks));
    assert_eq!(plan.transport.acks, Acks::CoalescedBytes { bytes: Bytes::new(16_384) });
    assert_eq!(plan.transport.load_balancing, Reps { paths: 32, ..Reps::default() }.into());
    let text = describe_run(&resolved);
    for part in ["trimming", "64 B", "reps", "NACKs of trimmed packets"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn trimmed_packets_are_counted() {
    let resolved = resolve(
        r#"
[topology]
kind = "star"
hosts = 4
link = { rate = "10 Gbps", delay = "1 us" }
[switch]
trim = { size = "100 B" }
buffer = { policy = "per-queue", size = "40 kB" }
[observe]
sample = "10 us"
[[traffic]]
name = "flow"
kind = "incast"
from = "host[0-2]"
to = "host3"
size = "400 kB"
"#,
    );
    let mut reducer = Reducer::new(&resolved, true);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("the scenario was checked");
    let values = &reducer.summary(&report).phases[0].values;
    assert!(report.trimmed > 10, "{report:?}");
    assert_eq!((values["run.trimmed"], values["run.nacks"]), (report.trimmed as f64, report.nacks as f64));
    assert_eq!(values["run.trimmed_last_hop"], report.trimmed as f64);
}

#[test]
fn slow_link_has_one_or_two_directions() {
    let slow = |keys: &str| {
        let plan = clos(&format!("[[slow-link]]\nswitch = \"core0\"\nto = \"agg0\"\n{keys}")).plan;
        plan.slow_ports
            .iter()
            .map(|slow| (slow.switch.get(), slow.port.get(), slow.divisor))
            .collect::<Vec<_>>()
    };
    assert_eq!(slow(""), [(4, 2, 4), (8, 0, 4)]);
    assert_eq!(slow("divisor = 10\none-way = true\n"), [(8, 0, 10)]);
    let plan = clos("[[slow-link]]\nswitch = \"core0\"\nall = true\none-way = true\n").plan;
    assert_eq!(plan.slow_ports.len(), 2);
    let down = "[[link-change]]\nat = \"0 us\"\nswitch = \"core1\"\nall = true\nevent = \"down\"\n";
    assert_eq!(clos(down).plan.link_changes.len(), 2);
}

#[test]
fn contradictory_paths_are_refused() {
    let refusal = |tables: &str| {
        let text = format!(
            "title = \"a test\"\nsource = \"none\"\nstop = \"1 ms\"\nlaw = \"fixed\"\n{}{CLOS}{tables}",
            flow("rack0.host0", "rack3.host0")
        );
        let study = Study::read("test.toml", &text, false).expect("the text is valid");
        study.check(&simulator()).expect_err("the scenario is refused").to_string()
    };
    let both = refusal("[transport]\nspray = true\npaths = { policy = \"reps\" }\n");
    assert!(both.contains("leave out transport.spray"), "{both}");
    let count = refusal("[transport]\npaths = { policy = \"reps\", paths = 100 }\n");
    assert!(count.contains("a power of two"), "{count}");
    let unknown = refusal("[transport]\npaths = { policy = \"repz\" }\n");
    assert!(unknown.contains("did you mean \"reps\""), "{unknown}");
}
