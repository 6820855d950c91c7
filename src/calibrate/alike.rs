//! Which published runs tell of a server: those of servers that are like it, from far to near.

use std::collections::BTreeMap;

use crate::calibration::Parameter;
use crate::profiles;
use crate::scenario::{EngineConfig, ScenarioFile};

/// Runs that a fit looks at, a few of each family: more tell little more.
const RUNS: usize = 16;
/// How far servers of one kind differ, as a share: other hosts, versions and drivers.
const SCATTER: f64 = 0.25;

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

    /// The fits that this server's parameters come from, in order: each begins from the one before. What others
    /// measured tells no more of it than what is expected of every server does.
    pub(super) fn fits(&self, known: &[Known]) -> Vec<Fit> {
        let Self { engine, source, gpu, .. } = self;
        let among = |alike: &dyn Fn(&Self) -> bool| -> Vec<usize> {
            let is_alike = |&at: &usize| {
                let other = &known[at].server;
                other.engine == *engine && other.source == *source && alike(other)
            };
            (0..known.len()).filter(is_alike).collect()
        };
        let of_source = format!("{engine}, {source}");
        let models = if self.has_experts() { "mixtures of experts" } else { "dense models" };
        let is_of_kind =
            |other: &Self| other.gpu == *gpu && other.has_experts() == self.has_experts();
        // All models share the host, those of one kind the kernels; one model may have some of its own.
        let steps = [
            (of_source.clone(), among(&|_| true), host()),
            (format!("{of_source} on {gpu}, {models}"), among(&is_of_kind), all()),
            (self.to_string(), among(&|other| other == self), all()),
        ];
        let steps = steps.into_iter().filter(|(_, runs, ..)| !runs.is_empty());
        let mut fits: Vec<Fit> = steps
            .map(|(name, runs, parameters)| Fit {
                name,
                runs: self.weighed(&spread(&runs, known), known),
                parameters,
            })
            .collect();
        // The same runs would tell the same again, and count twice.
        fits.dedup_by(|near, far| near.runs == far.runs && near.parameters == far.parameters);
        fits
    }

    /// Whether its model is a mixture of experts, as far as that is known.
    fn has_experts(&self) -> bool {
        profiles::model(&self.model).is_some_and(|model| model.experts().is_some())
    }

    /// How far each run may be off, as a share. All runs of another server tell of it as much as one does: what is
    /// its own is in each of them.
    fn weighed(&self, runs: &[usize], known: &[Known]) -> Vec<Witness> {
        let alike = |server: &Self| runs.iter().filter(|at| known[**at].server == *server).count();
        let witness = |at: &usize| {
            let server = &known[*at].server;
            let is_other = server != self;
            let count = if is_other { alike(server) } else { 1 };
            Witness {
                at: *at,
                scatter: SCATTER * (count as f64).sqrt(),
                stranger: is_other.then(|| server.to_string()),
            }
        };
        runs.iter().map(witness).collect()
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
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// Whose runs these are.
    pub(super) name: String,
    pub(super) runs: Vec<Witness>,
    pub(super) parameters: Vec<Parameter>,
}

impl Fit {
    /// The runs of each of its servers, by their names; `None` is the server that is asked about.
    pub(super) fn servers(&self) -> BTreeMap<Option<&str>, Vec<usize>> {
        let mut servers: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for run in &self.runs {
            servers.entry(run.stranger.as_deref()).or_default().push(run.at);
        }
        servers
    }

    /// The same without the runs of one of its servers, to which all others are strangers.
    pub(super) fn without(&self, server: Option<&str>) -> Self {
        let own = self.runs.iter().filter(|run| run.stranger.is_none()).count();
        let others = self.runs.iter().filter(|run| run.stranger.as_deref() != server);
        let as_stranger = |run: &Witness| match &run.stranger {
            Some(_) => run.clone(),
            None => Witness {
                scatter: run.scatter * (own as f64).sqrt(),
                stranger: Some("the server asked about".to_owned()),
                ..*run
            },
        };
        Self { runs: others.map(as_stranger).collect(), ..self.clone() }
    }
}

/// A run as it tells of a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Witness {
    /// Its place among the known runs.
    pub(super) at: usize,
    /// How far it may be off, as a share.
    pub(super) scatter: f64,
    /// The server that it is of, if that is another one: all its figures are off by what is that one's own, and it is
    /// doubted where it is far off.
    pub(super) stranger: Option<String>,
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

/// What differs between servers: the CPU, the way to it, and the time that its host takes besides, little enough not to
/// stand for what kernels take. Factors are of what is expected.
fn host() -> Vec<Parameter> {
    vec![
        Parameter::factor("cluster.host.cpu".to_owned(), 0.3),
        Parameter::amount("cluster.api_delay_ms", 20.0),
        Parameter::amount("cluster.step_time.calibration.per_step_us", 500.0),
        Parameter::amount("cluster.step_time.calibration.per_prefill_step_us", 1500.0),
        Parameter::amount("cluster.step_time.calibration.per_sequence_us", 10.0),
    ]
}

