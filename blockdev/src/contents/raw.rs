//! The bytes at both ends of a device, read by ourselves.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use camino::Utf8Path;
use cstor_zfs::Labels;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::DeviceNumber;

/// How much of each end must be uniform for a device to count as blank. Partition tables, superblocks and labels of all
/// kinds we know are within this, and ZFS itself begins its data no earlier.
const END: u64 = 4 << 20;
/// How much is read at once.
const CHUNK: usize = 1 << 20;
/// What direct reads are aligned to: no sector is larger.
const ALIGNMENT: usize = 4096;

/// What the bytes say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) labels: Labels,
    pub(super) data_at: Option<u64>,
    pub(super) busy: bool,
}

/// Why the bytes say nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("open {path}: {source}")]
    Open { path: String, source: io::Error },
    #[error("read {length} bytes at {offset} of {path}: {source}")]
    Read {
        path: String,
        offset: u64,
        length: usize,
        source: io::Error,
    },
    #[error("{path} is neither a block device nor a file")]
    Kind { path: String },
    #[error("{path} is now the device {found}, and was {expected}")]
    Other {
        path: String,
        found: DeviceNumber,
        expected: DeviceNumber,
    },
}

/// Reads both ends of what is at `path`, which must have this number if it is a device. It blocks, and a dead disk makes
/// it block for ever.
pub(super) fn read(path: &Utf8Path, expected: DeviceNumber) -> Result<Raw, Error> {
    let device = Open::new(path, expected)?;
    let mut raw = Raw {
        data_at: device.data_at()?,
        ..Raw::default()
    };
    if raw.data_at.is_some() {
        raw.labels = Labels::read(device.bytes, |offset, length| device.at(offset, length))
            .map_err(|source| device.failed(0, 0, source))?;
    } else if device.is_block {
        drop(device);
        raw.busy = is_busy(path)?;
    }
    Ok(raw)
}

/// A device or a file, open for reading until this is dropped.
struct Open<'a> {
    path: &'a Utf8Path,
    file: File,
    bytes: u64,
    is_block: bool,
}

impl<'a> Open<'a> {
    fn new(path: &'a Utf8Path, expected: DeviceNumber) -> Result<Self, Error> {
        let failed = |source| Error::Open {
            path: path.to_string(),
            source,
        };
        let file = open(path, OFlags::empty()).map_err(|errno| failed(errno.into()))?;
        let metadata = file.metadata().map_err(failed)?;
        let is_block = metadata.file_type().is_block_device();
        if !is_block && !metadata.is_file() {
            return Err(Error::Kind {
                path: path.to_string(),
            });
        }
        let found = DeviceNumber {
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
        };
        if is_block && found != expected {
            return Err(Error::Other {
                path: path.to_string(),
                found,
                expected,
            });
        }
        if is_block {
            // Past the cache: what it holds may be older than what is on a disk that others write to, and it answers for
            // disks that are dead. A driver that cannot do so is read the other way.
            let _ = rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK | OFlags::DIRECT);
        }
        // The inode of a device knows no size; its end does.
        let bytes =
            rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            path,
            file,
            bytes,
            is_block,
        })
    }

    /// Where the first byte is that makes an end of the device not uniformly 0x00 or 0xff.
    fn data_at(&self) -> Result<Option<u64>, Error> {
        let last = self.bytes.saturating_sub(END) & !(ALIGNMENT as u64 - 1);
        let regions = if last <= END {
            vec![(0, self.bytes)]
        } else {
            vec![(0, END), (last, self.bytes)]
        };
        for (start, end) in regions {
            let mut offset = start;
            let mut fill = None;
            while offset < end {
                let length = usize::try_from(end - offset).unwrap_or(CHUNK).min(CHUNK);
                let chunk = self
                    .at(offset, length)
                    .map_err(|source| self.failed(offset, length, source))?;
                let fill = *fill.get_or_insert(match chunk.first() {
                    Some(0xff) => 0xff,
                    _ => 0x00,
                });
                if let Some(position) = chunk.iter().position(|byte| *byte != fill) {
                    return Ok(Some(offset + position as u64));
                }
                offset += length as u64;
            }
        }
        Ok(None)
    }

    /// Exactly these bytes. What ends early was not read.
    fn at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; length.next_multiple_of(ALIGNMENT) + ALIGNMENT];
        let skip = buffer.as_ptr().align_offset(ALIGNMENT);
        let aligned = buffer
            .get_mut(skip..)
            .and_then(|rest| rest.get_mut(..length.next_multiple_of(ALIGNMENT)))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let mut filled = 0;
        while filled < length {
            let rest = aligned.get_mut(filled..).unwrap_or_default();
            match self.file.read_at(rest, offset + filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(aligned.get(..length).unwrap_or_default().to_vec())
    }

    fn failed(&self, offset: u64, length: usize, source: io::Error) -> Error {
        Error::Read {
            path: self.path.to_string(),
            offset,
            length,
            source,
        }
    }
}

