//! Recordings that cannot be read are named with file and line.

use std::io::Write;

use super::Cli;

const SCENARIO: &str = "{\"type\":\"scenario\",\"name\":\"x\",\"engine\":\"vllm\"";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn refused(name: &str, content: impl AsRef<[u8]>, message: &str) {
    let cli = Cli::new().file(name, content);
    let ran = cli.words("conformance .").expect_exit(2);
    ran.stdout_has(&format!("{name}: {message}"))
        .stdout_has("0 scenarios exact of 1")
        .stderr_has("1 recording cannot be replayed");
}

#[test]
fn a_recording_that_cannot_be_read_is_named_with_its_line() {
    refused("a.jsonl", "", "line 1: the file is empty");
    refused("a.jsonl.gz", "", "line 1: the file is empty");
    refused("a.jsonl", SCENARIO, "line 1: not a whole JSON object");
    refused("a.jsonl", format!("{SCENARIO}}}\n"), "line 1: missing key `version`");
    let unknown = format!("{SCENARIO},\"version\":\"9.9\",\"config\":{{}}}}\n");
    let whole = format!("{unknown}{{\"type\":\"summary\",\"steps\":0}}\n");
    refused("a.jsonl", &whole, "line 1: vLLM 9.9: recordings of version");
    refused("a.jsonl.gz", gzip(whole.as_bytes()), "line 1: vLLM 9.9: recordings of version");
    refused("a.jsonl", [b"{}\n".as_slice(), &[0xff]].concat(), "line 2: not UTF-8");
}

#[test]
fn a_wrong_compression_is_named() {
    refused("a.jsonl.gz", SCENARIO, "line 1: gzip: not compressed");
    refused("a.jsonl", gzip(SCENARIO.as_bytes()), "line 1: compressed with gzip, but not named");
    let whole = gzip(b"{}\n");
    refused("a.jsonl.gz", &whole[..whole.len() - 4], "line 2: gzip: damaged or cut off");
}

const ROUTER: &str =
    "\"order\":[\"w1\",\"w0\"],\"urls\":{\"w0\":\"http://a:1\",\"w1\":\"http://a:2\"}";

/// A recording of decisions of a router with such a command line.
fn decisions(args: &str, lines: &[&str]) -> String {
    let router = "\"router\":\"sglang-router 0.3.2\"";
    let first = format!("{{\"scenario\":\"x\",\"args\":[{args}],{ROUTER},{router}}}");
    [&[first.as_str()], lines].concat().join("\n")
}

fn sent(worker: &str) -> String {
    format!(
        "{{\"i\":0,\"t\":0.1,\"op\":\"send\",\"rid\":\"r0\",\"api\":\"generate\",\"text\":[[1,0,5]],\
         \"loads\":{{}},\"att\":[[\"{worker}\",200]],\"w\":\"{worker}\",\"status\":200}}"
    )
}

#[test]
fn decisions_are_counted_by_policy() {
    let cli = Cli::new().file("a.jsonl", decisions("", &[&sent("w1")]));
    let ran = cli.words("conformance .").expect_exit(0);
    ran.stdout_has("a.jsonl: 1 exact, 0 drawn").stdout_has("sglang cache_aware");
    let cli = Cli::new().file("a.jsonl", decisions("", &[&sent("w0")]));
    let ran = cli.words("conformance .").expect_exit(1);
    ran.stdout_has("1 wrong").stdout_has("line 2 (request r0)").stderr_has("1 scenarios differ");
}

#[test]
fn decisions_that_cannot_be_replayed_are_named_with_their_line() {
    let unknown = decisions("\"--kv-magic\",\"1\"", &[]);
    refused("a.jsonl", unknown, "line 1: args: unknown key `kv_magic`");
    refused("a.jsonl", decisions("\"--policy\",\"bucket\"", &[]), "line 1: policy: `bucket`");
    refused("a.jsonl", decisions("\"--policy\"", &[]), "line 1: args: --policy has no value");
    refused("a.jsonl", decisions("", &[&sent("w7")]), "line 2: `w7` is none of the workers");
    refused("a.jsonl", decisions("", &["{\"op\":\"send\"}"]), "line 2: t: missing");
    refused("a.jsonl", decisions("", &["{\"t\":1,\"op\":\"fly\"}"]), "line 2: op: unknown kind");
    refused("a.jsonl", decisions("", &["{\"t\":1e300,\"op\":\"sleep\"}"]), "line 2: t: must be");
    refused("a.jsonl", decisions("", &["[1"]), "line 2: not a whole JSON object");
}
