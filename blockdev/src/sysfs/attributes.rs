//! The files of a directory in sysfs, each of which holds one value.

use std::io::ErrorKind;
use std::str::FromStr;

use camino::Utf8PathBuf;
use rustix::io::Errno;

use super::{Error, SECTOR};

/// Values longer than this are none of ours.
const LONGEST: usize = 4096;

#[derive(Debug)]
pub(super) struct Attributes {
    directory: Utf8PathBuf,
}

impl Attributes {
    pub(super) fn of(directory: Utf8PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn has(&self, name: &str) -> Result<bool, Error> {
        match self.directory.join(name).metadata() {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(source) => Err(self.failed(name, source)),
        }
    }

    /// The bytes of a file, or `None` if the device has no such value. That it could not be read says nothing of whether
    /// it has.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match std::fs::read(self.directory.join(name)) {
            Ok(mut bytes) => {
                bytes.truncate(LONGEST);
                Ok(Some(bytes))
            }
            Err(error) if is_no_value(&error) => Ok(None),
            Err(source) => Err(self.failed(name, source)),
        }
    }

    /// A text, trimmed, in visible characters; `None` if there is none.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.bytes(name)?.and_then(|bytes| visible(&bytes)))
    }

    /// The first text of some files.
    pub(super) fn first(&self, names: &[&str]) -> Result<Option<String>, Error> {
        for name in names {
            if let Some(text) = self.text(name)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// A text that tells nothing of which device it is, and is left out if it cannot be read.
    pub(super) fn beside(&self, name: &str) -> Option<String> {
        self.text(name).ok().flatten()
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.text(name)?.as_deref() == Some("1"))
    }

    /// A number, if the device has it.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(content) = self.text(name)? else {
            return Ok(None);
        };
        content.parse().map(Some).map_err(|_| Error::Malformed {
            path: self.directory.join(name),
            content,
            expected: "a number",
        })
    }

    /// A value that every device has.
    pub(super) fn parse<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<T, Error> {
        let path = self.directory.join(name);
        let content = std::fs::read_to_string(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        content.trim().parse().map_err(|_| Error::Malformed {
            path,
            content,
            expected,
        })
    }

    /// A number of sectors, in bytes.
    pub(super) fn sectors(&self, name: &str) -> Result<u64, Error> {
        let sectors: u64 = self.parse(name, "a number of sectors")?;
        sectors.checked_mul(SECTOR).ok_or_else(|| Error::Malformed {
            path: self.directory.join(name),
            content: sectors.to_string(),
            expected: "a number of sectors",
        })
    }

    /// The name of what a link leads to; `None` if there is no link.
    pub(super) fn link(&self, name: &str) -> Result<Option<String>, Error> {
        match self.directory.join(name).read_link_utf8() {
            Ok(target) => Ok(target.file_name().map(str::to_owned)),
            // Invalid: it is something else than a link.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(self.failed(name, source)),
        }
    }

    /// The names in a directory, sorted; none if it is not there. What cannot be listed is an error and never a shorter
    /// list.
    pub(super) fn children(&self, name: &str) -> Result<Vec<String>, Error> {
        let failed = |source| self.failed(name, source);
        let entries = match self.directory.join(name).read_dir_utf8() {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(failed)?.file_name().to_owned());
        }
        names.sort();
        Ok(names)
    }

    fn failed(&self, name: &str, source: std::io::Error) -> Error {
        Error::Read {
            path: self.directory.join(name),
            source,
        }
    }
}

/// Whether this is how the kernel says that a device does not have a value, as opposed to that it could not be read.
fn is_no_value(error: &std::io::Error) -> bool {
    // A SCSI unit without page 83 answers a reading of its id by ENXIO, one without a page that of the page by EINVAL; a
    // virtio disk that has no serial number by EOPNOTSUPP.
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::INVAL | Errno::NODATA | Errno::OPNOTSUPP | Errno::NXIO)
    )
}

/// The text in some bytes, without the blanks and NULs around it; what is not visible ASCII is written `\xNN`, so that
/// no two texts of different bytes are the same.
pub(super) fn visible(bytes: &[u8]) -> Option<String> {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let begin = bytes.iter().position(|byte| !blank(byte))?;
    let end = bytes.iter().rposition(|byte| !blank(byte))?;
    let mut text = String::new();
    for byte in bytes.get(begin..=end)? {
        match byte {
            b'\\' => text.push_str("\\x5c"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_that_there_is_no_value_is_none() {
        let told = |errno: Errno| is_no_value(&errno.into());
        for errno in [
            Errno::NOENT,
            Errno::INVAL,
            Errno::NODATA,
            Errno::OPNOTSUPP,
            Errno::NXIO,
        ] {
            assert!(told(errno), "{errno}");
        }
        for errno in [
            Errno::IO,
            Errno::NOMEM,
            Errno::TIMEDOUT,
            Errno::NODEV,
            Errno::ACCESS,
            Errno::INTR,
            Errno::BUSY,
        ] {
            assert!(!told(errno), "{errno}");
        }
        assert!(!is_no_value(&std::io::Error::other("unknown")));
    }
}
