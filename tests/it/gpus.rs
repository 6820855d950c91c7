//! The catalogue of GPUs: its files, its page, and what engines take them for.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use servecast::hardware::GpuSpec;
use servecast::model::Generation;
use servecast::profiles::{self, CostProfile, ModelTable, Profile};

const BEGIN: &str = "<!-- The table is made by tests/it/gpus.rs. -->\n";
const END: &str = "<!-- Here it ends. -->\n";
/// With this set the page is written instead of compared.
const WRITE: &str = "SERVECAST_WRITE_DOCS";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

#[test]
fn every_file_of_a_gpu_is_part_of_the_catalogue() {
    let files = fs::read_dir(path("profiles/gpus")).expect("the folder is there").count();
    assert_eq!(files, profiles::gpus().count(), "a file has no line in src/profiles.rs");
    for page in ["README.md", "docs/modelled.md"] {
        let text = fs::read_to_string(path(page)).expect("the page is there");
        assert!(text.contains(&format!("{files} GPUs and accelerators")), "{page}: {files} files");
    }
}

/// A digit too many or too few in bytes or bandwidth shows here.
#[test]
fn the_memory_of_a_gpu_is_read_in_a_time_that_there_is() {
    for GpuSpec { name, memory_bytes, memory_bandwidth_gb_s, .. } in specs() {
        let secs = *memory_bytes as f64 / (memory_bandwidth_gb_s * 1e9);
        // The RTX 5090 takes 0.019 s, the GB10 0.48 s.
        assert!((0.01..0.6).contains(&secs), "{name}: {secs} s");
    }
}

#[test]
fn narrow_products_are_no_slower_than_wide_ones() {
    for gpu in specs() {
        let narrow = [gpu.fp8_tflops, gpu.fp4_tflops].into_iter().flatten();
        let rates: Vec<f64> = std::iter::once(gpu.bf16_tflops).chain(narrow).collect();
        assert!(rates.is_sorted(), "{}: {rates:?}", gpu.name);
        // B300 multiplies four bits at 6.2 times the rate of sixteen; data sheets round.
        assert!(rates.last() <= Some(&(8.01 * rates[0])), "{}: {rates:?}", gpu.name);
    }
}

#[test]
fn engines_take_a_gpu_for_one_of_its_generation() {
    let of = |generation: Generation, names: &[&str]| {
        for name in names {
            let card = profiles::gpu(name).expect(name).card();
            assert_eq!(card.generation, generation, "{name}");
        }
    };
    of(Generation::Hopper, &["H100", "H20-3e", "H800", "H100-NVL", "GH200", "GH200-144GB"]);
    of(Generation::Blackwell, &["B200", "B300", "GB200", "GB300"]);
    let others = ["GB10", "RTX-5090", "RTX-PRO-6000", "RTX-PRO-6000-Blackwell-Max-Q", "A30", "L20"];
    of(Generation::OtherNvidia, &others);
    let strange = ["MI350X", "Gaudi3", "TPU-v6e", "Trainium3", "Ascend A3", "B60"];
    of(Generation::Other, &strange);
}

/// Buffers of a switch that multiplies are for cards that have one.
#[test]
fn a_bridge_is_no_switch() {
    let has = |name: &str| profiles::gpu(name).expect(name).card().has_multicast;
    assert!(has("H100") && has("H20-3e") && has("GB300"));
    assert!(!has("H100-NVL") && !has("H100-PCIe") && !has("A100") && !has("5090"));
}

#[test]
fn the_page_says_of_every_gpu_what_is_measured() {
    let file = path("docs/models-and-gpus.md");
    let page = fs::read_to_string(&file).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the table begins");
    let (found, after) = rest.split_once(END).expect("the table ends");
    let table = table();
    if env::var_os(WRITE).is_some() {
        fs::write(&file, [before, BEGIN, &table, END, after].concat()).expect("can be written");
        return;
    }
    assert_eq!(found, table, "run the tests with {WRITE}=1 to write docs/models-and-gpus.md anew");
}

