//! TOML of values of any type. Readers and writers are compiled once and not for every type: the settings of a
//! scenario have a hundred types, whose code for each format would be a fifth of the library.

use erased_serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Where a value is wrong, and how.
pub(crate) type Wrong = (String, String);

/// Reads a value; the path of what is wrong, `.` for all of it, and the rule.
pub(crate) fn read<T: DeserializeOwned>(root: Table) -> Result<T, Wrong> {
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(Value::Table(root), &mut track);
    let mut reader = <dyn erased_serde::Deserializer>::erase(reader);
    let read = erased_serde::deserialize(&mut reader);
    drop(reader);
    read.map_err(|error| (track.path().to_string(), error.to_string()))
}

/// Writes a value.
#[cfg(any(feature = "cli", test))]
pub(crate) fn text(value: &dyn Serialize) -> Result<String, toml::ser::Error> {
    toml::to_string(value)
}

/// A value as a table.
pub(crate) fn table(value: &dyn Serialize) -> Result<Table, toml::ser::Error> {
    Table::try_from(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    const TEXT: &str = r#"
        name = "a"
        workload.num_requests = 9
        workload.arrivals = { type = "poisson", rate_per_s = 4.0 }
        workload.lengths = { type = "fixed", input_tokens = 500, output_tokens = 100 }
        cluster = { model = "m", gpu = "g", replicas = 2, engine = { type = "sglang" } }
    "#;

    #[test]
    fn what_is_written_is_what_the_typed_writer_writes() {
        let file: ScenarioFile = toml::from_str(TEXT).unwrap();
        assert_eq!(read::<ScenarioFile>(TEXT.parse().unwrap()).unwrap(), file);
        assert_eq!(text(&file).unwrap(), toml::to_string(&file).unwrap());
        assert_eq!(table(&file).unwrap(), Table::try_from(&file).unwrap());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path() {
        let wrong = |text: &str| read::<ScenarioFile>(text.parse().unwrap()).unwrap_err();
        let (path, rule) =
            wrong("[[cluster.groups]]\nreplicas = 2\n[[cluster.groups]]\nreplicas = \"x\"");
        assert_eq!(path, "cluster.groups[1].replicas");
        assert!(rule.starts_with("invalid type: string \"x\""), "{rule}");
    }
}
