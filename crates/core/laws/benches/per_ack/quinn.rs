//! Calls quinn's congestion controllers the way quinn does for an ACK frame that acknowledges one packet.
//!
//! The callbacks need quinn's `RttEstimator`, which only quinn can construct. A client and a server therefore exchange
//! their first datagrams in memory, and a dummy controller stores the estimator that quinn passes to it.

use core::any::Any;
use core::hint::black_box;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use poseidon_laws::Ack;
use poseidon_types::{Bytes, Nanos};
use quinn_proto::congestion::{
    Bbr, BbrConfig, Controller, ControllerFactory, Cubic, CubicConfig, NewReno, NewRenoConfig,
};
use quinn_proto::{
    ClientConfig, ConnectionEvent, DatagramEvent, Endpoint, EndpointConfig, RttEstimator, ServerConfig,
    TransportConfig,
};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// An ACK as quinn reports it to a controller.
struct AckEvent {
    now: Instant,
    sent: Instant,
    bytes: u64,
    in_flight: u64,
    packet: u64,
    marked: bool,
}

/// A controller and its ACKs.
pub(crate) struct QuinnController<C> {
    controller: C,
    rtt: RttEstimator,
    events: Vec<AckEvent>,
}

impl<C: Controller> QuinnController<C> {
    pub(crate) fn new(acks: &[Ack<'_>], make: impl Fn(Instant) -> C) -> Self {
        let start = now();
        let instant = |time: Nanos| start + Duration::from_nanos(time.get());
        let event = |(packet, ack): (usize, &Ack<'_>)| AckEvent {
            now: instant(ack.now),
            sent: instant(ack.now - ack.rtt),
            bytes: ack.bytes.get(),
            in_flight: Bytes::new(13 * 4_096).get(),
            packet: packet as u64,
            marked: !ack.marked.is_zero(),
        };
        Self {
            controller: make(start),
            rtt: rtt_estimator(),
            events: acks.iter().enumerate().map(event).collect(),
        }
    }

    /// For each ACK, reports the packet as sent and acknowledged, ends the ACK frame and reports any mark.
    #[inline(always)]
    pub(crate) fn process_acks(mut self) -> Self {
        for event in &self.events {
            let event = black_box(event);
            self.controller.on_sent(event.sent, event.bytes, event.packet);
            self.controller.on_ack(event.now, event.sent, event.bytes, false, &self.rtt);
            self.controller.on_end_acks(event.now, event.in_flight, false, Some(event.packet));
            if event.marked {
                self.controller.on_congestion_event(event.now, event.sent, false, 0);
            }
        }
        self
    }
}

pub(crate) fn cubic(now: Instant) -> Cubic {
    Cubic::new(Arc::new(CubicConfig::default()), now, 4_096)
}

pub(crate) fn new_reno(now: Instant) -> NewReno {
    NewReno::new(Arc::new(NewRenoConfig::default()), now, 4_096)
}

pub(crate) fn bbr(_: Instant) -> Bbr {
    Bbr::new(Arc::new(BbrConfig::default()), 4_096)
}

#[expect(clippy::disallowed_methods, reason = "an Instant cannot be constructed from a number")]
fn now() -> Instant {
    Instant::now()
}

/// A controller that only stores the RTT estimator.
#[derive(Clone, Default)]
struct RttRecorder(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for RttRecorder {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

impl Controller for RttRecorder {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        *self.0.lock().expect("no other thread holds the lock") = Some(*rtt);
    }
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        1 << 20
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        1 << 20
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Returns an RTT estimator with an estimate of 22 us, taken from the first datagrams of an in-memory handshake.
fn rtt_estimator() -> RttEstimator {
    let certified_key =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("the name is valid");
    let certificate = certified_key.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified_key.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("the certificate is valid");
    let recorder = RttRecorder::default();
    let mut transport = TransportConfig::default();
    transport
        .initial_rtt(Duration::from_micros(22))
        .congestion_controller_factory(Arc::new(recorder.clone()));
    let mut client_config =
        ClientConfig::with_root_certificates(Arc::new(roots)).expect("the roots are valid");
    client_config.transport_config(Arc::new(transport));
    let server_config =
        ServerConfig::with_single_cert(vec![certificate], key.into()).expect("the certificate is valid");

    let now = now();
    let (client_address, server_address) =
        (SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), SocketAddr::from((Ipv4Addr::LOCALHOST, 2)));
    let endpoint_config = Arc::new(EndpointConfig::default());
    let mut client = Endpoint::new(endpoint_config.clone(), None, false, None);
    let mut server = Endpoint::new(endpoint_config, Some(Arc::new(server_config)), false, None);
    let (_, mut client_connection) =
        client.connect(now, client_config, server_address, "localhost").expect("the configuration is valid");
    let mut datagram = Vec::new();
    let mut scratch = Vec::new();

    let _sent =
        client_connection.poll_transmit(now, 1, &mut datagram).expect("the client sends a first datagram");
    let event = server.handle(now, client_address, None, None, datagram[..].into(), &mut scratch);
    let Some(DatagramEvent::NewConnection(incoming)) = event else {
        panic!("the datagram did not start a connection")
    };
    let Ok((_, mut server_connection)) = server.accept(incoming, now, &mut scratch, None) else {
        panic!("the server rejected the connection")
    };
    datagram.clear();
    let _sent = server_connection.poll_transmit(now, 1, &mut datagram).expect("the server replies");
    let event = client.handle(now, server_address, None, None, datagram[..].into(), &mut scratch);
    let Some(DatagramEvent::ConnectionEvent(_, event)) = event else {
        panic!("the client did not recognise the reply")
    };
    let event: ConnectionEvent = event;
    client_connection.handle_event(event);
    let estimator = *recorder.0.lock().expect("no other thread holds the lock");
    estimator.expect("the reply acknowledges the first datagram")
}
