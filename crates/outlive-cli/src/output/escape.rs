//! Escapes text and JSON so that they are safe to display on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes every character that could move the cursor, break a line, change a colour or reorder the text around it.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unsafe(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Escapes the same characters with JSON escapes, in text that is valid JSON. The result parses as the same value.
///
/// Outside strings, the only such characters in valid JSON are line feeds, tabs and carriage returns. A carriage return
/// could hide the text before it, and becomes a space.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_suspicious = |byte: u8| byte >= 0x7f || byte == b'\r';
    if !text.bytes().any(is_suspicious) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' => shown.push(' '),
            // All of them fit in four digits. Writing to a string cannot fail.
            _ if is_unsafe(c) => write!(shown, "\\u{:04x}", u32::from(c)).unwrap_or_default(),
            _ => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns `true` if a terminal may do anything but show the character: control characters (including C1, from U+0080),
/// direction marks and overrides, line and paragraph separators, byte order marks, annotations.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A C1 colour sequence, an override, an isolate, a direction mark, a line separator and a delete.
    const HOSTILE: &str = "a\u{9b}31mb\u{202e}c\u{2066}d\u{200f}e\u{2028}f\u{7f}";

    #[test]
    fn text_cannot_move_the_cursor_or_reorder_its_surroundings() {
        assert_eq!(plain("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(plain(HOSTILE), "a\\u{9b}31mb\\u{202e}c\\u{2066}d\\u{200f}e\\u{2028}f\\u{7f}");
        let kept = "żółw, 亀, سلحفاة, 👩\u{200d}👩";
        assert_eq!(plain(kept), kept, "letters of all scripts and joiners are kept");
    }

    #[test]
    fn escaped_json_is_safe_and_decodes_to_the_same_value() {
        let given = format!("{{\"{HOSTILE}\":\r\n[\"\\\\{HOSTILE}\", \"\\n\"]}}");
        let shown = json(&given);
        assert!(!shown.chars().any(|c| is_unsafe(c) && c != '\n'), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&shown), read(&given));
        assert!(matches!(json("[1, \"a\\n\"]\n"), Cow::Borrowed(_)));
    }
}
