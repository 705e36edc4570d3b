//! [`Pools`] by `zpool`.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use futures::stream::BoxStream;

use super::command::pool as command;
use super::grown::disk_of;
use super::queue::Intent;
use super::{Zfs, events, features, parse};
use crate::{
    Activity, Error, Guid, Import, Layout, NewPool, Offline, Online, PoolEvent, PoolName, PoolStatus,
    PoolSummary, Pools, Result, ScrubCommand,
};

impl Pools for Zfs {
    async fn list(&self) -> Result<Vec<PoolSummary>> {
        self.look(command::list(), parse::pools).await
    }

    async fn status(&self, pool: &PoolName) -> Result<PoolStatus> {
        self.look(command::status(pool), |text| parse::status(text, pool))
            .await
    }

    async fn properties(&self, pool: &PoolName) -> Result<BTreeMap<String, String>> {
        self.look(command::properties(pool), |text| parse::properties(text, pool))
            .await
    }

    async fn set(&self, pool: &PoolName, name: &str, value: &str) -> Result<()> {
        self.change(command::set(pool, name, value)?).await
    }

    async fn create(&self, new: &NewPool) -> Result<()> {
        self.change(command::create(new)?).await
    }

    async fn import(&self, import: &Import) -> Result<()> {
        self.change(command::import(import)?).await
    }

    async fn export(&self, pool: &PoolName) -> Result<()> {
        self.change(command::export(pool)).await
    }

    async fn destroy(&self, pool: &PoolName) -> Result<()> {
        self.change(command::destroy(pool)).await
    }

    async fn add(&self, pool: &PoolName, layout: &Layout) -> Result<()> {
        self.change(command::add(pool, layout)?).await
    }

    async fn attach(&self, pool: &PoolName, to: Guid, device: &Utf8PathBuf) -> Result<()> {
        self.change(command::attach(pool, to, device)?).await
    }

    async fn detach(&self, pool: &PoolName, device: Guid) -> Result<()> {
        self.change(command::detach(pool, device)).await
    }

    async fn replace(&self, pool: &PoolName, old: Guid, new: &Utf8PathBuf) -> Result<()> {
        self.change(command::replace(pool, old, new)?).await
    }

    async fn online(&self, pool: &PoolName, device: Guid, how: Online) -> Result<()> {
        if how == Online::AsIs {
            return self.change(command::online(pool, device)).await;
        }
        let status = Pools::status(self, pool).await?;
        let path = status.vdev(device).and_then(|vdev| vdev.path.clone());
        let path = path.ok_or_else(|| Error::Refused {
            doing: format!("use all of the device {device} in the pool {pool}"),
            said: "the pool has no path of it".to_owned(),
        })?;
        // Whether ZFS was given the disk or the partition is not told: the other is not in the pool, and refused as such.
        if let Some(disk) = disk_of(&path)
            && self.change(command::expand(pool, &disk)?).await.is_ok()
        {
            return Ok(());
        }
        self.change(command::expand(pool, &path)?).await
    }

    async fn offline(&self, pool: &PoolName, device: Guid, how: Offline) -> Result<()> {
        self.change(command::offline(pool, device, how)).await
    }

    async fn remove(&self, pool: &PoolName, vdev: Guid) -> Result<()> {
        self.change(command::remove(pool, vdev)).await
    }

    async fn clear(&self, pool: &PoolName, device: Option<Guid>) -> Result<()> {
        self.change_as(command::clear(pool, device), Intent::Rescue).await
    }

    async fn reopen(&self, pool: &PoolName) -> Result<()> {
        self.change(command::reopen(pool)).await
    }

    async fn clear_labels(&self, device: &Utf8PathBuf, of: Guid) -> Result<()> {
        self.clear_labels_of(device, of).await
    }

    async fn scrub(&self, pool: &PoolName, what: ScrubCommand) -> Result<()> {
        self.change(command::scrub(pool, what)).await
    }

    async fn trim(&self, pool: &PoolName) -> Result<()> {
        self.change(command::trim(pool)).await
    }

    async fn initialize(&self, pool: &PoolName) -> Result<()> {
        self.change(command::initialize(pool)).await
    }

    async fn wait(&self, pool: &PoolName, activity: Activity, within: Duration) -> Result<bool> {
        let waited = self.wait_for(command::wait(pool, activity), within).await?;
        Ok(waited.is_some())
    }

    async fn is_upgradable(&self, pool: &PoolName) -> Result<bool> {
        let properties = self.properties(pool).await?;
        features::are_missing(&properties, features::PLACES, pool)
    }

    fn events(&self) -> BoxStream<'static, PoolEvent> {
        events::follow(self.clone())
    }
}
