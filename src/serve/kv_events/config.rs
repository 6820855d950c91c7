//! The value of `--kv-events-config`.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

/// How KV-cache events are published, under the engines' names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvEvents {
    /// vLLM's switch; what has a publisher is on without it.
    pub enable_kv_cache_events: Option<bool>,
    /// `zmq`, or `null` for nobody.
    pub publisher: Option<String>,
    /// `tcp://HOST:PORT` of the first replica, `*` for the address that the server listens at. Those of the
    /// others have the ports after it.
    pub endpoint: String,
    /// The same of the sockets that send batches again.
    pub replay_endpoint: Option<String>,
    /// Batches that can be sent again.
    pub buffer_steps: usize,
    /// Messages that wait for a listener that is slow; the engines' default and the only value.
    pub hwm: usize,
    /// Batches that wait to be published.
    pub max_queue_size: usize,
    /// What listeners subscribe to.
    pub topic: String,
}

impl Default for KvEvents {
    fn default() -> Self {
        Self {
            enable_kv_cache_events: None,
            publisher: None,
            endpoint: "tcp://*:5557".to_owned(),
            replay_endpoint: None,
            buffer_steps: 10_000,
            hwm: 100_000,
            max_queue_size: 100_000,
            topic: String::new(),
        }
    }
}

/// Why KV-cache events cannot be published as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvEventsError {
    /// The value is no object of these fields.
    #[error("not the JSON object that engines take: {0}")]
    Json(#[from] serde_json::Error),
    /// A field has a value that is not modelled.
    #[error("`{field}`: must be {rule}, got `{value}`")]
    Field {
        /// Its name.
        field: &'static str,
        /// What it may be.
        rule: &'static str,
        /// What it is.
        value: String,
    },
    /// A replica's cache cannot tell of itself.
    #[error("{0}")]
    NotTold(&'static str),
    /// The address is taken, or not this machine's.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, String),
}

impl KvEvents {
    /// Reads what engines take for `--kv-events-config`; nothing if it asks for no events.
    ///
    /// # Errors
    /// When it is not what engines take, or asks for something that is not modelled.
    pub fn parse(text: &str) -> Result<Option<Self>, KvEventsError> {
        let config: Self = serde_json::from_str(text)?;
        let publisher = config.publisher.as_deref();
        let wrong = |field, rule, value: &str| {
            Err(KvEventsError::Field { field, rule, value: value.to_owned() })
        };
        match (publisher, config.enable_kv_cache_events) {
            (_, Some(false)) | (Some("null"), _) | (None, None) => return Ok(None),
            (Some("zmq"), _) | (None, Some(true)) => {}
            (Some(other), _) => return wrong("publisher", "`zmq` or `null`", other),
        }
        if config.hwm != Self::default().hwm {
            return wrong("hwm", "100000", &config.hwm.to_string());
        }
        let counts = [
            ("buffer_steps", config.buffer_steps, 1_000_000),
            ("max_queue_size", config.max_queue_size, 10_000_000),
        ];
        for (field, count, most) in counts {
            if count == 0 || count > most {
                return wrong(field, "at least 1 and not millions", &count.to_string());
            }
        }
        let here = IpAddr::from([127, 0, 0, 1]);
        address("endpoint", &config.endpoint, here)?;
        if let Some(endpoint) = &config.replay_endpoint {
            address("replay_endpoint", endpoint, here)?;
        }
        Ok(Some(config))
    }

    /// Where the first replica publishes, and where it sends again, for a server that listens at `host`.
    ///
    /// # Errors
    /// When one is no address, which [`parse`](Self::parse) has seen to.
    pub(in crate::serve) fn addresses(
        &self,
        host: IpAddr,
    ) -> Result<(SocketAddr, Option<SocketAddr>), KvEventsError> {
        let again = self.replay_endpoint.as_deref();
        let again = again.map(|endpoint| address("replay_endpoint", endpoint, host));
        Ok((address("endpoint", &self.endpoint, host)?, again.transpose()?))
    }
}

fn address(field: &'static str, endpoint: &str, host: IpAddr) -> Result<SocketAddr, KvEventsError> {
    let wrong = || KvEventsError::Field {
        field,
        rule: "`tcp://ADDRESS:PORT`, or `tcp://*:PORT` for the address of `--host`",
        value: endpoint.to_owned(),
    };
    let rest = endpoint.strip_prefix("tcp://").ok_or_else(wrong)?;
    match rest.strip_prefix("*:") {
        Some(port) => Ok(SocketAddr::new(host, port.parse().map_err(|_| wrong())?)),
        None => rest.parse().map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_engines_read() {
        let none = ["{}", r#"{"enable_kv_cache_events": false}"#, r#"{"publisher": "null"}"#];
        for text in none {
            assert_eq!(KvEvents::parse(text).expect("it is understood"), None, "{text}");
        }
        let text = r#"{"enable_kv_cache_events": true, "endpoint": "tcp://*:6000", "topic": "kv"}"#;
        let config = KvEvents::parse(text).expect("it is understood").expect("it asks for some");
        let host = IpAddr::from([10, 0, 0, 1]);
        let (at, again) = config.addresses(host).expect("they are addresses");
        assert_eq!((at, again), (SocketAddr::new(host, 6000), None));
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_name() {
        let cases = [
            (r#"{"publisher": "kafka"}"#, "`publisher`: must be `zmq` or `null`, got `kafka`"),
            (r#"{"publisher": "zmq", "hwm": 5}"#, "`hwm`: must be 100000, got `5`"),
            (r#"{"publisher": "zmq", "endpoint": "ipc:///tmp/x"}"#, "`endpoint`: must be `tcp://"),
            (r#"{"publisher": "zmq", "endpoint": "tcp://host:5557"}"#, "`endpoint`: must be"),
            (r#"{"publisher": "zmq", "replay_endpoint": "tcp://*:x"}"#, "`replay_endpoint`"),
            (r#"{"publisher": "zmq", "buffer_steps": 0}"#, "`buffer_steps`"),
            (r#"{"publisher": "zmq", "colour": 1}"#, "unknown field `colour`"),
            ("[", "not the JSON object"),
        ];
        for (text, problem) in cases {
            let error = KvEvents::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
