//! BASE: caches alone.

use super::{Organisation, TlbCounters, WalkTarget};

/// Nothing is translated.
#[derive(Clone, Copy, Debug)]
pub struct Base;

impl Organisation for Base {
    fn hits_change_nothing(&self) -> bool {
        true
    }

    #[inline(always)]
    fn is_fetch_mapped(&self, _page: u32) -> bool {
        true
    }

    #[inline(always)]
    fn is_data_mapped(&self, _page: u32) -> bool {
        true
    }

    #[inline(always)]
    fn translate_fetch(&mut self, _page: u32, _target: &mut impl WalkTarget) -> bool {
        false
    }

    #[inline(always)]
    fn translate_data(&mut self, _page: u32, _target: &mut impl WalkTarget) -> bool {
        false
    }

    fn tlb_counters(&self, _references: [u64; 2]) -> Vec<TlbCounters> {
        Vec::new()
    }
}
