//! What is expensive to build, kept outside the checkout and shared by every checkout on the machine.
//!
//! An entry is a directory named after its kind and a digest of everything it was built from, so it never has to be
//! invalidated: other inputs are another entry.
//!
//! # Guarantees
//!
//! - An entry that exists is complete: it is built beside its place and moved there in one rename.
//! - Two processes that want the same entry build it once; the second waits for the first.
//! - A build that was interrupted leaves nothing that a later build would mistake for its own.

use std::fs::{File, TryLockError};
use std::time::Duration;

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Program;
use sha2::{Digest, Sha256};

use crate::progress::{Progress, Step};

/// Names the directory of the cache; by default it is `cstor-rs` in the user's cache directory.
pub const CACHE_VARIABLE: &str = "CSTOR_CACHE";

/// What the name of a directory ends in while it is being filled.
const PARTIAL: &str = "partial";

/// A digest of what an entry is built from.
#[derive(Debug, Clone, Default)]
pub struct Key(Sha256);

impl Key {
    /// A key of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input. Each is framed by its length, so that no two lists of inputs read alike.
    #[must_use]
    pub fn with(mut self, input: impl AsRef<[u8]>) -> Self {
        let input = input.as_ref();
        self.0.update(input.len().to_le_bytes());
        self.0.update(input);
        self
    }

    /// Adds the content of a file.
    pub fn with_file(self, path: &Utf8Path) -> Result<Self> {
        let content = std::fs::read(path).with_context(|| format!("read {path}"))?;
        Ok(self.with(content))
    }

    /// The digest in eight digits, for a name that only has to differ from a few others.
    #[must_use]
    pub fn short(self) -> String {
        let mut digest = self.digest();
        digest.truncate(8);
        digest
    }

    fn digest(self) -> String {
        self.0
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The cache.
#[derive(Debug, Clone)]
pub struct Cache {
    root: Utf8PathBuf,
}

impl Cache {
    /// The cache of this user, made if it is not there yet.
    pub fn open() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| value.starts_with('/'));
        let root = variable(CACHE_VARIABLE)
            .or_else(|| variable("XDG_CACHE_HOME").map(|base| format!("{base}/cstor-rs")))
            .or_else(|| variable("HOME").map(|home| format!("{home}/.cache/cstor-rs")))
            .with_context(|| format!("no place for the cache: set {CACHE_VARIABLE} to a directory"))?;
        Self::at(root)
    }

