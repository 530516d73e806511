//! Tests certificate verification: a client with a trusted authority accepts only servers whose certificates were
//! issued by that authority.

use super::options::{ClientOptions, CongestionControl, Identity, PerfError, ServerOptions};
use super::report::Summary;
use super::stop::StopSignal;
use super::{client, server};
use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::Config;
use poseidon_types::BitRate;
use std::path::{Path, PathBuf};
use std::{env, fs, process};
use tokio::sync::oneshot;

const NAME: &str = "host-2.example";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn congestion_control() -> CongestionControl {
    CongestionControl::Law(Box::new(Config::for_rate(BitRate::from_mbps(100))))
}

/// Encodes DER as PEM.
fn to_pem(label: &str, der: &[u8]) -> String {
    let mut text = String::new();
    for group in der.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for position in 0..4 {
            let digit = (bits >> (18 - 6 * position)) & 0x3f;
            let is_padding = position > group.len();
            text.push(if is_padding { '=' } else { char::from(BASE64[digit as usize]) });
        }
        if text.lines().next_back().is_some_and(|line| line.len() >= 64) {
            text.push('\n');
        }
    }
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", text.trim_end())
}

/// Creates a self-signed certificate and its key as PEM files.
fn create_identity(name: &str) -> Identity {
    let created = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("the parameters are valid");
    let write_pem = |kind: &str, label: &str, der: &[u8]| {
        let path = env::temp_dir().join(format!("poseidon-{name}-{}-{kind}.pem", process::id()));
        fs::write(&path, to_pem(label, der)).expect("the temporary folder is writable");
        path
    };
    Identity {
        certificate: write_pem("certificate", "CERTIFICATE", created.cert.der()),
        key: write_pem("key", "PRIVATE KEY", &created.signing_key.serialize_der()),
    }
}

fn remove_files(identity: &Identity) {
    for file in [&identity.certificate, &identity.key] {
        fs::remove_file(file).expect("the file exists");
    }
}

async fn transfer(identity: &Identity, authority: &Path, server_name: &str) -> Result<Summary, PerfError> {
    let (sender, receiver) = oneshot::channel::<SocketAddr>();
    let server_options = ServerOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        ip_mtu: 1_500,
        identity: Some(identity.clone()),
        control: congestion_control(),
        once: false,
        metrics: None,
    };
    let on_ready = |address| sender.send(address).expect("the client waits for the address");
    let server_task = tokio::spawn(server::serve(server_options, on_ready));
    let client_options = ClientOptions {
        server: receiver.await.expect("the server listens"),
        server_name: Some(server_name.to_owned()),
        authority: Some(authority.to_owned()),
        ip_mtu: 1_500,
        bind: SocketAddr::from(([0; 4], 0)),
        control: congestion_control(),
        connections: 1,
        streams: 1,
        duration: Duration::from_millis(100),
        interval: Duration::from_secs(1),
        qlog: None::<PathBuf>,
        qlog_interval: Duration::ZERO,
        metrics: None,
    };
    let result = client::run(client_options, &StopSignal::default(), |_| ()).await;
    server_task.abort();
    result
}

#[test]
fn pem_encoding_pads_incomplete_groups() {
    assert_eq!(to_pem("X", b"ab"), "-----BEGIN X-----\nYWI=\n-----END X-----\n");
    assert_eq!(to_pem("X", b"abcd"), "-----BEGIN X-----\nYWJjZA==\n-----END X-----\n");
}

#[tokio::test]
async fn only_certificates_from_the_authority_are_accepted() {
    let (trusted, untrusted) = (create_identity("trusted"), create_identity("untrusted"));
    let summary =
        transfer(&trusted, &trusted.certificate, NAME).await.expect("the client trusts the certificate");
    assert!(summary.bytes > 0);
    for (authority, name) in [(&untrusted.certificate, NAME), (&trusted.certificate, "another.example")] {
        let error = transfer(&trusted, authority, name)
            .await
            .expect_err("the client rejects the certificate")
            .to_string();
        assert!(error.contains("certificate"), "{error}");
    }
    let error =
        transfer(&trusted, &trusted.key, NAME).await.expect_err("a key is not a certificate").to_string();
    let expected = "the file contains no certificate; certificates and keys must be in PEM";
    assert!(error.contains(expected), "{error}");
    remove_files(&trusted);
    remove_files(&untrusted);
}
