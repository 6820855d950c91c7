//! Pages in a browser: on wide and narrow screens, light and dark, folded and open.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::super::names;
use super::{folders, page};

/// Measures a page within another one.
const MEASURE: &str = include_str!("measure.js");

/// The browser that pages are tried in.
fn browser() -> PathBuf {
    let named = std::env::var_os("SERVECAST_CHROMIUM").map(PathBuf::from);
    if let Some(named) = named {
        assert!(named.is_file(), "SERVECAST_CHROMIUM: {} is no file", named.display());
        return named;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/bin")]);
    let found = folders.map(|folder| folder.join("chromium")).find(|program| program.is_file());
    found.expect("a chromium is there, or SERVECAST_CHROMIUM names one")
}

/// What a browser makes of a page.
fn dump(browser: &Path, page: &Path, is_dark: bool) -> String {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--virtual-time-budget=2000", "--window-size=1500,900"])
        // The page around may look into the one within.
        .arg("--allow-file-access-from-files")
        .args(is_dark.then_some("--force-dark-mode"))
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What was found of a page on a screen.
#[derive(Debug, Deserialize)]
struct Measured {
    /// How wide the page is, and the screen.
    inside: u32,
    room: u32,
    /// Files that it asked for.
    loaded: u32,
    /// By figure: the drawings that show, each with its width and height.
    drawings: Vec<Vec<(u32, u32)>>,
    /// By figure: the headings and entries of its legends that show above it.
    legends: Vec<Vec<(u32, u32)>>,
    /// Elements with text of their own.
    texts: usize,
    /// Those that are hard to read.
    faint: Vec<String>,
    /// Panels in which nothing is drawn.
    blank: usize,
    /// Drawings that say nothing to who does not see them.
    silent: usize,
    dark: bool,
}

/// A screen and how the page is read on it.
#[derive(Debug, Clone, Copy)]
struct Screen {
    width: u32,
    is_open: bool,
    is_dark: bool,
}

fn measured(browser: &Path, page: &Path, screen: Screen) -> Measured {
    let name = page.file_name().unwrap().to_string_lossy();
    let Screen { width, is_open, is_dark } = screen;
    let open = if is_open { "yes" } else { "no" };
    let around = page.with_file_name("around.html");
    let frame = format!(
        "<iframe src=\"{name}\" data-open=\"{open}\" style=\"width:{width}px;height:900px;border:0\">"
    );
    fs::write(&around, format!("<body>{frame}</iframe><script>{MEASURE}</script></body>")).unwrap();
    let dom = dump(browser, &around, is_dark);
    let (_, found) = dom.split_once("<pre>").expect("the script ran");
    let found = found.split("</pre>").next().unwrap();
    let found = found.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"))
}

#[test]
#[ignore = "needs Chromium"]
fn a_browser_shows_every_figure_and_loads_nothing() {
    let browser = browser();
    let (cli, folders) = folders();
    for folder in folders {
        let page = page(&cli, folder);
        let path = cli.path(&format!("{folder}/report.html"));
        let figures = page.matches("<figure>").count();
        let in_parts = page.matches("class=\"drawing apart\"").count();
        let with_legends = page.matches("class=\"drawing legend\"").count();
        // The policy lets no script run, and the hostile name is text.
        let dom = dump(&browser, &path, false);
        assert!(!dom.contains("<script"), "{folder}");
        assert_eq!(dom.matches("<figure>").count(), figures, "{folder}");
        for width in [1400, 700, 390] {
            for (is_open, is_dark) in [(true, false), (false, false), (true, true)] {
                let screen = Screen { width, is_open, is_dark };
                let found = measured(&browser, &path, screen);
                let about = format!("{folder} on {screen:?}: {found:?}");
                assert_eq!((found.loaded, found.silent, found.dark), (0, 0, is_dark), "{about}");
                assert_eq!(found.blank, 0, "{about}");
                assert!(found.inside <= found.room && found.room <= width, "{about}");
                assert!(found.texts > 10 && found.faint.is_empty(), "{about}");
                if is_open {
                    assert_eq!(found.drawings.len(), figures, "{about}");
                    let apart = found.drawings.iter().filter(|drawn| drawn.len() > 1).count();
                    assert_eq!(apart, if width <= 700 { in_parts } else { 0 }, "{about}");
                    // What scrolls there has its legend above it, which does not.
                    let legends = found.legends.iter().filter(|keys| !keys.is_empty()).count();
                    assert_eq!(legends, if width <= 700 { with_legends } else { 0 }, "{about}");
                }
                for &(wide, high) in found.legends.iter().flatten() {
                    assert!((20..width).contains(&wide) && high >= 15, "{about}");
                }
                for drawn in &found.drawings {
                    // Whole, or below 700 px by panels that need no scrolling.
                    assert!(drawn.len() == 1 || (width <= 700 && drawn.len() > 1), "{about}");
                    let least = if drawn.len() == 1 { 600 } else { 150 };
                    for &(wide, high) in drawn {
                        assert!(wide >= least && high >= 15, "{about}");
                        assert!(drawn.len() == 1 || wide <= width, "{about}");
                    }
                }
            }
        }
    }
    assert!(names(&cli.path("run")).contains(&"report.html".to_owned()));
}
