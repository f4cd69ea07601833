//! Inputs derived from those of a corpus, without a fuzzer: a cheap search that needs no special build.
//!
//! **Invariant:** the same inputs and number give the same input.

/// Bytes at which parsers often decide.
const BYTES: [u8; 16] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'{', b'[', b',', b':', b'|', b'%', b'#', b'\n', b'-'];
/// Maximum number of changes of one input.
const CHANGES_MAX: usize = 4;

/// A generator of pseudo-random numbers: SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap_or(u64::MAX)).unwrap_or_default()
    }

    /// A range of at most 32 bytes in an input of that length.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(32)).min(length)
    }
}

/// The input with that number: one of the inputs with a few changes.
///
/// # Panics
/// If there are no inputs.
#[must_use]
pub fn mutated(inputs: &[Vec<u8>], number: u64, bytes_max: usize) -> Vec<u8> {
    let mut dice = Dice(number);
    let mut bytes = inputs[dice.below(inputs.len())].clone();
    for _ in 0..=dice.below(CHANGES_MAX) {
        let at = dice.below(bytes.len());
        match dice.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            1 if !bytes.is_empty() => bytes[at] = BYTES[dice.below(BYTES.len())],
            2 => bytes.insert(at, BYTES[dice.below(BYTES.len())]),
            3 => drop(bytes.drain(dice.range(bytes.len()))),
            // A range again, somewhere else.
            4 => {
                let copied = bytes[dice.range(bytes.len())].to_vec();
                drop(bytes.splice(at..at, copied));
            }
            // A range of another input.
            5 => {
                let other = &inputs[dice.below(inputs.len())];
                let taken = other[dice.range(other.len())].to_vec();
                let replaced = dice.range(bytes.len());
                drop(bytes.splice(replaced, taken));
            }
            6 => bytes.truncate(at),
            _ => match bytes.iter().skip(at).position(u8::is_ascii_digit) {
                Some(digit) => bytes[at + digit] = b'0' + u8::try_from(dice.below(10)).unwrap_or_default(),
                None => bytes.push(BYTES[dice.below(BYTES.len())]),
            },
        }
    }
    bytes.truncate(bytes_max);
    bytes
}
