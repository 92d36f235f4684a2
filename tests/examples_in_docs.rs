//! Every public item that a user can reach has a doc comment with an example that runs and asserts something.
//!
//! The walk begins at the root of the crate and follows `pub mod` and `pub use`, through private files too, as the
//! compiler does; what no path leads to is nobody's business.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, UseTree, Visibility};

/// Text of every source file, by its path below `src`.
type Sources = BTreeMap<PathBuf, String>;

/// A module with all that stands in it.
struct Module {
    file: String,
    /// Attributes of the `mod` item and of the file.
    attributes: Vec<Attribute>,
    items: Vec<Item>,
}

/// All modules, by their path from the root of the crate.
type Modules = BTreeMap<Vec<String>, Module>;

fn read_modules(sources: &Sources, file: &Path, path: Vec<String>, outer: &[Attribute], found: &mut Modules) {
    let text = sources.get(file).unwrap_or_else(|| panic!("no file {}", file.display()));
    let parsed = syn::parse_file(text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let attributes = outer.iter().cloned().chain(parsed.attrs).collect();
    // `lib.rs` and `mod.rs` have their children beside them, `name.rs` has them in the folder `name`.
    let beside = file.ends_with("lib.rs") || file.ends_with("mod.rs");
    let folder = if beside { file.with_file_name("") } else { file.with_extension("") };
    read_items(sources, &folder, file, path, attributes, parsed.items, found);
}

fn read_items(
    sources: &Sources,
    folder: &Path,
    file: &Path,
    path: Vec<String>,
    attributes: Vec<Attribute>,
    items: Vec<Item>,
    found: &mut Modules,
) {
    for item in &items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let child = [path.clone(), vec![name.clone()]].concat();
        match &module.content {
            Some((_, inside)) => {
                let folder = folder.join(&name);
                read_items(sources, &folder, file, child, module.attrs.clone(), inside.clone(), found);
            }
            None => {
                let files = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
                let file = files.iter().find(|file| sources.contains_key(*file));
                let file = file.unwrap_or_else(|| panic!("no file for the module {}", child.join("::")));
                read_modules(sources, file, child, &module.attrs, found);
            }
        }
    }
    found.insert(path, Module { file: file.display().to_string(), attributes, items });
}

/// Name, visibility, attributes and kind of an item that a user can name.
fn named(item: &Item) -> Option<(String, &Visibility, &[Attribute], &'static str)> {
    Some(match item {
        Item::Const(i) => (i.ident.to_string(), &i.vis, &i.attrs, "const"),
        Item::Enum(i) => (i.ident.to_string(), &i.vis, &i.attrs, "enum"),
        Item::Fn(i) => (i.sig.ident.to_string(), &i.vis, &i.attrs, "fn"),
        Item::Mod(i) => (i.ident.to_string(), &i.vis, &i.attrs, "mod"),
        Item::Static(i) => (i.ident.to_string(), &i.vis, &i.attrs, "static"),
        Item::Struct(i) => (i.ident.to_string(), &i.vis, &i.attrs, "struct"),
        Item::Trait(i) => (i.ident.to_string(), &i.vis, &i.attrs, "trait"),
        Item::Type(i) => (i.ident.to_string(), &i.vis, &i.attrs, "type"),
        Item::Union(i) => (i.ident.to_string(), &i.vis, &i.attrs, "union"),
        _ => return None,
    })
}

/// The paths that a `use` names, each with the name it gets; `*` for all.
fn uses(tree: &UseTree, before: &[String]) -> Vec<(Vec<String>, String)> {
    let with = |name: &syn::Ident| [before.to_vec(), vec![name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => uses(&path.tree, &with(&path.ident)),
        UseTree::Name(name) if name.ident == "self" => {
            vec![(before.to_vec(), before.last().cloned().unwrap_or_default())]
        }
        UseTree::Name(name) => vec![(with(&name.ident), name.ident.to_string())],
        UseTree::Rename(rename) => vec![(with(&rename.ident), rename.rename.to_string())],
        UseTree::Glob(_) => vec![(before.to_vec(), "*".to_string())],
        UseTree::Group(group) => group.items.iter().flat_map(|tree| uses(tree, before)).collect(),
    }
}

/// A `use` path from the root of the crate; none if it leads to another crate.
fn from_root(path: &[String], here: &[String], modules: &Modules) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([here, rest].concat()),
        "super" => from_root(&[&["self".to_string()], rest].concat(), here.split_last()?.1, modules),
        _ => modules.contains_key(&[here, &path[..1]].concat()).then(|| [here, path].concat()),
    }
}

