//! Poseidon in this machine's TCP, with real packets. Needs root; `.ci/linux` runs it, or says why it does not.

mod room;

use core::net::SocketAddr;
use core::time::Duration;
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use poseidon_linux::tcp::{self, Mode, Settings, TcpFlow};
use poseidon_types::{BitRate, Nanos};
use room::{Place, RECEIVER, Room};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

const RATE_MBPS: u32 = 100;

/// One test, because there is one kernel: what is on is on for all.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn poseidon_runs_in_tcp_and_leaves_nothing_behind() {
    let before = loaded();
    let room = Room::new(RATE_MBPS, 300_000);
    let settings = Settings::for_rate(BitRate::from_mbps(u64::from(RATE_MBPS)));
    let cgroup = tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    let on = On;
    assert!(matches!(tcp::enable(&settings), Err(tcp::TcpError::AlreadyOn)));

    both_ends_speak(&room, &cgroup);
    one_end_speaks(&room, &cgroup);
    many_flows_share(&room, &cgroup);

    let status = tcp::status().expect("it can be asked").expect("it is on");
    println!("{status}");
    assert!(status.agreed >= 2 && status.refused >= 2 && status.unchosen == 0, "{status}");
    drop(on);
    assert_eq!(tcp::status().expect("it can be asked"), None);
    assert!(matches!(tcp::flows(), Err(tcp::TcpError::Off)));
    assert!(!cgroup.exists() && !Path::new("/sys/fs/bpf/poseidon/tcp").exists());
    drop(room);
    assert_gone(&before);
}

/// The option is negotiated, the flow fills the link, and the queue stays where the law wants it. No hop measures here, so the
/// law goes by the round trip.
fn both_ends_speak(room: &Room, cgroup: &Path) {
    let (sent, flows) = transfer(room, Some(cgroup), Some(cgroup), 1, Duration::from_secs(2));
    let flow = sending(&flows)[0];
    println!("{}\n{flow}\n{} Mbit/s", TcpFlow::HEAD, mbps(&sent));
    assert!(flow.speaks_option && flow.mode == Mode::Delay, "{flow:?}");
    assert!(flow.counters.acks_with_echo > 1_000 && flow.counters.acks_without_echo < 10, "{flow:?}");
    // TCP's 1448 bytes less the option.
    assert_eq!(flow.mss.get(), 1_440);
    assert!(mbps(&sent) > 80, "{} Mbit/s", mbps(&sent));
    // Cubic would fill the queue: 24 ms. T at the full rate is 0.3 ms, T at a tenth of it 1.6 ms.
    assert!(flow.delay < Nanos::from_millis(2) && flow.target < Nanos::from_millis(2), "{flow:?}");
    assert!(flow.counters.guarded == 0, "{flow:?}");
}

/// Plain TCP on the wire, and the law by the round trip where it runs.
fn one_end_speaks(room: &Room, cgroup: &Path) {
    let (sent, flows) = transfer(room, Some(cgroup), None, 1, Duration::from_secs(1));
    let flow = sending(&flows)[0];
    println!("{flow}\n{} Mbit/s", mbps(&sent));
    assert!(!flow.speaks_option && flow.mode == Mode::Delay, "{flow:?}");
    assert_eq!((flow.counters.acks_with_echo, flow.mss.get()), (0, 1_448), "{flow:?}");
    assert!(mbps(&sent) > 50, "{} Mbit/s", mbps(&sent));

    // Nor does the listener's end say a word after the handshake.
    let (sent, flows) = transfer(room, None, Some(cgroup), 1, Duration::from_secs(1));
    assert!(sending(&flows).is_empty(), "{flows:?}");
    assert!(flows.iter().all(|flow| !flow.speaks_option), "{flows:?}");
    assert!(mbps(&sent) > 50, "{} Mbit/s", mbps(&sent));
}

