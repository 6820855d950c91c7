//! Which published runs tell of a server: those of servers that are like it, from far to near.

use std::collections::BTreeMap;

use crate::calibration::Parameter;
use crate::scenario::{EngineConfig, ScenarioFile};

/// Runs that a fit looks at, a few of each family: more tell little more.
const RUNS: usize = 16;
/// With fewer runs of others on a GPU, its kernels are not fitted to them.
const RUNS_OF_OTHERS: usize = 8;

/// What a server is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Server {
    engine: &'static str,
    /// Who measured: the family up to its first `/`.
    source: String,
    gpu: String,
    model: String,
}

impl Server {
    pub(super) fn of(file: &ScenarioFile, family: &str) -> Self {
        let engine = match file.cluster.engine {
            EngineConfig::Sglang(_) => "SGLang",
            EngineConfig::VllmV0(_) => "vLLM (V0)",
            _ => "vLLM",
        };
        Self {
            engine,
            source: family.split('/').next().unwrap_or_default().to_owned(),
            gpu: file.cluster.gpu.clone(),
            model: file.cluster.model.clone(),
        }
    }

    /// The fits that this server's parameters come from, in order: each begins from the one before.
    pub(super) fn fits(&self, known: &[Known]) -> Vec<Fit> {
        let Self { engine, source, gpu, model } = self;
        let among = |alike: &dyn Fn(&Self) -> bool| -> Vec<usize> {
            let is_alike =
                |&at: &usize| known[at].server.engine == *engine && alike(&known[at].server);
            (0..known.len()).filter(is_alike).collect()
        };
        let of_source = among(&|other| other.source == *source);
        let here = among(&|other| other.source == *source && other.gpu == *gpu);
        let others_here = among(&|other| other.source != *source && other.gpu == *gpu);
        let of_model =
            among(&|other| other.source == *source && other.gpu == *gpu && other.model == *model);

        let mut fits = vec![Fit::new(engine.to_string(), among(&|_| true), host())];
        fits.push(Fit::new(format!("{engine}, {source}"), of_source, host()));
        if here.is_empty() && others_here.len() >= RUNS_OF_OTHERS {
            let parameters = if fits[1].runs.is_empty() { all() } else { kernels() };
            fits.push(Fit::new(
                format!("{engine} on {gpu}, for {source}"),
                others_here,
                parameters,
            ));
        }
        let has_others = of_model.len() < here.len();
        fits.push(Fit::new(format!("{engine}, {source} on {gpu}"), here, all()));
        if has_others {
            fits.push(Fit::new(self.to_string(), of_model, all()));
        }
        fits.retain(|fit| !fit.runs.is_empty());
        for fit in &mut fits {
            fit.runs = spread(&fit.runs, known);
        }
        // The same runs would tell the same again, and count twice.
        fits.dedup_by(|near, far| near.runs == far.runs && near.parameters == far.parameters);
        fits
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { engine, source, gpu, model } = self;
        write!(f, "{engine}, {source} on {gpu}, {model}")
    }
}

/// A run that can be fitted to.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) server: Server,
    pub(super) family: String,
}

/// Parameters that are fitted to some runs.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    /// Whose runs these are.
    pub(super) name: String,
    /// Places among the known runs.
    pub(super) runs: Vec<usize>,
    pub(super) parameters: Vec<Parameter>,
}

impl Fit {
    fn new(name: String, runs: Vec<usize>, parameters: Vec<Parameter>) -> Self {
        Self { name, runs, parameters }
    }
}

/// A few runs of each family, spread evenly over those there are.
fn spread(runs: &[usize], known: &[Known]) -> Vec<usize> {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &at in runs {
        families.entry(&known[at].family).or_default().push(at);
    }
    let share = (RUNS / families.len().max(1)).max(1);
    let few = |all: &Vec<usize>| -> Vec<usize> {
        let count = all.len().min(share);
        (0..count).map(|index| all[index * all.len() / count]).collect()
    };
    families.values().flat_map(few).collect()
}

/// What differs between servers: the way to the engine, and the host's time.
fn host() -> Vec<Parameter> {
    vec![
        Parameter::amount("cluster.api_delay_ms", 20.0),
        Parameter::amount("cluster.api_per_request_ms", 1.0),
        Parameter::amount("cluster.step_time.calibration.per_step_us", 2000.0),
        Parameter::amount("cluster.step_time.calibration.per_prefill_step_us", 5000.0),
        Parameter::amount("cluster.step_time.calibration.per_sequence_us", 30.0),
    ]
}

