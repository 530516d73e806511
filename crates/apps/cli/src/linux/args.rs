//! What may be written after `poseidon tcp`, `switch`, `rpm` and `doctor`: the same in every build.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use poseidon_types::{BitRate, Nanos};
use std::path::PathBuf;

/// What is done to the Linux that this runs on.
#[derive(Debug, Subcommand)]
pub(crate) enum Linux {
    /// Poseidon in this machine's TCP, for the processes of a cgroup.
    #[command(subcommand)]
    Tcp(Tcp),
    /// A port of this machine that stamps how long packets wait in its queue.
    #[command(subcommand)]
    Switch(Switch),
    /// A port of this machine that marks congestion on the ACKs that come back.
    #[command(subcommand)]
    Rpm(Rpm),
    /// Say what this machine can and cannot do, and what to install.
    Doctor {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

/// Poseidon in TCP.
#[derive(Debug, Subcommand)]
pub(crate) enum Tcp {
    /// Switch it on; it stays on when this command ends. Prints the cgroup.
    Enable {
        /// Of the fastest link on the way: `100 Mbps`. Delays and windows are chosen for it.
        #[arg(long)]
        rate: BitRate,
        /// Another setting, such as `target-range=4 ms`; may be given several times. `poseidon laws poseidon` lists those of the
        /// law; the host's are base-rtt, delay-guard, default, ack-every-packet and coexistence.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// The cgroup whose processes get it; one of our own by default.
        #[arg(long)]
        cgroup: Option<PathBuf>,
    },
    /// Switch it off. Connections that run it keep it until they end, unless --restore says what they get.
    Disable {
        /// The congestion control that connections of this network namespace get: `cubic`.
        #[arg(long, value_name = "LAW")]
        restore: Option<String>,
    },
    /// Say whether it is on, with what, and what it has done.
    Status {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// List the connections that run the law, with target, delay and window.
    Flows {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

/// Ports that stamp.
#[derive(Debug, Subcommand)]
pub(crate) enum Switch {
    /// Attach a port; it stays attached when this command ends.
    Attach {
        #[command(flatten)]
        port: Port,
        /// At which its queue is sent; by default the rate that the queue says.
        #[arg(long)]
        rate: Option<BitRate>,
        /// Whether it writes, or only measures.
        #[arg(long, value_enum, default_value = "on")]
        stamps: OnOff,
    },
    /// Change an attached port, from the next packet on.
    #[command(group = ArgGroup::new("what").required(true).multiple(true))]
    Set {
        #[command(flatten)]
        port: Port,
        /// At which its queue is sent.
        #[arg(long, group = "what")]
        rate: Option<BitRate>,
        /// Whether it writes, or only measures.
        #[arg(long, value_enum, group = "what")]
        stamps: Option<OnOff>,
    },
    /// Detach a port, and forget what it counted.
    Detach {
        #[command(flatten)]
        port: Port,
    },
    /// Say what ports have counted.
    Status(Status),
}

/// Ports that mark.
#[derive(Debug, Subcommand)]
pub(crate) enum Rpm {
    /// Attach a port; it stays attached when this command ends.
    Attach {
        #[command(flatten)]
        port: Port,
        /// At which its queue is sent; by default the rate that the queue says.
        #[arg(long)]
        rate: Option<BitRate>,
        /// Which way a mark goes.
        #[arg(long, value_enum, default_value = "per-flow")]
        direction: Direction,
        /// The delay that `CoDel` leaves alone.
        #[arg(long, default_value = "1 ms")]
        target: Nanos,
        /// How long it may be exceeded.
        #[arg(long, default_value = "20 ms")]
        interval: Nanos,
    },
    /// Detach a port, and forget what it counted and which marks wait.
    Detach {
        #[command(flatten)]
        port: Port,
    },
    /// Say what ports have counted.
    Status(Status),
}

/// One port.
#[derive(Debug, Args)]
pub(crate) struct Port {
    /// The network device.
    #[arg(long = "dev", value_name = "DEV")]
    pub(crate) device: String,
}

/// Ports, and how to print them.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The network device; may be given several times.
    #[arg(long = "dev", value_name = "DEV", required = true)]
    pub(crate) devices: Vec<String>,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
    /// For monitoring: `OpenMetrics` text.
    #[arg(long, conflicts_with = "json")]
    pub(crate) metrics: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// It does.
    On,
    /// It does not.
    Off,
}

/// Which way a mark goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// With the packet, as CE: what RPM is compared with.
    Forward,
    /// With the next ACK of the flow: RPM.
    #[value(alias = "reverse-per-flow")]
    PerFlow,
    /// With the next ACK of any flow of the port.
    #[value(alias = "reverse-per-port")]
    PerPort,
}
