//! Rules of Dynamo's router where it has some prompts computed by the replicas that decode them.

use super::super::Rules;
use super::super::groups::{Asked, asked};
use crate::scenario::{ClusterConfig, DynamoConfig, HandoverProtocol, ReplicaRole};

const PATH: &str = "cluster.router.dynamo.conditional_disagg";

/// What it needs of the cluster.
pub(super) fn rules(config: &DynamoConfig, cluster: &ClusterConfig, rules: &mut Rules) {
    if config.policy.is_some() {
        let message = "classes of requests beside conditional_disagg are not modelled";
        rules.broken("cluster.router.dynamo.policy", message);
    }
    let Some(parts) = &cluster.disaggregation else {
        let message = "needs cluster.disaggregation: it decides which prompts are not handed over";
        return rules.broken(PATH, message);
    };
    if parts.local_prefill.is_some() {
        let message = "decides the same of each request in another way; leave it or \
                       cluster.router.dynamo.conditional_disagg away";
        rules.broken("cluster.disaggregation.local_prefill", message);
    }
    let asked = asked(cluster);
    let decodes = |group: &&Asked| group.role == ReplicaRole::Decode;
    let protocol = asked.iter().find(decodes).map(|it| parts.protocol_of(&it.cluster.engine));
    if let Some(protocol) = protocol.filter(|protocol| *protocol != HandoverProtocol::Pull) {
        let message = format!(
            "needs the protocol `pull`: with `{}` decode replicas compute no prompts",
            protocol.name()
        );
        rules.broken(PATH, &message);
    } else if asked.iter().filter(decodes).any(|it| !it.cluster.engine.keeps_prefixes()) {
        let message = "looks at the prefix caches of replicas that decode, and they keep none";
        rules.broken(PATH, message);
    }
    let models = || asked.iter().map(|group| &group.cluster.model);
    if models().any(|model| models().next() != Some(model)) {
        rules.broken(PATH, "is not modelled where there are several models");
    }
}
