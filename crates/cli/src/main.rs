//! The command `poseidon`: parses, wires a backend to the lab, prints. Data goes to stdout, messages to stderr.

/// Prints a line of data. A reader that has seen enough and gone, such as `head`, is no failure.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod args;
mod backend;
mod catalog;
mod code_hash;
mod linux;
mod perf;
mod print;
mod published;
mod studies;
mod watch;

use args::{Cli, Command, How, On, TestbedCommand};
use clap::{CommandFactory, Parser};
use poseidon_lab::scenario::{Scenario, ScenarioError};
use std::process::ExitCode;

/// Why the command ends without what was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A run or a file failed.
    Run(String),
    /// The command line asks for what is not there.
    Usage(String),
    /// A scenario is invalid.
    Scenario(ScenarioError),
    /// A gating claim failed.
    Gate(usize),
    /// This build lacks it; says how to get it.
    #[cfg_attr(
        all(feature = "linux", feature = "quic"),
        expect(dead_code, reason = "a whole build lacks nothing")
    )]
    NotBuilt(&'static str),
    /// Ctrl-C.
    Interrupted,
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Usage(_) => 2,
            Self::Scenario(_) => 3,
            Self::Gate(_) => 4,
            Self::NotBuilt(_) => 5,
            Self::Interrupted => 130,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match &failure {
                Failure::Run(why) | Failure::Usage(why) => eprintln!("poseidon: {why}"),
                Failure::NotBuilt(how) => eprintln!("poseidon: {how}"),
                Failure::Scenario(error) => eprintln!("poseidon: {error}"),
                Failure::Gate(1) => eprintln!("poseidon: a gating claim fails"),
                Failure::Gate(claims) => eprintln!("poseidon: {claims} gating claims fail"),
                Failure::Interrupted => {
                    eprintln!(
                        "poseidon: interrupted; what was finished is kept, and `poseidon report` reads it"
                    );
                }
            }
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { scenario, how, records, on } => {
            let study = catalog::study(&scenario, how.quick)?;
            backend::enter(on)?;
            studies::run(&[study], &how, records.format(), (0, 1), false, on)
        }
        Command::Repro { papers, all, only, list, shard, how, records } => {
            let studies = catalog::of_papers(&papers, all, &only, how.quick)?;
            if list {
                print::plans(&studies, how.seeds, how.json);
                return Ok(());
            }
            studies::run(&studies, &how, records.format(), shard, true, On::Sim)
        }
        Command::Report { folder, judge_again: true, .. } => published::judge_again(&folder),
        Command::Report { folder, json, publish, judge_again: false } => {
            studies::report(&folder, json, publish.as_deref())
        }
        Command::Verify { scenario, results, jobs, output, json, quiet } => {
            let how = How { quick: false, seeds: None, jobs, output, json, quiet };
            published::verify(&scenario, &results, &how)
        }
        Command::Compare { first, second, metric, json } => studies::compare(&first, &second, &metric, json),
        Command::Explain { scenario, all, seed, quick } => {
            studies::explain(&catalog::study(&scenario, quick)?, all, seed)
        }
        Command::Laws { name, json } => print::laws(name.as_deref(), json),
        Command::Scenarios { name, json } => print::scenarios(name.as_deref(), json),
        Command::Testbed { what: TestbedCommand::Clean } => backend::clean(),
        Command::Linux(command) => linux::run(&command),
        Command::Perf(command) => perf::run(&command),
        Command::Schema => {
            let schema = schemars::schema_for!(Scenario);
            say!(
                "{}",
                serde_json::to_string_pretty(&schema).map_err(|error| Failure::Run(error.to_string()))?
            );
            Ok(())
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "poseidon", &mut text);
            say!("{}", String::from_utf8_lossy(&text).trim_end());
            Ok(())
        }
        Command::Man => {
            let mut text = Vec::new();
            let page = clap_mangen::Man::new(Cli::command());
            page.render(&mut text).map_err(|error| Failure::Run(error.to_string()))?;
            say!("{}", String::from_utf8_lossy(&text).trim_end());
            Ok(())
        }
    }
}