fn specs() -> impl Iterator<Item = &'static GpuSpec> {
    profiles::gpus().map(|profile| &profile.spec)
}

fn table() -> String {
    let mut text = "\n| GPU | also called | memory | figures | operators measured | layers and steps measured | \
                    kernels where no table tells |\n|---|---|---:|---|---|---|---|\n"
        .to_owned();
    for profile in profiles::gpus() {
        let spec = &profile.spec;
        let gib = spec.memory().as_gib();
        let (name, aliases) = (&spec.name, profile.aliases.join(", "));
        let (operators, models) = (operators(spec), models(spec));
        let (confidence, kernels) = (&profile.confidence, kernels(profile));
        let row = format!(
            "| {name} | {aliases} | {gib:.1} GiB | {confidence} | {operators} | {models} | {kernels} |"
        );
        writeln!(text, "{row}").expect("a string can be written to");
    }
    text.push('\n');
    text
}

/// The engines whose operators were measured on this GPU.
fn operators(gpu: &GpuSpec) -> String {
    let of = |engine: &str, shown: &str| {
        let fits = |table: &&CostProfile| {
            table.gpu().eq_ignore_ascii_case(&gpu.name) && table.engine() == engine
        };
        let tables = profiles::operator_tables().iter().filter(fits);
        let versions: Vec<&str> = tables.map(CostProfile::version).collect();
        (!versions.is_empty()).then(|| format!("{shown} {}", versions.join(", ")))
    };
    let engines = [of("vllm", "vLLM"), of("sglang", "SGLang")];
    or_dash(&engines.into_iter().flatten().collect::<Vec<_>>())
}

/// The models of which layers or whole steps were measured on this GPU.
fn models(gpu: &GpuSpec) -> String {
    let of = |tables: &'static [ModelTable], what: &str| {
        let tables = tables.iter().filter(|table| table.gpu == gpu.name);
        tables.fold(Vec::new(), |mut told: Vec<(String, Vec<u32>)>, table| {
            let model = table.model.rsplit('/').next().unwrap_or(table.model);
            let shown = format!("{what} of {model} on");
            match told.iter_mut().find(|(known, _)| *known == shown) {
                Some((_, gpus)) => gpus.push(table.tensor_parallel_size),
                None => told.push((shown, vec![table.tensor_parallel_size])),
            }
            told
        })
    };
    let layers = of(profiles::layer_tables(), "layers");
    let told = layers.into_iter().chain(of(profiles::step_tables(), "steps"));
    let shown = told.map(|(what, gpus)| {
        let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
        format!("{what} {}", gpus.join(", "))
    });
    or_dash(&shown.collect::<Vec<_>>())
}

/// Whose shares of peak the roofline takes.
fn kernels(profile: &Profile<GpuSpec>) -> String {
    let efficiency = &profile.spec.efficiency;
    if efficiency.measured_on != profile.spec.name {
        let other = profiles::gpu(&efficiency.measured_on).expect("a test of profiles");
        return match kinship(&profile.spec, &other) {
            kin @ "same generation" => format!("{}, {kin}", other.name),
            stranger => format!("guess: {}, {stranger}", other.name),
        };
    }
    let is_read_off = efficiency.source.starts_with("read off published runs");
    if is_read_off { "read off published runs" } else { "measured" }.to_owned()
}

/// How near two chips are: generations are words of `architecture` (`Grace-Hopper GH100`).
fn kinship(gpu: &GpuSpec, other: &GpuSpec) -> &'static str {
    let words = |gpu: &GpuSpec| -> Vec<String> {
        gpu.architecture.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect()
    };
    let known = words(other);
    match () {
        () if gpu.vendor != other.vendor => "another vendor",
        () if words(gpu).iter().any(|word| known.contains(word)) => "same generation",
        () => "another generation",
    }
}

fn or_dash(told: &[String]) -> String {
    if told.is_empty() { "–".to_owned() } else { told.join("; ") }
}
