//! The disks of a node, read and never written to.
//!
//! | module | what it answers |
//! |---|---|
//! | [`scan`] | what there is: looks at all devices, each on its own and with a deadline |
//! | [`device`] | what one is, in the words of kernel ([`sysfs`], [`usage`]) and [`udev`] |
//! | [`contents`] | what is written on it |
//! | [`identity`] | what tells it from all others; [`ndm`]: what NDM called it |
//! | [`filter`] | whether somebody wants it looked at, and how it is tagged |
//! | [`ownership`] | whose it is |
//! | [`attachment`] | which VolumeAttachment brought it |

pub mod attachment;
pub mod contents;
pub mod device;
pub mod filter;
pub mod identity;
pub mod ndm;
pub mod ownership;
pub mod scan;
pub mod sparse;
pub mod sysfs;
pub mod udev;
pub mod usage;

pub use device::{Device, DeviceNumber, Kind};

/// An error and what caused it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
