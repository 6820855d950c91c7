//! What the simulator answers beside what the simulated servers do: faults, speed, figures.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::{App, Dialect};
use super::clock::Clock;
use super::driver::{Command, Look};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;
use super::{sglang, vllm};
use crate::metrics::Summary;
use crate::scenario::FaultConfig;

/// `GET /health`, `/ping`, `/health_generate`: whether a replica is up, or that of the port, and the server does not
/// end.
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<(), ApiError> {
    if app.is_closing.load(Ordering::Relaxed) {
        return Err(ApiError::closing());
    }
    let is_up = app.handle.ask(|reply| Command::IsUp(app.replica, reply)).await;
    match is_up {
        Some(true) => Ok(()),
        Some(false) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no replica is up")),
        None => Err(ApiError::closing()),
    }
}

/// `POST /servecast/faults`: a fault as scenarios write it, whose time is now if it is not given. The answer has it with
/// its time.
pub(super) async fn faults(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Json<Value>, ApiError> {
    let mut fault: serde_json::Map<String, Value> = fields.rest()?;
    fault.entry("at_s").or_insert(json!(0.0));
    let read = serde_json::from_value::<FaultConfig>(Value::Object(fault));
    let fault = read.map_err(|error| ApiError::bad(format!("no fault: {error}")))?;
    app.check(&fault)?;
    let planned = app.handle.ask(|reply| Command::Fault(fault, reply)).await;
    let planned = planned.ok_or_else(ApiError::closing)?;
    let fault = planned.map_err(|why| ApiError::new(StatusCode::CONFLICT, why))?;
    Ok(Json(json!({"fault": fault})))
}

/// `GET /servecast/speed`.
pub(super) async fn speed(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(pace(&app, &look(&app).await?)))
}

/// `POST /servecast/speed`: `{"speed": 20}`.
pub(super) async fn set_speed(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Json<Value>, ApiError> {
    let speed: f64 = fields.need("speed")?;
    fields.finish(&[])?;
    if !Clock::SPEEDS.contains(&speed) {
        let (least, most) = (Clock::SPEEDS.start(), Clock::SPEEDS.end());
        let message = format!("`speed` must be {least} to {most}, got {speed}");
        return Err(ApiError::field("speed", message));
    }
    app.handle.tell(Command::Speed(speed));
    Ok(Json(pace(&app, &look(&app).await?)))
}

fn pace(app: &App, look: &Look) -> Value {
    let late = app.lateness.figures();
    json!({
        "speed": look.speed,
        "simulated_s": look.now.as_secs_f64(),
        "behind_ms": look.behind_s * 1e3,
        "lateness_ms": {
            "chunks": late.chunks, "median": late.median_s * 1e3, "p99": late.p99_s * 1e3,
            "max": late.most_s * 1e3,
        },
        "requests": look.open,
    })
}

/// `GET /servecast/report`: the figures so far.
pub(super) async fn report(State(app): State<Arc<App>>) -> Result<Json<Summary>, ApiError> {
    let summary = app.handle.ask(Command::Report).await.ok_or_else(ApiError::closing)?;
    Ok(Json(*summary))
}

/// `GET /metrics`: under the names of the server that is simulated, and those of the simulator.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let look = look(&app).await?;
    let mut out = Exposition::default();
    match app.dialect {
        Dialect::Vllm => vllm::metrics(&app, &look, &mut out),
        Dialect::Sglang => sglang::metrics(&app, &look, &mut out),
    }
    let up = app.watched(&look).iter().zip(0..).map(|(replica, number): (_, u32)| {
        let labels = Labels::new(&[("replica", &number.to_string())]);
        (labels, f64::from(u8::from(replica.is_up)))
    });
    out.gauge("servecast_replica_up", "Whether a replica serves.", up);
    let one = |value| std::iter::once((Labels::new(&[]), value));
    out.gauge("servecast_speed", "Simulated seconds per second.", one(look.speed));
    out.gauge("servecast_simulated_seconds", "Simulated time.", one(look.now.as_secs_f64()));
    out.gauge(
        "servecast_lateness_p99_seconds",
        "How long after its simulated instant a token is written, 99th percentile.",
        one(app.lateness.figures().p99_s),
    );
    out.gauge(
        "servecast_behind_seconds",
        "How far the simulated cluster is behind the clock.",
        one(look.behind_s),
    );
    let text = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, text)], out.text()).into_response())
}

async fn look(app: &App) -> Result<Look, ApiError> {
    app.handle.ask(Command::Look).await.ok_or_else(ApiError::closing)
}
