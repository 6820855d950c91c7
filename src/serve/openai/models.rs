//! `GET /v1/models`: the models of the scenario and the adapters that are loaded.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::serve::app::{App, Dialect};
use crate::serve::error::ApiError;

fn cards(app: &App) -> Vec<Value> {
    let owner = match app.dialect {
        Dialect::Vllm => "vllm",
        Dialect::Sglang => "sglang",
    };
    let card = |name: &str, root: &str, parent: Option<&str>, len: Option<u32>| {
        json!({
            "id": name, "object": "model", "created": app.started, "owned_by": owner,
            "root": root, "parent": parent, "max_model_len": len,
        })
    };
    let models = app.models.iter();
    let models = models.map(|it| card(&it.name, &it.name, None, Some(it.max_model_len)));
    let loaded = app.adapters.lock().clone();
    let names = loaded.iter().filter_map(|id| app.adapters.names.get(*id as usize));
    let adapters = names.map(|name| card(name, name, Some(&app.models[0].name), None));
    models.chain(adapters).collect()
}

pub(in crate::serve) async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": cards(&app)}))
}

pub(in crate::serve) async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let card = cards(&app).into_iter().find(|card| card["id"] == name.as_str());
    let missing = || ApiError::unknown(format!("The model `{name}` does not exist."));
    card.map(Json).ok_or_else(missing)
}
