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
    pub(super) sections: Vec<Section>,
}

/// A part of the page under a heading, which the list of contents names.
#[derive(Debug)]
pub(super) struct Section {
    heading: String,
    look: Look,
    body: Html,
}

/// How a section first appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Open.
    Open,
    /// Closed until a reader opens it.
    Folded,
    /// Open, with a line above it: one of the runs of the page.
    Run,
    /// Closed, and not in the list of contents: a file as it is.
    Appendix,
}

impl Section {
    fn new(heading: &str, look: Look, parts: impl IntoIterator<Item = Html>) -> Self {
        Self { heading: heading.to_owned(), look, body: Html::all(parts) }
    }

    /// The section, and the place that the list of contents leads to. That place lies inside a folded section,
    /// so that browsers open it for who follows the link.
    fn html(self, id: &str) -> Html {
        let heading = Html::text(&self.heading);
        let place = [("id", id)];
        match self.look {
            Look::Open => {
                Html::with("section", &place, [Html::element("h2", [heading]), self.body])
            }
            Look::Run => {
                Html::with("section", &place, [Html::class("h2", "one", [heading]), self.body])
            }
            Look::Folded | Look::Appendix => Html::element(
                "details",
                [Html::element("summary", [heading]), Html::with("div", &place, [self.body])],
            ),
        }
    }
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
        parts.extend(contents(&self.sections));
        let sections = self.sections.into_iter().enumerate();
        parts.extend(sections.map(|(place, section)| section.html(&id(place))));
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

/// Sections that need no list of contents.
const SHORT: usize = 3;

/// The list of contents of a page that is not short.
fn contents(sections: &[Section]) -> Option<Html> {
    let link = |(place, section): (usize, &Section)| {
        let target = format!("#{}", id(place));
        Html::element("li", [Html::with("a", &[("href", &target)], [Html::text(&section.heading)])])
    };
    let named = sections.iter().enumerate().filter(|(_, section)| section.look != Look::Appendix);
    let links = Html::element("ul", named.map(link));
    let named = [("class", "contents"), ("aria-label", "Contents")];
    (sections.len() > SHORT).then(|| Html::with("nav", &named, [links]))
}

/// The place of a section within the page.
fn id(place: usize) -> String {
    format!("part-{}", place + 1)
}

/// A section.
pub(super) fn section(heading: &str, parts: impl IntoIterator<Item = Html>) -> Section {
    Section::new(heading, Look::Open, parts)
}

/// A section that is closed until a reader opens it.
pub(super) fn folded(heading: &str, parts: impl IntoIterator<Item = Html>) -> Section {
    Section::new(heading, Look::Folded, parts)
}

/// One of several runs of a page: what fits a screen, and what is folded below it.
pub(super) fn run(name: &str, parts: impl IntoIterator<Item = Section>) -> Section {
    let parts = parts.into_iter().map(|part| {
        let heading = Html::text(&part.heading);
        match part.look {
            Look::Folded | Look::Appendix => {
                Html::element("details", [Html::element("summary", [heading]), part.body])
            }
            Look::Open | Look::Run => Html::all([Html::element("h3", [heading]), part.body]),
        }
    });
    Section::new(name, Look::Run, parts)
}

/// A part of a section that is closed until a reader opens it.
pub(super) fn details(summary: &str, parts: impl IntoIterator<Item = Html>) -> Html {
    let parts = std::iter::once(Html::words("summary", summary)).chain(parts);
    Html::element("details", parts)
}

/// A file as it is.
pub(super) fn listing(heading: &str, text: &str) -> Section {
    Section::new(heading, Look::Appendix, [Html::element("pre", [Html::words("code", text)])])
}

/// A heading line and what follows from it.
pub(super) fn statement(first: &str, rest: &[String]) -> Html {
    let list = rest.iter().map(|line| Html::words("li", line));
    let list = if rest.is_empty() { Html::default() } else { Html::element("ul", list) };
    Html::all([Html::class("p", "lead", [Html::text(first)]), list])
}
