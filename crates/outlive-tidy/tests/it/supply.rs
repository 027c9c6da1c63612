//! Dependencies have allowed licences, come from the one registry, and none is banned.

use std::fs;
use std::process::Command;

use outlive_tidy::manifest::Manifest;
use outlive_tidy::supply::Rules;
use outlive_tidy::tree;

use crate::assert_none;

/// The workspace, and the workspace of the fuzzer.
const WORKSPACES: [&str; 2] = ["", "fuzz/"];

fn rules() -> Rules {
    Rules::new(&fs::read_to_string(tree::root().join("deny.toml")).expect("there are rules"))
}

#[test]
fn licence_is_allowed_if_one_of_its_choices_is() {
    let rules = Rules::new("allow = [\"MIT\", \"Unicode-3.0\"]\nexceptions = [{ crate = \"a\", allow = [\"NCSA\"] }]");
    for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Unicode-3.0", "MIT WITH LLVM-exception"]
    {
        assert!(rules.allows("b", good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "NCSA", "(MIT", "MIT)", "MIT MIT"] {
        assert!(!rules.allows("b", bad), "{bad}");
    }
    assert!(rules.allows("a", "MIT AND NCSA"));
}

#[test]
fn banned_crate_or_foreign_source_is_found() {
    let rules =
        Rules::new("allow-registry = [\"https://crates\"]\ndeny = [\n    { crate = \"bad\", reason = \"why\" },\n]");
    let lock = "[[package]]\nname = \"ours\"\n\n[[package]]\nname = \"bad\"\nsource = \"registry+https://crates\"\n\n\
                [[package]]\nname = \"far\"\nsource = \"git+https://far\"\n";
    let found = rules.broken_by(lock);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("bad is banned") && found[1].starts_with("far comes from git+https://far"),
        "{found:?}"
    );
}

#[test]
fn dependencies_come_from_allowed_sources() {
    let locks = WORKSPACES
        .map(|folder| fs::read_to_string(tree::root().join(folder).join("Cargo.lock")).expect("there is a lock"));
    assert_none(&locks.iter().flat_map(|lock| rules().broken_by(lock)).collect::<Vec<_>>());
}

#[test]
fn dependencies_have_allowed_licences() {
    let rules = rules();
    for folder in WORKSPACES {
        let manifests = manifests(folder);
        assert!(manifests.len() > 20, "only {} crates were found", manifests.len());
        let bad = manifests.iter().filter(|crate_| !rules.allows(crate_.name(), crate_.licence()));
        assert_none(
            &bad.map(|crate_| format!("{} is under {:?}", crate_.name(), crate_.licence())).collect::<Vec<_>>(),
        );
    }
}

/// Returns the manifests of all third-party crates that a workspace uses, on any system.
fn manifests(folder: &str) -> Vec<Manifest> {
    let listed = Command::new(env!("CARGO"))
        .current_dir(tree::root())
        .args(["metadata", "--locked", "--all-features", "--format-version", "1"])
        .args(["--manifest-path", &format!("{folder}Cargo.toml")])
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "the dependencies cannot be listed; fetch them with `cargo fetch`: {said}");
    let json = String::from_utf8(listed.stdout).expect("it is text");
    let paths = json.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let of_others = paths.filter(|path| path.contains("/registry/"));
    of_others.map(|path| Manifest::new(path, &fs::read_to_string(path).expect("it can be read"))).collect()
}
