//! What the simulator answers beside what the simulated servers do: faults, speed, figures.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
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

/// `GET /health`, `/ping`, `/health_generate`: the server is there as long as it does not end.
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<(), ApiError> {
    if app.is_closing.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(ApiError::closing());
    }
    Ok(())
}

/// `POST /servecast/faults`: a fault as scenarios write it, whose time is now if it is not given.
pub(super) async fn faults(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Json<Value>, ApiError> {
    let mut fault: serde_json::Map<String, Value> = fields.rest()?;
    fault.entry("at_s").or_insert(json!(0.0));
    let read = serde_json::from_value::<FaultConfig>(Value::Object(fault));
    let fault = read.map_err(|error| ApiError::bad(format!("no fault: {error}")))?;
    app.check(&fault)?;
    app.handle.tell(Command::Fault(fault.clone()));
    Ok(Json(json!({"fault": fault})))
}

/// `GET /servecast/speed`.
pub(super) async fn speed(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(pace(&look(&app).await?)))
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
    Ok(Json(pace(&look(&app).await?)))
}

fn pace(look: &Look) -> Value {
    let [median, p99, most] = look.punctuality.lateness_s.map(|seconds| seconds * 1e3);
    json!({
        "speed": look.speed,
        "simulated_s": look.now.as_secs_f64(),
        "behind_ms": look.punctuality.behind_s * 1e3,
        "deliveries": look.punctuality.deliveries,
        "lateness_ms": {"median": median, "p99": p99, "max": most},
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
    let one = |value| std::iter::once((Labels::new(&[]), value));
    let [_, p99, _] = look.punctuality.lateness_s;
    out.gauge("servecast_speed", "Simulated seconds per second.", one(look.speed));
    out.gauge("servecast_simulated_seconds", "Simulated time.", one(look.now.as_secs_f64()));
    out.gauge(
        "servecast_lateness_p99_seconds",
        "How long after its simulated instant a token is handed to its connection, 99th percentile.",
        one(p99),
    );
    out.gauge(
        "servecast_behind_seconds",
        "How far the simulated cluster is behind the clock.",
        one(look.punctuality.behind_s),
    );
    let text = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, text)], out.text()).into_response())
}

async fn look(app: &App) -> Result<Look, ApiError> {
    app.handle.ask(Command::Look).await.ok_or_else(ApiError::closing)
}
