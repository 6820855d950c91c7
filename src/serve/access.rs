//! Who may come in.
//!
//! vLLM 0.33.0, `vllm/entrypoints/serve/middleware/authenticate.py`; SGLang 0.5.23,
//! `python/sglang/srt/utils/auth.py`.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use super::app::Dialect;

/// Paths of vLLM's server that need no key.
const OPEN_IN_VLLM: &[&str] = &["/load", "/reset_prefix_cache", "/tokenize", "/version"];

/// Whether a path needs the key, where there is one.
pub(super) fn is_guarded(dialect: Dialect, path: &str) -> bool {
    dialect == Dialect::Sglang || !OPEN_IN_VLLM.contains(&path)
}

/// Whether a client has the key. It takes as long for any that is as long as what is given.
pub(super) fn has(headers: &HeaderMap, key: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = given.and_then(|value| value.split_once(' ')) else { return false };
    let bytes = given.bytes().zip(key.bytes().cycle());
    let off = bytes.fold(u8::from(given.len() != key.len()), |off, (a, b)| off | (a ^ b));
    scheme.eq_ignore_ascii_case("bearer") && off == 0
}

/// Whether a page asks that this server has not sent: a browser says where its pages come from, and lets them send some
/// requests anywhere.
pub(super) fn is_foreign(asked: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    // HTTP/2 has it beside the path.
    let beside = asked.authority().map(Authority::as_str);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(beside);
    let authority = origin.as_ref().and_then(Uri::authority);
    match (authority, host) {
        (Some(authority), Some(host)) => !authority.as_str().eq_ignore_ascii_case(host),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = all
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        all.collect()
    }

    #[test]
    fn a_key_is_known_whole_and_by_any_case_of_its_scheme() {
        let has = |value: &'static str| has(&headers(&[("authorization", value)]), "secret");
        assert!(["Bearer secret", "bearer secret", "BEARER secret"].map(has).iter().all(|it| *it));
        let wrong = [
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            "Bearer secretsecret",
            "Basic secret",
            "Bearer  secret",
            "Bearer Secret",
        ];
        assert!(!wrong.map(has).iter().any(|it| *it));
        assert!(!super::has(&HeaderMap::new(), "secret"));
        assert!(!super::has(&headers(&[("authorization", "Bearer x")]), ""));
    }

    #[test]
    fn each_server_guards_its_paths() {
        for (path, by_vllm) in [
            ("/v1/models", true),
            ("/tokenize", false),
            ("/servecast/faults", true),
            ("/generate", true),
        ] {
            assert_eq!(is_guarded(Dialect::Vllm, path), by_vllm, "{path}");
            assert!(is_guarded(Dialect::Sglang, path), "{path}");
        }
    }

    #[test]
    fn pages_of_others_are_told_apart() {
        let path = Uri::from_static("/servecast/faults");
        let from =
            |origin| is_foreign(&path, &headers(&[("host", "127.0.0.1:8000"), ("origin", origin)]));
        assert!(!from("http://127.0.0.1:8000"));
        assert!(from("http://127.0.0.1:3000") && from("https://example.com") && from("null"));
        let two = Uri::from_static("http://127.0.0.1:8000/servecast/faults");
        let from = |origin| is_foreign(&two, &headers(&[("origin", origin)]));
        assert!(!from("http://127.0.0.1:8000") && from("http://127.0.0.1:3000"), "HTTP/2");
        let none = headers(&[("host", "127.0.0.1:8000")]);
        assert!(!is_foreign(&path, &none), "clients that are no pages");
    }
}
