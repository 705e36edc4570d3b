//! The disks of the node: found, published, matched to the VolumeAttachments that brought them.
//!
//! ```text
//!   kernel, udev ──► service ──► view ──┬─► announce   (Node)         every disk has one BlockDevice
//!                    looks at    what   ├─► correlate  (Node)         which attachment brought which disk
//!                    the disks   it is  └─► publish    (BlockDevice)  what is true of the disk, and wiping on request
//! ```
//!
//! Each of the three is a controller with its own page of guarantees. None writes to a disk but [`wipe`].

pub mod announce;
pub mod correlate;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod matches;
pub mod notice;
pub mod publish;
pub mod service;
pub mod view;
pub mod whose;
pub mod wipe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8PathBuf;
use cstor_api::cstor::CStorPoolInstance;
use cstor_api::dao::Storage;
use cstor_api::names::{annotation, label};
use cstor_api::openebs::BlockDevice;
use cstor_blockdev::attachment::Settling;
use cstor_blockdev::contents::Prober;
use cstor_blockdev::filter::Filters;
use cstor_blockdev::scan::{Inventory, Look, Places, ReadContents, Scanner};
use cstor_blockdev::sysfs;
use cstor_reconcile::process::App;
use cstor_reconcile::{Engine, Related, Trigger, Watch};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::PatchParams;
use kube::{Api, Client};

use announce::{Announce, Doubles};
use correlate::Correlate;
use matches::Matches;
use publish::Publish;
use service::{Disks, Watcher};
use view::{Catalogue, View};
use wipe::Wiper;

/// The name under which the agent's fields of a BlockDevice are kept apart from those of others.
pub const FIELD_MANAGER: &str = "cstor-agent";

/// A patch of the agent's.
pub(crate) fn field_manager() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// How long a disk has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long the API server has to answer a step. One that hangs would keep its object from being acted on.
const API_WITHIN: Duration = Duration::from_secs(30);

/// How many disks are published at a time.
const AT_ONCE: usize = 8;

/// What the disk controllers are told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of the node.
    pub node: String,
    /// The name of its host, as the Node's label `kubernetes.io/hostname` has it.
    pub host: String,
    /// The namespace of the objects.
    pub namespace: String,
    /// Where devices are described.
    pub places: Places,
    /// Where the kubelet keeps its things.
    pub kubelet: Utf8PathBuf,
    /// Which devices are left out, and how they are tagged.
    pub filters: Filters,
    /// How often everything is read anew.
    pub every: Duration,
}

/// Whether the object says that it is not ours to touch.
pub(crate) fn is_left_alone(object: &BlockDevice) -> bool {
    let says_no = |map: Option<&BTreeMap<String, String>>, key: &str| {
        map.and_then(|map| map.get(key))
            .is_some_and(|value| value == "false")
    };
    says_no(object.metadata.labels.as_ref(), label::BLOCK_DEVICE_MANAGED)
        || says_no(
            object.metadata.annotations.as_ref(),
            annotation::BLOCK_DEVICE_RECONCILE,
        )
}

/// Waits for an answer of the API server, but not for ever.
pub(crate) async fn answered<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    tokio::time::timeout(API_WITHIN, request)
        .await
        .unwrap_or_else(|_elapsed| {
            let message = format!("no answer within {} s", API_WITHIN.as_secs());
            let error = std::io::Error::new(std::io::ErrorKind::TimedOut, message);
            Err(kube::Error::Service(error.into()))
        })
}

/// A reader of what is on real disks.
#[must_use]
pub fn real_contents() -> ReadContents {
    let prober = Prober::new(ANSWER_WITHIN);
    Arc::new(move |device| {
        let prober = prober.clone();
        Box::pin(async move { prober.probe(&device).await })
    })
}

fn scanner(settings: &Settings, read: ReadContents) -> (Scanner, Arc<Catalogue>) {
    let catalogue = Arc::new(Catalogue {
        node: settings.node.clone(),
        host: settings.host.clone(),
        filters: settings.filters.clone(),
    });
    let wanted = Arc::clone(&catalogue);
    let scanner = Scanner::new(
        settings.places.clone(),
        read,
        Arc::new(move |device, all| wanted.wants(device, all)),
    );
    (scanner, catalogue)
}

/// The one who looks at the disks, and the way to what it sees.
#[must_use]
pub fn watcher(settings: &Settings, read: ReadContents) -> (Watcher, Disks) {
    let (scanner, catalogue) = scanner(settings, read);
    service::watcher(scanner, catalogue, settings.every)
}

/// Looks at the disks once: until each has described itself, or has had its time to.
pub async fn look_once(settings: &Settings) -> Result<View, sysfs::Error> {
    let (scanner, catalogue) = scanner(settings, real_contents());
    let mut inventory = scanner.look(&Inventory::default(), &Look::default()).await?;
    // One that had its time is told as undescribed, and waited for no longer.
    let is_awaited = |inventory: &Inventory| {
        let mut awaited = inventory.awaited.keys();
        awaited.any(|name| !inventory.undescribed.contains_key(name))
    };
    while is_awaited(&inventory) {
        inventory = scanner.look(&inventory, &Look::default()).await?;
    }
    Ok(catalogue.view(&inventory))
}

