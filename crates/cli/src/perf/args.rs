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
        /// Where it listens. Switches stamp only what goes to UDP port 65053.
        #[arg(long, default_value = "0.0.0.0:65053")]
        listen: SocketAddr,
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
    /// The server: `10.0.0.2:65053`.
    pub(crate) server: SocketAddr,
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
    /// A file for every decision of the law: qlog, one JSON value per line.
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
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
