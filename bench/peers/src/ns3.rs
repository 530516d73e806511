//! Runs our ns-3 programs and parses their JSON output.

use core::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chain::{BUFFER, Chain, WatchedQueue};
use crate::results::{DumbbellResult, Speed};
use crate::scenario::{Dumbbell, Law, MARK_PACKETS, QueueDiscipline, SEGMENT, SLICES, Star};

/// The reason that ns-3 did not produce a result.
#[derive(Debug)]
pub(crate) enum Ns3Error {
    /// The program does not exist.
    Missing(PathBuf),
    /// There is no ns-3 program with Poseidon's laws in this folder.
    MissingLaws(PathBuf),
    /// The program could not be started.
    Start(std::io::Error),
    /// The program failed. The string contains its stderr output.
    Failed(String),
    /// The output does not contain this field.
    MissingField(&'static str),
}

impl fmt::Display for Ns3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => {
                write!(f, "{} is missing: run bench/peers/install and bench/peers/build", path.display())
            }
            Self::MissingLaws(folder) => {
                write!(f, "{} has no programs: run ns3/build", folder.display())
            }
            Self::Start(error) => write!(f, "cannot start ns-3: {error}"),
            Self::Failed(stderr) => write!(f, "ns-3 failed: {stderr}"),
            Self::MissingField(key) => write!(f, "the output of ns-3 has no field {key:?}"),
        }
    }
}

impl core::error::Error for Ns3Error {}

pub(crate) fn run_dumbbell(scenario: &Dumbbell) -> Result<DumbbellResult, Ns3Error> {
    let law = match scenario.law {
        Law::Dctcp => "TcpDctcp",
        Law::Cubic => "TcpCubic",
    };
    let discipline = match scenario.discipline {
        QueueDiscipline::MarkOnDequeue => "leaving",
        QueueDiscipline::MarkOnEnqueue => "red",
        QueueDiscipline::Fifo => "fifo",
    };
    let recovery = if scenario.prr { "TcpPrrRecovery" } else { "TcpClassicRecovery" };
    let line = run_program(
        "dumbbell",
        &[
            format!("--flows={}", scenario.flows),
            format!("--law={law}"),
            format!("--disc={discipline}"),
            format!("--rate={}bps", scenario.rate.get()),
            format!("--host-rate={}bps", scenario.host_rate().get()),
            format!("--delay={}ns", scenario.delay.get()),
            format!("--buffer={}", scenario.buffer),
            format!("--threshold={}", scenario.threshold),
            format!("--recovery={recovery}"),
            format!("--segment={}", SEGMENT.get()),
            format!("--slices={SLICES}"),
            format!("--stop={}ns", scenario.stop.get()),
            format!("--gap={}ns", scenario.start_gap.get()),
            format!("--every={}ns", scenario.sample_interval().get()),
            format!("--min-rto={}ns", scenario.min_rto.get()),
        ],
    )?;
    parse_result(&line, scenario.flows as usize)
}

/// A version of ns-3 for which `ns3/build` has built our programs.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    chain: PathBuf,
}

/// Returns the versions of ns-3 for which our programs exist.
pub(crate) fn chain_programs() -> Result<Vec<Version>, Ns3Error> {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ns3/out");
    let versions = [("debian", "ns-3.37"), ("wheel", "ns-3.44")]
        .map(|(folder, name)| Version { name: name.to_owned(), chain: out.join(folder).join("chain") });
    let found: Vec<Version> = versions.into_iter().filter(|version| version.chain.exists()).collect();
    if found.is_empty() { Err(Ns3Error::MissingLaws(out)) } else { Ok(found) }
}

