//! Replays a recorded program on described machines.
//!
//! [`replay`] reads a trace once and drives any number of machines with it. Each machine is an
//! organisation of memory management (module [`organisation`]) over caches (module [`caches`]), and
//! accounts every cycle to a [`Cause`]. What comes out is an [`Outcome`] a machine.
//!
//! Machines with 32-bit page tables see the program through a [`Remapping`]; those with a
//! [`organisation::radix`] table see its own addresses.
//!
//! [`miss-curves`] counts the misses of TLBs of every size instead.

mod address_space;
mod attribution;
pub mod caches;
mod cause;
mod costs;
mod counting;
pub mod engine;
mod frames;
mod known_hits;
mod miss_curves;
pub mod organisation;
mod outcome;
mod profile;
pub mod program;
mod program_costs;
mod read_ahead;
mod remap;
mod replay;
mod subject;
pub mod sweep;
mod watched;

pub use attribution::{Attribution, Numbered, PageWalks, Region, Regions, Sought};
pub use cause::{Cause, Role, Tier};
pub use frames::Frames;
pub use miss_curves::{CURVE_PAGE_SIZES, Curve, MissCurveCounter, MissCurves, Stream, miss_curves};
pub use outcome::{CauseAccount, Interrupts, Outcome, PageCost, RegionCost};
pub use profile::{CodeCost, Function, LineCost, PathCost, Profile, profile};
pub use remap::{DoesNotFit, Remapping};
pub use replay::{Options, ReplayError, replay, replay_with_alternatives, user_space_bytes};
