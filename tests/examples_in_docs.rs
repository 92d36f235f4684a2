//! Every public item that a user can reach has a doc comment with an example that runs and asserts something.
//!
//! The walk begins at the root of the crate and follows `pub mod` and `pub use`, through private files too, as the
//! compiler does; what no path leads to is nobody's business, nor is a module that the documentation hides.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustmap::syn::Attribute;
use rustmap::{Map, Sources, documentation, parse, read};

/// What an item falls short of.
fn fault<'a>(attributes: impl IntoIterator<Item = &'a Attribute>) -> Option<&'static str> {
    let text = documentation(attributes);
    match examples(&text).iter().any(|example| example.contains("assert")) {
        _ if text.trim().is_empty() => Some("no doc comment"),
        true => None,
        false if examples(&text).is_empty() => Some("no example that runs"),
        false => Some("no example that asserts"),
    }
}

/// The fenced blocks that `cargo test` compiles and runs.
fn examples(text: &str) -> Vec<String> {
    let (mut list, mut open): (Vec<String>, Option<(bool, String)>) = (Vec::new(), None);
    for line in text.lines() {
        open = match (line.trim().strip_prefix("```"), open) {
            (Some(words), None) => {
                let runs = |word: &str| ["", "rust", "should_panic"].contains(&word.trim());
                Some((words.split(',').all(runs), String::new()))
            }
            (Some(_), Some((runs, code))) => {
                list.extend(runs.then_some(code));
                None
            }
            (None, Some((runs, code))) => Some((runs, code + line + "\n")),
            (None, None) => None,
        };
    }
    list
}

/// What falls short, and how many items were judged.
fn violations(sources: &Sources, file: &str) -> (Vec<String>, usize) {
    let map = Map::library(sources, "lastlayer", file).unwrap();
    let exports = map.exports();
    let modules = exports.values().map(|(id, _)| {
        let module = &map.modules[*id];
        (module, "mod", map.definition(*id), fault(module.attributes.iter().copied()))
    });
    let items =
        exports.values().flat_map(|(_, items)| items).collect::<BTreeSet<_>>().into_iter().map(|id| {
            let item = &map.items[*id];
            let path = [map.definition(item.module), item.name.clone()].join("::");
            (&map.modules[item.module], item.kind, path, fault(item.attributes))
        });
    let judged: Vec<_> = modules.chain(items).collect();
    let said = judged.iter().filter_map(|(module, kind, path, fault)| {
        Some(format!("{}: {kind} {}: {}", module.file.display(), path.trim_start_matches("::"), (*fault)?))
    });
    let mut found: Vec<String> = said.collect();
    found.sort();
    (found, judged.len())
}

#[test]
fn every_public_item_has_an_example_that_runs() {
    let (found, items) = violations(&read(Path::new("."), "src").unwrap(), "src/lib.rs");
    assert!(items > 250, "only {items} items were reached");
    assert!(found.is_empty(), "{} of {items} public items fall short:\n{}", found.len(), found.join("\n"));
}

fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let parsed = |(name, text): &(&str, &str)| (PathBuf::from(name), parse(Path::new(name), text).unwrap());
    violations(&files.iter().map(parsed).collect(), "lib.rs").0
}

const SHOWN: &str = "//! Says what it is.\n//! ```\n//! assert!(true);\n//! ```\n";

#[test]
fn planted_violations_are_found() {
    let item = |docs: &str| format!("{SHOWN}{docs}pub fn planted() {{}}\n");
    let fault = |docs: &str| planted(&[("lib.rs", &item(docs))]);
    assert_eq!(fault(""), ["lib.rs: fn planted: no doc comment"]);
    assert_eq!(fault("/// Only words.\n"), ["lib.rs: fn planted: no example that runs"]);
    for words in ["text", "ignore", "no_run", "compile_fail", "should_panic, ignore", "python"] {
        let docs = format!("/// Words.\n/// ```{words}\n/// assert!(true);\n/// ```\n");
        assert_eq!(fault(&docs), ["lib.rs: fn planted: no example that runs"], "{words}");
    }
    let silent = "/// Words.\n/// ```\n/// let x = 1;\n/// ```\n";
    assert_eq!(fault(silent), ["lib.rs: fn planted: no example that asserts"]);
    // A formula in between does not hide the example behind it.
    assert!(
        fault("/// Words.\n/// ```text\n/// x\n/// ```\n/// ```\n/// assert!(true);\n/// ```\n").is_empty()
    );
}

#[test]
fn the_walk_follows_public_modules_and_uses() {
    let lib = format!(
        "{SHOWN}pub mod open;\nmod closed;\npub use closed::{{Kept, deep::*}};\nmod dark {{ pub fn unseen() {{}} }}\n\
         #[doc(hidden)]\npub mod unlisted {{ pub fn unseen() {{}} }}\n"
    );
    let open =
        format!("{SHOWN}mod inner;\npub use self::inner::shared as known;\npub(crate) fn own() {{}}\n");
    let files = [
        ("lib.rs", lib.as_str()),
        ("open/mod.rs", &open),
        ("open/inner.rs", "pub fn shared() {}\npub fn hidden() {}\n"),
        ("closed.rs", "pub mod deep;\npub struct Kept;\npub struct Left;\n"),
        ("closed/deep.rs", "pub enum Found {}\nfn private() {}\n"),
    ];
    let found = [
        "closed.rs: struct closed::Kept: no doc comment",
        "closed/deep.rs: enum closed::deep::Found: no doc comment",
        "open/inner.rs: fn open::inner::shared: no doc comment",
    ];
    assert_eq!(planted(&files), found);
}
