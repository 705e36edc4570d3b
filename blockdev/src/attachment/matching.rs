//! How the rows of the table are applied to the disks of a node.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::rule::{Compare, Drivers, Expected, Field, Form, Need, Rule, Source, Step};
use super::{Attachment, Volume, rules};
use crate::device::{DesignatorKind, Device, Kind};

/// A text with fewer letters and digits than this may be on two disks by chance.
const DISTINCTIVE: usize = 8;

/// What virtio has room for in a serial number.
const VIRTIO_SERIAL: usize = 20;

/// A whole disk that may be somebody's volume.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) device: &'a Device,
    /// Who speaks for it: itself, or the paths to it.
    voices: Vec<&'a Device>,
}

impl Candidate<'_> {
    fn meets(&self, needs: &[Need]) -> bool {
        self.voices
            .iter()
            .all(|voice| needs.iter().all(|need| meets(voice, *need)))
    }

    /// What the disk says, if it is the volume by this row.
    fn proves(&self, rule: &Rule, expected: &[Option<String>]) -> Option<String> {
        if rule.proof.is_empty() || !self.meets(rule.needs) {
            return None;
        }
        let mut said = None;
        for voice in &self.voices {
            for (compare, expected) in rule.proof.iter().zip(expected) {
                // A value that the row does not insist on and the attachment does not have.
                let Some(expected) = expected else { continue };
                let mut values = compare.says.iter().flat_map(|field| says(voice, *field));
                let found =
                    values.find(|value| form(value, compare.form).as_deref() == Some(expected.as_str()))?;
                said.get_or_insert_with(|| found.into_owned());
            }
        }
        said
    }

    /// Whether the disk says that it is another volume.
    fn denies(&self, rule: &Rule, expected: &[Option<String>]) -> bool {
        let speaks = |compare: &Compare| {
            let mut voices = self.voices.iter();
            voices.any(|voice| compare.says.iter().any(|field| !says(voice, *field).is_empty()))
        };
        rule.decisive
            && self.meets(rule.needs)
            && rule.proof.iter().all(speaks)
            && self.proves(rule, expected).is_none()
    }
}

/// A disk that is the volume by some row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Which of the candidates.
    pub(super) candidate: usize,
    pub(super) method: &'static str,
    pub(super) said: Option<String>,
}

/// What the rows say of one attachment.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The disks found, each once, in the order of the candidates.
    pub(super) hits: Vec<Hit>,
    /// What was looked for and not found, or could not be looked for.
    pub(super) notes: Vec<String>,
    /// What to do about it.
    pub(super) advice: Vec<&'static str>,
    /// What was looked for.
    wanted: Vec<String>,
}

/// The disks of a node, by what they say.
pub(super) struct Disks<'a> {
    pub(super) candidates: Vec<Candidate<'a>>,
    /// For each row in use: who says what, for its first comparison.
    indexes: BTreeMap<&'static str, Index>,
}

#[derive(Default)]
struct Index {
    by_value: HashMap<String, Vec<usize>>,
    /// Whether some disk has what the row needs.
    met: bool,
}