    /// The cache in `root`.
    pub fn at(root: impl Into<Utf8PathBuf>) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root).with_context(|| format!("make the cache directory {root}"))?;
        Ok(Self { root })
    }

    /// The directory of the cache.
    #[must_use]
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// The entry of this kind and key, if it has been built.
    #[must_use]
    pub fn find(&self, kind: &str, key: &Key) -> Option<Utf8PathBuf> {
        let place = self.place(kind, key);
        place.is_dir().then_some(place)
    }

    fn place(&self, kind: &str, key: &Key) -> Utf8PathBuf {
        self.root.join(format!("{kind}-{}", key.clone().digest()))
    }

    /// The entry of this kind and key; `build` fills the directory it is given, if it has not been built yet.
    pub async fn entry(
        &self,
        kind: &str,
        key: &Key,
        step: &Step,
        build: impl AsyncFnOnce(&Utf8Path) -> Result<()>,
    ) -> Result<Utf8PathBuf> {
        let place = self.place(kind, key);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self
            .lock(step.progress(), place.file_name().unwrap_or(kind))
            .await?;
        if place.is_dir() {
            return Ok(place);
        }
        // We hold the lock, so whatever is half built here was left by somebody who is gone.
        let partial = place.with_added_extension(PARTIAL);
        remove_any_tree(&partial).await?;
        std::fs::create_dir_all(&partial).with_context(|| format!("make {partial}"))?;
        build(&partial).await?;
        std::fs::rename(&partial, &place).with_context(|| format!("move {partial} to {place}"))?;
        Ok(place)
    }

    /// Takes the lock of this name, waiting for whoever has it. It is released when the file is dropped, or by the
    /// operating system when its holder ends, however that ends.
    pub async fn lock(&self, progress: &Progress, name: &str) -> Result<File> {
        let mut waiting: Option<Step> = None;
        loop {
            if let Some(lock) = self.try_lock(name)? {
                if let Some(step) = waiting {
                    step.done();
                }
                return Ok(lock);
            }
            waiting.get_or_insert_with(|| progress.step("waiting for another run that is doing the same"));
            // Asking again keeps this cancellable; a blocking wait for the lock would not be.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Takes the lock of this name, if nobody has it.
    ///
    /// Lock files stay: removing one that somebody is about to lock would give the same lock to two.
    fn try_lock(&self, name: &str) -> Result<Option<File>> {
        let locks = self.root.join("locks");
        std::fs::create_dir_all(&locks).with_context(|| format!("make {locks}"))?;
        let path = locks.join(name);
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("open {path}"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {path}")),
        }
    }

    /// Removes what interrupted builds have left half done.
    pub async fn remove_partial(&self) -> Result<()> {
        for (path, name) in self.partial()? {
            if let Some(_lock) = self.try_lock(&name)? {
                remove_any_tree(&path).await?;
            }
        }
        Ok(())
    }

    /// What interrupted builds have left half done, and not what somebody is building.
    pub(crate) fn abandoned_partial(&self) -> Result<Vec<Utf8PathBuf>> {
        let mut found = Vec::new();
        for (path, name) in self.partial()? {
            // Who had the lock may have finished meanwhile.
            if self.try_lock(&name)?.is_some() && path.exists() {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// What is half built, each with the name of its lock.
    fn partial(&self) -> Result<Vec<(Utf8PathBuf, String)>> {
        let mut found = Vec::new();
        let entries = self.root.read_dir_utf8();
        for entry in entries.with_context(|| format!("read {}", self.root))? {
            let path = entry.with_context(|| format!("read {}", self.root))?.into_path();
            if let (Some(name), Some(PARTIAL)) = (path.file_stem(), path.extension()) {
                found.push((path.clone(), name.to_owned()));
            }
        }
        Ok(found)
    }
}

/// Removes a directory and what is in it, also what a build in a user namespace has left under ids of its own.
async fn remove_any_tree(path: &Utf8Path) -> Result<()> {
    let result = remove_tree(path);
    if result.is_ok() || rustix::process::geteuid().is_root() {
        return result;
    }
    let unshare = Program::find("unshare")?
        .call()
        .args(["--user", "--map-root-user", "--map-auto"]);
    unshare
        .args(["rm", "-rf", path.as_str()])
        .run()
        .await
        .with_context(|| format!("remove {path}"))?;
    Ok(())
}

/// Removes a directory and what is in it; one that is not there is fine.
pub fn remove_tree(path: &Utf8Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {path}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> Cache {
        let root = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap();
        let root = root.join(format!("cstor-cache-{name}-{}", std::process::id()));
        remove_tree(&root).unwrap();
        Cache::at(root).unwrap()
    }

    #[test]
    fn keys_tell_inputs_apart() {
        let digest = |inputs: &[&str]| {
            inputs
                .iter()
                .fold(Key::new(), |key, input| key.with(input))
                .digest()
        };
        assert_eq!(digest(&["ab", "c"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }

    #[tokio::test]
    async fn builds_once_and_never_keeps_a_failed_build() {
        let cache = cache("once");
        let (key, step) = (Key::new().with("x"), Progress::silent().step("test"));
        let failed = cache
            .entry("thing", &key, &step, async |directory| {
                std::fs::write(directory.join("half"), "half")?;
                anyhow::bail!("interrupted")
            })
            .await;
        assert!(failed.is_err() && cache.find("thing", &key).is_none());
        let partial = || {
            cache
                .root()
                .read_dir_utf8()
                .unwrap()
                .filter(|it| it.as_ref().unwrap().path().extension().is_some())
                .count()
        };
        assert_eq!(partial(), 1);
        let built = cache
            .entry("thing", &key, &step, async |directory| {
                assert!(!directory.join("half").exists());
                Ok(std::fs::write(directory.join("whole"), "whole")?)
            })
            .await
            .unwrap();
        assert_eq!(std::fs::read_to_string(built.join("whole")).unwrap(), "whole");
        assert_eq!(partial(), 0);
        let again = cache
            .entry("thing", &key, &step, async |_| panic!("built twice"))
            .await
            .unwrap();
        assert_eq!(built, again);
        remove_tree(cache.root()).unwrap();
    }

    #[tokio::test]
    async fn what_is_half_built_is_removed_unless_somebody_is_at_it() {
        let cache = cache("partial");
        let step = Progress::silent().step("test");
        let held = cache
            .entry("thing", &Key::new(), &step, async |directory| {
                cache.remove_partial().await?;
                assert!(directory.is_dir() && cache.abandoned_partial()?.is_empty());
                anyhow::bail!("interrupted")
            })
            .await;
        assert!(held.is_err());
        assert_eq!(cache.abandoned_partial().unwrap().len(), 1);
        cache.remove_partial().await.unwrap();
        let left: Vec<_> = cache
            .root()
            .read_dir_utf8()
            .unwrap()
            .map(|it| it.unwrap().file_name().to_owned())
            .collect();
        assert_eq!(left, ["locks"]);
        remove_tree(cache.root()).unwrap();
    }

    #[tokio::test]
    async fn two_who_want_the_same_build_it_once() {
        let cache = cache("twice");
        let (key, step) = (Key::new(), Progress::silent().step("test"));
        let count = std::sync::atomic::AtomicUsize::new(0);
        let build = || {
            cache.entry("thing", &key, &step, async |_| {
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(())
            })
        };
        let (one, two) = tokio::join!(build(), build());
        assert_eq!(one.unwrap(), two.unwrap());
        assert_eq!(count.into_inner(), 1);
        remove_tree(cache.root()).unwrap();
    }
}
