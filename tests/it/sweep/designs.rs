//! Laws of designs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use servecast::rng::Seed;
use servecast::sweep::{
    Axis, Design, Levels, NumberKind, Plan, Point, RUNS_MAX, Range, Scale, Shard,
};
use toml::Value;

use crate::support::random_cases;

fn list(path: &str, values: impl IntoIterator<Item = i64>) -> Axis {
    let values = values.into_iter().map(Value::Integer).collect();
    Axis { path: path.to_owned(), levels: Levels::List(values) }
}

fn range(path: &str, low: f64, high: f64, scale: Scale, kind: NumberKind) -> Axis {
    let range = Range { low, high, scale, kind, count: None };
    Axis { path: path.to_owned(), levels: Levels::Range(range) }
}

fn counted(mut axis: Axis, levels: u32) -> Axis {
    if let Levels::Range(range) = &mut axis.levels {
        range.count = Some(levels);
    }
    axis
}

fn plan(axes: Vec<Axis>, design: Design) -> Plan {
    Plan { variants: vec!["one".to_owned()], axes, design, seeds: 1 }
}

fn all(plan: &Plan) -> Vec<Point> {
    plan.points().expect("a plan").iter().collect()
}

fn texts(points: &[Point]) -> Vec<String> {
    let text = |point: &Point| {
        let values = point.settings.iter().map(|(path, value)| format!("{path}={value}"));
        format!("{}:{}", point.variant, values.collect::<Vec<_>>().join(" "))
    };
    points.iter().map(text).collect()
}

fn number(point: &Point, axis: usize) -> f64 {
    let value = &point.settings[axis].1;
    value.as_float().or(value.as_integer().map(|n| n as f64)).expect("a number")
}

fn problem(plan: &Plan) -> String {
    plan.points().expect_err("a rule is broken").to_string()
}

#[test]
fn the_last_axis_of_a_grid_varies_fastest_and_variants_slowest() {
    let mut plan = plan(vec![list("a", [1, 2]), list("b", [7, 8])], Design::Grid);
    plan.variants.push("two".to_owned());
    let expected = ["0:a=1 b=7", "0:a=1 b=8", "0:a=2 b=7", "0:a=2 b=8"];
    let found = texts(&all(&plan));
    assert_eq!(found[..4], expected);
    assert_eq!((found.len(), found[4].as_str()), (8, "1:a=1 b=7"));
}

#[test]
fn a_list_of_points_takes_the_values_together() {
    let plan = plan(vec![list("a", [1, 2, 3]), list("b", [9, 7, 8])], Design::Zip);
    assert_eq!(texts(&all(&plan)), ["0:a=1 b=9", "0:a=2 b=7", "0:a=3 b=8"]);
}

#[test]
fn levels_lie_evenly_from_end_to_end() {
    let real = NumberKind::Real;
    let linear = counted(range("a", 0.5, 2.0, Scale::Linear, real), 4);
    let log = counted(range("a", 0.1, 100.0, Scale::Log, real), 4);
    let values = |axis: Axis| -> Vec<f64> {
        all(&plan(vec![axis], Design::Grid)).iter().map(|point| number(point, 0)).collect()
    };
    assert_eq!(values(linear), [0.5, 1.0, 1.5, 2.0]);
    assert_eq!(values(log), [0.1, 1.0, 10.0, 100.0]);
    let whole = |scale| range("a", 1.0, 16.0, scale, NumberKind::Integer);
    assert_eq!(values(whole(Scale::Linear)).len(), 16);
    assert_eq!(values(counted(whole(Scale::Log), 5)), [1.0, 2.0, 4.0, 8.0, 16.0]);
    // 1, 1.74, 3.03, 5.28, 9.19, 16: whole numbers that are near to each other stand once.
    assert_eq!(values(counted(whole(Scale::Log), 6)), [1.0, 2.0, 3.0, 5.0, 9.0, 16.0]);
}

