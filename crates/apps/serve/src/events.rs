//! The event stream of a job: its status, its progress and the points of its live plots.
//!
//! Each stream remembers how many points of each series it has sent. A slow client receives fewer and larger events.

use crate::job::{Job, Status};
use crate::results::columns;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use core::convert::Infallible;
use core::time::Duration;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// The shortest time between two events.
const EVENT_INTERVAL: Duration = Duration::from_millis(60);

/// The time between two signs of life, which also detect closed connections.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// The type of an answer with events.
pub(crate) type EventStream =
    Sse<axum::response::sse::KeepAliveStream<ReceiverStream<Result<Event, Infallible>>>>;

/// Opens the event stream of a job. The permit counts the stream.
pub(crate) fn open(job: Arc<Job>, permit: OwnedSemaphorePermit) -> EventStream {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        send_events(&job, &sender).await;
        drop(permit);
    });
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

async fn send_events(job: &Arc<Job>, sender: &mpsc::Sender<Result<Event, Infallible>>) {
    let _viewer = job.watch();
    let mut changes = job.subscribe();
    let mut cursor = Cursor::default();
    loop {
        changes.borrow_and_update();
        let (update, status) = cursor.next_update(job);
        // The value is JSON already, so the event cannot fail.
        let Ok(event) = Event::default().event("update").json_data(update) else { return };
        if sender.send(Ok(event)).await.is_err() || status.has_ended() {
            return;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
        tokio::time::sleep(EVENT_INTERVAL).await;
    }
}

/// What a stream has sent.
#[derive(Debug, Default)]
struct Cursor {
    /// The number of sent points of each series.
    points: Vec<usize>,
}

impl Cursor {
    /// Returns what has changed since the last call, and the status.
    fn next_update(&mut self, job: &Job) -> (Value, Status) {
        let state = job.state();
        let new_series = state.series.iter().enumerate().skip(self.points.len());
        let new_series: Vec<Value> =
            new_series.map(|(index, series)| json!({ "index": index, "info": series.info })).collect();
        self.points.resize(state.series.len(), 0);
        let mut points: Vec<Value> = Vec::new();
        for (index, (series, sent)) in state.series.iter().zip(&mut self.points).enumerate() {
            if series.points.len() > *sent {
                points.push(json!([index, columns(&series.points[*sent..])]));
                *sent = series.points.len();
            }
        }
        let update = json!({
            "status": state.status,
            "problem": state.problem,
            "estimate": state.estimate,
            "progress": state.progress.describe(state.elapsed()),
            "series": new_series,
            "points": points,
            "unplotted_cells": state.unplotted_cells,
            "warnings": state.warnings,
            "has_result": state.result.is_some(),
        });
        (update, state.status)
    }
}
