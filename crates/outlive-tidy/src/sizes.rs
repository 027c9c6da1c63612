//! Limits on the size of types: how many fields a struct has, and how many methods.

use std::collections::BTreeMap;

use crate::source::Source;
use crate::syntax::{self, Token};

/// The most fields of a struct.
pub const FIELDS_MAX: usize = 15;
/// The most methods of a type, in all of its own impl blocks. Those of traits do not count.
pub const METHODS_MAX: usize = 40;

/// The number of fields and methods of a type, and where it is declared.
#[derive(Default)]
struct TypeSize {
    place: Option<String>,
    fields: usize,
    methods: usize,
}

/// Returns the types of one crate that have too many fields or methods, except for those that are `excused`.
#[must_use]
pub fn large_types(sources: &[Source], excused: &[&str]) -> Vec<String> {
    let mut sizes: BTreeMap<String, TypeSize> = BTreeMap::new();
    for source in sources {
        let tokens = syntax::tokens(&source.shipped);
        for (at, token) in tokens.iter().enumerate() {
            match token.text {
                "struct" => {
                    let Some(name) = tokens.get(at + 1) else { continue };
                    let size = sizes.entry(name.text.to_owned()).or_default();
                    size.place = Some(source.finding(token.at, "").trim_end().to_owned());
                    size.fields += block(&tokens[at..]).map_or(0, fields);
                }
                "impl" if begins_item(&tokens[..at]) => {
                    let Some((name, block)) = own_impl(&tokens[at..]) else { continue };
                    sizes.entry(name.to_owned()).or_default().methods += methods(block);
                }
                _ => {}
            }
        }
    }
    let is_large = |size: &TypeSize| size.fields > FIELDS_MAX || size.methods > METHODS_MAX;
    let large = sizes.into_iter().filter(|(name, size)| is_large(size) && !excused.contains(&name.as_str()));
    let problem = |(name, TypeSize { place, fields, methods }): (String, TypeSize)| {
        let place = place.unwrap_or_default();
        format!("{place} `{name}` has {fields} fields and {methods} methods; make it the types it consists of")
    };
    large.map(problem).collect()
}

/// Returns `true` if an `impl` after these tokens begins an item, and is not the type of something.
fn begins_item(before: &[Token<'_>]) -> bool {
    before.last().is_none_or(|token| matches!(token.text, "}" | ";" | "]" | "{" | "unsafe"))
}

/// Returns the tokens between the braces of an item; `None` if it has no block.
fn block<'a, 'b>(item: &'a [Token<'b>]) -> Option<&'a [Token<'b>]> {
    let open = item.iter().position(|token| matches!(token.text, "{" | ";" | "("))?;
    if item[open].text != "{" {
        return None;
    }
    let mut depth = 0;
    let length = item[open..].iter().position(|token| {
        depth += i32::from(token.text == "{") - i32::from(token.text == "}");
        depth == 0
    })?;
    Some(&item[open + 1..open + length])
}

/// Counts the fields of a struct: the single colons outside of all brackets.
fn fields(block: &[Token<'_>]) -> usize {
    at_depth_0(block).filter(|token| token.text == ":").count()
}

/// Counts the methods of an impl block.
fn methods(block: &[Token<'_>]) -> usize {
    at_depth_0(block).filter(|token| token.text == "fn").count()
}

fn at_depth_0<'a, 'b>(block: &'a [Token<'b>]) -> impl Iterator<Item = &'a Token<'b>> {
    let mut depth = 0;
    block.iter().filter(move |token| {
        depth += i32::from(matches!(token.text, "{" | "(" | "[")) - i32::from(matches!(token.text, "}" | ")" | "]"));
        depth == 0
    })
}

/// Returns the type and the block of an impl that is not of a trait.
fn own_impl<'a, 'b>(item: &'a [Token<'b>]) -> Option<(&'b str, &'a [Token<'b>])> {
    let open = item.iter().position(|token| token.text == "{")?;
    let block = block(&item[open..])?;
    let (mut depth, mut before) = (0, "");
    let mut head = item[1..open].iter().filter(|token| {
        let is_outside = depth == 0 && token.text != "<";
        // The `>` of an arrow closes nothing.
        let is_arrow = before == "-" && token.text == ">";
        depth += i32::from(token.text == "<") - i32::from(token.text == ">" && !is_arrow);
        before = token.text;
        is_outside
    });
    let name = head.next().map(|token| token.text)?;
    let is_of_trait = head.any(|token| token.text == "for");
    (!is_of_trait).then_some((name, block))
}
