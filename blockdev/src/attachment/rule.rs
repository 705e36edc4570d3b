//! What a row of the table is made of.

/// A way to tell the volume of a driver.
///
/// A row holds for a disk if the disk has all of [`Rule::needs`] and every comparison of [`Rule::proof`] comes out equal.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, which is recorded on the BlockDevice. Never changed once released.
    pub method: &'static str,
    /// The drivers it is for.
    pub drivers: Drivers,
    /// What kind of disk it is about.
    pub needs: &'static [Need],
    /// What proves the disk to be the volume. Nothing does, if empty: the row is there to say why.
    pub proof: &'static [Compare],
    /// Whether a disk that has all needs, and says something else than expected, is certainly not the volume, even if the
    /// kubelet hands it out as such.
    pub decisive: bool,
    /// What a person does if there is no such disk.
    pub advice: &'static str,
    /// What a person does if no disk says anything to compare with.
    pub silent: &'static str,
}

/// The drivers that a row is for.
#[derive(Debug, Clone, Copy)]
pub enum Drivers {
    /// These. A name that begins with `*` stands for all that end like it.
    Named(&'static [&'static str]),
    /// All that no row names.
    Others,
}

/// Something that a disk must have for a row to be about it.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// It is on this bus.
    Bus(&'static str),
    /// It is by this maker.
    Vendor(&'static str),
    /// Its model begins so.
    Model(&'static str),
    /// Its NVMe controller is reached over a network.
    Fabric,
    /// The number of its SCSI host is larger.
    HostAbove(u64),
    /// No link to it begins so.
    NoLink(&'static [&'static str]),
    /// udev's record is of this very disk and not of one that had its name before: it has a link by the number that the
    /// kernel gives to every new disk (`/dev/disk/by-diskseq`, systemd 251), or the number of the NVMe namespace.
    CurrentRecord,
}

/// Two values that must be equal.
#[derive(Debug, Clone, Copy)]
pub struct Compare {
    /// What is expected.
    pub expected: Expected,
    /// Where the disk says it. One of them is enough.
    pub says: &'static [Field],
    /// What counts as equal.
    pub form: Form,
    /// Whether the comparison is left out if the attachment has no such value.
    pub if_given: bool,
}

/// A value that is computed from the attachment.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Where it comes from.
    pub from: Source,
    /// What is done with it, in this order.
    pub steps: &'static [Step],
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// The volume handle.
    Handle,
    /// The first of these keys that `status.attachmentMetadata` has.
    Metadata(&'static [&'static str]),
    /// The first of these keys that `status.attachmentMetadata` or `spec.csi.volumeAttributes` has.
    Given(&'static [&'static str]),
}

/// Something that is done with a value. A step that cannot be done leaves no value, and the row has nothing to look for.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// What is behind the last slash.
    LastPathElement,
    /// Nothing changes; one of the path's directories must have this name.
    Inside(&'static str),
    /// What is behind the first dash.
    AfterFirstDash,
    /// Without this at the beginning, if it is there.
    Without(&'static str),
    /// Without dashes.
    StripDashes,
    /// The first 20 bytes, which are all that virtio has room for.
    First20Bytes,
    /// With this at the end.
    Append(&'static str),
    /// A whole number, without the blanks around it.
    Number,
    /// A whole number, and so much more.
    Plus(u64),
    /// Nothing changes; it must be long and varied enough to be no coincidence.
    Distinctive,
}

/// Something that a disk says.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// The serial number.
    Serial,
    /// The serial number of SCSI page 80.
    Page80,
    /// The maker's own name for it in SCSI page 83: the designator of the vendor, or the last word of the T10 one.
    Page83Name,
    /// The World Wide Name, in hex digits.
    Wwn,
    /// The UUID of the NVMe namespace.
    NvmeUuid,
    /// The NGUID of the NVMe namespace.
    NvmeNguid,
    /// The number of the NVMe namespace.
    NvmeNamespace,
    /// The SCSI unit number.
    ScsiLun,
    /// A property in udev's database. Wants [`Need::CurrentRecord`].
    Udev(&'static str),
    /// What follows this in the name of a link that is both there and on udev's record. Wants [`Need::CurrentRecord`].
    Link(&'static str),
    /// The iSCSI target in the name of the link by path. Wants [`Need::CurrentRecord`].
    IscsiTarget,
    /// The unit number in the name of the link by path. Wants [`Need::CurrentRecord`].
    IscsiLun,
}

/// What counts as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The same bytes.
    Exact,
    /// The same but for upper and lower case.
    AnyCase,
    /// The same letters and digits but for upper and lower case.
    LettersAndDigits,
}

impl Drivers {
    /// Whether the driver is named.
    pub(super) fn name(self, driver: &str) -> bool {
        let Self::Named(names) = self else {
            return false;
        };
        names.iter().any(|name| match name.strip_prefix('*') {
            Some(end) => driver.ends_with(end),
            None => *name == driver,
        })
    }
}
