//! Floating-point arithmetic as ARM has it (ARM DDI 0406C, A2.7): results that are rounded once,
//! tininess before rounding, flushing to zero, the propagation of NaNs. Numbers are bits in the low
//! end of a word.
//!
//! A library of IEEE arithmetic would have to be corrected in each of these points; what is left is
//! short.

/// Cumulative exceptions, as FPSCR has them.
pub mod flag {
    /// Invalid operation.
    pub const INVALID: u32 = 1;
    /// Division by zero.
    pub const DIVIDE_BY_ZERO: u32 = 1 << 1;
    /// Overflow.
    pub const OVERFLOW: u32 = 1 << 2;
    /// Underflow.
    pub const UNDERFLOW: u32 = 1 << 3;
    /// Inexact.
    pub const INEXACT: u32 = 1 << 4;
    /// An operand was flushed to zero.
    pub const INPUT_DENORMAL: u32 = 1 << 7;
}

/// A format of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

/// 16 bits.
pub const HALF: Format = Format { exponent_bits: 5, fraction_bits: 10 };
/// 32 bits.
pub const SINGLE: Format = Format { exponent_bits: 8, fraction_bits: 23 };
/// 64 bits.
pub const DOUBLE: Format = Format { exponent_bits: 11, fraction_bits: 52 };

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn largest_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    pub(super) const fn sign(self, negative: bool) -> u64 {
        (negative as u64) << (self.exponent_bits + self.fraction_bits)
    }

    const fn fraction(self, bits: u64) -> u64 {
        bits & ((1 << self.fraction_bits) - 1)
    }

    const fn quiet_bit(self) -> u64 {
        1 << (self.fraction_bits - 1)
    }

    pub(super) const fn infinity(self, negative: bool) -> u64 {
        self.sign(negative) | self.largest_exponent() << self.fraction_bits
    }

    const fn default_nan(self) -> u64 {
        self.infinity(false) | self.quiet_bit()
    }

    /// The bit of the sign.
    pub const fn sign_bit(self) -> u64 {
        self.sign(true)
    }

    /// A small power of two, or three halves and three.
    pub(super) const fn constant(self, exponent: i32, fraction_of_four: u64) -> u64 {
        let biased = (self.bias() + exponent) as u64;
        biased << self.fraction_bits | fraction_of_four << (self.fraction_bits - 2)
    }
}

/// How to round, in the order of FPSCR.RMode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Towards plus infinity.
    Up,
    /// Towards minus infinity.
    Down,
    /// Towards zero.
    Zero,
}

/// A number taken apart; the value of a finite one is `significand` times two to the `exponent`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Nan { quiet: bool },
    Infinity(bool),
    Zero(bool),
    Finite(Finite),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Finite {
    pub(super) negative: bool,
    exponent: i32,
    significand: u128,
}

impl Finite {
    /// With the highest bit of the significand at `place`.
    fn normalized(self, place: u32) -> Finite {
        let highest = 127 - self.significand.leading_zeros();
        let left = place as i32 - highest as i32;
        let significand = if left >= 0 {
            self.significand << left
        } else {
            shifted_right(self.significand, -left as u32)
        };
        Finite { exponent: self.exponent - left, significand, ..self }
    }
}

/// What is shifted out stays in the lowest bit.
fn shifted_right(value: u128, by: u32) -> u128 {
    if by >= 128 {
        return u128::from(value != 0);
    }
    value >> by | u128::from(value & ((1 << by) - 1) != 0)
}

/// Modes of arithmetic, and the exceptions that it raised.
#[derive(Clone, Copy)]
pub struct Environment {
    /// How to round.
    pub rounding: Rounding,
    /// Denormal numbers are zero.
    pub flush: bool,
    /// Every NaN that results is the default one.
    pub default_nan: bool,
    /// Half-precision numbers have no infinities and NaNs.
    pub alternative_half: bool,
    /// Bits of [`flag`].
    pub raised: u32,
}

