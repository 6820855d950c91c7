//! Schedulers in Python.
//!
//! The policy says who computes how many tokens in the next step, and who loses its memory. Blocks of KV memory are
//! counted for it, as many as the scenario's engine has.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use servecast::engine::Finish;
use servecast::engine::scheduler::{KvBlocks, NextStep, Scheduler, SchedulingPolicy};
use servecast::ids::RequestId;
use servecast::request::RequestView;
use servecast::resolved::ReplicaGroup;
use servecast::scenario::EngineConfig;
use servecast::units::SimTime;

use super::{Request, Started};
use crate::job;

/// A request inside of an engine, as its scheduler may know it before a step.
#[pyclass(frozen, module = "servecast", get_all)]
pub(crate) struct EngineRequest {
    /// What was known of it when it came.
    request: Py<Request>,
    /// Its number, in the order of arrival.
    id: u32,
    /// Prompt length in tokens.
    prompt_tokens: u32,
    /// Tokens of its prompt, and of its answer as far as that is out, whose KV is not computed; 1 where it decodes.
    uncomputed: u32,
    /// Tokens of its answer that are out.
    generated: u32,
    /// Whether it has had a share of a step and has not lost its memory since.
    is_admitted: bool,
    /// Tokens whose KV it holds.
    kv_tokens: u32,
}

/// Of a request while a step is decided.
struct Draft {
    id: RequestId,
    uncomputed: u32,
    known: u32,
    kv_tokens: u32,
    is_admitted: bool,
    has_share: bool,
}

/// What was decided.
enum Decision {
    Compute(RequestId, u32),
    Preempt(RequestId),
}

#[derive(Default)]
struct Deciding {
    requests: Vec<Draft>,
    /// The place of each in `requests`.
    places: HashMap<u32, usize>,
    free_blocks: u32,
    decisions: Vec<Decision>,
}

/// The step that is decided next.
#[pyclass(frozen, module = "servecast")]
pub(crate) struct Step {
    /// The requests inside of the engine, in the order of arrival.
    #[pyo3(get)]
    requests: Vec<Py<EngineRequest>>,
    /// Seconds since the start of the run.
    #[pyo3(get)]
    now_s: f64,
    /// Tokens of a block of KV memory.
    #[pyo3(get)]
    block_tokens: u32,
    deciding: Mutex<Deciding>,
}

impl Step {
    fn deciding(&self) -> MutexGuard<'_, Deciding> {
        self.deciding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deciding {
    fn request(&mut self, given: &Bound<'_, PyAny>) -> PyResult<&mut Draft> {
        let id = match given.cast::<EngineRequest>() {
            Ok(request) => request.get().id,
            Err(_) => given.extract::<u32>().map_err(|_| {
                PyTypeError::new_err("scheduler: name a request of the step, or its number")
            })?,
        };
        match self.places.get(&id) {
            Some(place) => Ok(&mut self.requests[*place]),
            None => Err(PyValueError::new_err(format!("scheduler: request {id} is not there"))),
        }
    }
}

#[pymethods]
impl Step {
    /// Blocks of KV memory that no request holds.
    #[getter]
    fn kv_blocks_free(&self) -> u32 {
        self.deciding().free_blocks
    }

    /// Gives a request a share of the step.
    fn compute(&self, request: &Bound<'_, PyAny>, tokens: u32) -> PyResult<()> {
        let mut deciding = self.deciding();
        let free = deciding.free_blocks;
        let one = deciding.request(request)?;
        let (id, left) = (one.id, one.uncomputed);
        if one.has_share {
            let text = format!("scheduler: request {} has a share of the step", id.0);
            return Err(PyValueError::new_err(text));
        }
        if !(1..=left).contains(&tokens) {
            let text = format!(
                "scheduler: request {}: must compute 1 to {left} tokens, got {tokens}",
                id.0
            );
            return Err(PyValueError::new_err(text));
        }
        let blocks = |tokens: u32| tokens.div_ceil(self.block_tokens);
        let more = blocks(one.kv_tokens + tokens) - blocks(one.kv_tokens);
        if more > free {
            return Err(PyMemoryError::new_err(format!(
                "scheduler: request {} needs {more} blocks of KV memory more, and {free} are free",
                id.0
            )));
        }
        one.kv_tokens += tokens;
        one.uncomputed -= tokens;
        (one.is_admitted, one.has_share) = (true, true);
        deciding.free_blocks -= more;
        deciding.decisions.push(Decision::Compute(id, tokens));
        Ok(())
    }

    /// Takes a request its memory: it waits again, and computes all its tokens anew.
    fn preempt(&self, request: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut deciding = self.deciding();
        let one = deciding.request(request)?;
        let id = one.id;
        if one.has_share || !one.is_admitted {
            let is = if one.has_share { "has a share of the step" } else { "holds no memory" };
            let text = format!("scheduler: request {} {is}", id.0);
            return Err(PyValueError::new_err(text));
        }
        let blocks = one.kv_tokens.div_ceil(self.block_tokens);
        (one.kv_tokens, one.uncomputed, one.is_admitted) = (0, one.known, false);
        deciding.free_blocks += blocks;
        deciding.decisions.push(Decision::Preempt(id));
        Ok(())
    }
}

/// A request that has come and has not left.
struct Inside {
    id: RequestId,
    request: Py<Request>,
    prompt_tokens: u32,
    kv_tokens: u32,
    is_admitted: bool,
}

/// A scheduler whose `schedule` is Python.
struct PythonScheduler {
    started: Started,
    /// In the order of arrival.
    inside: Vec<Inside>,
    block_tokens: u32,
    blocks: KvBlocks,
}

impl fmt::Debug for PythonScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonScheduler").field(&self.started).finish()
    }
}

