//! The sheet a figure is drawn on, in pixels; the only file that knows plotters.
//!
//! plotters rounds to whole units, so that the sheet has [`UNITS_PER_PX`] of them in a pixel.
//! It measures no text without a font library: positions here leave room for wide fonts.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle,
};

/// How near a pointer has to come to a mark that tells something.
pub(super) const REACH: f64 = 8.0;
/// The width of every figure.
pub(super) const WIDTH: f64 = 960.0;
/// Where the panels may begin, below title and subtitle.
pub(super) const TOP: f64 = 72.0;

const UNITS_PER_PX: f64 = 5.0;
const SIDE: f64 = 24.0;

/// Colours that readers with any colour vision tell apart (Okabe and Ito, Color Universal Design,
/// 2008), and greys for what is not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ink(u8, u8, u8);

impl Ink {
    pub(super) const BLUE: Self = Self(0x00, 0x72, 0xb2);
    pub(super) const VERMILION: Self = Self(0xd5, 0x5e, 0x00);
    pub(super) const GREEN: Self = Self(0x00, 0x9e, 0x73);
    pub(super) const PURPLE: Self = Self(0xcc, 0x79, 0xa7);
    pub(super) const TEXT: Self = Self(0x22, 0x22, 0x22);
    pub(super) const FAINT: Self = Self(0x59, 0x59, 0x59);
    pub(super) const FRAME: Self = Self(0x8c, 0x8c, 0x8c);
    pub(super) const GRID_FINE: Self = Self(0xf2, 0xf2, 0xf2);
    pub(super) const GRID: Self = Self(0xdd, 0xdd, 0xdd);
    pub(super) const PAPER: Self = Self(0xff, 0xff, 0xff);

    fn color(self) -> RGBColor {
        RGBColor(self.0, self.1, self.2)
    }
}

/// Where a text stands relative to its position; its middle is always level with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Begins there.
    Start,
    /// Centred there.
    Middle,
    /// Ends there.
    End,
    /// Centred there, reading upwards.
    Upwards,
}

/// The looks of a text.
#[derive(Clone, Copy)]
pub(super) struct Type {
    px: f64,
    ink: Ink,
    weight: FontStyle,
}

impl Type {
    pub(super) const TITLE: Self = Self { px: 18.0, ink: Ink::TEXT, weight: FontStyle::Bold };
    pub(super) const HEADING: Self = Self { px: 13.0, ink: Ink::TEXT, weight: FontStyle::Bold };
    pub(super) const LABEL: Self = Self { px: 12.0, ink: Ink::TEXT, weight: FontStyle::Normal };
    pub(super) const NOTE: Self = Self { px: 12.0, ink: Ink::FAINT, weight: FontStyle::Normal };
    pub(super) const ON_INK: Self = Self { px: 12.0, ink: Ink::PAPER, weight: FontStyle::Normal };
    pub(super) const MESSAGE: Self = Self { px: 15.0, ink: Ink::FAINT, weight: FontStyle::Normal };
}

/// A sheet.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    parts: Vec<[f64; 4]>,
    keys: Vec<Legend>,
    /// Circles so far.
    circles: usize,
    /// What is told of places, each by the number of its circle.
    told: Vec<(usize, String)>,
}

/// Where the legend of a panel is.
#[derive(Default)]
struct Legend {
    heading: Option<[f64; 4]>,
    entries: Vec<[f64; 4]>,
}

impl Legend {
    /// The rectangles of a legend that says something.
    fn text(&self) -> Option<String> {
        let all = || self.heading.iter().chain(&self.entries).copied().collect::<Vec<_>>();
        (!self.entries.is_empty()).then(|| rectangles(&all()))
    }
}

