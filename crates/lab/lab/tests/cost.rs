//! Compares the estimated cost of runs with closed forms and with the simulator.

use core::num::NonZeroU32;
use poseidon_lab::cost::{Cost, estimate_cost};
use poseidon_lab::study::Study;
use poseidon_plan::Backend;
use poseidon_plan::records::MemorySink;
use poseidon_sim::Simulator;

/// A scenario on a star of ten hosts at 100 Gbps, with packets of 4 kB.
fn scenario(traffic: &str) -> Study {
    let text = format!(
        "title = \"t\"\nsource = \"none\"\nstop = \"1 ms\"\n[topology]\nkind = \"star\"\nhosts = 10\n\
         link = {{ rate = \"100 Gbps\", delay = \"1 us\" }}\n{traffic}"
    );
    Study::read("cost.toml", &text, false).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the estimated cost, and the packets and packet-hops of a simulation.
fn estimate_and_run(study: &Study) -> (Cost, u64, u64) {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let resolved = study.resolve(&study.cells[0], 1, &simulator).unwrap_or_else(|error| panic!("{error}"));
    let report = simulator.run(&resolved.plan, &mut MemorySink::default()).expect("the plan is valid");
    (estimate_cost(&resolved, &simulator), report.sent, report.packet_hops)
}

#[track_caller]
fn assert_near(estimate: u64, actual: u64, tolerance: f64) {
    let ratio = estimate as f64 / actual as f64;
    assert!((1.0 / tolerance..=tolerance).contains(&ratio), "estimated {estimate}, actual {actual}");
}

#[test]
fn messages_of_a_fixed_size_have_an_exact_cost() {
    // 3 messages of 25 packets cross 2 links, and so do their ACKs.
    let study = scenario(
        "[[traffic]]\nname = \"m\"\nkind = \"incast\"\nfrom = \"host[0-2]\"\nto = \"host9\"\nsize = \"100 kB\"\n",
    );
    let (cost, packets, packet_hops) = estimate_and_run(&study);
    let per_message = 100_000_u64.div_ceil(study_mtu(&study));
    assert_eq!((cost.messages, cost.packets), (3, 3 * per_message));
    assert_eq!(cost.packet_hops, 3 * per_message * 2 * 2);
    assert_eq!((cost.packets, cost.packet_hops), (packets, packet_hops));
}

fn study_mtu(study: &Study) -> u64 {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    study.resolve(&study.cells[0], 1, &simulator).expect("the scenario is valid").plan.transport.mtu.get()
}

#[test]
fn a_longer_path_costs_more_hops() {
    let text = "title = \"t\"\nsource = \"none\"\nstop = \"1 ms\"\n[topology]\nkind = \"chain\"\nswitches = 4\nhosts = 1\n\
                host-link = { rate = \"100 Gbps\", delay = \"1 us\" }\nmiddle-link = { rate = \"100 Gbps\", delay = \"1 us\" }\n\
                [[traffic]]\nname = \"m\"\nkind = \"incast\"\nfrom = \"host0\"\nto = \"host3\"\nsize = \"1 kB\"\n";
    let study = Study::read("cost.toml", text, false).unwrap_or_else(|error| panic!("{error}"));
    let (cost, packets, packet_hops) = estimate_and_run(&study);
    // One packet and its ACK cross five links.
    assert_eq!((cost.packets, cost.packet_hops), (1, 10));
    assert_eq!((packets, packet_hops), (1, 10));
}

#[test]
fn long_flows_send_at_their_fair_share() {
    // Three flows share one link, whatever their number.
    for count in 1..=3 {
        let study = scenario(&format!(
            "[[traffic]]\nname = \"f\"\nkind = \"long-flows\"\nfrom = \"host[0-{}]\"\nto = \"host9\"\n",
            count - 1
        ));
        let (cost, packets, packet_hops) = estimate_and_run(&study);
        assert_eq!(cost.messages, count);
        assert_near(cost.packets, packets, 1.1);
        assert_near(cost.packet_hops, packet_hops, 1.1);
    }
}

#[test]
fn the_links_limit_what_messages_cost() {
    // The messages would need 80 ms, but the run ends after 1 ms.
    let study = scenario(
        "[[traffic]]\nname = \"m\"\nkind = \"incast\"\nfrom = \"host[0-7]\"\nto = \"host9\"\nsize = \"125 MB\"\n",
    );
    let (cost, packets, packet_hops) = estimate_and_run(&study);
    assert_near(cost.packets, packets, 1.2);
    assert_near(cost.packet_hops, packet_hops, 1.2);
}

#[test]
fn a_closed_loop_sends_one_message_per_round_trip() {
    let study = scenario(
        "[[traffic]]\nname = \"m\"\nkind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host9\"\nsize = \"1 kB\"\n\
         messages = 100000\nfresh = false\n",
    );
    let (cost, packets, packet_hops) = estimate_and_run(&study);
    assert!(cost.messages < 1_000, "the others cannot start within 1 ms: {cost:?}");
    assert_near(cost.packets, packets, 1.1);
    assert_near(cost.packet_hops, packet_hops, 1.1);
}

#[test]
fn long_flows_leave_room_for_messages() {
    let study = scenario(
        "[[traffic]]\nname = \"f\"\nkind = \"long-flows\"\nfrom = \"host[0-1]\"\nto = \"host9\"\n\
         [[traffic]]\nname = \"m\"\nkind = \"uniform-random\"\nfrom = \"host[2-5]\"\nto = \"host9\"\nsize = \"10 kB\"\n\
         rate = \"10 Gbps\"\n",
    );
    let (cost, packets, packet_hops) = estimate_and_run(&study);
    assert_near(cost.packets, packets, 1.2);
    assert_near(cost.packet_hops, packet_hops, 1.2);
}

#[test]
fn more_messages_need_more_memory() {
    let memory = |count: u32| {
        let study = scenario(&format!(
            "[[traffic]]\nname = \"m\"\nkind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host9\"\nsize = \"1 kB\"\n\
             messages = {count}\nfresh = false\n"
        ));
        estimate_and_run(&study).0.memory.get()
    };
    let (few, many) = (memory(1_000), memory(101_000));
    assert!((100 * 100_000..1_000 * 100_000).contains(&(many - few)), "{few} {many}");
}

#[test]
fn messages_of_a_large_ring_have_a_cost_without_a_list() {
    let ring = |stop: &str| {
        let text = format!(
            "title = \"t\"\nsource = \"none\"\nstop = \"{stop}\"\n[topology]\nkind = \"star\"\nhosts = 230\n\
             link = {{ rate = \"100 Gbps\", delay = \"1 us\" }}\n[[traffic]]\nname = \"r\"\nkind = \"collective\"\n\
             algorithm = \"ring-all-reduce\"\nsize = \"230 kB\"\n"
        );
        Study::read("cost.toml", &text, false).unwrap_or_else(|error| panic!("{error}"))
    };
    // Each of 2 * 229 * 230 messages is one packet.
    let (cost, packets, packet_hops) = estimate_and_run(&ring("10 ms"));
    assert_eq!((cost.messages, cost.packets, packets), (105_340, 105_340, 105_340));
    assert_eq!((cost.packet_hops, packet_hops), (4 * 105_340, 4 * 105_340));
    // The run ends after about a third of the ring.
    let (cost, packets, packet_hops) = estimate_and_run(&ring("450 us"));
    assert!(packets < 60_000, "{packets}");
    assert_near(cost.packets, packets, 1.1);
    assert_near(cost.packet_hops, packet_hops, 1.1);
}
