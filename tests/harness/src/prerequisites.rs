//! What has to be true of the host, found out before any work: each failure is one sentence that says what to do.
//!
//! [`check`] gathers facts and changes nothing; `judge` is pure, so that every sentence has a test.

use std::net::TcpListener;

use anyhow::{Context, Result, bail};
use cstor_exec::Program;

use crate::cache::{CACHE_VARIABLE, Cache};
use crate::packages::{self, Missing, Root};
use crate::{image, kubernetes};

/// The Go that the pinned modules ask for.
const OLDEST_GO: (u32, u32) = (1, 26);

/// What a first run needs on the cache's disk, and a later one.
const SPACE_COLD: u64 = 14 << 30;
const SPACE_WARM: u64 = 4 << 30;

/// What a node takes, and what the rest takes.
const MEMORY_PER_NODE: u64 = 1200 << 20;
const MEMORY_FOR_THE_REST: u64 = 2 << 30;

/// What is wanted of the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// The workspace will be built: agent, controller, suites.
    pub building: bool,
    /// Nodes that will be started.
    pub nodes: u8,
    /// A Kubernetes control plane.
    pub control_plane: bool,
    /// The port its API server is to take, if that was chosen.
    pub api_port: Option<u16>,
}

/// The host is fit, once these packages are installed.
#[derive(Debug)]
pub struct Fit {
    /// What is to be installed.
    pub missing: Missing,
    /// How.
    pub root: Root,
}

/// Finds out whether the host is fit for what is wanted of it.
pub async fn check(cache: &Cache, wanted: Wanted) -> Result<Fit> {
    let needs_go = wanted.control_plane && kubernetes::needs_go(cache)?;
    let needs_image = wanted.nodes > 0 && !image::is_built(cache)?;
    let facts = Facts {
        architecture: std::env::consts::ARCH,
        go: if needs_go {
            installed_go().await?
        } else {
            Go::NotNeeded
        },
        missing: packages::missing(wanted.building, wanted.nodes > 0).await?,
        root: packages::root().await,
        apt: Program::find("apt-get").is_ok(),
        builds_images: !needs_image || may_build_images(),
        cold: needs_go || needs_image,
        place: cache.root().to_string(),
        space: free_space(cache)?,
        memory: available_memory()?,
        taken: wanted
            .api_port
            .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_err()),
    };
    judge(&facts, wanted)?;
    Ok(Fit {
        missing: facts.missing,
        root: facts.root,
    })
}

#[derive(Debug, Clone)]
enum Go {
    NotNeeded,
    Absent,
    Installed { path: String, version: String },
}

#[derive(Debug, Clone)]
struct Facts {
    architecture: &'static str,
    go: Go,
    missing: Missing,
    root: Root,
    apt: bool,
    /// The image is there, or this user may build it: only root and users with a range of ids can.
    builds_images: bool,
    /// The image or the Kubernetes programs have to be built.
    cold: bool,
    place: String,
    space: u64,
    memory: u64,
    /// The port that was asked for, if somebody has it.
    taken: Option<u16>,
}

fn judge(facts: &Facts, wanted: Wanted) -> Result<()> {
    if facts.architecture != "x86_64" {
        bail!(
            "the cluster in a box runs on x86-64 alone so far, and this is {}",
            facts.architecture
        );
    }
    let (major, minor) = OLDEST_GO;
    let advice = format!("install Go {major}.{minor} or newer and put it into your PATH");
    match &facts.go {
        Go::Absent => bail!("Kubernetes is built with Go, and there is none: {advice}"),
        Go::Installed { path, version } if go_version(version).is_none_or(|version| version < OLDEST_GO) => {
            bail!("{path} is {version}, which is too old to build Kubernetes: {advice}")
        }
        Go::NotNeeded | Go::Installed { .. } => {}
    }
    if !facts.missing.is_empty() {
        let names = facts.missing.names();
        if !facts.apt {
            bail!("{names} must be installed, and this system has no apt-get: install it by hand");
        }
        if facts.root == Root::No {
            bail!(
                "{names} must be installed, which takes root: run this as root, or set up sudo without a password"
            );
        }
    }
    if !facts.builds_images {
        bail!(
            "building the node image takes a range of user ids: add one by `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`"
        );
    }
    let needed = if facts.cold { SPACE_COLD } else { SPACE_WARM };
    if facts.space < needed {
        bail!(
            "{} has {} GiB free and {} GiB are needed: make room, or set {CACHE_VARIABLE} to a directory on a larger disk",
            facts.place,
            facts.space >> 30,
            needed >> 30,
        );
    }
    let needed = MEMORY_FOR_THE_REST + MEMORY_PER_NODE * u64::from(wanted.nodes);
    if facts.memory < needed {
        bail!(
            "{} nodes need {} MiB of memory and {} MiB are available: end something else, or ask for fewer nodes where the command has --nodes",
            wanted.nodes,
            needed >> 20,
            facts.memory >> 20,
        );
    }
    if let Some(port) = facts.taken {
        bail!("port {port} is taken: choose another by --api-port, or leave it out");
    }
    Ok(())
}