/// The SVG text of a figure with a title and a line below it.
pub(super) fn draw(
    height: f64,
    title: &str,
    subtitle: &str,
    panels: &dyn Fn(&mut Canvas<'_>),
) -> String {
    let mut svg = String::new();
    let size = (units(WIDTH) as u32, units(height) as u32);
    let (parts, keys, told) = {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut canvas =
            Canvas { area, parts: Vec::new(), keys: Vec::new(), circles: 0, told: Vec::new() };
        canvas.area.fill(&Ink::PAPER.color()).expect(INFALLIBLE);
        canvas.text((SIDE, 26.0), Align::Start, Type::TITLE, title);
        canvas.text((SIDE, 50.0), Align::Start, Type::NOTE, subtitle);
        panels(&mut canvas);
        canvas.area.present().expect(INFALLIBLE);
        let keys: Vec<String> = canvas.keys.iter().filter_map(Legend::text).collect();
        (rectangles(&canvas.parts), keys.join(";"), canvas.told)
    };
    let in_units = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let said = |name: &str, places: &str| match places {
        "" => String::new(),
        places => format!(" {name}=\"{places}\""),
    };
    let (parts, keys) = (said(PARTS, &parts), said(KEYS, &keys));
    let in_px = format!("width=\"{WIDTH}\" height=\"{height}\"{parts}{keys}");
    titled(&svg.replacen(&in_units, &in_px, 1), &told)
}

/// Rectangles as attributes hold them.
fn rectangles(all: &[[f64; 4]]) -> String {
    let texts = all.iter().map(|one| one.map(|px| px.to_string()).join(","));
    texts.collect::<Vec<String>>().join(" ")
}

/// A drawing whose circles of these numbers have titles: browsers show them where a pointer rests.
fn titled(svg: &str, told: &[(usize, String)]) -> String {
    let mut told = told.iter().peekable();
    let mut pieces = svg.split(CIRCLE);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for (number, piece) in pieces.enumerate() {
        text += CIRCLE;
        match told.next_if(|(of, _)| *of == number) {
            None => text += piece,
            Some((_, title)) => {
                let title = format!("><title>{}</title></circle>", escaped(title));
                text += &piece.replacen("/>", &title, 1);
            }
        }
    }
    text
}

const CIRCLE: &str = "<circle ";

fn escaped(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() && letter != '\n' { ' ' } else { letter };
    let text: String = text.chars().map(plain).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The attribute of a figure that tells what may stand below each other where there is no room beside each other:
/// rectangles of the sheet, each as left, top, width and height in pixels.
pub(super) const PARTS: &str = "data-parts";
/// The attribute of a figure that tells where its legends are, for screens that show only a piece of it at a time:
/// of each panel that has one its heading and entries, as rectangles; `;` between panels.
pub(super) const KEYS: &str = "data-keys";

const INFALLIBLE: &str = "drawing into a string does not fail";

impl Canvas<'_> {
    /// Says that a rectangle of the sheet can be read by itself.
    pub(super) fn part(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
        self.parts.push([left, top, right - left, bottom - top]);
    }

    /// Begins the legend of a panel with its heading.
    pub(super) fn heading(&mut self, (left, y): (f64, f64), text: &str) {
        /// A wide bold letter.
        const LETTER: f64 = 8.5;
        self.text((left, y), Align::Start, Type::HEADING, text);
        let width = text.chars().count() as f64 * LETTER;
        let heading = Some(line_of_text((left, y), width));
        self.keys.push(Legend { heading, entries: Vec::new() });
    }

    /// Begins the legend of a panel without a heading.
    pub(super) fn legend(&mut self) {
        self.keys.push(Legend::default());
    }

    /// Says that an entry of the last panel's legend lies here, with its middle at this height.
    pub(super) fn key(&mut self, (left, y): (f64, f64), width: f64) {
        if let Some(legend) = self.keys.last_mut() {
            legend.entries.push(line_of_text((left, y), width));
        }
    }

    pub(super) fn text(&mut self, at: (f64, f64), align: Align, looks: Type, text: &str) {
        let (horizontal, turn) = match align {
            Align::Start => (HPos::Left, FontTransform::None),
            Align::Middle => (HPos::Center, FontTransform::None),
            Align::End => (HPos::Right, FontTransform::None),
            Align::Upwards => (HPos::Center, FontTransform::Rotate270),
        };
        // plotters' size of a font is 1.24 times the size that it writes
        let font = (FontFamily::SansSerif, looks.px * UNITS_PER_PX * 1.24, looks.weight);
        let ink = looks.ink.color();
        let style = TextStyle::from(font)
            .transform(turn)
            .color(&ink)
            .pos(Pos::new(horizontal, VPos::Center));
        // No SVG may hold control characters.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.area.draw_text(&text, &style, place(at)).expect(INFALLIBLE);
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], ink: Ink, px: f64) {
        let mut path: Vec<(i32, i32)> = points.iter().copied().map(place).collect();
        path.dedup();
        let line = PathElement::new(path, stroke(ink, px));
        self.area.draw(&line).expect(INFALLIBLE);
    }

    pub(super) fn shade(&mut self, outline: &[(f64, f64)], ink: Ink, opacity: f64) {
        let mut outline: Vec<(i32, i32)> = outline.iter().copied().map(place).collect();
        outline.dedup();
        let shape = Polygon::new(outline, ink.color().mix(opacity));
        self.area.draw(&shape).expect(INFALLIBLE);
    }

    /// A filled circle with a paper-coloured rim, so that it stands out from a line.
    pub(super) fn dot(&mut self, at: (f64, f64), ink: Ink, radius: f64) {
        let rings = [(radius + 1.5, Ink::PAPER), (radius, ink)];
        for (radius, ink) in rings {
            let ring = Circle::new(place(at), units(radius), ink.color().filled());
            self.area.draw(&ring).expect(INFALLIBLE);
            self.circles += 1;
        }
    }

    /// Tells of a place what it shows, in lines, to a pointer that rests within so many pixels of it.
    pub(super) fn tell(&mut self, at: (f64, f64), radius: f64, lines: &[String]) {
        /// plotters leaves out what cannot be seen at all.
        const UNSEEN: f64 = 0.001;
        let spot = Circle::new(place(at), units(radius), Ink::PAPER.color().mix(UNSEEN).filled());
        self.area.draw(&spot).expect(INFALLIBLE);
        self.told.push((self.circles, lines.join("\n")));
        self.circles += 1;
    }
}

/// What a line of text covers.
fn line_of_text((left, middle): (f64, f64), width: f64) -> [f64; 4] {
    const HEIGHT: f64 = 20.0;
    [left, middle - HEIGHT / 2.0, width, HEIGHT]
}

fn stroke(ink: Ink, px: f64) -> ShapeStyle {
    ink.color().stroke_width(units(px) as u32)
}

fn units(px: f64) -> i32 {
    (px * UNITS_PER_PX).round() as i32
}

fn place((x, y): (f64, f64)) -> (i32, i32) {
    (units(x), units(y))
}
