//! A small HTTP client that writes and parses everything itself, and a server in a thread.

use core::time::Duration;
use poseidon_lab::budget::Limits;
use poseidon_lab::manifest::Program;
use poseidon_serve::{Environment, OpenScenario, ServeOptions, Server, ServerEnd, StopHandle};
use poseidon_sim::Simulator;
use poseidon_types::Bytes;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Two laws share a link: a small version of the quickstart, which takes a fraction of a second.
pub(crate) const QUICKSTART_LIKE: &str = r#"title  = "Four flows to one host"
source = "test"
stop  = "4 ms"

[topology]
kind = "poseidon-clos"
racks = 2

[[traffic]]
name = "flows"
kind = "long-flows"
from = "rack0.host[0-3]"
to   = "rack1.host0"

[observe.queues]
queue = "last hop of flows"

[[claim]]
says = "the flows share the link"
metric = "flows.jain"
above = 0.5
paper = "none"

[[figure]]
title = "Rates"
kind = "bars"
metric = "flows.rate_gbps"
by = "law"

[sweep]
law = ["poseidon", "swift"]
"#;

/// A scenario that runs for minutes. The title makes the text of each run different.
pub(crate) fn long_scenario(title: &str) -> String {
    QUICKSTART_LIKE
        .replace("Four flows to one host", title)
        .replace("stop  = \"4 ms\"", "stop  = \"60 s\"\nseeds = 3")
        .replace("[observe.queues]\nqueue = \"last hop of flows\"\n", "[observe]\nsample = \"1 ms\"\n")
}

/// A running server.
pub(crate) struct TestServer {
    port: u16,
    token: String,
    folder: PathBuf,
    stop: StopHandle,
    thread: JoinHandle<ServerEnd>,
}

/// Starts a server with its own results folder.
pub(crate) fn start_server(name: &str) -> TestServer {
    let folder = std::env::temp_dir().join(format!("poseidon-serve-{}-{name}", std::process::id()));
    let input = folder.join("input");
    std::fs::create_dir_all(&input).expect("the folder is writable");
    let options = ServeOptions {
        port: 0,
        output: folder.join("results"),
        input,
        limits: Limits { memory: Some(Bytes::new(4_000_000_000)), time: None },
        jobs: 2,
        first: OpenScenario { name: "small".into(), text: QUICKSTART_LIKE.into() },
    };
    let environment = Environment {
        backend: Box::new(Simulator::with_threads(core::num::NonZeroU32::MIN)),
        scenarios: &[("small", QUICKSTART_LIKE)],
        program: Program { identity: "test".into(), code_hash: "0".into() },
    };
    let server = Server::bind(options, environment).expect("there is a free port");
    let (port, stop) = (server.port(), server.stop_handle());
    let token = server.url().rsplit("token=").next().expect("the URL has a token").to_owned();
    let thread = std::thread::spawn(move || server.run().expect("the server runs"));
    TestServer { port, token, folder, stop, thread }
}

impl TestServer {
    pub(crate) fn client(&self) -> Client {
        Client { port: self.port, token: self.token.clone() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server, and checks that its runs have ended.
    pub(crate) fn stop(self) -> ServerEnd {
        self.stop.stop();
        let end = self.thread.join().expect("the server does not panic");
        assert!(end.is_clean, "the worker has ended");
        std::fs::remove_dir_all(&self.folder).expect("the folder is ours");
        end
    }
}

/// A client of a server.
#[derive(Clone)]
pub(crate) struct Client {
    port: u16,
    token: String,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn connect(&self) -> TcpStream {
        self.try_connect().expect("the server listens")
    }

    fn try_connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    pub(crate) fn connect_and_send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("the server reads");
        stream
    }

    /// Sends bytes and reads the answer. Returns `None` if the server closes the connection without an answer.
    pub(crate) fn try_raw(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.try_connect().ok()?;
        // The server may answer and close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_answer(&mut BufReader::new(stream))
    }

    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut reader = BufReader::new(self.connect_and_send(bytes));
        read_answer(&mut reader).expect("the server answers")
    }

