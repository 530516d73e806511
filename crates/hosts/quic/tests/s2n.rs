//! The laws and the shim in s2n-quic: the same laws, the same stamps, the same bytes as in quinn.

mod common;

use common::attack::{FORGED, LONG, Size, forge_as_peer};
use common::relay::{Does, Link, Relay, stamp_of};
use common::{Log, bind, certificate, logged, poseidon, until};
use core::net::SocketAddr;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use poseidon_laws::{AnyParams, BuildError, LAWS};
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag};
use poseidon_quic::s2n::{Controllers, Mtu, Shim};
use poseidon_quic::{Config, ConfigError, Metrics, Mode, PlainPeers, Poseidon, SUPPLIED};
use poseidon_types::{BitRate, chance::mix};
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use s2n_quic::provider::io::tokio as io;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::{Client, Connection, Server};
use std::collections::BTreeSet;

/// Added by the relay to the stamp of each tag.
const STAMP: u16 = 500;
const ALPN: &[u8] = b"echo";
const BYTES: usize = 300_000;

fn socket() -> io::Provider {
    socket_of(1_500)
}

/// For IP packets of this size.
fn socket_of(mtu: u16) -> io::Provider {
    let builder = io::Builder::default().with_rx_socket(bind()).expect("one socket");
    builder.with_max_mtu(mtu).expect("a size").build().expect("it serves both ways")
}

fn client_tls() -> tls::Client {
    tls::Client::builder()
        .with_certificate(certificate().0.to_vec())
        .expect("a certificate")
        .with_application_protocols([ALPN].iter())
        .expect("a name")
        .build()
        .expect("TLS")
}

fn server_tls() -> tls::Server {
    let (certificate, key) = certificate();
    tls::Server::builder()
        .with_certificate(vec![certificate.to_vec()], key.clone())
        .expect("they fit")
        .with_application_protocols([ALPN].iter())
        .expect("a name")
        .build()
        .expect("TLS")
}

/// The three lines of a program; the rest is s2n-quic as it is.
macro_rules! with_poseidon {
    ($builder:expr, $poseidon:expr) => {
        $builder
            .with_congestion_controller(Controllers::new($poseidon))
            .expect("a congestion control")
            .with_packet_interceptor(Shim::new($poseidon))
            .expect("an interceptor")
            .with_mtu(Mtu::new($poseidon))
            .expect("an MTU")
            .start()
            .expect("an endpoint")
    };
}

fn client(poseidon: &Poseidon) -> Client {
    client_of(poseidon, socket())
}

fn client_of(poseidon: &Poseidon, io: io::Provider) -> Client {
    let builder = Client::builder().with_tls(client_tls()).expect("TLS").with_io(io).expect("a socket");
    with_poseidon!(builder, poseidon)
}

/// Where it echoes.
fn server(poseidon: &Poseidon) -> SocketAddr {
    server_of(poseidon, socket())
}

fn server_of(poseidon: &Poseidon, io: io::Provider) -> SocketAddr {
    let builder = Server::builder().with_tls(server_tls()).expect("TLS").with_io(io).expect("a socket");
    serve(with_poseidon!(builder, poseidon))
}

fn plain_client() -> Client {
    let builder = Client::builder().with_tls(client_tls()).expect("TLS").with_io(socket()).expect("a socket");
    builder.start().expect("an endpoint")
}

fn plain_server() -> SocketAddr {
    let builder = Server::builder().with_tls(server_tls()).expect("TLS").with_io(socket()).expect("a socket");
    serve(builder.start().expect("an endpoint"))
}

fn serve(mut server: Server) -> SocketAddr {
    let address = server.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Some(mut connection) = server.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                    tokio::spawn(async move {
                        let (mut receive, mut send) = stream.split();
                        while let Ok(Some(chunk)) = receive.receive().await {
                            if send.send(chunk).await.is_err() {
                                return;
                            }
                        }
                        // Who has gone needs no end.
                        let _ = send.finish();
                    });
                }
            });
        }
    });
    address
}

async fn connect(client: &Client, to: SocketAddr) -> Connection {
    client.connect(Connect::new(to).with_server_name(common::NAME)).await.expect("a peer")
}

