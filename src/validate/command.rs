//! The command that started a server: words as a shell splits them, and flags.

use serde_json::Value;

/// Parts of a command that starts a server of a known engine.
const SERVERS: [&str; 5] =
    ["vllm serve", "sglang serve", "api_server", "launch_server", "vllm/vllm-openai"];

/// Whether a command starts a server, so that a flag it does not have is at its default.
pub(super) fn starts_server(command: &str) -> bool {
    SERVERS.iter().any(|server| command.contains(server))
}

/// The words of a command; quotes hold a word together. Without an end of a quote, words end at
/// white space only, so that no flag disappears in it.
pub(super) fn words(command: &str) -> Vec<String> {
    split(command).unwrap_or_else(|| {
        command.split_whitespace().filter(|word| *word != "\\").map(str::to_owned).collect()
    })
}

fn split(command: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = command.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            // A line that goes on.
            (None, '\\') if letters.peek().is_none_or(|next| next.is_whitespace()) => {
                words.extend(word.take());
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() {
        return None;
    }
    // `bash -c "vllm serve …"`
    let inner = |word: String| {
        if starts_server(&word) && word.contains(char::is_whitespace) {
            self::words(&word)
        } else {
            vec![word]
        }
    };
    Some(words.into_iter().flat_map(inner).collect())
}

/// The flags of a command line; a flag without value is on. Those of `docker run` are left out.
pub(super) fn flags(command: &str) -> Vec<(String, Value)> {
    let words = words(command);
    let mut flags: Vec<(String, Value)> = Vec::new();
    let mut words = words[image(&words)..].iter().peekable();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches('-');
        if !is_flag(word) {
            continue;
        }
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Value::from(value)),
            None => match words.next_if(|next| !is_flag(next)) {
                Some(value) => (name, Value::from(value.as_str())),
                None => (name, Value::Bool(true)),
            },
        };
        // `python3 -m module`
        if name != "m" {
            flags.push((name.to_owned(), value));
        }
    }
    flags
}

/// The model that a command serves: that of the flag, or the word after `serve`.
pub(super) fn model(command: &str) -> Option<String> {
    let is_model = |name: &str| matches!(name, "model" | "model-path" | "model_path");
    let flagged = flags(command).into_iter().find(|(name, _)| is_model(name));
    if let Some((_, value)) = flagged {
        return value.as_str().map(str::to_owned);
    }
    let words = words(command);
    let serve = words.iter().position(|word| word == "serve")?;
    words.get(serve + 1).filter(|word| !is_flag(word)).cloned()
}

fn is_flag(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    word.starts_with('-') && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Where the image of `docker run` is, behind whose name the flags of the server begin; 0 for
/// other commands.
fn image(words: &[String]) -> usize {
    let runs = words.windows(2).position(|pair| {
        matches!(pair[0].as_str(), "docker" | "podman" | "nerdctl") && pair[1] == "run"
    });
    let is_image = |word: &String| {
        let is_path = word.contains('/') && !word.starts_with(['/', '-', '.', '~', '$']);
        is_path && !word.contains('=') && ["vllm", "sglang"].iter().any(|e| word.contains(e))
    };
    let found = runs.and_then(|at| words[at..].iter().position(is_image).map(|image| at + image));
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let is = |command: &str, expected: &[&str]| assert_eq!(words(command), expected);
        is("a --n \"4\" \\\n --x='b c'", &["a", "--n", "4", "--x=b c"]);
        is("a --json '{\"b\": 1}'", &["a", "--json", "{\"b\": 1}"]);
        is("it's --n 4", &["it's", "--n", "4"]);
        is("bash -c \"vllm serve x --n 4\"", &["bash", "-c", "vllm", "serve", "x", "--n", "4"]);
    }

    #[test]
    fn the_model_is_the_word_after_serve_or_that_of_the_flag() {
        for (command, expected) in [
            ("vllm serve who/Knows-1B --max-num-seqs 4", Some("who/Knows-1B")),
            ("sglang serve --model-path who/Knows-1B", Some("who/Knows-1B")),
            ("python3 -m sglang.launch_server --model=who/Knows-1B --tp 2", Some("who/Knows-1B")),
            ("vllm serve --max-num-seqs 4", None),
            ("--max-num-seqs 4", None),
        ] {
            assert_eq!(model(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn flags_of_a_container_are_not_those_of_its_server() {
        let command = "docker run --gpus all -p 8000:8000 -v ~/vllm/x:/x vllm/vllm-openai:v0.11.0 \
                       --max-num-seqs 4 --chunked-prefill-size -1 --eager";
        let expected = [
            ("max-num-seqs".to_owned(), Value::from("4")),
            ("chunked-prefill-size".to_owned(), Value::from("-1")),
            ("eager".to_owned(), Value::Bool(true)),
        ];
        assert_eq!(flags(command), expected);
    }
}
