//! The arguments of `poseidon tcp`, `switch`, `rpm` and `doctor`. They are the same in every build.

use crate::duration::parse_duration;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use core::time::Duration;
use poseidon_types::{BitRate, Nanos};
use std::path::PathBuf;

/// Commands for the Linux of this machine.
#[derive(Debug, Subcommand)]
pub(crate) enum Linux {
    /// Control Poseidon in the TCP of this machine, for the processes of a cgroup.
    #[command(subcommand)]
    Tcp(Tcp),
    /// Control ports of this machine that stamp the queueing delay on packets.
    #[command(subcommand)]
    Switch(Switch),
    /// Control ports of this machine that mark congestion on returning ACKs.
    #[command(subcommand)]
    Rpm(Rpm),
    /// Print the metrics of TCP, switches and RPM on this machine, or serve them for Prometheus.
    Metrics(MetricsArgs),
    /// Check which features this machine supports, and what to install.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The arguments of `poseidon metrics`.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Serve the metrics at http://ADDRESS/metrics until the process is stopped, such as `127.0.0.1:9811`.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "textfile")]
    pub(crate) listen: Option<String>,
    /// Write the metrics into a file for the textfile collector of the node exporter. Its name ends in `.prom`.
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Write the file again after each interval, such as `15 s`, until the process is stopped.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "textfile")]
    pub(crate) interval: Option<Duration>,
}

/// Poseidon in TCP.
#[derive(Debug, Subcommand)]
pub(crate) enum Tcp {
    /// Enable Poseidon; it stays enabled when this command ends. Prints the cgroup.
    Enable {
        /// The rate of the fastest link on the path, such as `100 Mbps`; it determines delays and windows.
        #[arg(long)]
        rate: BitRate,
        /// Another setting, such as `target-range=4 ms`; may be given several times. `poseidon laws poseidon` lists the
        /// parameters of the law; the host has base-rtt, delay-guard, default, ack-every-packet and coexistence.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// The cgroup whose processes get Poseidon; by default a cgroup `poseidon`.
        #[arg(long)]
        cgroup: Option<PathBuf>,
    },
    /// Disable Poseidon. Connections that use it keep it until they end, unless --restore is given.
    Disable {
        /// The congestion control for open connections of this network namespace, such as `cubic`.
        #[arg(long, value_name = "LAW")]
        restore: Option<String>,
    },
    /// Show whether Poseidon is enabled, its settings and its counters.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the connections that use the law, with target, delay and window.
    Flows {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Ports that stamp packets.
#[derive(Debug, Subcommand)]
pub(crate) enum Switch {
    /// Attach a port; it stays attached when this command ends.
    Attach {
        #[command(flatten)]
        port: Port,
        /// The drain rate of its queue; by default the rate that the queue reports.
        #[arg(long)]
        rate: Option<BitRate>,
        /// Whether the port writes stamps, or only measures.
        #[arg(long, value_enum, default_value = "on")]
        stamps: OnOff,
    },
    /// Change the settings of an attached port, from the next packet on.
    #[command(group = ArgGroup::new("setting").required(true).multiple(true))]
    Set {
        #[command(flatten)]
        port: Port,
        /// The drain rate of its queue.
        #[arg(long, group = "setting")]
        rate: Option<BitRate>,
        /// Whether the port writes stamps, or only measures.
        #[arg(long, value_enum, group = "setting")]
        stamps: Option<OnOff>,
    },
    /// Detach a port, and discard its counters.
    Detach(Detach),
    /// Show the counters of ports.
    Status(Status),
}

/// Ports that mark packets or ACKs.
#[derive(Debug, Subcommand)]
pub(crate) enum Rpm {
    /// Attach a port; it stays attached when this command ends.
    Attach {
        #[command(flatten)]
        port: Port,
        /// The drain rate of its queue; by default the rate that the queue reports.
        #[arg(long)]
        rate: Option<BitRate>,
        /// The direction of marks.
        #[arg(long, value_enum, default_value = "per-flow")]
        direction: Direction,
        /// The delay below which `CoDel` marks no packet.
        #[arg(long, default_value = "1 ms")]
        target: Nanos,
        /// How long the delay may exceed the target.
        #[arg(long, default_value = "20 ms")]
        interval: Nanos,
    },
    /// Detach a port, and discard its counters and stored marks.
    Detach(Detach),
    /// Show the counters of ports.
    Status(Status),
}

/// A port to detach, or the pinned counters of deleted devices.
#[derive(Debug, Args)]
pub(crate) struct Detach {
    /// The network device.
    #[arg(long = "dev", value_name = "DEV", required_unless_present = "stale", conflicts_with = "stale")]
    pub(crate) device: Option<String>,
    /// Remove the pinned counters of devices that no longer exist, and print their paths.
    #[arg(long)]
    pub(crate) stale: bool,
}

/// A port.
#[derive(Debug, Args)]
pub(crate) struct Port {
    /// The network device.
    #[arg(long = "dev", value_name = "DEV")]
    pub(crate) device: String,
}

/// Ports, and the output format.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The network device; may be given several times [default: all attached ports of this network namespace].
    #[arg(long = "dev", value_name = "DEV", conflicts_with = "stale")]
    pub(crate) devices: Vec<String>,
    /// List the pinned counters of devices that no longer exist.
    #[arg(long, conflicts_with = "metrics")]
    pub(crate) stale: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print `OpenMetrics` text, for monitoring.
    #[arg(long, conflicts_with = "json")]
    pub(crate) metrics: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// On.
    On,
    /// Off.
    Off,
}

/// The direction of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// CE in the packet itself, the baseline for RPM.
    Forward,
    /// ECE in the next ACK of the flow: RPM.
    #[value(alias = "reverse-per-flow")]
    PerFlow,
    /// ECE in the next ACK of any flow of the port.
    #[value(alias = "reverse-per-port")]
    PerPort,
}