/// Runs a chain in ns-3 with one of Poseidon's laws.
pub(crate) fn run_chain(chain: &Chain, version: &Version) -> Result<DumbbellResult, Ns3Error> {
    let plan = crate::simulator::chain_plan(chain);
    let flows = plan.connections.iter().zip(&chain.flows).enumerate().map(|(i, (connection, (from, to)))| {
        format!("{from}>{to}@{}/{}", chain.start(i).get(), plan.path(connection).base_rtt.get())
    });
    let flows: Vec<String> = flows.collect();
    let watched = match chain.queue {
        WatchedQueue::ToHost(host) => host,
        WatchedQueue::ToNext(switch) => chain.switches * chain.hosts + switch,
    };
    let line = run_command(
        &version.chain,
        &[
            format!("--switches={}", chain.switches),
            format!("--hosts={}", chain.hosts),
            format!("--rate={}bps", chain.rate.get()),
            format!("--host-rate={}bps", chain.host_rate.get()),
            format!("--delay={}ns", chain.delay.get()),
            format!("--law={}", chain.law),
            // ns-3 refuses an argument without a value.
            format!(
                "--params={}",
                if chain.params.is_empty() { "preset=paper".to_owned() } else { chain.params_text() }
            ),
            format!("--line-rate={}bps", chain.host_rate.get()),
            format!("--flows={}", flows.join(",")),
            format!("--watched={watched}"),
            format!("--buffer={BUFFER}"),
            format!("--threshold={}", chain.threshold().unwrap_or(0)),
            format!("--segment={}", SEGMENT.get()),
            format!("--send-buffer={}", chain.send_buffer),
            format!("--slices={SLICES}"),
            format!("--stop={}ns", chain.stop.get()),
            format!("--every={}ns", chain.sample_interval().get()),
        ],
    )?;
    parse_result(&line, chain.flows.len())
}

fn parse_result(line: &str, flows: usize) -> Result<DumbbellResult, Ns3Error> {
    let missing = || Ns3Error::MissingField("goodput_bps");
    let list = field(line, "goodput_bps").ok_or_else(missing)?;
    let numbers = list.trim_matches(['[', ']']).split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let numbers = numbers.map_err(|_| missing())?;
    Ok(DumbbellResult {
        goodput_bps: numbers.chunks(flows).map(<[f64]>::to_vec).collect(),
        mean_queue_bytes: number(line, "mean_queue_bytes")?,
        drops: number(line, "drops")?,
    })
}

pub(crate) fn run_star(scenario: &Star) -> Result<Speed, Ns3Error> {
    let line = run_program(
        "star",
        &[
            format!("--hosts={}", scenario.hosts),
            format!("--shift={}", scenario.shift()),
            format!("--threshold={MARK_PACKETS}"),
            format!("--segment={}", SEGMENT.get()),
            format!("--stop={}ns", scenario.stop.get()),
        ],
    )?;
    Ok(Speed { packet_hops: number(&line, "packet_hops")?, wall_seconds: number(&line, "wall_seconds")? })
}

/// Checks that both ns-3 programs exist.
pub(crate) fn check_programs() -> Result<(), Ns3Error> {
    program_path("dumbbell")?;
    program_path("star")?;
    Ok(())
}

fn program_path(name: &str) -> Result<PathBuf, Ns3Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("out").join(name);
    if path.exists() { Ok(path) } else { Err(Ns3Error::Missing(path)) }
}

fn run_program(name: &str, arguments: &[String]) -> Result<String, Ns3Error> {
    run_command(&program_path(name)?, arguments)
}

fn run_command(program: &Path, arguments: &[String]) -> Result<String, Ns3Error> {
    let output = Command::new(program).args(arguments).output().map_err(Ns3Error::Start)?;
    if !output.status.success() {
        return Err(Ns3Error::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn number<T: core::str::FromStr>(line: &str, key: &'static str) -> Result<T, Ns3Error> {
    field(line, key).and_then(|text| text.parse().ok()).ok_or(Ns3Error::MissingField(key))
}

/// Returns the text of a field in a flat JSON object that contains only numbers and lists of numbers.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
    let end = if rest.starts_with('[') { rest.find(']')? + 1 } else { rest.find([',', '}'])? };
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_are_parsed() {
        let line = r#"{"goodput_bps":[1.5,2e9],"drops":7,"wall_seconds":0.25}"#;
        assert_eq!(field(line, "goodput_bps"), Some("[1.5,2e9]"));
        assert_eq!(field(line, "drops"), Some("7"));
        assert_eq!(number::<f64>(line, "wall_seconds").unwrap(), 0.25);
        assert!(number::<u64>(line, "marks").is_err());
    }
}
