//! The command `poseidon`: parses arguments, connects a backend to the lab and prints results. Data goes to stdout, and
//! messages go to stderr.
//!
//! The command is also a library, so that a program of your own can be this command with a congestion controller of
//! your own: [`run_with_stacks`]. `docs/howto/gate.md` shows such a program.

/// Prints a line of data. [`output::finish`] reports write errors at the end.
macro_rules! outln {
    () => { crate::output::print_line(format_args!("")) };
    ($($text:tt)+) => { crate::output::print_line(format_args!($($text)+)) };
}

mod args;
mod backend;
mod backend_kind;
#[cfg(any(feature = "linux", feature = "quic"))]
mod build_info;
mod card;
mod catalog;
mod cloud;
mod cluster;
mod code_hash;
mod convert;
mod duration;
mod failure;
mod figures;
mod gate;
mod linux;
mod location;
mod man;
mod map;
mod output;
mod perf;
mod print;
mod progress;
mod published;
mod recording;
mod records;
mod repository;
mod rollout;
mod serve;
mod studies;
mod study_args;

use args::{Cli, Command, TaskArgs, TestbedCommand};
use backend_kind::BackendKind;
use clap::{CommandFactory, Parser};
pub(crate) use failure::Failure;
use location::Location;
use poseidon_lab::listing::NameKind;
use poseidon_lab::runner::TaskShare;
use poseidon_lab::scenario;
use poseidon_plan::stack_factory::StackFactory;
use std::process::ExitCode;
use study_args::StudyArgs;

/// Runs the command with the process's arguments, and with these transport stacks instead of the built-in ones. Results
/// are stored under the hash of the executable, so results of another build are not reused.
pub fn run_with_stacks(stacks: &'static dyn StackFactory) -> ExitCode {
    backend::set_stacks(stacks);
    run_command()
}

/// Runs the command with the process's arguments.
pub fn run_command() -> ExitCode {
    let result = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        // Help and version also go to stdout.
        Err(message) if !message.use_stderr() => {
            output::keep_error(message.print());
            Ok(())
        }
        Err(message) => message.exit(),
    };
    let output_result = output::finish().map_err(Failure::Output);
    let failures: Vec<Failure> = [result, output_result].into_iter().filter_map(Result::err).collect();
    failures.iter().for_each(|failure| eprintln!("poseidon: {failure}"));
    failures.first().map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.exit_code()))
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run {
            scenario,
            study: args,
            records,
            backend,
            record,
            task: TaskArgs { task: Some(shard), own_share_only, expiry },
        } => {
            if backend != BackendKind::Sim || record.is_on() {
                return Err(Failure::Usage("--task needs the simulator, and records nothing".into()));
            }
            let study = catalog::with_laws(catalog::find_study(&scenario, args.quick)?, &args.law)?;
            let task = TaskShare { shard, helps_others: !own_share_only };
            studies::run_task(study, &args, records.format(), task, expiry)
        }
        Command::Run { scenario, study: args, records, backend, record, .. } => {
            figures::check(&args.figures)?;
            if scenario == catalog::STDIN {
                // The process in the namespaces must be the one that reads standard input.
                backend::enter_namespaces(backend)?;
            }
            if backend != BackendKind::Sim {
                // Real packets have no reproducible result, so machines cannot share their runs.
                location::require_folder(&args.output)?;
            }
            let study = catalog::with_laws(catalog::find_study(&scenario, args.quick)?, &args.law)?;
            let recording = recording::check(&study, &record, backend)?;
            backend::enter_namespaces(backend)?;
            studies::run_one(study, &args, records.format(), backend, recording.as_ref())
        }
        Command::Repro { papers, all, only, list, shard, study: args, records } => {
            figures::check(&args.figures)?;
            let studies = catalog::studies_of_papers(&papers, all, &only, args.quick)?;
            let studies = studies.into_iter().map(|study| catalog::with_laws(study, &args.law));
            let studies = studies.collect::<Result<Vec<_>, _>>()?;
            if list {
                print::print_plan(&studies, args.seeds, args.json);
                return Ok(());
            }
            studies::run_suite(studies, &args, records.format(), shard)
        }
        Command::Report { folder, .. } if Location::new(&folder) != Location::Folder(&folder) => {
            location::require_folder(&folder)
        }
        Command::Report { folder, judge_again: true, .. } => published::judge_again(&folder),
        Command::Report { folder, json, publish, judge_again: false } => {
            studies::report(&folder, json, publish.as_deref())
        }
        Command::Verify { scenario, results, jobs, output, json, quiet } => {
            let (max_memory, max_time) = (None, None);
            let args = StudyArgs {
                quick: false,
                law: Vec::new(),
                seeds: None,
                jobs,
                output,
                local: None,
                json,
                quiet,
                max_memory,
                max_time,
                figures: Vec::new(),
            };
            published::verify(&scenario, &results, &args)
        }
        Command::Import(args) => convert::import(&args),
        Command::Export(args) => convert::export(&args),
        Command::Emit(args) => cluster::emit(&args),
        Command::Status(args) => cluster::status(&args),
        Command::Merge(args) => cluster::merge_folders(&args),
        Command::Compare { first, second, fail_if, json, .. } if !fail_if.is_empty() => {
            gate::compare_folders(&first, &second, &fail_if, json)
        }
        Command::Gate(args) => gate::run(&args),
        Command::Card(args) => {
            figures::check(&args.study.figures)?;
            card::run(&args)
        }
        Command::Compare { first, second, metric, json, .. } if second.is_file() => {
            convert::compare_with_fct(&first, &second, &metric, json)
        }
        Command::Compare { first, second, metric, json, .. } => {
            studies::compare(&first, &second, &metric, json)
        }
        Command::Explain { scenario, all, seed, quick } => {
            studies::explain(&catalog::find_study(&scenario, quick)?, all, seed)
        }
        Command::Rollout(args) => rollout::run(&args),
        Command::Laws { name: None, json } => {
            print::print_laws(json);
            Ok(())
        }
        Command::Laws { name: Some(name), json } => print::print_law(&name, json),
        Command::List { kind: None, json } => print::print_names(&NameKind::ALL, json),
        Command::List { kind: Some(kind), json } => print::print_names(&[kind.names()], json),
        Command::Scenarios { name: None, json } => print::print_scenarios(json),
        Command::Scenarios { name: Some(name), .. } => {
            outln!("{}", catalog::find_study(&name, false)?.text.trim_end());
            Ok(())
        }
        Command::Testbed { command: TestbedCommand::Clean } => backend::clean_testbed(),
        Command::Linux(command) => linux::run(&command),
        Command::Perf(command) => perf::run(&command),
        Command::Serve(args) => serve::run(&args),
        Command::Schema => {
            outln!("{}", serde_json::to_string_pretty(&scenario::schema())?);
            Ok(())
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "poseidon", &mut text);
            outln!("{}", String::from_utf8_lossy(&text).trim_end());
            Ok(())
        }
        Command::Man => {
            let page = man::render().map_err(|error| Failure::Run(error.to_string()))?;
            outln!("{}", String::from_utf8_lossy(&page).trim_end());
            Ok(())
        }
    }
}