#[test]
fn plans_that_mean_nothing_are_refused_with_their_place() {
    let whole = |low, high| range("a", low, high, Scale::Linear, NumberKind::Integer);
    let log = |low, high| range("a", low, high, Scale::Log, NumberKind::Real);
    let drawn = Design::Random { points: 5, seed: Seed(0) };
    for (axes, design, expected) in [
        (vec![list("a", [])], Design::Grid, "a: has no values"),
        (vec![list("a", [1, 2, 1])], Design::Grid, "a: lists 1 twice"),
        (vec![list("a", [1]), list("a", [2])], Design::Grid, "a: is varied twice"),
        (vec![whole(4.0, 4.0)], Design::Grid, "a: 4..4 is empty"),
        (vec![log(0.0, 4.0)], drawn, "a: a logarithmic range must begin above 0, got 0"),
        (vec![log(1.0, 4.0)], Design::Grid, "a: how many levels?"),
        (vec![counted(log(1.0, 4.0), 1)], Design::Grid, "a: a range has at least 2 levels"),
        (vec![counted(whole(1.0, 4.0), 9)], Design::Grid, "a: 1..4 has no 9 whole numbers"),
        (vec![counted(log(1.0, 4.0), 3)], drawn, "a: 3 levels are for grids"),
        (vec![list("a", [1]), list("b", [1, 2])], Design::Zip, "a: has 1 values, another axis 2"),
        (vec![whole(1.0, 1e15)], Design::Grid, "points: 1000000000000000 points with 1 seeds"),
        (vec![], Design::Random { points: 0, seed: Seed(0) }, "points: must be at least 1"),
        (
            vec![],
            Design::LatinHypercube { points: RUNS_MAX + 1, seed: Seed(0) },
            "points: 100001 points",
        ),
    ] {
        let found = problem(&plan(axes, design));
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(problem(&Plan { seeds: 0, ..plan(vec![], Design::Grid) }).starts_with("seeds: "));
}

#[test]
fn an_axis_more_does_not_change_what_the_others_draw() {
    let axis = |path| range(path, 0.0, 1.0, Scale::Linear, NumberKind::Real);
    let design = Design::LatinHypercube { points: 20, seed: Seed(3) };
    let one = all(&plan(vec![axis("a")], design));
    let two = all(&plan(vec![axis("a"), axis("b")], design));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.settings[0], two.settings[0]);
    }
    assert!(two.iter().any(|point| point.settings[0].1 != point.settings[1].1));
}

proptest! {
    #![proptest_config(random_cases(64))]

    #[test]
    fn a_grid_has_every_point_once(sizes in prop::collection::vec(1_i64..6, 0..4), variants in 1_usize..4) {
        let axes = sizes.iter().enumerate().map(|(at, size)| list(&format!("x{at}"), 0..*size));
        let mut plan = plan(axes.collect(), Design::Grid);
        plan.variants = vec!["v".to_owned(); variants];
        let points = texts(&all(&plan));
        let expected = sizes.iter().product::<i64>() as usize * variants;
        prop_assert_eq!(points.len(), expected);
        prop_assert_eq!(points.iter().collect::<BTreeSet<_>>().len(), expected);
    }

    #[test]
    fn equal_seeds_draw_equal_points_within_the_ends(
        seed in any::<u64>(), points in 1_u32..40, is_even in any::<bool>(),
    ) {
        let seed = Seed(seed);
        let design = if is_even {
            Design::LatinHypercube { points, seed }
        } else {
            Design::Random { points, seed }
        };
        let axes = vec![
            range("a", 0.3, 70.0, Scale::Log, NumberKind::Real),
            range("b", -3.0, 4.0, Scale::Linear, NumberKind::Integer),
            list("c", [5, 6, 7]),
        ];
        let drawn = all(&plan(axes.clone(), design));
        prop_assert_eq!(&drawn, &all(&plan(axes, design)));
        prop_assert_eq!(drawn.len(), points as usize);
        for point in &drawn {
            prop_assert!((0.3..=70.0).contains(&number(point, 0)));
            prop_assert!((-3.0..=4.0).contains(&number(point, 1)));
            prop_assert!((5.0..=7.0).contains(&number(point, 2)));
        }
    }

    /// Each of as many equal parts of a range as there are points has one of them; each whole number and
    /// each value of a list has as many points as the others, give or take one.
    #[test]
    fn a_latin_hypercube_has_one_point_in_every_stratum(seed in any::<u64>(), points in 1_u32..60) {
        let axes = vec![
            range("a", 2.0, 5.0, Scale::Linear, NumberKind::Real),
            range("b", 1.0, 1000.0, Scale::Log, NumberKind::Real),
            range("c", 1.0, 7.0, Scale::Linear, NumberKind::Integer),
            list("d", 0..4),
        ];
        let drawn = all(&plan(axes, Design::LatinHypercube { points, seed: Seed(seed) }));
        let shares: [fn(f64) -> f64; 2] = [|a| (a - 2.0) / 3.0, |b| b.ln() / 1000_f64.ln()];
        for (axis, share) in shares.into_iter().enumerate() {
            let mut shares: Vec<f64> = drawn.iter().map(|point| share(number(point, axis))).collect();
            shares.sort_by(f64::total_cmp);
            for (stratum, share) in shares.into_iter().enumerate() {
                // Values have six digits, so that one at the edge may lie beyond it.
                let place = share * f64::from(points);
                let beyond = (stratum as f64 - place).max(place - stratum as f64 - 1.0);
                prop_assert!(beyond < 1e-3, "stratum {stratum} has {place}");
            }
        }
        for (axis, levels) in [(2, 7), (3, 4)] {
            let values: BTreeSet<u64> = drawn.iter().map(|point| number(point, axis).to_bits()).collect();
            let of = |value: &u64| drawn.iter().filter(|point| number(point, axis).to_bits() == *value).count();
            let most = values.iter().map(of).max().unwrap_or(0);
            prop_assert!(most <= points.div_ceil(levels) as usize + 1, "{most} of {points}");
        }
    }

    #[test]
    fn shards_have_every_run_once(runs in 0_u32..200, count in 1_u32..9) {
        for run in 0..runs {
            let owners = (1..=count).filter(|index| Shard { index: *index, count }.has(run)).count();
            prop_assert_eq!(owners, 1);
        }
    }
}
