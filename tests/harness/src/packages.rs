//! The Debian packages that the host needs, installed by us.
//!
//! QEMU 7, which Debian 12 ships, corrupts guests under emulation; there it comes from the backports suite, by a
//! package source that is used for this one call and not added to the host's own.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::Utf8Path;
use cstor_exec::{Invocation, Program};

use crate::cache::{Cache, remove_tree};
use crate::progress::Progress;

/// The oldest QEMU that runs our guests right.
const OLDEST_QEMU: u32 = 10;

const INSTALL_WITHIN: Duration = Duration::from_secs(30 * 60);

/// What a package is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Building the workspace.
    Building,
    /// Making and running nodes.
    Nodes,
    /// Making the image as a user who is not root.
    Users,
}

/// What shows that a package is installed.
#[derive(Debug, Clone, Copy)]
enum Sign {
    Program(&'static str),
    File(&'static str),
}

impl Sign {
    fn is_there(self) -> bool {
        match self {
            Self::Program(name) => Program::find(name).is_ok(),
            Self::File(path) => Utf8Path::new(path).is_file(),
        }
    }
}

/// What we need, how it is recognised, and the package it is in. QEMU is apart: its version matters.
const NEEDED: [(For, Sign, &str); 8] = [
    (For::Building, Sign::Program("pkg-config"), "pkgconf"),
    (For::Building, Sign::File("/usr/include/libudev.h"), "libudev-dev"),
    (For::Nodes, Sign::Program("qemu-img"), "qemu-utils"),
    (For::Nodes, Sign::Program("mmdebstrap"), "mmdebstrap"),
    (For::Nodes, Sign::Program("mke2fs"), "e2fsprogs"),
    (For::Nodes, Sign::Program("ssh"), "openssh-client"),
    (For::Nodes, Sign::Program("ssh-keygen"), "openssh-client"),
    (For::Users, Sign::Program("newuidmap"), "uidmap"),
];

const QEMU: (&str, &str) = ("qemu-system-x86_64", "qemu-system-x86");

/// What is missing on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    packages: Vec<&'static str>,
    qemu: bool,
    /// The QEMU that is there, if it is too old.
    old_qemu: Option<u32>,
}

impl Missing {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && !self.qemu
    }

    #[cfg(test)]
    pub(crate) fn of(packages: &[&'static str], old_qemu: Option<u32>) -> Self {
        Self {
            packages: packages.to_vec(),
            qemu: old_qemu.is_some(),
            old_qemu,
        }
    }

    /// The packages, for people.
    #[must_use]
    pub fn names(&self) -> String {
        let mut names: Vec<_> = self.packages.iter().map(|&name| name.to_owned()).collect();
        if self.qemu {
            let old = self
                .old_qemu
                .map(|old| format!(" {OLDEST_QEMU} or newer (version {old} breaks guests)"));
            names.push(format!("{}{}", QEMU.1, old.unwrap_or_default()));
        }
        names.join(", ")
    }
}

/// Looks for what is missing, for building the workspace and for nodes.
pub async fn missing(building: bool, nodes: bool) -> Result<Missing> {
    let user = !rustix::process::geteuid().is_root();
    let packages = packages(
        |what| match what {
            For::Building => building,
            For::Nodes => nodes,
            For::Users => nodes && user,
        },
        Sign::is_there,
    );
    if !nodes {
        return Ok(Missing {
            packages,
            ..Missing::default()
        });
    }
    let installed = installed_qemu().await?;
    let old_qemu = installed.filter(|version| *version < OLDEST_QEMU);
    Ok(Missing {
        packages,
        qemu: installed.is_none() || old_qemu.is_some(),
        old_qemu,
    })
}

/// The packages whose sign is not there, each once.
fn packages(wanted: impl Fn(For) -> bool, is_there: impl Fn(Sign) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> = NEEDED
        .iter()
        .filter(|(what, sign, _)| wanted(*what) && !is_there(*sign))
        .map(|(_, _, package)| *package)
        .collect();
    packages.dedup();
    packages
}

/// The major version of the installed QEMU.
async fn installed_qemu() -> Result<Option<u32>> {
    let Ok(qemu) = Program::find(QEMU.0) else {
        return Ok(None);
    };
    let output = qemu.call().arg("--version").run().await?;
    let version = output
        .stdout
        .split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1);
    let major = version.and_then(|version| version.split('.').next()?.parse().ok());
    Ok(Some(major.with_context(|| {
        format!("understand QEMU's version {:?}", output.stdout)
    })?))
}

/// How to become root: not at all, by `sudo`, or impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// We are root.
    Already,
    /// `sudo` works without a password.
    BySudo,
    /// There is no way.
    No,
}

/// Finds out how to become root.
pub async fn root() -> Root {
    if rustix::process::geteuid().is_root() {
        return Root::Already;
    }
    let Ok(sudo) = Program::find("sudo") else {
        return Root::No;
    };
    if sudo.call().args(["-n", "true"]).run().await.is_ok() {
        Root::BySudo
    } else {
        Root::No
    }
}

/// Installs what is missing.
pub async fn install(cache: &Cache, progress: &Progress, missing: &Missing, root: Root) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let step = progress.step(format!("installing {}", missing.names()));
    let note = |_, line: &str| step.note(line);
    // An earlier run may have been cut off in the middle of an installation.
    as_root(root, "dpkg")?
        .args(["--configure", "-a"])
        .deadline(INSTALL_WITHIN)
        .run_lines(note)
        .await?;
    apt(root, &["update"])?
        .run_lines(note)
        .await
        .context("refresh the package lists")?;
    if !missing.packages.is_empty() {
        let call = apt(root, &["install", "--yes", "--no-install-recommends"])?
            .args(missing.packages.iter().copied());
        call.run_lines(note).await.context("install packages")?;
    }
    if missing.qemu {
        install_qemu(cache, root, note).await.context("install QEMU")?;
    }
    step.done();
    Ok(())
}

