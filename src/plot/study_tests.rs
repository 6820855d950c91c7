//! Figures of studies with much, little and no data.

use super::tests::{assert_inside, assert_well_formed};
use super::*;
use crate::rng::mix;

fn sound(figure: &Figure) {
    assert_well_formed(&figure.svg, figure.file_name);
    assert_inside(&figure.svg, figure.file_name);
    assert!(figure.svg.contains(figure.title));
}

fn known(mean: f64) -> Measure {
    Measure { mean, within: 0.0 }
}

fn panel(curves: Vec<Vec<(Measure, Measure)>>, range: Range) -> CurvePanel {
    let (x, y) = ("rate_per_s".to_owned(), "P99 TTFT (ms)".to_owned());
    CurvePanel { x, y, curves, points: Points::Joined, range }
}

fn drawn(series: &[String], panels: &[CurvePanel]) -> Figure {
    curve_figure(("over_axis.svg", "Over the setting"), "a study", series, panels)
}

#[test]
fn curves_stay_on_their_sheet_whatever_their_values() {
    for case in 0..60_u64 {
        let value = |place: u64| {
            // Over eleven decades, some of them negative, some 0.
            let drawn = mix(case * 1000 + place);
            let size = 10_f64.powi((drawn % 11) as i32 - 4) * (drawn % 97) as f64;
            if case % 5 == 4 { -size } else { size }
        };
        let measure = |place: u64| Measure { mean: value(place), within: value(place + 500).abs() };
        let curve = |series: u64| {
            (0..case % 7).map(move |at| (measure(series * 40 + at), measure(series * 40 + at + 20)))
        };
        let curves: Vec<Vec<_>> = (0..case % 9).map(|series| curve(series).collect()).collect();
        let names: Vec<String> =
            (0..case % 9).map(|series| format!("<{series}> & \u{0}")).collect();
        let panels: Vec<CurvePanel> =
            [Range::Fitting, Range::Percent { slo: 95.0 }, Range::Fitting]
                .into_iter()
                .take(1 + case as usize % 3)
                .map(|range| panel(curves.clone(), range))
                .collect();
        sound(&drawn(&names, &panels));
    }
}

#[test]
fn the_last_point_within_an_slo_is_marked_once() {
    let marks = |shares: [f64; 3]| {
        let curve = shares.iter().zip([1.0, 2.0, 3.0]).map(|(share, x)| (known(x), known(*share)));
        let panel = panel(vec![curve.collect()], Range::Percent { slo: 95.0 });
        let figure = drawn(&[], &[panel]);
        sound(&figure);
        // Points have a radius of 3.5 px, the mark one of 7; a pixel has five units.
        figure.svg.matches("r=\"35\"").count()
    };
    assert_eq!(marks([100.0, 95.0, 94.9]), 1);
    assert_eq!(marks([100.0, 99.0, 98.0]), 0, "none is missed");
    assert_eq!(marks([90.0, 80.0, 99.0]), 0, "none is kept before the first miss");
}

#[test]
fn intervals_are_a_band_where_places_are_known_and_bars_where_they_are_not() {
    let points = |within: f64| {
        let point = |x: f64| (Measure { mean: x, within }, Measure { mean: 10.0 * x, within: 1.0 });
        vec![vec![point(1.0), point(2.0)]]
    };
    let polygons = |within| {
        drawn(&[], &[panel(points(within), Range::Fitting)]).svg.matches("<polygon").count()
    };
    assert_eq!((polygons(0.0), polygons(0.1)), (1, 0));
}

#[test]
fn cells_of_a_heat_map_are_the_stronger_the_larger_and_missing_ones_are_blank() {
    let heat = HeatPanel {
        heading: "P99 TTFT (ms)".to_owned(),
        x: "rate_per_s".to_owned(),
        y: "replicas".to_owned(),
        columns: vec!["2".to_owned(), "4".to_owned()],
        rows: vec!["1".to_owned(), "2".to_owned()],
        values: vec![vec![Some(100.0), Some(300.0)], vec![Some(200.0), None]],
    };
    let figure = heat_figure("a study", &[heat]);
    sound(&figure);
    // From 0.06 to 0.95, 200 in the middle at 0.505 (in binary a little less); three cells of four.
    for opacity in ["opacity=\"0.06\"", "opacity=\"0.95\"", "opacity=\"0.50"] {
        assert_eq!(figure.svg.matches(opacity).count(), 1, "{opacity} in {}", figure.svg);
    }
    assert_eq!(figure.svg.matches("<polygon").count(), 3);
    assert!(figure.svg.contains("faintest 100, strongest 300"));
}

