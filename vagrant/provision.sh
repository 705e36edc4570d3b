#!/bin/bash
# Makes a Debian 13 system into a storage node: OpenZFS 2.3, a kernel that it fits, and the tools that the agent and the
# tests use.
#
#   provision.sh            on a running system, as root; run it again and nothing changes
#   provision.sh --image    in the chroot of an image: nothing is started, and what was only needed to build the
#                           modules is dropped again
#
# It depends on nothing but the system's own apt sources. It fails, with a sentence, rather than leave a node whose ZFS
# is older than the agent's floor.

set -euo pipefail

readonly ZFS_FLOOR=2.3
readonly FLAVOUR=cloud-amd64

# What a node runs on.
readonly SYSTEM=(
  systemd-sysv udev kmod openssh-server iproute2 procps
  "linux-image-$FLAVOUR"
)
# zfs-zed is installed and left stopped: whether a node has it running is for each suite to say.
readonly ZFS=(zfsutils-linux zfs-zed)
# What a disk is looked at and set up with, and what others put on disks: the tests see that each of it is recognised.
readonly TOOLS=(
  fdisk e2fsprogs xfsprogs nvme-cli mdadm lvm2 cryptsetup-bin sg3-utils nftables strace
  gdisk btrfs-progs dosfstools exfatprogs ntfs-3g f2fs-tools nilfs-tools jfsutils reiserfsprogs squashfs-tools
  erofs-utils genisoimage bcache-tools drbd-utils
)
# What the modules are built with; an image does not keep it.
readonly BUILD=("linux-headers-$FLAVOUR" dkms zfs-dkms)

fail() {
  echo "provision: $*" >&2
  exit 1
}

say() {
  echo "provision: $*"
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 "$@"
}

check_system() {
  [ "$(id -u)" = 0 ] || fail "run this as root"
  # shellcheck source=/dev/null
  . /etc/os-release
  [ "${ID:-}" = debian ] || fail "this is ${PRETTY_NAME:-an unknown system}; it takes Debian 13"
  [ "${VERSION_ID:-}" = 13 ] || fail "this is ${PRETTY_NAME:-Debian}; it takes Debian 13, whose OpenZFS is $ZFS_FLOOR"
  [ "$(dpkg --print-architecture)" = amd64 ] || fail "only amd64 is supported"
}

# ZFS is in contrib. The mirror stays the one the system already uses: only the component is added.
enable_contrib() {
  local file found=''
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    sed -E -i '/^deb(-src)? /{/ contrib( |$)/!s/^(.* main)( |$)/\1 contrib\2/}' "$file"
    grep -Eq '^deb .* contrib( |$)' "$file" && found=yes
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    sed -E -i '/^Components:/{/ contrib( |$)/!s/^(Components:.* main)( |$)/\1 contrib\2/}' "$file"
    grep -Eq '^Components:.* contrib( |$)' "$file" && found=yes
  done
  [ -n "$found" ] || fail "no apt source with the component main was found, so contrib could not be enabled"
}

install_packages() {
  # zfs-dkms stops to tell about licences, which is no question to a machine.
  echo "zfs-dkms zfs-dkms/note-incompatible-licenses note" | debconf-set-selections
  apt update
  # First the kernel and its headers: zfs-dkms looks for them when it is configured.
  apt install --no-install-recommends "${SYSTEM[@]}" "${TOOLS[@]}" "linux-headers-$FLAVOUR"
  apt install --no-install-recommends "${BUILD[@]}" "${ZFS[@]}"
}

# The newest installed kernel of our flavour: in a chroot that is not the one that runs.
target_kernel() {
  local kernel
  kernel=$(find /lib/modules -mindepth 1 -maxdepth 1 -name "*-$FLAVOUR" -printf '%f\n' | sort -V | tail -n 1)
  [ -n "$kernel" ] || fail "no kernel of the flavour $FLAVOUR is installed"
  echo "$kernel"
}

build_modules() {
  local kernel=$1 version=$2
  if dkms status "zfs/$version" -k "$kernel" | grep -q ': installed'; then
    return
  fi
  say "building zfs $version for $kernel"
  dkms install "zfs/$version" -k "$kernel" ||
    fail "the zfs modules could not be built: see /var/lib/dkms/zfs/$version/build/make.log"
}