async fn install_qemu(
    cache: &Cache,
    root: Root,
    note: impl FnMut(cstor_exec::Stream, &str) + Send + Copy,
) -> Result<()> {
    let install = ["install", "--yes", "--no-install-recommends", QEMU.1];
    if candidate_qemu().await? >= OLDEST_QEMU {
        apt(root, &install)?.run_lines(note).await?;
        return Ok(());
    }
    let sources = cache.root().join(format!("apt-{}", std::process::id()));
    let result = install_from_backports(&sources, root, note).await;
    as_root(root, "rm")?.args(["-rf", sources.as_str()]).run().await?;
    remove_tree(&sources)?;
    result
}

async fn install_from_backports(
    sources: &Utf8Path,
    root: Root,
    note: impl FnMut(cstor_exec::Stream, &str) + Send + Copy,
) -> Result<()> {
    let (suite, source) = backports().await?;
    let parts = sources.join("parts");
    std::fs::create_dir_all(&parts).with_context(|| format!("make {parts}"))?;
    std::fs::create_dir_all(sources.join("lists/partial")).with_context(|| format!("make {sources}"))?;
    // The host's own sources stay in use beside it, for what QEMU depends on.
    let own = Utf8Path::new("/etc/apt/sources.list.d");
    for entry in own.read_dir_utf8().into_iter().flatten().filter_map(Result::ok) {
        let to = parts.join(entry.file_name());
        std::fs::copy(entry.path(), &to).with_context(|| format!("copy {}", entry.path()))?;
    }
    std::fs::write(parts.join("cstor-backports.sources"), source).context("write a package source")?;
    let with = [
        "-o".to_owned(),
        format!("Dir::Etc::SourceParts={parts}"),
        "-o".to_owned(),
        format!("Dir::State::Lists={sources}/lists"),
    ];
    apt(root, &["update"])?.args(with.clone()).run_lines(note).await?;
    let call = apt(
        root,
        &[
            "install",
            "--yes",
            "--no-install-recommends",
            "--target-release",
            &suite,
        ],
    )?;
    call.args(with)
        .args([QEMU.1, "qemu-utils"])
        .run_lines(note)
        .await?;
    Ok(())
}

/// The major version of QEMU that the host's own package sources offer.
async fn candidate_qemu() -> Result<u32> {
    let cache = Program::find("apt-cache")?;
    let output = cache.call().args(["policy", QEMU.1]).run().await?;
    let candidate = output
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "));
    // A Debian version may begin with an epoch: 1:10.0.2+ds-2.
    let version = candidate.map(|version| version.split_once(':').map_or(version, |(_, rest)| rest));
    Ok(version
        .and_then(|version| version.split('.').next()?.parse().ok())
        .unwrap_or(0))
}

/// The backports suite of this Debian and a source for it, at the mirror that the host uses.
async fn backports() -> Result<(String, String)> {
    let release = std::fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let field = |name: &str| {
        let line = release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let codename = field("VERSION_CODENAME").context("/etc/os-release names no VERSION_CODENAME")?;
    if field("ID").as_deref() != Some("debian") {
        bail!(
            "QEMU {OLDEST_QEMU} or newer is needed, and this system's package sources have none: install it by hand"
        );
    }
    let get = Program::find("apt-get")?;
    let format = "$(CODENAME) $(REPO_URI)";
    let targets = get
        .call()
        .args(["indextargets", "--format", format, "Created-By: Packages"])
        .run()
        .await?;
    let mirror = targets
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{codename} ")));
    let mirror =
        mirror.with_context(|| format!("the package sources of this system do not have {codename}"))?;
    let suite = format!("{codename}-backports");
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let source =
        format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: {keyring}\n");
    Ok((suite, source))
}

fn apt(root: Root, args: &[&str]) -> Result<Invocation> {
    let call = as_root(root, "apt-get")?
        .args(["-o", "DPkg::Lock::Timeout=600"])
        .args(args.iter().copied());
    Ok(call.deadline(INSTALL_WITHIN))
}

fn as_root(root: Root, program: &str) -> Result<Invocation> {
    let program = Program::find(program)?;
    Ok(match root {
        Root::Already => program.call().env("DEBIAN_FRONTEND", "noninteractive"),
        Root::BySudo => Program::find("sudo")?.call().args([
            "-n",
            "DEBIAN_FRONTEND=noninteractive",
            program.path().as_str(),
        ]),
        Root::No => bail!(
            "only root can run {}: run this as root, or install sudo",
            program.path()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_by_what_it_is_for() {
        let (nothing, all) = (|_: Sign| false, |_: Sign| true);
        let building = |what: For| what == For::Building;
        assert_eq!(packages(building, nothing), ["pkgconf", "libudev-dev"]);
        assert_eq!(packages(building, all), [] as [&str; 0]);
        let no_header = |sign: Sign| matches!(sign, Sign::Program(_));
        assert_eq!(packages(|_| true, no_header), ["libudev-dev"]);
        let nodes = packages(|what| what == For::Nodes, nothing);
        assert_eq!(nodes, ["qemu-utils", "mmdebstrap", "e2fsprogs", "openssh-client"]);
    }

    #[test]
    fn a_file_is_a_sign_when_it_is_there() {
        assert!(Sign::File(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).is_there());
        assert!(!Sign::File(concat!(env!("CARGO_MANIFEST_DIR"), "/no-such-file.h")).is_there());
        assert!(!Sign::File(env!("CARGO_MANIFEST_DIR")).is_there());
    }
}
