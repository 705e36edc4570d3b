//! Phases: one word for the state of an object.
//!
//! All of these are open: an object of an older or newer release may say something else, which `Other` keeps.

use crate::open_enum::open_enum;

open_enum! {
    /// The state of a pool: what ZFS says of it, in its own words, and what precedes and follows that.
    pub enum PoolPhase: any {
        /// Nothing was done yet.
        New = "",
        /// To be created; like [`Self::New`], set by a person to have another try.
        Pending = "Pending",
        /// All is well.
        Online = "ONLINE",
        /// Works, with less redundancy than it should have.
        Degraded = "DEGRADED",
        /// Too broken to be used.
        Faulted = "FAULTED",
        /// Taken offline: its agent was stopped, or is not heard of.
        Offline = "OFFLINE",
        /// Its devices are gone.
        Removed = "REMOVED",
        /// Cannot be opened.
        Unavailable = "UNAVAIL",
        /// Waits for its devices; all I/O to it hangs.
        Suspended = "SUSPENDED",
        /// Nobody can tell: the agent of the node is silent (ours).
        Unknown = "Unknown",
        /// Found empty, and being destroyed (ours).
        Deleting = "Deleting",
        /// Could not be destroyed.
        DeletionFailed = "DeletionFailed",
        /// Declared by cStor 3.6, never written.
        Error = "Error",
        /// Declared by cStor 3.6, never written.
        Invalid = "Invalid",
        /// Declared by cStor 3.6, never written.
        ErrorDuplicate = "ErrorDuplicate",
        /// Declared by cStor 3.6, never written.
        Init = "Init",
        /// Declared by cStor 3.6, never written.
        PoolCreationFailed = "PoolCreationFailed",
    }
}

impl PoolPhase {
    /// Whether a pool in this phase may still be created. Any other phase means that it was, once.
    pub fn allows_creation(&self) -> bool {
        matches!(self, Self::New | Self::Pending)
    }
}

open_enum! {
    /// The state of a volume's replica.
    pub enum ReplicaPhase: any {
        /// Nothing was done yet.
        New = "",
        /// Seen; no zvol yet.
        Init = "Init",
        /// Its zvol is to be made, and filled from the other replicas.
        Recreate = "Recreate",
        /// Has all data.
        Healthy = "Healthy",
        /// Not in use by its volume.
        Offline = "Offline",
        /// Behind the others.
        Degraded = "Degraded",
        /// Behind the others, and never was complete.
        NewReplicaDegraded = "NewReplicaDegraded",
        /// Catching up with the others.
        Rebuilding = "Rebuilding",
        /// Being filled for the first time.
        ReconstructingNewReplica = "ReconstructingNewReplica",
        /// In a state without a name.
        Error = "Error",
        /// Could not be destroyed.
        DeletionFailed = "DeletionFailed",
        /// Asked to do something unknown.
        Invalid = "Invalid",
    }
}

open_enum! {
    /// The state of a volume.
    pub enum VolumePhase: any {
        /// No replica has come yet.
        Init = "Init",
        /// All replicas are in.
        Healthy = "Healthy",
        /// Works, with fewer replicas than wanted.
        Degraded = "Degraded",
        /// Does no I/O: too few replicas.
        Offline = "Offline",
        /// Its target cannot be reached.
        Error = "Error",
        /// The wish makes no sense.
        Invalid = "Invalid",
    }
}

open_enum! {
    /// How far the making of a volume is.
    pub enum VolumeConfigPhase: any {
        /// In the making.
        Pending = "Pending",
        /// Made.
        Bound = "Bound",
        /// Could not be made.
        Failed = "Failed",
    }
}

