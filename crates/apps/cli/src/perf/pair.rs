//! Both ends at work.

use super::args::{ClientArgs, Perf, SteeringArgs};
use crate::{Failure, catalog};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use poseidon_quic::Config;
use poseidon_quic::perf::{self, DEFAULT_PORT, Identity, PerfError, ServerArgs, Steering, Stop, block_on};
use poseidon_types::Nanos;
use std::net::ToSocketAddrs as _;

pub(crate) fn run(command: &Perf) -> Result<(), Failure> {
    match command {
        Perf::Server { listen, cert, key, once, steering } => {
            let mut args = ServerArgs::new(steering.steering()?);
            (args.listen, args.once, args.ip_mtu) = (*listen, *once, steering.mtu);
            args.identity =
                cert.clone().zip(key.clone()).map(|(certificate, key)| Identity { certificate, key });
            let ready = |at| eprintln!("listening on {at}");
            block_on(perf::serve(args, ready)).map_err(failed)
        }
        Perf::Client(args) => client(args),
    }
}

fn client(args: &ClientArgs) -> Result<(), Failure> {
    let (host, server) = resolve(&args.server)?;
    let mut asked = perf::ClientArgs::new(server, args.steering.steering()?);
    asked.bind = args.bind.unwrap_or(asked.bind);
    asked.ip_mtu = args.steering.mtu;
    asked.authority.clone_from(&args.ca);
    asked.server_name = args.ca.is_some().then(|| args.name.clone().unwrap_or(host));
    asked.connections = args.connections.into();
    asked.streams = args.streams.into();
    asked.duration = duration(args.time);
    asked.interval = duration(args.interval);
    if args.qlog.is_some() && matches!(asked.steering, Steering::Quinn) {
        return Err(Failure::Usage("--qlog: quinn's own congestion control tells of no decision".into()));
    }
    asked.qlog.clone_from(&args.qlog);
    asked.qlog_interval = duration(args.qlog_interval);
    let stop = Stop::default();
    let request = stop.clone();
    // For Ctrl-C, SIGTERM and SIGHUP; the second time, at once.
    let _ = ctrlc::set_handler(move || {
        if request.request() {
            std::process::exit(130);
        }
    });
    let summary = block_on(perf::run(asked, &stop, |interval| {
        if args.json {
            say!("{}", serde_json::to_string(interval).unwrap_or_default());
        } else {
            say!("{interval}");
        }
    }))
    .map_err(failed)?;
    if args.json {
        say!("{}", serde_json::to_string(&summary).map_err(|error| Failure::Run(error.to_string()))?);
    } else {
        say!("{summary}");
    }
    if stop.is_requested() { Err(Failure::Interrupted("what was sent by then is counted")) } else { Ok(()) }
}

/// The host as it was written, and its first address.
fn resolve(server: &str) -> Result<(String, SocketAddr), Failure> {
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), address));
    }
    let bare = server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(server);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip.to_string(), SocketAddr::new(ip, DEFAULT_PORT)));
    }
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) => {
            let port =
                port.parse().map_err(|_| Failure::Usage(format!("{server:?}: {port:?} is no port")))?;
            (host, port)
        }
        None => (server, DEFAULT_PORT),
    };
    let unknown = |why: String| Failure::Run(format!("the address of {host:?} cannot be found: {why}"));
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let address = addresses.next().ok_or_else(|| unknown("it has none".to_owned()))?;
    Ok((host.to_owned(), address))
}

impl SteeringArgs {
    fn steering(&self) -> Result<Steering, Failure> {
        if self.law == "quinn" {
            return match self.set.first() {
                Some(set) => {
                    Err(Failure::Usage(format!("--set {set:?}: quinn's own CUBIC has no parameters")))
                }
                None => Ok(Steering::Quinn),
            };
        }
        let mut config = Config::for_rate(self.rate);
        if self.law != config.law.law() {
            config.law = catalog::law(&self.law)?;
        }
        for set in &self.set {
            let (name, value) = set
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("--set {set:?}: write it as NAME=VALUE")))?;
            config
                .law
                .set(name.trim(), value.trim())
                .map_err(|why| Failure::Usage(format!("--set {set:?}: {why}")))?;
        }
        config.base_rtt = self.base_rtt;
        Ok(Steering::Law(Box::new(config)))
    }
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.get())
}

/// A law that cannot run here is a matter of what was asked for.
fn failed(error: PerfError) -> Failure {
    match error {
        PerfError::Config(why) => Failure::Usage(why.to_string()),
        error => Failure::Run(error.to_string()),
    }
}
