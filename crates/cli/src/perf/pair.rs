//! Both ends at work.

use super::args::{ClientArgs, Perf, SteeringArgs};
use crate::{Failure, catalog};
use core::time::Duration;
use poseidon_quic::Config;
use poseidon_quic::perf::{self, PerfError, ServerArgs, Steering, block_on};
use poseidon_types::Nanos;

pub(crate) fn run(command: &Perf) -> Result<(), Failure> {
    match command {
        Perf::Server { listen, once, steering } => {
            let mut args = ServerArgs::new(steering.steering()?);
            (args.listen, args.once) = (*listen, *once);
            let ready = |at| eprintln!("listening on {at}");
            block_on(perf::serve(args, ready)).map_err(failed)
        }
        Perf::Client(args) => client(args),
    }
}

fn client(args: &ClientArgs) -> Result<(), Failure> {
    let mut asked = perf::ClientArgs::new(args.server, args.steering.steering()?);
    asked.bind = args.bind.unwrap_or(asked.bind);
    asked.connections = args.connections.into();
    asked.streams = args.streams.into();
    asked.duration = duration(args.time);
    asked.interval = duration(args.interval);
    if args.qlog.is_some() && matches!(asked.steering, Steering::Quinn) {
        return Err(Failure::Usage("--qlog: quinn's own congestion control tells of no decision".into()));
    }
    asked.qlog.clone_from(&args.qlog);
    let summary = block_on(perf::run(asked, |interval| {
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
    Ok(())
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
