//! The instruction sets: which encodings there are, and what each instruction does.
//!
//! - `a32`, `t16` and `t32` are the decode tables, one row an encoding: name, section of the
//!   manual, the architecture that brought it, the bit pattern as the manual draws it, and the form
//!   that turns the pattern's fields into an [`Op`]. No two rows match the same word; a word that
//!   no row matches is undefined.
//! - `forms` has those forms, shared by the tables: handler, operands, timing.
//! - `execute` has the handlers, one file a kind of instruction. They get decoded fields only.
//! - `pattern` reads the patterns, `table` finds the row of a word, `decode` puts it together.
//!
//! "A4.1.x" and the like are sections of the ARM Architecture Reference Manual, ARM DDI 0100I.
//!
//! **A new instruction** is a row, and where nothing there fits, a form and a handler. A new field
//! is a letter in the pattern. A field may come in several pieces, as `i` of a Thumb-2 immediate
//! does. `a32_v7` and `t32` have what ARMv6 and ARMv7 brought, with sections of ARM DDI 0406C; the
//! patterns of 32-bit Thumb have the first half-word in the upper half. Encodings that ARMv7 gave
//! another meaning are in rows of `Since::Until`; each generation of cores has tables of its own.

mod a32;
mod a32_v7;
mod decode;
pub mod execute;
mod forms;
mod forms_v7;
mod neon;
mod op;
mod pattern;
#[cfg(test)]
mod source_tests;
mod t16;
mod t32;
mod table;
#[cfg(test)]
mod tests;
mod vfp;

pub use decode::{Decoder, Generations};
pub use op::{CoprocessorAccess, Op};
