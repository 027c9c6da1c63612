//! Checksums: they find damage, not malice.

/// The checksum of fields, in their order.
///
/// ```
/// use outlive_core::sum::Sum;
/// let sum = |one: &str, other: &str| Sum::new().text(one).text(other).end();
/// assert_ne!(sum("tea", "milk"), sum("team", "ilk"), "the end of a field counts");
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a checksum is of use once it is ended"]
pub struct Sum(u64);

impl Sum {
    /// Of no field.
    ///
    /// ```
    /// # use outlive_core::sum::Sum;
    /// assert_ne!(Sum::new().end(), Sum::new().number(0).end());
    /// ```
    #[expect(clippy::new_without_default, reason = "a checksum of nothing is nobody's default")]
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// One more field, a number. Any other number leads to another sum.
    ///
    /// ```
    /// # use outlive_core::sum::Sum;
    /// assert_ne!(Sum::new().number(1).end(), Sum::new().number(2).end());
    /// ```
    pub fn number(self, number: u64) -> Self {
        let mixed = (self.0 ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self(mixed ^ (mixed >> 32))
    }

    /// One more field, a text: its length, then its bytes, eight to a number, the first the lowest.
    ///
    /// ```
    /// # use outlive_core::sum::Sum;
    /// assert_ne!(Sum::new().text("tea").end(), Sum::new().text("tea\0").end());
    /// ```
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

    /// One more field, a text or none.
    ///
    /// ```
    /// # use outlive_core::sum::Sum;
    /// assert_ne!(Sum::new().optional(None).end(), Sum::new().optional(Some("")).end());
    /// ```
    pub fn optional(self, text: Option<&str>) -> Self {
        // No text is as long as this.
        text.map_or(self.number(u64::MAX), |text| self.text(text))
    }

    /// All of it, for whoever needs a number for a text.
    pub(crate) fn whole(self) -> u64 {
        self.0
    }

    /// The sum.
    ///
    /// ```
    /// # use outlive_core::sum::Sum;
    /// assert_eq!(Sum::new().text("tea").number(2).end(), Sum::new().text("tea").number(2).end());
    /// ```
    #[must_use]
    pub fn end(self) -> u32 {
        // The lower half holds both halves of the last product.
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end undid the last step of mixing, so that the upper half of the last number counted for nothing.
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
