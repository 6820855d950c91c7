//! Lines of the printed report that have a column for each of several things.

/// A title with the names of the things, then a line for each figure that any of them has.
pub(super) fn table<T>(title: &str, names: &[String], things: &[T], lines: &[Line<T>]) -> String {
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0).max(12);
    let names = names.iter().map(|name| format!(" {name:>width$}"));
    let mut text = format!("{title:<31}{}\n", names.collect::<String>());
    for (name, decimals, of) in lines {
        let values: Vec<Option<f64>> = things.iter().map(of).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let cell = |value: &Option<f64>| {
            let value = value.map_or_else(|| "-".to_owned(), |v| format!("{v:.decimals$}"));
            format!(" {value:>width$}")
        };
        text =
            text + &format!("  {name:<29}") + &values.iter().map(cell).collect::<String>() + "\n";
    }
    text
}

/// A line: its name, its decimals, its figure of a thing.
pub(super) type Line<T> = (&'static str, usize, fn(&T) -> Option<f64>);
