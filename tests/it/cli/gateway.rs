//! What a report says of classes and of the gateway.

use serde_json::Value;

use super::{Cli, SCENARIO};

const CLASSES: &str = "[[workload.classes]]\nname = \"chat\"\nshare = 0.5\nttft_ms = 100000.0\n\
                       [[workload.classes]]\nname = \"batch\"\nshare = 0.5\ne2e_ms = 0.001\n\n[cluster]\n";

fn with_classes(gateway: &str) -> Cli {
    let scenario = SCENARIO.replace("[cluster]\n", &(CLASSES.to_owned() + gateway)).replace(
        "arrivals = { type = \"poisson\", rate_per_s = 10.0 }",
        "arrivals.type = \"all_at_once\"",
    );
    Cli::new().file("s.toml", scenario)
}

#[test]
fn classes_and_who_was_turned_away_are_printed_and_written() {
    let cli = with_classes("gateway = { max_outstanding_per_replica = 1, max_waiting = 1 }\n");
    let stdout = cli.words("run s.toml --output-dir out").expect_exit(0).stdout();
    assert!(stdout.contains("\nGateway: "), "{stdout}");
    let head = ["2", "classes", "chat", "batch"];
    assert!(stdout.lines().any(|line| line.split_whitespace().eq(head)), "{stdout}");
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    let classes = summary["classes"].as_array().unwrap();
    let sum = |key: &str| classes.iter().map(|class| class[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("requests"), classes[0]["name"].as_str()), (20, Some("chat")));
    assert_eq!(summary["requests"]["finished"], sum("finished"));
    assert_eq!(summary["gateway"]["turned_away"]["full"], summary["requests"]["rejected"]);
    assert!(sum("finished") < 20, "{stdout}");
    let shares = [&classes[0], &classes[1]].map(|class| class["attainment"].as_f64().unwrap());
    let of = |key: &str| classes[0][key].as_f64().unwrap();
    assert!((shares[0] - of("finished") / of("requests")).abs() < 1e-12, "who finishes is in time");
    assert!(shares[1].abs() < 1e-12, "nobody is that fast");
    assert_eq!(summary["fairness"]["tenants"][1]["tenant"], "batch");
}

#[test]
fn nothing_is_said_of_classes_and_gateways_that_are_not_there() {
    let cli = Cli::with_scenario();
    let stdout = cli.words("run s.toml --output-dir out").expect_exit(0).stdout();
    assert!(!stdout.contains("Gateway") && !stdout.contains("classes"), "{stdout}");
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    assert!(["classes", "gateway", "fairness"].iter().all(|key| summary.get(key).is_none()));
}

#[test]
fn a_trace_may_name_the_classes() {
    let scenario = "name = \"s\"\n[trace]\npath = \"t.csv\"\ncolumns = { class = \"kind\" }\n[workload]\n\
                    arrivals = { type = \"trace\" }\nlengths = { type = \"trace\" }\n\
                    [[workload.classes]]\nname = \"chat\"\n[[workload.classes]]\nname = \"batch\"\n\
                    [cluster]\nmodel = \"Qwen/Qwen3-8B\"\ngpu = \"H100\"\n";
    let rows = "arrival_s,prompt_tokens,output_tokens,kind\n0,9,3,batch\n1,9,3,chat\n2,9,3,batch\n";
    let cli = Cli::new().file("s.toml", scenario).file("t.csv", rows);
    cli.words("run s.toml --output-dir out").expect_exit(0);
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    assert_eq!(summary["classes"][0]["requests"], 1);
    assert_eq!(summary["classes"][1]["requests"], 2);
    let json =
        "{\"arrival_s\": 0, \"prompt_tokens\": 9, \"output_tokens\": 3, \"kind\": \"bulk\"}\n";
    let cli = Cli::new().file("s.toml", scenario.replace("t.csv", "t.jsonl")).file("t.jsonl", json);
    cli.words("run s.toml --no-files").expect_exit(2).stderr_has(
        "trace.columns.class: must be a class of workload.classes (chat, batch), got `bulk` for \
         request 0",
    );
}