    /// Sends a GET request with these headers.
    pub(crate) fn get_plain(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let host = format!("Host: 127.0.0.1:{}", self.port);
        self.raw(format!("GET {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.get_plain(path, &[("Authorization", &format!("Bearer {}", self.token))])
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, body.to_string().as_bytes())
    }

    pub(crate) fn post_bytes(&self, path: &str, body: &[u8]) -> Answer {
        let head = self.post_head(path, &format!("Content-Length: {}", body.len()));
        let mut stream = self.connect_and_send(head.as_bytes());
        // The server refuses a large body without reading it.
        let _ = stream.write_all(body);
        read_answer(&mut BufReader::new(stream)).expect("the server answers")
    }

    pub(crate) fn post_chunked(&self, path: &str, size: usize) -> Answer {
        let head = self.post_head(path, "Transfer-Encoding: chunked");
        let mut stream = self.connect_and_send(head.as_bytes());
        let spaces = " ".repeat(64 << 10);
        let chunk = format!("{:x}\r\n{spaces}\r\n", spaces.len());
        for _ in 0..size / spaces.len() {
            if stream.write_all(chunk.as_bytes()).is_err() {
                break;
            }
        }
        read_answer(&mut BufReader::new(stream)).expect("the server answers")
    }

    fn post_head(&self, path: &str, length: &str) -> String {
        let Self { port, token } = self;
        let head = format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}");
        format!("{head}\r\nConnection: close\r\n{length}\r\n\r\n")
    }

    /// Starts a run and returns its number.
    pub(crate) fn start_run(&self, text: &str, on_close: &str) -> u64 {
        let body = json!({ "scenario": { "name": "test", "text": text }, "on_close": on_close });
        let answer = self.post("/api/runs", &body);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json()["id"].as_u64().expect("the run has a number")
    }

    pub(crate) fn status(&self, id: u64) -> String {
        let answer = self.get(&format!("/api/runs/{id}")).json();
        answer["job"]["status"].as_str().expect("the run has a status").to_owned()
    }

    pub(crate) fn wait_for_status(&self, id: u64, expected: &str) {
        for _ in 0..200 {
            if self.status(id) == expected {
                return;
            }
            wait(Duration::from_millis(50));
        }
        panic!("run {id} is {}, not {expected}", self.status(id));
    }

    /// Opens the event stream of a run.
    pub(crate) fn events(&self, id: u64) -> Events {
        let Self { port, token } = self;
        let head = format!("GET /api/runs/{id}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}");
        let request = format!("{head}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let mut reader = BufReader::new(self.connect_and_send(request.as_bytes()));
        let (status, _) = read_head(&mut reader).expect("the server answers");
        Events { reader, status, text: Vec::new() }
    }
}

/// Waits for the server.
#[expect(clippy::disallowed_methods, reason = "the test waits for another thread")]
pub(crate) fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// An event stream.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    text: Vec<u8>,
}

impl Events {
    /// Reads the next update. Returns `None` at the end of the stream.
    pub(crate) fn next_update(&mut self) -> Option<Value> {
        loop {
            let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") else {
                self.text.extend(read_chunk(&mut self.reader)?);
                continue;
            };
            let event: Vec<u8> = self.text.drain(..end + 2).collect();
            let event = String::from_utf8(event).expect("events are UTF-8");
            // An event without data is a sign of life.
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return Some(serde_json::from_str(data).expect("the event is JSON"));
            }
        }
    }

    pub(crate) fn read_to_end(&mut self) -> Vec<Value> {
        core::iter::from_fn(|| self.next_update()).collect()
    }
}

fn read_answer(reader: &mut BufReader<TcpStream>) -> Option<Answer> {
    let (status, headers) = read_head(reader)?;
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let mut body = Vec::new();
    if is_chunked {
        while let Some(chunk) = read_chunk(reader) {
            body.extend(chunk);
        }
    } else {
        // An answer to a refused body may be followed by a reset.
        let _ = reader.read_to_end(&mut body);
    }
    Some(Answer { status, headers, body })
}

fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return Some((status, headers)),
        }
    }
}

/// Reads a chunk. Returns `None` after the last one.
fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    Some(chunk)
}
