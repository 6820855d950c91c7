//! Names of columns: as they are written anywhere, the nearest one, the one that probably holds something.

use super::layout::Role;

/// The letters and digits of a name in lower case: what it says, however words are joined.
pub(super) fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The column that probably holds something, by a word in its name.
pub(super) fn for_role(role: Role, free: &[String]) -> Option<String> {
    let words: &[&str] = match role {
        Role::Arrival => &["arriv", "time", "stamp", "date", "start", "sent", "created", "ts"],
        Role::Prompt => &["prompt", "input", "context", "prefill", "request", "isl", "plen"],
        Role::Output => &[
            "output",
            "completion",
            "generat",
            "decode",
            "response",
            "answer",
            "osl",
            "reply",
            "olen",
        ],
        _ => &[],
    };
    words
        .iter()
        .find_map(|word| free.iter().find(|name| name.to_lowercase().contains(word)).cloned())
}

/// The name among `found` that is fewest edits away from one of `accepted`, if that is under half
/// of its length.
pub(super) fn closest(accepted: &[String], found: &[String]) -> Option<String> {
    found
        .iter()
        .flat_map(|name| accepted.iter().map(move |wanted| (edits(wanted, name), name)))
        .filter(|(distance, name)| distance * 2 < name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.clone())
}

/// The Levenshtein distance, upper and lower case being equal.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_insertions_deletions_and_replacements() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("Tokens", "tokens"), 0);
    }

    #[test]
    fn a_word_in_a_name_tells_what_a_column_holds() {
        let free = ["id", "t_start", "plen_prompt", "answer len"].map(str::to_owned);
        assert_eq!(for_role(Role::Arrival, &free).as_deref(), Some("t_start"));
        assert_eq!(for_role(Role::Prompt, &free).as_deref(), Some("plen_prompt"));
        assert_eq!(for_role(Role::Output, &free).as_deref(), Some("answer len"));
        assert_eq!(for_role(Role::Session, &free), None);
        assert_eq!(letters("Prompt-Tokens (n)"), "prompttokensn");
    }

    #[test]
    fn a_far_name_is_no_suggestion() {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let found = names(&["id", "prompt_token"]);
        assert_eq!(closest(&names(&["prompt_tokens"]), &found).as_deref(), Some("prompt_token"));
        assert_eq!(closest(&names(&["arrival_s"]), &found), None);
    }
}
