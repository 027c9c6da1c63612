//! Uses any text as a name, and as part of an identity: no two operations ever get the same one.

use outlive_core::id::{LENGTH_MAX, Name, check};
use outlive_core::workflow::{OpKind, base, numbered_scope};

use crate::bytes::Bytes;

/// Checks names, and compares the identities of two operations.
///
/// ```
/// outlive_fuzz::name::run(b"order-42");
/// ```
///
/// # Panics
/// If a name is wrongly accepted or rejected, or two operations get the same identity.
pub fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_name(text);
    }
    let mut bytes = Bytes::new(bytes);
    let (a, b) = (Call::any(&mut bytes), Call::any(&mut bytes));
    assert_eq!(a == b, a.identity() == b.identity(), "{a:?} and {b:?}: {:?}", a.identity());
}

fn check_name(text: &str) {
    let is_good = !text.is_empty() && text.len() <= LENGTH_MAX && !text.chars().any(char::is_control);
    match Name::new("run id", text) {
        Ok(name) => assert!(is_good && name.as_str() == text && name == Name::recorded(text), "{text:?}"),
        Err(error) => {
            assert!(!is_good && error.to_string().starts_with("run id \""), "{text:?}: {error}");
        }
    }
    assert_eq!(check("run id", text).is_ok(), is_good);
}

/// An operation, with everything that distinguishes it.
#[derive(PartialEq, Debug)]
struct Call {
    scopes: Vec<(String, u32)>,
    kind: OpKind,
    name: String,
    key: Option<String>,
}

impl Call {
    fn any(bytes: &mut Bytes<'_>) -> Self {
        let scopes = (0..bytes.below(3)).map(|_| (word(bytes), 1 + u32::from(bytes.is(3)))).collect();
        let kind = bytes.pick(&[OpKind::Step, OpKind::Sleep, OpKind::Wait]);
        // A sleep has no name.
        let name = if kind == OpKind::Sleep { String::new() } else { word(bytes) };
        Self { scopes, kind, name, key: bytes.maybe(word) }
    }

    fn identity(&self) -> String {
        let scope =
            self.scopes.iter().fold(String::new(), |parent, (key, n)| numbered_scope(&parent, key, *n).to_string());
        base(&scope, self.kind, &self.name, self.key.as_deref()).to_string()
    }
}

/// Returns a word made of what identities are made of, or of anything.
fn word(bytes: &mut Bytes<'_>) -> String {
    if bytes.is(4) {
        return bytes.text();
    }
    let parts = ["a", "/", "#", "[", "]", "%", "2", "step:", "sleep", "-", "F"];
    (0..bytes.below(4)).map(|_| bytes.pick(&parts)).collect()
}
