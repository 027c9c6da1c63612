//! Finds types of the product crates that share a name.

use std::collections::BTreeMap;

use crate::source::Source;

/// The crates that ship.
const PRODUCT: [&str; 4] = ["outlive-core", "outlive-sqlite", "outlive", "outlive-cli"];

/// Names that are meant to be shared: the module says whose error it is, and the library passes its durability on.
const SHARED: [&str; 3] = ["Error", "ErrorKind", "Durability"];

/// Returns the names that two or more types of the product crates have, with all places. Types inside functions and
/// inline modules do not count.
#[must_use]
pub fn shared_names(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        for (number, line) in (1..).zip(source.shipped.lines()) {
            if let Some(name) = type_in(line).filter(|name| !SHARED.contains(name)) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{number}", source.path));
            }
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| format!("{} are all called `{name}`", places.join(", "))).collect()
}

fn is_product(path: &str) -> bool {
    PRODUCT.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// Returns the type that a line of the outermost level declares.
fn type_in(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| line.strip_prefix(word))?;
    rest.split(|letter: char| !letter.is_alphanumeric()).next()
}
