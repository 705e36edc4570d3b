//! The reasons that the engine itself gives, in conditions and in events.
//!
//! They are part of what users see, and so of the API. They are here, not among the names in `api`, because this crate knows
//! nothing of the resources it is used for and does not depend on `api`; a controller gives its own reasons from there.

/// An object, or one it depends on, does not have the shape of its kind.
pub const MALFORMED: &str = "Malformed";
/// Observing did not end within its deadline.
pub const OBSERVE_HANGS: &str = "ObserveHangs";
/// A step did not end within its deadline, and still runs.
pub const STEP_HANGS: &str = "StepHangs";
/// A step, or a look, panicked.
pub const PANICKED: &str = "Panicked";

/// Somebody else changed the object first.
pub const CONFLICT: &str = "Conflict";
/// The API server does not let us.
pub const FORBIDDEN: &str = "Forbidden";
/// The API server refuses what was written.
pub const INVALID: &str = "Invalid";
/// The API server answered with another error.
pub const API_ERROR: &str = "ApiError";
/// The API server could not be reached, or its answer not be read.
pub const API_UNREACHABLE: &str = "ApiUnreachable";
