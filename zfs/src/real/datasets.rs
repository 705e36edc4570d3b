//! [`Datasets`] by `zfs`.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::call::{failure, refuse_beside_stuck};
use super::command::dataset as command;
use super::queue::Intent;
use super::{Zfs, parse};
use crate::{
    Dataset, DatasetKind, DatasetName, Datasets, Error, NewVolume, PoolName, Result, Send, SnapshotName,
};

type Properties = BTreeMap<String, String>;

impl Datasets for Zfs {
    async fn list(
        &self,
        pool: &PoolName,
        kinds: &[DatasetKind],
        properties: &[&str],
    ) -> Result<Vec<Dataset>> {
        let command = command::list(pool, kinds, properties)?;
        self.look(command, |text| parse::datasets(text, properties)).await
    }

    async fn get(&self, name: &str, properties: &[&str]) -> Result<Dataset> {
        let command = command::get(name, properties)?;
        self.look(command, |text| parse::dataset(text, name, properties))
            .await
    }

    async fn set(&self, name: &DatasetName, properties: &Properties) -> Result<()> {
        self.change(command::set(name, properties)?).await
    }

    async fn inherit(&self, name: &DatasetName, property: &str) -> Result<()> {
        self.change(command::inherit(name, property)?).await
    }

    async fn create_volume(&self, new: &NewVolume) -> Result<()> {
        self.change(command::create_volume(new)?).await
    }

    async fn create_file_system(&self, name: &DatasetName, properties: &Properties) -> Result<()> {
        self.change(command::create_file_system(name, properties)?).await
    }

    async fn grow(&self, name: &DatasetName, bytes: u64) -> Result<()> {
        let command = command::grow(name, bytes);
        // The size is read in our own turn, so that nobody makes it larger than we do in between: ZFS would shrink it.
        let turn = self.turn(&command, Intent::Change).await?;
        let now = self.get(name.as_str(), &["volsize"]).await?;
        let Some(now) = now.number("volsize") else {
            return Err(command.refused("it is no volume"));
        };
        match bytes.cmp(&now) {
            std::cmp::Ordering::Less => Err(command.refused(format!("it has {now} bytes already"))),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.change_in(command, Intent::Change, turn).await,
        }
    }

    async fn destroy(&self, name: &str) -> Result<()> {
        self.change(command::destroy(name)?).await
    }

    async fn snapshot(&self, snapshots: &[SnapshotName], properties: &Properties) -> Result<()> {
        self.change(command::snapshot(snapshots, properties)?).await
    }

    async fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        to: &DatasetName,
        properties: &Properties,
    ) -> Result<()> {
        self.change(command::clone(snapshot, to, properties)?).await
    }

    async fn promote(&self, clone: &DatasetName) -> Result<()> {
        self.change(command::promote(clone)).await
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.change(command::rename(from, to)?).await
    }

    async fn hold(&self, snapshot: &SnapshotName, tag: &str) -> Result<()> {
        self.change(command::hold(snapshot, tag)?).await
    }

    async fn release(&self, snapshot: &SnapshotName, tag: &str) -> Result<()> {
        self.change(command::release(snapshot, tag)?).await
    }

    async fn holds(&self, snapshot: &SnapshotName) -> Result<Vec<String>> {
        self.look(command::holds(snapshot), |text| parse::holds(text, snapshot))
            .await
    }

    async fn send(&self, what: &Send, into: OwnedFd) -> Result<()> {
        let command = command::send(what)?;
        refuse_beside_stuck(&self.queue(&command), &command, Intent::Look)?;
        let call = self.invocation(&command).deadline(Duration::MAX);
        streamed(command.doing, call.run_writing(into).await)
    }

    async fn receive(&self, to: &DatasetName, properties: &Properties, from: OwnedFd) -> Result<()> {
        let command = command::receive(to, properties)?;
        refuse_beside_stuck(&self.queue(&command), &command, Intent::Change)?;
        let call = self.invocation(&command).deadline(Duration::MAX);
        streamed(command.doing, call.run_reading(from).await)
    }

    async fn abort_receive(&self, to: &DatasetName) -> Result<()> {
        self.change(command::abort_receive(to)).await
    }
}

/// A stream ends with its caller: who goes away has closed its other end.
fn streamed(
    doing: String,
    outcome: std::result::Result<cstor_exec::Output, cstor_exec::Error>,
) -> std::result::Result<(), Error> {
    outcome.map(drop).map_err(|error| failure(doing, error))
}