/// Sends so much and waits until all of it has come back.
async fn echo(mut connection: Handle, bytes: usize) {
    let (mut receive, mut send) = connection.open_bidirectional_stream().await.expect("it is up").split();
    let out = async {
        let mut left = bytes;
        while left > 0 {
            let now = left.min(1 << 14);
            send.send(vec![0x5a; now].into()).await.expect("the peer reads");
            left -= now;
        }
        send.finish().expect("not finished before");
    };
    let back = async {
        let mut all = 0;
        while let Some(chunk) = receive.receive().await.expect("the peer sends") {
            all += chunk.len();
        }
        all
    };
    let ((), all) = tokio::join!(out, back);
    assert_eq!(all, bytes);
}

/// Every stamp that a law was told of was made under its own tag; how many, and under how many tags.
fn own_stamps(log: &Log) -> (usize, usize) {
    let log = log.lock().expect("nobody panics");
    let told: Vec<_> = log.iter().filter_map(|decided| Some((decided.told?, decided))).collect();
    for (delay, decided) in &told {
        assert_eq!(*delay, stamp_of(STAMP, decided.tag), "{decided:?}");
        assert_eq!(decided.mode, Mode::Telemetry);
    }
    (told.len(), told.iter().map(|(_, decided)| decided.tag).collect::<BTreeSet<_>>().len())
}

fn modes(log: &Log) -> Vec<Mode> {
    let mut modes: Vec<Mode> =
        log.lock().expect("nobody panics").iter().map(|decided| decided.mode).collect();
    modes.dedup();
    modes
}

fn only_flow(metrics: &Metrics) -> &poseidon_quic::FlowMetrics {
    assert_eq!(metrics.flows.len(), 1, "{metrics:?}");
    &metrics.flows[0]
}

/// Four connections between two addresses, in two rounds. Both ends are told what their own packets met, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_law_hears_its_own_connection_and_nothing_is_left() {
    let ((near, near_log), (far, far_log)) = (logged(|_| ()), logged(|_| ()));
    let client = client(&near);
    let relay = Relay::start(server(&far), Link::default(), STAMP).await;
    for _ in 0..2 {
        let mut work = Vec::new();
        for _ in 0..4 {
            let connection = connect(&client, relay.address).await;
            work.push(tokio::spawn(async move {
                echo(connection.handle(), 2 * BYTES).await;
                connection.close(0_u32.into());
            }));
        }
        for task in work {
            task.await.expect("it echoes");
        }
    }
    for (poseidon, log) in [(&near, &near_log), (&far, &far_log)] {
        let (told, tags) = own_stamps(log);
        println!("{told} stamps under {tags} tags");
        assert_eq!(tags, 8);
        assert!(told > 40, "{told}");
        until("no flow is left", || {
            let metrics = poseidon.metrics();
            metrics.flows.is_empty() && metrics.handshakes == 0
        })
        .await;
    }
    assert_eq!(relay.drops.load(Relaxed), 0);
    // The limit that the documentation names: a close goes past the interceptor. Nothing else does.
    let closes = far.metrics().plain;
    assert!((1..=24).contains(&closes), "{closes} plain datagrams of 8 connections");
}

/// One wire: s2n-quic asks and quinn answers, then the other way round, both with the shim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quinn_understands_it_and_it_understands_quinn() {
    for quinn_asks in [false, true] {
        let ((near, near_log), (far, far_log)) = (logged(|_| ()), logged(|_| ()));
        let quinn = common::endpoint_speaking(Some(if quinn_asks { &near } else { &far }), ALPN);
        let to = if quinn_asks { server(&far) } else { quinn.local_addr().expect("bound") };
        let relay = Relay::start(to, Link::default(), STAMP).await;
        if quinn_asks {
            common::echo(&common::connect(&quinn, relay.address).await, BYTES).await;
        } else {
            let client = client(&near);
            let connection = connect(&client, relay.address).await;
            echo(connection.handle(), BYTES).await;
            connection.close(0_u32.into());
        }
        for (poseidon, log) in [(&near, &near_log), (&far, &far_log)] {
            let (told, tags) = own_stamps(log);
            println!("quinn asks: {quinn_asks}; {told} stamps");
            assert!(tags == 1 && told > 5, "{told} stamps, {tags} tags");
            assert_eq!(poseidon.metrics().malformed, 0);
        }
    }
}

