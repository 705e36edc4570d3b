//! Where a program is.

use camino::{Utf8Path, Utf8PathBuf};

use crate::{Error, Invocation};

/// Where distributions put programs. Not `$PATH`: what a storage agent runs must not depend on who started it.
const DIRECTORIES: [&str; 6] = [
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
];

/// The `PATH` that a program is given, for the helpers it runs itself (`zpool` runs `zpool.d` scripts, for one).
pub(crate) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin";

/// A program that exists and may be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    path: Utf8PathBuf,
}

impl Program {
    /// Finds `name` in the directories where distributions put programs.
    pub fn find(name: &str) -> Result<Self, Error> {
        Self::find_in(name, DIRECTORIES.iter().map(Utf8PathBuf::from))
    }

    /// Finds `name` by the caller's `$PATH`. For developer tools (`cargo`, `go`) alone.
    pub fn find_in_path(name: &str) -> Result<Self, Error> {
        let path = std::env::var("PATH").unwrap_or_default();
        let own = path
            .split(':')
            .filter(|part| part.starts_with('/'))
            .map(Utf8PathBuf::from);
        Self::find_in(name, own.chain(DIRECTORIES.iter().map(Utf8PathBuf::from)))
    }

    /// The program at `path`, which must be absolute.
    pub fn at(path: impl Into<Utf8PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        if path.is_absolute() && is_executable(&path) {
            Ok(Self { path })
        } else {
            Err(Error::NotFound {
                program: path.into_string(),
            })
        }
    }

    fn find_in(name: &str, directories: impl Iterator<Item = Utf8PathBuf>) -> Result<Self, Error> {
        directories
            .map(|directory| directory.join(name))
            .find(|path| is_executable(path))
            .map(|path| Self { path })
            .ok_or_else(|| Error::NotFound {
                program: name.to_owned(),
            })
    }

    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Starts describing a call of this program.
    pub fn call(&self) -> Invocation {
        Invocation::new(self.path.clone())
    }
}

fn is_executable(path: &Utf8Path) -> bool {
    path.is_file() && rustix::fs::access(path.as_std_path(), rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_program_and_refuses_what_is_none() {
        assert!(Program::find("sh").is_ok());
        assert!(matches!(
            Program::find("no-such-program"),
            Err(Error::NotFound { .. })
        ));
        assert!(matches!(Program::at("/etc/passwd"), Err(Error::NotFound { .. })));
        assert!(matches!(Program::at("bin/sh"), Err(Error::NotFound { .. })));
    }
}
