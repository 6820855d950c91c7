//! Whose benchmark is asked for: told by the words of a pasted command, by `--tool`, or by a backend that
//! only one tool has. What two tools would answer differently is not guessed.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::args::{BenchArguments, Engine, ReportArguments, WorkloadArguments};
use crate::cli::failure::Failure;
use crate::metrics::bench::Tool;

/// A benchmark tool by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ToolName {
    #[value(help = "sglang.bench_serving 0.5.23")]
    Sglang,
    /// vllm bench serve 0.33.0
    Vllm,
}

impl From<ToolName> for Tool {
    fn from(name: ToolName) -> Self {
        match name {
            ToolName::Sglang => Self::Sglang,
            ToolName::Vllm => Self::Vllm,
        }
    }
}

/// The server that a tool believes it talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Backend {
    /// SGLang's own endpoint
    Sglang,
    /// the same
    SglangNative,
    /// SGLang's completions
    SglangOai,
    /// SGLang's chat completions
    SglangOaiChat,
    /// vLLM's completions
    Vllm,
    /// vLLM's chat completions, a backend of SGLang's tool
    VllmChat,
    /// any server's completions, a backend of vLLM's tool
    Openai,
    /// any server's chat completions, a backend of vLLM's tool
    OpenaiChat,
}

impl Backend {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sglang => "sglang",
            Self::SglangNative => "sglang-native",
            Self::SglangOai => "sglang-oai",
            Self::SglangOaiChat => "sglang-oai-chat",
            Self::Vllm => "vllm",
            Self::VllmChat => "vllm-chat",
            Self::Openai => "openai",
            Self::OpenaiChat => "openai-chat",
        }
    }

    /// The tools that have it.
    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Sglang
            | Self::SglangNative
            | Self::SglangOai
            | Self::SglangOaiChat
            | Self::VllmChat => &[Tool::Sglang],
            Self::Vllm => &[Tool::Sglang, Tool::Vllm],
            Self::Openai | Self::OpenaiChat => &[Tool::Vllm],
        }
    }

    /// The engine behind it, where only one has such an endpoint.
    fn engine(self) -> Option<Engine> {
        match self {
            Self::Sglang | Self::SglangNative | Self::SglangOai | Self::SglangOaiChat => {
                Some(Engine::Sglang)
            }
            Self::Vllm | Self::VllmChat => Some(Engine::Vllm),
            Self::Openai | Self::OpenaiChat => None,
        }
    }
}

const PASTE: &str = "paste the whole command, `servecast bench vllm bench serve ..` or `servecast \
                     bench python -m sglang.bench_serving ..`, or give --tool";

impl WorkloadArguments {
    /// Whose benchmark it is.
    ///
    /// # Errors
    /// When two tools would answer differently, or the tool has no such backend.
    pub(in crate::cli) fn tool(&self) -> Result<Tool, Failure> {
        let tool = match (self.tool, self.backend) {
            (Some(tool), _) => tool.into(),
            (None, Some(backend)) => match backend.tools() {
                [tool] => *tool,
                _ => {
                    return Err(Failure::input(format!(
                        "--backend {}: is a backend of both tools, which draw other requests; {PASTE}",
                        backend.name()
                    )));
                }
            },
            (None, None) => {
                return Err(Failure::input(format!(
                    "which benchmark tool is meant? sglang.bench_serving and vllm bench serve draw \
                     other requests from the same flags; {PASTE}"
                )));
            }
        };
        match self.backend {
            Some(backend) if !backend.tools().contains(&tool) => Err(Failure::input(format!(
                "--backend {}: is not a backend of {}",
                backend.name(),
                title(tool)
            ))),
            _ => Ok(tool),
        }
    }

    /// The backend: that of the flag, or the tool's default.
    pub(super) fn backend_of(&self, tool: Tool) -> Backend {
        self.backend.unwrap_or(match tool {
            Tool::Sglang => Backend::Sglang,
            Tool::Vllm => Backend::Openai,
        })
    }