impl Environment {
    /// The modes of an FPSCR.
    pub fn of(fpscr: u32) -> Environment {
        let modes = [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero];
        Environment {
            rounding: modes[(fpscr >> 22 & 3) as usize],
            flush: fpscr >> 24 & 1 != 0,
            default_nan: fpscr >> 25 & 1 != 0,
            alternative_half: fpscr >> 26 & 1 != 0,
            raised: 0,
        }
    }

    /// The modes of Advanced SIMD, whatever FPSCR says (A2.7.2).
    pub fn standard(fpscr: u32) -> Environment {
        Environment::of(1 << 24 | 1 << 25 | fpscr & 1 << 26)
    }

    pub(super) fn unpack(&mut self, bits: u64, format: Format) -> Number {
        let negative = bits & format.sign_bit() != 0;
        let fraction = format.fraction(bits);
        let exponent = bits >> format.fraction_bits & format.largest_exponent();
        let finite = |exponent: u64, significand: u64| {
            let exponent = exponent as i32 - format.bias() - format.fraction_bits as i32;
            Number::Finite(Finite { negative, exponent, significand: significand.into() })
        };
        let whole = format.largest_exponent();
        let alternative = format == HALF && self.alternative_half;
        if exponent == 0 {
            if fraction == 0 {
                return Number::Zero(negative);
            }
            if self.flush && format != HALF {
                self.raised |= flag::INPUT_DENORMAL;
                return Number::Zero(negative);
            }
            return finite(1, fraction);
        }
        if exponent != whole || alternative {
            return finite(exponent, fraction | 1 << format.fraction_bits);
        }
        match fraction {
            0 => Number::Infinity(negative),
            _ => Number::Nan { quiet: fraction & format.quiet_bit() != 0 },
        }
    }

    fn rounds_up(&self, negative: bool, odd: bool, rest: u128, half: u128) -> bool {
        match self.rounding {
            Rounding::Nearest => rest > half || rest == half && odd,
            Rounding::Up => !negative && rest != 0,
            Rounding::Down => negative && rest != 0,
            Rounding::Zero => false,
        }
    }

    /// Divides by a power of two and rounds; and whether that was inexact.
    fn rounded(&self, negative: bool, value: u128, shift: i32) -> (u128, bool) {
        if shift <= 0 {
            return (value << -shift, false);
        }
        // Of what is shifted out altogether all that matters is that it is less than half.
        let value = if shift > 127 { u128::from(value != 0) } else { value };
        let shift = shift.min(127) as u32;
        let (whole, rest) = (value >> shift, value & ((1 << shift) - 1));
        let up = self.rounds_up(negative, whole & 1 != 0, rest, 1 << (shift - 1));
        (whole + u128::from(up), rest != 0)
    }

    /// Rounds to a format. The lowest bit may stand for a rest, if there are two bits more than it
    /// has.
    fn pack(&mut self, number: Finite, format: Format) -> u64 {
        let Finite { negative, exponent, significand } = number;
        let highest = exponent + 127 - significand.leading_zeros() as i32;
        let least = 1 - format.bias();
        let tiny = highest < least;
        if tiny && self.flush && format != HALF {
            self.raised |= flag::UNDERFLOW;
            return format.sign(negative);
        }
        let lowest = highest.max(least) - format.fraction_bits as i32;
        let (mut whole, inexact) = self.rounded(negative, significand, lowest - exponent);
        let mut biased = highest.max(least) + format.bias();
        if whole >> (format.fraction_bits + 1) != 0 {
            whole >>= 1;
            biased += 1;
        }
        if whole >> format.fraction_bits == 0 {
            biased = 0;
        }
        let alternative = format == HALF && self.alternative_half;
        let largest = format.largest_exponent() as i32;
        if alternative && biased > largest {
            self.raised |= flag::INVALID;
            return format.sign(negative) | 0x7fff;
        }
        if !alternative && biased >= largest {
            self.raised |= flag::OVERFLOW | flag::INEXACT;
            let away = match self.rounding {
                Rounding::Nearest => true,
                Rounding::Up => !negative,
                Rounding::Down => negative,
                Rounding::Zero => false,
            };
            let infinity = format.infinity(negative);
            return if away { infinity } else { infinity - 1 };
        }
        if inexact {
            self.raised |= flag::INEXACT | if tiny { flag::UNDERFLOW } else { 0 };
        }
        let biased = (biased as u64) << format.fraction_bits;
        format.sign(negative) | biased | format.fraction(whole as u64)
    }