/// The three controllers, ready to be run.
#[must_use]
pub struct Controllers {
    /// Every disk has one BlockDevice.
    pub announce: Engine<Announce>,
    /// Which attachment brought which disk.
    pub correlate: Engine<Correlate>,
    /// What is true of each disk.
    pub publish: Engine<Publish>,
}

/// Makes the controllers.
///
/// What is found out about attachments is noted in `matches`.
pub fn controllers(client: &Client, settings: &Settings, disks: &Disks, matches: &Matches) -> Controllers {
    let Settings { node, namespace, .. } = settings;
    let here = || {
        Watch::<BlockDevice>::namespaced(client.clone(), namespace)
            .fields(&format!("spec.nodeAttributes.nodeName={node}"))
    };
    let this_node = || Watch::<Node>::one(client.clone(), node);
    let everybody = || disks.changes().map(|()| Trigger::All);
    let doubles = Doubles::default();

    let objects = Related::new(here());
    let marked = Related::new(
        Watch::<BlockDevice>::namespaced(client.clone(), namespace).labels(&label::also_on(node)),
    );
    let announce = Announce {
        client: client.clone(),
        namespace: namespace.clone(),
        node: node.clone(),
        disks: disks.clone(),
        here: objects.clone(),
        marked: marked.clone(),
        doubles: doubles.clone(),
    };
    let announce = Engine::new(announce, this_node())
        .related(objects, |_| vec![Trigger::All])
        .related(marked, |_| vec![Trigger::All])
        .trigger("disks", everybody());

    let objects = Related::new(here());
    let attachments = Related::new(Watch::<VolumeAttachment>::all(client.clone()));
    let correlate = Correlate {
        client: client.clone(),
        node: node.clone(),
        kubelet: settings.kubelet.clone(),
        disks: disks.clone(),
        attachments: attachments.clone(),
        objects: objects.clone(),
        matches: matches.clone(),
        settling: Arc::new(Mutex::new(Settling::default())),
        volumes: Arc::new(Mutex::new(BTreeMap::new())),
    };
    let own = node.clone();
    let correlate = Engine::new(correlate, this_node())
        .related(attachments, move |attachment: &VolumeAttachment| {
            if attachment.spec.node_name == own {
                vec![Trigger::All]
            } else {
                vec![]
            }
        })
        .related(objects, |_| vec![Trigger::All])
        .trigger("disks", everybody());

    let pools = Related::new(
        Watch::<CStorPoolInstance>::namespaced(client.clone(), namespace)
            .fields(&format!("spec.hostName={}", settings.host)),
    );
    let storages = Related::new(
        Watch::<Storage>::namespaced(client.clone(), namespace).fields(&format!("spec.nodeName={node}")),
    );
    let objects = Related::new(here());
    let publish = Publish {
        began: Arc::default(),
        client: client.clone(),
        node: node.clone(),
        disks: disks.clone(),
        objects: objects.clone(),
        pools: pools.clone(),
        storages: storages.clone(),
        matches: matches.clone(),
        doubles: doubles.clone(),
        wiper: Wiper::new(settings.places.clone(), node),
    };
    let publish = Engine::new(publish, here())
        // Looked at for a wipe alone, which wakes by itself.
        .related(objects, |_| vec![])
        .related(pools, |_| vec![Trigger::All])
        .related(storages, |_| vec![Trigger::All])
        .trigger("disks", everybody())
        .trigger("attachments", matches.changes().map(|()| Trigger::All))
        .trigger("doubles", doubles.changes().map(|()| Trigger::All))
        .concurrency(AT_ONCE);
    Controllers {
        announce,
        correlate,
        publish,
    }
}

/// Runs the disk controllers in the agent. What they find out is for others to use.
pub fn install(app: &mut App, settings: &Settings) -> Seen {
    let (watcher, disks) = watcher(settings, real_contents());
    let matches = Matches::default();
    let controllers = controllers(&app.client(), settings, &disks, &matches);
    app.background("disks", async {
        watcher.run().await;
        Ok::<_, std::convert::Infallible>(())
    });
    app.controller(controllers.announce);
    app.controller(controllers.correlate);
    app.controller(controllers.publish);
    Seen { disks, matches }
}

/// What the disk controllers know.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The node's disks.
    pub disks: Disks,
    /// Which of them VolumeAttachments brought.
    pub matches: Matches,
}

impl Settings {
    /// Takes the name of the host from the Node.
    ///
    /// # Errors
    /// The Node could not be read, or is not there.
    pub async fn with_host(mut self, client: &Client) -> Result<Self, kube::Error> {
        let node = Api::<Node>::all(client.clone()).get(&self.node).await?;
        let labels = node.metadata.labels.as_ref();
        if let Some(host) = labels.and_then(|labels| labels.get(label::HOSTNAME)) {
            self.host.clone_from(host);
        }
        Ok(self)
    }
}
