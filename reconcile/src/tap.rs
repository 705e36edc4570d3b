//! Taps: the named moments around every effect, at which a test stops the process.
//!
//! An effect is anything the engine does that outlives the process: adding or removing a finalizer, patching a
//! status, posting an event, running a step. The engine calls [`Tap::reached`] right before and right after each.
//! A production process has no tap. A test's tap counts them, or never returns from one and drops the whole run:
//! to everything outside, that is a process that died at that instant.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::Key;

/// Which effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The engine's finalizer is put on an object.
    AddFinalizer,
    /// The engine's finalizer is taken off an object.
    RemoveFinalizer,
    /// The status of an object is patched.
    PatchStatus,
    /// An event is posted, or the count of one raised.
    PostEvent,
    /// A step of the controller is run; the name is the step's own.
    Step(&'static str),
}

impl Effect {
    /// A word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::AddFinalizer => "add_finalizer",
            Self::RemoveFinalizer => "remove_finalizer",
            Self::PatchStatus => "patch_status",
            Self::PostEvent => "post_event",
            Self::Step(name) => name,
        }
    }
}

/// Before the effect, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Nothing has been done yet.
    Before,
    /// The effect has returned, well or badly, or its deadline has passed; nothing that follows has been done.
    After,
}

/// One moment of one effect on one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapPoint {
    /// The controller's name.
    pub controller: &'static str,
    /// The object the effect is for.
    pub key: Key,
    /// The effect.
    pub effect: Effect,
    /// Before or after.
    pub moment: Moment,
}

impl fmt::Display for TapPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Before => "before",
            Moment::After => "after",
        };
        write!(
            f,
            "{moment} {} of {} {}",
            self.effect.label(),
            self.controller,
            self.key
        )
    }
}

/// Something that wants to know of every tap.
pub trait Tap: Send + Sync {
    /// The moment was reached. The effect goes on when the future is ready, and never if it never is.
    fn reached(&self, point: TapPoint) -> BoxFuture<'_, ()>;
}

/// The tap of a process, if it has one.
#[derive(Clone, Default)]
pub struct Taps(Option<Arc<dyn Tap>>);

impl Taps {
    /// No tap: what every production process has.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Tells `tap` of every moment.
    pub fn new(tap: impl Tap + 'static) -> Self {
        Self(Some(Arc::new(tap)))
    }

    pub(crate) async fn reached(&self, controller: &'static str, key: &Key, effect: Effect, moment: Moment) {
        if let Some(tap) = &self.0 {
            tap.reached(TapPoint {
                controller,
                key: key.clone(),
                effect,
                moment,
            })
            .await;
        }
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Taps(set)"
        } else {
            "Taps(none)"
        })
    }
}
