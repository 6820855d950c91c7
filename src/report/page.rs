//! The page: what was asked, the verdict, warnings, then everything else.

use super::html::Html;

const STYLE: &str = include_str!("page.css");

/// What is on a page, in its order.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// What was simulated.
    pub(super) title: String,
    /// The command, in a word or two.
    pub(super) kind: &'static str,
    /// What was asked: names and values.
    pub(super) asked: Vec<(&'static str, String)>,
    /// The answer.
    pub(super) verdict: Html,
    /// What to know before figures are believed.
    pub(super) warnings: Vec<String>,
    /// Everything else.
    pub(super) sections: Vec<Html>,
}

impl Page {
    /// The document.
    pub(super) fn html(self) -> String {
        let asked = self.asked.iter().flat_map(|(name, value)| {
            [Html::words("dt", name), Html::element("dd", [Html::words("code", value)])]
        });
        let header = Html::element(
            "header",
            [
                Html::class("p", "kind", [Html::text(self.kind)]),
                Html::words("h1", &self.title),
                Html::class("dl", "asked", asked),
            ],
        );
        let mut parts = vec![Html::class("section", "verdict", [self.verdict])];
        if !self.warnings.is_empty() {
            let heading = if self.warnings.len() == 1 { "Warning" } else { "Warnings" };
            let list = self.warnings.iter().map(|warning| Html::words("li", warning));
            let list = Html::element("ul", list);
            parts.push(Html::class("section", "warnings", [Html::words("h2", heading), list]));
        }
        parts.extend(self.sections);
        let head = Html::words("title", &format!("{} – {}", self.title, self.kind));
        let footer = Html::element(
            "footer",
            [Html::words(
                "p",
                "All of this page is in this file; nothing is loaded from elsewhere.",
            )],
        );
        let body = Html::all([header, Html::element("main", parts), footer]);
        Html::page(&head, STYLE, &body)
    }
}

/// A part of the page under a heading.
pub(super) fn section(heading: &str, parts: impl IntoIterator<Item = Html>) -> Html {
    let parts = std::iter::once(Html::words("h2", heading)).chain(parts);
    Html::element("section", parts)
}

/// A part that is closed until it is wanted.
pub(super) fn details(summary: &str, parts: impl IntoIterator<Item = Html>) -> Html {
    let parts = std::iter::once(Html::words("summary", summary)).chain(parts);
    Html::element("details", parts)
}

/// A file as it is.
pub(super) fn listing(summary: &str, text: &str) -> Html {
    details(summary, [Html::element("pre", [Html::words("code", text)])])
}

/// A heading line and what follows from it.
pub(super) fn statement(first: &str, rest: &[String]) -> Html {
    let list = rest.iter().map(|line| Html::words("li", line));
    let list = if rest.is_empty() { Html::default() } else { Html::element("ul", list) };
    Html::all([Html::class("p", "lead", [Html::text(first)]), list])
}
