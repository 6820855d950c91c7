//! GPUs that a scenario takes from a file of the user's own.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::file::deserialize;
use super::gpu_keys;
use super::words::{toml_line, toml_problem};
use crate::hardware::GpuSpec;
use crate::io::text;
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::ScenarioFile;

/// A file of the form of the catalogue's, of which only `spec` is needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuFile {
    /// Without it all its keys are missing.
    #[serde(default)]
    spec: Table,
    /// A GPU of the catalogue whose kernels stand in.
    like: Option<String>,
    #[serde(rename = "aliases")]
    _aliases: Option<Vec<String>>,
    #[serde(rename = "source")]
    _source: Option<String>,
    #[serde(rename = "confidence")]
    _confidence: Option<String>,
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

/// Whether a name of a GPU is the path of a file.
pub fn is_gpu_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"))
}

/// The GPU of a name: that of a file of one's own, which ends in `.toml`, else one of the catalogue.
///
/// # Errors
/// When the file cannot be read, or its figures are none; the problem is at `place`.
pub fn gpu(place: &str, name: &str, folder: &Path) -> Result<Option<GpuSpec>, Problem> {
    if is_gpu_file(name) {
        local_gpu(place, name, folder).map(Some)
    } else {
        Ok(profiles::gpu(name))
    }
}

/// The GPUs of files that a scenario names, by what it calls them.
pub(super) fn local_gpus(
    file: &ScenarioFile,
    folder: &Path,
) -> Result<BTreeMap<String, GpuSpec>, Problem> {
    let of_cluster = ("cluster.gpu".to_owned(), &file.cluster.gpu);
    let groups = file.cluster.groups.iter().enumerate().filter_map(|(index, group)| {
        Some((format!("cluster.groups[{index}].gpu"), group.gpu.as_ref()?))
    });
    let prices = file.report.prices.keys().map(|name| ("report.prices".to_owned(), name));
    let power = file.report.power.keys().map(|name| ("report.power".to_owned(), name));
    let named = [of_cluster].into_iter().chain(groups).chain(prices).chain(power);
    let named = named.filter(|(_, name)| is_gpu_file(name));
    let mut gpus: BTreeMap<String, GpuSpec> = BTreeMap::new();
    for (place, name) in named {
        let gpu = local_gpu(&place, name, folder)?;
        // Reports, prices and power tell GPUs by their names.
        if let Some(other) = gpus.values().find(|other| other.name == gpu.name && **other != gpu) {
            let problem = format!("two files are of a GPU `{}` and differ", other.name);
            return Err(Problem::new(place, problem));
        }
        gpus.insert(name.clone(), gpu);
    }
    Ok(gpus)
}

fn local_gpu(place: &str, name: &str, folder: &Path) -> Result<GpuSpec, Problem> {
    let path = folder.join(name);
    let in_file = |what: &dyn std::fmt::Display| {
        Problem::new(place, format_args!("{}: {what}", path.display()))
    };
    let text = text::whole(&path, text::SETTINGS_MIB_MAX).map_err(|error| in_file(&error))?;
    let root: Table =
        toml::from_str(&text).map_err(|error| in_file(&toml_problem(&text, &error)))?;
    let at_line = |problem: Problem| match toml_line(&text, &problem.at) {
        Some(line) => in_file(&format_args!("line {line}: {problem}")),
        None => in_file(&problem),
    };
    let spec = read(&root).map_err(at_line)?;
    match spec.broken_rules().into_iter().next() {
        Some(problem) => Err(at_line(problem.below("spec"))),
        None => Ok(spec),
    }
}

fn read(root: &Table) -> Result<GpuSpec, Problem> {
    let mut file: GpuFile = deserialize(root)?;
    let mut known = None;
    if let Some(like) = &file.like {
        let Some(found) = profiles::gpu(like) else {
            let what = format!("`{like}` is not in the catalogue of GPUs");
            let near = profiles::closest(like, profiles::gpu_names());
            return Err(Problem::new("like", what).or_near(near));
        };
        if file.spec.contains_key("efficiency") {
            return Err(Problem::new("like", "is given beside spec.efficiency; leave one out"));
        }
        let mut efficiency = found.efficiency.clone();
        // What another GPU's links do is nothing that its kernels say.
        efficiency.all_reduce.clear();
        efficiency.all_gather.clear();
        let table = Table::try_from(&efficiency).expect("efficiencies are a table");
        file.spec.insert("efficiency".to_owned(), Value::Table(table));
        known = Some(found);
    }
    let mut spec: GpuSpec = deserialize(&file.spec).map_err(|problem| {
        let is_missing = problem.rule.starts_with("missing key");
        let all = is_missing.then(|| gpu_keys::missing(&file.spec)).flatten();
        all.unwrap_or(problem).below("spec")
    })?;
    if let Some(known) = known {
        add_rates(&mut spec, &known);
    }
    if let Some(known) = profiles::gpu(&spec.name) {
        let problem = format!(
            "`{}` is {} of the catalogue, whose kernels were measured; give yours a name of its own",
            spec.name, known.name
        );
        return Err(Problem::new("spec.name", problem));
    }
    Ok(spec)
}

