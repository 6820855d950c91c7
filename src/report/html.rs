//! Markup. Text becomes part of it in one way, in which it is escaped; names of elements, attributes and
//! classes are words of the program.

mod drawing;

/// Markup that is well-formed by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Text.
    pub(super) fn text(text: &str) -> Self {
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\'' => escaped.push_str("&#39;"),
                // No page may hold them.
                control if control.is_control() && !matches!(control, '\n' | '\t') => {
                    escaped.push('\u{fffd}');
                }
                other => escaped.push(other),
            }
        }
        Self(escaped)
    }

    /// An element.
    pub(super) fn element(name: &'static str, children: impl IntoIterator<Item = Self>) -> Self {
        Self::with(name, &[], children)
    }

    /// An element of a class.
    pub(super) fn class(
        name: &'static str,
        class: &'static str,
        children: impl IntoIterator<Item = Self>,
    ) -> Self {
        Self::with(name, &[("class", class)], children)
    }

    /// An element with attributes.
    pub(super) fn with(
        name: &'static str,
        attributes: &[(&'static str, &str)],
        children: impl IntoIterator<Item = Self>,
    ) -> Self {
        let attributes =
            attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", Self::text(value).0));
        let attributes = attributes.collect::<Vec<_>>().concat();
        let children = Self::all(children).0;
        let line = if BLOCKS.contains(&name) { "\n" } else { "" };
        Self(format!("<{name}{attributes}>{children}</{name}>{line}"))
    }

    /// An element that only has text.
    pub(super) fn words(name: &'static str, text: &str) -> Self {
        Self::element(name, [Self::text(text)])
    }

    /// One after the other.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }

    /// The whole page.
    pub(super) fn page(head: &Self, style: &'static str, body: &Self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:\">\n\
             {}{}\">\n{}<style>\n{style}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            super::OWN,
            env!("CARGO_PKG_VERSION"),
            head.0,
            drawing::numbered(&body.0)
        )
    }
}

/// Elements with lines of their own.
const BLOCKS: [&str; 18] = [
    "title", "header", "main", "nav", "footer", "section", "h1", "h2", "h3", "p", "ul", "li",
    "table", "tr", "figure", "details", "dl", "div",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let hostile = "<script>alert('x')</script> & \"quoted\"\u{0}";
        let html = Html::with("p", &[("title", hostile)], [Html::text(hostile)]).0;
        let inside =
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;\u{fffd}";
        assert_eq!(html, format!("<p title=\"{inside}\">{inside}</p>\n"));
    }
}
