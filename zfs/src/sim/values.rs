//! Datasets as ZFS tells of them.

use std::collections::BTreeMap;

use super::pool::Pool;
use super::properties::{self, Rule};
use super::tree::{Ds, Snap, Usage, parent};
use super::volumes::{Named, whole_name};
use super::world::{Answer, World, no};
use crate::{Dataset, DatasetKind, Source, Value};

/// A dataset or snapshot that is being told of.
#[derive(Clone, Copy)]
struct Subject<'a> {
    pool: &'a Pool,
    usage: &'a BTreeMap<&'a str, Usage>,
    name: &'a str,
    ds: &'a Ds,
    snap: Option<&'a Snap>,
}

fn fact(text: impl ToString) -> Value {
    Value {
        text: text.to_string(),
        source: Source::None,
    }
}

/// What has no value.
fn nothing() -> Value {
    fact("-")
}

fn local(text: &str) -> Value {
    Value {
        text: text.to_owned(),
        source: Source::Local,
    }
}

fn default(text: &str) -> Value {
    Value {
        text: text.to_owned(),
        source: Source::Default,
    }
}

impl World {
    pub(super) fn list_datasets(
        &self,
        host: &str,
        pool: &str,
        kinds: &[DatasetKind],
        properties: &[String],
    ) -> Answer<Vec<Dataset>> {
        if kinds.is_empty() {
            return no("no kind of dataset is named");
        }
        let pool = &self.imported(host, pool)?.pool;
        let usage = pool.datasets.usage();
        let mut listed = Vec::new();
        for (name, ds) in &pool.datasets.all {
            let subject = |snap| Subject {
                pool,
                usage: &usage,
                name,
                ds,
                snap,
            };
            let snaps = ds.snaps.iter().map(|snap| subject(Some(snap)));
            for subject in std::iter::once(subject(None)).chain(snaps) {
                if kinds.contains(&subject.kind()) {
                    listed.push(subject.tell(properties)?);
                }
            }
        }
        Ok(listed)
    }

    pub(super) fn get_dataset(&self, host: &str, name: &str, properties: &[String]) -> Answer<Dataset> {
        let named = Named::new(name);
        let pool = &self.imported(host, named.pool)?.pool;
        let usage = pool.datasets.usage();
        let ds = pool.datasets.get(named.dataset)?;
        let snap = match named.snapshot {
            Some(snapshot) => match ds.snap(snapshot) {
                Some(snap) => Some(snap),
                None => return no(format!("cannot open '{name}': dataset does not exist")),
            },
            None => None,
        };
        let subject = Subject {
            pool,
            usage: &usage,
            name: named.dataset,
            ds,
            snap,
        };
        subject.tell(properties)
    }
}

