//! Implements `poseidon tcp`.

use super::args::Tcp;
use super::{failed, print_json};
use crate::Failure;
use poseidon_linux::tcp::{self, Settings, TcpError, TcpFlow, TcpStatus};
use poseidon_types::BitRate;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(command: &Tcp) -> Result<(), Failure> {
    match command {
        Tcp::Enable { rate, set, cgroup } => enable(*rate, set, cgroup.as_deref()),
        Tcp::Disable { restore } => {
            // Restore connections first, so that an unknown name leaves everything unchanged.
            if let Some(law) = restore {
                let count = tcp::restore_connections(law).map_err(failed)?;
                eprintln!("{count} connections now use {law}");
            }
            tcp::disable().map_err(failed)
        }
        Tcp::Status { json } => {
            let status = tcp::status().map_err(failed)?;
            if *json {
                return print_json(&status.as_ref().map_or_else(|| json!({ "on": false }), status_json));
            }
            outln!(
                "{}",
                status.map_or_else(|| "off".to_owned(), |status| status.to_string().trim_end().to_owned())
            );
            Ok(())
        }
        Tcp::Flows { json } => {
            let flows = tcp::flows().map_err(failed)?;
            if *json {
                return print_json(&Value::Array(flows.iter().map(flow_json).collect()));
            }
            outln!("{}", TcpFlow::HEADER);
            for flow in &flows {
                outln!("{flow}");
            }
            Ok(())
        }
    }
}

fn enable(rate: BitRate, set: &[String], cgroup: Option<&Path>) -> Result<(), Failure> {
    let mut settings = Settings::for_rate(rate);
    for setting in set {
        let pair = setting.split_once('=');
        let (name, value) =
            pair.ok_or_else(|| Failure::Usage(format!("--set {setting:?}: write it as NAME=VALUE")))?;
        settings.set(name.trim(), value.trim()).map_err(|error| Failure::Usage(format!("--set {error}")))?;
    }
    if cgroup.is_some() {
        settings.cgroup = cgroup.map(Path::to_owned);
    }
    let path = tcp::enable(&settings).map_err(|error| match error {
        TcpError::Settings(error) => Failure::Usage(error.to_string()),
        error => failed(error),
    })?;
    outln!("{}", path.display());
    if tcp::is_root_cgroup(&path) {
        eprintln!(
            "warning: this is the root cgroup: every new connection of the machine gets poseidon, including those \
             of daemons and of your shell"
        );
    }
    eprintln!(
        "enabled; programs that start in this cgroup use it: echo $$ > {}/cgroup.procs",
        path.display()
    );
    Ok(())
}

fn status_json(status: &TcpStatus) -> Value {
    let settings: serde_json::Map<_, _> = status
        .settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let costs = status.costs.iter().map(|cost| {
        let total = u64::try_from(cost.total_time.as_nanos()).unwrap_or(u64::MAX);
        json!({ "program": cost.program, "runs": cost.runs, "took_ns": total })
    });
    json!({
        "on": true,
        "since_s": status.uptime.as_secs(),
        "cgroup": status.cgroup,
        "flows": status.flows,
        "is_attached": status.is_attached,
        "agreed": status.negotiated,
        "refused": status.not_negotiated,
        "unchosen": status.not_assigned,
        "settings": settings,
        "costs": costs.collect::<Vec<_>>(),
    })
}

fn flow_json(flow: &TcpFlow) -> Value {
    let counters = &flow.counters;
    json!({
        "local": flow.local.to_string(),
        "remote": flow.remote.to_string(),
        "netns": flow.netns,
        "mode": flow.mode.to_string(),
        "speaks_option": flow.option_negotiated,
        "target_ns": flow.target.get(),
        "delay_ns": flow.delay.get(),
        "window_packets": flow.window.q24() as f64 / f64::from(1 << poseidon_types::Packets::FRACTION_BITS),
        "whole_window_packets": flow.cwnd,
        "rtt_ns": flow.rtt.get(),
        "base_rtt_ns": flow.base_rtt.get(),
        "mss_bytes": flow.mss.get(),
        "acked_bytes": flow.acked.get(),
        "acks_with_echo": counters.acks_with_echo,
        "acks_without_echo": counters.acks_without_echo,
        "guarded": counters.guarded,
        "implausible": counters.implausible,
        "ignored_losses": counters.ignored_losses,
        "competed": counters.competed,
        "missed_acks": counters.missed_acks,
        "losses": counters.losses,
        "timeouts": counters.timeouts,
    })
}
