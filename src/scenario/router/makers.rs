//! Routers under the names of their makers: a table with one key, the name, in place of a `type`.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{RouterConfig, SglangRouterConfig, VllmRouterConfig};

/// A router that is modelled decision by decision, with the settings that it has at its maker's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MakersRouter {
    /// `SGLang`'s router.
    Sglang(Box<SglangRouterConfig>),
    /// vLLM's router.
    VllmRouter(Box<VllmRouterConfig>),
}

impl RouterConfig {
    /// Whether it limits how fast requests come.
    pub fn limits_requests(&self) -> bool {
        let Self::Makers(MakersRouter::Sglang(config)) = self else { return false };
        config.max_concurrent_requests > 0
    }
}

/// The names above.
const NAMES: [&str; 2] = ["sglang", "vllm_router"];

impl Serialize for RouterConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Makers(router) => router.serialize(serializer),
            typed => Self::serialize(typed, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RouterConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OneOrTheOther)
    }
}

/// A table with a `type`, or with the name of a maker's router.
struct OneOrTheOther;

impl<'de> Visitor<'de> for OneOrTheOther {
    type Value = RouterConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with `type`, or with the name of a maker's router")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RouterConfig, A::Error> {
        let first: Option<String> = map.next_key()?;
        let is_maker = first.as_deref().is_some_and(|name| NAMES.contains(&name));
        if !is_maker {
            return RouterConfig::deserialize(MapAccessDeserializer::new(Again { first, map }));
        }
        let again = Again { first, map: &mut map };
        let router = MakersRouter::deserialize(MapAccessDeserializer::new(again))?;
        match map.next_key::<String>()? {
            None => Ok(RouterConfig::Makers(router)),
            Some(other) => Err(A::Error::custom(format_args!(
                "a maker's router is one table under its name; `{other}` stands beside it"
            ))),
        }
    }
}

/// A table of which the first key was read.
struct Again<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Again<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        use serde::de::IntoDeserializer;
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RouterConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_router_is_written_by_type_or_by_maker() {
        let typed = read(r#"{"type":"round_robin"}"#);
        assert_eq!(typed, Ok(RouterConfig::RoundRobin {}));
        let sglang = read(r#"{"sglang":{"policy":"manual","max_tree_size":9}}"#).expect("a router");
        let RouterConfig::Makers(MakersRouter::Sglang(config)) = &sglang else {
            panic!("{sglang:?}");
        };
        assert_eq!((config.max_tree_size, config.balance_abs_threshold), (9, 64));
        for router in [RouterConfig::Random {}, sglang] {
            let text = serde_json::to_string(&router).expect("it is data");
            assert_eq!(read(&text), Ok(router));
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn the_schema_knows_both() {
        let schema = schemars::schema_for!(RouterConfig).to_value().to_string();
        for name in ["\"round_robin\"", "\"sglang\":", "\"vllm_router\":", "\"max_tree_size\":"] {
            assert!(schema.contains(name), "{name}: {schema}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for (text, rule) in [
            (r#"{"sglang":{},"type":"random"}"#, "`type` stands beside it"),
            (r#"{"type":"random","sglang":{}}"#, "unknown field `sglang`"),
            (r#"{"type":"sglang"}"#, "unknown variant `sglang`"),
            (r#"{"sglang":{"policies":1}}"#, "unknown field `policies`"),
            ("{}", "missing field `type`"),
            ("[]", "a table with `type`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
    }
}