/// A network that stamps nothing, one that begins to, and one that stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_stamps_the_round_trip_steers() {
    let ((near, log), far) = (logged(|_| ()), poseidon(|_| ()));
    let client = client(&near);
    let relay = Relay::start(server(&far), Link::default(), STAMP).await;
    relay.set(Does::Nothing);
    let connection = connect(&client, relay.address).await;
    echo(connection.handle(), BYTES).await;
    assert_eq!((modes(&log), own_stamps(&log).0), (vec![Mode::Delay], 0));
    let metrics = near.metrics();
    assert!(only_flow(&metrics).speaks_shim && metrics.with_prefix > 10, "{metrics:?}");
    relay.set(Does::Stamp);
    echo(connection.handle(), BYTES).await;
    relay.set(Does::Nothing);
    echo(connection.handle(), 4 * BYTES).await;
    assert_eq!(modes(&log), [Mode::Delay, Mode::Telemetry, Mode::Lost]);
}

/// Plain s2n-quic on one side, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_peers_are_served() {
    let (near, log) = logged(|_| ());
    let asking = client(&near);
    let connection = connect(&asking, plain_server()).await;
    echo(connection.handle(), BYTES).await;
    let metrics = near.metrics();
    let flow = only_flow(&metrics);
    assert!(!flow.speaks_shim && flow.acks_without_telemetry > 10, "{flow:?}");
    assert_eq!((metrics.with_prefix, modes(&log)), (0, vec![Mode::Delay]));

    let (far, log) = logged(|_| ());
    let asking = plain_client();
    let connection = connect(&asking, server(&far)).await;
    echo(connection.handle(), BYTES).await;
    let metrics = far.metrics();
    assert!(!only_flow(&metrics).speaks_shim && metrics.plain > 10, "{metrics:?}");
    assert_eq!((metrics.with_prefix, modes(&log)), (0, vec![Mode::Delay]));
}

/// Packets of all lengths, of several connections in one batch: every one has its prefix, so ends that refuse plain QUIC refuse nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_packet_of_a_connection_goes_without_its_prefix() {
    let refuse = |config: &mut Config| config.plain_peers = PlainPeers::Refuse;
    let (near, far) = (poseidon(refuse), poseidon(refuse));
    let (client, to) = (client(&near), server(&far));
    let mut connections = Vec::new();
    for _ in 0..8 {
        connections.push(connect(&client, to).await);
    }
    // One of these fills a packet but for a few bytes, more or less; another connection's packet follows, and is full.
    for bytes in 1_380..1_420 {
        let mut work = Vec::new();
        for connection in &connections {
            work.push(tokio::spawn(echo(connection.handle(), bytes)));
            work.push(tokio::spawn(echo(connection.handle(), bytes + 1_436)));
        }
        for task in work {
            task.await.expect("it echoes");
        }
    }
    for poseidon in [&near, &far] {
        let metrics = poseidon.metrics();
        assert!(metrics.with_prefix > 100, "{metrics:?}");
        assert_eq!((metrics.plain, metrics.malformed, metrics.strangers), (0, 0, 0), "{metrics:?}");
    }
}

/// Where IP packets may have 9000 bytes, packets grow to what was configured, and the prefix fits before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_packets_have_their_prefix_too() {
    let large = |config: &mut Config| {
        config.packet = Config::packet_within(9_000);
        config.plain_peers = PlainPeers::Refuse;
    };
    let (near, far) = (poseidon(large), poseidon(large));
    let (client, to) = (client_of(&near, socket_of(9_000)), server_of(&far, socket_of(9_000)));
    let connection = connect(&client, to).await;
    let bytes = 8_000_000;
    echo(connection.handle(), bytes).await;
    for poseidon in [&near, &far] {
        let metrics = poseidon.metrics();
        println!("{} datagrams", metrics.with_prefix);
        // Of 1436 bytes they would be 5,600 and more.
        let bytes = bytes as u64;
        assert!((bytes / 8_936..bytes / 2_880).contains(&metrics.with_prefix), "{metrics:?}");
        assert_eq!((metrics.plain, metrics.malformed), (0, 0), "{metrics:?}");
    }
}

