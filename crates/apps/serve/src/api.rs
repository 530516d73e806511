//! The routes of the server.

use crate::OpenScenario;
use crate::error::{ApiError, Problem};
use crate::events::{self, EventStream};
use crate::files::{blocking, read_limited, send_archive, send_file};
use crate::guard::{Guard, Token, check_request};
use crate::job::OnClose;
use crate::page::{law_styles, render_page};
use crate::results::describe_stored;
use crate::scenario::{CheckResult, MAX_TEXT, ScenarioRequest};
use crate::session::{MAX_STREAMS, Session};
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use core::time::Duration;
use poseidon_lab::listing::NameKind;
use poseidon_lab::scenario::schema;
use poseidon_lab::store::SCENARIO_FILE;
use poseidon_lab::study::natural_order;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest request: a scenario, escaped as JSON, and its settings.
const MAX_BODY: usize = 2 * MAX_TEXT + (16 << 10);

/// The time in which the body of a request must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest number of files that the page lists.
const MAX_LISTED: usize = 200;

/// The state that all routes share.
#[derive(Clone)]
pub(crate) struct Routes {
    pub(crate) session: Arc<Session>,
    pub(crate) first: OpenScenario,
}

/// Creates the routes. Every request passes the guard.
pub(crate) fn router(routes: Routes, guard: Arc<Guard>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/api/start", get(start))
        .route("/api/scenario", get(scenario))
        .route("/api/schema", get(async || Json(schema())))
        .route("/api/check", post(check))
        .route("/api/runs", get(list_runs).post(start_run))
        .route("/api/runs/{id}", get(result))
        .route("/api/runs/{id}/events", get(open_events))
        .route("/api/runs/{id}/stop", post(stop_run))
        .route("/api/stored", get(stored_result))
        .route("/files/{key}/{*path}", get(file))
        .route("/zip/{key}/{*study}", get(archive))
        .fallback(async || ApiError::NotFound { what: "page", name: "at this address".to_owned() })
        .with_state(routes)
        .layer(axum::middleware::from_fn_with_state(guard, check_request))
}

/// Reads the JSON body of a request.
async fn read_json<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    let too_large = || ApiError::TooLarge { limit: MAX_BODY };
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(too_large());
    }
    let seconds = BODY_TIMEOUT.as_secs();
    let body = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_BODY)).await;
    let body: Bytes = body.map_err(|_| ApiError::TooSlow { seconds })?.map_err(|_| too_large())?;
    serde_json::from_slice(&body).map_err(|error| ApiError::Invalid(error.to_string()))
}

/// Answers with the page. It contains no secrets, so it needs no token.
async fn page() -> Result<Response, ApiError> {
    let nonce = Token::generate().map_err(|error| ApiError::Invalid(error.to_string()))?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src 'self' data:; connect-src \
         'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        nonce.text()
    );
    let policy = HeaderValue::from_str(&policy).map_err(|error| ApiError::Invalid(error.to_string()))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    Ok((headers, render_page(nonce.text())).into_response())
}

/// Answers with everything that the page needs once.
async fn start(State(routes): State<Routes>) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let lab = &routes.session.lab;
        let scenarios: Vec<Value> = lab
            .environment
            .scenarios
            .iter()
            .map(|(name, text)| json!({ "name": name, "title": title_of(text) }))
            .collect();
        let names: BTreeMap<&str, Value> =
            NameKind::ALL.iter().map(|kind| (kind.name(), json!(kind.entries()))).collect();
        Json(json!({
            "program": lab.environment.program.identity,
            "first": { "name": routes.first.name, "text": routes.first.text },
            "scenarios": scenarios,
            "files": scenario_files(&lab.input),
            "names": names,
            "laws": law_styles(),
            "file_key": routes.session.file_key.text(),
            "input": lab.input.display().to_string(),
            "output": lab.store.root().display().to_string(),
            "max_text": MAX_TEXT,
        }))
    })
    .await
}

/// Returns the title of a scenario without parsing it.
fn title_of(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("title")).unwrap_or_default();
    line.split('"').nth(1).unwrap_or_default()
}

/// Lists the scenarios in a folder.
fn scenario_files(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".toml") && !name.starts_with('.')).take(MAX_LISTED).collect();
    names.sort_by_key(|name| natural_order(name));
    names
}

#[derive(Deserialize)]
struct ScenarioQuery {
    /// The name of a built-in scenario.
    name: Option<String>,
    /// The name of a file in the input folder.
    file: Option<String>,
}

/// Answers with the text of a built-in scenario, or of a file in the input folder.
async fn scenario(
    State(routes): State<Routes>,
    Query(query): Query<ScenarioQuery>,
) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let lab = &routes.session.lab;
        match query {
            ScenarioQuery { name: Some(name), file: None } => {
                let mut scenarios = lab.environment.scenarios.iter();
                let text = scenarios.find(|(known, _)| *known == name).map(|(_, text)| *text);
                let text = text.ok_or(ApiError::NotFound { what: "scenario", name })?;
                Ok(Json(json!({ "text": text })))
            }
            // Only listed files, so a path cannot leave the folder.
            ScenarioQuery { name: None, file: Some(file) } if scenario_files(&lab.input).contains(&file) => {
                let text = read_limited(&lab.input.join(&file), MAX_TEXT as u64);
                let text = text.map_err(|source| ApiError::File { path: file, source })?;
                Ok(Json(json!({ "text": text })))
            }
            query => {
                let name = query.file.or(query.name).unwrap_or_default();
                Err(ApiError::NotFound { what: "scenario", name })
            }
        }
    })
    .await?
}

