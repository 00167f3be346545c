//! Which frame of physical memory a page gets.

use std::collections::HashMap;

use mmulab_hardware::Random;
use mmulab_machine::Placement;

/// Physical memory for pages of each size: an area of 2^N bytes, as the shift N.
const AREA_SHIFT: u32 = 36;

/// Gives each page a frame when it is first touched, and keeps it.
///
/// Pages of each size have an area of 64 GiB (a guest's: less) to themselves, from which frames are
/// taken in order, or in a seeded permutation of that order.
#[derive(Clone, Debug)]
pub struct Frames {
    placement: Placement,
    key: u64,
    area_shift: u32,
    base: u64,
    /// Frame address by (first address, size as a shift) of the page.
    frames: HashMap<(u64, u32), u64>,
    /// Frames given out, by page size as a shift.
    given: [u64; 64],
    last: (u64, u32, u64),
}

impl Frames {
    /// Memory of which nothing is in use.
    pub fn new(placement: Placement, seed: u64) -> Self {
        Self::within(placement, Random::stream(seed, 3), AREA_SHIFT, 1 << AREA_SHIFT)
    }

    /// What a guest takes for its physical memory: areas of `1 << memory_shift` bytes each.
    pub fn of_guest(placement: Placement, seed: u64, memory_shift: u32) -> Self {
        Self::within(placement, Random::stream(seed, 3), memory_shift, 1 << AREA_SHIFT)
    }

    /// Memory of a hypervisor, whose pages are placed otherwise than its guest's.
    pub fn of_host(placement: Placement, seed: u64) -> Self {
        Self::within(placement, Random::stream(seed, 4), AREA_SHIFT, 1 << AREA_SHIFT)
    }

    /// Memory of a 32-bit machine: the lower 2 GiB, beneath the kernel's tables.
    pub fn new_32_bit(placement: Placement, seed: u64) -> Self {
        Self::within(placement, Random::stream(seed, 3), 31, 0)
    }

    fn within(placement: Placement, mut random: Random, area_shift: u32, stride: u64) -> Self {
        Self {
            placement,
            key: random.next_u64(),
            area_shift,
            base: stride,
            frames: HashMap::new(),
            given: [0; 64],
            last: (u64::MAX, 0, 0),
        }
    }

    /// Where `address` is, in a page of the given size.
    #[inline]
    pub fn physical_address(&mut self, address: u64, page_shift: u32) -> u64 {
        let offset = address & ((1 << page_shift) - 1);
        let page = address - offset;
        if self.last.0 != page || self.last.1 != page_shift {
            self.last = (page, page_shift, self.frame(page, page_shift));
        }
        self.last.2 | offset
    }

    fn frame(&mut self, page: u64, page_shift: u32) -> u64 {
        if let Some(&frame) = self.frames.get(&(page, page_shift)) {
            return frame;
        }
        let frame = self.give(page_shift);
        self.frames.insert((page, page_shift), frame);
        frame
    }

    /// A frame for something that is not a page of the program, such as a table.
    pub fn give(&mut self, page_shift: u32) -> u64 {
        let number = self.given[page_shift as usize];
        self.given[page_shift as usize] += 1;
        let bits = self.area_shift - page_shift;
        let place = match self.placement {
            Placement::Random if number < 1 << bits => self.permute(number, bits),
            _ => number,
        };
        // The area's place in memory tells pages of different size apart.
        let area = u64::from(page_shift) * self.base;
        area + (place << page_shift)
    }

    /// A permutation of the numbers of `bits` bits: steps that can each be undone.
    fn permute(&self, number: u64, bits: u32) -> u64 {
        let mask = (1u64 << bits) - 1;
        let half = (bits / 2).max(1);
        let mut mixed = number;
        for round in 0..4 {
            mixed = mixed.wrapping_add(self.key >> (round * 8)) & mask;
            mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
            mixed ^= mixed >> half;
        }
        mixed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn first_touch_is_the_order_of_first_touch() {
        let mut frames = Frames::new_32_bit(Placement::FirstTouch, 1);
        assert_eq!(frames.physical_address(0x7fff_f123, 12), 0x123);
        assert_eq!(frames.physical_address(0x0040_0456, 12), 0x1456);
        assert_eq!(frames.physical_address(0x7fff_ffff, 12), 0xfff);
    }

    #[test]
    fn random_placement_gives_each_page_its_own_frame() {
        for seed in 0..5 {
            let mut frames = Frames::new_32_bit(Placement::Random, seed);
            let given: BTreeSet<u64> = (0..1 << 19).map(|_| frames.give(12)).collect();
            assert_eq!(given.len(), 1 << 19);
            assert!(given.iter().all(|frame| frame % 4096 == 0 && *frame < 1 << 31));
        }
    }

    #[test]
    fn pages_of_different_size_do_not_overlap() {
        let mut frames = Frames::new(Placement::Random, 9);
        let small = frames.physical_address(0, 12);
        let large = frames.physical_address(0, 21);
        let huge = frames.physical_address(0, 30);
        assert_eq!(large % (1 << 21), 0);
        assert_eq!(huge % (1 << 30), 0);
        assert_eq!([small, large, huge].map(|address| address >> AREA_SHIFT), [12, 21, 30]);
    }
}