impl Clone for PythonScheduler {
    fn clone(&self) -> Self {
        let cloned = job::call(|py| -> PyResult<Self> {
            let inside =
                self.inside.iter().map(|one| Inside { request: one.request.clone_ref(py), ..*one });
            let (started, inside) = (self.started.copied(py)?, inside.collect());
            let (block_tokens, blocks) = (self.block_tokens, self.blocks);
            Ok(Self { started, inside, block_tokens, blocks })
        });
        cloned.unwrap_or_else(|error| job::end(error))
    }
}

impl PythonScheduler {
    fn decide(&mut self, py: Python<'_>, now: SimTime, step: &NextStep<'_>) -> PyResult<Deciding> {
        let mut deciding = Deciding { free_blocks: self.blocks.free, ..Deciding::default() };
        let mut requests = Vec::with_capacity(self.inside.len());
        for one in &self.inside {
            let (uncomputed, generated) = (step.uncomputed(one.id), step.generated(one.id));
            let request = EngineRequest {
                request: one.request.clone_ref(py),
                id: one.id.0,
                prompt_tokens: one.prompt_tokens,
                uncomputed,
                generated,
                is_admitted: one.is_admitted,
                kv_tokens: one.kv_tokens,
            };
            requests.push(Py::new(py, request)?);
            deciding.places.insert(one.id.0, deciding.requests.len());
            deciding.requests.push(Draft {
                id: one.id,
                uncomputed,
                known: uncomputed + one.kv_tokens,
                kv_tokens: one.kv_tokens,
                is_admitted: one.is_admitted,
                has_share: false,
            });
        }
        let (now_s, block_tokens) = (now.as_secs_f64(), self.block_tokens);
        let step = Step { requests, now_s, block_tokens, deciding: Mutex::new(deciding) };
        let step = Py::new(py, step)?;
        let returned = self.started.call(py, (&step,))?;
        if returned.hasattr("send")? {
            return Err(PyTypeError::new_err(format!(
                "scheduler: `schedule` is a coroutine or a generator, which decides nothing: {returned}"
            )));
        }
        let decided = std::mem::take(&mut *step.get().deciding());
        Ok(decided)
    }
}

impl SchedulingPolicy for PythonScheduler {
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
        let all = request.prompt_tokens.saturating_add(1).div_ceil(self.block_tokens);
        if all > self.blocks.total {
            return Err(Finish::Rejected);
        }
        let object = job::call(|py| Py::new(py, Request::of(&request)));
        self.inside.push(Inside {
            id: request.id,
            request: object.unwrap_or_else(|error| job::end(error)),
            prompt_tokens: request.prompt_tokens,
            kv_tokens: 0,
            is_admitted: false,
        });
        Ok(())
    }

    fn left(&mut self, id: RequestId) {
        let block = self.block_tokens;
        let blocks = &mut self.blocks;
        self.inside.retain(|one| {
            if one.id == id {
                blocks.free += one.kv_tokens.div_ceil(block);
            }
            one.id != id
        });
    }

    fn schedule(&mut self, now: SimTime, step: &mut NextStep<'_>) {
        let decided = job::call(|py| self.decide(py, now, step));
        let decided = decided.unwrap_or_else(|error| job::end(error));
        for decision in decided.decisions {
            match decision {
                Decision::Compute(id, tokens) => step.compute(id, tokens),
                Decision::Preempt(id) => step.preempt(id),
            }
        }
        for (one, decided) in self.inside.iter_mut().zip(&decided.requests) {
            (one.kv_tokens, one.is_admitted) = (decided.kv_tokens, decided.is_admitted);
        }
        self.blocks.free = decided.free_blocks;
    }

    fn kv_blocks(&self) -> KvBlocks {
        self.blocks
    }
}

/// One for the replicas of a group; or why it is not for them.
pub(super) fn of_group(
    group: &ReplicaGroup,
    start: impl FnOnce() -> Started,
) -> Result<Scheduler, String> {
    if group.cluster.lora.is_some() {
        return Err("a scheduler in Python holds no adapters".to_owned());
    }
    if group.cluster.data_parallel_size > 1 {
        return Err("a scheduler in Python has no data-parallel ranks".to_owned());
    }
    if group.cluster.engine.speculation().is_some() {
        return Err("a scheduler in Python verifies no drafts".to_owned());
    }
    let (block_tokens, total) = memory(group);
    Ok(Scheduler::custom(PythonScheduler {
        started: start(),
        inside: Vec::new(),
        block_tokens,
        blocks: KvBlocks { total, free: total },
    }))
}

/// Tokens of a block, and blocks.
fn memory(group: &ReplicaGroup) -> (u32, u32) {
    let (block, capacity) = match &group.cluster.engine {
        EngineConfig::VllmV1(config) => (config.block_size, config.num_gpu_blocks),
        EngineConfig::VllmV0(config) => (config.block_size, config.num_gpu_blocks),
        EngineConfig::Sarathi(config) => (config.block_size, config.num_gpu_blocks),
        EngineConfig::Sglang(config) => (1, config.max_total_tokens),
        EngineConfig::Orca(config) => (1, config.kv_tokens),
        EngineConfig::FasterTransformer(config) => (1, config.kv_tokens),
        EngineConfig::StaticBatching(config) => (1, config.kv_tokens),
    };
    (block, capacity.unwrap_or(u32::MAX))
}
