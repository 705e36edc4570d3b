//! What is made of the answers: who claims which disk, and what speaks against it.

use std::collections::{BTreeMap, BTreeSet};

use super::matching::{Candidate, Disks, Hit};
use super::{Attachment, Correlation, Host, Match, PUBLISH_PATH, Volume, size_fits};
use crate::device::{Device, DeviceNumber, Kind};

/// Which device each attachment brought, in their order.
///
/// Pure: the same input has the same result. Believe a match when [`super::Settling`] does.
#[must_use]
pub fn correlate(host: &Host<'_>, attachments: &[Attachment]) -> Vec<Correlation> {
    let mut node = Node {
        host,
        disks: Disks::new(host.devices),
        by_number: host
            .devices
            .iter()
            .map(|device| (device.number, device))
            .collect(),
        by_name: host
            .devices
            .iter()
            .map(|device| (device.name.as_str(), device))
            .collect(),
        published: by_device(host),
    };
    let found: Vec<_> = attachments
        .iter()
        .map(|attachment| node.find(attachment))
        .collect();
    let mut claims = Claims::new();
    for (at, (attachment, found)) in attachments.iter().zip(&found).enumerate() {
        for device in &found.devices {
            claims.entry(*device).or_default().push((at, &attachment.name));
        }
    }
    let judged = attachments.iter().zip(found).enumerate();
    judged
        .map(|(at, (attachment, found))| node.judge(at, attachment, found, &claims))
        .collect()
}

/// The volumes as which a device is handed to pods.
fn by_device<'a>(host: &Host<'a>) -> BTreeMap<DeviceNumber, BTreeSet<&'a str>> {
    let mut volumes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (volume, numbers) in host.published {
        for number in numbers {
            volumes.entry(*number).or_default().insert(volume.as_str());
        }
    }
    volumes
}

/// The attachments that may be of a device: which of all, and its name.
type Claims<'a> = BTreeMap<DeviceNumber, Vec<(usize, &'a str)>>;

struct Node<'a> {
    host: &'a Host<'a>,
    disks: Disks<'a>,
    by_number: BTreeMap<DeviceNumber, &'a Device>,
    by_name: BTreeMap<&'a str, &'a Device>,
    published: BTreeMap<DeviceNumber, BTreeSet<&'a str>>,
}

/// What was found for an attachment, before the others are heard.
struct Found {
    /// All devices that may be it, by whatever method.
    devices: BTreeSet<DeviceNumber>,
    outcome: Outcome,
}

enum Outcome {
    /// One disk.
    One(Hit),
    /// Settled already.
    Other(Correlation),
}

impl Found {
    fn other(correlation: Correlation) -> Self {
        Self {
            devices: correlation.devices().iter().copied().collect(),
            outcome: Outcome::Other(correlation),
        }
    }
}

