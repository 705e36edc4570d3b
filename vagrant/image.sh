#!/bin/bash
# Makes a provisioned storage node (provision.sh --image) into the image that test nodes start from. Runs in the chroot
# of that system, with these files beside it:
#
#   cstor-node-identity    says who a node is
#   host_key               the ssh host key of every node, so that a test can pin it
#   authorized_keys        who may log in as root
#
# It leaves the kernel in /boot/vmlinuz and a first file system in /boot/initrd, which the emulator is given directly.
#
# Test nodes run under emulation, where every program that is started costs a tenth of a second. So this keeps what a
# node must do at boot in short lists and turns off the rest: a package that gains a unit does not slow the tests down.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
readonly here

# What systemd starts; every other unit that is wanted at boot is masked.
readonly KEEP_UNITS=" basic.target getty.target graphical.target multi-user.target sysinit.target sockets.target
 local-fs.target timers.target paths.target slices.target swap.target remote-fs.target zfs.target
 kmod-static-nodes.service sys-kernel-config.mount systemd-journald.service systemd-journald.socket
 systemd-journald-dev-log.socket systemd-modules-load.service systemd-tmpfiles-setup.service
 systemd-tmpfiles-setup-dev.service systemd-udev-trigger.service systemd-udevd.service
 systemd-udevd-control.socket systemd-udevd-kernel.socket ssh.service cstor-node.service "

# What acts on a disk by itself when one appears. A test says itself what becomes of its disks.
readonly MASKED_RULES=(
  64-md-raid-assembly.rules 69-bcache.rules 69-vdev.rules 70-nvmf-autoconnect.rules 71-nvmf-netapp.rules
  90-zfs.rules 90-iocost.rules 96-e2scrub.rules
)

# What the kernel needs to reach its root file system, and its network before udev has started.
readonly FIRST_MODULES=(virtio_blk virtio_net)

fail() {
  echo "image: $*" >&2
  exit 1
}

mask_units() {
  local link unit
  for link in /usr/lib/systemd/system/*.wants/* /etc/systemd/system/*.wants/*; do
    unit=${link##*/}
    case $link in */initrd.target.wants/* | */initrd-*.wants/*) continue ;; esac
    case $KEEP_UNITS in *[[:space:]]"$unit"[[:space:]]*) continue ;; esac
    rm -f "/etc/systemd/system/$unit"
    ln -s /dev/null "/etc/systemd/system/$unit"
  done
  # These are asked for by a unit itself, not by a link.
  for unit in systemd-udev-load-credentials.service systemd-update-utmp.service modprobe@configfs.service; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
  done
  systemctl -q set-default multi-user.target
}

# Generators write units out of what they find (fstab, LVM, ZFS properties); here nothing is to be found.
mask_generators() {
  local generator
  mkdir -p /etc/systemd/system-generators
  for generator in /usr/lib/systemd/system-generators/*; do
    ln -sf /dev/null "/etc/systemd/system-generators/${generator##*/}"
  done
}

configure_systemd() {
  mkdir -p /etc/systemd/system.conf.d /etc/systemd/journald.conf.d /etc/tmpfiles.d
  printf '[Manager]\nDefaultTimeoutStopSec=5s\nDefaultTimeoutStartSec=60s\n' >/etc/systemd/system.conf.d/node.conf
  printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\nReadKMsg=no\nAudit=no\n' \
    >/etc/systemd/journald.conf.d/node.conf
  ln -sf /dev/null /etc/tmpfiles.d/systemd-nologin.conf

  cat >/etc/systemd/system/cstor-node.service <<'UNIT'
[Unit]
Description=Network of a cstor test node
DefaultDependencies=no
Before=ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/cstor-node-identity --boot

[Install]
WantedBy=sysinit.target
UNIT

  # Started before anything else is ready: it needs the network and nothing more.
  cat >/etc/systemd/system/ssh.service <<'UNIT'
[Unit]
Description=OpenBSD Secure Shell server
DefaultDependencies=no
Wants=cstor-node.service
After=cstor-node.service

[Service]
Type=notify
ExecStart=/usr/sbin/sshd -D -e
RuntimeDirectory=sshd
RuntimeDirectoryMode=0755
KillMode=process
Restart=on-failure

[Install]
WantedBy=sysinit.target
UNIT
  rm -rf /etc/systemd/system/multi-user.target.wants/ssh.service /etc/systemd/system/sshd.service \
    /etc/systemd/system/*.wants/sshd-keygen.service
  systemctl -q enable ssh.service cstor-node.service
}

# What confines the system's own services is compiled into filters when they start, which takes a second each here.
relax() {
  mkdir -p "/etc/systemd/system/$1.d"
  cat >"/etc/systemd/system/$1.d/relaxed.conf" <<'UNIT'
[Service]
DeviceAllow=
IPAddressDeny=
LockPersonality=no
MemoryDenyWriteExecute=no
NoNewPrivileges=no
PrivateMounts=no
ProtectClock=no
ProtectHostname=no
RestrictAddressFamilies=
RestrictNamespaces=no
RestrictRealtime=no
RestrictSUIDSGID=no
SystemCallArchitectures=
SystemCallFilter=
WatchdogSec=0
UNIT
}

# At boot udev is asked about what a test looks at, not about each of the many ports that disks are plugged into.
configure_udev() {
  local rule
  mkdir -p /etc/udev/rules.d /etc/systemd/system/systemd-udev-trigger.service.d
  for rule in "${MASKED_RULES[@]}"; do
    ln -sf /dev/null "/etc/udev/rules.d/$rule"
  done
  cat >/etc/systemd/system/systemd-udev-trigger.service.d/node.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=all --action=add --subsystem-match=block --subsystem-match=nvme --subsystem-match=net --subsystem-match=misc
UNIT
  # Disks of a test are what the test makes of them.
  printf 'AUTO -all\nCREATE bbl=no\n' >/etc/mdadm/mdadm.conf
  sed -i -E 's/^[[:space:]]*#?[[:space:]]*event_activation = .*/\tevent_activation = 0/' /etc/lvm/lvm.conf
}

