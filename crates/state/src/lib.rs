//! What a machine holds, as bytes and back: the state of a run that is saved and restored.
//!
//! A machine's description builds a machine; its [`State`] is the rest: what execution has changed.
//! So a state is restored *into* a machine that was built from a description, and what the
//! description gave stays. Of each type one of the macros names every field: a field that is added
//! and forgotten does not compile.
//!
//! * [`state!`] is for what stands in place: structures whose shape the description gives.
//! * [`value!`] and [`value_enum!`] are for what can be made from the bytes alone.

mod containers;
mod file;
mod macros;
mod stream;

pub use containers::{restore_optional, restore_sparse, save_optional, save_sparse};
pub use file::{FileError, SavedState, save, unfinished_name};
pub use stream::{Damaged, Restorer, Saver};

/// Something that execution changes.
pub trait State {
    /// Writes it.
    fn save(&self, to: &mut Saver<'_>);

    /// Makes it what was saved of one of the same shape.
    ///
    /// # Errors
    /// The bytes are of something else; it may be changed in part then.
    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged>;
}

/// A state that needs nothing to be restored into.
pub trait Value: State + Sized {
    /// Makes what was saved.
    ///
    /// # Errors
    /// The bytes are of something else.
    fn load(from: &mut Restorer<'_>) -> Result<Self, Damaged>;
}
