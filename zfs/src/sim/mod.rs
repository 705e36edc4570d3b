//! Hosts with disks and a ZFS in memory, for fast tests.
