//! The instruction sets: which encodings there are, and what each instruction does.
//!
//! - `a32` and `t16` are the decode tables, one row an encoding: name, section of the manual, the
//!   architecture that brought it, the bit pattern as the manual draws it, and the form that turns the
//!   pattern's fields into an [`Op`]. No two rows match the same word; a word that no row matches is
//!   undefined.
//! - `forms` has those forms, shared by the tables: handler, operands, timing.
//! - `execute` has the handlers, one file a kind of instruction. They get decoded fields only.
//! - `pattern` reads the patterns, `table` finds the row of a word, `decode` puts it together.
//!
//! "A4.1.x" and the like are sections of the ARM Architecture Reference Manual, ARM DDI 0100I.
//!
//! **A new instruction** is a row, and where nothing there fits, a form and a handler. A new field is
//! a letter in the pattern. A field may come in several pieces, as `i` of a Thumb-2 immediate does. A
//! new instruction set is a table of its own: 32-bit Thumb takes its patterns with 32 bits, the first
//! half-word in the upper half. What it needs beside the rows: `Decoder::thumb` must ask that table when
//! a half-word begins with 0b11101, 0b1111 on a core that has Thumb-2, an `Op` must say how long it is,
//! and the run loop must continue by that length instead of one for the state. Floating point is rows whose
//! handlers use registers of its own.

mod a32;
mod decode;
pub mod execute;
mod forms;
mod op;
mod pattern;
mod t16;
mod table;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use op::{CoprocessorAccess, Op};