/// Rates of the formats of a GPU of the same architecture, where the file does not state them: to 16 bits as there.
fn add_rates(spec: &mut GpuSpec, known: &GpuSpec) {
    // `Hopper` and `Hopper GH100` are one.
    let generation = |gpu: &GpuSpec| gpu.architecture.split(' ').next().map(str::to_lowercase);
    if generation(spec) != generation(known) {
        return;
    }
    let rate = |of: Option<f64>| of.map(|rate| spec.bf16_tflops * rate / known.bf16_tflops);
    let [fp8, int8, fp4] = [known.fp8_tflops, known.int8_tops, known.fp4_tflops].map(rate);
    spec.fp8_tflops = spec.fp8_tflops.or(fp8);
    spec.int8_tops = spec.int8_tops.or(int8);
    spec.fp4_tflops = spec.fp4_tflops.or(fp4);
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::profiles;

    #[test]
    fn rates_that_a_file_leaves_out_are_as_those_of_the_gpu_that_it_is_like() {
        let of = |architecture: &str, like: &str, more: &str| {
            let text = format!(
                "like = '{like}'\n[spec]\nname = 'mine'\nvendor = 'NVIDIA'\narchitecture = '{architecture}'\n\
                 form_factor = 'SXM'\nbf16_tflops = 500\nmemory_bytes = 120_000_000_000\n\
                 memory_bandwidth_gb_s = 3000.0\nlink = 'NVLink4'\nlink_gb_s = 450.0\n\
                 gpus_per_domain = 8\npcie_gb_s = 64.0\n{more}"
            );
            read(&text.parse().expect("it is TOML")).expect("it is a GPU")
        };
        let file = |like: &str, more: &str| of("Hopper", like, more);
        let known = profiles::gpu("H100").expect("in the catalogue");
        let ratio = known.fp8_tflops.expect("it has FP8") / known.bf16_tflops;
        let own = file("H100", "");
        assert!((own.fp8_tflops.expect("H100 has it") - 500.0 * ratio).abs() < 1e-9);
        assert_eq!(own.fp4_tflops, None, "H100 has none");
        assert_eq!(file("H100", "fp8_tflops = 700.0").fp8_tflops, Some(700.0));
        assert_eq!(
            file("L40S", "").fp8_tflops,
            None,
            "another architecture may have other formats"
        );
        assert_eq!(of("Ampere", "A100", "").fp8_tflops, None, "A100 has none");
    }

    #[test]
    fn the_catalogue_keeps_the_rules() {
        for profile in profiles::gpus() {
            let broken = profile.spec.broken_rules();
            assert!(broken.is_empty(), "{}: {broken:?}", profile.spec.name);
        }
    }

    #[test]
    fn figures_that_no_device_has_are_named() {
        let mut gpu = profiles::gpu("H100").expect("in the catalogue");
        gpu.bf16_tflops = 0.0;
        gpu.memory_bytes = 80;
        gpu.efficiency.gemm_compute = 1.5;
        gpu.efficiency.all_reduce.swap(0, 1);
        gpu.fp8_tflops = Some(f64::NAN);
        let broken: Vec<String> = gpu.broken_rules().iter().map(ToString::to_string).collect();
        let expected = [
            "bf16_tflops: must be from 0.001 to 10⁹, got 0",
            "fp8_tflops: must be from 0.001 to 10⁹, got NaN",
            "memory_bytes: must be from 1 MiB to 1 PiB, got 80",
            "efficiency.gemm_compute: must be a share from 0.001 to 1, got 1.5",
        ];
        assert_eq!(broken[..4], expected);
        assert!(broken[4].starts_with("efficiency.all_reduce[1].gpus: must be "), "{broken:?}");
    }
}