/// A bottleneck that queues: the law keeps its queue short where s2n-quic's own CUBIC fills it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_keeps_the_queue_short() {
    let link =
        Link { rate: Some(20_000_000), delay: Duration::from_millis(5), room: Duration::from_millis(400) };
    let mut outcomes = Vec::new();
    for has_law in [false, true] {
        let (ours, log) = logged(|config| {
            let observer = config.observer.take();
            *config = Config::for_rate(BitRate::from_mbps(20));
            config.observer = observer;
        });
        let (client, to) =
            if has_law { (client(&ours), server(&ours)) } else { (plain_client(), plain_server()) };
        let relay = Relay::start(to, link, 0).await;
        let connection = connect(&client, relay.address).await;
        let began = tokio::time::Instant::now();
        echo(connection.handle(), 4_000_000).await;
        let took = began.elapsed();
        let wait = Duration::from_nanos(relay.longest_wait.load(Relaxed));
        println!(
            "law: {has_law}; longest wait {wait:?}, {} drops, {took:?}, {:?}",
            relay.drops.load(Relaxed),
            modes(&log)
        );
        assert_eq!(relay.drops.load(Relaxed), 0);
        assert_eq!(modes(&log).last().copied(), has_law.then_some(Mode::Telemetry));
        outcomes.push((wait, took));
    }
    // On a quiet machine a tenth of the queue, in the same time.
    let [(cubic_wait, cubic_took), (wait, took)] = outcomes[..] else { panic!("two runs") };
    assert!(wait < cubic_wait / 2, "{wait:?} and {cubic_wait:?}");
    assert!(took < cubic_took * 2, "{took:?} and {cubic_took:?}");
}

/// The registry through the same adapter: a law runs, or is refused for a signal that no QUIC stack supplies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_of_the_registry_runs_or_is_refused() {
    let mut ran = Vec::new();
    for info in LAWS {
        let mut config = Config::for_rate(BitRate::from_gbps(1));
        config.law = AnyParams::of(info.name).expect("in the table");
        if info.name == "swift" {
            // By default its target grows with the number of hops, which no stack tells.
            config.law.set("per-hop", "0 ns").expect("a parameter of it");
        }
        let ours = match Poseidon::new(config) {
            Err(ConfigError::Law(BuildError::MissingSignals { law, missing, supplied })) => {
                assert_eq!((law, supplied), (info.name, SUPPLIED));
                assert!(!missing.is_empty());
                continue;
            }
            Err(other) => panic!("{}: {other}", info.name),
            Ok(ours) => ours,
        };
        let client = client(&ours);
        let connection = connect(&client, server(&ours)).await;
        echo(connection.handle(), 100_000).await;
        // Both ends are flows of the one `Poseidon`, and both laws have decided.
        let metrics = ours.metrics();
        assert_eq!(metrics.flows.len(), 2, "{}: {metrics:?}", info.name);
        for flow in &metrics.flows {
            assert!(flow.acks_without_telemetry > 0 && flow.window.get() > 0, "{}: {flow:?}", info.name);
        }
        ran.push(info.name);
    }
    for name in ["poseidon", "swift", "timely", "cubic", "fixed"] {
        assert!(ran.contains(&name), "{name} did not run: {ran:?}");
    }
    for name in ["hpcc", "powertcp", "dctcp", "dcqcn"] {
        assert!(!ran.contains(&name), "{name} ran without its signals");
    }
}

