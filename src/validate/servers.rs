//! What servers of published runs were, where their records leave it out and a log or page in the same repository tells it
//! (`profiles/servers.toml`).

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::gpu_names;
use super::record::Record;

static SERVERS: LazyLock<Vec<Server>> = LazyLock::new(|| {
    let text = include_str!("../../profiles/servers.toml");
    let file: File =
        toml::from_str(text).expect("profiles/servers.toml is as this module reads it");
    file.servers
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    servers: Vec<Server>,
}

/// The servers of one repository, or of one page of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    /// `OWNER/NAME`, as records have it in `source.repo`.
    repository: String,
    /// The page that records name and that tells, of a repository whose pages are of different servers.
    path: Option<String>,
    /// The file that tells, if that is no such page.
    #[expect(dead_code, reason = "read by people alone")]
    log: Option<String>,
    /// Its commit.
    #[expect(dead_code, reason = "read by people alone")]
    commit: String,
    /// The release of the engine that is nearest, of records that name none.
    version: Option<String>,
    /// What takes the place of the GPU that records name, whose link to other GPUs they leave open.
    gpu: Option<String>,
}

/// The release of the engine that served a record.
pub(super) fn version(record: &Record) -> Option<&'static str> {
    of(record)?.version.as_deref()
}

/// The GPU that served a record, as the log beside it tells.
pub(super) fn gpu(record: &Record) -> Option<&'static str> {
    of(record)?.gpu.as_deref()
}

/// What has to be said of the GPU that served a record, if a log tells what its record leaves open.
pub(super) fn assumed_gpu(record: &Record) -> Option<&'static str> {
    let (_, is_open) = gpu_names::find(record.hardware.gpu.as_deref()?)?;
    let is_told = is_open && gpu(record).is_some();
    is_told.then_some("form factor of the GPU not stated: as a log beside the run suggests")
}

fn of(record: &Record) -> Option<&'static Server> {
    let source = record.others.get("source")?;
    let named = |key: &str| source.get(key).and_then(Value::as_str);
    let (repository, page) = (named("repo")?, named("path"));
    let is_of = |server: &&Server| {
        server.repository == repository && (server.path.is_none() || server.path.as_deref() == page)
    };
    SERVERS.iter().find(is_of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::validate::{names, version};

    #[test]
    fn a_page_tells_of_its_own_servers_alone() {
        let of = |page: &str, told| {
            let mut record = record("sgl-project/sgl-cookbook", "B200", told);
            let source = record.others.get_mut("source").unwrap();
            source["path"] = json!(format!("docs/autoregressive/NVIDIA/{page}.md"));
            version::of(&record).map(|found| found.to_string())
        };
        assert_eq!(of("Nemotron3-Super", "main branch"), Some("0.5.9".to_owned()));
        assert_eq!(of("Nemotron3-Super", "0.5.10"), Some("0.5.10".to_owned()));
        assert_eq!(of("Nemotron3-Nano-Omni", "main branch"), None);
    }

    fn record(repository: &str, gpu: &str, told_version: &str) -> Record {
        let record = json!({
            "id": "a",
            "family": "a",
            "engine": {"name": "vLLM", "version": told_version},
            "hardware": {"gpu": gpu},
            "source": {"repo": repository},
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn every_server_tells_what_can_be_read() {
        for server in SERVERS.iter() {
            let told = server.version.as_deref().or(server.gpu.as_deref());
            assert!(told.is_some(), "{server:?}");
            let release = server.version.as_deref().map(crate::model::EngineVersion::parse);
            assert_ne!(release, Some(None), "{server:?}");
            let gpu = server.gpu.as_deref().map(gpu_names::find);
            assert!(gpu.is_none_or(|gpu| gpu.is_some_and(|(_, is_open)| !is_open)), "{server:?}");
        }
    }

    #[test]
    fn a_log_tells_what_a_record_leaves_out_and_no_more() {
        let repository = "FerranAgulloLopez/vLLMBatchingMemoryGap";
        let of = |repository, told| {
            version::of(&record(repository, "A100 80GB", told)).map(|found| found.to_string())
        };
        assert_eq!(of(repository, "v0 engine"), Some("0.6.3".to_owned()));
        assert_eq!(of(repository, "0.7.0"), Some("0.7.0".to_owned()));
        assert_eq!(of("other/repository", "v0 engine"), None);

        let gpu = |repository, gpu| names::gpu(&record(repository, gpu, "0.10.1")).unwrap().0.name;
        let repository = "dennislee22/vLLM-benchmarking";
        assert_eq!(gpu(repository, "NVIDIA A100 80GB"), "A100-PCIe-80GB");
        assert_eq!(gpu(repository, "NVIDIA A100-SXM4-80GB"), "A100-SXM4-80GB");
        assert_eq!(gpu("other/repository", "NVIDIA A100 80GB"), "A100-SXM4-80GB");
    }
}
