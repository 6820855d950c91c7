//! Some of the scenarios of a file, by name.

use toml::Value;

use super::draft::Draft;
use super::error::{LoadError, Origin};
use crate::plain::matches;
use crate::problem::Problem;
use crate::profiles;

/// The scenarios whose names fit a pattern, in which `*` stands for any text and `?` for one letter: first those of the first
/// pattern, then those that only the second one fits, and so on. All of them without a pattern.
///
/// # Errors
/// When a pattern fits none.
pub fn only(all: Vec<Draft>, patterns: &[String]) -> Result<Vec<Draft>, LoadError> {
    if patterns.is_empty() {
        return Ok(all);
    }
    let names: Vec<String> = all.iter().map(|draft| title(draft).to_owned()).collect();
    let mut places: Vec<usize> = Vec::new();
    for pattern in patterns {
        let fits = (0..all.len()).filter(|place| matches(pattern, &names[*place]));
        let fits: Vec<usize> = fits.collect();
        if fits.is_empty() {
            let rule = format!("no scenario is called `{pattern}`; there are {}", listed(&names));
            let problem = Problem::new("", rule).or_near(near(pattern, &names));
            return Err(Origin::Argument("--only").fail(problem));
        }
        let new: Vec<usize> = fits.into_iter().filter(|place| !places.contains(place)).collect();
        places.extend(new);
    }
    let mut all: Vec<Option<Draft>> = all.into_iter().map(Some).collect();
    Ok(places.into_iter().filter_map(|place| all[place].take()).collect())
}

/// The name that is probably meant: one that is written nearly so, or the only one that holds the text.
fn near<'a>(pattern: &str, names: &'a [String]) -> Option<&'a str> {
    let part = pattern.trim_matches('*').to_lowercase();
    let is_part = |name: &&String| !part.is_empty() && name.to_lowercase().contains(&part);
    let mut holding = names.iter().filter(is_part);
    let only = holding.next().filter(|_| holding.next().is_none());
    let misspelt = || profiles::closest(pattern, names.iter().map(String::as_str));
    only.map(String::as_str).or_else(misspelt)
}

fn title(draft: &Draft) -> &str {
    draft.root.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Changes;

    const TEXT: &str = "name = 'a'\n[[variants]]\nname = 'b 1'\n[[variants]]\nname = 'b 2'\n";

    fn names(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        let all = Changes::default().of_text("x.toml", TEXT).expect("a scenario").each;
        let some = only(all, &patterns).map_err(|error| error.to_string())?;
        Ok(some.iter().map(|draft| title(draft).to_owned()).collect())
    }

    #[test]
    fn scenarios_come_in_the_order_of_their_patterns_and_once() {
        for (patterns, expected) in [
            (&[][..], &["a", "b 1", "b 2"][..]),
            (&["b 2", "a"], &["b 2", "a"]),
            (&["b ?", "*"], &["b 1", "b 2", "a"]),
        ] {
            assert_eq!(names(patterns).expect("they are there"), expected, "{patterns:?}");
        }
    }

    #[test]
    fn a_name_that_no_scenario_has_is_refused_with_those_there_are() {
        let error = names(&["a", "c"]).expect_err("there is no c");
        assert!(error.contains("--only"), "{error}");
        assert!(
            error.contains("no scenario is called `c`; there are `a`, `b 1`, `b 2`"),
            "{error}"
        );
    }
}
