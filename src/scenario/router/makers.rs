//! Routers under the names of their makers: a table with one key, the name, in place of a `type`.

use std::fmt;

use serde::de::value::{Error as ValueError, MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    DynamoConfig, RouterConfig, SglangRouterConfig, SglangRouterPolicy, VllmRouterConfig,
    VllmRouterPolicy,
};

/// A router that is modelled decision by decision, with the settings that it has at its maker's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MakersRouter {
    /// `SGLang`'s router.
    Sglang(Box<SglangRouterConfig>),
    /// vLLM's router.
    VllmRouter(Box<VllmRouterConfig>),
}

/// All such routers, as they are written.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum Named {
    /// `SGLang`'s router.
    Sglang(Box<SglangRouterConfig>),
    /// vLLM's router.
    VllmRouter(Box<VllmRouterConfig>),
    /// The KV router of NVIDIA Dynamo.
    Dynamo(Box<DynamoConfig>),
}

/// The names above.
const NAMES: [&str; 3] = ["sglang", "vllm_router", "dynamo"];

impl Named {
    /// A router, if it has the name of a maker's.
    fn of(router: &RouterConfig) -> Option<Self> {
        match router {
            RouterConfig::Makers(MakersRouter::Sglang(config)) => {
                Some(Self::Sglang(config.clone()))
            }
            RouterConfig::Makers(MakersRouter::VllmRouter(config)) => {
                Some(Self::VllmRouter(config.clone()))
            }
            RouterConfig::Dynamo(config) => Some(Self::Dynamo(config.clone())),
            _ => None,
        }
    }
}

impl From<Named> for RouterConfig {
    fn from(router: Named) -> Self {
        match router {
            Named::Sglang(config) => Self::Makers(MakersRouter::Sglang(config)),
            Named::VllmRouter(config) => Self::Makers(MakersRouter::VllmRouter(config)),
            Named::Dynamo(config) => Self::Dynamo(config),
        }
    }
}

impl RouterConfig {
    /// Whether it limits how fast requests come.
    pub fn limits_requests(&self) -> bool {
        match self {
            Self::Makers(MakersRouter::Sglang(config)) => config.max_concurrent_requests > 0,
            Self::Makers(MakersRouter::VllmRouter(config)) => config.limits_requests(),
            _ => false,
        }
    }
}

impl Serialize for RouterConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Named::of(self) {
            Some(router) => router.serialize(serializer),
            None => Self::serialize(self, serializer),
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
        f.write_str(
            "a table with `type`, or one that has a maker's router in the table `sglang`, `vllm_router` or `dynamo`",
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RouterConfig, A::Error> {
        let first: Option<String> = map.next_key()?;
        let is_maker = first.as_deref().is_some_and(|name| NAMES.contains(&name));
        if !is_maker {
            let router =
                RouterConfig::deserialize(MapAccessDeserializer::new(Again { first, map }));
            return router.map_err(by_name);
        }
        let again = Again { first, map: &mut map };
        let router = Named::deserialize(MapAccessDeserializer::new(again))?;
        match map.next_key::<String>()? {
            None => Ok(router.into()),
            Some(other) => Err(A::Error::custom(format_args!(
                "a maker's router is one table under its name; `{other}` stands beside it"
            ))),
        }
    }
}

/// Says how a maker's router is written, where it or its policy was taken for a `type`.
fn by_name<E: Error>(error: E) -> E {
    let text = error.to_string();
    let taken = text.split_once("unknown variant `").and_then(|(_, rest)| rest.split_once('`'));
    let Some((taken, _)) = taken else { return error };
    if NAMES.contains(&taken) {
        return E::custom(format_args!(
            "`{taken}` is a maker's router and no `type`: write `router = {{ {taken} = {{ … }} }}`"
        ));
    }
    if ["kv", "kv_aware"].contains(&taken) {
        return E::custom(format_args!(
            "`{taken}` is no `type`, and vLLM's policy of that name is not modelled: NVIDIA Dynamo's KV router is \
             `router = {{ dynamo = {{}} }}`"
        ));
    }
    let word = || StrDeserializer::<ValueError>::new(taken);
    let maker = if SglangRouterPolicy::deserialize(word()).is_ok() {
        "sglang"
    } else if VllmRouterPolicy::deserialize(word()).is_ok() {
        "vllm_router"
    } else {
        return error;
    };
    E::custom(format_args!(
        "`{taken}` is a policy of a maker's router and no `type`: write `router = {{ {maker} = {{ policy = \"{taken}\" }} }}`"
    ))
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
        let dynamo = read(r#"{"dynamo":{"router_temperature":0.5}}"#).expect("a router");
        let RouterConfig::Dynamo(config) = &dynamo else { panic!("{dynamo:?}") };
        assert_eq!(config.router_temperature.to_bits(), 0.5_f64.to_bits());
        for router in [RouterConfig::Random {}, sglang, dynamo] {
            let text = serde_json::to_string(&router).expect("it is data");
            assert_eq!(read(&text), Ok(router));
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn the_schema_knows_both() {
        let schema = schemars::schema_for!(RouterConfig).to_value().to_string();
        for name in
            ["round_robin\"", "sglang\":", "vllm_router\":", "dynamo\":", "max_tree_size\":"]
        {
            assert!(schema.contains(&format!("\"{name}")), "{name}: {schema}");
        }
        assert!(!schema.contains("\"const\":\"dynamo\""), "no type: {schema}");
    }

    #[test]
    fn what_is_neither_is_refused() {
        for (text, rule) in [
            (r#"{"sglang":{},"type":"random"}"#, "`type` stands beside it"),
            (r#"{"type":"random","sglang":{}}"#, "unknown field `sglang`"),
            (r#"{"type":"sglang"}"#, "write `router = { sglang = { … } }`"),
            (
                r#"{"type":"dynamo","router_temperature":0.5}"#,
                "write `router = { dynamo = { … } }`",
            ),
            (r#"{"type":"fastest"}"#, "unknown variant `fastest`"),
            (r#"{"sglang":{"policies":1}}"#, "unknown field `policies`"),
            ("{}", "missing field `type`"),
            ("[]", "a table with `type`"),
            (r#"{"type":"kv_aware"}"#, "NVIDIA Dynamo's KV router is `router = { dynamo = {} }`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
    }
}
