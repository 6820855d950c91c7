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
