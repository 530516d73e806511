//! The command line of `poseidon_quic::perf`.
//!
//! ```text
//! cargo run --release -p poseidon-quic --example perf -- server [--listen 0.0.0.0:65053] [OPTIONS]
//! cargo run --release -p poseidon-quic --example perf -- client 10.0.0.2:65053 [OPTIONS]
//!
//!   --law poseidon        who steers: a law, or quinn for quinn's own CUBIC without the shim
//!   --set name=value      a parameter of the law; may be given again
//!   --rate "1 Gbps"       of this host's link
//!   --base-rtt "100 us"   of the unloaded path
//!   --json                one JSON value per line
//! server
//!   --once                end when the first client has gone
//! client
//!   --connections 1  --streams 1  --time 10  --interval 1   (seconds)
//!   --bind 0.0.0.0:65053  so that the way back is stamped too
//!   --log decisions.qlog  every decision of the law
//! ```

use core::error::Error;
use core::time::Duration;
use poseidon_laws::AnyParams;
use poseidon_quic::Config;
use poseidon_quic::perf::{ClientArgs, ServerArgs, Steering, run, serve};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let result = match words.next().as_deref() {
        Some("server") => server(words.collect()).await,
        Some("client") => client(words.collect()).await,
        _ => Err("say server or client; the head of this example's source lists the options".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perf: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What both ends can be told.
struct Common {
    law: String,
    set: Vec<(String, String)>,
    rate: String,
    base_rtt: Option<String>,
    json: bool,
}

impl Common {
    fn new() -> Self {
        Self { law: "poseidon".into(), set: Vec::new(), rate: "1 Gbps".into(), base_rtt: None, json: false }
    }

    /// Takes an option and its value; false where it is another's.
    fn take(&mut self, name: &str, rest: &mut std::vec::IntoIter<String>) -> Result<bool, Box<dyn Error>> {
        match name {
            "--law" => self.law = value(name, rest)?,
            "--rate" => self.rate = value(name, rest)?,
            "--base-rtt" => self.base_rtt = Some(value(name, rest)?),
            "--json" => self.json = true,
            "--set" => {
                let given = value(name, rest)?;
                let (name, value) = given.split_once('=').ok_or("--set: write name=value")?;
                self.set.push((name.to_owned(), value.to_owned()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn steering(&self) -> Result<Steering, Box<dyn Error>> {
        if self.law == "quinn" {
            return Ok(Steering::Quinn);
        }
        let mut config = Config::for_rate(self.rate.parse()?);
        if self.law != config.law.law() {
            config.law = AnyParams::of(&self.law).ok_or_else(|| format!("there is no law {:?}", self.law))?;
        }
        for (name, value) in &self.set {
            config.law.set(name, value)?;
        }
        config.base_rtt = self.base_rtt.as_deref().map(str::parse).transpose()?;
        Ok(Steering::Law(Box::new(config)))
    }
}

async fn server(words: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (mut common, mut listen, mut once) = (Common::new(), None, false);
    let mut rest = words.into_iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--listen" => listen = Some(value(&name, &mut rest)?.parse()?),
            "--once" => once = true,
            _ if common.take(&name, &mut rest)? => {}
            _ => return Err(format!("a server has no option {name}").into()),
        }
    }
    let mut args = ServerArgs::new(common.steering()?);
    args.listen = listen.unwrap_or(args.listen);
    args.once = once;
    let ready = |endpoint: &quinn::Endpoint| {
        if let Ok(address) = endpoint.local_addr() {
            eprintln!("listening on {address}");
        }
    };
    Ok(serve(args, ready).await?)
}

async fn client(words: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut rest = words.into_iter();
    let server = rest.next().ok_or("say the server's address")?;
    let mut common = Common::new();
    let mut args = ClientArgs::new(server.parse()?, Steering::Quinn);
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--connections" => args.connections = value(&name, &mut rest)?.parse()?,
            "--streams" => args.streams = value(&name, &mut rest)?.parse()?,
            "--time" => args.duration = Duration::from_secs_f64(value(&name, &mut rest)?.parse()?),
            "--interval" => args.interval = Duration::from_secs_f64(value(&name, &mut rest)?.parse()?),
            "--bind" => args.bind = value(&name, &mut rest)?.parse()?,
            "--log" => args.log = Some(value(&name, &mut rest)?.into()),
            _ if common.take(&name, &mut rest)? => {}
            _ => return Err(format!("a client has no option {name}").into()),
        }
    }
    args.steering = common.steering()?;
    let json = common.json;
    let summary = run(args, |interval| {
        if json {
            println!("{}", serde_json::to_string(interval).unwrap_or_default());
        } else {
            println!("{interval}");
        }
    })
    .await?;
    if json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("{summary}");
    }
    Ok(())
}

fn value(name: &str, rest: &mut std::vec::IntoIter<String>) -> Result<String, Box<dyn Error>> {
    rest.next().ok_or_else(|| format!("{name}: its value is missing").into())
}
