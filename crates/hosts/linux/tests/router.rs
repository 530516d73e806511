//! A real router: two hosts and 100 Mbit/s between them, in namespaces of their own. What is stamped follows the queue, every
//! checksum is right, and marks on ACKs keep a queue short.

mod rig;

use core::time::Duration;
use poseidon_linux::port::PortError;
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{Options, Switch};
use poseidon_types::{BitRate, Nanos};
use rig::{Arrival, Host, build, counter, enter, has, offload, pinned, sh, wait};

/// Not a test: what the hosts of the others run.
#[test]
#[ignore = "not a test: the tests of this file start it"]
fn host() {
    rig::play();
}

/// Not among what `cargo test` runs, because it needs root; `.ci/linux` runs it, or says why it does not.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn what_is_stamped_follows_the_queue() {
    if !enter("what_is_stamped_follows_the_queue") {
        return;
    }
    build("1000000");
    if !has("ethtool") {
        println!("not run: ethtool is missing, so segments stay merged and checksums are finished by nobody");
        return;
    }
    let port = Switch::attach("rb", Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut expected = 0;
    for (sender, router) in [(true, true), (true, false), (false, true), (false, false)] {
        offload(sender, router);
        for address in ["10.9.2.2", "fd09:2::2"] {
            // 48 kB at once, of which TBF lets 10 kB through: the last waits 3 ms.
            let arrivals = probe(address, 20, 40, 20);
            expected += arrivals.len() as u64;
            assert!(arrivals.len() > 700, "{} of 800 arrived", arrivals.len());
            assert!(arrivals.iter().all(|arrival| arrival.hops == 1), "{arrivals:?}");
            // Not the longest: where the machine is late, two bursts meet in the queue, and that is stamped too.
            let mut delays: Vec<_> = arrivals.iter().map(|arrival| arrival.delay).collect();
            delays.sort_unstable();
            let long = delays[delays.len() * 9 / 10];
            // What it took beyond what is stamped. Half of them wait for nothing else that is worth naming; and none comes before
            // it has waited, but for the head of the queue, which is paid for and not counted.
            let mut beyond: Vec<_> = arrivals.iter().map(|arrival| arrival.beyond_us()).collect();
            beyond.sort_unstable();
            let (least, median) = (beyond[beyond.len() / 100], beyond[beyond.len() / 2]);
            println!(
                "checksums by sender {}, by the port {}, {address}: {} datagrams, a tenth waited {} us and more; they took {median} us more",
                !sender,
                !router,
                arrivals.len(),
                long / 1_000
            );
            assert!((1_500_000..3_300_000).contains(&long), "{long} ns");
            assert!(least > -200 && median < 1_000, "{least} us, {median} us");
        }
    }
    assert_eq!(counter("right", "Udp:", "InCsumErrors"), 0);
    assert_eq!(counter("right", "Udp:", "Udp6InCsumErrors"), 0);
    let status = port.status().unwrap_or_else(|error| panic!("{error}"));
    // A receiver that comes late to its socket loses some, after they were stamped.
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
fn a_port_outlives_who_attached_it_and_leaves_nothing() {
    if !enter("a_port_outlives_who_attached_it_and_leaves_nothing") {
        return;
    }
    build("1000000");
    let refusal = |result: Result<Switch, PortError>| result.expect_err("refused").to_string();
    let no_rate = refusal(Switch::attach("ra", Options::default()));
    assert!(no_rate.starts_with("queue \"noqueue\" of ra does not say its rate"), "{no_rate}");
    assert_eq!(refusal(Switch::open("rb")), "switch is not attached to rb; attach it first");
    let before = sh("tc qdisc show dev rb; tc filter show dev rb egress");

    // As if the process had ended.
    drop(Switch::attach("rb", Options::default()).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(
        refusal(Switch::attach("rb", Options::default())),
        "switch is attached to rb; detach it first"
    );
    drop(Rpm::attach("rb", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(pinned().len(), 2);
    let arrivals = probe("10.9.2.2", 1, 5, 0);
    assert_eq!(arrivals.iter().map(|arrival| arrival.hops).collect::<Vec<_>>(), [1; 5]);
    let port = Switch::open("rb").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(port.status().unwrap_or_else(|error| panic!("{error}")).counts.udp_stamped, 5);

    port.detach().unwrap_or_else(|error| panic!("{error}"));
    let marks = Rpm::open("rb").unwrap_or_else(|error| panic!("{error}"));
    assert!(marks.status().unwrap_or_else(|error| panic!("{error}")).counts.not_ecn_capable >= 5);
    marks.detach().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sh("tc qdisc show dev rb; tc filter show dev rb egress"), before);
    assert_eq!(pinned(), Vec::<String>::new());

    // What somebody else brought stays, whoever of us comes or goes first: taking it away would empty the queue.
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
        assert_eq!(pinned(), Vec::<String>::new());
    }
}

/// A flow fills the queue; then the same with marks on its ACKs, and with marks on its packets.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn marks_on_acks_keep_the_queue_short() {
    if !enter("marks_on_acks_keep_the_queue_short") {
        return;
    }
    build("300000");
    if has("ethtool") {
        offload(true, true);
    }
    let (full, _) = fill();
    println!("no marks: {full} us");
    let mut ce = counter("right", "IpExt:", "InCEPkts");
    for direction in [rpm::Direction::ReversePerFlow, rpm::Direction::ReversePerPort, rpm::Direction::Forward]
    {
        let options = rpm::Options { direction, ..rpm::Options::default() };
        let marks = Rpm::attach("rb", options).unwrap_or_else(|error| panic!("{error}"));
        let delivered = counter("left", "TcpExt:", "TCPDeliveredCE");
        let (short, megabits) = fill();
        let delivered = counter("left", "TcpExt:", "TCPDeliveredCE") - delivered;
        let counts = marks.status().unwrap_or_else(|error| panic!("{error}")).counts;
        let new_ce = counter("right", "IpExt:", "InCEPkts") - ce;
        ce += new_ce;
        println!(
            "{direction}: {short} us, {megabits} Mbit/s, {} hits, {} marks on ACKs, {new_ce} packets with CE, sender saw {delivered}",
            counts.decisions(),
            counts.ack_marked
        );
        let is_forward = direction == rpm::Direction::Forward;
        assert!(counts.decisions() > 5, "{counts:?}");
        assert!(short * 2 < full, "{short} us against {full} us");
        assert_eq!(new_ce, if is_forward { counts.marked_forward } else { 0 });
        // The last hits may have found no ACK any more.
        let fetched = counts.mark_waits - counts.ack_marked;
        assert!(is_forward || (fetched <= 2 && delivered > 0), "{counts:?}");
        assert_eq!(counter("left", "Tcp:", "InCsumErrors"), 0);
        marks.detach().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The mean delay of packets of a flow that takes what it gets, us, and its Mbit/s. The port measures and writes nothing.
fn fill() -> (u64, u64) {
    let options = Options { stamps: false, ..Options::default() };
    let port = Switch::attach("rb", options).unwrap_or_else(|error| panic!("{error}"));
    let sink = Host::start("right", "sink 10.9.2.2");
    drop(Host::start("left", "fill 10.9.2.2 3000").rest());
    let bytes: u64 = sink.rest().last().and_then(|bytes| bytes.parse().ok()).expect("the sink tells");
    let status = port.status().unwrap_or_else(|error| panic!("{error}"));
    port.detach().unwrap_or_else(|error| panic!("{error}"));
    (status.delays.mean().unwrap_or(Nanos::ZERO).get() / 1_000, bytes * 8 / 3_000_000)
}

/// Datagrams with a shim from the left to the right.
fn probe(to: &str, bursts: u64, burst: u64, pause_ms: u64) -> Vec<Arrival> {
    let receiver = Host::start("right", &format!("receive {to}"));
    drop(Host::start("left", &format!("send {to} {bursts} {burst} {pause_ms}")).rest());
    wait(Duration::from_millis(20));
    receiver.rest().iter().map(|line| Arrival::parse(line)).collect()
}
