//! The only source of randomness in the models.

/// A small deterministic generator: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014). One addition and one mix a draw; the whole state is one word.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

mmulab_state::state!(Random { state });

impl Random {
    /// A generator whose sequence depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for one of several structures that share a seed: `stream` tells them apart.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut parent = Self::new(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Self::new(parent.next_u64())
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` (which must not be 0), from the upper half of one draw.
    ///
    /// Scaling instead of dividing leaves a bias below `bound` in 2^32: invisible for the few
    /// hundred ways of a cache.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_published_sequence_of_seed_zero() {
        // First outputs of SplitMix64 for seed 0, as its reference implementation prints them.
        let mut random = Random::new(0);
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut random = Random::stream(7, 1);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
    }
}
