//! ns-3's side: runs one of our programs and reads its line of JSON.

use core::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::{Shared, Speed};
use crate::scenario::{Disc, Dumbbell, Law, MARK_PACKETS, SEGMENT, SLICES, Star};

/// Why there is no answer from ns-3.
#[derive(Debug)]
pub(crate) enum Ns3Error {
    /// The program is not there.
    Missing(PathBuf),
    /// It could not be started, or ended with an error.
    Failed(String),
    /// Its answer lacks this.
    Answer(&'static str),
}

impl fmt::Display for Ns3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => {
                write!(f, "{} is missing: run bench/peers/install and bench/peers/build", path.display())
            }
            Self::Failed(why) => write!(f, "ns-3 failed: {why}"),
            Self::Answer(key) => write!(f, "ns-3's answer has no {key}"),
        }
    }
}

impl core::error::Error for Ns3Error {}

pub(crate) fn dumbbell(scenario: &Dumbbell) -> Result<Shared, Ns3Error> {
    let law = match scenario.law {
        Law::Dctcp => "TcpDctcp",
        Law::Cubic => "TcpCubic",
    };
    let disc = match scenario.disc {
        Disc::Leaving => "leaving",
        Disc::Arriving => "red",
        Disc::Fifo => "fifo",
    };
    let recovery = if scenario.spread_cuts { "TcpPrrRecovery" } else { "TcpClassicRecovery" };
    let line = run(
        "dumbbell",
        &[
            format!("--flows={}", scenario.flows),
            format!("--law={law}"),
            format!("--disc={disc}"),
            format!("--rate={}bps", scenario.rate.get()),
            format!("--host-rate={}bps", scenario.host_rate().get()),
            format!("--delay={}ns", scenario.delay.get()),
            format!("--buffer={}", scenario.buffer),
            format!("--threshold={}", scenario.threshold),
            format!("--recovery={recovery}"),
            format!("--segment={}", SEGMENT.get()),
            format!("--slices={SLICES}"),
            format!("--stop={}ns", scenario.stop.get()),
            format!("--gap={}ns", scenario.gap.get()),
            format!("--every={}ns", scenario.look_every().get()),
            format!("--min-rto={}ns", scenario.min_rto.get()),
        ],
    )?;
    let refused = || Ns3Error::Answer("goodput_bps");
    let list = field(&line, "goodput_bps").ok_or_else(refused)?;
    let numbers = list.trim_matches(['[', ']']).split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let numbers = numbers.map_err(|_| refused())?;
    Ok(Shared {
        goodput_bps: numbers.chunks(scenario.flows as usize).map(<[f64]>::to_vec).collect(),
        mean_queue_bytes: number(&line, "mean_queue_bytes")?,
        drops: number(&line, "drops")?,
    })
}

pub(crate) fn star(scenario: &Star) -> Result<Speed, Ns3Error> {
    let line = run(
        "star",
        &[
            format!("--hosts={}", scenario.hosts),
            format!("--shift={}", scenario.shift()),
            format!("--threshold={MARK_PACKETS}"),
            format!("--segment={}", SEGMENT.get()),
            format!("--stop={}ns", scenario.stop.get()),
        ],
    )?;
    speed(&line)
}

/// Whether the programs are there.
pub(crate) fn check() -> Result<(), Ns3Error> {
    program("dumbbell")?;
    program("star")?;
    Ok(())
}

fn program(name: &str) -> Result<PathBuf, Ns3Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("out").join(name);
    if path.exists() { Ok(path) } else { Err(Ns3Error::Missing(path)) }
}

fn run(name: &str, arguments: &[String]) -> Result<String, Ns3Error> {
    let output = Command::new(program(name)?)
        .args(arguments)
        .output()
        .map_err(|error| Ns3Error::Failed(error.to_string()))?;
    if !output.status.success() {
        return Err(Ns3Error::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn speed(line: &str) -> Result<Speed, Ns3Error> {
    Ok(Speed { packet_hops: number(line, "packet_hops")?, wall_seconds: number(line, "wall_seconds")? })
}

fn number<T: core::str::FromStr>(line: &str, key: &'static str) -> Result<T, Ns3Error> {
    field(line, key).and_then(|text| text.parse().ok()).ok_or(Ns3Error::Answer(key))
}

/// The text of a field of one flat JSON object that holds numbers and lists of numbers, as our programs print it.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
    let end = if rest.starts_with('[') { rest.find(']')? + 1 } else { rest.find([',', '}'])? };
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_lists() {
        let line = r#"{"goodput_bps":[1.5,2e9],"drops":7,"wall_seconds":0.25}"#;
        assert_eq!(field(line, "goodput_bps"), Some("[1.5,2e9]"));
        assert_eq!(field(line, "drops"), Some("7"));
        assert_eq!(number::<f64>(line, "wall_seconds").unwrap(), 0.25);
        assert!(number::<u64>(line, "marks").is_err());
    }
}