open_enum! {
    /// What a node has done with a volume.
    pub enum AttachmentStatus: any {
        /// Nothing yet.
        New = "",
        /// Being mounted.
        MountUnderProgress = "MountUnderProgress",
        /// Mounted.
        Mounted = "Mounted",
        /// No longer mounted.
        Unmounted = "Unmounted",
        /// Attached as a block device.
        Raw = "Raw",
        /// Being grown.
        ResizeInProgress = "ResizeInProgress",
        /// Could not be mounted.
        MountFailed = "MountFailed",
        /// Being unmounted.
        UnmountUnderProgress = "UnmountUnderProgress",
        /// Waits for the volume to be made.
        WaitingForCvcBound = "WaitingForCVCBound",
        /// Waits for the volume to be fit for use.
        WaitingForVolumeToBeReady = "WaitingForVolumeToBeReady",
        /// Being mounted again.
        RemountUnderProgress = "RemountUnderProgress",
    }
}

open_enum! {
    /// How far a backup or restore is.
    pub enum TransferStatus: any {
        /// Nothing yet.
        New = "",
        /// Asked for.
        Pending = "Pending",
        /// Taken up.
        Init = "Init",
        /// Running.
        InProgress = "InProgress",
        /// Finished.
        Done = "Done",
        /// Failed.
        Failed = "Failed",
        /// Makes no sense.
        Invalid = "Invalid",
    }
}

open_enum! {
    /// Whether a block device is there.
    pub enum BlockDeviceState: listed {
        /// There.
        Active = "Active",
        /// Was there.
        Inactive = "Inactive",
        /// Nobody can tell: the agent of the node is silent.
        Unknown = "Unknown",
    }
}

open_enum! {
    /// Whether a block device is somebody's.
    pub enum BlockDeviceClaimState: listed {
        /// Somebody's.
        Claimed = "Claimed",
        /// Nobody's.
        Unclaimed = "Unclaimed",
        /// Was somebody's, and is not cleared yet.
        Released = "Released",
    }
}

open_enum! {
    /// How far a claim is.
    pub enum BlockDeviceClaimPhase: any {
        /// Nothing yet.
        New = "",
        /// No device yet.
        Pending = "Pending",
        /// Written by old releases for a request without a size.
        InvalidCapacity = "Invalid Capacity Request",
        /// Has its device.
        Bound = "Bound",
    }
}

open_enum! {
    /// How far the upgrade of an object is.
    pub enum VersionState: any {
        /// Done.
        Reconciled = "Reconciled",
        /// Running.
        InProgress = "ReconcileInProgress",
        /// To be done.
        Pending = "ReconcilePending",
    }
}

open_enum! {
    /// How the planner fares with a cluster, a plan or a set of disks.
    pub enum PlanPhase: any {
        /// In the making.
        Pending = "Pending",
        /// As wanted.
        Online = "Online",
        /// Works, but is not as wanted.
        Degraded = "Degraded",
        /// Cannot go on; the conditions say why.
        Error = "Error",
        /// On its way out.
        Deleting = "Deleting",
    }
}

open_enum! {
    /// How far a disk from a provisioner is.
    pub enum StoragePhase: any {
        /// Being provisioned or attached.
        Pending = "Pending",
        /// Attached to its node.
        Attached = "Attached",
        /// Could not be provisioned or attached.
        Failed = "Failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_phases_keep_their_text() {
        for text in ["", "ONLINE", "SUSPENDED", "SomethingNew"] {
            let phase: PoolPhase = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(&phase).unwrap(), text);
        }
        assert_eq!(PoolPhase::from("ONLINE"), PoolPhase::Online);
        assert_eq!(
            PoolPhase::from("SomethingNew"),
            PoolPhase::Other("SomethingNew".into())
        );
    }

    #[test]
    fn only_a_pool_that_never_was_may_be_created() {
        for known in PoolPhase::KNOWN {
            let phase = PoolPhase::from(*known);
            assert_eq!(
                phase.allows_creation(),
                known.is_empty() || *known == "Pending",
                "{phase}"
            );
        }
        assert!(!PoolPhase::Other("SomethingNew".into()).allows_creation());
    }
}
