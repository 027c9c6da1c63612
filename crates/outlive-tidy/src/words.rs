//! Finds words that must not be left in the code.

use crate::source::Source;

/// Banned everywhere, even in tests.
const NOWHERE: [(&str, &str); 6] = [
    ("todo!(", "implement it, or open an issue"),
    ("unimplemented!(", "implement it, or remove it"),
    ("#[ignore", "a test that does not run proves nothing"),
    ("dbg!(", "use `tracing`, or remove it"),
    ("#[allow(", "use `#[expect(.., reason = \"..\")]`, which gives a reason and warns when it is not needed"),
    ("#![allow(", "use `#![expect(.., reason = \"..\")]`, which gives a reason and warns when it is not needed"),
];
/// Banned outside of tests.
const NOT_SHIPPED: [(&str, &str); 1] = [(".unwrap()", "return an error, or use `expect` with the invariant")];

/// Phrases that no reader should stumble over, and what to write instead. They are banned from comments and messages of
/// what is shipped. Each is kept in two parts, so that this list does not find itself.
const STILTED: [(&str, &str, &str); 14] = [
    ("answers ", "whether", "returns `true` if"),
    ("is ", "told", "is notified, or gets"),
    ("are ", "told", "are notified, or get"),
    ("was ", "told", "was notified, or got"),
    ("set ", "aside", "stuck"),
    ("sets ", "aside", "makes stuck"),
    ("who", "ever", "name the caller, owner or subscriber"),
    ("of ", "late", "recently"),
    ("get", "ting on", "making progress"),
    ("come ", "into being", "be created"),
    ("brought ", "into being", "created"),
    ("has it ", "go on", "resumes it"),
    ("men", "ded", "fixed"),
    ("recko", "n", "compute"),
];

/// Reports where banned words are left.
#[must_use]
pub fn left(source: &Source) -> Vec<String> {
    let shipped = if source.is_in_src() { source.shipped.as_str() } else { "" };
    let everywhere = NOWHERE.iter().flat_map(|rule| found(source, &source.code, rule));
    let in_src = NOT_SHIPPED.iter().flat_map(|rule| found(source, shipped, rule));
    everywhere.chain(in_src).chain(stilted(source)).collect()
}

fn stilted(source: &Source) -> Vec<String> {
    if !source.is_in_src() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(source.text.lines()) {
        let text = text.to_lowercase();
        for (start, end, instead) in STILTED {
            let phrase = format!("{start}{end}");
            if has_words(&text, &phrase) {
                findings.push(format!("{}:{line} says \"{phrase}\": write {instead}", source.path));
            }
        }
    }
    findings
}

/// Returns `true` if a phrase begins and ends at the end of a word: identifiers may contain it.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

fn found(source: &Source, code: &str, (word, way_out): &(&str, &str)) -> Vec<String> {
    let problem = |(at, _)| source.finding(at, &format!("has `{word}`: {way_out}"));
    code.match_indices(word).map(problem).collect()
}