    pub(super) fn invalid(&mut self, format: Format) -> u64 {
        self.raised |= flag::INVALID;
        format.default_nan()
    }

    /// What comes of NaNs among operands, if there are any: the first signalling one, else the
    /// first.
    pub(super) fn nan(&mut self, operands: &[(u64, Number)], format: Format) -> Option<u64> {
        let is = |wanted: bool| {
            move |&&(_, number): &&(u64, Number)| number == Number::Nan { quiet: wanted }
        };
        let signalling = operands.iter().find(is(false));
        let &(bits, _) = signalling.or_else(|| operands.iter().find(is(true)))?;
        if signalling.is_some() {
            self.raised |= flag::INVALID;
        }
        Some(if self.default_nan { format.default_nan() } else { bits | format.quiet_bit() })
    }

    /// The sign of a zero that is the sum of two numbers of different signs.
    fn zero_of_difference(&self, format: Format) -> u64 {
        format.sign(self.rounding == Rounding::Down)
    }

    fn sum(&mut self, a: Finite, b: Finite, format: Format) -> u64 {
        // Room for a carry above; below, more bits than any product has.
        let (a, b) = (a.normalized(125), b.normalized(125));
        let (large, small) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
        let aligned = shifted_right(small.significand, (large.exponent - small.exponent) as u32);
        let (negative, significand) = if large.negative == small.negative {
            (large.negative, large.significand + aligned)
        } else if large.significand >= aligned {
            (large.negative, large.significand - aligned)
        } else {
            (small.negative, aligned - large.significand)
        };
        if significand == 0 {
            return self.zero_of_difference(format);
        }
        self.pack(Finite { negative, significand, ..large }, format)
    }

    fn add_numbers(&mut self, (a, x): (u64, Number), (b, y): (u64, Number), format: Format) -> u64 {
        use Number::{Finite, Infinity, Zero};
        if let Some(nan) = self.nan(&[(a, x), (b, y)], format) {
            return nan;
        }
        match (x, y) {
            (Infinity(s), Infinity(t)) if s != t => self.invalid(format),
            (Infinity(s), _) | (_, Infinity(s)) => format.infinity(s),
            (Zero(s), Zero(t)) if s == t => format.sign(s),
            (Zero(_), Zero(_)) => self.zero_of_difference(format),
            (Finite(x), Zero(_)) | (Zero(_), Finite(x)) => self.pack(x, format),
            (Finite(x), Finite(y)) => self.sum(x, y, format),
            (Number::Nan { .. }, _) | (_, Number::Nan { .. }) => format.default_nan(),
        }
    }

    /// a + b.
    pub fn add(&mut self, a: u64, b: u64, format: Format) -> u64 {
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        self.add_numbers((a, x), (b, y), format)
    }

    /// a - b. A NaN keeps its sign.
    pub fn subtract(&mut self, a: u64, b: u64, format: Format) -> u64 {
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        let negated = match y {
            Number::Infinity(negative) => Number::Infinity(!negative),
            Number::Zero(negative) => Number::Zero(!negative),
            Number::Finite(y) => Number::Finite(Finite { negative: !y.negative, ..y }),
            nan => nan,
        };
        self.add_numbers((a, x), (b, negated), format)
    }

    /// a * b.
    pub fn multiply(&mut self, a: u64, b: u64, format: Format) -> u64 {
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        if let Some(nan) = self.nan(&[(a, x), (b, y)], format) {
            return nan;
        }
        match product(x, y) {
            None => self.invalid(format),
            Some(Number::Infinity(negative)) => format.infinity(negative),
            Some(Number::Finite(number)) => self.pack(number, format),
            Some(Number::Zero(negative)) => format.sign(negative),
            Some(Number::Nan { .. }) => format.default_nan(),
        }
    }

