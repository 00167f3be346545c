//! stub
use crate::board::Board;
use crate::buffer::WriteBuffer;
use crate::memory::{Fault, Memory};
use crate::mmu::Walk;

/// stub
pub struct Checker {
    /// stub
    pub reports: Vec<Report>,
}
/// stub
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// stub
    pub kind: String,
    /// The report in words.
    pub text: String,
}
impl Report {
    /// stub
    pub fn with_places(&self, _place: &dyn Fn(u32) -> String) -> Report {
        self.clone()
    }
}
impl Checker {
    /// stub
    pub fn new(_ram: &[u32]) -> Checker {
        Checker { reports: Vec::new() }
    }
    pub(crate) fn walked(
        &mut self,
        _w: &Walk,
        _a: u32,
        _pc: u32,
        _b: &WriteBuffer,
        _t: &[u32],
        _p: &[u32],
    ) {
    }
}
impl Memory {
    pub(crate) fn check_load(
        &mut self,
        _b: &mut Board,
        _a: u32,
        _p: u32,
        _at: u8,
        _s: u32,
        _w: u32,
    ) {
    }
    pub(crate) fn check_store_access(
        &mut self,
        _b: &mut Board,
        _a: u32,
        _p: u32,
        _at: u8,
        _v: u32,
        _m: u32,
    ) {
    }
    pub(crate) fn check_fetch(&mut self, _b: &mut Board, _pc: u32, _slot: usize, _length: u32) {}
    pub(crate) fn check_refusal(&mut self, _b: &mut Board, _f: Fault, _w: bool) {}
    pub(crate) fn check_fetch_refusal(&mut self, _b: &mut Board, _f: Fault) {}
    pub(crate) fn forget_shadow(&mut self) {}
}
