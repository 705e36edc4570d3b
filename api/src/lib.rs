//! The custom resources of cstor-rs: their types, their names and their rules. No I/O.
//!
//! Three groups, as the clusters of cStor users have them:
//!
//! * [`cstor`]: `cstor.openebs.io/v1`, pools, volumes, backups;
//! * [`openebs`]: `openebs.io/v1alpha1`, block devices and the claims on them;
//! * [`dao`]: `dao.mayadata.io/v1alpha1`, the planner that makes pools out of nodes and disks.
//!
//! # Guarantees
//!
//! * An object that cStor 3.6 wrote is accepted, read and written back without a lost field or a changed value.
//!   Where Rust would rather have an enum or a number, the type keeps what it does not know
//!   ([`open enums`](names::phase), [`Quantity`], [`Timestamp`]).
//! * What the schema admits always deserializes: one odd object never blinds a watch. The converse is the
//!   schema's task: it refuses nonsense, with a sentence that says what to write instead.
//! * Unknown fields are ignored here and pruned (or, in strict mode, refused) by the API server.
//!
//! # Caveats
//!
//! * `null` for an optional field is accepted and read as absent.

mod compute;
mod condition;
mod crds;
pub mod cstor;
pub mod dao;
pub mod ids;
pub mod names;
mod open_enum;
pub mod openebs;
pub mod quantity;
mod resource;
mod schema;
mod time;

pub use compute::{ResourceClaim, ResourceRequirements};
pub use condition::{Condition, ConditionStatus, set_condition};
pub use crds::{crds, manifests};
pub use quantity::{Bytes, Quantity};
pub use time::Timestamp;