    /// addend + a * b, rounded once.
    pub fn multiply_add(&mut self, addend: u64, a: u64, b: u64, format: Format) -> u64 {
        let (z, x) = (self.unpack(addend, format), self.unpack(a, format));
        let y = self.unpack(b, format);
        let is_nan = |number| matches!(number, Number::Nan { .. });
        let undefined = !is_nan(x) && !is_nan(y) && product(x, y).is_none();
        if undefined && z == (Number::Nan { quiet: true }) {
            return self.invalid(format);
        }
        if let Some(nan) = self.nan(&[(addend, z), (a, x), (b, y)], format) {
            return nan;
        }
        match product(x, y) {
            None => self.invalid(format),
            Some(product) => self.add_numbers((addend, z), (0, product), format),
        }
    }

    /// a / b.
    pub fn divide(&mut self, a: u64, b: u64, format: Format) -> u64 {
        use Number::{Finite as Other, Infinity, Zero};
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        if let Some(nan) = self.nan(&[(a, x), (b, y)], format) {
            return nan;
        }
        let negative = (a ^ b) & format.sign_bit() != 0;
        match (x, y) {
            (Infinity(_), Infinity(_)) | (Zero(_), Zero(_)) => self.invalid(format),
            (Infinity(_), _) => format.infinity(negative),
            (_, Zero(_)) => {
                self.raised |= flag::DIVIDE_BY_ZERO;
                format.infinity(negative)
            }
            (Other(x), Other(y)) => {
                let (x, y) = (x.normalized(126), y.normalized(63));
                let rest = u128::from(x.significand % y.significand != 0);
                let significand = (x.significand / y.significand) << 1 | rest;
                let exponent = x.exponent - y.exponent - 1;
                self.pack(Finite { negative, exponent, significand }, format)
            }
            _ => format.sign(negative),
        }
    }

    /// The square root.
    pub fn square_root(&mut self, a: u64, format: Format) -> u64 {
        let x = self.unpack(a, format);
        if let Some(nan) = self.nan(&[(a, x)], format) {
            return nan;
        }
        match x {
            Number::Zero(negative) => format.sign(negative),
            Number::Infinity(false) => format.infinity(false),
            Number::Finite(x) if !x.negative => {
                let even = x.normalized(125);
                let even = if even.exponent & 1 != 0 { x.normalized(126) } else { even };
                let root = even.significand.isqrt();
                let rest = u128::from(root * root != even.significand);
                let exponent = even.exponent / 2 - 1;
                self.pack(
                    Finite { negative: false, exponent, significand: root << 1 | rest },
                    format,
                )
            }
            _ => self.invalid(format),
        }
    }

    /// Compares: the condition flags NZCV. A quiet NaN is an invalid operand if `signals`.
    pub fn compare(&mut self, a: u64, b: u64, signals: bool, format: Format) -> u32 {
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        let nan = |number, quiet| number == Number::Nan { quiet };
        if [x, y].iter().any(|&number| nan(number, true) || nan(number, false)) {
            if signals || nan(x, false) || nan(y, false) {
                self.raised |= flag::INVALID;
            }
            return 0b0011;
        }
        let key = |bits: u64, number: Number| -> i64 {
            let magnitude = if matches!(number, Number::Zero(_)) {
                0
            } else {
                (bits & (format.sign_bit() - 1)) as i64
            };
            if bits & format.sign_bit() != 0 { -magnitude } else { magnitude }
        };
        match key(a, x).cmp(&key(b, y)) {
            std::cmp::Ordering::Less => 0b1000,
            std::cmp::Ordering::Equal => 0b0110,
            std::cmp::Ordering::Greater => 0b0010,
        }
    }

    /// The larger, or the smaller; a zero without sign is the larger one (A8.8.335).
    pub fn extreme(&mut self, a: u64, b: u64, larger: bool, format: Format) -> u64 {
        let (x, y) = (self.unpack(a, format), self.unpack(b, format));
        if let Some(nan) = self.nan(&[(a, x), (b, y)], format) {
            return nan;
        }
        let value = |bits: u64, number| match number {
            Number::Zero(negative) => format.sign(negative),
            _ => bits,
        };
        let (a, b) = (value(a, x), value(b, y));
        let order = |bits: u64| {
            let magnitude = (bits & (format.sign_bit() - 1)) as i64;
            if bits & format.sign_bit() != 0 { !magnitude } else { magnitude }
        };
        if (order(a) > order(b)) == larger { a } else { b }
    }

