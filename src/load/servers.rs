//! Which servers are simulated where a scenario says nothing of them.

use toml::Value;

use super::draft::Draft;
use super::error::{LoadError, Origin};
use crate::problem::Problem;
use crate::resolved::Unstated;

impl Draft {
    /// The same with these servers, which no seed changes: [typical](Unstated::TYPICAL) ones, slow or fast ones.
    ///
    /// # Errors
    /// When nothing is assumed of its servers, because it says what they are like.
    pub fn with_servers(self, server: Unstated) -> Result<Self, LoadError> {
        let draft = self.of_server(server).pinned();
        if draft.resolve()?.scenario.assumes_servers() {
            return Ok(draft);
        }
        let rule = format!(
            "{}: nothing is assumed of the servers of `{}`: {}",
            server.word().unwrap_or_default(),
            draft.title(),
            reason(&draft)
        );
        Err(Origin::Argument("--servers").fail(Problem::new("", rule)))
    }
}

/// Why nothing is assumed of servers, and what to do.
fn reason(draft: &Draft) -> String {
    const LEAVE: &str = "Leave this option out";
    if draft.is_calibrated() {
        return "their parameters come from a calibration. Leave it or this option out".to_owned();
    }
    if draft.get(&["cluster", "host"]).and_then(Value::as_str) == Some("none") {
        return "`cluster.host = \"none\"` turns that off. Leave it or this option out".to_owned();
    }
    let stated = stated(draft);
    if !stated.is_empty() {
        let paths = stated.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>();
        let (say, them) = if stated.len() == 1 { ("says", "it") } else { ("say", "each") };
        return format!(
            "{} {say} how long steps take, as in the folder of a run. Give the scenario file that was run, or set {them} \
             to `{{ type = \"auto\" }}`",
            paths.join(" and ")
        );
    }
    format!("how far servers like them differ is not known. {LEAVE}")
}

/// The settings that say how long steps take.
fn stated(draft: &Draft) -> Vec<String> {
    let says = |cluster: Option<&Value>| {
        let step_time = cluster.and_then(Value::as_table).and_then(|table| table.get("step_time"));
        let table = step_time.and_then(Value::as_table);
        table.is_some_and(|table| {
            let kind = table.get("type").and_then(Value::as_str).unwrap_or("auto");
            kind != "auto" || table.contains_key("calibration")
        })
    };
    let cluster = draft.get(&["cluster"]);
    let groups = draft.get(&["cluster", "groups"]).and_then(Value::as_array);
    let groups = groups.into_iter().flatten().enumerate().filter(|(_, group)| says(Some(group)));
    let own = says(cluster).then(|| "cluster.step_time".to_owned());
    let groups = groups.map(|(index, _)| format!("cluster.groups[{index}].step_time"));
    own.into_iter().chain(groups).collect()
}
