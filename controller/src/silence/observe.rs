//! What is looked at: the device, the Lease of its node's agent, and whether the Node exists.

use cstor_api::names::lease::AGENT_PREFIX;
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{Context, Key};
use jiff::Timestamp;

use super::Silence;
use super::agents::Heard;
use crate::block_device::node_name;

/// What is known when something is decided about a device.
#[derive(Clone, Debug)]
pub struct Observed {
    pub(super) device: BlockDevice,
    pub(super) node: Option<Node>,
    pub(super) now: Timestamp,
}

/// The node of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// Whether there is such a Node.
    pub(super) exists: bool,
    pub(super) agent: Heard,
}

pub(super) async fn observe(
    silence: &Silence,
    ctx: &Context,
    device: &BlockDevice,
) -> Result<Observed, RelatedError> {
    let node = match node_name(device) {
        None => None,
        Some(name) => {
            let lease = format!("{AGENT_PREFIX}{name}");
            let key = Key::namespaced(silence.namespace.clone(), lease.clone());
            let found = silence.leases.get(ctx, &key).await?;
            let exists = silence.nodes.get(ctx, &Key::cluster(name)).await?.is_some();
            let agent = silence.agents.hear(&lease, found.as_deref());
            if !exists && found.is_none() {
                silence.agents.forget(&lease);
            }
            Some(Node {
                name: name.to_owned(),
                exists,
                agent,
            })
        }
    };
    Ok(Observed {
        device: device.clone(),
        node,
        now: ctx.now(),
    })
}
