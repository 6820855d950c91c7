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
pub(crate) fn text(value: &dyn Serialize) -> Result<String, toml::ser::Error> {
    toml::to_string(value)
}

/// A value as a table.
pub(crate) fn table(value: &dyn Serialize) -> Result<Table, toml::ser::Error> {
    Table::try_from(value)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, Deserialize)]
    struct Cluster {
        groups: Vec<Group>,
        engine: Engine,
    }

    #[derive(Debug, PartialEq, serde::Serialize, Deserialize)]
    struct Group {
        replicas: u32,
        share: Option<f64>,
    }

    #[derive(Debug, PartialEq, serde::Serialize, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Engine {
        Vllm { seqs: u64 },
        Sglang {},
    }

    const TEXT: &str = "groups = [{ replicas = 2 }, { replicas = 3, share = 0.5 }]\n\
        engine = { type = 'vllm', seqs = 9 }";

    #[test]
    fn what_is_written_is_what_the_typed_writer_writes() {
        let cluster: Cluster = toml::from_str(TEXT).unwrap();
        assert_eq!(read::<Cluster>(TEXT.parse().unwrap()).unwrap(), cluster);
        assert_eq!(text(&cluster).unwrap(), toml::to_string(&cluster).unwrap());
        assert_eq!(table(&cluster).unwrap(), Table::try_from(&cluster).unwrap());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path() {
        let wrong = |text: &str| read::<Cluster>(text.parse().unwrap()).unwrap_err();
        let (path, rule) = wrong("groups = [{ replicas = 2 }, { replicas = 'x' }]");
        assert_eq!(path, "groups[1].replicas");
        assert!(rule.starts_with("invalid type: string \"x\""), "{rule}");
        let (path, rule) = wrong("groups = []\nengine = { type = 'orca' }");
        assert!(path.starts_with("engine") && rule.contains("`orca`"), "{path}: {rule}");
    }
}
