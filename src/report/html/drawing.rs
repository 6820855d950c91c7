//! A drawing as it stands on a page: whole, and where there is no room for it its panels below each other.

use super::Html;

/// Elements and attributes that drawings are made of; none of them loads, runs or styles anything.
const DRAWN: [&str; 10] =
    ["svg", "g", "rect", "circle", "line", "polyline", "polygon", "path", "text", "title"];
const DRAWN_WITH: [&str; 27] = [
    "width",
    "height",
    "viewBox",
    "data-parts",
    "data-keys",
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

/// Stands for the number of a figure until the page is put together. No text and no drawing holds it.
const NUMBER: char = '\u{1}';

/// The texts of a drawing that stand above its panels: title and subtitle.
const HEAD: usize = 2;

impl Html {
    /// A figure with its caption; nothing if the drawing is not made of what drawings are made of.
    pub(in crate::report) fn figure(svg: &str, caption: &str) -> Option<Self> {
        let mut drawing = Self::drawing(svg)?;
        let (parts, texts) = (parts(&drawing.0), texts(&drawing.0));
        let keys = keys(&drawing.0);
        let label = Self::text(caption).0;
        let named = format!("<svg id=\"figure-{NUMBER}\" role=\"img\" aria-label=\"{label}\" ");
        drawing.0 = drawing.0.replacen("<svg ", &named, 1);
        let caption = Self::words("figcaption", caption);
        let again = |class: &str, shown: Self| {
            Self::with("div", &[("class", class), ("aria-hidden", "true")], [shown])
        };
        if parts.is_empty() {
            let row = |keys: Vec<[f64; 4]>| Self::element("p", keys.into_iter().map(cut));
            let legend = if keys.is_empty() {
                Self::default()
            } else {
                again("drawing legend", Self::all(keys.into_iter().map(row)))
            };
            let whole = Self::class("div", "drawing", [drawing]);
            return Some(Self::element("figure", [legend, whole, caption]));
        }
        let whole = Self::class("div", "drawing whole", [drawing]);
        let texts = texts.into_iter().take(HEAD).map(|text| Self::element("p", [text]));
        let apart = Self::all(texts.chain(parts.into_iter().map(cut)));
        Some(Self::element("figure", [whole, again("drawing apart", apart), caption]))
    }

    /// A drawing, if it is made of what drawings are made of.
    fn drawing(svg: &str) -> Option<Self> {
        let svg = svg.trim();
        (!svg.contains(NUMBER)).then_some(())?;
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
                (is_drawn && attributes(inside.strip_prefix(name)?)).then_some(())?;
                if !is_closed {
                    open.push(name);
                }
            }
            (!open.is_empty() || text.is_empty()).then_some(())?;
        }
        (open.is_empty() && svg.starts_with("<svg ")).then(|| Self(svg.to_owned()))
    }
}

/// The body of a page with its figures counted.
pub(super) fn numbered(body: &str) -> String {
    let mut figures = body.split("<figure>").enumerate();
    let first = figures.next().map_or("", |(_, before)| before);
    let rest = figures.map(|(number, figure)| {
        "<figure>".to_owned() + &figure.replace(NUMBER, &number.to_string())
    });
    first.to_owned() + &rest.collect::<String>()
}

/// A rectangle of the drawing of this figure, shown once more in its own size or less.
fn cut([left, top, width, height]: [f64; 4]) -> Html {
    let view = format!("{left} {top} {width} {height}");
    let size = format!("width=\"{width}\" height=\"{height}\"");
    Html(format!("<svg viewBox=\"{view}\" {size}><use href=\"#figure-{NUMBER}\"/></svg>\n"))
}

/// The rectangles of a drawing that can be read by themselves, in pixels; nothing where it does not say.
fn parts(drawing: &str) -> Vec<[f64; 4]> {
    rectangles(said(drawing, "data-parts"))
}

/// The headings and entries of the legends of a drawing, panel by panel.
fn keys(drawing: &str) -> Vec<Vec<[f64; 4]>> {
    let panels = said(drawing, "data-keys").split(';').map(rectangles);
    panels.filter(|keys| !keys.is_empty()).collect()
}

/// What an attribute of the root of a drawing says.
fn said<'a>(drawing: &'a str, name: &str) -> &'a str {
    let root = drawing.split('>').next().unwrap_or_default();
    let value = root.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
    value.unwrap_or_default()
}