# Purging zfs-dkms removes the modules it built, and with them goes what depends on them. So the modules are put into a
# package of their own first. They are in it uncompressed: a node under emulation spends seconds on unpacking them.
package_modules() {
  local kernel=$1 version=$2 tree module built
  tree=$(mktemp -d)
  install -d "$tree/DEBIAN" "$tree/usr/lib/modules/$kernel/extra"
  for module in zfs spl; do
    built=$(modinfo -k "$kernel" -n "$module") || fail "no module $module for $kernel"
    case $built in
      *.xz) xz -dc "$built" ;;
      *.zst) zstd -dc "$built" ;;
      *.gz) gzip -dc "$built" ;;
      *) cat "$built" ;;
    esac >"$tree/usr/lib/modules/$kernel/extra/$module.ko"
    strip --strip-debug "$tree/usr/lib/modules/$kernel/extra/$module.ko"
  done
  cat >"$tree/DEBIAN/control" <<CONTROL
Package: cstor-zfs-modules
Version: $version
Architecture: amd64
Provides: zfs-modules
Maintainer: cstor-rs
Description: the zfs modules for $kernel
CONTROL
  dpkg-deb --root-owner-group --build "$tree" /var/tmp/cstor-zfs-modules.deb
  rm -rf "$tree"
}

drop_build_tools() {
  local kernel=$1 version=$2 unneeded
  package_modules "$kernel" "$version"
  dpkg -i /var/tmp/cstor-zfs-modules.deb
  rm /var/tmp/cstor-zfs-modules.deb
  apt-mark manual "${SYSTEM[@]}" "${ZFS[@]}" "${TOOLS[@]}" >/dev/null
  # apt never removes what belongs to a kernel by itself.
  mapfile -t unneeded < <(dpkg-query -W -f '${Package}\n' 'linux-headers-*' 'linux-kbuild-*')
  apt purge --autoremove "${BUILD[@]}" "${unneeded[@]}" \
    -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false
  rm -rf /var/lib/dkms
  depmod "$kernel"
  apt clean
  rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old
}

# at_least VERSION FLOOR
at_least() {
  [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

verify() {
  local kernel=$1 module userland
  module=$(modinfo -k "$kernel" -F version zfs) || fail "there is no zfs module for the kernel $kernel"
  # Not `zfs version`: without its module, which a chroot does not have, the program tells nothing.
  userland=$(dpkg-query -W -f '${source:Upstream-Version}' zfsutils-linux) || fail "zfsutils-linux is not installed"
  at_least "$module" "$ZFS_FLOOR" || fail "the zfs module is $module; the agent needs $ZFS_FLOOR or newer"
  at_least "$userland" "$ZFS_FLOOR" || fail "the zfs program is $userland; the agent needs $ZFS_FLOOR or newer"
  say "kernel $kernel, zfs module $module, zfs program $userland"
}

# The agent imports its pools itself, by GUID and from known disks. Nothing else may: a scan of all disks at boot imports
# what is not ours, and one dead disk makes it hang.
leave_pools_alone() {
  systemctl mask -q zfs-import-cache.service zfs-import-scan.service zfs-import.target zfs-mount.service \
    zfs-share.service zfs-volume-wait.service
  systemctl disable -q zfs-zed.service
  rm -f /etc/zfs/zpool.cache
  echo zfs >/etc/modules-load.d/zfs.conf
}

load_module() {
  local kernel=$1
  if [ "$(uname -r)" = "$kernel" ]; then
    modprobe zfs || fail "the zfs module does not load"
  else
    say "the module is loaded after a reboot into $kernel; $(uname -r) is running"
  fi
}

main() {
  local image='' kernel version
  case "${1:-}" in
    --image)
      image=yes
      # The image gets a first file system of its own (image.sh).
      export INITRD=No
      # Without the hooks of the function tracer: for each of them the kernel looks through all symbols of the module
      # when it loads it, which takes five seconds under emulation.
      export MAKEFLAGS=CC_FLAGS_FTRACE=
      ;;
    "") ;;
    *) fail "usage: provision.sh [--image]" ;;
  esac
  check_system
  enable_contrib
  install_packages
  kernel=$(target_kernel)
  version=$(dpkg-query -W -f '${source:Upstream-Version}' zfs-dkms)
  build_modules "$kernel" "$version"
  leave_pools_alone
  if [ -n "$image" ]; then
    drop_build_tools "$kernel" "$version"
  fi
  verify "$kernel"
  if [ -z "$image" ]; then
    load_module "$kernel"
  fi
}

main "$@"
