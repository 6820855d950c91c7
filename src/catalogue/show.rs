//! One entry of the catalogue, or a file of one's own.

use std::path::Path;

use super::{CatalogueError, OnGpu, Sheet};
use crate::cost::{OperatorProfile, StepProfile};
use crate::load::{self, Origin};
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::profiles;

/// Every figure of a model, GPU or table of step times, by its name or file, and of a model on so many of a GPU.
///
/// # Errors
/// When there is nothing of that name, or it is nothing that goes on a GPU.
///
/// # Panics
/// Never: the tables of the catalogue are some.
pub fn show(name: &str, on: Option<(&str, u32)>) -> Result<Sheet, CatalogueError> {
    let refused = |what: &str| Err(Origin::Argument("--gpu").fail(Problem::new("", what)).into());
    if let Some(sheet) = table(name) {
        return match on {
            Some(_) => refused("a table of step times is of one GPU; name a model first"),
            None => Ok(sheet),
        };
    }
    let here = Path::new("");
    let is_gpu = load::is_gpu_file(name);
    let model = if is_gpu { None } else { load::model("cluster.model", name, here)? };
    if let Some(model) = model {
        let is_known = profiles::model(name).is_some();
        let stands_in = || profiles::stand_in(name).is_some_and(|it| it.model == model);
        let stands_in = !is_known && stands_in();
        let is_of = |of: &ModelSpec| *of == model || (stands_in && of.name == model.name);
        let profile = profiles::models().find(|profile| is_of(&profile.spec));
        let mut sheet = Sheet::of_model(&model, profile);
        if stands_in {
            sheet.push_stands_for(name);
        }
        if let Some((gpu, count)) = on {
            sheet.push_on_gpu(&OnGpu::of(name, gpu, count)?);
        }
        return Ok(sheet);
    }
    let Some(spec) = load::gpu("name", name, here)? else { return Err(unknown(name).into()) };
    if on.is_some() {
        return refused(&format!("`{name}` is a GPU itself; name a model first"));
    }
    let profile = profiles::gpus().find(|profile| profile.spec == spec);
    Ok(Sheet::of_gpu(&spec, profile))
}

/// A table of step times, if the name is one's.
fn table(name: &str) -> Option<Sheet> {
    const IS_ONE: &str = "a table of the catalogue is one";
    if let Some(table) = profiles::operator_table(name) {
        let profile = OperatorProfile::parse(table.text).expect(IS_ONE);
        return Some(Sheet::of_operators(table.name, &profile));
    }
    let table = profiles::step_table(name)?;
    let profile = StepProfile::parse(table.text).expect(IS_ONE);
    Some(Sheet::of_steps(table.name, &profile))
}

fn unknown(name: &str) -> Problem {
    let tables = profiles::operator_tables().iter().map(|table| table.name);
    let tables = tables.chain(profiles::step_tables().iter().map(|table| table.name));
    let known = profiles::model_names().chain(profiles::gpu_names()).chain(tables);
    let what = format!("`{name}` is not a model, GPU or table of the catalogue");
    let problem = Problem::new("", what).or_near(profiles::closest(name, known));
    problem.with_hint("`servecast profile list` names all")
}
