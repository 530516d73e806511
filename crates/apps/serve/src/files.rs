//! Serves the files of the results folder. Their paths contain a second token, so that pages may link to each other.
//!
//! Pages from this folder contain text from scenarios, so they run in a sandbox without access to the API.

use crate::error::ApiError;
use crate::zip::{Entry, MAX_ARCHIVE, write_archive};
use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderValue};
use axum::response::{IntoResponse, Response};
use poseidon_lab::store::{SCENARIO_FILE, Store};
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// The largest number of files of a study.
const MAX_FILES: usize = 20_000;

/// The policy for pages and images: they may contain scripts and styles, but they reach nothing.
const SANDBOX: &str = "sandbox allow-scripts allow-downloads allow-modals allow-popups; default-src 'none'; \
     script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of a study.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct StudyFile {
    /// The path below the results folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// Lists the files of a study, sorted by path. Rows that another study wrote are listed with their path.
pub(crate) fn study_files(store: &Store, study: &str) -> Vec<StudyFile> {
    let mut files = Vec::new();
    collect_files(store.root(), Path::new(study), 0, &mut files);
    let runs = fs::read_dir(store.study_folder(study).join("runs")).into_iter().flatten().flatten();
    for run in runs {
        let manifest = fs::read(run.path().join("manifest.json")).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        if let Some(made_in) = manifest["made_in"].as_str().filter(|name| is_plain(Path::new(name))) {
            let folder = Path::new(made_in).join("runs").join(run.file_name());
            collect_files(store.root(), &folder, 0, &mut files);
        }
    }
    files.sort();
    files.dedup();
    files
}

/// Collects the files in a folder and its subfolders. Symbolic links are ignored.
fn collect_files(root: &Path, folder: &Path, depth: usize, files: &mut Vec<StudyFile>) {
    const MAX_DEPTH: usize = 4;
    for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let (Ok(kind), path) = (entry.file_type(), folder.join(entry.file_name())) else { continue };
        if kind.is_dir() && depth < MAX_DEPTH {
            collect_files(root, &path, depth + 1, files);
        } else if kind.is_file() && files.len() < MAX_FILES {
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            files.push(StudyFile { path: parts.join("/"), bytes });
        }
    }
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Finds a file of a study. Other files of the results folder do not exist here.
fn find_file(store: &Store, path: &str) -> Result<PathBuf, ApiError> {
    let not_found = || ApiError::NotFound { what: "file", name: path.to_owned() };
    let relative = Path::new(path);
    let is_in_study = relative
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
        .any(|folder| store.root().join(folder).join(SCENARIO_FILE).is_file());
    if !is_plain(relative) || !is_in_study {
        return Err(not_found());
    }
    let root = store.root().canonicalize().map_err(|_| not_found())?;
    let file = store.root().join(relative).canonicalize().map_err(|_| not_found())?;
    if file.starts_with(root) && file.is_file() { Ok(file) } else { Err(not_found()) }
}

/// Answers with a file.
pub(crate) async fn send_file(store: Store, path: String, is_download: bool) -> Result<Response, ApiError> {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let file = blocking(move || find_file(&store, &path)).await??;
    let (kind, is_shown) = content_type(&name);
    let body = stream_body(move |out| {
        let mut file = File::open(&file)?;
        io::copy(&mut file, out).map(drop)
    });
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    if is_download || !is_shown {
        headers.insert(header::CONTENT_DISPOSITION, attachment(&name));
    }
    Ok(response)
}

/// Answers with all files of a study as a zip archive.
pub(crate) async fn send_archive(store: Store, study: String) -> Result<Response, ApiError> {
    let name = study.rsplit('/').next().unwrap_or_default().to_owned();
    let entries = blocking(move || archive_entries(&store, &study)).await??;
    let body = stream_body(move |out| write_archive(out, &entries));
    let mut response = ([(header::CONTENT_TYPE, "application/zip")], body).into_response();
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment(&format!("{name}.zip")));
    Ok(response)
}

fn archive_entries(store: &Store, study: &str) -> Result<Vec<Entry>, ApiError> {
    let not_found = || ApiError::NotFound { what: "study", name: study.to_owned() };
    let folder = store.study_folder(study);
    if !is_plain(Path::new(study)) || !folder.join(SCENARIO_FILE).is_file() {
        return Err(not_found());
    }
    let files = study_files(store, study);
    let bytes = files.iter().map(|file| file.bytes).sum();
    if bytes > MAX_ARCHIVE {
        return Err(ApiError::ArchiveTooLarge { bytes, folder });
    }
    let prefix = format!("{study}/");
    let entry = |file: &StudyFile| {
        // Rows that another study wrote are stored as if they were here.
        let own = file.path.strip_prefix(&prefix).map(str::to_owned);
        let name = own.or_else(|| Some(format!("runs/{}", file.path.split_once("/runs/")?.1)))?;
        Some(Entry { name, file: store.root().join(&file.path) })
    };
    let mut entries: Vec<Entry> = files.iter().filter_map(entry).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    Ok(entries)
}

/// Returns the type of a file, and whether a browser shows it.
fn content_type(name: &str) -> (&'static str, bool) {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => ("text/html; charset=utf-8", true),
        "svg" => ("image/svg+xml", true),
        "json" => ("application/json", true),
        "toml" | "txt" | "csv" => ("text/plain; charset=utf-8", true),
        _ => ("application/octet-stream", false),
    }
}

/// Returns the header of a download. The name contains only safe characters.
fn attachment(name: &str) -> HeaderValue {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    HeaderValue::from_str(&format!("attachment; filename=\"{name}\""))
        .unwrap_or(HeaderValue::from_static("attachment"))
}

/// Runs a function that blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let result = tokio::task::spawn_blocking(function).await;
    result.map_err(|error| match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            ApiError::Panicked(text.unwrap_or_default())
        }
        Err(_) => ApiError::Stopping,
    })
}

/// Returns a body that a function writes on another thread. The function waits while the client reads.
fn stream_body(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(64 << 10, ChannelWriter(sender.clone()));
        let result = write(&mut out).and_then(|()| out.flush());
        if let Err(error) = result {
            // The client sees an incomplete answer.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// Sends written bytes through a channel.
struct ChannelWriter(mpsc::Sender<io::Result<Bytes>>);

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a text file of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit { Err(io::Error::other("the file is too long")) } else { Ok(text) }
}
