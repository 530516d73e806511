//! What may be written after `poseidon perf`: the same in every build.

use clap::{Args, Subcommand};
use core::net::SocketAddr;
use poseidon_types::{BitRate, Nanos};
use std::path::PathBuf;

/// A pair that measures.
#[derive(Debug, Subcommand)]
pub(crate) enum Perf {
    /// The end that counts.
    Server {
        /// Where it listens: by default on every address of IPv6 and IPv4. Switches stamp only what goes to UDP port 65053.
        #[arg(long, default_value = "[::]:65053")]
        listen: SocketAddr,
        /// Its certificate, in PEM, with those up to the authority. Without one it makes one that nobody knows.
        #[arg(long, value_name = "FILE", requires = "key")]
        cert: Option<PathBuf>,
        /// The private key of the certificate, in PEM.
        #[arg(long, value_name = "FILE", requires = "cert")]
        key: Option<PathBuf>,
        /// End when the first client has gone.
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        steering: SteeringArgs,
    },
    /// The end that sends, and reports what the server has counted.
    Client(ClientArgs),
}

/// The end that sends.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The server, by name or address: `host-2`, `10.0.0.2:65053`, `[fd00::2]:65053`. Without a port it is 65053.
    pub(crate) server: String,
    /// Authorities that the server's certificate must come from, in PEM. Without them any certificate will do.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The name in the server's certificate, where it is not the one after `client`.
    #[arg(long, requires = "ca")]
    pub(crate) name: Option<String>,
    /// From where; `0.0.0.0:65053` has the way back stamped too.
    #[arg(long)]
    pub(crate) bind: Option<SocketAddr>,
    /// Connections, all between the same two sockets.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Streams of each connection.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) streams: u16,
    /// How long.
    #[arg(long, default_value = "10 s")]
    pub(crate) time: Nanos,
    /// How often there is a report.
    #[arg(long, default_value = "1 s", value_parser = interval)]
    pub(crate) interval: Nanos,
    /// A file for decisions of the law: qlog, a sequence of JSON texts.
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
    /// Of decisions on ACKs, write at most one per connection and this time; `0 ns`: all, some megabytes per second.
    #[arg(long, value_name = "TIME", default_value = "10 ms")]
    pub(crate) qlog_interval: Nanos,
    /// For programs: one JSON value per line, an interval each, and the last one about all.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) steering: SteeringArgs,
}

/// Who steers.
#[derive(Debug, Args)]
pub(crate) struct SteeringArgs {
    /// A law that needs no more than round trips and the worst hop's delay, or `quinn`: the stack's own CUBIC without telemetry.
    #[arg(long, default_value = "poseidon")]
    pub(crate) law: String,
    /// A parameter of the law, such as `target-range=4 ms`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Of the fastest link on the way. Poseidon's delays and windows are chosen for it.
    #[arg(long, default_value = "1 Gbps")]
    pub(crate) rate: BitRate,
    /// The largest IP packet of the path: 9000 for jumbo frames.
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(1_280..))]
    pub(crate) mtu: u16,
    /// The round trip of the empty path; by default the smallest that a connection sees.
    #[arg(long)]
    pub(crate) base_rtt: Option<Nanos>,
}

/// The server answers no more often.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(10);

fn interval(text: &str) -> Result<Nanos, String> {
    let interval: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if interval < SHORTEST_INTERVAL {
        return Err(format!("the shortest is {SHORTEST_INTERVAL}"));
    }
    Ok(interval)
}