/// Whether this user is root or has a range in `/etc/subuid`.
fn may_build_images() -> bool {
    let user = rustix::process::geteuid();
    let name = std::env::var("USER").unwrap_or_default();
    let ranges = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    let mut owners = ranges.lines().filter_map(|line| line.split(':').next());
    user.is_root() || owners.any(|owner| owner == name || owner == user.as_raw().to_string())
}

async fn installed_go() -> Result<Go> {
    let Ok(go) = Program::find_in_path("go") else {
        return Ok(Go::Absent);
    };
    let output = go
        .call()
        .inherit_env()
        .env("GOTOOLCHAIN", "local")
        .args(["env", "GOVERSION"])
        .run()
        .await?;
    Ok(Go::Installed {
        path: go.path().to_string(),
        version: output.stdout.trim().to_owned(),
    })
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("go")?.split('.');
    let minor: String = parts
        .clone()
        .nth(1)?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((parts.next()?.parse().ok()?, minor.parse().ok()?))
}

fn free_space(cache: &Cache) -> Result<u64> {
    let system = rustix::fs::statvfs(cache.root().as_std_path())
        .with_context(|| format!("look at {}", cache.root()))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

fn available_memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let available = text.lines().find_map(|line| {
        let kib: u64 = line
            .strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()?;
        Some(kib << 10)
    });
    available.context("/proc/meminfo does not tell the available memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted {
        building: true,
        nodes: 3,
        control_plane: true,
        api_port: Some(6443),
    };

    /// A host that is fit.
    fn facts() -> Facts {
        Facts {
            architecture: "x86_64",
            go: Go::Installed {
                path: "/opt/go/bin/go".into(),
                version: "go1.26.8".into(),
            },
            missing: Missing::of(&["mmdebstrap"], None),
            root: Root::BySudo,
            apt: true,
            builds_images: true,
            cold: true,
            place: "/cache".into(),
            space: 20 << 30,
            memory: 16 << 30,
            taken: None,
        }
    }

    fn sentence(facts: &Facts) -> String {
        judge(facts, WANTED).unwrap_err().to_string()
    }

    #[test]
    fn a_fit_host_is_fit() {
        judge(&facts(), WANTED).unwrap();
        let warm = Facts {
            go: Go::NotNeeded,
            missing: Missing::default(),
            root: Root::No,
            apt: false,
            ..facts()
        };
        judge(
            &Facts {
                cold: false,
                space: 5 << 30,
                ..warm
            },
            WANTED,
        )
        .unwrap();
    }

    #[test]
    fn each_shortcoming_is_told_with_what_to_do() {
        let missing = Missing::of(&[], Some(7));
        let told = sentence(&Facts {
            missing,
            root: Root::No,
            ..facts()
        });
        assert!(
            told.contains("qemu-system-x86 10 or newer (version 7 breaks guests)"),
            "{told}"
        );
        let told = sentence(&Facts {
            builds_images: false,
            ..facts()
        });
        assert!(told.contains("usermod --add-subuids"), "{told}");
        assert!(
            sentence(&Facts {
                architecture: "aarch64",
                ..facts()
            })
            .contains("x86-64 alone")
        );
        assert!(
            sentence(&Facts {
                go: Go::Absent,
                ..facts()
            })
            .ends_with("put it into your PATH")
        );
        let old = Go::Installed {
            path: "/usr/bin/go".into(),
            version: "go1.19.8".into(),
        };
        let told = sentence(&Facts { go: old, ..facts() });
        assert!(
            told.contains("go1.19.8") && told.contains("install Go 1.26 or newer"),
            "{told}"
        );
        let told = sentence(&Facts {
            root: Root::No,
            ..facts()
        });
        assert!(
            told.contains("mmdebstrap") && told.contains("run this as root, or set up sudo"),
            "{told}"
        );
        assert!(
            sentence(&Facts {
                apt: false,
                ..facts()
            })
            .contains("install it by hand")
        );
        assert!(
            sentence(&Facts {
                space: 13 << 30,
                ..facts()
            })
            .contains("make room, or set CSTOR_CACHE")
        );
        assert!(
            sentence(&Facts {
                cold: false,
                space: 1 << 30,
                ..facts()
            })
            .contains("4 GiB are needed")
        );
        assert!(
            sentence(&Facts {
                memory: 2 << 30,
                ..facts()
            })
            .contains("end something else, or ask for fewer nodes")
        );
        assert!(
            sentence(&Facts {
                taken: Some(6443),
                ..facts()
            })
            .contains("choose another by --api-port")
        );
    }

    #[test]
    fn go_versions() {
        assert_eq!(go_version("go1.26.8"), Some((1, 26)));
        assert_eq!(go_version("go1.27rc1"), Some((1, 27)));
        assert_eq!(go_version("devel"), None);
    }
}
