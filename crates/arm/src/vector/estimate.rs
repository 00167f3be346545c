//! Reciprocals and reciprocals of square roots by Newton's method: estimates of eight bits, and
//! steps (ARM DDI 0406C, A2.7.6 and A2.7.7).

use super::float::{Environment, Finite, Number, SINGLE, flag};

impl Environment {
    /// 2 - a * b, a step of Newton's method for the reciprocal (A8.8.372).
    pub fn reciprocal_step(&mut self, a: u64, b: u64) -> u64 {
        let two = SINGLE.constant(1, 0);
        if self.is_zero_times_infinity(a, b) {
            return two;
        }
        let product = self.multiply(a, b, SINGLE);
        self.subtract(two, product, SINGLE)
    }

    /// (3 - a * b) / 2, a step for the reciprocal of the square root (A8.8.378).
    pub fn root_step(&mut self, a: u64, b: u64) -> u64 {
        if self.is_zero_times_infinity(a, b) {
            return SINGLE.constant(0, 2);
        }
        let product = self.multiply(a, b, SINGLE);
        let difference = self.subtract(SINGLE.constant(1, 2), product, SINGLE);
        self.divide(difference, SINGLE.constant(1, 0), SINGLE)
    }

    fn is_zero_times_infinity(&mut self, a: u64, b: u64) -> bool {
        let before = self.raised;
        let pair = (self.unpack(a, SINGLE), self.unpack(b, SINGLE));
        let found = matches!(
            pair,
            (Number::Zero(_), Number::Infinity(_)) | (Number::Infinity(_), Number::Zero(_))
        );
        if !found {
            // The operation itself will say what it finds.
            self.raised = before;
        }
        found
    }

    /// An estimate of the reciprocal, of eight bits (A8.8.371).
    pub fn reciprocal_estimate(&mut self, a: u64) -> u64 {
        let x = self.unpack(a, SINGLE);
        if let Some(nan) = self.nan(&[(a, x)], SINGLE) {
            return nan;
        }
        let negative = a & SINGLE.sign_bit() != 0;
        let exponent = a >> 23 & 0xff;
        match x {
            Number::Zero(_) => {
                self.raised |= flag::DIVIDE_BY_ZERO;
                SINGLE.infinity(negative)
            }
            Number::Infinity(_) => SINGLE.sign(negative),
            // Its reciprocal is denormal.
            _ if exponent >= 253 => {
                self.raised |= flag::UNDERFLOW;
                SINGLE.sign(negative)
            }
            _ => {
                let estimate = estimate_reciprocal(256 | (a >> 15) as u32 & 0xff);
                let fraction = u64::from(estimate & 0xff) << 15;
                SINGLE.sign(negative) | (253 - exponent) << 23 | fraction
            }
        }
    }

    /// An estimate of the reciprocal of the square root (A8.8.377).
    pub fn root_estimate(&mut self, a: u64) -> u64 {
        let x = self.unpack(a, SINGLE);
        if let Some(nan) = self.nan(&[(a, x)], SINGLE) {
            return nan;
        }
        match x {
            Number::Zero(negative) => {
                self.raised |= flag::DIVIDE_BY_ZERO;
                SINGLE.infinity(negative)
            }
            Number::Infinity(false) => 0,
            Number::Finite(Finite { negative: false, .. }) => {
                let exponent = a >> 23 & 0xff;
                let fraction = a as u32 & 0x7f_ffff;
                let scaled =
                    if exponent & 1 == 0 { 256 | fraction >> 15 } else { 128 | fraction >> 16 };
                let estimate = estimate_root(scaled);
                ((380 - exponent) / 2) << 23 | u64::from(estimate & 0xff) << 15
            }
            _ => self.invalid(SINGLE),
        }
    }
}

/// 2^17 / (256 to 511), as a number of nine bits.
pub fn estimate_reciprocal(value: u32) -> u32 {
    ((1 << 19) / (value * 2 + 1)).div_ceil(2)
}

/// The reciprocal of the square root of 128 to 511, as a number of nine bits.
pub fn estimate_root(value: u32) -> u32 {
    let value = if value < 256 { value * 2 + 1 } else { (value | 1) * 2 };
    // The largest number whose square times the value is below 2^28.
    let mut root = 512;
    while value * (root + 1) * (root + 1) < 1 << 28 {
        root += 1;
    }
    root.div_ceil(2)
}