configure_zfs() {
  printf '%s\n' zfs loop dm_mod configfs virtio_rng >/etc/modules-load.d/node.conf
  rm -f /etc/modules-load.d/zfs.conf
  # The nodes are small and many.
  echo 'options zfs zfs_arc_max=134217728' >/etc/modprobe.d/zfs.conf
}

# One algorithm of each kind, the cheapest to emulate; no PAM, for there is no session to keep.
configure_ssh() {
  rm -f /etc/ssh/ssh_host_* /etc/ssh/sshd_config.d/*
  install -m 0600 "$here/host_key" /etc/ssh/ssh_host_ed25519_key
  install -d -m 0700 /root/.ssh
  install -m 0600 "$here/authorized_keys" /root/.ssh/authorized_keys
  cat >/etc/ssh/sshd_config <<'CONFIG'
HostKey /etc/ssh/ssh_host_ed25519_key
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
CONFIG
}

configure_identity() {
  install -m 0755 "$here/cstor-node-identity" /usr/local/sbin/cstor-node-identity
  echo cstor-node >/etc/hostname
  printf '127.0.0.1 localhost\n' >/etc/hosts
  # With an empty one systemd takes this boot for the first and sets up everything again.
  echo 00000000000000000000000063737400 >/etc/machine-id
  rm -f /etc/fstab /etc/resolv.conf /var/lib/dbus/machine-id
  : >/etc/fstab
}

# Unpacking modules is slow under emulation, too; the disk has room.
unpack_modules() {
  find "/lib/modules/$1" -name '*.ko.xz' -exec busybox unxz {} +
  depmod "$1"
}

make_initrd() {
  local kernel=$1 tree module
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,dev,proc,root,modules}
  cp "$(command -v busybox)" "$tree/bin/busybox"
  ln -s busybox "$tree/bin/sh"
  cat >"$tree/init" <<'INIT'
#!/bin/sh
busybox mount -t devtmpfs dev /dev
INIT
  for module in "${FIRST_MODULES[@]}"; do
    modprobe -S "$kernel" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
  done | awk '!seen[$0]++' | while read -r module; do
    cp "$module" "$tree/modules/"
    echo "busybox insmod /modules/${module##*/}" >>"$tree/init"
  done
  cat >>"$tree/init" <<'INIT'
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 200 ]; do
  busybox sleep 0.05
  tries=$((tries + 1))
done
busybox mount -t ext4 -o noatime /dev/vda /root
busybox mount --move /dev /root/dev
exec busybox switch_root /root /usr/lib/systemd/systemd
INIT
  chmod +x "$tree/init"
  (cd "$tree" && find . | cpio --quiet -o -H newc) >/boot/initrd
  rm -rf "$tree"
}

main() {
  local kernel
  kernel=$(basename /lib/modules/*-cloud-amd64)
  [ -d "/lib/modules/$kernel" ] || fail "there is not exactly one kernel in /lib/modules"
  [ -x "$(command -v busybox)" ] || fail "busybox is not installed"
  unpack_modules "$kernel"
  configure_systemd
  relax systemd-journald.service
  relax systemd-udevd.service
  configure_udev
  configure_zfs
  configure_ssh
  configure_identity
  mask_units
  mask_generators
  cp "/boot/vmlinuz-$kernel" /boot/vmlinuz
  make_initrd "$kernel"
  # Nothing boots from the disk itself.
  rm -rf /boot/initrd.img-* /boot/System.map-* "/boot/vmlinuz-$kernel" /initrd.img* /vmlinuz*
  rm -rf /var/cache/apt /var/lib/apt/lists /var/log/* /var/lib/systemd/random-seed
  mkdir -p /var/cache/apt/archives/partial /var/lib/apt/lists/partial
}

main "$@"
