//! Rings of jumps: what a ring of lines is to data, these are to instructions.

use crate::Error;
use crate::mapping::Mapping;
use crate::ring::{Pattern, cycle};
use crate::timing::cycles_per_step;

/// Cycles that a jump takes which goes round all lines of the pattern, one jump in each; one a
/// sample.
pub(crate) fn jump_cycles(
    memory: &Mapping,
    pattern: Pattern,
    samples: usize,
) -> Result<Vec<f64>, Error> {
    // The line behind the pattern counts rounds.
    let last = Pattern { lines: pattern.lines + 1, ..pattern };
    let mut ring = cycle(&[(memory, last)])?;
    let end = ring.pop().unwrap_or(memory.start());
    for (at, next) in ring.iter().zip(ring.iter().skip(1).chain([&end])) {
        write_jump(*at, *next)?;
    }
    let rounds = write_end(end, ring[0])?;
    Ok(cycles_per_step(samples, pattern.lines, pattern.lines, |steps| {
        rounds(steps / pattern.lines)
    }))
}

#[cfg(target_arch = "x86_64")]
/// How far a jump of `length` bytes at `at` goes.
fn distance(at: *mut u8, length: usize, to: *mut u8) -> Result<i32, Error> {
    i32::try_from(to as i64 - (at as i64 + length as i64)).map_err(|_| Error::Architecture)
}

#[cfg(target_arch = "x86_64")]
fn write_jump(at: *mut u8, to: *mut u8) -> Result<(), Error> {
    let mut code = [0xe9, 0, 0, 0, 0]; // JMP rel32
    code[1..].copy_from_slice(&distance(at, 5, to)?.to_le_bytes());
    // SAFETY: a line of a pattern lies within its mapping and has room for five bytes.
    unsafe { at.cast::<[u8; 5]>().write(code) };
    Ok(())
}

/// Ends the ring, at `at`, and returns what goes round it N times.
#[cfg(target_arch = "x86_64")]
fn write_end(at: *mut u8, first: *mut u8) -> Result<extern "sysv64" fn(usize), Error> {
    let mut code = [0x48, 0xff, 0xcf, 0x0f, 0x85, 0, 0, 0, 0, 0xc3]; // DEC RDI; JNZ rel32; RET
    code[5..9].copy_from_slice(&distance(at, 9, first)?.to_le_bytes());
    // SAFETY: as in `write_jump`; the ring that begins at `first` comes here, and its code keeps
    // the calling convention.
    unsafe {
        at.cast::<[u8; 10]>().write(code);
        Ok(std::mem::transmute::<*mut u8, extern "sysv64" fn(usize)>(first))
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn write_jump(_at: *mut u8, _to: *mut u8) -> Result<(), Error> {
    Err(Error::Architecture)
}

#[cfg(not(target_arch = "x86_64"))]
fn write_end(_at: *mut u8, _first: *mut u8) -> Result<fn(usize), Error> {
    Err(Error::Architecture)
}
