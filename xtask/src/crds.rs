//! The CRD manifests are generated from the Rust types, committed, and checked for drift.

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Writes the manifests, or only checks them.
pub(crate) fn crds(check: bool) -> Result<()> {
    let directory = workspace::crds();
    std::fs::create_dir_all(&directory).with_context(|| format!("make {directory}"))?;
    let manifests = cstor_api::manifests();
    let mut stale = Vec::new();
    for (name, text) in &manifests {
        let path = directory.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            stale.push(name.clone());
            if !check {
                std::fs::write(&path, text).with_context(|| format!("write {path}"))?;
            }
        }
    }
    for entry in directory
        .read_dir_utf8()
        .with_context(|| format!("read {directory}"))?
    {
        let entry = entry.with_context(|| format!("read {directory}"))?;
        if !manifests.iter().any(|(name, _)| name == entry.file_name()) {
            stale.push(entry.file_name().to_owned());
            if !check {
                std::fs::remove_file(entry.path()).with_context(|| format!("remove {}", entry.path()))?;
            }
        }
    }
    if check && !stale.is_empty() {
        bail!(
            "manifests/crds differs from the types ({}): run `cargo xtask crds`",
            stale.join(", ")
        );
    }
    println!("{} CRDs, {} changed", manifests.len(), stale.len());
    Ok(())
}
