//! A scenario whose settings can still be changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use toml::{Table, Value};

use super::Loaded;
use super::calibration::put_parameter;
use super::drafts::put_of_run;
use super::error::{LoadError, Origin, fail};
use super::file::{deserialize, put_seed};
use super::overrides::{Override, blame, concerns, put_all};
use super::resolve::resolve;
use super::settings::set;
use crate::calibration::{CalibrationFile, Parameter};
use crate::erased;
use crate::resolved::Unstated;
use crate::rng::Seed;
use crate::scenario::ScenarioFile;
use crate::study::Policies;

/// A scenario whose settings can still be changed.
///
/// It can be written, in TOML, and read again elsewhere: with its calibration, and with the folder that its paths are
/// relative to as an absolute path. Other files that it names are not part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Draft {
    /// The file, for messages.
    name: String,
    pub(super) root: Table,
    #[serde(serialize_with = "absolute")]
    folder: PathBuf,
    /// What was overridden, for messages.
    overrides: Vec<Override>,
    /// Whose parameters it has.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared")]
    calibration: Option<Arc<CalibrationFile>>,
    /// What servers are like of which it says nothing.
    server: Unstated,
    /// Whether they stay so in every draw.
    is_pinned: bool,
    /// In place of the policies that it names. They are code, and are not written.
    #[serde(skip)]
    policies: Option<Arc<Policies<'static>>>,
}

impl Draft {
    /// The draft of a scenario that was put together in code, by its name in messages. Nothing is assumed of servers of
    /// which it says nothing.
    pub fn of(name: &str, file: &ScenarioFile, folder: &Path) -> Result<Self, LoadError> {
        let root = erased::table(file).map_err(|error| fail(name, error))?;
        Ok(Self::typed(name.to_owned(), root, folder).of_server(Unstated::Bare))
    }

    /// The draft of what a file says.
    pub(super) fn typed(name: String, root: Table, folder: &Path) -> Self {
        Self {
            name,
            root,
            folder: folder.to_path_buf(),
            overrides: Vec::new(),
            calibration: None,
            server: Unstated::TYPICAL,
            is_pinned: false,
            policies: None,
        }
    }

    /// The same with these overrides, which are in what it says already.
    pub(super) fn overridden(self, overrides: &[Override]) -> Self {
        Self { overrides: overrides.to_vec(), ..self }
    }

    /// The same with a calibration, of which `root` has the parameters already.
    pub(super) fn calibrated(self, calibration: Option<Arc<CalibrationFile>>) -> Self {
        Self { calibration, ..self }
    }

    /// The folder that its paths are relative to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its requests were recorded with their times.
    pub fn is_experiment(&self) -> bool {
        self.root.contains_key("requests")
    }

    /// The same with another value of a setting, by the path of its key, such as `cluster.replicas`.
    ///
    /// # Errors
    /// When there is no place for it; whether the setting is known is found by [`resolve`](Self::resolve).
    pub fn with(mut self, path: &str, value: impl Into<Value>) -> Result<Self, LoadError> {
        let given = Override::new(path, value);
        put_all(&mut self.root, std::slice::from_ref(&given))?;
        self.overrides.push(given);
        Ok(self)
    }

    /// The same with another seed of every random stream.
    ///
    /// # Errors
    /// When the seed is 2^63 or more.
    pub fn with_seed(mut self, seed: u64) -> Result<Self, LoadError> {
        put_seed(&mut self.root, Some(seed))?;
        Ok(self)
    }

