//! The image that storage nodes start from: Debian 13 with OpenZFS, made small and quick to boot.
//!
//! Two entries of the cache, so that a change of the second does not repeat the first:
//!
//! - `rootfs`: the system, made by `vagrant/provision.sh`. It takes ten to twenty minutes, most of them for the ZFS modules.
//! - `image`: that system tuned by `vagrant/image.sh` and written to a disk; half a minute.
//!
//! # Guarantees
//!
//! - Everything that is written is in the entry's own directory.
//! - Everything is run in a mount and a process namespace of its own, which the kernel takes apart when this process
//!   ends, however it ends: no mount and no process stays behind, and a half-built entry can be removed.
//!
//! # Caveats
//!
//! It runs as root, or as a user with a range in `/etc/subuid` and the package `uidmap`. While it is built it takes 1.5
//! GiB of disk; 0.7 GiB are kept. The packages are those of the day it is built: the key knows the recipe,
//! not the archive.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Error, Invocation, Program};
use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Key};
use crate::progress::{Progress, Step};

/// Goes up when this file changes what is built, which the digest of the scripts does not show.
const RECIPE: &str = "1";
const RELEASE: &str = "trixie";
/// The scripts, as they were when this was compiled: what is run and what the key says are the same thing.
const PROVISION: &str = include_str!("../../../vagrant/provision.sh");
const TUNE: &str = include_str!("../../../vagrant/image.sh");
const IDENTITY: &str = include_str!("../../../vagrant/cstor-node-identity");
/// The first file system of a node runs on it; a Vagrant box has one of its own.
const PACKAGES: &str = "busybox-static";
/// Nobody reads them on a test node, and unpacking them takes time.
const WITHOUT: [&str; 4] = [
    "/usr/share/man/*",
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
];
/// What the disk shows to a node; only what is written takes room.
const DISK_SIZE: &str = "8G";
/// The name under which the host key is known, whatever address a node has.
pub const HOST_KEY_ALIAS: &str = "cstor-node";

/// What makes an emulated machine quick and quiet. The root file system is not named: the first one finds it.
const COMMAND_LINE: &str = concat!(
    "console=ttyS0 quiet loglevel=4 systemd.show_status=0 net.ifnames=0",
    // On a busy host an emulated timer may miss the few ticks by which the kernel judges it, and the kernel would panic.
    " no_timer_check",
    // A tick that comes by itself: a processor that asks for each next one sleeps for ever when the emulation loses one.
    " nohz=off highres=off",
    // Without BPF in the list, systemd does not compile filters for file systems: four seconds.
    " lsm=lockdown apparmor=0 audit=0",
    " mitigations=off init_on_alloc=0 nokaslr cryptomgr.notests nowatchdog pci=noaer tsc=reliable random.trust_cpu=on",
);

const LINES_OF_A_FAILURE: usize = 20;
const ROOTFS_DEADLINE: Duration = Duration::from_secs(60 * 60);
const IMAGE_DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Takes the system apart, tunes it and writes the disk. `/dev` is only lent: it must be gone before the disk is made.
const ASSEMBLE: &str = r#"
set -eu
echo "unpacking the system"
mkdir root
tar --extract --file "$1" --directory root --numeric-owner --xattrs --xattrs-include='*' --exclude './dev/*'
cp -r files root/root/build
mount --rbind /dev root/dev
mount -t proc proc root/proc
echo "tuning the system"
env --unset=TMPDIR chroot root /bin/bash /root/build/image.sh
umount root/proc
umount --lazy root/dev
rm -rf root/root/build
mv root/boot/vmlinuz kernel
mv root/boot/initrd initrd
echo "writing the disk"
mke2fs -q -t ext4 -L cstor-node -m 0 -N 131072 -E lazy_itable_init=0,lazy_journal_init=0 -d root disk.raw "$2"
qemu-img convert -O qcow2 disk.raw disk.qcow2
chmod 0444 disk.qcow2
rm -rf disk.raw root files
"#;

/// What a storage node starts from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Image {
    /// The kernel, for `-kernel`.
    pub kernel: Utf8PathBuf,
    /// Its first file system, for `-initrd`.
    pub initrd: Utf8PathBuf,
    /// The disk: qcow2, ext4 on the whole of it. A base for overlays, never written to.
    pub disk: Utf8PathBuf,
    /// The private key that logs in as root.
    pub ssh_key: Utf8PathBuf,
    /// The host key of every node, under the name [`HOST_KEY_ALIAS`].
    pub known_hosts: Utf8PathBuf,
    /// What the kernel is told, for `-append`.
    pub command_line: String,
}

