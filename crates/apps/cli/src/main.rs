//! The command `poseidon`: parses, wires a backend to the lab, prints. Data goes to stdout, messages to stderr.

/// Prints a line of data. Whether it got out is asked at the end ([`output::finish`]).
macro_rules! say {
    () => { crate::output::line(format_args!("")) };
    ($($text:tt)+) => { crate::output::line(format_args!($($text)+)) };
}

mod args;
mod backend;
mod catalog;
mod code_hash;
mod linux;
mod output;
mod perf;
mod print;
mod published;
mod studies;
mod watch;

use args::{Cli, Command, How, On, TestbedCommand};
use clap::{CommandFactory, Parser};
use poseidon_lab::scenario::{self, ScenarioError};
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
    /// Ctrl-C, SIGTERM or SIGHUP; says what becomes of the work.
    Interrupted(&'static str),
    /// What was printed did not all get out.
    Output(&'static std::io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Run(_) | Self::Output(_) => 1,
            Self::Usage(_) => 2,
            Self::Scenario(_) => 3,
            Self::Gate(_) => 4,
            Self::NotBuilt(_) => 5,
            Self::Interrupted(_) => 130,
        }
    }
}

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        // Help and version are data as well.
        Err(message) if !message.use_stderr() => {
            output::keep(message.print());
            Ok(())
        }
        Err(message) => message.exit(),
    };
    let printed = output::finish().map_err(Failure::Output);
    let failures: Vec<Failure> = [done, printed].into_iter().filter_map(Result::err).collect();
    failures.iter().for_each(print_failure);
    failures.first().map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.code()))
}

fn print_failure(failure: &Failure) {
    match failure {
        Failure::Run(why) | Failure::Usage(why) => eprintln!("poseidon: {why}"),
        Failure::NotBuilt(how) => eprintln!("poseidon: {how}"),
        Failure::Scenario(error) => eprintln!("poseidon: {error}"),
        Failure::Gate(1) => eprintln!("poseidon: a gating claim fails"),
        Failure::Gate(claims) => eprintln!("poseidon: {claims} gating claims fail"),
        Failure::Interrupted(kept) => eprintln!("poseidon: interrupted; {kept}"),
        Failure::Output(error) => eprintln!("poseidon: cannot write to stdout: {error}"),
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
            let schema = serde_json::to_string_pretty(&scenario::schema());
            say!("{}", schema.map_err(|error| Failure::Run(error.to_string()))?);
            Ok(())
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "poseidon", &mut text);
            say!("{}", String::from_utf8_lossy(&text).trim_end());
            Ok(())
        }
        Command::Man => {
            let page = manual_page().map_err(|error| Failure::Run(error.to_string()))?;
            say!("{}", String::from_utf8_lossy(&page).trim_end());
            Ok(())
        }
    }
}

/// The manual page. It is the only one, so that its list of commands refers to their `--help` and not to pages of their own.
fn manual_page() -> std::io::Result<Vec<u8>> {
    use std::io::Write as _;
    let command = Cli::command();
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    writeln!(
        text,
        ".SH COMMANDS\n\\fBposeidon\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR prints the options of a command."
    )?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(text, ".TP\n\\fBposeidon {}\\fR\n{}", roff(command.get_name()), roff(&about))?;
    }
    page.render_extra_section(&mut text)?;
    page.render_version_section(&mut text)?;
    Ok(text)
}

/// Text as roff has it: hyphens and backslashes are escaped, and a line does not begin with a control character.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