impl Subject<'_> {
    fn kind(&self) -> DatasetKind {
        self.snap.map_or(self.ds.kind, |_| DatasetKind::Snapshot)
    }

    fn whole_name(&self) -> String {
        let dataset = whole_name(&self.pool.name, self.name);
        match self.snap {
            Some(snap) => format!("{dataset}@{}", snap.name),
            None => dataset,
        }
    }

    fn tell(&self, properties: &[String]) -> Answer<Dataset> {
        let value = |property: &String| Ok((property.clone(), self.value(property)?));
        Ok(Dataset {
            name: self.whole_name(),
            kind: self.kind(),
            properties: properties.iter().map(value).collect::<Answer<_>>()?,
        })
    }

    fn value(&self, property: &str) -> Answer<Value> {
        if properties::is_of_user(property) {
            return Ok(self.inherited(property).unwrap_or_else(nothing));
        }
        let Some(rule) = properties::rule(property) else {
            return no(format!("bad property list: invalid property '{property}'"));
        };
        if let Some(snap) = self.snap {
            return Ok(match property {
                "volsize" if self.ds.kind == DatasetKind::Volume => fact(snap.volsize),
                _ => self.told(property),
            });
        }
        let own = |text: &str| match self.ds.set.get(property) {
            Some(set) => local(set),
            None => default(text),
        };
        Ok(match rule {
            Rule::Told => self.told(property),
            Rule::Inherits(text) => self.inherited(property).unwrap_or_else(|| default(text)),
            Rule::Own(text) => own(text),
            Rule::OfVolume(text) if self.ds.kind == DatasetKind::Volume => own(text),
            Rule::OfFileSystem(text) if self.ds.kind == DatasetKind::FileSystem => own(text),
            Rule::OfVolume(_) | Rule::OfFileSystem(_) => nothing(),
        })
    }

    /// What was set here or above.
    fn inherited(&self, property: &str) -> Option<Value> {
        if let Some(text) = self.snap.and_then(|snap| snap.set.get(property)) {
            return Some(local(text));
        }
        let mut at = Some(self.name);
        while let Some(name) = at {
            let set = self.pool.datasets.all.get(name)?.set.get(property);
            if let Some(text) = set {
                let here = name == self.name && self.snap.is_none();
                let source = match here {
                    true => Source::Local,
                    false => Source::Inherited(whole_name(&self.pool.name, name)),
                };
                let text = text.clone();
                return Some(Value { text, source });
            }
            at = parent(name);
        }
        None
    }

    /// What is not set but so.
    fn told(&self, property: &str) -> Value {
        let (guid, createtxg, creation) = match self.snap {
            Some(snap) => (snap.guid, snap.createtxg, snap.creation),
            None => (self.ds.guid, self.ds.createtxg, self.ds.creation),
        };
        match property {
            "name" => fact(self.whole_name()),
            "type" => fact(match self.kind() {
                DatasetKind::FileSystem => "filesystem",
                DatasetKind::Volume => "volume",
                DatasetKind::Snapshot | DatasetKind::Bookmark => "snapshot",
            }),
            "guid" => fact(guid),
            "createtxg" => fact(createtxg),
            "creation" => fact(creation),
            "compressratio" | "refcompressratio" => fact("1.00"),
            _ => match self.snap {
                Some(snap) => self.of_snapshot(snap, property),
                None => self.of_dataset(property),
            },
        }
    }

    fn of_snapshot(&self, snap: &Snap, property: &str) -> Value {
        let tree = &self.pool.datasets;
        match property {
            "used" => fact(tree.unique(self.ds, snap)),
            "referenced" | "logicalreferenced" => fact(snap.data.bytes()),
            "written" => fact(tree.since_earlier(self.ds, snap)),
            "userrefs" => fact(snap.holds.len()),
            "defer_destroy" => fact("off"),
            "clones" => {
                let clones = tree.clones(snap.guid);
                let clones: Vec<_> = clones.map(|name| whole_name(&self.pool.name, name)).collect();
                fact(clones.join(","))
            }
            _ => nothing(),
        }
    }

    fn of_dataset(&self, property: &str) -> Value {
        let tree = &self.pool.datasets;
        let usage = self.usage.get(self.name).copied().unwrap_or_default();
        match property {
            "used" => fact(usage.used()),
            "usedbydataset" => fact(usage.data),
            "usedbysnapshots" => fact(usage.snapshots),
            "usedbyrefreservation" => fact(usage.reservation),
            "usedbychildren" => fact(usage.children),
            "logicalused" => fact(usage.data + usage.snapshots),
            "referenced" | "logicalreferenced" => fact(self.ds.data.bytes()),
            "written" => fact(tree.since_snapshot(self.ds)),
            "available" => fact(tree.available(self.usage, self.name, self.pool.capacity())),
            "mounted" if self.ds.kind == DatasetKind::FileSystem => fact("no"),
            "origin" => match self.ds.origin.and_then(|origin| tree.snapshot(origin)) {
                Some((of, snap)) => fact(format!("{}@{}", whole_name(&self.pool.name, of), snap.name)),
                None => nothing(),
            },
            "receive_resume_token" => match &self.ds.partial {
                Some(partial) => fact(partial.token()),
                None => nothing(),
            },
            _ => nothing(),
        }
    }
}
