//! No type of the product crates has too many fields or methods.

use outlive_tidy::sizes::large_types;
use outlive_tidy::source::Source;
use outlive_tidy::tree;

use crate::assert_none;

/// Types that are too large, each with the reason why it is whole.
const EXCUSED: &[(&str, &str)] = &[
    ("Builder", "its fields are the options of an engine, each with a method of its own"),
    ("Instance", "a row of a store, one field per column"),
    ("Record", "what a job instance stores between calls, one field per fact"),
    ("RecordWire", "the stored form of `Record`, field by field"),
    ("RunInfo", "what a caller learns of a run, one field per fact"),
    ("RunLine", "a line of an exported file, one field per fact"),
    ("Rows", "the tables of the memory store, and one method per access to them"),
];

fn struct_of(fields: usize) -> String {
    let fields: String = (0..fields).map(|number| format!("    pub f{number}: Vec<(a::B, u8)>,\n")).collect();
    format!("struct Large<T: Copy> {{\n{fields}}}\n")
}

fn impl_of(head: &str, methods: usize) -> String {
    format!("{head} {{\n{}}}\n", "    fn f(&self) { let f: fn(u8) = g; }\n".repeat(methods))
}

fn large(text: &str) -> usize {
    large_types(&[Source::new("crates/a/src/lib.rs", text)], &[]).len()
}

#[test]
fn a_struct_of_16_fields_is_found() {
    assert_eq!(large(&struct_of(15)), 0);
    assert_eq!(large(&struct_of(16)), 1);
}

#[test]
fn methods_are_counted_over_all_impl_blocks_of_a_crate() {
    let one = Source::new("crates/a/src/b.rs", &(struct_of(1) + &impl_of("impl<T: Fn() -> u8> Large<T>", 21)));
    let other = Source::new("crates/a/src/c.rs", &impl_of("impl Large<u8>", 20));
    let sources = [one, other];
    assert_eq!(
        large_types(&sources, &[]),
        ["crates/a/src/b.rs:1 `Large` has 1 fields and 41 methods; make it the types it consists of"]
    );
    assert_none(&large_types(&sources, &["Large"]));
}

#[test]
fn methods_of_traits_and_tests_do_not_count() {
    let of_trait = impl_of("impl<T> From<T> for Large<T>", 30) + &impl_of("impl Large", 30);
    assert_eq!(large(&(struct_of(1) + &of_trait)), 0);
    assert_eq!(large(&(struct_of(1) + "#[cfg(test)]\n" + &impl_of("impl Large", 41))), 0);
}

#[test]
fn every_type_of_the_product_is_small_or_excused() {
    let excused: Vec<&str> = EXCUSED.iter().map(|(name, _)| *name).collect();
    assert_none(&large_in_product(&excused));
}

#[test]
fn every_excuse_is_needed() {
    let large = large_in_product(&[]);
    let is_small = |name: &&str| !large.iter().any(|found| found.contains(&format!("`{name}` has")));
    let small: Vec<String> = EXCUSED.iter().map(|(name, _)| *name).filter(is_small).map(str::to_owned).collect();
    assert_none(&small);
}

fn large_in_product(excused: &[&str]) -> Vec<String> {
    let product =
        ["outlive-core", "outlive-sqlite", "outlive", "outlive-cli"].map(|name| format!("crates/{name}/src/"));
    let crates = tree::crates().expect("the sources can be read");
    let of_product = crates.iter().filter(|sources| product.iter().any(|path| sources[0].path.starts_with(path)));
    of_product.flat_map(|sources| large_types(sources, excused)).collect()
}
