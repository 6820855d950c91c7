//! Messages of a chat as a prompt.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::template;
use crate::serve::app::App;
use crate::serve::context;
use crate::serve::error::ApiError;
use crate::serve::fields::Fields;

/// The prompt that messages make: what the template of the model makes of them, if there is one, and otherwise
/// `<|im_start|>ROLE⏎TEXT<|im_end|>⏎` each, and the begin of the answer. There every text is tokenised on its own,
/// so that an answer that is sent back is the tokens that it was.
pub(in crate::serve) fn prompt(
    fields: &mut Fields,
    app: &App,
    most: u32,
) -> Result<Vec<u32>, ApiError> {
    const NAME: &str = "messages";
    let none = [json!([]), json!({})];
    fields.only("tools", &none, "answers call no tools")?;
    fields.only("tool_choice", &[json!("none")], "answers call no tools")?;
    fields.only("chat_template", &[], "prompts are made by one template")?;
    let variables: Option<BTreeMap<String, Value>> = fields.take("chat_template_kwargs")?;
    let variables = variables.unwrap_or_default();
    if app.template.is_none() && !variables.is_empty() {
        let message = "`chat_template_kwargs` are for a template; the server has none";
        return Err(ApiError::field("chat_template_kwargs", message));
    }
    let no = [json!(false)];
    fields.only("add_special_tokens", &no, "prompts are made by one template")?;
    fields.only(
        "add_generation_prompt",
        &[json!(true)],
        "prompts end with the begin of an answer",
    )?;
    fields.only("continue_final_message", &no, "answers are messages of their own")?;
    let written = fields.written(NAME)?;
    let kept = app.template.as_ref().map(|_| Vec::new());
    let mut talk =
        Talk { app, most, tokens: Vec::new(), messages: 0, kept, bytes: 0, too_long: None };
    let read = talk.deserialize(&mut serde_json::Deserializer::from_str(written.get()));
    if let Some(error) = talk.too_long {
        return Err(error);
    }
    read.map_err(|error| ApiError::field(NAME, format!("`{NAME}`: {error}")))?;
    if talk.messages == 0 {
        return Err(ApiError::field(NAME, format!("`{NAME}` is empty")));
    }
    if let (Some(template), Some(messages)) = (&app.template, &talk.kept) {
        let text = template.render(messages, &variables);
        let text = text.map_err(|problem| ApiError::field(NAME, problem))?;
        context::may_hold(app, most, text.len())?;
        return Ok(app.words.tokens(&text, false));
    }
    talk.add("<|im_start|>assistant\n");
    Ok(talk.tokens)
}

/// Messages that are tokens as soon as they have been read, or wait for a template.
#[derive(Debug)]
struct Talk<'a> {
    app: &'a App,
    most: u32,
    tokens: Vec<u32>,
    messages: usize,
    /// Those for a template, and how long they are.
    kept: Option<Vec<template::Message>>,
    bytes: usize,
    too_long: Option<ApiError>,
}

impl Talk<'_> {
    fn add(&mut self, text: &str) {
        self.tokens.extend(self.app.words.tokens(text, false));
    }

    fn add_message(&mut self, Message { role, texts }: &Message) -> Result<(), ApiError> {
        self.messages += 1;
        if let Some(kept) = &mut self.kept {
            self.bytes += role.len() + texts.iter().map(String::len).sum::<usize>();
            context::may_hold(self.app, self.most, self.bytes)?;
            // The parts of a text are lines, as vLLM has it for templates that take a text.
            let content = (!texts.is_empty()).then(|| texts.join("\n"));
            kept.push(template::Message { role: role.clone(), content });
            return Ok(());
        }
        context::may_hold(self.app, self.most, role.len())?;
        self.add(&format!("<|im_start|>{role}\n"));
        for text in texts {
            context::may_hold(self.app, self.most, text.len())?;
            self.add(text);
        }
        self.add("<|im_end|>\n");
        // No more is kept than could be served.
        context::room(self.app.dialect, self.most, self.tokens.len(), None).map(drop)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Talk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut Talk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(message) = list.next_element()? {
            if let Err(error) = self.add_message(&message) {
                self.too_long = Some(error);
                return Err(A::Error::custom("too long"));
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Message {
    role: String,
    texts: Vec<String>,
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let (mut role, mut texts) = (None, Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "role" => role = Some(map.next_value()?),
                "content" => texts = map.next_value::<Content>()?.0,
                // The template says neither.
                "name" | "tool_call_id" => drop(map.next_value::<IgnoredAny>()?),
                _ if is_empty(&mut map)? => {}
                _ => return Err(A::Error::custom(format!("`{name}` is not simulated"))),
            }
        }
        let role = role.ok_or_else(|| A::Error::missing_field("role"))?;
        Ok(Message { role, texts })
    }
}

/// The texts of a message.
#[derive(Debug)]
struct Content(Vec<String>);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of parts")
            }

            fn visit_unit<E>(self) -> Result<Content, E> {
                Ok(Content(Vec::new()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
                let mut texts = Vec::new();
                while let Some(Part(text)) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Content(texts))
            }
        }
        from.deserialize_any(ContentVisitor)
    }
}

/// A part of a message that is a text.
#[derive(Debug)]
struct Part(String);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part of a message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let (mut kind, mut text, mut odd) = (String::new(), None, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "type" => kind = map.next_value()?,
                        "text" => text = map.next_value()?,
                        _ if is_empty(&mut map)? => {}
                        _ => odd = Some(name),
                    }
                }
                let wrong = |message: String| Err(A::Error::custom(message));
                match (text, odd) {
                    _ if kind != "text" => {
                        wrong(format!("parts of type `{kind}` are not simulated, only text"))
                    }
                    (_, Some(odd)) => wrong(format!("`{odd}` of a part is not simulated")),
                    (None, None) => Err(A::Error::missing_field("text")),
                    (Some(text), None) => Ok(Part(text)),
                }
            }
        }
        from.deserialize_map(PartVisitor)
    }
}

/// Whether a value says nothing: null, or an empty list, object or text.
fn is_empty<'de, A: MapAccess<'de>>(map: &mut A) -> Result<bool, A::Error> {
    let value: &RawValue = map.next_value()?;
    let text: String = value.get().chars().filter(|it| !it.is_ascii_whitespace()).take(5).collect();
    Ok(matches!(text.as_str(), "null" | "[]" | "{}" | "\"\""))
}
