//! What is wrong with an acceptance recording is told with its line.

use std::io::Write;

use super::*;

fn read_text(text: &[u8]) -> Result<Vec<Vec<u32>>, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text).expect("it is written");
    let name = file.path().display().to_string();
    read(file.path(), 3).map_err(|error| error.to_string().replace(&name, "FILE"))
}

#[test]
fn requests_come_in_any_order() {
    let text = "{\"request\": 1, \"accepted\": [3]}\n\n{\"request\": 0, \"accepted\": [0, 2]}\n";
    assert_eq!(read_text(text.as_bytes()), Ok(vec![vec![0, 2], vec![3]]));
}

#[test]
fn a_compressed_recording_is_read_as_a_plain_one() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{\"request\": 0, \"accepted\": [1]}\n").expect("it compresses");
    let bytes = gzip.finish().expect("it compresses");
    assert_eq!(read_text(&bytes), Ok(vec![vec![1]]));
    let cut = read_text(&bytes[..bytes.len() - 6]).expect_err("it is cut off");
    assert!(cut.starts_with("FILE:"), "{cut}");
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let first = "{\"request\": 0, \"accepted\": [1]}\n";
    for (text, expected) in [
        ("", "FILE: no request in it"),
        ("{\"request\": 0, \"accepted\": [1", "FILE:1: EOF while parsing a list"),
        ("{\"request\": 0}", "FILE:1: missing field `accepted`"),
        ("{\"request\": 0, \"accepted\": [-1]}", "FILE:1: invalid value: integer `-1`"),
        ("{\"request\": 0, \"accepted\": []}", "FILE:1: request 0 has no verification"),
        ("{\"request\": 0, \"accept\": [1]}", "FILE:1: unknown field `accept`"),
        (
            &format!("{first}{{\"request\": 1, \"accepted\": [0, 4]}}"),
            "FILE:2: request 1 has 4 drafts accepted in step 1, of 3",
        ),
        (&format!("{first}{first}"), "FILE:2: request 0 is there already"),
        (
            &format!("{first}{}", first.replace('0', "2")),
            "FILE: request 1 is missing, though request 2 is there",
        ),
    ] {
        let error = read_text(text.as_bytes()).expect_err("it is refused");
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("no/such/recording.jsonl"), 3).expect_err("it is not there");
    assert!(error.to_string().starts_with("no/such/recording.jsonl: "), "{error}");
}
