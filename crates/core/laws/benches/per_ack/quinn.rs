//! quinn's congestion controllers, called as quinn calls them for an ACK frame that acknowledges one packet.
//!
//! Their callbacks want quinn's `RttEstimator`, which only quinn can make. So a client and a server exchange their first
//! datagrams in memory, and a controller that does nothing keeps the estimator it is shown.

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

/// One ACK in quinn's terms.
struct Event {
    now: Instant,
    sent: Instant,
    bytes: u64,
    in_flight: u64,
    packet: u64,
    marked: bool,
}

/// A controller and its ACKs, ready.
pub(crate) struct Quinn<C> {
    controller: C,
    rtt: RttEstimator,
    events: Vec<Event>,
}

impl<C: Controller> Quinn<C> {
    pub(crate) fn new(acks: &[Ack<'_>], make: impl Fn(Instant) -> C) -> Self {
        let start = now();
        let at = |time: Nanos| start + Duration::from_nanos(time.get());
        let event = |(packet, ack): (usize, &Ack<'_>)| Event {
            now: at(ack.now),
            sent: at(ack.now - ack.rtt),
            bytes: ack.bytes.get(),
            in_flight: Bytes::new(13 * 4_096).get(),
            packet: packet as u64,
            marked: !ack.marked.is_zero(),
        };
        Self {
            controller: make(start),
            rtt: estimator(),
            events: acks.iter().enumerate().map(event).collect(),
        }
    }

    /// Packet sent, packet acknowledged, ACK frame done, mark reported.
    #[inline(always)]
    pub(crate) fn feed(mut self) -> Self {
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

#[expect(clippy::disallowed_methods, reason = "quinn's instants cannot be made from a number")]
fn now() -> Instant {
    Instant::now()
}

/// Keeps the estimator it is shown.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Keeper {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

impl Controller for Keeper {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        *self.0.lock().expect("one thread") = Some(*rtt);
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

/// An estimator at 22 us, from the first datagrams of a handshake in memory.
fn estimator() -> RttEstimator {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = signed.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let keeper = Keeper::default();
    let mut transport = TransportConfig::default();
    transport.initial_rtt(Duration::from_micros(22)).congestion_controller_factory(Arc::new(keeper.clone()));
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
    client_config.transport_config(Arc::new(transport));
    let server_config = ServerConfig::with_single_cert(vec![certificate], key.into()).expect("a server");

    let now = now();
    let (near, far) =
        (SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), SocketAddr::from((Ipv4Addr::LOCALHOST, 2)));
    let endpoint_config = Arc::new(EndpointConfig::default());
    let mut client = Endpoint::new(endpoint_config.clone(), None, false, None);
    let mut server = Endpoint::new(endpoint_config, Some(Arc::new(server_config)), false, None);
    let (_, mut here) = client.connect(now, client_config, far, "localhost").expect("connects");
    let mut datagram = Vec::new();
    let mut scratch = Vec::new();

    let _sent = here.poll_transmit(now, 1, &mut datagram).expect("a first datagram");
    let event = server.handle(now, near, None, None, datagram[..].into(), &mut scratch);
    let Some(DatagramEvent::NewConnection(incoming)) = event else { panic!("the server sees no connection") };
    let Ok((_, mut there)) = server.accept(incoming, now, &mut scratch, None) else {
        panic!("the server refuses")
    };
    datagram.clear();
    let _sent = there.poll_transmit(now, 1, &mut datagram).expect("an answer");
    let event = client.handle(now, far, None, None, datagram[..].into(), &mut scratch);
    let Some(DatagramEvent::ConnectionEvent(_, event)) = event else { panic!("the client sees no answer") };
    let event: ConnectionEvent = event;
    here.handle_event(event);
    let kept = *keeper.0.lock().expect("one thread");
    kept.expect("the answer acknowledges the first datagram")
}
