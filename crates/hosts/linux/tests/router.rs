//! Tests a real router with a 100 Mbit/s port between two hosts: stamps follow the queue, every checksum is correct,
//! and marks on ACKs keep the queue short.

mod rig;

use core::time::Duration;
use poseidon_linux::port::PortError;
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{Options, Switch};
use poseidon_types::{BitRate, Nanos};
use rig::{Arrival, build, counter, is_installed, pins, run_inside, set_offload, sh, start, wait};

/// Not a test: the hosts in the other tests run this function.
#[test]
#[ignore = "not a test: the tests of this file start it"]
fn host() {
    rig::play_role();
}

/// Needs root, so `cargo test` ignores this test; `.ci/linux` runs it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn stamps_follow_the_queue() {
    if !run_inside("stamps_follow_the_queue") {
        return;
    }
    build("1000000");
    if !is_installed("ethtool") {
        println!("not run: ethtool is missing, so offload cannot be turned off");
        return;
    }
    let port = Switch::attach("rb", Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut expected = 0;
    for (sender, router) in [(true, true), (true, false), (false, true), (false, false)] {
        set_offload(sender, router);
        for address in ["10.9.2.2", "fd09:2::2"] {
            // Each burst is 48 kB. TBF passes 10 kB at once, so the last datagram waits 3 ms.
            let arrivals = probe(address, 20, 40, 20);
            expected += arrivals.len() as u64;
            assert!(arrivals.len() > 700, "{} of 800 arrived", arrivals.len());
            assert!(arrivals.iter().all(|arrival| arrival.hops == 1), "{arrivals:?}");
            // Use p90 instead of the maximum, because two bursts may meet in the queue on a busy machine.
            let mut delays: Vec<_> = arrivals.iter().map(|arrival| arrival.delay).collect();
            delays.sort_unstable();
            let p90 = delays[delays.len() * 9 / 10];
            // The stamp must not exceed the latency, except by the time to send the packet at the head of the queue,
            // for which TBF has already taken tokens. At least half of the datagrams have little other delay.
            let mut unstamped: Vec<_> = arrivals.iter().map(|arrival| arrival.unstamped_us()).collect();
            unstamped.sort_unstable();
            let (least, median) = (unstamped[unstamped.len() / 100], unstamped[unstamped.len() / 2]);
            println!(
                "checksums by the sender {}, by the port {}, {address}: {} datagrams, p90 of the stamps {} us, median of the rest {median} us",
                !sender,
                !router,
                arrivals.len(),
                p90 / 1_000
            );
            assert!((1_500_000..3_300_000).contains(&p90), "{p90} ns");
            assert!(least > -200 && median < 1_000, "{least} us, {median} us");
        }
    }
    assert_eq!(counter("right", "Udp:", "InCsumErrors"), 0);
    assert_eq!(counter("right", "Udp:", "Udp6InCsumErrors"), 0);
    let status = port.status().unwrap_or_else(|error| panic!("{error}"));
    // A late receiver may lose some datagrams after they were stamped.
    assert!((expected..=6_400).contains(&status.counts.udp_stamped), "{expected} of {:?}", status.counts);
    assert_eq!((status.rate, status.queue_rate), (BitRate::from_mbps(100), Some(BitRate::from_mbps(100))));

    port.set_stamps(false).unwrap_or_else(|error| panic!("{error}"));
    let arrivals = probe("10.9.2.2", 2, 40, 20);
    assert!(arrivals.iter().all(|arrival| (arrival.hops, arrival.delay) == (0, 0)), "{arrivals:?}");
    port.set_stamps(true).unwrap_or_else(|error| panic!("{error}"));
    assert!(probe("10.9.2.2", 2, 40, 20).iter().all(|arrival| arrival.hops == 1));
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn attached_port_outlives_its_process_and_detaches_cleanly() {
    if !run_inside("attached_port_outlives_its_process_and_detaches_cleanly") {
        return;
    }
    build("1000000");
    let refusal = |result: Result<Switch, PortError>| result.expect_err("the port is refused").to_string();
    let no_rate = refusal(Switch::attach("ra", Options::default()));
    assert!(no_rate.starts_with("queue \"noqueue\" of ra does not report its rate"), "{no_rate}");
    assert_eq!(refusal(Switch::open("rb")), "switch is not attached to rb; attach it first");
    let before = sh("tc qdisc show dev rb; tc filter show dev rb egress");

    // Drop the handle, as if the process had ended.
    drop(Switch::attach("rb", Options::default()).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(
        refusal(Switch::attach("rb", Options::default())),
        "switch is already attached to rb; detach it first"
    );
    drop(Rpm::attach("rb", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(pins().len(), 2);
    let arrivals = probe("10.9.2.2", 1, 5, 0);
    assert_eq!(arrivals.iter().map(|arrival| arrival.hops).collect::<Vec<_>>(), [1; 5]);
    let port = Switch::open("rb").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(port.status().unwrap_or_else(|error| panic!("{error}")).counts.udp_stamped, 5);

    port.detach().unwrap_or_else(|error| panic!("{error}"));
    let marks = Rpm::open("rb").unwrap_or_else(|error| panic!("{error}"));
    assert!(marks.status().unwrap_or_else(|error| panic!("{error}")).counts.not_ecn_capable >= 5);
    marks.detach().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sh("tc qdisc show dev rb; tc filter show dev rb egress"), before);
    assert_eq!(pins(), Vec::<String>::new());

    // A foreign clsact stays, whatever the order of attaching and detaching, because deleting it would empty the queue.
    sh("tc qdisc add dev rb clsact");
    let before = sh("tc qdisc show dev rb; tc filter show dev rb egress");
    let attach = || {
        drop(Rpm::attach("rb", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}")));
        drop(Switch::attach("rb", Options::default()).unwrap_or_else(|error| panic!("{error}")));
    };
    let detach_rpm = || Rpm::open("rb").and_then(Rpm::detach).unwrap_or_else(|error| panic!("{error}"));
    let detach_switch =
        || Switch::open("rb").and_then(Switch::detach).unwrap_or_else(|error| panic!("{error}"));
    for order in [[&detach_rpm as &dyn Fn(), &detach_switch], [&detach_switch, &detach_rpm]] {
        attach();
        order.iter().for_each(|detach| detach());
        assert_eq!(sh("tc qdisc show dev rb; tc filter show dev rb egress"), before);
        assert_eq!(pins(), Vec::<String>::new());
    }
}

/// A flow fills the queue: without marks, with marks on its ACKs, and with marks on its packets.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn marks_on_acks_keep_the_queue_short() {
    if !run_inside("marks_on_acks_keep_the_queue_short") {
        return;
    }
    build("300000");
    if is_installed("ethtool") {
        set_offload(true, true);
    }
    let (full, _) = fill_queue();
    println!("no marks: {full} us");
    let mut ce = counter("right", "IpExt:", "InCEPkts");
    for direction in [rpm::Direction::ReversePerFlow, rpm::Direction::ReversePerPort, rpm::Direction::Forward]
    {
        let options = rpm::Options { direction, ..rpm::Options::default() };
        let marks = Rpm::attach("rb", options).unwrap_or_else(|error| panic!("{error}"));
        let delivered = counter("left", "TcpExt:", "TCPDeliveredCE");
        let (short, megabits) = fill_queue();
        let delivered = counter("left", "TcpExt:", "TCPDeliveredCE") - delivered;
        let counts = marks.status().unwrap_or_else(|error| panic!("{error}")).counts;
        let new_ce = counter("right", "IpExt:", "InCEPkts") - ce;
        ce += new_ce;
        println!(
            "{direction}: {short} us, {megabits} Mbit/s, {} decisions, {} marks on ACKs, {new_ce} packets with CE, {delivered} marks at the sender",
            counts.decisions(),
            counts.ack_marked
        );
        let is_forward = direction == rpm::Direction::Forward;
        assert!(counts.decisions() > 5, "{counts:?}");
        assert!(short * 2 < full, "{short} us against {full} us");
        assert_eq!(new_ce, if is_forward { counts.marked_forward } else { 0 });
        // The last decisions may come after the last ACK.
        let undelivered = counts.stored - counts.ack_marked;
        assert!(is_forward || (undelivered <= 2 && delivered > 0), "{counts:?}");
        assert_eq!(counter("left", "Tcp:", "InCsumErrors"), 0);
        marks.detach().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Fills the queue with one flow. Returns the mean delay in us and the rate in Mbit/s. The port only measures delays.
fn fill_queue() -> (u64, u64) {
    let options = Options { stamps: false, ..Options::default() };
    let port = Switch::attach("rb", options).unwrap_or_else(|error| panic!("{error}"));
    let sink = start("right", "sink 10.9.2.2");
    drop(start("left", "fill 10.9.2.2 3000").remaining_messages());
    let bytes: u64 = sink
        .remaining_messages()
        .last()
        .and_then(|bytes| bytes.parse().ok())
        .expect("the sink reports its bytes");
    let status = port.status().unwrap_or_else(|error| panic!("{error}"));
    port.detach().unwrap_or_else(|error| panic!("{error}"));
    (status.delays.mean().unwrap_or(Nanos::ZERO).get() / 1_000, bytes * 8 / 3_000_000)
}

/// Sends datagrams with a shim from the left host to the right host.
fn probe(to: &str, bursts: u64, burst: u64, pause_ms: u64) -> Vec<Arrival> {
    let receiver = start("right", &format!("receive {to}"));
    drop(start("left", &format!("send {to} {bursts} {burst} {pause_ms}")).remaining_messages());
    wait(Duration::from_millis(20));
    receiver.remaining_messages().iter().map(|line| Arrival::parse(line)).collect()
}
