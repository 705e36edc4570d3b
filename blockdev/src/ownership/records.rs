//! The pools that are ours, as CStorPoolInstances record them.

use std::collections::BTreeSet;

use cstor_api::ids::CspiUid;
use cstor_zfs::Label;

/// The states of labels that do not say whose pool they are in: those of spares and of cache devices.
const SHARED: [u64; 2] = [3, 4];

/// What one CStorPoolInstance records of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The UID of the instance.
    pub instance: CspiUid,
    /// The name of the pool, where it is known to be another than we would give.
    pub pool_name: Option<String>,
    /// The GUID of the pool, once it was made.
    pub pool_guid: Option<u64>,
    /// The GUIDs of its devices.
    pub vdev_guids: BTreeSet<u64>,
}

/// The pools that are ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records(Vec<Record>);

impl FromIterator<Record> for Records {
    fn from_iter<T: IntoIterator<Item = Record>>(records: T) -> Self {
        Self(records.into_iter().collect())
    }
}

/// Why a label is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing ties it to us.
    Unrecorded,
    /// It says it is of this instance, which has another pool.
    OtherPool(CspiUid, u64),
    /// Several instances record it.
    Ambiguous(CspiUid, CspiUid),
}

impl Records {
    /// The instance whose pool a label on this device is of, whatever else is there.
    #[must_use]
    pub fn instance_on(&self, subject: &super::Subject<'_>) -> Option<&CspiUid> {
        let contents = subject.examined.contents()?;
        let labels = contents.zfs.iter().chain(&contents.zfs_others);
        let mut records = labels.filter_map(|label| self.instance_of(label).ok());
        records.next().map(|record| &record.instance)
    }

    /// The instance whose pool the label is of, if it is one alone.
    pub(super) fn instance_of(&self, label: &Label) -> Result<&Record, Refusal> {
        let mut records = self.0.iter().filter(|record| record.proves(label));
        match (records.next(), records.next()) {
            (Some(record), None) => Ok(record),
            (Some(one), Some(other)) => Err(Refusal::Ambiguous(one.instance.clone(), other.instance.clone())),
            (None, _) => Err(self.why_not(label)),
        }
    }

    fn why_not(&self, label: &Label) -> Refusal {
        let named = self.0.iter().find(|record| record.is_named_by(label));
        match named.and_then(|record| Some((record, record.pool_guid?))) {
            Some((record, guid)) => Refusal::OtherPool(record.instance.clone(), guid),
            None => Refusal::Unrecorded,
        }
    }
}

impl Record {
    /// Whether the label is proved to be of this instance's pool.
    fn proves(&self, label: &Label) -> bool {
        self.records(label) || (self.is_named_by(label) && self.has_no_other_pool(label))
    }

    /// Both GUIDs are recorded; the device's alone where the label has no more.
    fn records(&self, label: &Label) -> bool {
        let pool = match label.pool_guid {
            Some(guid) => self.pool_guid == Some(guid),
            None => SHARED.contains(&label.state),
        };
        pool && self.vdev_guids.contains(&label.vdev_guid)
    }

    /// The pool was made for this instance: its comment is the instance's UID and its name is the one that goes with it.
    /// So a pool is found again that was made, or given a device, by an agent that did not live to record it.
    fn is_named_by(&self, label: &Label) -> bool {
        let uid = self.instance.as_str().replace('-', "");
        label.comment.as_deref() == Some(uid.as_str())
            && label.pool_name.as_deref() == Some(self.instance.pool_name().as_str())
    }

    fn has_no_other_pool(&self, label: &Label) -> bool {
        label.pool_guid.is_some() && self.pool_guid.is_none_or(|guid| label.pool_guid == Some(guid))
    }
}
