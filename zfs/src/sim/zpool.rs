//! [`Pools`], as calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use camino::Utf8PathBuf;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::time::{Instant, sleep_until};

use super::calls::Call;
use super::{SimZfs, pool, properties};
use crate::{
    Activity, Guid, Import, Layout, NewPool, Offline, Online, PoolEvent, PoolName, PoolStatus, PoolSummary,
    Pools, Result, ScrubCommand,
};

impl Pools for SimZfs {
    async fn list(&self) -> Result<Vec<PoolSummary>> {
        let host = self.host.clone();
        self.call(Call::ListPools, "", move |world| world.list(&host))
            .await
    }

    async fn status(&self, pool: &PoolName) -> Result<PoolStatus> {
        let (host, name) = self.names(pool);
        self.call(Call::Status, pool.as_str(), move |world| {
            world.status(&host, &name)
        })
        .await
    }

    async fn properties(&self, pool: &PoolName) -> Result<BTreeMap<String, String>> {
        let (host, name) = self.names(pool);
        self.call(Call::Properties, pool.as_str(), move |world| {
            world.pool_properties(&host, &name)
        })
        .await
    }

    async fn set(&self, pool: &PoolName, name: &str, value: &str) -> Result<()> {
        let (host, of) = self.names(pool);
        let (name, value) = (name.to_owned(), value.to_owned());
        self.call(Call::SetProperty, pool.as_str(), move |world| {
            world.set_property(&host, &of, &name, &value)
        })
        .await
    }

    async fn create(&self, new: &NewPool) -> Result<()> {
        let (host, own) = (self.host.clone(), new.clone());
        self.call(Call::Create, new.name.as_str(), move |world| {
            world.create(&host, &own)
        })
        .await
    }

    async fn import(&self, import: &Import) -> Result<()> {
        let (host, own) = (self.host.clone(), import.clone());
        let target = import.guid.to_string();
        self.call(Call::Import, &target, move |world| world.import(&host, &own))
            .await
    }

