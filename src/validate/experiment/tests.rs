//! Experiments: rows to requests, and what is wrong with them.

use super::*;

fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
    let texts = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
    Table {
        name: "requests.csv".to_owned(),
        columns: texts(columns),
        rows: rows.iter().map(|row| texts(row)).collect(),
        lines: (2..).take(rows.len()).collect(),
    }
}

fn experiment(requests: &str) -> Experiment {
    let text = format!(
        "name = 'x'\n[requests]\nfiles = ['requests.csv']\n{requests}\n\
         [cluster]\nmodel = 'Qwen/Qwen2.5-0.5B'\ngpu = 'H100'\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 1000.0\nprefill_token_us = 0.0\n\
         decode_seq_us = 0.0"
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn case(experiment: Experiment, tables: &[Table]) -> Case {
    let sent = experiment.sent(tables).unwrap();
    let file = experiment.scenario_file(sent.requests.len());
    experiment.case(sent, Scenario::resolve(file, None).unwrap())
}

const COLUMNS: &str = "columns = { arrival_s = 'at', prompt_tokens = 'in', output_tokens = 'out', \
                       ttft_ms = 'ttft', e2e_ms = 'e2e' }";

#[test]
fn a_measurement_of_the_law_itself_has_no_error() {
    // One request: 1 ms for the prompt, 1 ms for each further token, and nothing is waited for.
    let rows = table(&["at", "in", "out", "ttft", "e2e"], &[&["5", "8", "3", "1", "3"]]);
    let case = case(experiment(COLUMNS), &[rows]);
    let score = case.run().unwrap();
    let error = |name: &str| {
        let key = MetricKey::parse(name);
        score.rows.iter().find(|row| Some(row.key) == key).unwrap().error_pct().unwrap()
    };
    for name in ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "output_throughput"] {
        assert!(error(name).abs() < 1e-6, "{name}: {}", error(name));
    }
}

#[test]
fn rows_are_sent_in_order_of_arrival_from_time_zero() {
    let rows = table(
        &["at", "in", "out", "ttft", "e2e"],
        &[&["12.5", "8", "3", "1", "3"], &["10", "9", "3", "1", "3"]],
    );
    let case = case(experiment(COLUMNS), &[rows]);
    let requests = case.requests.unwrap();
    assert_eq!(requests[0].arrival, SimTime::ZERO);
    assert_eq!(requests[0].prompt_tokens, 9);
    assert!((requests[1].arrival.as_secs_f64() - 2.5).abs() < 1e-9);
}

#[test]
fn stamps_stand_in_for_durations_and_tables_lie_side_by_side() {
    let times = table(&["queued", "first", "last"], &[&["100", "100.5", "102"]]);
    let lengths = table(&["in", "out", "ids"], &[&["33", "4", "[7, 8, 9]"]]);
    let config = "hash_block_tokens = 16\ncolumns = { arrival_s = 'queued', first_token_s = \
                  'first', finish_s = 'last', prompt_tokens = 'in', output_tokens = 'out', \
                  hash_ids = 'ids' }";
    let case = case(experiment(config), &[times, lengths]);
    let value = |name: &str| {
        let key = MetricKey::parse(name).unwrap();
        case.measured.iter().find(|(have, _)| *have == key).unwrap().1
    };
    assert!((value("mean_ttft_ms") - 500.0).abs() < 1e-6);
    assert!((value("mean_tpot_ms") - 500.0).abs() < 1e-6);
    let content = case.requests.unwrap()[0].content.segments.clone().unwrap();
    let lens: Vec<u32> = content.iter().map(|segment| segment.len).collect();
    assert_eq!(lens, [16, 16, 1]);
}

#[test]
fn prompts_of_a_period_repeat() {
    let row: &[&str] = &["0", "200", "3", "1", "3"];
    let rows = table(&["at", "in", "out", "ttft", "e2e"], &[row; 5]);
    let config =
        format!("repeat = {{ prompts = 4, shared_tokens = 100, shared_by = 2 }}\n{COLUMNS}");
    let case = case(experiment(&config), &[rows]);
    let content = |index: usize| case.requests.as_ref().unwrap()[index].content.clone();
    assert_eq!(content(0), content(4));
    let first = |index: usize| content(index).segments.unwrap()[0];
    assert_eq!(first(0), first(1));
    assert_ne!(first(1), first(2));
    assert_ne!(content(0), content(1));
}

#[test]
fn prompts_repeat_by_rows_of_the_table_whichever_are_kept() {
    let ok: &[&str] = &["0", "200", "3", "1", "3", "ok"];
    let failed: &[&str] = &["0", "200", "3", "", "", "failed"];
    let rows = table(&["at", "in", "out", "ttft", "e2e", "status"], &[ok, failed, ok, failed, ok]);
    let config = format!("keep = {{ status = 'ok' }}\nrepeat = {{ prompts = 2 }}\n{COLUMNS}");
    let case = case(experiment(&config), &[rows]);
    let requests = case.requests.unwrap();
    // Rows 0, 2 and 4: all of the first prompt.
    assert_eq!(requests[0].content, requests[1].content);
    assert_eq!(requests[0].content, requests[2].content);
}

/// Three requests of 4 s each arrive together; the client lets two into flight.
#[test]
fn what_a_client_holds_back_was_sent_when_there_was_room() {
    let row: &[&str] = &["0", "8", "5", "1000", "4000"];
    let rows = table(&["at", "in", "out", "ttft", "e2e"], &[row; 3]);
    let measured = |more: &str, rows: &Table| {
        let mut experiment = experiment(COLUMNS);
        experiment.client = toml::from_str(more).unwrap();
        let sent = experiment.sent(std::slice::from_ref(rows)).unwrap();
        let key = MetricKey::parse("request_throughput").unwrap();
        sent.measured.into_iter().find(|(known, _)| *known == key).unwrap().1
    };
    // From 0 to 4 s two, from 4 to 8 s the third.
    assert!((measured("max_concurrency = 2", &rows) - 3.0 / 8.0).abs() < 1e-9);
    assert!((measured("max_concurrency = 1", &rows) - 3.0 / 12.0).abs() < 1e-9);
    assert!((measured("", &rows) - 3.0 / 4.0).abs() < 1e-9);
    // Each rests for a second before the next.
    let rests = "max_concurrency = 1\nthink_time_s = 1.0";
    assert!((measured(rests, &rows) - 3.0 / 14.0).abs() < 1e-9);
}

#[test]
fn times_since_a_logged_send_are_those_of_the_request() {
    let rows = table(
        &["at", "sent", "in", "out", "first", "end"],
        &[&["10", "10", "8", "5", "11", "14"], &["10", "14", "8", "5", "15", "18"]],
    );
    let columns = "columns = { arrival_s = 'at', sent_s = 'sent', prompt_tokens = 'in', \
                   output_tokens = 'out', first_token_s = 'first', finish_s = 'end' }";
    let sent = experiment(columns).sent(&[rows]).unwrap();
    let value = |name: &str| {
        let key = MetricKey::parse(name).unwrap();
        sent.measured.iter().find(|(known, _)| *known == key).unwrap().1
    };
    assert!((value("mean_ttft_ms") - 1000.0).abs() < 1e-6);
    assert!((value("mean_e2el_ms") - 4000.0).abs() < 1e-6);
    assert!((value("request_throughput") - 2.0 / 8.0).abs() < 1e-9);
    let early =
        table(&["at", "sent", "in", "out", "first", "end"], &[&["10", "9", "8", "5", "11", "14"]]);
    let error = experiment(columns).sent(&[early]).unwrap_err();
    assert!(error.contains("is sent at 9 s, before it arrives at 10 s"), "{error}");
}

#[test]
fn rows_that_are_not_kept_are_not_sent() {
    let rows = table(
        &["at", "in", "out", "ttft", "e2e", "status"],
        &[&["0", "8", "3", "1", "3", "ok"], &["1", "8", "3", "", "", "failed"]],
    );
    let config = format!("keep = {{ status = 'ok' }}\n{COLUMNS}");
    let case = case(experiment(&config), &[rows]);
    assert_eq!(case.requests.unwrap().len(), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let rows = table(&["at", "in", "out", "ttft", "e2e"], &[&["0", "x", "3", "1", "3"]]);
    let fails = |config: &str, tables: &[Table]| experiment(config).sent(tables).unwrap_err();
    let rows = std::slice::from_ref(&rows);
    assert_eq!(fails(COLUMNS, rows), "requests.csv: line 2: in: `x` is not a number");
    let config = "columns = { arrival = 'at' }";
    assert!(fails(config, rows).starts_with("requests.columns.arrival: is not a quantity"));
    let config = "columns = { arrival_s = 'when' }";
    assert_eq!(fails(config, rows), "requests.columns.arrival_s: no table has a column `when`");
    let config = format!("repeat = {{ prompts = 0 }}\n{COLUMNS}");
    let good = table(&["at", "in", "out", "ttft", "e2e"], &[&["0", "8", "3", "1", "3"]]);
    assert!(fails(&config, &[good]).starts_with("requests.repeat: prompts and shared_by"));
}

#[test]
fn any_text_is_a_block_id_of_its_own() {
    let ids = |text: &str| {
        let rows = table(&["at", "in", "out", "e2e", "ids"], &[&["0", "32", "3", "3", text]]);
        let config = "hash_block_tokens = 16\ncolumns = { arrival_s = 'at', e2e_s = 'e2e', \
                      prompt_tokens = 'in', output_tokens = 'out', hash_ids = 'ids' }";
        let content = case(experiment(config), &[rows]).requests.unwrap()[0].content.clone();
        content.segments.unwrap().iter().map(|segment| segment.stream).collect::<Vec<_>>()
    };
    assert_eq!(ids("['aaa1', 'baa1']"), [0, 1]);
    assert_eq!(ids("-1 1"), [0, 1]);
    assert_eq!(ids("7,7"), [0, 0]);
    assert_eq!(ids("99999999999999999999999")[0], 0);
}

#[test]
fn a_row_that_no_answered_request_can_have_is_named() {
    let fails = |ttft: &str, e2e: &str| {
        let row: &[&str] = &["0", "8", "3", ttft, e2e];
        let rows = table(&["at", "in", "out", "ttft", "e2e"], &[row]);
        experiment(COLUMNS).sent(&[rows]).unwrap_err()
    };
    for (ttft, e2e, problem) in [
        ("1", "0", "the end is 0 s after the arrival"),
        ("-1", "3", "the first token is -0.001 s after the arrival"),
        ("9", "3", "the first token comes after 0.009"),
    ] {
        let start = format!("requests.csv: line 2: {problem}");
        assert!(fails(ttft, e2e).starts_with(&start), "{}", fails(ttft, e2e));
    }
    let rows = table(
        &["at", "in", "out", "ttft", "e2e"],
        &[&["0", "8", "3", "1", "3"], &["1e11", "8", "3", "1", "3"]],
    );
    let error = experiment(COLUMNS).sent(&[rows]).unwrap_err();
    assert!(error.starts_with("requests: row 2: arrives 100000000000 s after"), "{error}");
}

#[test]
fn tables_of_a_data_frame_are_read() {
    let rows = table(
        &["at", "in", "out", "ttft", "e2e", "ok"],
        &[&["0", "512.0", "3", "1", "3", "True"], &["0", "", "", "", "", "False"]],
    );
    let case = case(experiment(&format!("keep = {{ ok = true }}\n{COLUMNS}")), &[rows]);
    let requests = case.requests.unwrap();
    assert_eq!((requests.len(), requests[0].prompt_tokens), (1, 512));
}

#[test]
fn a_limit_is_of_a_figure_that_the_requests_tell() {
    let rows = table(&["at", "in", "out", "ttft", "e2e"], &[&["5", "8", "3", "1", "3"]]);
    let limited = |name: &str| {
        let mut experiment = experiment(COLUMNS);
        experiment.limits = toml::from_str(&format!("{name} = 5.0")).unwrap();
        experiment.sent(std::slice::from_ref(&rows)).map(|sent| sent.measured)
    };
    for name in ["p95_ttft_ms", "duration", "total_token_throughput"] {
        let key = MetricKey::parse(name).unwrap();
        assert!(limited(name).unwrap().iter().any(|(have, _)| *have == key), "{name}");
    }
    let error = limited("mean_itl_ms").unwrap_err();
    assert_eq!(error, "limits.mean_itl_ms: these requests do not tell it");
    let mut twice = experiment(COLUMNS);
    twice.requests.columns.insert("ttft_s".to_owned(), "ttft".to_owned());
    let error = twice.sent(&[rows]).unwrap_err();
    assert!(error.ends_with("ttft is given in another unit"), "{error}");
}
