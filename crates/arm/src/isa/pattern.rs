//! Bit patterns, written as the manual draws them.

/// A set of words and the fields in them, read from text such as
/// `"cccc 000 0100 S nnnn dddd aaaaa tt 0 mmmm"`: one character a bit, from the highest on, spaces
/// for the eye.
///
/// `0` and `1` are what the bit must be; `-` is not looked at: the manual says that it should be
/// zero or one, and the cores do not care. A letter is a bit of the field of that name; a field in
/// several pieces is put together, the higher piece first. An initial `c` is the condition of an
/// ARM instruction, which is never 1111: that space has other instructions (A3.2.1).
///
/// What follows a `!` is the beginning of words that are left out; there a dash is any bit.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// Bits that are the same in all words.
    pub mask: u32,
    /// What they are.
    pub value: u32,
    /// Words that are left out: those with these bits ...
    pub except_mask: u32,
    /// ... like this. No word, if the mask is empty.
    pub except_value: u32,
    /// Words that begin with 1111 are left out too.
    pub conditional: bool,
    /// Length of the words in bits.
    pub width: u32,
    pieces: [Piece; MAX_PIECES],
    piece_count: usize,
}

const MAX_PIECES: usize = 10;

/// Neighbouring bits of one field.
#[derive(Clone, Copy)]
struct Piece {
    letter: u8,
    low: u8,
    mask: u32,
    width: u8,
}

impl Pattern {
    /// Reads a pattern. Evaluated at compile time, where a mistake in it is an error.
    pub const fn parse(text: &str) -> Pattern {
        let text = text.as_bytes();
        let mut end = 0;
        let mut width = 0;
        while end < text.len() && text[end] != b'!' {
            width += (text[end] != b' ') as u32;
            end += 1;
        }
        assert!(width == 16 || width == 32, "a pattern has 16 or 32 bits");
        let mut pattern = Pattern {
            mask: 0,
            value: 0,
            except_mask: 0,
            except_value: 0,
            conditional: width == 32 && text[0] == b'c',
            width,
            pieces: [Piece { letter: 0, low: 0, mask: 0, width: 0 }; MAX_PIECES],
            piece_count: 0,
        };
        let mut at = 0;
        let mut bit = width;
        let mut before = 0;
        while at < end {
            let letter = text[at];
            at += 1;
            if letter == b' ' {
                continue;
            }
            bit -= 1;
            if letter == b'0' || letter == b'1' {
                pattern.mask |= 1 << bit;
                pattern.value |= ((letter - b'0') as u32) << bit;
            } else if letter == before {
                let piece = &mut pattern.pieces[pattern.piece_count - 1];
                piece.low = bit as u8;
                piece.mask = piece.mask << 1 | 1;
                piece.width += 1;
            } else if letter != b'-' {
                assert!(letter.is_ascii_alphabetic(), "a field is a letter");
                pattern.pieces[pattern.piece_count] =
                    Piece { letter, low: bit as u8, mask: 1, width: 1 };
                pattern.piece_count += 1;
            }
            before = if letter.is_ascii_alphabetic() { letter } else { 0 };
        }
        bit = width;
        at += 1;
        while at < text.len() {
            if text[at] == b'-' {
                bit -= 1;
            } else if text[at] != b' ' {
                assert!(text[at] == b'0' || text[at] == b'1', "what is left out is in 0, 1 and -");
                bit -= 1;
                pattern.except_mask |= 1 << bit;
                pattern.except_value |= ((text[at] - b'0') as u32) << bit;
            }
            at += 1;
        }
        pattern
    }

    /// Whether a word is one of the pattern's.
    #[inline]
    pub const fn matches(&self, word: u32) -> bool {
        word & self.mask == self.value
            && (self.except_mask == 0 || word & self.except_mask != self.except_value)
            && !(self.conditional && word >> 28 == 15)
    }

    /// The fields of a word.
    #[inline]
    pub fn fields(&self, word: u32) -> Fields {
        let mut fields = Fields([0; 64]);
        for piece in &self.pieces[..self.piece_count] {
            let field = &mut fields.0[usize::from(piece.letter & 63)];
            *field = *field << piece.width | word >> piece.low & piece.mask;
        }
        fields
    }
}

/// The fields of one word by their letters; those that its pattern does not have are zero.
pub struct Fields([u32; 64]);

impl Fields {
    /// A field's bits.
    #[inline(always)]
    pub fn bits(&self, letter: u8) -> u32 {
        // The codes of letters differ in their lower six bits.
        self.0[usize::from(letter & 63)]
    }

    /// A field of at most eight bits.
    #[inline(always)]
    pub fn byte(&self, letter: u8) -> u8 {
        self.bits(letter) as u8
    }

    /// The register in `d`.
    #[inline(always)]
    pub fn rd(&self) -> u8 {
        self.byte(b'd')
    }

    /// The register in `n`.
    #[inline(always)]
    pub fn rn(&self) -> u8 {
        self.byte(b'n')
    }

    /// The register in `m`.
    #[inline(always)]
    pub fn rm(&self) -> u8 {
        self.byte(b'm')
    }

    /// The register in `s`.
    #[inline(always)]
    pub fn rs(&self) -> u8 {
        self.byte(b's')
    }

    /// Whether a field of one bit is set.
    #[inline(always)]
    pub fn flag(&self, letter: u8) -> bool {
        self.bits(letter) != 0
    }

    /// A field as a signed number of `width` bits.
    #[inline(always)]
    pub fn signed(&self, letter: u8, width: u32) -> u32 {
        ((self.bits(letter) << (32 - width)) as i32 >> (32 - width)) as u32
    }
}