fn open(path: &Utf8Path, more: OFlags) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    rustix::fs::open(path.as_std_path(), flags, Mode::empty()).map(File::from)
}

/// Whether somebody has the device for himself. Nothing is read or written through the descriptor.
fn is_busy(path: &Utf8Path) -> Result<bool, Error> {
    match open(path, OFlags::EXCL) {
        Ok(_closed) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(Error::Open {
            path: path.to_string(),
            source: errno.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;

    const NONE: DeviceNumber = DeviceNumber { major: 0, minor: 0 };
    const MIB: u64 = 1 << 20;

    fn image(bytes: u64) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        file
    }

    fn read_file(file: &NamedTempFile) -> Result<Raw, Error> {
        read(Utf8Path::from_path(file.path()).unwrap(), NONE)
    }

    #[test]
    fn ends_of_zeros_or_ones_are_blank_and_no_other_value_is() {
        for bytes in [
            0,
            1,
            512,
            4096,
            5 * MIB + 512,
            8 * MIB,
            8 * MIB + 512,
            20 * MIB + 3584,
        ] {
            assert_eq!(read_file(&image(bytes)).unwrap(), Raw::default(), "{bytes}");
        }
        for (value, data_at) in [(0xff_u8, None), (0x00, None), (0xaa, Some(0)), (0x01, Some(0))] {
            let file = image(0);
            file.as_file().write_all_at(&vec![value; 6 << 20], 0).unwrap();
            assert_eq!(read_file(&file).unwrap().data_at, data_at, "{value}");
        }
        // One end may have been written, and the other not.
        let file = image(32 * MIB);
        file.as_file().write_all_at(&vec![0xff; 4 << 20], 0).unwrap();
        assert_eq!(read_file(&file).unwrap().data_at, None);
        file.as_file().write_all_at(&[0], 4 * MIB - 1).unwrap();
        assert_eq!(read_file(&file).unwrap().data_at, Some(4 * MIB - 1));
    }

    #[test]
    fn what_is_no_device_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let directory = Utf8Path::from_path(directory.path()).unwrap();
        let pipe = directory.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.as_std_path(),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        for path in [pipe.as_path(), directory, "/dev/null".into()] {
            assert!(matches!(read(path, NONE), Err(Error::Kind { .. })), "{path}");
        }
        assert!(matches!(
            read(&directory.join("absent"), NONE),
            Err(Error::Open { .. })
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any byte in the first or the last 4 MiB, whatever the size.
        #[test]
        fn one_byte_at_either_end_is_found(
            extra in 0..40_000_u64, from_end in any::<bool>(), distance in 0..END, value in 1..=255_u8,
        ) {
            let bytes = 8 * MIB + extra * 512;
            let at = if from_end { bytes - 1 - distance } else { distance };
            let file = image(bytes);
            file.as_file().write_all_at(&[value], at).unwrap();
            let expected = if at == 0 && value == 0xff { 1 } else { at };
            prop_assert_eq!(read_file(&file).unwrap().data_at, Some(expected));
        }
    }
}