/// Checks a scenario.
async fn check(
    State(routes): State<Routes>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CheckResult>, ApiError> {
    let request: ScenarioRequest = read_json(&headers, body).await?;
    let permit = Arc::clone(&routes.session.checks).acquire_owned().await.map_err(|_| ApiError::Stopping)?;
    let result = blocking(move || {
        let result = request.check(&routes.session.lab);
        drop(permit);
        result
    });
    Ok(Json(result.await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    scenario: ScenarioRequest,
    on_close: OnClose,
}

/// Starts a run. An invalid scenario gives its first error.
async fn start_run(
    State(routes): State<Routes>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let RunRequest { scenario, on_close } = read_json(&headers, body).await?;
    let permit = Arc::clone(&routes.session.checks).acquire_owned().await.map_err(|_| ApiError::Stopping)?;
    let prepared = blocking(move || {
        let prepared = scenario.prepare(&routes.session.lab);
        drop(permit);
        let problem = prepared.as_ref().err().map(|error| scenario.problem(error));
        match (prepared, problem) {
            (Ok(prepared), _) => Ok(Ok(routes.session.submit(scenario, prepared.study, on_close)?)),
            (Err(error), problem) => Ok(Err(problem.unwrap_or_else(|| Problem::without_position(error)))),
        }
    });
    match prepared.await? {
        Ok(Ok(job)) => Ok((StatusCode::ACCEPTED, Json(job.describe())).into_response()),
        Ok(Err(problem)) => {
            let body = json!({ "error": problem.message, "problem": problem });
            Ok((StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response())
        }
        Err(error) => Err(error),
    }
}

/// Lists the runs of this session, and the studies in the results folder.
async fn list_runs(State(routes): State<Routes>) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let session: Vec<Value> = routes.session.list().iter().map(|job| job.describe()).collect();
        let mut stored = routes.session.lab.store.studies_with(SCENARIO_FILE).unwrap_or_default();
        stored.sort_by_key(|name| natural_order(name));
        stored.truncate(MAX_LISTED);
        Json(json!({ "session": session, "stored": stored }))
    })
    .await
}

/// Answers with the state of a run, and with its result if it has one.
async fn result(State(routes): State<Routes>, Path(id): Path<u64>) -> Result<Response, ApiError> {
    let job = routes.session.find(id)?;
    let (result, problem) = {
        let state = job.state();
        (state.result.clone(), json!(state.problem))
    };
    // The result is JSON text already.
    let job = job.describe();
    let answer = match result {
        Some(result) => format!("{{\"job\":{job},\"problem\":{problem},\"result\":{result}}}"),
        None => format!("{{\"job\":{job},\"problem\":{problem},\"result\":null}}"),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

async fn open_events(State(routes): State<Routes>, Path(id): Path<u64>) -> Result<EventStream, ApiError> {
    let job = routes.session.find(id)?;
    let permit = Arc::clone(&routes.session.streams).try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::TooManyStreams { limit: MAX_STREAMS })?;
    Ok(events::open(job, permit))
}

async fn stop_run(State(routes): State<Routes>, Path(id): Path<u64>) -> Result<Json<Value>, ApiError> {
    let job = routes.session.find(id)?;
    routes.session.stop(&job);
    Ok(Json(job.describe()))
}

#[derive(Deserialize)]
struct StoredQuery {
    study: String,
}

/// Answers with the result of a study in the results folder.
async fn stored_result(
    State(routes): State<Routes>,
    Query(query): Query<StoredQuery>,
) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let lab = &routes.session.lab;
        // Only listed studies, so a path cannot leave the folder.
        let known = lab.store.studies_with(SCENARIO_FILE).unwrap_or_default();
        if !known.contains(&query.study) {
            return Err(ApiError::NotFound { what: "study", name: query.study });
        }
        let result = describe_stored(&lab.store, &query.study, &lab.environment.program.identity)?;
        Ok(Json(json!({ "job": null, "problem": null, "result": result })))
    })
    .await?
}

/// Refuses a wrong token in the path of a file.
fn check_file_key(routes: &Routes, key: &str) -> Result<(), ApiError> {
    if routes.session.file_key.matches(key.as_bytes()) { Ok(()) } else { Err(ApiError::WrongToken) }
}

#[derive(Deserialize)]
struct FileQuery {
    download: Option<String>,
}

async fn file(
    State(routes): State<Routes>,
    Path((key, path)): Path<(String, String)>,
    Query(query): Query<FileQuery>,
) -> Result<Response, ApiError> {
    check_file_key(&routes, &key)?;
    send_file(routes.session.lab.store.clone(), path, query.download.is_some()).await
}

async fn archive(
    State(routes): State<Routes>,
    Path((key, study)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    check_file_key(&routes, &key)?;
    send_archive(routes.session.lab.store.clone(), study).await
}
