//! Chats as prompts, by the template of a model: Jinja as `transformers` renders it
//! (Hugging Face transformers 5.16, `src/transformers/utils/chat_template_utils.py`; Apache-2.0).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;

/// The name of the only template.
const NAME: &str = "chat_template";
/// Where a template of its own stands beside a tokenizer, and where one is a field.
const FILES: [&str; 2] = ["chat_template.jinja", "tokenizer_config.json"];

/// Why a template is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, std::io::Error),
    /// Its tokenizer's configuration is not JSON.
    #[error("{}: {}", .0.display(), .1)]
    Config(PathBuf, serde_json::Error),
    /// It is not Jinja as templates have it.
    #[error("{}: {}", .0.display(), .1)]
    Syntax(PathBuf, Error),
}

/// The template of a model.
#[derive(Debug)]
pub(in crate::serve) struct ChatTemplate {
    environment: Environment<'static>,
    /// Special tokens that templates name.
    special: BTreeMap<String, String>,
}

/// A message, its parts joined.
#[derive(Debug, Serialize)]
pub(in crate::serve) struct Message {
    pub(in crate::serve) role: String,
    pub(in crate::serve) content: Option<String>,
}

impl ChatTemplate {
    /// The template that stands beside a tokenizer, if one does.
    pub(in crate::serve) fn beside(tokenizer: &Path) -> Result<Option<Self>, TemplateError> {
        let folder = tokenizer.parent().unwrap_or_else(|| Path::new(""));
        let config = config(&folder.join(FILES[1]))?;
        let path = folder.join(FILES[0]);
        if path.is_file() {
            return Self::read(&path, &config).map(Some);
        }
        // Of several the one for chats without tools.
        let of_config = config.get(NAME).and_then(|template| match template {
            serde_json::Value::Array(named) => {
                let default = |it: &&serde_json::Value| it["name"] == "default";
                named.iter().find(default).and_then(|it| it["template"].as_str())
            }
            template => template.as_str(),
        });
        let of_config = of_config.map(|text| Self::new(text, &folder.join(FILES[1]), &config));
        of_config.transpose()
    }

    /// The template of a file, with the special tokens of the tokenizer beside it.
    pub(in crate::serve) fn of_file(
        path: &Path,
        tokenizer: Option<&Path>,
    ) -> Result<Self, TemplateError> {
        let folder = tokenizer.and_then(Path::parent);
        let config = folder.map(|folder| config(&folder.join(FILES[1]))).transpose()?;
        Self::read(path, &config.unwrap_or_default())
    }

    fn read(path: &Path, config: &serde_json::Value) -> Result<Self, TemplateError> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| TemplateError::Read(path.to_owned(), error))?;
        Self::new(&text, path, config)
    }

    fn new(text: &str, path: &Path, config: &serde_json::Value) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let syntax = |error| TemplateError::Syntax(path.to_owned(), error);
        environment.add_template_owned(NAME, text.to_owned()).map_err(syntax)?;
        let special = ["bos_token", "eos_token", "unk_token", "pad_token"].into_iter();
        let special = special.filter_map(|name| {
            let token = &config[name];
            let text = token.as_str().or_else(|| token["content"].as_str())?;
            Some((name.to_owned(), text.to_owned()))
        });
        Ok(Self { environment, special: special.collect() })
    }

    /// The prompt that messages make, up to the begin of the answer; `variables` are a client's own
    /// (`chat_template_kwargs`). What is wrong with them, where the template says so.
    pub(in crate::serve) fn render(
        &self,
        messages: &[Message],
        variables: &BTreeMap<String, serde_json::Value>,
    ) -> Result<String, String> {
        let template = self.environment.get_template(NAME).map_err(|error| error.to_string())?;
        let given = context! {
            messages => messages,
            add_generation_prompt => true,
            tools => (),
            documents => (),
        };
        let variables = Value::from_serialize(variables);
        let special = Value::from_serialize(&self.special);
        let all = context! { ..given, ..variables, ..special };
        template.render(all).map_err(|error| match error.detail() {
            Some(detail) => detail.to_owned(),
            None => error.to_string(),
        })
    }
}

/// The configuration beside a tokenizer; nothing where there is none.
fn config(path: &Path) -> Result<serde_json::Value, TemplateError> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| TemplateError::Config(path.to_owned(), error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(serde_json::Value::Null),
        Err(error) => Err(TemplateError::Read(path.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> Message {
        let content = Some(content.to_owned());
        Message { role: role.to_owned(), content }
    }

    fn template(text: &str) -> ChatTemplate {
        let config = serde_json::json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>"});
        ChatTemplate::new(text, Path::new("test"), &config).expect("it is a template")
    }

    #[test]
    fn templates_are_rendered_as_transformers_does() {
        // What templates of today use: trimmed blocks, Python's methods, slices, loop controls, special tokens.
        let text = "{{ bos_token }}{%- if messages[0].role == 'system' %}\n    {{- messages[0].content.strip() \
                    }}\n{%- endif %}\n{%- for m in messages[::-1] %}\n    {%- if m.role == 'system' %}{%- continue \
                    %}{%- endif %}\n    {{- '[' + m['role'].upper() + ']' + m.content.split('</think>')[-1] \
                    }}{%- if loop.last %}{{ eos_token }}{%- endif %}\n{%- endfor %}\n{%- if \
                    add_generation_prompt %}\n    {{- '<answer>' }}\n{%- endif %}\n{%- if enable_thinking is \
                    defined and enable_thinking is false %}\n    {{- ' quick' }}\n{%- endif %}";
        let chat =
            [message("system", " be kind "), message("user", "x</think>hi"), message("user", "ho")];
        let none = BTreeMap::new();
        let rendered = template(text).render(&chat, &none).expect("it renders");
        assert_eq!(rendered, "<s>be kind[USER]ho[USER]hi<answer>");
        let quick = BTreeMap::from([("enable_thinking".to_owned(), serde_json::json!(false))]);
        let rendered = template(text).render(&chat[1..], &quick).expect("it renders");
        assert_eq!(rendered, "<s>[USER]ho[USER]hi</s><answer> quick");
    }

    #[test]
    fn what_a_template_refuses_is_told() {
        let text = "{{ raise_exception('roles must alternate') }}";
        let refused = template(text).render(&[message("user", "hi")], &BTreeMap::new());
        assert_eq!(refused.expect_err("it refuses"), "roles must alternate");
        let broken = ChatTemplate::new("{% if %}", Path::new("t.jinja"), &serde_json::Value::Null);
        assert!(broken.expect_err("it is broken").to_string().starts_with("t.jinja: "));
    }
}
