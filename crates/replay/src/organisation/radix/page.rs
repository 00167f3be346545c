//! Pages of a program, as costs are accounted for by them.

use crate::address_space::SMALL_SHIFT;
use crate::attribution::Numbered;

/// A page of the program: first address and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// First address.
    pub address: u64,
    /// log2 of the size.
    pub shift: u32,
}

/// Bits of a page's number that its place among pages of its size takes; its size is above.
const PLACE_BITS: u32 = 64 - SMALL_SHIFT;

impl Numbered for Page {
    #[inline]
    fn number(self) -> u64 {
        self.address >> self.shift | u64::from(self.shift) << PLACE_BITS
    }

    fn from_number(number: u64) -> Self {
        let shift = (number >> PLACE_BITS) as u32;
        Self { address: (number & ((1 << PLACE_BITS) - 1)) << shift, shift }
    }
}