struct Walk<'a> {
    modules: &'a Modules,
    seen: BTreeSet<(Vec<String>, String)>,
    /// Items that were judged, and those that fall short.
    items: usize,
    found: Vec<String>,
}

impl Walk<'_> {
    /// Everything public in a module.
    fn module(&mut self, path: &[String]) {
        let Some(module) = self.modules.get(path) else { return };
        for item in &module.items {
            match (item, named(item)) {
                (Item::Use(item), _) if is_public(&item.vis) => {
                    for (target, name) in uses(&item.tree, &[]) {
                        let Some(target) = from_root(&target, path, self.modules) else { continue };
                        match name.as_str() {
                            "*" => self.module(&target),
                            _ => self.item(&target),
                        }
                    }
                }
                (_, Some((name, visibility, ..))) if is_public(visibility) => {
                    self.item(&[path, &[name]].concat());
                }
                _ => {}
            }
        }
    }

    /// All items of one path: a function and a module may share their name.
    fn item(&mut self, path: &[String]) {
        let Some((name, parent)) = path.split_last() else { return };
        let Some(module) = self.modules.get(parent) else { return };
        if !self.seen.insert((parent.to_vec(), name.clone())) {
            return;
        }
        for item in &module.items {
            match (item, named(item)) {
                (Item::Use(item), _) => {
                    for (target, _) in
                        uses(&item.tree, &[]).into_iter().filter(|(_, as_name)| as_name == name)
                    {
                        // A name that a module takes from elsewhere is judged where it stands.
                        let target = from_root(&target, parent, self.modules);
                        target.iter().for_each(|target| self.item(target));
                    }
                }
                (_, Some((own, visibility, attributes, kind))) if own == *name && is_public(visibility) => {
                    if kind == "mod" {
                        let file = &self.modules[path];
                        self.judge(&file.file, &path.join("::"), kind, &file.attributes);
                        self.module(path);
                    } else {
                        self.judge(&module.file, &path.join("::"), kind, attributes);
                    }
                }
                _ => {}
            }
        }
    }

    fn judge(&mut self, file: &str, path: &str, kind: &str, attributes: &[Attribute]) {
        self.items += 1;
        let text = documentation(attributes);
        let fault = match examples(&text).iter().any(|example| example.contains("assert")) {
            _ if text.trim().is_empty() => "no doc comment",
            true => return,
            false if examples(&text).is_empty() => "no example that runs",
            false => "no example that asserts",
        };
        self.found.push(format!("{file}: {kind} {path}: {fault}"));
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn documentation(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value() + "\n"),
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect()
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
fn violations(sources: &Sources) -> (Vec<String>, usize) {
    let mut modules = Modules::new();
    read_modules(sources, Path::new("lib.rs"), Vec::new(), &[], &mut modules);
    let mut walk = Walk { modules: &modules, seen: BTreeSet::new(), items: 0, found: Vec::new() };
    let root = &modules[&Vec::new()];
    walk.judge(&root.file, "the crate", "mod", &root.attributes);
    walk.module(&[]);
    walk.found.sort();
    (walk.found, walk.items)
}

#[test]
fn every_public_item_has_an_example_that_runs() {
    let mut sources = Sources::new();
    let mut waiting = vec![PathBuf::from("src")];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix("src").unwrap().to_path_buf();
            sources.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    let (found, items) = violations(&sources);
    assert!(items > 250, "only {items} items were reached");
    assert!(found.is_empty(), "{} of {items} public items fall short:\n{}", found.len(), found.join("\n"));
}

fn planted(files: &[(&str, &str)]) -> Vec<String> {
    violations(&files.iter().map(|(name, text)| (PathBuf::from(name), text.to_string())).collect()).0
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
        "{SHOWN}pub mod open;\nmod closed;\npub use closed::{{Kept, deep::*}};\nmod dark {{ pub fn unseen() {{}} }}\n"
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
