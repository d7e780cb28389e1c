//! Tests of the manifests: each crate that is published says what it is and can be packaged, and all others say that they are not.
#![expect(clippy::unwrap_used, reason = "helpers of tests, which fail by panicking")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The crates that are published, those below before those above.
const PUBLISHED: &[&str] = &[
    "flambeau",
    "flambeau-autograd",
    "flambeau-capi",
    "flambeau-codegen",
    "flambeau-compile",
    "flambeau-core",
    "flambeau-cuda",
    "flambeau-derive",
    "flambeau-distributed",
    "flambeau-fft",
    "flambeau-gemm",
    "flambeau-linalg",
    "flambeau-nn",
    "flambeau-ops",
    "flambeau-parallel",
    "flambeau-plugin",
    "flambeau-schema",
    "flambeau-sparse",
    "flambeau-vectorized",
    "flambeau-vmap",
];

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The workspace's packages, as cargo reads their manifests.
fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

#[test]
fn what_is_not_for_users_is_not_published() {
    let mut published: Vec<String> = packages()
        .iter()
        .filter(|package| is_published(package))
        .map(|package| text(package, "name").to_owned())
        .collect();
    published.sort();
    assert_eq!(published, PUBLISHED);
}

#[test]
fn published_crates_say_what_they_are() {
    for package in packages().iter().filter(|package| is_published(package)) {
        let name = text(package, "name");
        for field in ["description", "license", "repository", "readme", "rust_version"] {
            assert!(!text(package, field).is_empty(), "{name}: {field}");
        }
        for field in ["categories", "keywords"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name}: {count} {field}");
        }
        assert!(package["metadata"]["docs"]["rs"].is_object(), "{name}: package.metadata.docs.rs");
    }
}

/// A dependency without a version cannot be resolved from a registry. A package leaves such a dependency of tests out.
#[test]
fn path_dependencies_have_versions() {
    for package in &packages() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let named = format!("{} on {}", text(package, "name"), text(dependency, "name"));
            let is_resolved = dependency["path"].is_null() || text(dependency, "req") != "*";
            assert!(is_resolved || text(dependency, "kind") == "dev", "{named}");
        }
    }
}

/// A derive macro has no example of its own: its output names the crate that exports it.
fn is_derive(package: &Value) -> bool {
    package["targets"].as_array().unwrap().iter().any(|target| target["kind"][0] == "proc-macro")
}

#[test]
fn the_example_of_a_readme_runs_as_a_test() {
    for package in packages().iter().filter(|package| is_published(package) && !is_derive(package)) {
        let folder = Path::new(text(package, "manifest_path")).parent().unwrap();
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(
            readme.contains("```rust\n") && readme.contains(text(package, "repository")),
            "{}",
            folder.display()
        );
        let library = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        assert!(library.contains("#[doc = include_str!(\"../README.md\")]"), "{}", folder.display());
    }
}

#[test]
fn published_crates_can_be_packaged() {
    let selected: Vec<&str> = PUBLISHED.iter().flat_map(|name| ["--package", name]).collect();
    let listed = String::from_utf8(cargo(
        &[&["package", "--offline", "--allow-dirty", "--list"], &selected[..]].concat(),
    ))
    .unwrap();
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"] {
        assert_eq!(listed.lines().filter(|line| *line == file).count(), PUBLISHED.len(), "{file}");
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let more = ["--no-verify", "--target-dir", target.to_str().unwrap()];
    cargo(&[&["package", "--offline", "--allow-dirty"], &more[..], &selected].concat());
}
