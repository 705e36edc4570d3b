//! [`Datasets`], as calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use super::calls::Call;
use super::world::no;
use super::{SimZfs, stream};
use crate::{
    Dataset, DatasetKind, DatasetName, Datasets, Error, NewVolume, PoolName, Result, Send, SnapshotName,
};

type Properties = BTreeMap<String, String>;

fn owned(properties: &[&str]) -> Vec<String> {
    properties.iter().map(|&property| property.to_owned()).collect()
}

impl Datasets for SimZfs {
    async fn list(
        &self,
        pool: &PoolName,
        kinds: &[DatasetKind],
        properties: &[&str],
    ) -> Result<Vec<Dataset>> {
        let (host, name) = self.names(pool);
        let (kinds, properties) = (kinds.to_vec(), owned(properties));
        self.call(Call::ListDatasets, pool.as_str(), move |world| {
            world.list_datasets(&host, &name, &kinds, &properties)
        })
        .await
    }

    async fn get(&self, name: &str, properties: &[&str]) -> Result<Dataset> {
        let (host, own) = (self.host.clone(), name.to_owned());
        let properties = owned(properties);
        self.call(Call::GetDataset, name, move |world| {
            world.get_dataset(&host, &own, &properties)
        })
        .await
    }

    async fn set(&self, name: &DatasetName, properties: &Properties) -> Result<()> {
        let (host, own, set) = (self.host.clone(), name.to_string(), properties.clone());
        self.call(Call::SetDataset, name.as_str(), move |world| {
            world.set_dataset(&host, &own, &set)
        })
        .await
    }

    async fn inherit(&self, name: &DatasetName, property: &str) -> Result<()> {
        let (host, own, property) = (self.host.clone(), name.to_string(), property.to_owned());
        self.call(Call::Inherit, name.as_str(), move |world| {
            world.inherit(&host, &own, &property)
        })
        .await
    }

    async fn create_volume(&self, new: &NewVolume) -> Result<()> {
        let (host, own) = (self.host.clone(), new.clone());
        self.call(Call::CreateVolume, new.name.as_str(), move |world| {
            world.create_volume(&host, &own)
        })
        .await
    }

    async fn create_file_system(&self, name: &DatasetName, properties: &Properties) -> Result<()> {
        let (host, own, set) = (self.host.clone(), name.to_string(), properties.clone());
        self.call(Call::CreateFileSystem, name.as_str(), move |world| {
            world.create_file_system(&host, &own, &set)
        })
        .await
    }

    async fn grow(&self, name: &DatasetName, bytes: u64) -> Result<()> {
        let (host, own) = (self.host.clone(), name.to_string());
        self.call(Call::Grow, name.as_str(), move |world| {
            world.grow_volume(&host, &own, bytes)
        })
        .await
    }

    async fn destroy(&self, name: &str) -> Result<()> {
        let (host, own) = (self.host.clone(), name.to_owned());
        self.call(Call::DestroyDataset, name, move |world| {
            world.destroy_dataset(&host, &own)
        })
        .await
    }

    async fn snapshot(&self, snapshots: &[SnapshotName], properties: &Properties) -> Result<()> {
        let host = self.host.clone();
        let names: Vec<String> = snapshots.iter().map(ToString::to_string).collect();
        let (target, set) = (names.first().cloned().unwrap_or_default(), properties.clone());
        self.call(Call::Snapshot, &target, move |world| {
            world.take_snapshots(&host, &names, &set)
        })
        .await
    }

    async fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        to: &DatasetName,
        properties: &Properties,
    ) -> Result<()> {
        let (host, set) = (self.host.clone(), properties.clone());
        let (of, own) = (snapshot.to_string(), to.to_string());
        self.call(Call::CloneSnapshot, to.as_str(), move |world| {
            world.clone_snapshot(&host, &of, &own, &set)
        })
        .await
    }

    async fn promote(&self, clone: &DatasetName) -> Result<()> {
        let (host, own) = (self.host.clone(), clone.to_string());
        self.call(Call::Promote, clone.as_str(), move |world| {
            world.promote(&host, &own)
        })
        .await
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let host = self.host.clone();
        let (old, new) = (from.to_owned(), to.to_owned());
        self.call(Call::Rename, from, move |world| {
            world.rename_dataset(&host, &old, &new)
        })
        .await
    }

    async fn hold(&self, snapshot: &SnapshotName, tag: &str) -> Result<()> {
        let (host, own, tag) = (self.host.clone(), snapshot.to_string(), tag.to_owned());
        self.call(Call::Hold, snapshot.as_str(), move |world| {
            world.with_snapshot(&host, &own, |snap| match snap.holds.insert(tag.clone()) {
                true => Ok(()),
                false => no(format!("cannot hold '{own}': tag already exists on this dataset")),
            })
        })
        .await
    }

    async fn release(&self, snapshot: &SnapshotName, tag: &str) -> Result<()> {
        let (host, own, tag) = (self.host.clone(), snapshot.to_string(), tag.to_owned());
        self.call(Call::Release, snapshot.as_str(), move |world| {
            world.with_snapshot(&host, &own, |snap| match snap.holds.remove(&tag) {
                true => Ok(()),
                false => no(format!("cannot release '{own}': no such tag on this dataset")),
            })
        })
        .await
    }

    async fn holds(&self, snapshot: &SnapshotName) -> Result<Vec<String>> {
        let (host, own) = (self.host.clone(), snapshot.to_string());
        self.call(Call::Holds, snapshot.as_str(), move |world| {
            world.holds(&host, &own)
        })
        .await
    }

    async fn send(&self, what: &Send, into: OwnedFd) -> Result<()> {
        let (host, own) = (self.host.clone(), what.clone());
        let target = match what {
            Send::Snapshot { snapshot, .. } => snapshot.to_string(),
            // Which pool it is of is inside of the token.
            Send::Resume { .. } => String::new(),
        };
        let text = self.call(Call::Send, &target, move |world| world.stream(&host, &own));
        let text = text.await?;
        let written = in_a_thread(move || File::from(into).write_all(text.as_bytes())).await;
        written.map_err(|error| broken(Call::Send, &target, &error))
    }

    async fn receive(&self, to: &DatasetName, properties: &Properties, from: OwnedFd) -> Result<()> {
        let text = in_a_thread(move || {
            let mut text = String::new();
            File::from(from).read_to_string(&mut text)?;
            Ok(text)
        });
        let text = text
            .await
            .map_err(|error| broken(Call::Receive, to.as_str(), &error))?;
        let (host, own, set) = (self.host.clone(), to.to_string(), properties.clone());
        let whole = self.call(Call::Receive, to.as_str(), move |world| {
            world.receive(&host, &own, &set, &stream::read(&text)?)
        });
        match whole.await? {
            true => Ok(()),
            false => Err(Error::Refused {
                doing: Call::Receive.doing(to.as_str()),
                said: "the stream ends in the middle; a resume token was kept".to_owned(),
            }),
        }
    }

    async fn abort_receive(&self, to: &DatasetName) -> Result<()> {
        let (host, own) = (self.host.clone(), to.to_string());
        self.call(Call::AbortReceive, to.as_str(), move |world| {
            world.abort_receive(&host, &own)
        })
        .await
    }
}

/// Reads or writes what may have to be waited for. No time passes meanwhile.
async fn in_a_thread<T: std::marker::Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + std::marker::Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

fn broken(call: Call, target: &str, error: &io::Error) -> Error {
    Error::Refused {
        doing: call.doing(target),
        said: error.to_string(),
    }
}
