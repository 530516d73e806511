//! Accepts connections until the server is stopped.

use crate::api::{Routes, router};
use crate::error::ServeError;
use crate::guard::{Guard, Token};
use crate::scenario::Lab;
use crate::session::Session;
use crate::{Environment, OpenScenario, ServeOptions};
use axum::Router;
use core::net::Ipv4Addr;
use core::time::Duration;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use poseidon_lab::store::Store;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// The number of open connections. Further clients wait.
const MAX_CONNECTIONS: usize = 64;

/// The time in which the header of a request must arrive. Also closes idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest header.
const MAX_HEADER: usize = 64 << 10;

/// How long answers may take after the server has been stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the server waits for the end of a run. A run reports its progress, and so stops, many times per second
/// unless its network is very large.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: Token,
    options: ServeOptions,
    environment: Environment,
    stop: watch::Sender<bool>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Stops the server. Returns whether it was stopped before.
    pub fn stop(&self) -> bool {
        self.0.send_replace(true)
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerEnd {
    /// Whether a run was in progress or waiting.
    pub interrupted_runs: bool,
    /// Whether all runs ended in time. Otherwise, a thread still runs until the process ends.
    pub is_clean: bool,
}

impl Server {
    /// Listens on a port of 127.0.0.1.
    pub fn bind(options: ServeOptions, environment: Environment) -> Result<Self, ServeError> {
        let output = |source| ServeError::Output { path: options.output.clone(), source };
        std::fs::create_dir_all(&options.output).map_err(output)?;
        let bind = |source| ServeError::Bind { port: options.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let port = listener.local_addr().map_err(bind)?.port();
        let token = Token::generate().map_err(ServeError::Random)?;
        Ok(Self { listener, port, token, options, environment, stop: watch::Sender::new(false) })
    }

    /// Returns the address of the page. The token is in the fragment, which browsers do not send.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.token.text())
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a handle that stops the server.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Answers requests until the server is stopped. Then stops the runs; finished runs are kept.
    pub fn run(self) -> Result<ServerEnd, ServeError> {
        let Self { listener, port, token, options, environment, stop } = self;
        let ServeOptions { output, input, limits, jobs, first, .. } = options;
        let lab = Lab { environment, store: Store::new(output), input, limits, jobs };
        let file_key = Token::generate().map_err(ServeError::Random)?;
        let session = Arc::new(Session::new(lab, file_key));
        let guard = Arc::new(Guard::new(port, token));
        let worker = session.start_worker().map_err(ServeError::Start)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .thread_name("serve-http")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let routes = router(Routes { session: Arc::clone(&session), first: first_scenario(first) }, guard);
        let served = runtime.block_on(serve_connections(listener, routes, stop.subscribe()));
        let interrupted_runs = session.stop_all();
        // Also cancels event streams and downloads.
        runtime.shutdown_timeout(CLOSE_TIMEOUT);
        served?;
        let is_clean = join_within(worker, STOP_TIMEOUT);
        Ok(ServerEnd { interrupted_runs, is_clean })
    }
}

/// Shortens the name to its last part.
fn first_scenario(first: OpenScenario) -> OpenScenario {
    let name = first.name.strip_suffix(".toml").unwrap_or(&first.name).to_owned();
    OpenScenario { name, ..first }
}

/// Waits for the end of a thread. Returns whether it ended in time.
fn join_within(thread: std::thread::JoinHandle<()>, limit: Duration) -> bool {
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::Builder::new().name("serve-stop".to_owned()).spawn(move || {
        let _ = thread.join();
        let _ = sender.send(());
    });
    waiter.is_ok() && receiver.recv_timeout(limit).is_ok()
}

async fn serve_connections(
    listener: TcpListener,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Start)?;
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        tokio::select! {
            _ = stop.wait_for(|is_stopped| *is_stopped) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = accept => match accepted {
                (Ok(permit), Ok((stream, _))) => {
                    connections.spawn(serve_connection(stream, routes.clone(), permit));
                }
                // Too many open files, or a client that has gone already.
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
    connections.shutdown().await;
    Ok(())
}

async fn serve_connection(stream: TcpStream, routes: Router, permit: OwnedSemaphorePermit) {
    // Small events must not wait for more data. Without this option, the connection still works.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(routes);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        .serve_connection(TokioIo::new(stream), service);
    // An error means that the client sent no HTTP, or has closed the connection.
    let _ = connection.await;
    drop(permit);
}
