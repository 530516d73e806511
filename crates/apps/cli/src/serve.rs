//! `poseidon serve`: a local lab in the browser.
//!
//! The command requires the feature `serve`, which adds an HTTP server. Builds without the feature accept the command,
//! but only print how to enable it.

use crate::duration::parse_duration;
use clap::Args;
use core::time::Duration;
use poseidon_types::Bytes;
use std::path::PathBuf;

#[cfg(feature = "serve")]
pub(crate) use command::run;

/// The arguments of `poseidon serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The scenario to open first: a file, or the name of a built-in scenario.
    #[arg(default_value = "quickstart")]
    scenario: String,
    /// The TCP port on 127.0.0.1; 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Open the page in the default browser.
    #[arg(long)]
    open: bool,
    /// The results folder. Nothing is written elsewhere.
    #[arg(long, short, default_value = "results")]
    output: PathBuf,
    /// The folder of the files that scenarios may name [default: the folder of the scenario].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Number of parallel runs [default: number of cores].
    #[arg(long, short)]
    jobs: Option<usize>,
    /// Do not start runs that would need more memory.
    #[arg(long, value_name = "SIZE", default_value = "4 GB")]
    max_memory: Bytes,
    /// Do not start runs that would take longer, and stop them after that time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1 h")]
    max_time: Duration,
}

/// Explains how to build the command with the server.
#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: &ServeArgs) -> Result<(), crate::Failure> {
    Err(crate::Failure::NotBuilt(
        "this poseidon was built without serve; to use it, run this command in a clone of the project:\n  \
         cargo install --path crates/apps/cli --features serve    # adds an HTTP server in pure Rust",
    ))
}

#[cfg(feature = "serve")]
mod command {
    use super::ServeArgs;
    use crate::backend_kind::BackendKind;
    use crate::failure::RESULTS_KEPT;
    use crate::{Failure, backend, catalog, output};
    use poseidon_lab::budget::Limits;
    use poseidon_serve::{
        Environment, OpenScenario, ServeError, ServeOptions, Server, StopHandle, open_browser,
    };
    use std::path::{Path, PathBuf};

    /// The largest file that the editor opens.
    const MAX_FILE: u64 = 256 << 10;

    /// Serves the lab until Ctrl-C.
    pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
        crate::location::require_folder(&args.output)?;
        let (first, folder) = find_scenario(&args.scenario)?;
        let options = ServeOptions {
            port: args.port,
            output: args.output.clone(),
            input: args.folder.clone().unwrap_or(folder),
            limits: Limits { memory: Some(args.max_memory), time: Some(args.max_time) },
            jobs: backend::jobs(BackendKind::Sim, args.jobs),
            first,
        };
        let environment = Environment {
            backend: Box::new(backend::simulator()),
            scenarios: catalog::SCENARIOS,
            program: backend::program(BackendKind::Sim),
        };
        let server = Server::bind(options, environment).map_err(to_failure)?;
        set_signal_handler(server.stop_handle());
        let url = server.url();
        outln!("{url}");
        // A program that waits for the address must see it now.
        let _ = output::finish();
        eprintln!("the lab listens on 127.0.0.1 only; open the URL above, and press Ctrl-C to stop");
        let _redirect = match args.open {
            true => open_browser(&url).inspect_err(|error| eprintln!("poseidon: {error}")).ok(),
            false => None,
        };
        let end = server.run().map_err(to_failure)?;
        match end.interrupted_runs {
            true => Err(Failure::Interrupted(RESULTS_KEPT)),
            false => Ok(()),
        }
    }

    /// Stops the server on Ctrl-C, SIGTERM and SIGHUP. A second signal terminates the program.
    fn set_signal_handler(stop: StopHandle) {
        // If the handler cannot be set, these signals terminate the program immediately.
        let _ = ctrlc::set_handler(move || {
            if stop.stop() {
                std::process::exit(130);
            }
        });
    }

    /// Returns the text of a scenario, which may be invalid, and the folder of its files.
    fn find_scenario(name: &str) -> Result<(OpenScenario, PathBuf), Failure> {
        let path = Path::new(name);
        if !path.is_file() {
            let study = catalog::find_study(name, false)?;
            return Ok((OpenScenario { name: study.name, text: study.text }, PathBuf::from(".")));
        }
        let size = std::fs::metadata(path).map_err(Failure::file(path))?.len();
        if size > MAX_FILE {
            return Err(Failure::Usage(format!("{name} has more than 256 KiB; run it with `poseidon run`")));
        }
        let bytes = std::fs::read(path).map_err(Failure::file(path))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::Usage(format!("{name} is not UTF-8; save it as plain text")))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((OpenScenario { name: stem, text }, folder.unwrap_or_else(|| Path::new(".")).to_owned()))
    }

    fn to_failure(error: ServeError) -> Failure {
        match error {
            ServeError::Bind { .. } | ServeError::Output { .. } => Failure::Usage(error.to_string()),
            error => Failure::Run(error.to_string()),
        }
    }
}
