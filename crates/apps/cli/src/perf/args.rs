//! The arguments of `poseidon perf`. They are the same in every build.

use clap::{Args, Subcommand};
use core::net::SocketAddr;
use poseidon_types::{BitRate, Nanos};
use std::path::PathBuf;

/// An iperf-like client and server over QUIC.
#[derive(Debug, Subcommand)]
pub(crate) enum PerfCommand {
    /// Receive data and count the bytes.
    Server {
        /// The address to listen on; the default is all IPv6 and IPv4 addresses. Switches stamp only packets to UDP port 65053.
        #[arg(long, default_value = "[::]:65053")]
        listen: SocketAddr,
        /// The certificate chain in PEM. Without it, the server creates a self-signed certificate.
        #[arg(long, value_name = "FILE", requires = "key")]
        cert: Option<PathBuf>,
        /// The private key of the certificate, in PEM.
        #[arg(long, value_name = "FILE", requires = "cert")]
        key: Option<PathBuf>,
        /// Exit when the first client has disconnected.
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        control: CongestionControlArgs,
    },
    /// Send data and report the goodput that the server measures.
    Client(ClientArgs),
}

/// The arguments of `poseidon perf client`.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The name or address of the server: `host-2`, `10.0.0.2:65053`, `[fd00::2]:65053`. The default port is 65053.
    pub(crate) server: String,
    /// The certificates of trusted authorities, in PEM. Without them, the client trusts any server.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The name in the server's certificate, if it differs from the host in SERVER.
    #[arg(long, requires = "ca")]
    pub(crate) name: Option<String>,
    /// The local address. With `0.0.0.0:65053`, switches also stamp the reverse path.
    #[arg(long)]
    pub(crate) bind: Option<SocketAddr>,
    /// The number of connections, all between the same two sockets.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// The number of streams per connection.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) streams: u16,
    /// The duration of the transfer.
    #[arg(long, default_value = "10 s")]
    pub(crate) time: Nanos,
    /// The time between two reports.
    #[arg(long, default_value = "1 s", value_parser = parse_interval)]
    pub(crate) interval: Nanos,
    /// A file for the decisions of the law, in qlog format (a JSON text sequence).
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
    /// Log at most one ACK decision per connection in each interval; `0 ns` logs all of them, several megabytes per second.
    #[arg(long, value_name = "TIME", default_value = "10 ms")]
    pub(crate) qlog_interval: Nanos,
    /// Print one JSON object per line: the intervals, then the summary.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) control: CongestionControlArgs,
}

/// The arguments that choose the congestion control.
#[derive(Debug, Args)]
pub(crate) struct CongestionControlArgs {
    /// Serve the metrics of the connections at http://ADDRESS/metrics, such as `127.0.0.1:9812`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// A law that needs only the RTT and the worst hop's delay, or `quinn`: quinn's own CUBIC without telemetry.
    #[arg(long, default_value = "poseidon")]
    pub(crate) law: String,
    /// A parameter of the law, such as `target-range=4 ms`; can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// The rate of the fastest link on the path. Poseidon's delays and windows depend on it.
    #[arg(long, default_value = "1 Gbps")]
    pub(crate) rate: BitRate,
    /// The MTU of the path in bytes: 9000 for jumbo frames.
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(1_280..))]
    pub(crate) mtu: u16,
    /// The round-trip time of the unloaded path; the default is the smallest that each connection measures.
    #[arg(long)]
    pub(crate) base_rtt: Option<Nanos>,
}

/// The shortest interval that the server accepts.
const MIN_INTERVAL: Nanos = Nanos::from_millis(10);

fn parse_interval(text: &str) -> Result<Nanos, String> {
    let interval: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if interval < MIN_INTERVAL {
        return Err(format!("the shortest interval is {MIN_INTERVAL}"));
    }
    Ok(interval)
}