/// The image, built if it has not been built yet.
pub async fn image(cache: &Cache, progress: &Progress) -> Result<Image> {
    let key = image_key();
    let place = match cache.find("image", &key) {
        Some(place) => place,
        None => {
            let rootfs = rootfs(cache, &rootfs_key(), progress).await?;
            let step = progress.step("writing the node image");
            let place = cache
                .entry("image", &key, &step, async |place| {
                    build_image(place, &rootfs, &step).await
                })
                .await?;
            step.done();
            place
        }
    };
    Ok(Image {
        kernel: place.join("kernel"),
        initrd: place.join("initrd"),
        disk: place.join("disk.qcow2"),
        ssh_key: place.join("id_ed25519"),
        known_hosts: place.join("known_hosts"),
        command_line: COMMAND_LINE.to_owned(),
    })
}

fn rootfs_key() -> Key {
    Key::new()
        .with(RECIPE)
        .with(RELEASE)
        .with(PACKAGES)
        .with(PROVISION)
}

fn image_key() -> Key {
    rootfs_key()
        .with(TUNE)
        .with(IDENTITY)
        .with(ASSEMBLE)
        .with(DISK_SIZE)
}

/// Whether the image has been built.
pub fn is_built(cache: &Cache) -> Result<bool> {
    Ok(cache.find("image", &image_key()).is_some())
}

async fn rootfs(cache: &Cache, key: &Key, progress: &Progress) -> Result<Utf8PathBuf> {
    if let Some(place) = cache.find("rootfs", key) {
        return Ok(place.join("rootfs.tar"));
    }
    let step = progress.step("making the node's system (Debian 13 and OpenZFS, ten to twenty minutes)");
    let place = cache
        .entry("rootfs", key, &step, async |place| {
            build_rootfs(place, &step).await
        })
        .await?;
    step.done();
    Ok(place.join("rootfs.tar"))
}