    /// The same whose draws all have the servers that it has.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { is_pinned: true, ..self }
    }

    /// The same with policies in place of those that it names: whatever simulates it has these.
    #[must_use]
    pub fn with_policies(self, policies: Arc<Policies<'static>>) -> Self {
        Self { policies: Some(policies), ..self }
    }

    /// The policies that stand in place of those that it names, if there are some.
    pub fn policies(&self) -> Option<&Policies<'static>> {
        self.policies.as_deref()
    }

    /// What the file says, as something else than a scenario.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        let read = deserialize(&self.root);
        read.map_err(|problem| blame(&self.name, &self.overrides, problem.into()))
    }

    /// Puts a setting.
    pub fn put(&mut self, path: &str, value: impl Into<Value>) -> Result<(), LoadError> {
        set(&mut self.root, path, value.into()).map_err(|problem| fail(&self.name, problem))
    }

    /// Gives it the name of a run, with the parameters of its calibration that runs of that name have.
    pub(crate) fn rename(&mut self, name: &str) -> Result<(), LoadError> {
        self.put("name", name)?;
        let Some(calibration) = self.calibration.clone() else { return Ok(()) };
        put_of_run(&self.name, &mut self.root, &calibration, &self.overrides)
    }

    /// Whether `--set` gives this setting.
    fn is_overridden(&self, path: &str) -> bool {
        self.overrides.iter().any(|given| given.path == path)
    }

    /// Its seed.
    pub fn seed(&self) -> Seed {
        let given = self.root.get("seed").and_then(Value::as_integer);
        given.map_or_else(Seed::default, |seed| Seed(seed.cast_unsigned()))
    }

    /// The same scenario with the seed of this number, counted from 1. Scenarios of one seed have the same
    /// requests under each number.
    pub fn reseeded(&self, number: u32) -> Result<Self, LoadError> {
        // Seeds of the benchmark tools are 32 bits.
        let own = self.seed().stream("replica", u64::from(number)).next_u32();
        let mut draft = self.clone();
        draft.put("seed", i64::from(own))?;
        let workload = self.root.get("workload").and_then(Value::as_table);
        if workload.is_some_and(|workload| workload.contains_key("tool_seed")) {
            draft.put("workload.tool_seed", i64::from(own))?;
        }
        Ok(draft)
    }

    /// The same scenario with the seed of this number, counted from 1, and parameters drawn from its calibration;
    /// those that were overridden stay. Without a calibration, servers of which nothing is said are drawn from those
    /// of their class.
    pub fn drawn(&self, number: u32) -> Result<Self, LoadError> {
        let mut draft = self.reseeded(number)?;
        let Some(calibration) = &self.calibration else {
            if let Unstated::Server { slower } = &mut draft.server
                && !self.is_pinned
            {
                let mut stream = self.seed().stream("server", u64::from(number));
                *slower = stream.sample::<f64, _>(StandardNormal);
            }
            return Ok(draft);
        };
        let drawn = calibration.draw(&mut draft.seed().stream("parameters", 0));
        for (found, value) in calibration.parameters.iter().zip(drawn) {
            if !draft.is_overridden(&found.parameter.path) {
                draft.put_parameter(&found.parameter, value)?;
            }
        }
        Ok(draft)
    }

    /// Whether [`drawn`](Self::drawn) draws servers of this scenario, which is what it resolves to.
    pub(super) fn draws_servers(&self, loaded: &Loaded) -> bool {
        !self.is_pinned && loaded.scenario.assumes_servers()
    }

    /// Whether parameters of it come from a calibration.
    pub fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    /// Puts a parameter that was fitted or drawn, if it is one of this run.
    pub fn put_parameter(&mut self, parameter: &Parameter, value: f64) -> Result<(), LoadError> {
        if !parameter.concerns(self.title()) {
            return Ok(());
        }
        put_parameter(&mut self.root, &parameter.path, value)
            .map_err(|problem| fail(&self.name, problem))
    }

    /// What a setting says, by the keys that lead to it.
    pub fn get(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.root.get(*first)?, |at, key| at.as_table()?.get(*key))
    }

    /// The title of the scenario or variant.
    pub fn title(&self) -> &str {
        self.root.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a setting out, by the keys that lead to it.
    pub fn clear(&mut self, keys: &[&str]) {
        let Some((last, sections)) = keys.split_last() else { return };
        let mut at = Some(&mut self.root);
        for key in sections {
            at = at.and_then(|table| table.get_mut(*key)).and_then(Value::as_table_mut);
        }
        if let Some(table) = at {
            table.remove(*last);
        }
    }

    /// The same where servers of which it says nothing are like this. Where parameters come from a calibration,
    /// nothing is assumed of them.
    #[must_use]
    pub fn of_server(self, server: Unstated) -> Self {
        Self { server, ..self }
    }

    /// Decides everything that the scenario leaves open, and checks its rules.
    ///
    /// # Errors
    /// Every rule that it breaks, and files that cannot be read.
    pub fn resolve(&self) -> Result<Loaded, LoadError> {
        let about = (self.name.as_str(), self.overrides.as_slice());
        let server = if self.is_calibrated() { Unstated::Bare } else { self.server };
        let loaded = resolve(about, &self.root, &self.folder, server);
        let mut loaded = loaded.map_err(|error| self.blame_calibration(error))?;
        loaded.policies.clone_from(&self.policies);
        if let Some(calibration) = &self.calibration {
            let mut doubts = calibration.doubts(&loaded.scenario);
            if calibration.is_silent_on_all_reduces() && self.leaves_all_reduces_open() {
                let (scenario, caveats) = loaded.scenario.with_typical_all_reduces();
                loaded.scenario = scenario;
                doubts.extend(caveats);
            }
            let demand = calibration.made_on.as_ref().and_then(|made_on| made_on.demand);
            loaded.scenario = loaded.scenario.calibrated_with(doubts, demand);
        }
        Ok(loaded)
    }

    /// Whether step times are those that are chosen by default, and nothing is said of all-reduces.
    fn leaves_all_reduces_open(&self) -> bool {
        let is_open = |law: &Value| {
            let kind = law.get("type").and_then(Value::as_str);
            let factor = law.get("calibration").and_then(|factors| factors.get("all_reduce"));
            kind.is_none_or(|kind| kind == "auto") && factor.is_none()
        };
        let Some(cluster) = self.root.get("cluster") else { return true };
        let groups = cluster.get("groups").and_then(Value::as_array);
        let all = std::iter::once(cluster).chain(groups.into_iter().flatten());
        all.filter_map(|one| one.get("step_time")).all(is_open)
    }

    /// Names the calibration in place of the file where what it sets is at fault.
    fn blame_calibration(&self, error: LoadError) -> LoadError {
        let LoadError::Settings(mut broken) = error else { return error };
        let set = self.calibration.iter().flat_map(|calibration| &calibration.parameters);
        let paths: Vec<&str> = set.map(|found| found.parameter.path.as_str()).collect();
        for one in &mut broken.0 {
            let is_of_file = matches!(one.origin, Origin::File(_));
            if is_of_file && paths.iter().any(|path| concerns(&one.problem, path)) {
                one.origin = Origin::File(format!("{}: calibration", self.name));
            }
        }
        broken.into()
    }
}

fn absolute<S: Serializer>(folder: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let found = std::path::absolute(if folder == "" { Path::new(".") } else { folder });
    found.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

/// What drafts share is written with each of them.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "as serde calls it")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(
        shared: &Option<Arc<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map(Arc::new))
    }
}