    /// The engine that is simulated.
    ///
    /// # Errors
    /// When the one asked for does not have the backend's endpoint.
    pub(super) fn engine(&self, asked: Option<Engine>, tool: Tool) -> Result<Engine, Failure> {
        let backend = self.backend_of(tool);
        match (asked, backend.engine()) {
            (Some(asked), Some(behind)) if asked != behind => Err(Failure::input(format!(
                "--engine: {} does not have the endpoint of --backend {}",
                asked.name(),
                backend.name()
            ))),
            (Some(asked), _) => Ok(asked),
            (None, Some(behind)) => Ok(behind),
            (None, None) => Ok(Engine::Vllm),
        }
    }
}

/// A tool and the version whose rules are followed.
pub(super) fn title(tool: Tool) -> &'static str {
    match tool {
        Tool::Sglang => "sglang.bench_serving 0.5.23",
        Tool::Vllm => "vllm bench serve 0.33.0",
    }
}

/// A pasted command as clap can read it: the words before its flags become `--tool`, flags may be written
/// with underscores, and vLLM's `-tp 4` has a short flag of two letters. Or what is wrong with the words.
pub(in crate::cli) fn expand(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let mut all: Vec<OsString> = arguments.into_iter().collect();
    if all.get(1).is_none_or(|command| command != "bench") {
        return Ok(all);
    }
    let mut pasted = all.split_off(2);
    let start = first_word(&pasted);
    let words = leading_words(&pasted[start..]);
    if let Some(tool) = tool_of(&words)? {
        all.extend(["--tool".into(), tool.into()]);
    }
    pasted.drain(start..start + words.len());
    let own = WorkloadArguments::augment_args(clap::Command::new("workload"));
    let tools_own = long_flags(&ReportArguments::augment_args(own));
    let known = long_flags(&BenchArguments::augment_args(clap::Command::new("bench")));
    all.extend(pasted.iter().map(|argument| flag(argument, &tools_own, &known)));
    Ok(all)
}

/// Where a pasted command begins: behind the flags of this program, if there are some before it.
fn first_word(arguments: &[OsString]) -> usize {
    let is_one = |part: &[OsString], known: &[&str]| part.iter().eq(known.iter().copied());
    let begins = |at: &usize| {
        let rest = &arguments[*at..];
        rest.get(..3).is_some_and(|words| {
            is_one(words, &["vllm", "bench", "serve"])
                || is_one(&words[1..], &["-m", "sglang.bench_serving"])
                || is_one(&words[1..], &["-m", "sglang.benchmark.serving"])
        })
    };
    match arguments.first().and_then(|first| first.to_str()) {
        Some(first) if first.starts_with('-') => (0..arguments.len()).find(begins).unwrap_or(0),
        _ => 0,
    }
}

/// The long flags of a command, whatever they are called.
fn long_flags(command: &clap::Command) -> Vec<String> {
    let mut all = Vec::new();
    for flag in command.get_arguments() {
        all.extend(flag.get_long());
        all.extend(flag.get_all_aliases().unwrap_or_default());
    }
    all.into_iter().map(str::to_owned).collect()
}

/// The words before the flags; `-m` is one of them.
fn leading_words(arguments: &[OsString]) -> Vec<String> {
    let words = arguments.iter().map_while(|argument| argument.to_str());
    words.take_while(|word| !word.starts_with('-') || *word == "-m").map(str::to_owned).collect()
}

