//! A quinn echo program, and the two lines that add Poseidon to it.
//!
//! `cargo run -p poseidon-quic --features quinn --example quinn_echo`
//!
//! The server and the client run in one process. The client prints the server's reply and the mode of its
//! connection.

use core::error::Error;
use core::net::SocketAddr;
use poseidon_quic::{Config, Poseidon};
use poseidon_types::BitRate;
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::net::UdpSocket;
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
    let self_signed = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = self_signed.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(self_signed.signing_key.serialize_der());

    let address = start_server(&poseidon, certificate.clone(), key)?;
    let client = create_client(&poseidon, certificate)?;
    let connection = client.connect(address, "localhost")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"hello").await?;
    send.finish()?;
    let answer = receive.read_to_end(100).await?;
    println!("the server answered {:?}", String::from_utf8_lossy(&answer));
    if let Some(flow) = Poseidon::metrics_of(&connection) {
        println!("mode {}; the server uses the shim: {}", flow.mode, flow.shim_negotiated);
    }
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    Ok(())
}

fn start_server(
    poseidon: &Poseidon,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> Result<SocketAddr, Box<dyn Error>> {
    let (mut transport, mut config) = (TransportConfig::default(), EndpointConfig::default());
    poseidon.tune(&mut transport, &mut config);
    transport.congestion_controller_factory(poseidon.controller_factory()); // line 1
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    server.transport_config(Arc::new(transport));
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let endpoint = Endpoint::new(config, Some(server), socket, poseidon.runtime(TokioRuntime))?; // line 2
    let address = endpoint.local_addr()?;
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let connection = incoming.await?;
            let (mut send, mut receive) = connection.accept_bi().await?;
            let request = receive.read_to_end(100).await?;
            send.write_all(&request).await?;
            send.finish()?;
            connection.closed().await;
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    });
    Ok(address)
}

fn create_client(
    poseidon: &Poseidon,
    certificate: CertificateDer<'static>,
) -> Result<Endpoint, Box<dyn Error>> {
    let (mut transport, mut config) = (TransportConfig::default(), EndpointConfig::default());
    poseidon.tune(&mut transport, &mut config);
    transport.congestion_controller_factory(poseidon.controller_factory()); // line 1
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(Arc::new(transport));
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut endpoint = Endpoint::new(config, None, socket, poseidon.runtime(TokioRuntime))?; // line 2
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}