fn many_flows_share(room: &Room, cgroup: &Path) {
    let (sent, flows) = transfer(room, Some(cgroup), Some(cgroup), 8, Duration::from_secs(3));
    println!("{}", TcpFlow::HEAD);
    sending(&flows).iter().for_each(|flow| println!("{flow}"));
    println!("{} Mbit/s, {:?}", mbps(&sent), sent);
    assert_eq!(sending(&flows).len(), 8);
    assert!(mbps(&sent) > 70, "{} Mbit/s", mbps(&sent));
    assert!(sending(&flows).iter().all(|flow| flow.delay < Nanos::from_millis(6)), "{flows:?}");
}

/// Sends through `flows` connections, each end in its cgroup or in none. Gives what arrived in each, bytes per second, and the table
/// of flows in the middle of it.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn transfer(
    room: &Room,
    sender: Option<&Path>,
    receiver: Option<&Path>,
    flows: usize,
    time: Duration,
) -> (Vec<u64>, Vec<TcpFlow>) {
    let listen = || TcpListener::bind((RECEIVER, 0)).expect("the room is there");
    let listener = in_cgroup(receiver, || room.enter(Place::Receiver, listen));
    let address = listener.local_addr().expect("it listens");
    let connect = || (0..flows).map(|_| TcpStream::connect(address).expect("it listens")).collect::<Vec<_>>();
    thread::scope(|scope| {
        let receivers: Vec<_> = (0..flows)
            .map(|_| {
                let listener = &listener;
                scope.spawn(move || receive(listener.accept().expect("it listens").0))
            })
            .collect();
        for stream in in_cgroup(sender, || room.enter(Place::Sender, connect)) {
            scope.spawn(move || send(stream, time));
        }
        thread::sleep(time * 3 / 4);
        let table = tcp::flows().expect("it is on");
        (receivers.into_iter().map(|receiver| receiver.join().expect("it receives")).collect(), table)
    })
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send(mut stream: TcpStream, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        stream.write_all(&[7; 16 << 10]).expect("it is read");
    }
}

/// Bytes per second.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn receive(mut stream: TcpStream) -> u64 {
    let (began, mut bytes) = (Instant::now(), 0);
    let mut buffer = vec![0; 64 << 10];
    while let count @ 1.. = stream.read(&mut buffer).expect("it is sent") {
        bytes += count as u64;
    }
    bytes * 1_000_000 / u64::try_from(began.elapsed().as_micros()).expect("a short time").max(1)
}

fn mbps(sent: &[u64]) -> u64 {
    sent.iter().sum::<u64>() * 8 / 1_000_000
}

/// Those that go to the receiver.
fn sending(flows: &[TcpFlow]) -> Vec<&TcpFlow> {
    let to_receiver = |address: &SocketAddr| address.ip().to_string() == RECEIVER;
    flows.iter().filter(|flow| to_receiver(&flow.remote)).collect()
}

/// A socket belongs to the cgroup that its process is in when it makes it.
fn in_cgroup<T>(cgroup: Option<&Path>, make: impl FnOnce() -> T) -> T {
    let Some(cgroup) = cgroup else { return make() };
    let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").expect("root may");
    join(cgroup);
    let made = make();
    join(cgroup.parent().expect("it has one"));
    made
}

/// Off, even when a test fails.
struct On;

impl Drop for On {
    fn drop(&mut self) {
        tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What the kernel holds of BPF: programs, maps, links.
fn loaded() -> [Vec<u32>; 3] {
    [
        ProgInfoIter::default().map(|program| program.id).collect(),
        MapInfoIter::default().map(|map| map.id).collect(),
        LinkInfoIter::default().map(|link| link.id).collect(),
    ]
}

/// The kernel frees some of it a moment later, after the last connection.
#[expect(clippy::disallowed_methods, reason = "the kernel frees when it frees")]
fn assert_gone(before: &[Vec<u32>; 3]) {
    let more = || {
        let now = loaded();
        now.into_iter()
            .zip(before)
            .map(|(now, before)| now.iter().filter(|id| !before.contains(id)).count())
            .collect::<Vec<_>>()
    };
    for _ in 0..50 {
        if more() == [0, 0, 0] {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("programs, maps and links that stayed: {:?}", more());
}