    /// From one format to another.
    pub fn convert(&mut self, a: u64, from: Format, to: Format) -> u64 {
        let negative = a & from.sign_bit() != 0;
        let number = self.unpack(a, from);
        let alternative = to == HALF && self.alternative_half;
        match number {
            Number::Nan { quiet } => {
                if !quiet || alternative {
                    self.raised |= flag::INVALID;
                }
                if alternative {
                    return to.sign(negative);
                }
                if self.default_nan {
                    return to.default_nan();
                }
                let fraction = from.fraction(a) << (63 - from.fraction_bits);
                to.infinity(negative) | to.quiet_bit() | fraction >> (63 - to.fraction_bits)
            }
            Number::Infinity(_) if alternative => {
                self.raised |= flag::INVALID;
                to.sign(negative) | 0x7fff
            }
            Number::Infinity(negative) => to.infinity(negative),
            Number::Zero(negative) => to.sign(negative),
            Number::Finite(number) => self.pack(number, to),
        }
    }

    /// To an integer or fixed-point number of `width` bits; what does not fit is saturated.
    pub fn convert_to_fixed(
        &mut self,
        a: u64,
        format: Format,
        (width, signed): (u32, bool),
        fraction_bits: u32,
    ) -> u64 {
        let negative = a & format.sign_bit() != 0;
        let (least, most): (i128, i128) = if signed {
            (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        } else {
            (0, (1 << width) - 1)
        };
        let (value, inexact) = match self.unpack(a, format) {
            Number::Nan { .. } => {
                self.raised |= flag::INVALID;
                return 0;
            }
            Number::Zero(_) => return 0,
            Number::Infinity(_) => (i128::MAX / 2, false),
            Number::Finite(number) => {
                let exponent = number.exponent + fraction_bits as i32;
                if exponent > 64 {
                    (i128::MAX / 2, false)
                } else {
                    let (value, inexact) = self.rounded(negative, number.significand, -exponent);
                    (value as i128, inexact)
                }
            }
        };
        let value = if negative { -value } else { value };
        let fitting = value.clamp(least, most);
        if fitting != value {
            self.raised |= flag::INVALID;
        } else if inexact {
            self.raised |= flag::INEXACT;
        }
        fitting as u64
    }

    /// From an integer or fixed-point number.
    pub fn convert_from_fixed(&mut self, value: i64, fraction_bits: u32, format: Format) -> u64 {
        if value == 0 {
            return 0;
        }
        let number = Finite {
            negative: value < 0,
            exponent: -(fraction_bits as i32),
            significand: value.unsigned_abs().into(),
        };
        self.pack(number, format)
    }
}

/// The exact product; nothing for zero times infinity.
fn product(x: Number, y: Number) -> Option<Number> {
    use Number::{Finite as Other, Infinity, Zero};
    Some(match (x, y) {
        (Zero(_), Infinity(_)) | (Infinity(_), Zero(_)) => return None,
        (Infinity(s) | Zero(s), Infinity(t) | Zero(t)) if matches!(x, Infinity(_)) => {
            Infinity(s != t)
        }
        (Infinity(s), Other(y)) => Infinity(s != y.negative),
        (Other(x), Infinity(t)) => Infinity(x.negative != t),
        (Zero(s), Other(y)) => Zero(s != y.negative),
        (Other(x), Zero(t)) => Zero(x.negative != t),
        (Zero(s) | Infinity(s), Zero(t) | Infinity(t)) => Zero(s != t),
        (Other(x), Other(y)) => Other(Finite {
            negative: x.negative != y.negative,
            exponent: x.exponent + y.exponent,
            significand: x.significand * y.significand,
        }),
        (nan @ Number::Nan { .. }, _) | (_, nan @ Number::Nan { .. }) => nan,
    })
}
