#!/bin/bash
# Packs a Vagrant box of Debian 13 for libvirt, for a machine that cannot or may not download one. The box is provisioned
# already, because building the ZFS modules in an emulated node takes hours; provisioning it again finds nothing to do.
#
#   pack-box.sh DIRECTORY    as root; the directory is made and gets cstor.box, kernel and initrd (2 GiB)
#
# The box has no boot loader: point CSTOR_VAGRANT_KERNEL and CSTOR_VAGRANT_INITRD at the two files (see Vagrantfile). Everything is
# written to the directory, and what is mounted goes away with this process.

# What stands in single quotes is expanded by the hook, which is given the root of the new system.
# shellcheck disable=SC2016
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
readonly here
# libpam-systemd ends the sessions before the network when a node restarts; without it Vagrant waits for a dead one for ever.
readonly PACKAGES=systemd-sysv,udev,dbus,libpam-systemd,ifupdown,dhcpcd-base,openssh-server,sudo,rsync,initramfs-tools,linux-image-cloud-amd64

fail() {
  echo "pack-box: $*" >&2
  exit 1
}

# The key every box has before Vagrant puts its own in place; it comes with Vagrant.
vagrant_key() {
  local key
  key=$(find /usr/share /opt -path '*vagrant*/keys/vagrant.pub' -print -quit 2>/dev/null)
  [ -n "$key" ] || fail "Vagrant is not installed: its public key was not found"
  echo "$key"
}

bootstrap() {
  local key
  key=$(vagrant_key)
  # In the chroot there is no service manager, and nothing may be started.
  mmdebstrap --mode=root --variant=apt --format=directory --include="$PACKAGES" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --customize-hook="copy-in $here/provision.sh /root" \
    --customize-hook='chroot "$1" /bin/bash /root/provision.sh' \
    --customize-hook='rm "$1/root/provision.sh"' \
    --customize-hook='chroot "$1" useradd --create-home --shell /bin/bash vagrant' \
    --customize-hook='install -d -m 0700 "$1/home/vagrant/.ssh"' \
    --customize-hook="install -m 0600 $key \"\$1/home/vagrant/.ssh/authorized_keys\"" \
    --customize-hook='chroot "$1" chown -R vagrant: /home/vagrant' \
    --customize-hook='echo "vagrant ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/vagrant"' \
    --customize-hook='printf "auto lo eth0\niface lo inet loopback\niface eth0 inet dhcp\n" >"$1/etc/network/interfaces"' \
    --customize-hook='printf "127.0.0.1 localhost\n" >"$1/etc/hosts"; : >"$1/etc/machine-id"; echo debian >"$1/etc/hostname"' \
    trixie root
}

pack() {
  rm -rf root/dev/* root/proc/* root/sys/*
  cp root/boot/vmlinuz-* kernel
  cp root/boot/initrd.img-* initrd
  mke2fs -q -t ext4 -m 0 -d root disk.raw 10G
  qemu-img convert -O qcow2 disk.raw box.img
  echo '{"provider":"libvirt","format":"qcow2","virtual_size":10}' >metadata.json
  echo 'Vagrant.configure("2") { |config| config.vm.provider(:libvirt) { |libvirt| libvirt.disk_bus = "virtio" } }' \
    >Vagrantfile
  tar --create --sparse metadata.json Vagrantfile box.img | gzip -1 >cstor.box
  rm -rf root disk.raw box.img metadata.json Vagrantfile scratch
}

main() {
  [ "$(id -u)" = 0 ] || fail "run this as root"
  [ $# = 1 ] || fail "usage: pack-box.sh DIRECTORY"
  mkdir -p "$1"
  cd "$1"
  if [ -z "${CSTOR_ISOLATED:-}" ]; then
    CSTOR_ISOLATED=yes exec unshare --mount --pid --fork --kill-child --mount-proc "$here/pack-box.sh" "$PWD"
  fi
  mkdir -p scratch
  export TMPDIR=$PWD/scratch
  bootstrap
  pack
  echo "pack-box: $PWD/cstor.box"
}

main "$@"
