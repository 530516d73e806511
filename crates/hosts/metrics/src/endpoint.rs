//! An HTTP endpoint for Prometheus. It answers `GET /metrics`, one request after the other.

use crate::text::Format;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Instant;

/// The longest request. The requests of Prometheus have about 300 bytes.
const MAX_REQUEST: usize = 8 << 10;

/// How long a client may take to send its request, and for each write of the answer. A scrape ends after ten seconds by
/// default.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A socket that waits for requests.
#[derive(Debug)]
pub struct Endpoint(TcpListener);

impl Endpoint {
    /// Listens on an address, such as `127.0.0.1:9811`.
    pub fn listen(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// Returns the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Answers requests until accepting one fails. `metrics` returns the text, or the reason why there is none.
pub fn serve<E: core::fmt::Display>(
    endpoint: &Endpoint,
    mut metrics: impl FnMut(Format) -> Result<String, E>,
) -> io::Result<()> {
    loop {
        // A client that disconnects concerns nobody else.
        match endpoint.0.accept() {
            Ok((stream, _)) => drop(answer(stream, &mut metrics)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

fn answer<E: core::fmt::Display>(
    mut stream: TcpStream,
    metrics: &mut impl FnMut(Format) -> Result<String, E>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = read_request(&mut stream)?;
    let mut lines = request.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then(|| value.trim().to_owned())
    };
    let format = Format::accepted(&lines.find_map(header).unwrap_or_default());
    let plain = Format::Prometheus.content_type();
    let (status, content_type, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics") => match metrics(format) {
            Ok(text) => ("200 OK", format.content_type(), text),
            Err(error) => ("500 Internal Server Error", plain, format!("{error}\n")),
        },
        ("GET", _) => ("404 Not Found", plain, "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "only GET is supported\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads a request up to the empty line. A client that sends slowly cannot keep others waiting for longer than
/// [`TIMEOUT`].
#[expect(clippy::disallowed_methods, reason = "a client has a limited real time")]
fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    let deadline = Instant::now() + TIMEOUT;
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 || request.len() + count > MAX_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&buffer[..count]);
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("the endpoint listens");
        stream.write_all(text.as_bytes()).expect("the endpoint reads");
        let mut response = String::new();
        let _ = stream.read_to_string(&mut response);
        response
    }

    #[test]
    fn requests_get_the_metrics_in_the_accepted_format_or_an_error() {
        let endpoint = Endpoint::listen("127.0.0.1:0").expect("a port is free");
        let address = endpoint.address().expect("the endpoint has an address");
        let mut requests = 0;
        std::thread::spawn(move || {
            serve(&endpoint, |format| {
                requests += 1;
                if requests < 3 { Ok(format!("{format:?}\n")) } else { Err("the kernel refuses") }
            })
        });
        let response = request(
            address,
            "GET /metrics HTTP/1.1\r\nHost: a\r\naccept: application/openmetrics-text\r\n\r\n",
        );
        assert!(
            response
                .starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0")
        );
        assert!(response.ends_with("\r\n\r\nOpenMetrics\n"), "{response}");
        let response = request(address, "GET /metrics?x=1 HTTP/1.1\r\n\r\n");
        assert!(response.ends_with("\r\n\r\nPrometheus\n"), "{response}");
        let response = request(address, "GET / HTTP/1.1\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
        let response = request(address, "POST /metrics HTTP/1.1\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
        let too_long = format!("GET /metrics HTTP/1.1\r\na: {}\r\n\r\n", "a".repeat(MAX_REQUEST));
        assert_eq!(request(address, &too_long), "", "no answer");
        let response = request(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(
            response.starts_with("HTTP/1.1 500 ") && response.ends_with("the kernel refuses\n"),
            "{response}"
        );
    }

    #[test]
    fn a_client_that_sends_slowly_does_not_block_others() {
        let endpoint = Endpoint::listen("127.0.0.1:0").expect("a port is free");
        let address = endpoint.address().expect("the endpoint has an address");
        std::thread::spawn(move || serve(&endpoint, |_| Ok::<_, io::Error>("answer\n".to_owned())));
        let mut slow = TcpStream::connect(address).expect("the endpoint listens");
        let slow = std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                #[expect(clippy::disallowed_methods, reason = "the client sends slowly")]
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let response = request(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(response.ends_with("answer\n"), "{response}");
        slow.join().expect("the endpoint has closed the slow connection");
    }
}