async fn build_rootfs(place: &Utf8Path, step: &Step) -> Result<()> {
    let scratch = place.join("scratch");
    std::fs::create_dir(&scratch).with_context(|| format!("make {scratch}"))?;
    let script = place.join("provision.sh");
    write(&script, PROVISION, 0o755)?;
    let call = isolated("mmdebstrap")?
        .args(["--mode=root", "--variant=apt", "--format=tar"])
        .arg(format!("--include={PACKAGES}"))
        .args(WITHOUT.map(|path| format!("--dpkgopt=path-exclude={path}")))
        .args(
            apt_options()
                .await
                .into_iter()
                .map(|option| format!("--aptopt={option}")),
        )
        .arg(format!("--customize-hook=copy-in {script} /root"))
        .arg(r#"--customize-hook=chroot "$1" /bin/bash /root/provision.sh --image"#)
        .arg(r#"--customize-hook=rm "$1"/root/provision.sh"#)
        .arg(RELEASE)
        .arg(place.join("rootfs.tar"))
        .args(sources().await)
        .env("TMPDIR", scratch.as_str())
        .directory(place)
        .deadline(ROOTFS_DEADLINE);
    watched(call, &place.join("log"), step)
        .await
        .context("make the node's system")?;
    std::fs::remove_dir_all(&scratch).with_context(|| format!("remove {scratch}"))
}

async fn build_image(place: &Utf8Path, rootfs: &Utf8Path, step: &Step) -> Result<()> {
    let files = place.join("files");
    std::fs::create_dir(&files).with_context(|| format!("make {files}"))?;
    write(&files.join("image.sh"), TUNE, 0o755)?;
    write(&files.join("cstor-node-identity"), IDENTITY, 0o755)?;
    let login = new_key(&place.join("id_ed25519"), "cstor-test").await?;
    write(&files.join("authorized_keys"), &login, 0o600)?;
    let host = new_key(&files.join("host_key"), HOST_KEY_ALIAS).await?;
    write(
        &place.join("known_hosts"),
        &format!("{HOST_KEY_ALIAS} {host}"),
        0o644,
    )?;
    let call = isolated("sh")?
        .args(["-c", ASSEMBLE, "assemble", rootfs.as_str(), DISK_SIZE])
        .env("TMPDIR", place.as_str())
        .directory(place)
        .deadline(IMAGE_DEADLINE);
    watched(call, &place.join("log"), step)
        .await
        .context("write the node image")
}

/// Runs a long call: what it says goes to `log`, its last line is shown, and a failure tells how it ended.
async fn watched(call: Invocation, log: &Utf8Path, step: &Step) -> Result<()> {
    let mut file = File::create(log).with_context(|| format!("make {log}"))?;
    let last = Mutex::new(VecDeque::new());
    let mut heard = |line: &str| {
        // A log that cannot be written is no reason to give up what it is about.
        let _ = writeln!(file, "{line}");
        step.note(line);
        if let Ok(mut last) = last.lock() {
            if last.len() == LINES_OF_A_FAILURE {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        }
    };
    let silence = async {
        // A compiler says nothing for minutes.
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let line = last.lock().ok().and_then(|last| last.back().cloned());
            step.note(line.as_deref().unwrap_or_default());
        }
    };
    let result = tokio::select! {
        result = call.run_lines(|_, line| heard(line)) => result,
        () = silence => return Ok(()),
    };
    match result {
        Ok(_) => Ok(()),
        Err(Error::Failed { status, .. }) => {
            let last: Vec<_> = last.into_inner().unwrap_or_default().into();
            bail!(
                "it failed ({status}) and ended with these lines; all of them are in {log}:\n{}",
                last.join("\n")
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes a key pair at `path` and returns the public half.
async fn new_key(path: &Utf8Path, comment: &str) -> Result<String> {
    let call = Program::find("ssh-keygen")?.call();
    call.args([
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        comment,
        "-f",
        path.as_str(),
    ])
    .run()
    .await?;
    let public = path.with_added_extension("pub");
    std::fs::read_to_string(&public).with_context(|| format!("read {public}"))
}

/// A call of `program` in namespaces of its own. They end with the first process in them, which is killed when its
/// parent is; and that is killed when we go, so that nobody still writes to an entry whose lock is free.
fn isolated(program: &str) -> Result<Invocation> {
    let program = Program::find(program)?;
    let unshare = Program::find("unshare")?;
    let setpriv = Program::find("setpriv")?;
    let call = if rustix::process::geteuid().is_root() {
        setpriv.call()
    } else {
        // Becoming root in a namespace makes the kernel forget the signal, so it is asked for afterwards.
        unshare
            .call()
            .args(["--user", "--map-root-user", "--map-auto", setpriv.path().as_str()])
    };
    Ok(call.args(["--pdeathsig", "KILL", unshare.path().as_str()]).args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
        program.path().as_str(),
    ]))
}

/// Where packages come from: the mirrors that this machine uses itself, if it is a Debian, and else those that the
/// bootstrap program knows.
async fn sources() -> Vec<String> {
    let format = "--format=$(REPO_URI) $(ORIGIN) $(LABEL) $(COMPONENT)";
    let listing = ask("apt-get", &["indextargets", format, "Created-By: Packages"]).await;
    mirror_lines(&listing)
}

fn mirror_lines(listing: &str) -> Vec<String> {
    let found = |label: &str| -> Option<String> {
        let wanted = format!("Debian {label} main");
        let all: BTreeSet<_> = listing.lines().filter_map(|line| line.split_once(' ')).collect();
        let uri = all
            .into_iter()
            .find_map(|(uri, rest)| (rest == wanted).then(|| uri.to_owned()));
        // A medium or a directory of this machine does not hold another release.
        uri.filter(|uri| uri.starts_with("http"))
    };
    match (found("Debian"), found("Debian-Security")) {
        (Some(main), Some(security)) => vec![
            format!("deb {main} {RELEASE} main"),
            format!("deb {main} {RELEASE}-updates main"),
            format!("deb {security} {RELEASE}-security main"),
        ],
        _ => Vec::new(),
    }
}

/// How this machine reaches a mirror, if it has to go by a proxy.
async fn apt_options() -> Vec<String> {
    let dump = ask("apt-config", &["dump", "--format", "%f \"%v\";%n"]).await;
    let proxy =
        |line: &&str| line.starts_with("Acquire::http::Proxy") || line.starts_with("Acquire::https::Proxy");
    dump.lines()
        .filter(proxy)
        .filter(|line| !line.ends_with("\"\";"))
        .map(str::to_owned)
        .collect()
}

/// What `program` says; nothing where there is no such program, which on other distributions is no failure.
async fn ask(program: &str, args: &[&str]) -> String {
    let Ok(program) = Program::find(program) else {
        return String::new();
    };
    match program.call().args(args.iter().copied()).run().await {
        Ok(output) => output.stdout,
        Err(error) => {
            tracing::debug!(%error, "not asked");
            String::new()
        }
    }
}

fn write(path: &Utf8Path, text: &str, mode: u32) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {path}"))?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_mirrors_of_a_debian_and_of_nobody_else() {
        let listing = "http://mirror.invalid/debian/ Debian Debian main\n\
                       http://mirror.invalid/security/ Debian Debian-Security main\n\
                       http://elsewhere.invalid/ Other Other main\n";
        assert_eq!(
            mirror_lines(listing),
            [
                "deb http://mirror.invalid/debian/ trixie main",
                "deb http://mirror.invalid/debian/ trixie-updates main",
                "deb http://mirror.invalid/security/ trixie-security main",
            ]
        );
        assert!(mirror_lines("http://elsewhere.invalid/ Other Other main\n").is_empty());
        assert!(mirror_lines("file:/srv/debian/ Debian Debian main\n").is_empty());
        assert!(mirror_lines("").is_empty());
    }
}