fn rectangles(text: &str) -> Vec<[f64; 4]> {
    let part = |text: &str| {
        let numbers =
            text.split(',').map(|number| number.parse().ok().filter(|px: &f64| px.is_finite()));
        numbers.collect::<Option<Vec<f64>>>()?.try_into().ok()
    };
    text.split(' ').filter_map(part).collect()
}

/// The texts of a drawing, in their order.
fn texts(drawing: &str) -> Vec<Html> {
    let text = |tag: &str| Some(Html(tag.split_once('>')?.1.split('<').next()?.trim().to_owned()));
    drawing.split("<text ").skip(1).filter_map(text).collect()
}

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
        let names = ["url(", ":", "//", "&"].iter().any(|word| value.to_lowercase().contains(word));
        if !is_known || names && name != "xmlns" {
            return false;
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_hold_shapes_and_nothing_else() {
        let shapes = "<rect x=\"0\" fill=\"#FFFFFF\"/>\n<text x=\"1\">\nTPOT &lt; 5\n</text>\n\
                      <circle r=\"1\"><title>3 &gt; 2</title></circle>\n";
        let figure = |inside: &str| format!("<svg width=\"9\" height=\"9\">\n{inside}</svg>\n");
        assert!(Html::drawing(&figure(shapes)).is_some());
        for hostile in [
            "<script>1</script>",
            "<rect onclick=\"1\"/>",
            "<rect fill=\"url(http://x)\"/>",
            "<image href=\"x\"/>",
            "<text>",
            "</svg><script>",
            "<rect x='0'/>",
            "<style>*{}</style>",
            "<\u{3000}g/>",
            "<svg>",
        ] {
            assert_eq!(Html::drawing(&figure(hostile)), None, "{hostile}");
        }
        assert_eq!(Html::drawing("<p>no figure</p>"), None);
        assert_eq!(Html::drawing(&format!("{}<b>", figure(shapes))), None);
        assert_eq!(Html::drawing(&format!("{} and more", figure(shapes))), None);
    }

    #[test]
    fn panels_are_shown_again_by_the_number_of_their_figure() {
        let svg = "<svg width=\"9\" data-parts=\"0,1,4,8 4,1,5,8 x,1\">\n<text x=\"1\">\nA &lt; B\n</text>\n</svg>";
        let figure = Html::figure(svg, "Two \"panels\"").unwrap();
        let body = numbered(&Html::all([figure.clone(), figure]).0);
        for number in [1, 2] {
            let drawn = format!(
                "<svg id=\"figure-{number}\" role=\"img\" aria-label=\"Two &quot;panels&quot;\" "
            );
            assert_eq!(body.matches(&drawn).count(), 1, "{body}");
            for view in ["0 1 4 8", "4 1 5 8"] {
                let [.., width, height] = view.split(' ').collect::<Vec<&str>>()[..] else {
                    panic!()
                };
                let size = format!("width=\"{width}\" height=\"{height}\"");
                let part = format!(
                    "<svg viewBox=\"{view}\" {size}><use href=\"#figure-{number}\"/></svg>"
                );
                assert_eq!(body.matches(&part).count(), 1, "{body}");
            }
        }
        assert_eq!(body.matches("<use").count(), 4, "{body}");
        assert_eq!(body.matches("<p>A &lt; B</p>").count(), 2, "{body}");
        assert!(!body.contains(NUMBER));
    }

    #[test]
    fn legends_of_panels_that_scroll_are_shown_again() {
        let svg = "<svg width=\"9\" data-keys=\"0,1,4,8 4,1,5,8;0,9,4,8 x,1\">\n</svg>";
        let figure = numbered(&Html::figure(svg, "Lines").unwrap().0);
        let legend = figure.find("drawing legend").unwrap();
        assert!(legend < figure.find("id=\"figure-1\"").unwrap(), "{figure}");
        assert_eq!(figure.matches("<use").count(), 3, "{figure}");
        assert_eq!(figure.matches("<p>").count(), 2, "{figure}");
        let without = Html::figure("<svg width=\"9\">\n</svg>", "Lines").unwrap().0;
        assert!(!without.contains("legend"), "{without}");
    }
}
