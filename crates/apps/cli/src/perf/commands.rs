//! Runs the client or the server with the command-line arguments.

use super::args::{ClientArgs, CongestionControlArgs, PerfCommand};
use super::options::{ClientOptions, CongestionControl, Identity, PerfError, ServerOptions};
use super::stop::StopSignal;
use super::{client, server};
use crate::{Failure, catalog};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use poseidon_quic::{Config, DEFAULT_UDP_PORT};
use poseidon_types::Nanos;
use std::net::ToSocketAddrs as _;

pub(crate) fn run(command: &PerfCommand) -> Result<(), Failure> {
    match command {
        PerfCommand::Server { listen, cert, key, once, control } => {
            let options = ServerOptions {
                listen: *listen,
                ip_mtu: control.mtu,
                identity: cert
                    .clone()
                    .zip(key.clone())
                    .map(|(certificate, key)| Identity { certificate, key }),
                control: control.congestion_control()?,
                once: *once,
                metrics: control.metrics_address()?,
            };
            let on_ready = |address| eprintln!("listening on {address}");
            block_on(server::serve(options, on_ready)).map_err(to_failure)
        }
        PerfCommand::Client(args) => run_client(args),
    }
}

fn run_client(args: &ClientArgs) -> Result<(), Failure> {
    let options = client_options(args)?;
    let stop = StopSignal::default();
    let stop_on_signal = stop.clone();
    // Handle Ctrl-C, SIGTERM and SIGHUP. A second signal terminates the process immediately.
    let _ = ctrlc::set_handler(move || {
        if stop_on_signal.request() {
            std::process::exit(130);
        }
    });
    let summary = block_on(client::run(options, &stop, |interval| {
        if args.json {
            outln!("{}", serde_json::to_string(interval).unwrap_or_default());
        } else {
            outln!("{interval}");
        }
    }))
    .map_err(to_failure)?;
    if args.json {
        outln!("{}", serde_json::to_string(&summary)?);
    } else {
        outln!("{summary}");
    }
    if stop.is_requested() {
        return Err(Failure::Interrupted("the summary covers the data sent before the interruption"));
    }
    Ok(())
}

fn client_options(args: &ClientArgs) -> Result<ClientOptions, Failure> {
    let (host, server) = resolve(&args.server)?;
    let control = args.control.congestion_control()?;
    if args.qlog.is_some() && matches!(control, CongestionControl::QuinnCubic) {
        return Err(Failure::Usage(
            "--qlog: quinn's own congestion control does not report its decisions".into(),
        ));
    }
    let any_address = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    Ok(ClientOptions {
        server,
        server_name: args.ca.is_some().then(|| args.name.clone().unwrap_or(host)),
        authority: args.ca.clone(),
        ip_mtu: args.control.mtu,
        bind: args.bind.unwrap_or(any_address),
        control,
        connections: args.connections.into(),
        streams: args.streams.into(),
        duration: to_duration(args.time),
        interval: to_duration(args.interval),
        qlog: args.qlog.clone(),
        qlog_interval: to_duration(args.qlog_interval),
        metrics: args.control.metrics_address()?,
    })
}

/// Returns the host as the user wrote it, and its first address.
fn resolve(server: &str) -> Result<(String, SocketAddr), Failure> {
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), address));
    }
    let without_brackets = server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(server);
    if let Ok(ip) = without_brackets.parse::<IpAddr>() {
        return Ok((ip.to_string(), SocketAddr::new(ip, DEFAULT_UDP_PORT)));
    }
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) => {
            let invalid_port = |_| Failure::Usage(format!("{server:?}: {port:?} is not a port number"));
            (host, port.parse().map_err(invalid_port)?)
        }
        None => (server, DEFAULT_UDP_PORT),
    };
    let unresolved = |reason: String| Failure::Run(format!("cannot resolve {host:?}: {reason}"));
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    let address = addresses.next().ok_or_else(|| unresolved("the name has no address".to_owned()))?;
    Ok((host.to_owned(), address))
}

impl CongestionControlArgs {
    /// Returns the address of the metrics. quinn's own congestion control has none.
    fn metrics_address(&self) -> Result<Option<SocketAddr>, Failure> {
        if self.metrics.is_some() && self.law == "quinn" {
            return Err(Failure::Usage("--metrics: quinn's own congestion control has no metrics".into()));
        }
        Ok(self.metrics)
    }

    fn congestion_control(&self) -> Result<CongestionControl, Failure> {
        if self.law == "quinn" {
            return match self.set.first() {
                Some(set) => {
                    Err(Failure::Usage(format!("--set {set:?}: quinn's own CUBIC has no parameters")))
                }
                None => Ok(CongestionControl::QuinnCubic),
            };
        }
        let mut config = Config::for_rate(self.rate);
        if self.law != config.law.law_name() {
            config.law = catalog::law_defaults(&self.law)?;
        }
        for set in &self.set {
            let (name, value) = set
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("--set {set:?}: write it as NAME=VALUE")))?;
            config
                .law
                .set(name.trim(), value.trim())
                .map_err(|error| Failure::Usage(format!("--set {set:?}: {error}")))?;
        }
        config.base_rtt = self.base_rtt;
        Ok(CongestionControl::Law(Box::new(config)))
    }
}

/// Runs the client or the server on a new runtime.
fn block_on<T>(task: impl Future<Output = Result<T, PerfError>>) -> Result<T, PerfError> {
    let runtime = tokio::runtime::Runtime::new().map_err(PerfError::io("starting the runtime"))?;
    runtime.block_on(task)
}

fn to_duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.get())
}

/// Converts an error. A law that cannot run on this host is a usage error.
fn to_failure(error: PerfError) -> Failure {
    match error {
        PerfError::Config(error) => Failure::Usage(error.to_string()),
        error => Failure::Run(error.to_string()),
    }
}