impl Node<'_> {
    fn find(&mut self, attachment: &Attachment) -> Found {
        if attachment.node != self.host.node {
            return Found::other(Correlation::NotAttached {
                message: format!(
                    "the attachment is for node {}, not for {}",
                    attachment.node, self.host.node
                ),
            });
        }
        if !attachment.attached {
            return Found::other(Correlation::NotAttached {
                message: format!(
                    "{} has not attached the volume yet; if it does not, kubectl describe volumeattachment {} says why",
                    attachment.driver, attachment.name
                ),
            });
        }
        let Some(volume) = &attachment.volume else {
            return Found::other(Correlation::NoDevice {
                message: "the PersistentVolume of the attachment does not exist or is not of a CSI driver, so neither the \
                    handle nor the size of the volume is known"
                    .to_owned(),
            });
        };
        let told = self.disks.ask(attachment, volume);
        let numbers: BTreeSet<_> = told.hits.iter().filter_map(|hit| self.number(hit)).collect();
        let mut found = match self.published(attachment, volume, &told.hits) {
            Some(outcome) => Found {
                devices: BTreeSet::new(),
                outcome,
            },
            None => match told.hits.as_slice() {
                [hit] => Found {
                    devices: BTreeSet::new(),
                    outcome: Outcome::One(hit.clone()),
                },
                [] => Found::other(Correlation::NoDevice {
                    message: nothing(self.host.node, attachment, volume, &told.notes, &told.advice),
                }),
                several => Found::other(self.several(volume, several)),
            },
        };
        // Every method's word counts when others claim the device, also where this one is refused.
        found.devices.extend(numbers);
        found.devices.extend(self.handed_out(volume));
        if let Outcome::One(hit) = &found.outcome {
            found.devices.extend(self.number(hit));
        }
        found
    }

    fn handed_out(&self, volume: &Volume) -> BTreeSet<DeviceNumber> {
        // A directory of that name is of another volume if this one is not of mode Block.
        let numbers = volume
            .block_mode
            .then(|| self.host.published.get(&volume.persistent_volume));
        numbers.flatten().into_iter().flatten().copied().collect()
    }

    /// What the kubelet's word and the rows come to together; `None` if the kubelet says nothing.
    fn published(&self, attachment: &Attachment, volume: &Volume, hits: &[Hit]) -> Option<Outcome> {
        let numbers = self.handed_out(volume);
        let number = *numbers.first()?;
        let pv = &volume.persistent_volume;
        if numbers.len() > 1 {
            return Some(Outcome::Other(Correlation::Ambiguous {
                message: format!(
                    "the kubelet hands out several devices as {pv}: {}. Delete the pods that use the volume, and see that \
                     their directories under plugins/kubernetes.io/csi/volumeDevices/publish/{pv} go",
                    self.names(&numbers)
                ),
                candidates: numbers.into_iter().collect(),
            }));
        }
        let mismatch = |message| {
            Some(Outcome::Other(Correlation::Mismatch {
                message,
                device: number,
            }))
        };
        let Some(device) = self.by_number.get(&number) else {
            return mismatch(format!(
                "the kubelet hands out device {number} as {pv}, and there is no such device on the node (any more): delete \
                 the pod that uses the volume"
            ));
        };
        let candidate = self
            .disks
            .candidates
            .iter()
            .position(|disk| disk.device.number == number);
        let Some((at, disk)) = candidate.and_then(|at| Some((at, self.disks.candidates.get(at)?))) else {
            return mismatch(format!(
                "the kubelet hands out {} as {pv}, which is not a whole disk{}",
                device.name,
                if device.kind == Kind::Disk {
                    " but one path to it"
                } else {
                    ""
                }
            ));
        };
        let agrees = hits.iter().find(|hit| hit.candidate == at);
        if agrees.is_some() && hits.len() > 1 {
            return Some(Outcome::Other(self.several(volume, hits)));
        }
        if let Some(hit) = hits.iter().find(|hit| hit.candidate != at) {
            let other = self
                .disks
                .candidates
                .get(hit.candidate)
                .map_or("", |disk| disk.device.name.as_str());
            return mismatch(format!(
                "the kubelet hands out {} as {pv}, but by {} the volume is {other}: delete the pod that uses the volume, \
                 and do not use either disk before they agree",
                device.name, hit.method
            ));
        }
        if agrees.is_none()
            && let Some(method) = self.disks.denial(disk, attachment, volume)
        {
            return mismatch(format!(
                "the kubelet hands out {} as {pv}, but by {method} that disk is not volume {}; it says {:?}. Delete the pod \
                 that uses the volume",
                device.name,
                volume.handle,
                spoken(device).unwrap_or_default()
            ));
        }
        // Where both agree, the row is on record: it still holds when the pod is gone.
        Some(Outcome::One(agrees.cloned().unwrap_or_else(|| Hit {
            candidate: at,
            method: PUBLISH_PATH,
            said: spoken(device),
        })))
    }

    fn several(&self, volume: &Volume, hits: &[Hit]) -> Correlation {
        let candidates: BTreeSet<_> = hits.iter().filter_map(|hit| self.number(hit)).collect();
        let said = hits
            .iter()
            .find_map(|hit| hit.said.as_deref())
            .unwrap_or_default();
        Correlation::Ambiguous {
            message: format!(
                "{} all are volume {} by what they say ({said:?}). Detach those that are not; disks with one name cannot be \
                 told apart",
                self.names(&candidates),
                volume.handle
            ),
            candidates: candidates.into_iter().collect(),
        }
    }

    /// Hears the other attachments, and checks the disk itself.
    fn judge(&self, at: usize, attachment: &Attachment, found: Found, claims: &Claims<'_>) -> Correlation {
        let hit = match found.outcome {
            Outcome::Other(correlation) => return correlation,
            Outcome::One(hit) => hit,
        };
        let (Some(disk), Some(volume)) = (self.disks.candidates.get(hit.candidate), &attachment.volume)
        else {
            return Correlation::NoDevice {
                message: "the disk is gone".to_owned(),
            };
        };
        let device = disk.device;
        let others = claims.get(&device.number).into_iter().flatten();
        let others: Vec<_> = others
            .filter(|(other, _)| *other != at)
            .map(|(_, name)| *name)
            .collect();
        if !others.is_empty() {
            return Correlation::Ambiguous {
                candidates: vec![device.number],
                message: format!(
                    "{} may as well be the disk of {}. If they are of one volume, delete one of them when nobody uses the \
                     disk, since that detaches it; if not, attach the volumes to different nodes",
                    device.name,
                    others.join(", ")
                ),
            };
        }
        match self.objection(disk, volume) {
            Some(message) => Correlation::Mismatch {
                message,
                device: device.number,
            },
            None => Correlation::Matched(Match {
                device: device.number,
                name: device.name.clone(),
                method: hit.method,
                serial: hit.said,
            }),
        }
    }

    /// What speaks against a disk that says it is the volume.
    fn objection(&self, disk: &Candidate<'_>, volume: &Volume) -> Option<String> {
        let device = disk.device;
        let name = &device.name;
        if let Some(volumes) = self.published.get(&device.number) {
            let mine = volume.block_mode.then_some(volume.persistent_volume.as_str());
            let other = volumes.iter().find(|volume| Some(**volume) != mine);
            if let Some(other) = other {
                return Some(format!(
                    "{name} says it is the volume, but the kubelet hands it to a pod as {other}: delete that pod first"
                ));
            }
        }
        let parts = device
            .partitions
            .iter()
            .filter_map(|name| self.by_name.get(name.as_str()).copied());
        for part in std::iter::once(device).chain(parts) {
            if let Some(objection) = self.in_use(device, part, volume) {
                return Some(objection);
            }
        }
        let Some(bytes) = volume.bytes else {
            return Some(format!(
                "{name} says it is the volume, but PersistentVolume {} has no capacity to compare its size with",
                volume.persistent_volume
            ));
        };
        (!size_fits(device.bytes, bytes)).then(|| {
            format!(
                "{name} says it is the volume, but has {} bytes where PersistentVolume {} has {bytes}. If the volume is \
                 being grown, wait until both have their new size; else correct the capacity of the PersistentVolume",
                device.bytes, volume.persistent_volume
            )
        })
    }

    fn in_use(&self, disk: &Device, part: &Device, volume: &Volume) -> Option<String> {
        let name = &part.name;
        let whole = disk.number == part.number;
        let kubelet = |mount: &&crate::device::Mount| {
            // A pod's use of a volume: its node bound (mode Block), or its file system mounted.
            let used_so = mount.file_system.is_none() || !volume.block_mode;
            whole && used_so && mount.point.starts_with(self.host.kubelet)
        };
        if let Some(mount) = part.mounts.iter().find(|mount| !kubelet(mount)) {
            return Some(format!(
                "{name} is mounted at {}, so it is the system's own disk or somebody uses it: a volume of an attachment is \
                 mounted by the kubelet alone",
                mount.point
            ));
        }
        if part.swap {
            return Some(format!("{name} is swapped to, so it is the system's own disk"));
        }
        let held = !part.holders.is_empty() && !self.host.ours.contains(&disk.number);
        held.then(|| {
            format!(
                "{name} says it is the volume, but {} is built on it and not by us: remove that first",
                part.holders.join(", ")
            )
        })
    }

    fn number(&self, hit: &Hit) -> Option<DeviceNumber> {
        Some(self.disks.candidates.get(hit.candidate)?.device.number)
    }

    fn names(&self, numbers: &BTreeSet<DeviceNumber>) -> String {
        let name = |number: &DeviceNumber| {
            let device = self.by_number.get(number);
            device.map_or_else(|| number.to_string(), |device| device.name.clone())
        };
        numbers.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// The best name that a disk has for itself.
fn spoken(device: &Device) -> Option<String> {
    device.serial.clone().or_else(|| device.wwid.clone())
}

fn nothing(
    node: &str,
    attachment: &Attachment,
    volume: &Volume,
    notes: &[String],
    advice: &[&str],
) -> String {
    let mut message = format!(
        "no disk of node {node} is volume {} of {}",
        volume.handle, attachment.driver
    );
    if !notes.is_empty() {
        message = format!("{message}: {}", notes.join("; "));
    }
    for advice in advice {
        message = format!("{message}. {advice}");
    }
    message
}
