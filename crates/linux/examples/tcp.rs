//! Switches Poseidon on and off in this machine's TCP and shows what it does; sends and receives for tests.
//!
//! ```sh
//! cargo build -p poseidon-linux --example tcp
//! alias tcp=target/debug/examples/tcp
//! sudo tcp enable '100 Mbps' 'target-range=4 ms' default=true   # prints the cgroup
//! sudo sh -c 'echo $$ > /sys/fs/cgroup/poseidon/cgroup.procs; exec su you'
//! tcp receive 5001 & tcp send 127.0.0.1:5001 3                  # so many seconds
//! sudo tcp flows; sudo tcp status; sudo tcp disable
//! ```

use core::error::Error;
use core::time::Duration;
use poseidon_linux::tcp::{self, Settings, TcpFlow};
use poseidon_types::BitRate;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::exit;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["enable", rate, ref settings @ ..] => enable(rate, settings),
        ["disable"] => Ok(tcp::disable()?),
        ["status"] => {
            match tcp::status()? {
                Some(status) => print!("{status}"),
                None => println!("off"),
            }
            Ok(())
        }
        ["flows"] => {
            println!("{}", TcpFlow::HEAD);
            tcp::flows()?.iter().for_each(|flow| println!("{flow}"));
            Ok(())
        }
        ["send", to, seconds] => send(to, seconds.parse()?),
        ["receive", port] => receive(port.parse()?),
        _ => {
            eprintln!(
                "write enable RATE [NAME=VALUE ...], disable, status, flows, send ADDRESS SECONDS or receive PORT"
            );
            exit(2);
        }
    }
}

fn enable(rate: &str, settings: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut all = Settings::for_rate(rate.parse::<BitRate>().map_err(|error| format!("{rate}: {error}"))?);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("write settings as NAME=VALUE")?;
        all.set(name.trim(), value)?;
    }
    println!("{}", tcp::enable(&all)?.display());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send(to: &str, seconds: u64) -> Result<(), Box<dyn Error>> {
    let mut stream = TcpStream::connect(to)?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let data = [7; 16 << 10];
    while Instant::now() < until {
        stream.write_all(&data)?;
    }
    Ok(())
}

/// One line per connection: what came and how long it took, from the first byte to the last.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn receive(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(("::", port))?;
    println!("listening");
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let (mut bytes, mut buffer) = (0, vec![0; 64 << 10]);
            let began = Instant::now();
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                bytes += count;
            }
            println!("{bytes} bytes {} us", began.elapsed().as_micros());
        });
    }
    Ok(())
}
