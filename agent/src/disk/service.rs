//! The one who looks at the disks: by event, and now and then.

use std::sync::Arc;
use std::time::Duration;

use cstor_blockdev::scan::{Inventory, Look, Scanner};
use cstor_blockdev::{contents, udev, usage};
use futures::Stream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::view::{Catalogue, View};

/// How long it must be quiet after a change before we look. One plugged disk makes a dozen events.
const QUIET: Duration = Duration::from_millis(300);

/// How long we wait for quiet at most. A device that flaps must not hide the others.
const QUIET_AT_MOST: Duration = Duration::from_secs(3);

/// How often everything is read anew, whatever the events have told.
pub const EVERYTHING_EVERY: Duration = Duration::from_secs(600);

/// How often we look while a device is settling or does not answer.
const UNSETTLED_EVERY: Duration = Duration::from_secs(5);

/// How long we wait before another try when the list of devices could not be read.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Somebody wants a device read anew, and to be told when it was.
struct Request {
    name: String,
    done: oneshot::Sender<()>,
}

/// What the agent knows of its node's disks. Clones share it.
#[derive(Debug, Clone)]
pub struct Disks {
    view: watch::Receiver<Option<Arc<View>>>,
    requests: mpsc::Sender<Request>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Disks {
    /// What was seen last; `None` before the first look is done.
    #[must_use]
    pub fn view(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// An item for each time something is different from before.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        futures::stream::unfold(self.view.clone(), |mut view| async move {
            match view.changed().await {
                Ok(()) => Some(((), view)),
                // The one who looks is gone, and with it the process: whoever waits here has nothing to wait for.
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// Has a device read anew, and waits until that is done.
    pub async fn look_again(&self, name: &str) {
        let (done, wait) = oneshot::channel();
        let request = Request {
            name: name.to_owned(),
            done,
        };
        if self.requests.send(request).await.is_ok() {
            let _ = wait.await;
        }
    }
}

/// Looks at the disks for as long as it is run.
#[derive(Debug)]
pub struct Watcher {
    scanner: Scanner,
    catalogue: Arc<Catalogue>,
    view: watch::Sender<Option<Arc<View>>>,
    requests: mpsc::Receiver<Request>,
    every: Duration,
}

/// A watcher that has not looked yet, and the way to what it will see.
#[must_use]
pub fn watcher(scanner: Scanner, catalogue: Arc<Catalogue>, every: Duration) -> (Watcher, Disks) {
    let (sender, view) = watch::channel(None);
    let (requests, receiver) = mpsc::channel(64);
    let watcher = Watcher {
        scanner,
        catalogue,
        view: sender,
        requests: receiver,
        every,
    };
    (watcher, Disks { view, requests })
}

impl Watcher {
    /// Looks, and tells what is different, for ever.
    pub async fn run(mut self) {
        let mut changes = udev::changes()
            .inspect_err(|error| {
                tracing::warn!(%error, "no events of devices: they are found by looking now and then. Run the agent in the host's network");
            })
            .ok();
        let mut mounts = usage::changes(&self.scanner.places().proc)
            .inspect_err(|error| tracing::warn!(%error, "mounts are seen by looking now and then"))
            .ok();
        let mut inventory = Inventory::default();
        let mut look = Look {
            everything: true,
            ..Look::default()
        };
        let mut everything_at = Instant::now();
        let mut waiting: Vec<oneshot::Sender<()>> = Vec::new();
        loop {
            let mut soon = None;
            match self.scanner.look(&inventory, &look).await {
                Ok(fresh) => {
                    if look.everything {
                        everything_at = Instant::now() + self.every;
                    }
                    inventory = fresh;
                    look = Look::default();
                    self.show(&inventory);
                    if is_unsettled(&inventory) {
                        soon = Some(Instant::now() + UNSETTLED_EVERY);
                    }
                    for done in waiting.drain(..) {
                        let _ = done.send(());
                    }
                }
                Err(error) => {
                    // What was seen before stays: that the list cannot be read says nothing about the devices.
                    let error = &error as &(dyn std::error::Error + 'static);
                    tracing::error!(error, "cannot look at the devices of this node");
                    let again = Instant::now() + AFTER_FAILURE;
                    // Everything is still due, but not at once: what fails now would fail again and again.
                    everything_at = everything_at.max(again);
                    soon = Some(again);
                }
            }
            let next = soon.map_or(everything_at, |soon| soon.min(everything_at));
            tokio::select! {
                change = next_change(&mut changes) => {
                    note(&mut look, change);
                    settle(&mut changes, &mut look).await;
                }
                request = self.requests.recv() => match request {
                    Some(Request { name, done }) => {
                        look.changed.insert(name);
                        waiting.push(done);
                    }
                    None => return,
                },
                // What is mounted makes no event of a device.
                () = next_mount(&mut mounts) => {}
                () = sleep_until(next) => look.everything |= Instant::now() >= everything_at,
            }
            while let Ok(Request { name, done }) = self.requests.try_recv() {
                look.changed.insert(name);
                waiting.push(done);
            }
        }
    }

    fn show(&self, inventory: &Inventory) {
        let view = self.catalogue.view(inventory);
        self.view.send_if_modified(|shown| {
            let different = shown.as_deref() != Some(&view);
            if different {
                *shown = Some(Arc::new(view));
            }
            different
        });
    }
}

/// Waits until something is mounted or unmounted on the node.
async fn next_mount(mounts: &mut Option<mpsc::Receiver<()>>) {
    if let Some(receiver) = mounts {
        if receiver.recv().await.is_some() {
            return;
        }
        *mounts = None;
    }
    std::future::pending().await
}

fn is_unsettled(inventory: &Inventory) -> bool {
    let unsettled = |found: &cstor_blockdev::scan::Found| {
        found.settling || found.pending || matches!(found.probe, Some(contents::Probe::NotResponding))
    };
    let missing = !inventory.undescribed.is_empty() || !inventory.awaited.is_empty();
    missing || inventory.found.values().any(unsettled)
}

async fn next_change(changes: &mut Option<mpsc::Receiver<udev::Change>>) -> udev::Change {
    if let Some(receiver) = changes {
        if let Some(change) = receiver.recv().await {
            return change;
        }
        *changes = None;
    }
    std::future::pending().await
}

/// Notes what is to be read anew.
fn note(look: &mut Look, change: udev::Change) {
    if change.everything {
        // Changes were lost.
        look.everything = true;
    } else {
        look.changed.insert(change.name);
    }
}

/// Collects changes until it is quiet and udevd has nothing to do.
async fn settle(changes: &mut Option<mpsc::Receiver<udev::Change>>, look: &mut Look) {
    let at_most = Instant::now() + QUIET_AT_MOST;
    loop {
        let quiet = (Instant::now() + QUIET).min(at_most);
        tokio::select! {
            change = next_change(changes) => note(look, change),
            () = sleep_until(quiet) => {
                if !udev::is_busy() || Instant::now() >= at_most {
                    return;
                }
            }
        }
        if Instant::now() >= at_most {
            return;
        }
    }
}