    async fn export(&self, pool: &PoolName) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Export, pool.as_str(), move |world| {
            world.leave(&host, &name, pool::EXPORTED)
        })
        .await
    }

    async fn destroy(&self, pool: &PoolName) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Destroy, pool.as_str(), move |world| {
            world.leave(&host, &name, pool::DESTROYED)
        })
        .await
    }

    async fn add(&self, pool: &PoolName, layout: &Layout) -> Result<()> {
        let (host, name) = self.names(pool);
        let layout = layout.clone();
        self.call(Call::Add, pool.as_str(), move |world| {
            world.add(&host, &name, &layout)
        })
        .await
    }

    async fn attach(&self, pool: &PoolName, to: Guid, device: &Utf8PathBuf) -> Result<()> {
        let (host, name) = self.names(pool);
        let device = device.clone();
        self.call(Call::Attach, pool.as_str(), move |world| {
            world.attach(&host, &name, to, &device)
        })
        .await
    }

    async fn detach(&self, pool: &PoolName, device: Guid) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Detach, pool.as_str(), move |world| {
            world.detach(&host, &name, device)
        })
        .await
    }

    async fn replace(&self, pool: &PoolName, old: Guid, new: &Utf8PathBuf) -> Result<()> {
        let (host, name) = self.names(pool);
        let new = new.clone();
        self.call(Call::Replace, pool.as_str(), move |world| {
            world.replace(&host, &name, old, &new)
        })
        .await
    }

    async fn online(&self, pool: &PoolName, device: Guid, how: Online) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Online, pool.as_str(), move |world| {
            world.online(&host, &name, device, how)
        })
        .await
    }

    async fn offline(&self, pool: &PoolName, device: Guid, how: Offline) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Offline, pool.as_str(), move |world| {
            world.offline(&host, &name, device, how)
        })
        .await
    }

    async fn remove(&self, pool: &PoolName, vdev: Guid) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Remove, pool.as_str(), move |world| {
            world.remove(&host, &name, vdev)
        })
        .await
    }

    async fn clear(&self, pool: &PoolName, device: Option<Guid>) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Clear, pool.as_str(), move |world| {
            world.clear(&host, &name, device)
        })
        .await
    }

    async fn reopen(&self, pool: &PoolName) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Reopen, pool.as_str(), move |world| {
            world.reopen(&host, &name)
        })
        .await
    }

    async fn clear_labels(&self, device: &Utf8PathBuf, of: Guid) -> Result<()> {
        let (host, path) = (self.host.clone(), device.clone());
        self.call(Call::ClearLabels, device.as_str(), move |world| {
            world.clear_labels(&host, &path, of)
        })
        .await
    }

    async fn scrub(&self, pool: &PoolName, what: ScrubCommand) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Scrub, pool.as_str(), move |world| {
            world.scrub(&host, &name, what)
        })
        .await
    }

    async fn trim(&self, pool: &PoolName) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Trim, pool.as_str(), move |world| {
            world.sweep(&host, &name, true)
        })
        .await
    }

    async fn initialize(&self, pool: &PoolName) -> Result<()> {
        let (host, name) = self.names(pool);
        self.call(Call::Initialize, pool.as_str(), move |world| {
            world.sweep(&host, &name, false)
        })
        .await
    }

    async fn wait(&self, pool: &PoolName, activity: Activity, within: Duration) -> Result<bool> {
        let end = Instant::now() + within;
        loop {
            let news = self.inner.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let (host, name) = self.names(pool);
            let asked = self.call(Call::Wait, pool.as_str(), move |world| {
                let busy = world.imported(&host, &name)?.pool.is_at(activity);
                let next = world.next_end(&host).map(|next| world.instant(next));
                Ok((busy, next))
            });
            let (busy, next) = asked.await?;
            if !busy || Instant::now() >= end {
                return Ok(!busy);
            }
            tokio::select! {
                () = &mut news => {}
                () = sleep_until(next.unwrap_or(end).min(end)) => {}
            }
        }
    }

    async fn is_upgradable(&self, pool: &PoolName) -> Result<bool> {
        let (host, name) = self.names(pool);
        self.call(Call::IsUpgradable, pool.as_str(), move |world| {
            Ok(properties::is_upgradable(world.imported(&host, &name)?))
        })
        .await
    }

    fn events(&self) -> BoxStream<'static, PoolEvent> {
        let events = Events {
            zfs: self.clone(),
            seen: self.inner.world().events(&self.host).len(),
            waiting: VecDeque::new(),
        };
        stream::unfold(events, |mut events| async move {
            let event = events.next().await;
            Some((event, events))
        })
        .boxed()
    }
}

/// One listener.
struct Events {
    zfs: SimZfs,
    /// How many events it has been given.
    seen: usize,
    /// What is to come, by when.
    waiting: VecDeque<(Instant, PoolEvent)>,
}

impl Events {
    async fn next(&mut self) -> PoolEvent {
        loop {
            let inner = self.zfs.inner.clone();
            let news = inner.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let next_end = self.look();
            let due = self.waiting.iter().map(|(due, _)| *due).min();
            if due.is_some_and(|due| due <= Instant::now()) {
                let first = self.waiting.iter().position(|(each, _)| Some(*each) == due);
                if let Some((_, event)) = first.and_then(|first| self.waiting.remove(first)) {
                    return event;
                }
            }
            match [due, next_end].into_iter().flatten().min() {
                Some(wake) => tokio::select! {
                    () = &mut news => {}
                    () = sleep_until(wake) => {}
                },
                None => news.await,
            }
        }
    }

    /// Takes what is new. When the next thing ends.
    fn look(&mut self) -> Option<Instant> {
        let mut world = self.zfs.inner.world();
        world.tick();
        if !self.zfs.is_alive(&world) {
            return None;
        }
        let host = &self.zfs.host;
        let new: Vec<PoolEvent> = world.events(host).iter().skip(self.seen).cloned().collect();
        self.seen += new.len();
        for event in new {
            let fate = world.dice.event();
            let due = Instant::now() + fate.delay;
            self.waiting
                .extend(std::iter::repeat_n((due, event), fate.copies));
        }
        world.next_end(host).map(|next| world.instant(next))
    }
}

impl SimZfs {
    /// The names of the host and the pool, to be kept.
    pub(super) fn names(&self, pool: &PoolName) -> (std::sync::Arc<str>, String) {
        (self.host.clone(), pool.as_str().to_owned())
    }
}
