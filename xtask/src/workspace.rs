//! Where things are in this checkout.

use anyhow::Result;
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Invocation, Program};

/// The root of the checkout.
pub(crate) fn root() -> &'static Utf8Path {
    let own = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Where the CRD manifests are.
pub(crate) fn crds() -> Utf8PathBuf {
    root().join("manifests/crds")
}

/// Where the logs of an `up` that failed are kept.
pub(crate) fn up_logs() -> Utf8PathBuf {
    root().join("target/up-logs")
}

/// Where the logs of failed tests are kept.
pub(crate) fn test_logs() -> Utf8PathBuf {
    root().join("target/test-logs")
}

/// What cargo tells the program it runs of its package. Handed on to another cargo, it makes build scripts believe that
/// something has changed, and half of what is built is built again.
const OF_OUR_PACKAGE: [&str; 6] = [
    "CARGO_PKG_*",
    "CARGO_MANIFEST_*",
    "CARGO_BIN_*",
    "CARGO_CRATE_NAME",
    "CARGO_PRIMARY_PACKAGE",
    "LD_LIBRARY_PATH",
];

/// A call of cargo in this checkout, as a person makes it.
pub(crate) fn cargo() -> Result<Invocation> {
    let call = Program::find_in_path("cargo")?
        .call()
        .inherit_env()
        .directory(root());
    Ok(OF_OUR_PACKAGE
        .iter()
        .fold(call, |call, name| call.without_env(*name)))
}
