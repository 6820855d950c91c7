//! GPUs as people write them: any order, any case, with the vendor or without.

use std::collections::BTreeSet;

use crate::hardware::GpuSpec;
use crate::profiles;

/// Words that say nothing more than the others.
const FILLERS: [&str; 16] = [
    "nvidia", "amd", "instinct", "geforce", "tesla", "gpu", "gpus", "edition", "tensor", "core",
    "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x",
];

/// Spellings that tell more than the catalogue's names.
const MORE: [(&str, &str); 10] = [
    ("A40 48GB", "A40"),
    ("L4 24GB", "L4"),
    ("L40S 48GB", "L40S"),
    ("H20 96GB", "H20"),
    ("H800 81GB", "H800-SXM5-80GB"),
    ("MI300X 192GB", "MI300X"),
    ("MI325X 256GB", "MI325X"),
    ("RTX 4090 24GB", "RTX-4090"),
    ("RTX4090 24GB", "RTX-4090"),
    ("RTX PRO 6000 96GB", "RTX-PRO-6000-Blackwell-Server"),
];

/// Names that leave the form factor open; the SXM module is assumed.
const OPEN_FORM_FACTOR: [&str; 3] = ["A100", "A100 80GB", "A100 40GB"];

/// A GPU of the catalogue, and whether its form factor had to be assumed; nothing where no GPU or
/// more than one could be meant.
pub(super) fn find(name: &str) -> Option<(GpuSpec, bool)> {
    let told = words(name);
    let is_open = OPEN_FORM_FACTOR.iter().any(|open| words(open) == told);
    let more = MORE.iter().find(|(spelling, _)| words(spelling) == told);
    let named = more.map(|(_, name)| *name).or_else(|| {
        let mut all = profiles::gpu_names();
        all.find(|known| words(known) == told).or_else(|| part_of_one(&told))
    });
    Some((profiles::gpu(named?)?, is_open))
}

/// The one GPU whose whole name has all these words, among them the chip.
fn part_of_one(told: &BTreeSet<String>) -> Option<&'static str> {
    let has_chip = |name: &str| {
        let chip = name.split('-').next().unwrap_or_default().to_lowercase();
        told.contains(&chip)
    };
    let names = profiles::gpus().map(|profile| profile.spec.name.as_str());
    let mut meant = names.filter(|name| has_chip(name) && told.is_subset(&words(name)));
    // One word is a chip's alias, or none: `RTX`.
    let one = meant.next().filter(|_| told.len() > 1)?;
    meant.next().is_none().then_some(one)
}

/// The words of a name that tell GPUs apart.
fn words(name: &str) -> BTreeSet<String> {
    let lower = name.to_lowercase();
    let mut words: Vec<String> = Vec::new();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        match (word, words.last_mut()) {
            ("gb" | "gib", Some(last)) if last.bytes().all(|b| b.is_ascii_digit()) => {
                last.push_str("gb");
            }
            _ => words.push(word.to_owned()),
        }
    }
    let module = |word: String| match word.as_str() {
        "sxm2" | "sxm3" | "sxm4" | "sxm5" | "sxm6" => "sxm".to_owned(),
        _ => word,
    };
    words.into_iter().filter(|word| !FILLERS.contains(&word.as_str())).map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_name_a_gpu_of_the_catalogue() {
        for (written, name) in [
            ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
            ("h100_pcie", "H100-PCIe-80GB"),
            ("H100 SXM", "H100-SXM5-80GB"),
            ("H100 80GB", "H100-SXM5-80GB"),
            ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
            ("NVIDIA H100 SXM5 80 GB", "H100-SXM5-80GB"),
            ("NVIDIA H100 64GB (MareNostrum 5)", "H100-SXM5-64GB"),
            ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
            ("a100_sxm", "A100-SXM4-80GB"),
            ("A100 40GB", "A100-SXM4-40GB"),
            ("A100 PCIe 80GB", "A100-PCIe-80GB"),
            ("NVIDIA H200 SXM5", "H200-SXM-141GB"),
            ("H200 141GB", "H200-SXM-141GB"),
            ("b200_sxm", "B200-SXM-180GB"),
            ("b300_sxm", "B300-SXM"),
            ("gb300", "GB300"),
            ("AMD MI355X", "MI355X"),
            ("RTX 4090", "RTX-4090"),
            ("NVIDIA RTX 4090 24GB", "RTX-4090"),
            ("NVIDIA A10 24GB", "A10"),
            ("NVIDIA H800 81GB", "H800-SXM5-80GB"),
            ("H20 141GB", "H20-3e"),
            ("H100 NVL", "H100-NVL"),
            ("AMD MI350X", "MI350X"),
            ("Intel Arc Pro B60", "Arc-Pro-B60"),
            ("AMD Instinct MI300X", "MI300X"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Blackwell-Server"),
            ("NVIDIA RTX PRO 6000 Blackwell", "RTX-PRO-6000-Blackwell-Server"),
            ("NVIDIA RTX PRO 6000 96GB", "RTX-PRO-6000-Blackwell-Server"),
            ("RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000-Blackwell-Workstation"),
        ] {
            let found = find(written).map(|(spec, _)| spec.name);
            assert_eq!(found.as_deref(), Some(name), "{written}");
        }
        assert!(find("NVIDIA A100 80GB").unwrap().1 && !find("NVIDIA A100-SXM4-80GB").unwrap().1);
    }

    #[test]
    fn what_no_gpu_or_several_could_be_is_not_guessed() {
        for written in [
            "",
            "NVIDIA",
            "SXM",
            "80GB",
            "RTX",
            "H800 PCIe",
            "NVIDIA A100 PCIe 40GB",
            "GH200 80GB",
            "RTX 6000",
        ] {
            assert_eq!(find(written), None, "{written}");
        }
    }
}