impl<'a> Disks<'a> {
    pub(super) fn new(devices: &'a [Device]) -> Self {
        let by_name: HashMap<&str, &Device> = devices
            .iter()
            .map(|device| (device.name.as_str(), device))
            .collect();
        let named = |names: &[String], kind| -> Vec<&'a Device> {
            let found = names
                .iter()
                .filter_map(|name| by_name.get(name.as_str()).copied());
            found.filter(|device| device.kind == kind).collect()
        };
        let candidate = |device: &'a Device| match device.kind {
            // A path of a multipath device is not a disk of its own.
            Kind::Disk if named(&device.holders, Kind::Multipath).is_empty() => Some(Candidate {
                device,
                voices: vec![device],
            }),
            Kind::Multipath => {
                let paths = named(&device.slaves, Kind::Disk);
                let voices = if paths.is_empty() { vec![device] } else { paths };
                Some(Candidate { device, voices })
            }
            _ => None,
        };
        Self {
            candidates: devices.iter().filter_map(candidate).collect(),
            indexes: BTreeMap::new(),
        }
    }

    /// Asks all rows for the driver of an attachment.
    pub(super) fn ask(&mut self, attachment: &Attachment, volume: &Volume) -> Told {
        let mut told = Told::default();
        for rule in rules::for_driver(&attachment.driver) {
            self.ask_rule(rule, attachment, volume, &mut told);
        }
        told.hits.sort_by_key(|hit| hit.candidate);
        told.hits.dedup_by_key(|hit| hit.candidate);
        if told.hits.is_empty() {
            told.notes.extend(self.stale_link(&told.wanted));
        }
        told
    }

    fn ask_rule(&mut self, rule: &'static Rule, attachment: &Attachment, volume: &Volume, told: &mut Told) {
        let Self { candidates, indexes } = self;
        let index = indexes
            .entry(rule.method)
            .or_insert_with(|| Index::new(rule, candidates));
        let Some(first) = rule.proof.first() else {
            // A driver's only row speaks for all its disks, one of several for its own kind.
            if index.met || rules::for_driver(&attachment.driver).count() == 1 {
                told.advise(rule.advice);
            }
            return;
        };
        let expected = match expectations(rule, attachment, volume) {
            Ok(expected) => expected,
            Err(missing) => {
                // What a driver with rows of its own does not tell is worth knowing; another may well not have it.
                if matches!(rule.drivers, Drivers::Named(_)) || matches!(first.expected.from, Source::Handle)
                {
                    told.note(missing);
                    told.advise(rule.advice);
                }
                return;
            }
        };
        let Some(Some(wanted)) = expected.first() else {
            return;
        };
        let mut found = false;
        for candidate in index.by_value.get(wanted).into_iter().flatten().copied() {
            let said = candidates
                .get(candidate)
                .and_then(|disk| disk.proves(rule, &expected));
            if said.is_some() {
                found = true;
                told.hits.push(Hit {
                    candidate,
                    method: rule.method,
                    said,
                });
            }
        }
        if !found {
            told.note(format!("none is {wanted:?} by {}", rule.method));
            told.wanted.push(wanted.clone());
            let silent =
                index.by_value.is_empty() && !rule.silent.is_empty() && (index.met || rule.needs.is_empty());
            told.advise(if silent { rule.silent } else { rule.advice });
        }
    }

    /// The first row by which a disk is certainly not the volume.
    pub(super) fn denial(
        &self,
        disk: &Candidate<'_>,
        attachment: &Attachment,
        volume: &Volume,
    ) -> Option<&'static str> {
        let mut rules = rules::for_driver(&attachment.driver);
        let denies = |rule: &&Rule| {
            expectations(rule, attachment, volume).is_ok_and(|expected| disk.denies(rule, &expected))
        };
        rules.find(denies).map(|rule| rule.method)
    }

    /// A link that names what was looked for, on a disk that is not it.
    fn stale_link(&self, wanted: &[String]) -> Option<String> {
        let distinctive = |text: &&String| text.len() >= DISTINCTIVE;
        let wanted: Vec<_> = wanted.iter().filter(distinctive).collect();
        let mut links = self
            .candidates
            .iter()
            .flat_map(|disk| disk.device.links.iter().map(move |link| (disk, link)));
        let named = |link: &str| wanted.iter().any(|text| link.contains(text.as_str()));
        let (disk, link) = links.find(|(_, link)| named(link.as_str()))?;
        let says = disk
            .device
            .serial
            .as_deref()
            .map_or("nothing of it".to_owned(), |text| format!("{text:?}"));
        Some(format!(
            "the link {link} leads to {}, but that disk says {says}, so the link is stale or not to be trusted",
            disk.device.name
        ))
    }
}

impl Told {
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn advise(&mut self, advice: &'static str) {
        if !advice.is_empty() && !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }
}

