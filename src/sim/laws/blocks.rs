//! The laws of KV blocks: who holds them, while requests are inside and at the end.

use super::Watch;
use crate::engine::Instance;
use crate::engine::scheduler::Load;
use crate::ids::InstanceId;

impl Watch {
    pub(super) fn check(&mut self, instance: InstanceId, load: Load) {
        if self.device(instance).handed_over == 0 {
            check(instance, load);
        }
    }
}

pub(super) fn check(instance: InstanceId, load: Load) {
    let Load { waiting, running, kv_blocks, kv_blocks_free, kv_blocks_lingering } = load;
    assert!(kv_blocks_free <= kv_blocks, "L3: instance {instance} has {kv_blocks_free} free");
    assert!(
        waiting + running > 0 || kv_blocks_free + kv_blocks_lingering >= kv_blocks,
        "L3: nobody is inside instance {instance}, but of {kv_blocks} blocks only {kv_blocks_free} \
         are free, and {kv_blocks_lingering} wait for a transfer or a step to end"
    );
}

/// L3 of an instance at the end of a run; walks its whole pool.
///
/// # Panics
/// When a block is neither held, cached nor free, or, unless it may hold some for others, one is
/// held and nobody is inside.
pub fn at_rest(index: usize, instance: &Instance, may_hold: bool) {
    assert!(instance.scheduler().is_balanced(), "L3: blocks of instance {index} add up");
    if !may_hold {
        let load = instance.scheduler().load();
        check(InstanceId::from_index(index), load);
        // A run may end before the last step where nobody is inside any more.
        let lingers = instance.is_idle() && load.kv_blocks_lingering > 0;
        assert!(!lingers, "L3: blocks of instance {index} wait in vain");
    }
}