/// The tool that a command of these words starts.
fn tool_of(words: &[String]) -> Result<Option<&'static str>, String> {
    let is_setting = |word: &&String| word.contains('=') && !word.contains('/');
    let words: Vec<&str> = words.iter().skip_while(is_setting).map(String::as_str).collect();
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or_default());
    let rest = match program {
        "" => return Ok(None),
        python if python.starts_with("python") => &words[1..],
        _ => &words[..],
    };
    match rest {
        ["-m", "sglang.bench_serving" | "sglang.benchmark.serving"]
        | ["sglang.bench_serving" | "sglang.benchmark.serving"] => Ok(Some("sglang")),
        ["vllm", "bench", "serve"] | ["-m", "vllm.entrypoints.cli.main", "bench", "serve"] => {
            Ok(Some("vllm"))
        }
        ["vllm", "serve", ..] | ["-m", "sglang.launch_server" | "vllm.entrypoints.openai.api_server"] => {
            Err("this starts a server: give its flags behind those of the benchmark, as in \
                 `servecast bench vllm bench serve --model .. --max-num-seqs 128`"
                .to_owned())
        }
        [script] if script.ends_with("benchmark_serving.py") => Err(
            "benchmark_serving.py drew other requests than `vllm bench serve`, by version: paste a \
             command of `vllm bench serve`, or write a scenario (arrivals and lengths of type \
             `vllm_2024` are those of late 2024)"
                .to_owned(),
        ),
        _ => Err(format!(
            "`{}`: is not a command of a known benchmark tool; paste `vllm bench serve ..` or \
             `python -m sglang.bench_serving ..`",
            words.join(" ")
        )),
    }
}

/// A flag as clap knows it. What abbreviates a flag of the tools and one of a server is the tools': they
/// know no other.
fn flag(argument: &OsString, tools_own: &[String], known: &[String]) -> OsString {
    let long = match argument.to_str() {
        Some("-tp") => "--tensor-parallel-size",
        Some("-pp") => "--pipeline-parallel-size",
        Some("-dp") => "--data-parallel-size",
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            let name = name[2..].replace('_', "-");
            let mut meant = tools_own.iter().filter(|long| long.starts_with(&name));
            return match (meant.next(), meant.next()) {
                (Some(long), None) if !name.is_empty() && !known.contains(&name) => {
                    format!("--{long}{value}").into()
                }
                _ => format!("--{name}{value}").into(),
            };
        }
        _ => return argument.clone(),
    };
    long.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(command: &str) -> Result<String, String> {
        let words = ["servecast", "bench"].into_iter().chain(command.split_whitespace());
        let all = expand(words.map(OsString::from))?;
        let all: Vec<&str> =
            all[2..].iter().map(|word| word.to_str().expect("it is text")).collect();
        Ok(all.join(" "))
    }

    #[test]
    fn the_words_of_a_pasted_command_tell_its_tool() {
        for (command, tool) in [
            ("vllm bench serve --seed 1", "vllm"),
            ("CUDA_VISIBLE_DEVICES=0 vllm bench serve --seed 1", "vllm"),
            ("python3 -m sglang.bench_serving --seed 1", "sglang"),
            ("sglang.bench_serving --seed 1", "sglang"),
            ("--seed 1 vllm bench serve", "vllm"),
            ("--seed 1 python -m sglang.bench_serving", "sglang"),
            ("/usr/bin/python3.12 -m sglang.benchmark.serving --seed 1", "sglang"),
        ] {
            assert_eq!(expanded(command), Ok(format!("--tool {tool} --seed 1")), "{command}");
        }
        assert_eq!(expanded("--seed 1 -tp 4"), Ok("--seed 1 --tensor-parallel-size 4".to_owned()));
        let abbreviated = expanded("--max-c=3 --num_prompt 4 --max 5 --max-num 6");
        let meant = "--max-concurrency=3 --num-prompts 4 --max-concurrency 5 --max-num 6";
        assert_eq!(abbreviated, Ok(meant.to_owned()));
        assert_eq!(expanded("--num_prompts=3 x_y"), Ok("--num-prompts=3 x_y".to_owned()));
    }

    #[test]
    fn what_starts_no_known_benchmark_is_refused() {
        for (command, why) in [
            ("vllm serve Qwen/Qwen3-8B --seed 1", "starts a server"),
            ("python -m sglang.launch_server --seed 1", "starts a server"),
            ("python benchmarks/benchmark_serving.py --seed 1", "drew other requests"),
            ("genai-perf profile --seed 1", "is not a command of a known benchmark tool"),
        ] {
            let refused = expanded(command).expect_err(command);
            assert!(refused.contains(why), "{command}: {refused}");
        }
    }
}