impl Index {
    fn new(rule: &Rule, candidates: &[Candidate<'_>]) -> Self {
        let mut index = Self::default();
        for (at, disk) in candidates.iter().enumerate() {
            if !disk.meets(rule.needs) {
                continue;
            }
            index.met = true;
            let (Some(compare), Some(voice)) = (rule.proof.first(), disk.voices.first()) else {
                continue;
            };
            let values = compare.says.iter().flat_map(|field| says(voice, *field));
            for value in values.filter_map(|value| form(&value, compare.form)) {
                let at_value = index.by_value.entry(value).or_default();
                if at_value.last() != Some(&at) {
                    at_value.push(at);
                }
            }
        }
        index
    }
}

/// What the comparisons of a row expect, or what is missing for it.
fn expectations(
    rule: &Rule,
    attachment: &Attachment,
    volume: &Volume,
) -> Result<Vec<Option<String>>, String> {
    let each = rule.proof.iter().map(|compare| {
        let Some(text) = source(compare.expected.from, attachment, volume) else {
            return if compare.if_given {
                Ok(None)
            } else {
                Err(format!("the attachment has no {}", origin(compare.expected.from)))
            };
        };
        let value = value(compare.expected, text).and_then(|value| form(&value, compare.form));
        let useless = || {
            format!(
                "the attachment's {}, {text:?}, is not what {} can compare with a disk",
                origin(compare.expected.from),
                rule.method
            )
        };
        value.map(Some).ok_or_else(useless)
    });
    each.collect()
}

fn source<'a>(source: Source, attachment: &'a Attachment, volume: &'a Volume) -> Option<&'a str> {
    let text = match source {
        Source::Handle => Some(&volume.handle),
        Source::Metadata(keys) => keys.iter().find_map(|key| attachment.metadata.get(*key)),
        Source::Given(keys) => {
            let given = |key: &&str| {
                attachment
                    .metadata
                    .get(*key)
                    .or_else(|| volume.attributes.get(*key))
            };
            keys.iter().find_map(given)
        }
    };
    text.map(|text| text.as_str())
        .filter(|text| !text.trim().is_empty())
}

fn origin(source: Source) -> String {
    match source {
        Source::Handle => "volume handle".to_owned(),
        Source::Metadata(keys) => format!("{} in status.attachmentMetadata", keys.first().unwrap_or(&"")),
        Source::Given(keys) => format!(
            "{} among the attributes of the volume",
            keys.first().unwrap_or(&"")
        ),
    }
}

fn value(expected: Expected, text: &str) -> Option<String> {
    let mut value = text.to_owned();
    for step in expected.steps {
        value = match step {
            Step::LastPathElement => value.rsplit('/').next()?.to_owned(),
            Step::Inside(directory) => {
                let (directories, _) = value.rsplit_once('/')?;
                directories.split('/').find(|part| part == directory)?;
                value
            }
            Step::AfterFirstDash => value.split_once('-')?.1.to_owned(),
            Step::Without(beginning) => value.strip_prefix(beginning).unwrap_or(&value).to_owned(),
            Step::StripDashes => value.replace('-', ""),
            Step::First20Bytes => value.get(..VIRTIO_SERIAL)?.to_owned(),
            Step::Append(end) => value + end,
            Step::Number => number(&value)?.to_string(),
            Step::Plus(more) => number(&value)?.checked_add(*more)?.to_string(),
            Step::Distinctive => {
                let mut letters = value.chars().filter(char::is_ascii_alphanumeric);
                let first = letters.next()?;
                let rest: Vec<_> = letters.collect();
                if rest.len() + 1 < DISTINCTIVE || rest.iter().all(|letter| *letter == first) {
                    return None;
                }
                value
            }
        };
    }
    Some(value)
}

/// A whole number in digits alone: `+3` and `0x3` are somebody else's idea of a number.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// A value in the form in which it is compared. What is not visible ASCII is compared with nothing: the bytes of a device
/// are shown as `\xNN`, which a handle can spell out without meaning them.
fn form(text: &str, form: Form) -> Option<String> {
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || text.contains('\\') {
        return None;
    }
    let text = match form {
        Form::Exact => text.to_owned(),
        Form::AnyCase => text.to_ascii_lowercase(),
        Form::LettersAndDigits => {
            let letters = text.chars().filter(char::is_ascii_alphanumeric);
            letters.map(|letter| letter.to_ascii_lowercase()).collect()
        }
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What a device says in a field.
fn says(device: &Device, field: Field) -> Vec<Cow<'_, str>> {
    let text = |text: Option<&'_ str>| text.map(|text| Cow::Owned(text.to_owned())).into_iter().collect();
    let number = |number: Option<u64>| {
        number
            .map(|number| Cow::Owned(number.to_string()))
            .into_iter()
            .collect()
    };
    let scsi = device.scsi.as_ref();
    let nvme = device.nvme.as_ref();
    let designators = |kind| {
        let all = scsi.into_iter().flat_map(|scsi| &scsi.page83);
        all.filter(move |designator| designator.kind == kind)
            .map(|designator| designator.value.as_str())
    };
    match field {
        Field::Serial => text(device.serial.as_deref()),
        Field::Page80 => text(scsi.and_then(|scsi| scsi.page80.as_deref())),
        Field::Page83Name => {
            let own = designators(DesignatorKind::VendorSpecific);
            let t10 = designators(DesignatorKind::T10);
            own.chain(t10.filter_map(|text| text.split_whitespace().last()))
                .map(Cow::Borrowed)
                .collect()
        }
        Field::Wwn => {
            // The kernel chooses one of several; and it may have one where the page could not be read.
            let kernel = device.wwid.as_deref().and_then(|wwid| wwid.strip_prefix("naa."));
            designators(DesignatorKind::Naa)
                .chain(kernel)
                .map(Cow::Borrowed)
                .collect()
        }
        Field::NvmeUuid => text(nvme.and_then(|nvme| nvme.uuid.as_deref())),
        Field::NvmeNguid => text(nvme.and_then(|nvme| nvme.nguid.as_deref())),
        Field::NvmeNamespace => number(nvme.and_then(|nvme| nvme.namespace).map(u64::from)),
        Field::ScsiLun => number(scsi.and_then(|scsi| scsi.address).map(|[.., lun]| lun)),
        Field::Udev(key) => text(device.udev(key)),
        Field::Link(beginning) => {
            let links = links(device).filter_map(|link| link.strip_prefix(beginning));
            links.map(Cow::Borrowed).collect()
        }
        Field::IscsiTarget => iscsi(device).map(|(target, _)| Cow::Borrowed(target)).collect(),
        Field::IscsiLun => iscsi(device).map(|(_, lun)| Cow::Borrowed(lun)).collect(),
    }
}

/// The links that are there and that udev has on record for the device. One that was left behind is not on record, and one
/// that another device took is not there.
fn links(device: &Device) -> impl Iterator<Item = &str> {
    let there = device.links.iter().map(|link| link.as_str());
    there.filter(|link| recorded_links(device).any(|recorded| recorded == *link))
}

fn recorded_links(device: &Device) -> impl Iterator<Item = &str> {
    device.udev("DEVLINKS").unwrap_or_default().split_whitespace()
}

/// Target and unit in links such as `ip-10.0.0.1:3260-iscsi-iqn.2003-01.org.example:disk-lun-0`.
fn iscsi(device: &Device) -> impl Iterator<Item = (&str, &str)> {
    let links = links(device).filter_map(|link| link.strip_prefix("/dev/disk/by-path/"));
    links.filter_map(|link| link.split_once("-iscsi-")?.1.rsplit_once("-lun-"))
}

fn meets(device: &Device, need: Need) -> bool {
    let is = |value: Option<&String>, wanted: &str| {
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    let nvme = device.nvme.as_ref();
    match need {
        Need::Bus(bus) => is(device.bus.as_ref(), bus),
        Need::Vendor(vendor) => is(device.vendor.as_ref(), vendor),
        Need::Model(beginning) => {
            let model = device
                .model
                .as_deref()
                .and_then(|model| model.get(..beginning.len()));
            model.is_some_and(|model| model.eq_ignore_ascii_case(beginning))
        }
        Need::Fabric => {
            let transport = nvme.and_then(|nvme| nvme.transport.as_deref());
            transport.is_some_and(|transport| matches!(transport, "tcp" | "rdma" | "fc" | "loop"))
        }
        Need::HostAbove(host) => {
            let address = device.scsi.as_ref().and_then(|scsi| scsi.address);
            address.is_some_and(|[number, ..]| number > host)
        }
        Need::NoLink(beginnings) => {
            let begins = |link: &str| beginnings.iter().any(|beginning| link.starts_with(beginning));
            !device.links.iter().any(|link| begins(link.as_str()))
        }
        Need::CurrentRecord => {
            // Not udev's DISKSEQ: libudev takes that from the kernel, so it is right even where the record is old.
            let sequences =
                recorded_links(device).filter_map(|link| link.strip_prefix("/dev/disk/by-diskseq/"));
            let of_disk =
                sequences.map(|text| device.sequence.is_some_and(|number| text == number.to_string()));
            let namespace = nvme.and_then(|nvme| nvme.namespace);
            let of_namespace = device
                .udev("ID_NSID")
                .map(|text| namespace.is_some_and(|number| text == number.to_string()));
            let known: Vec<_> = of_disk.chain(of_namespace).collect();
            known.contains(&true) && !known.contains(&false)
        }
    }
}