/// A switch that writes noise into shims, and a stranger that sends prefixes with noise behind: stamps are lost, and no data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_costs_stamps_and_no_data() {
    let ((near, log), far) = (logged(|_| ()), poseidon(|_| ()));
    let client = client(&near);
    let to = server(&far);
    let relay = Relay::start(to, Link::default(), STAMP).await;
    let connection = connect(&client, relay.address).await;
    // On a busy machine one ACK answers many packets.
    echo(connection.handle(), 4 * BYTES).await;
    assert!(own_stamps(&log).0 > 10);
    relay.set(Does::Garble);
    let tags: Vec<Tag> = far.metrics().flows.iter().map(|flow| flow.tag).collect();
    let stranger = bind();
    let noise = async {
        let mut random = 1;
        for _ in 0..40 {
            for _ in 0..50 {
                random = mix(random);
                let mut bytes: Vec<u8> =
                    (0..random % 1_400).map(|at| mix(random ^ at).to_le_bytes()[0]).collect();
                let prefix = Prefix { mine: 7, yours: tags[0], ..Prefix::default() }.emit();
                let head = bytes.len().min(PREFIX_BYTES);
                bytes[..head].copy_from_slice(&prefix[..head]);
                // A full buffer drops it, as a network would.
                let _ = stranger.send_to(&bytes, to);
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(echo(connection.handle(), 2 * BYTES), noise);
    relay.set(Does::Stamp);
    echo(connection.handle(), BYTES).await;
    let (ours, theirs) = (near.metrics(), far.metrics());
    println!("{} and {} ruined, {} strangers", ours.ruined, theirs.ruined, theirs.strangers);
    assert!(ours.ruined > 10 && theirs.ruined > 10, "{ours:?} {theirs:?}");
    assert!(theirs.strangers > 100 && theirs.malformed > 0, "{theirs:?}");
    // Some noise looks like a stamp; in the end only stamps are heard again.
    let last = log
        .lock()
        .expect("nobody panics")
        .iter()
        .rev()
        .find_map(|decided| Some((decided.told?, decided.tag)));
    let (told, tag) = last.expect("there were some");
    assert_eq!((told, only_flow(&ours).mode), (stamp_of(STAMP, tag), Mode::Telemetry));
}

/// Bytes that come back in this time.
async fn echoed(mut connection: Handle, time: Duration) -> u64 {
    let (mut receive, mut send) = connection.open_bidirectional_stream().await.expect("it is up").split();
    let end = tokio::time::Instant::now() + time;
    let out = async {
        while tokio::time::Instant::now() < end {
            send.send(vec![0x5a; 1 << 14].into()).await.expect("the peer reads");
        }
        send.reset(0_u8.into()).expect("not ended");
    };
    let back = async {
        let mut bytes = 0;
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout_at(end, receive.receive()).await {
            bytes += chunk.len() as u64;
        }
        bytes
    };
    tokio::join!(out, back).1
}

/// Gives the median of what a slice of time under attack gets of the one before.
async fn forged(size: Size) -> f64 {
    let (near, far) = (poseidon(|_| ()), poseidon(|_| ()));
    let client = client(&near);
    let to = server(&far);
    let link =
        Link { rate: Some(20_000_000), delay: Duration::from_millis(2), room: Duration::from_millis(100) };
    let relay = Relay::start(to, link, 0).await;
    let connection = connect(&client, relay.address).await;
    echoed(connection.handle(), Duration::from_secs(1)).await;
    let attack = forge_as_peer(&relay, to, size);
    let outcome = attack.run(async |time| echoed(connection.handle(), time).await, || ()).await;
    let metrics = far.metrics();
    println!(
        "\n{{\"test\":\"hostile\",\"datagrams\":{},\"goodput_ratio\":{:.4},\"pairs\":{}}}",
        outcome.sent,
        outcome.median(),
        outcome.ratios.len(),
    );
    echo(connection.handle(), BYTES).await;
    // Where the server's buffer was full, a forged datagram did not arrive.
    assert!(metrics.strangers > outcome.sent / 2, "{metrics:?}");
    for flow in near.metrics().flows.iter().chain(&far.metrics().flows) {
        assert!(flow.told.is_none_or(|(_, most)| most < FORGED), "believed: {flow:?}");
    }
    outcome.median()
}

/// A busy machine moves the ratio more than the attack does; the long form holds it to 5 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_forged_in_the_peers_name_is_ignored() {
    let ratio = forged(Size { datagrams: 30_000, per_second: 10_000 }).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes, ten million datagrams: .ci/long"]
async fn forged_s2n_long() {
    let ratio = forged(LONG).await;
    assert!(ratio > 0.95, "{ratio}");
}