/// What differs between GPUs of one kind and kernels of one engine.
fn kernels() -> Vec<Parameter> {
    let factor =
        |part: &str| Parameter::factor(format!("cluster.step_time.calibration.{part}"), 0.2);
    [
        "products",
        "products_compute",
        "experts",
        "experts_compute",
        "decode_attention",
        "prefill_attention",
        "all_reduce",
    ]
    .map(factor)
    .to_vec()
}

fn all() -> Vec<Parameter> {
    [host(), kernels()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(source: &str, gpu: &str, model: &str) -> Known {
        let [source, gpu, model] = [source, gpu, model].map(str::to_owned);
        let family = format!("{source}/{model}");
        Known { server: Server { engine: "vLLM", source, gpu, model }, family }
    }

    fn fits(wanted: [&str; 3], runs: &[Known]) -> Vec<(String, Vec<usize>, usize)> {
        let [source, gpu, model] = wanted;
        let fits = known(source, gpu, model).server.fits(runs);
        let sorted = |mut runs: Vec<usize>| {
            runs.sort_unstable();
            runs
        };
        fits.into_iter().map(|fit| (fit.name, sorted(fit.runs), fit.parameters.len())).collect()
    }

    #[test]
    fn parameters_come_from_far_to_near() {
        let runs = [
            known("lab", "H100", "8B"),
            known("lab", "H100", "70B"),
            known("lab", "A100", "8B"),
            known("shop", "H100", "8B"),
        ];
        let (host, all) = (host().len(), all().len());
        let expected = [
            ("vLLM", vec![0, 1, 2, 3], host),
            ("vLLM, lab", vec![0, 1, 2], host),
            ("vLLM, lab on H100", vec![0, 1], all),
            ("vLLM, lab on H100, 8B", vec![0], all),
        ];
        let found = fits(["lab", "H100", "8B"], &runs);
        assert_eq!(found, expected.map(|(name, runs, count)| (name.to_owned(), runs, count)));
    }

    #[test]
    fn kernels_come_from_others_only_where_the_source_has_no_runs_on_the_gpu_and_they_are_many() {
        let mut runs = vec![known("lab", "A100", "8B")];
        let names = |runs: &[Known]| -> Vec<(String, usize)> {
            let found = fits(["lab", "H100", "8B"], runs);
            found.into_iter().map(|(name, _, parameters)| (name, parameters)).collect()
        };
        let (host, kernels) = (host().len(), kernels().len());
        let own = [("vLLM".to_owned(), host), ("vLLM, lab".to_owned(), host)];
        for _ in 0..7 {
            runs.push(known("shop", "H100", "8B"));
            assert_eq!(names(&runs), own);
        }
        runs.push(known("shop", "H100", "8B"));
        assert_eq!(names(&runs)[2..], [("vLLM on H100, for lab".to_owned(), kernels)]);
        // Without any run of the source the host is theirs, too.
        assert_eq!(names(&runs[1..])[1..], [("vLLM on H100, for lab".to_owned(), host + kernels)]);
    }

    #[test]
    fn the_same_runs_are_not_asked_for_the_same_twice() {
        let runs = [known("lab", "H100", "8B"), known("lab", "A100", "8B")];
        let names = |wanted| -> Vec<String> {
            fits(wanted, &runs).into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names(["lab", "H100", "8B"]), ["vLLM", "vLLM, lab on H100"]);
        // Other parameters of them are another question.
        let alone = fits(["lab", "H100", "8B"], &runs[..1]);
        let runs_and_parameters: Vec<_> = alone.iter().map(|(_, runs, n)| (runs, *n)).collect();
        assert_eq!(runs_and_parameters, [(&vec![0], host().len()), (&vec![0], all().len())]);
    }

    #[test]
    fn every_family_gives_as_many_runs() {
        let runs: Vec<Known> =
            (0..100).map(|at| known("lab", "H100", if at < 96 { "8B" } else { "70B" })).collect();
        let all = fits(["lab", "H100", "8B"], &runs);
        let of = |large: bool| all[0].1.iter().filter(|at| (**at >= 96) == large).count();
        assert_eq!((of(false), of(true)), (8, 4));
        assert_eq!(all[0].1.iter().filter(|at| **at < 12).count(), 1);
    }
}