#[test]
fn heat_maps_are_sound_with_many_levels_and_without_values() {
    for (rows, columns) in [(1, 1), (3, 40), (12, 2)] {
        for value in [None, Some(0.0), Some(7.5)] {
            let heat = HeatPanel {
                heading: String::new(),
                x: "x".to_owned(),
                y: "y".to_owned(),
                columns: (0..columns).map(|level| level.to_string()).collect(),
                rows: (0..rows).map(|level| level.to_string()).collect(),
                values: vec![vec![value; columns]; rows],
            };
            sound(&heat_figure("a study", &vec![heat; 3]));
        }
    }
}

#[test]
fn errors_are_bars_with_their_numbers_and_large_ones_stand_out() {
    let figure = |measured: f64, simulated: f64| {
        let error_pct = 100.0 * (simulated / measured - 1.0);
        let name = "Mean TTFT (ms)".to_owned();
        let figure =
            measured_figure("a run", &[MeasuredFigure { name, measured, simulated, error_pct }]);
        sound(&figure);
        figure.svg
    };
    let (large, small) = (figure(100.0, 58.0), figure(100.0, 103.0));
    assert!(large.contains("−42.0 %") && large.contains("#D55E00"), "{large}");
    assert!(small.contains("+3.0 %") && !small.contains("#D55E00"), "{small}");
    assert!(figure(100.0, 100.0).contains("\n0.0 %"));
    assert!(figure(1.0, 900.0).contains("+89,900.0 %"), "what is beyond the axis is still told");
}

#[test]
fn scenarios_stay_on_their_sheet_whatever_their_values() {
    let judgements = [Judgement::Better, Judgement::Worse, Judgement::Neither];
    for case in 0..60_u64 {
        let value = |place: u64| {
            let drawn = mix(case * 1000 + place);
            let size = 10_f64.powi((drawn % 11) as i32 - 4) * (drawn % 97) as f64;
            if case % 5 == 4 { -size } else { size }
        };
        let scenarios = 1 + case % 26;
        let names: Vec<String> = (0..scenarios).map(|at| format!("<{at}> & \u{0}")).collect();
        let mark = |at: u64| {
            let judgement = judgements[at as usize % 3];
            let mark = Mark { mean: value(at), half_width: value(at + 500).abs(), judgement };
            (mix(at + case) % 9 != 4 && case % 7 > 0).then_some(mark)
        };
        let figure = |number: u64| SideBySide {
            heading: "P99 TTFT".to_owned(),
            unit: "ms".to_owned(),
            marks: (0..scenarios).map(|at| mark(number * 40 + at)).collect(),
        };
        let figures: Vec<SideBySide> = (0..case % 10).map(figure).collect();
        sound(&side_by_side_figure(&names, &figures, 10, 0.95));
    }
}

#[test]
fn points_tell_their_series_and_their_values() {
    let measured = Measure { mean: 1234.0, within: 6.0 };
    let curves = vec![vec![(known(2.0), measured)], vec![(known(4.0), known(0.25))]];
    let series = ["a < b".to_owned(), "b".to_owned()];
    let figure = drawn(&series, &[panel(curves, Range::Fitting)]);
    sound(&figure);
    let told: Vec<&str> = figure.svg.split("<title>").skip(1).collect();
    assert_eq!(told.len(), 2, "{}", figure.svg);
    assert!(told[0].starts_with("a &lt; b\n") && told[0].contains(": 2.00\n"), "{}", told[0]);
    assert!(told[0].contains(": 1,234 ± 6.00</title></circle>"), "{}", told[0]);
    assert!(told[1].starts_with("b\n") && told[1].contains(": 0.250</title>"), "{}", told[1]);
    // A figure of one series has it in its title.
    let alone = drawn(&series[..1], &[panel(vec![vec![(known(2.0), known(1.0))]], Range::Fitting)]);
    assert!(!alone.svg.contains("<title>a"), "{}", alone.svg);
}