/// What differs between GPUs of one kind and kernels of one engine, as factors of what is expected.
fn kernels() -> Vec<Parameter> {
    let factor =
        |part: &str| Parameter::factor(format!("cluster.step_time.calibration.{part}"), 0.3);
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

/// All that is fitted, by what is expected of it.
pub(super) fn all() -> Vec<Parameter> {
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
        let places = |runs: &[Witness]| {
            let mut places: Vec<usize> = runs.iter().map(|run| run.at).collect();
            places.sort_unstable();
            places
        };
        fits.into_iter().map(|fit| (fit.name, places(&fit.runs), fit.parameters.len())).collect()
    }

    /// The one to runs of dense models on the GPU.
    fn on_gpu(fits: &[Fit]) -> &Fit {
        fits.iter().find(|fit| fit.name == "vLLM, lab on H100, dense models").expect("a fit")
    }

    #[test]
    fn parameters_come_from_far_to_near_of_one_source() {
        let runs = [
            known("lab", "H100", "8B"),
            known("lab", "H100", "70B"),
            known("lab", "A100", "8B"),
            known("shop", "H100", "8B"),
        ];
        let (host, all) = (host().len(), all().len());
        let expected = [
            ("vLLM, lab", vec![0, 1, 2], host),
            ("vLLM, lab on H100, dense models", vec![0, 1], all),
            ("vLLM, lab on H100, 8B", vec![0], all),
        ];
        let found = fits(["lab", "H100", "8B"], &runs);
        assert_eq!(found, expected.map(|(name, runs, count)| (name.to_owned(), runs, count)));
        assert!(fits(["other", "H100", "8B"], &runs).is_empty(), "nobody knows it");
    }

    #[test]
    fn kernels_of_experts_tell_nothing_of_dense_models() {
        let runs = [
            known("lab", "H100", "Qwen3-8B"),
            known("lab", "H100", "Qwen3-30B-A3B"),
            known("lab", "H100", "gpt-oss-20b"),
        ];
        let (host, all) = (host().len(), all().len());
        let expected = [
            ("vLLM, lab", vec![0, 1, 2], host),
            ("vLLM, lab on H100, mixtures of experts", vec![1, 2], all),
        ];
        let found = fits(["lab", "H100", "DeepSeek-R1"], &runs);
        assert_eq!(found, expected.map(|(name, runs, count)| (name.to_owned(), runs, count)));
    }

    #[test]
    fn many_runs_of_another_server_tell_as_much_as_one() {
        let mut runs = vec![known("lab", "H100", "8B"); 4];
        runs.extend(vec![known("lab", "H100", "70B"); 9]);
        let fits = known("lab", "H100", "8B").server.fits(&runs);
        let on_gpu = on_gpu(&fits);
        let find = |at: usize| on_gpu.runs.iter().find(|run| run.at == at);
        let scatter = |at: usize| find(at).expect("a run").scatter;
        assert_eq!(scatter(0).to_bits(), SCATTER.to_bits());
        // Eight of the nine are looked at.
        let of_other = on_gpu.runs.iter().filter(|run| run.at >= 4).map(|run| run.scatter);
        let weight: f64 = of_other.map(|scatter| scatter.powi(-2)).sum();
        assert!((weight - SCATTER.powi(-2)).abs() < 1e-9, "{weight}");
    }

    #[test]
    fn each_server_is_left_out_and_all_others_are_strangers_to_it() {
        let mut runs = vec![known("lab", "H100", "8B"); 2];
        runs.extend(vec![known("lab", "H100", "70B"); 3]);
        let fits = known("lab", "H100", "8B").server.fits(&runs);
        let on_gpu = on_gpu(&fits);
        let others = "vLLM, lab on H100, 70B";
        assert_eq!(
            on_gpu.servers(),
            BTreeMap::from([(None, vec![0, 1]), (Some(others), vec![2, 3, 4])])
        );
        for (server, left) in [(None, vec![2, 3, 4]), (Some(others), vec![0, 1])] {
            let fit = on_gpu.without(server);
            assert_eq!(fit.runs.iter().map(|run| run.at).collect::<Vec<_>>(), left);
            assert!(fit.runs.iter().all(|run| run.stranger.is_some()), "{fit:?}");
            // All runs of one tell as much as one.
            let weight: f64 = fit.runs.iter().map(|run| run.scatter.powi(-2)).sum();
            assert!((weight - SCATTER.powi(-2)).abs() < 1e-9, "{weight}");
        }
    }

    #[test]
    fn other_models_are_doubted() {
        let runs = [known("lab", "H100", "8B"), known("lab", "H100", "70B")];
        let fits = runs[0].server.fits(&runs);
        let doubted = |fit: &Fit| -> Vec<usize> {
            fit.runs.iter().filter(|run| run.stranger.is_some()).map(|run| run.at).collect()
        };
        let found: Vec<Vec<usize>> = fits.iter().map(doubted).collect();
        assert_eq!(found, [vec![1], vec![1], vec![]]);
    }

    #[test]
    fn the_same_runs_are_not_asked_for_the_same_twice() {
        let runs = [known("lab", "H100", "8B"), known("lab", "A100", "8B")];
        let names = |wanted| -> Vec<String> {
            fits(wanted, &runs).into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names(["lab", "H100", "8B"]), ["vLLM, lab", "vLLM, lab on H100, dense models"]);
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
