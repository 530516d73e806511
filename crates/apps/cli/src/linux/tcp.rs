//! `poseidon tcp`.

use super::args::Tcp;
use super::{failed, say_json};
use crate::Failure;
use poseidon_linux::tcp::{self, Settings, TcpError, TcpFlow, TcpStatus};
use serde_json::{Value, json};

pub(super) fn run(command: &Tcp) -> Result<(), Failure> {
    match command {
        Tcp::Enable { rate, set, cgroup } => {
            let mut settings = Settings::for_rate(*rate);
            for setting in set {
                let written = setting.split_once('=');
                let (name, value) = written
                    .ok_or_else(|| Failure::Usage(format!("--set {setting:?}: write it as NAME=VALUE")))?;
                settings
                    .set(name.trim(), value.trim())
                    .map_err(|why| Failure::Usage(format!("--set {why}")))?;
            }
            if cgroup.is_some() {
                settings.cgroup.clone_from(cgroup);
            }
            let path = tcp::enable(&settings).map_err(|why| match why {
                TcpError::Settings(why) => Failure::Usage(why.to_string()),
                why => failed(why),
            })?;
            say!("{}", path.display());
            if tcp::is_root(&path) {
                eprintln!(
                    "warning: this is the root of all cgroups: every new connection of the machine gets poseidon, \
                     those of daemons and of your own shell too"
                );
            }
            eprintln!(
                "on; a program that is started in this cgroup has it: echo $$ > {}/cgroup.procs",
                path.display()
            );
            Ok(())
        }
        Tcp::Disable { restore } => {
            // Before: a name that the kernel does not have leaves everything as it is.
            if let Some(law) = restore {
                let count = tcp::restore_connections(law).map_err(failed)?;
                eprintln!("{count} connections have {law} now");
            }
            tcp::disable().map_err(failed)
        }
        Tcp::Status { json } => {
            let status = tcp::status().map_err(failed)?;
            if *json {
                return say_json(&status.as_ref().map_or_else(|| json!({ "on": false }), status_json));
            }
            say!(
                "{}",
                status.map_or_else(|| "off".to_owned(), |status| status.to_string().trim_end().to_owned())
            );
            Ok(())
        }
        Tcp::Flows { json } => {
            let flows = tcp::flows().map_err(failed)?;
            if *json {
                return say_json(&Value::Array(flows.iter().map(flow_json).collect()));
            }
            say!("{}", TcpFlow::HEAD);
            for flow in &flows {
                say!("{flow}");
            }
            Ok(())
        }
    }
}

fn status_json(status: &TcpStatus) -> Value {
    let settings: serde_json::Map<_, _> = status
        .settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let costs = status.costs.iter().map(|cost| {
        let took = u64::try_from(cost.took.as_nanos()).unwrap_or(u64::MAX);
        json!({ "program": cost.program, "runs": cost.runs, "took_ns": took })
    });
    json!({
        "on": true,
        "since_s": status.since.as_secs(),
        "cgroup": status.cgroup,
        "flows": status.flows,
        "is_attached": status.is_attached,
        "agreed": status.agreed,
        "refused": status.refused,
        "unchosen": status.unchosen,
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
        "speaks_option": flow.speaks_option,
        "target_ns": flow.target.get(),
        "delay_ns": flow.delay.get(),
        "window_packets": flow.window.q24() as f64 / f64::from(1 << poseidon_types::Packets::FRACTION_BITS),
        "whole_window_packets": flow.whole_window,
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
