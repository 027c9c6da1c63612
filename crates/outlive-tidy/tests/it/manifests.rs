//! Crates depend downwards, ship no test code and forbid unsafe code.

use outlive_tidy::manifest::Manifest;
use outlive_tidy::purity::impure_crates;
use outlive_tidy::tree;

use crate::assert_none;

fn manifest(name: &str, rest: &str) -> Manifest {
    Manifest::new("crates/a/Cargo.toml", &format!("[package]\nname = \"{name}\"\n\n{rest}"))
}

fn manifests() -> Vec<Manifest> {
    let manifests = tree::manifests().expect("the manifests can be read");
    assert!(manifests.len() > 5, "only {} manifests were found", manifests.len());
    manifests
}

#[test]
fn dependency_is_found_in_every_notation() {
    let ways = [
        "[dependencies]\n# A comment.\ntempfile = \"3\"",
        "[dependencies]\ntempfile.workspace = true",
        "[dependencies]\ntempfile = { workspace = true, optional = true }",
        "[dependencies]\nfiles = { package = \"tempfile\", version = \"3\" }",
        "[dependencies.tempfile]\nversion = \"3\"",
        "[dependencies.files]\npackage = \"tempfile\"",
        "[build-dependencies]\ntempfile = \"3\"",
        "[target.'cfg(unix)'.dependencies]\ntempfile = \"3\"",
        "[target.'cfg(unix)'.dependencies.tempfile]\nversion = \"3\"",
    ];
    for way in ways {
        assert_eq!(manifest("outlive", way).shipped_test_crates(), ["tempfile"], "{way}");
    }
}

#[test]
fn dev_dependencies_are_not_shipped() {
    let tests = "[dev-dependencies]\ntempfile = \"3\"\n\n[target.'cfg(unix)'.dev-dependencies]\nproptest = \"1\"";
    assert_eq!(manifest("outlive", tests).dependencies(), [""; 0]);
    assert_eq!(manifest("outlive-cli", "[dependencies]\ntempfile = \"3\"").shipped_test_crates(), [""; 0]);
}

#[test]
fn upward_dependency_is_found() {
    let upwards = manifest("outlive-core", "[dependencies]\nserde = \"1\"\noutlive-sqlite.workspace = true");
    assert_eq!(upwards.upward_dependencies(), ["outlive-sqlite"]);
    let downwards = manifest("outlive-sqlite", "[dependencies]\noutlive-core.workspace = true");
    assert_eq!(downwards.upward_dependencies(), [""; 0]);
}

#[test]
fn crate_with_its_own_lints_is_found() {
    assert!(!manifest("a", "[lints.rust]\nunsafe_code = \"allow\"").keeps_workspace_lints());
    assert!(manifest("a", "[lints]\nworkspace = true").keeps_workspace_lints());
}

#[test]
fn workspace_that_only_warns_about_unsafe_code_is_found() {
    assert!(!Manifest::new("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"").forbids_unsafe_code());
}

#[test]
fn impure_dependency_of_the_core_is_found() {
    let impure = manifest("outlive-core", "[dependencies]\nserde = \"1\"\nrand = \"0.9\"");
    assert_eq!(impure_crates(&impure.dependencies()), ["rand"]);
}

#[test]
fn no_test_crate_is_in_the_production_graph() {
    let found = manifests().into_iter().flat_map(|crate_| {
        crate_.shipped_test_crates().into_iter().map(move |used| format!("{} depends on {used}", crate_.path))
    });
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn crates_depend_downwards_only() {
    let found = manifests().into_iter().flat_map(|crate_| {
        crate_.upward_dependencies().into_iter().map(move |used| format!("{} depends on {used}", crate_.path))
    });
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn core_depends_on_nothing_impure() {
    let core = manifests().into_iter().find(|crate_| crate_.name() == "outlive-core").expect("there is a core");
    assert_none(&impure_crates(&core.dependencies()));
}

#[test]
fn unsafe_code_is_allowed_in_one_unpublished_documented_crate() {
    let rest = "publish = false\n\n[lints.clippy]\nundocumented_unsafe_blocks = \"deny\"";
    assert!(manifest("outlive-powercut", rest).may_be_unsafe());
    assert!(!manifest("outlive", rest).may_be_unsafe());
    assert!(!manifest("outlive-powercut", &rest.replace("false", "true")).may_be_unsafe());
    assert!(!manifest("outlive-powercut", &rest.replace("deny", "allow")).may_be_unsafe());
}

#[test]
fn unsafe_code_is_forbidden_in_every_other_crate() {
    assert!(tree::workspace_manifest().expect("it can be read").forbids_unsafe_code());
    let loose = manifests().into_iter().filter(|crate_| !crate_.keeps_workspace_lints() && !crate_.may_be_unsafe());
    assert_none(&loose.map(|crate_| format!("{} lacks `[lints] workspace = true`", crate_.path)).collect::<Vec<_>>());
}
