#!/bin/bash
# Runs on a storage node, as root: shows that it can carry pools. It makes disks of its own out of files, so it touches
# none of the node's; what it made is gone when it ends, however it ends.
#
#   run-node-suite.sh [DIRECTORY OF THE CHECKOUT]    /vagrant unless told otherwise

set -euo pipefail

readonly CHECKOUT=${1:-/vagrant}
readonly POOL=cstor-smoke-$$
DISKS=()
FILES=

fail() {
  echo "node suite: $*" >&2
  exit 1
}

say() {
  echo "node suite: $*"
}

clean_up() {
  local disk
  zpool destroy -f "$POOL" 2>/dev/null || true
  for disk in "${DISKS[@]}"; do
    losetup -d "$disk" || true
  done
  [ -z "$FILES" ] || rm -rf "$FILES"
}

check_zfs() {
  local version
  version=$(zfs version | sed -n 's/^zfs-kmod-\([0-9.]*\).*/\1/p')
  [ -n "$version" ] || fail "the zfs module is not loaded: run provision.sh, and reboot if it says so"
  [ "$(printf '%s\n' "$version" 2.3 | sort -V | head -n 1)" = 2.3 ] || fail "zfs is $version; the agent needs 2.3"
  say "zfs $version on $(uname -r)"
}

make_disks() {
  local number
  FILES=$(mktemp -d /var/tmp/cstor-disks.XXXXXX)
  for number in 1 2 3; do
    truncate -s 256M "$FILES/$number"
    DISKS+=("$(losetup --find --show "$FILES/$number")")
  done
  say "disks ${DISKS[*]}"
}

# What the agent does with a pool: create it, use it, let go of it, find it again by GUID among known disks only.
smoke() {
  local guid sum
  zpool create -o cachefile=none -O mountpoint=none "$POOL" mirror "${DISKS[0]}" "${DISKS[1]}"
  zfs create -V 64M "$POOL/volume"
  udevadm settle
  dd if=/dev/urandom of="/dev/zvol/$POOL/volume" bs=1M count=32 oflag=direct conv=fsync status=none
  sum=$(sha256sum <"/dev/zvol/$POOL/volume")
  guid=$(zpool get -H -o value guid "$POOL")
  zpool replace -w "$POOL" "${DISKS[1]}" "${DISKS[2]}"
  zpool export "$POOL"
  zpool import -o cachefile=none -d "${DISKS[0]}" -d "${DISKS[2]}" "$guid"
  udevadm settle
  [ "$(sha256sum <"/dev/zvol/$POOL/volume")" = "$sum" ] || fail "the volume reads other data than was written"
  zpool scrub -w "$POOL"
  [ "$(zpool get -H -o value health "$POOL")" = ONLINE ] || fail "the pool is not healthy: $(zpool status "$POOL")"
  zpool destroy "$POOL"
  say "a pool was created, repaired, moved, scrubbed and destroyed"
}

inspect() {
  local profile agent
  for profile in release debug; do
    agent=$CHECKOUT/target/$profile/cstor-agent
    if [ -x "$agent" ]; then
      say "$agent inspect"
      "$agent" inspect
      return
    fi
  done
  [ "${WITHOUT_AGENT:-}" = 1 ] || fail "no cstor-agent in $CHECKOUT/target: run cargo build, or set WITHOUT_AGENT=1"
}

[ "$(id -u)" = 0 ] || fail "run this as root"
trap clean_up EXIT
check_zfs
make_disks
smoke
inspect
say "passed"
