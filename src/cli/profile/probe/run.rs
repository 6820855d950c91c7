//! The probe from its arguments to its report.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::ProbeArguments;
use super::text;
use crate::calibrate::probe::{Limits, Probe, Question, ServerProbeError};
use crate::cli::failure::Failure;
use crate::cli::profile::import::check_new;
use crate::cli::progress;
use crate::cli::replace;
use crate::cli::terminal::{listener, print, say};

pub(in crate::cli::profile) fn probe(arguments: &ProbeArguments) -> Result<(), Failure> {
    if !(arguments.timeout > 0.0 && arguments.timeout <= 86_400.0) {
        let problem =
            format!("--timeout: must be above 0 s, got {}", crate::plain::shown(arguments.timeout));
        return Err(Failure::input(problem));
    }
    if let Some(path) = &arguments.output {
        check_new(path)?;
    }
    let probe = Probe::of(&arguments.question()?, &listener())?;
    if arguments.dry_run {
        return print(&probe.plan.to_string());
    }
    let requests = probe.plan.requests();
    let bar = std::io::stderr().is_terminal().then(|| progress::of_requests(requests));
    let answers = probe.measure(|count| bar.iter().for_each(|bar| bar.inc(count.into())))?;
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let probed = probe.fit(&answers)?;
    print(&text::text(&probed))?;
    let Some(path) = &arguments.output else { return Ok(()) };
    let text = probed.file.text();
    replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
    say(&format!("parameters in {}", path.display()));
    Ok(())
}

impl ProbeArguments {
    fn question(&self) -> Result<Question, Failure> {
        let header = |text: &String| {
            let parts = text.split_once('=').ok_or_else(|| {
                Failure::input("--header: must be NAME=VALUE, as in --header X-Tenant=test")
            })?;
            Ok((parts.0.trim().to_owned(), parts.1.to_owned()))
        };
        Ok(Question {
            url: self.url.clone(),
            model: self.model.clone(),
            gpu: self.gpu.clone(),
            config: self.config.clone(),
            tensor_parallel_size: self.tensor_parallel_size,
            limits: Limits {
                prompt_tokens: self.max_prompt_tokens,
                context_tokens: self.max_context_tokens,
                streams: self.max_concurrency,
                repetitions: self.repetitions,
            },
            api_key: self.api_key.clone().or_else(|| std::env::var("OPENAI_API_KEY").ok()),
            headers: self.header.iter().map(header).collect::<Result<_, Failure>>()?,
            timeout: Duration::from_secs_f64(self.timeout),
            seed: self.seed,
        })
    }
}

impl From<ServerProbeError> for Failure {
    fn from(error: ServerProbeError) -> Self {
        match error {
            ServerProbeError::Question(error) => error.into(),
            other => Self::Input(other.into()),
        }
    }
}
