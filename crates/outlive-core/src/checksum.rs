//! Checksums that detect corruption, not tampering.

/// A checksum over a sequence of fields.
///
/// ```
/// use outlive_core::checksum::Sum;
/// let sum = |one: &str, other: &str| Sum::new().text(one).text(other).end();
/// assert_ne!(sum("tea", "milk"), sum("team", "ilk"), "field boundaries count");
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "call `end` to get the checksum"]
pub struct Sum(u64);

impl Sum {
    /// Creates a checksum without fields.
    #[expect(clippy::new_without_default, reason = "a checksum of nothing is not a useful default")]
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Adds a number. Different numbers always lead to different states.
    pub fn number(self, number: u64) -> Self {
        let mixed = (self.0 ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self(mixed ^ (mixed >> 32))
    }

    /// Adds text: its length, then its bytes as little-endian numbers of eight bytes.
    pub fn text(self, text: &str) -> Self {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        let sum = self.number(text.len() as u64);
        let sum = words.iter().fold(sum, |sum, word| sum.number(u64::from_le_bytes(*word)));
        if rest.is_empty() {
            return sum;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum.number(u64::from_le_bytes(last))
    }

    /// Adds optional text.
    pub fn optional(self, text: Option<&str>) -> Self {
        // Distinct from any length.
        text.map_or(self.number(u64::MAX), |text| self.text(text))
    }

    /// Returns all 64 bits, for callers that need a hash.
    pub(crate) fn whole(self) -> u64 {
        self.0
    }

    /// Returns the checksum.
    #[must_use]
    pub fn end(self) -> u32 {
        // The lower half mixes both halves of the last product.
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `end` undid the last mixing step, so the upper half of the last number had no influence.
    #[test]
    fn every_bit_of_every_field_counts() {
        let sum = |text: &[u8], number: u64| Sum::new().number(number).text(str::from_utf8(text).expect("ASCII")).end();
        let last =
            |text: &[u8], number: u64| Sum::new().text(str::from_utf8(text).expect("ASCII")).number(number).end();
        for length in 1..=40 {
            let text = vec![b'a'; length];
            for place in 0..length {
                for bit in 0..7 {
                    let mut flipped = text.clone();
                    flipped[place] ^= 1 << bit;
                    assert_ne!(sum(&text, 7), sum(&flipped, 7), "bit {bit} of byte {place} of {length}");
                    assert_ne!(last(&text, 7), last(&flipped, 7), "bit {bit} of byte {place} of {length}");
                }
            }
        }
        for bit in 0..64 {
            assert_ne!(sum(b"tea", 7), sum(b"tea", 7 ^ 1 << bit), "bit {bit}");
            assert_ne!(last(b"tea", 7), last(b"tea", 7 ^ 1 << bit), "bit {bit}");
        }
    }
}
