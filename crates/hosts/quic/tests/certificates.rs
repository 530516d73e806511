//! A client of `perf` that is given an authority talks only to a server with a certificate of that authority.

use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::Config;
use poseidon_quic::perf::{ClientArgs, Identity, PerfError, ServerArgs, Steering, Stop, Summary, run, serve};
use poseidon_types::BitRate;
use std::path::PathBuf;
use std::{env, fs, process};
use tokio::sync::oneshot;

const NAME: &str = "host-2.example";

fn steering() -> Steering {
    Steering::Law(Box::new(Config::for_rate(BitRate::from_mbps(100))))
}

/// A certificate that is its own authority, and its key.
fn identity(of: &str) -> Identity {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
    let file = |kind: &str| env::temp_dir().join(format!("poseidon-{of}-{}-{kind}.pem", process::id()));
    let (certificate, key) = (file("certificate"), file("key"));
    fs::write(&certificate, made.cert.pem()).expect("there is room");
    fs::write(&key, made.signing_key.serialize_pem()).expect("there is room");
    Identity { certificate, key }
}

fn remove(identity: &Identity) {
    for file in [&identity.certificate, &identity.key] {
        fs::remove_file(file).expect("it was written");
    }
}

async fn talk(identity: &Identity, authority: PathBuf, name: &str) -> Result<Summary, PerfError> {
    let (tell, told) = oneshot::channel::<SocketAddr>();
    let mut server = ServerArgs::new(steering());
    server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    server.identity = Some(identity.clone());
    let serving = tokio::spawn(serve(server, |address| tell.send(address).expect("somebody waits")));
    let mut client = ClientArgs::new(told.await.expect("it listens"), steering());
    client.authority = Some(authority);
    client.server_name = Some(name.to_owned());
    client.duration = Duration::from_millis(100);
    let outcome = run(client, &Stop::default(), |_| ()).await;
    serving.abort();
    outcome
}

#[tokio::test]
async fn only_a_certificate_of_the_authority_is_taken() {
    let (ours, theirs) = (identity("ours"), identity("theirs"));
    let summary = talk(&ours, ours.certificate.clone(), NAME).await.expect("they know each other");
    assert!(summary.bytes > 0);
    for (authority, name) in [(&theirs.certificate, NAME), (&ours.certificate, "another.example")] {
        let refused = talk(&ours, authority.clone(), name).await.expect_err("unknown").to_string();
        assert!(refused.contains("certificate"), "{refused}");
    }
    // A key is no certificate.
    let unread = talk(&ours, ours.key.clone(), NAME).await.expect_err("unreadable").to_string();
    assert!(unread.contains("there is no certificate in it; give certificates and keys in PEM"), "{unread}");
    remove(&ours);
    remove(&theirs);
}
