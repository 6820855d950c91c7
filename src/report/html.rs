//! Markup. Text becomes part of it in one way, in which it is escaped; names of elements, attributes and
//! classes are words of the program.

/// Markup that is well-formed by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

/// Elements and attributes that figures are made of; none of them loads, runs or styles anything.
const DRAWN: [&str; 9] =
    ["svg", "g", "rect", "circle", "line", "polyline", "polygon", "path", "text"];
const DRAWN_WITH: [&str; 25] = [
    "width",
    "height",
    "viewBox",
    "xmlns",
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "dx",
    "dy",
    "cx",
    "cy",
    "r",
    "d",
    "points",
    "opacity",
    "fill",
    "stroke",
    "stroke-width",
    "text-anchor",
    "font-family",
    "font-size",
    "font-weight",
];

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

    /// A figure, if it is made of what figures are made of.
    pub(super) fn figure(svg: &str) -> Option<Self> {
        let svg = svg.trim();
        let mut open: Vec<&str> = Vec::new();
        for (place, tag) in svg.split('<').enumerate() {
            if place == 0 {
                tag.is_empty().then_some(())?;
                continue;
            }
            let (tag, text) = tag.split_once('>')?;
            if let Some(name) = tag.strip_prefix('/') {
                (open.pop()? == name.trim_end()).then_some(())?;
            } else {
                let (inside, is_closed) = match tag.strip_suffix('/') {
                    Some(inside) => (inside, true),
                    None => (tag, false),
                };
                let name = inside.split_whitespace().next()?;
                let is_drawn = DRAWN.contains(&name) && open.is_empty() == (name == "svg");
                (is_drawn && attributes(&inside[name.len()..])).then_some(())?;
                if !is_closed {
                    open.push(name);
                }
            }
            (!open.is_empty() || text.is_empty()).then_some(())?;
        }
        (open.is_empty() && svg.starts_with("<svg ")).then(|| Self(svg.to_owned()))
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
            body.0
        )
    }
}

/// Elements with lines of their own.
const BLOCKS: [&str; 17] = [
    "title", "header", "main", "footer", "section", "h1", "h2", "h3", "p", "ul", "li", "table",
    "tr", "figure", "details", "dl", "div",
];

/// Whether all of these are attributes of figures, with values that name nothing elsewhere.
fn attributes(mut text: &str) -> bool {
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return true;
        }
        let Some((name, rest)) = text.split_once("=\"") else { return false };
        let Some((value, rest)) = rest.split_once('"') else { return false };
        let is_known = DRAWN_WITH.contains(&name) || name == "transform";
        if !is_known || (value.contains("url(") || value.contains(':')) && name != "xmlns" {
            return false;
        }
        text = rest;
    }
}

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

    #[test]
    fn figures_hold_shapes_and_nothing_else() {
        let shapes = "<rect x=\"0\" fill=\"#FFFFFF\"/>\n<text x=\"1\">\nTPOT &lt; 5\n</text>\n";
        let figure = |inside: &str| format!("<svg width=\"9\" height=\"9\">\n{inside}</svg>\n");
        assert!(Html::figure(&figure(shapes)).is_some());
        for hostile in [
            "<script>1</script>",
            "<rect onclick=\"1\"/>",
            "<rect fill=\"url(http://x)\"/>",
            "<image href=\"x\"/>",
            "<text>",
            "</svg><script>",
            "<rect x='0'/>",
            "<style>*{}</style>",
            "<svg>",
        ] {
            assert_eq!(Html::figure(&figure(hostile)), None, "{hostile}");
        }
        assert_eq!(Html::figure("<p>no figure</p>"), None);
        assert_eq!(Html::figure(&format!("{}<b>", figure(shapes))), None);
        assert_eq!(Html::figure(&format!("{} and more", figure(shapes))), None);
    }
}
