//! Rust as it is written: modules, items, and what a name means where it stands, for the book and for the tests that read
//! sources. Nothing is expanded or compiled; what is read is kept to the end of the program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

pub use {proc_macro2, syn};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::{Attribute, Block, Generics, Signature, UseTree, Visibility};

mod uses;

pub use uses::{Body, Walk};

/// Parsed files by their path.
pub type Sources = BTreeMap<PathBuf, &'static syn::File>;

/// Parses a file of this text.
pub fn parse(path: &Path, text: &str) -> Result<&'static syn::File, String> {
    let parsed = syn::parse_file(text);
    Ok(Box::leak(Box::new(parsed.map_err(|e| format!("{}:{}: {e}", path.display(), e.span().start().line))?)))
}

/// Parses every Rust file below a folder of `root`.
pub fn read(root: &Path, folder: &str) -> Result<Sources, String> {
    let (mut sources, mut waiting) = (Sources::new(), vec![PathBuf::from(folder)]);
    while let Some(path) = waiting.pop() {
        let (full, said) = (root.join(&path), |e: std::io::Error| format!("{}: {e}", path.display()));
        if full.is_dir() {
            for entry in fs::read_dir(full).map_err(said)? {
                waiting.push(path.join(entry.map_err(said)?.file_name()));
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            sources.insert(path.clone(), parse(&path, &fs::read_to_string(full).map_err(said)?)?);
        }
    }
    Ok(sources)
}

/// The text of the doc comments among attributes.
pub fn documentation<'a>(attributes: impl IntoIterator<Item = &'a Attribute>) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value() + "\n"),
            _ => None,
        },
        _ => None,
    };
    let lines = attributes.into_iter().filter_map(line);
    lines.map(|line| line.strip_prefix(' ').map(str::to_string).unwrap_or(line)).collect()
}

/// A module with what stands in it.
#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    /// Of the `mod` item and of the file.
    pub attributes: Vec<&'static Attribute>,
    name: String,
    parent: Option<usize>,
    public: bool,
    /// Whether it is a block, which sees the names around it.
    block: bool,
    modules: BTreeMap<String, usize>,
    items: BTreeMap<String, usize>,
    /// What its `use` lines name: public or not, the path, and the name that it gets or `*`.
    uses: Vec<(bool, Vec<String>, String)>,
}

/// Something with a name: a function, a method, a type, a constant.
#[derive(Default)]
pub struct Item {
    pub name: String,
    pub kind: &'static str,
    pub public: bool,
    pub module: usize,
    pub line: usize,
    pub attributes: &'static [Attribute],
    /// The type of a method.
    pub owner: Option<usize>,
    /// How users reach a public item of the crate.
    pub path: Option<String>,
    node: Node,
    generics: Vec<&'static Generics>,
    /// Fields of a struct or of all variants of an enum; those of a tuple have numbers.
    fields: Vec<(String, &'static syn::Type)>,
    variants: Vec<String>,
    methods: BTreeMap<String, usize>,
    /// Traits of ours that a type has, and the types that it gives them.
    traits: Vec<usize>,
    types: BTreeMap<String, &'static syn::Type>,
}

#[derive(Clone, Copy, Default)]
enum Node {
    Function(&'static Signature, Option<&'static Block>),
    Alias(&'static syn::Type),
    Value(&'static syn::Type),
    #[default]
    Type,
}

impl Item {
    pub fn is_type(&self) -> bool {
        matches!(self.node, Node::Type | Node::Alias(_))
    }

    pub fn is_function(&self) -> bool {
        matches!(self.node, Node::Function(..))
    }

    pub fn is_test(&self) -> bool {
        self.attributes.iter().any(|a| a.path().segments.last().is_some_and(|word| word.ident == "test"))
    }

    /// How many tokens the body of a function has.
    pub fn size(&self) -> usize {
        let Node::Function(_, Some(body)) = self.node else { return 0 };
        count(quote::ToTokens::to_token_stream(body)) - 2
    }
}

fn count(tokens: TokenStream) -> usize {
    let one = |tree| match tree {
        TokenTree::Group(group) => 2 + count(group.stream()),
        TokenTree::Punct(sign) => usize::from(sign.spacing() == Spacing::Alone),
        _ => 1,
    };
    tokens.into_iter().map(one).sum()
}

/// What a name means: an item, a module, or one of each.
#[derive(Clone, Copy, Default)]
struct Found {
    item: Option<usize>,
    module: Option<usize>,
}

impl Found {
    fn or(self, other: Found) -> Found {
        Found { item: self.item.or(other.item), module: self.module.or(other.module) }
    }
}

/// Modules and items of a crate and of the programs that use it.
#[derive(Default)]
pub struct Map {
    pub modules: Vec<Module>,
    pub items: Vec<Item>,
    /// The crate, by the name that programs give it.
    name: String,
    impls: Vec<(usize, &'static syn::ItemImpl)>,
    /// Methods that traits of ours give to types of others.
    extensions: BTreeMap<String, Vec<usize>>,
}

impl Map {
    /// A crate by its name and its first file.
    pub fn library(sources: &Sources, name: &str, file: &str) -> Result<Map, String> {
        let mut map = Map { name: name.to_string(), ..Map::default() };
        map.program(sources, Path::new(file))?;
        for (module, (_, exports)) in map.exports() {
            for item in exports {
                // A reader looks for it by the module of its file, then by the shortest path.
                let home = map.definition(map.items[item].module) + "::";
                let oddity = |path: &String| {
                    let module = path.rsplit_once("::").map_or("", |(module, _)| module);
                    (!home.starts_with(&format!("{module}::")), path.matches("::").count(), path.len())
                };
                let path = format!("{module}::{}", map.items[item].name);
                let known = map.items[item].path.clone();
                map.items[item].path = known.into_iter().chain([path]).min_by_key(oddity);
            }
        }
        for item in 0..map.items.len() {
            let method = &map.items[item];
            let owner = method.owner.and_then(|owner| map.items[owner].path.as_ref());
            if let Some(owner) = owner.filter(|_| method.public && method.name != "evcxr_display") {
                map.items[item].path = Some(format!("{owner}::{}", method.name));
            }
        }
        Ok(map)
    }

    /// Adds a program or a crate with all of its modules, by its first file.
    pub fn program(&mut self, sources: &Sources, file: &Path) -> Result<(), String> {
        self.read_file(sources, file, Module::default())?;
        self.bind();
        Ok(())
    }

    fn add(&mut self, module: Module) -> usize {
        self.modules.push(module);
        self.modules.len() - 1
    }

    fn read_file(&mut self, sources: &Sources, file: &Path, mut module: Module) -> Result<usize, String> {
        let parsed = *sources.get(file).ok_or_else(|| format!("there is no file {}", file.display()))?;
        // The first file and `mod.rs` have their children beside them, `name.rs` has them in the folder `name`.
        let beside = module.parent.is_none() || file.ends_with("mod.rs");
        let folder = if beside { file.with_file_name("") } else { file.with_extension("") };
        module.file = file.to_path_buf();
        module.attributes.extend(&parsed.attrs);
        let at = self.add(module);
        self.read_items(at, parsed.items.iter().collect(), sources, &folder)?;
        Ok(at)
    }

    /// The items of a block, as a module that sees what is around it.
    fn read_block(&mut self, parent: Option<usize>, items: Vec<&'static syn::Item>) -> usize {
        let file = parent.map(|parent| self.modules[parent].file.clone()).unwrap_or_default();
        let at = self.add(Module { file, parent, block: true, ..Module::default() });
        _ = self.read_items(at, items, &Sources::new(), Path::new("")); // a block has no modules in files
        self.bind();
        at
    }

    fn read_items(
        &mut self,
        at: usize,
        items: Vec<&'static syn::Item>,
        sources: &Sources,
        folder: &Path,
    ) -> Result<(), String> {
        for item in items {
            match item {
                syn::Item::Mod(module) => {
                    let (name, file) = (module.ident.to_string(), self.modules[at].file.clone());
                    let (parent, attributes) = (Some(at), module.attrs.iter().collect());
                    let public = is_public(&module.vis) && !is_hidden(&module.attrs);
                    let child =
                        Module { name: name.clone(), file, attributes, parent, public, ..Module::default() };
                    let child = if let Some((_, items)) = &module.content {
                        let child = self.add(child);
                        self.read_items(child, items.iter().collect(), sources, &folder.join(&name))?;
                        child
                    } else {
                        // Upwards, where a `#[path]` leads to what several programs share.
                        let paths = folder.ancestors();
                        let mut paths =
                            paths.flat_map(|f| [f.join(format!("{name}.rs")), f.join(&name).join("mod.rs")]);
                        let file = paths.find(|path| sources.contains_key(path));
                        let missing = || format!("no file for `mod {name}` of {}", child.file.display());
                        self.read_file(sources, &file.ok_or_else(missing)?, child)?
                    };
                    self.modules[at].modules.insert(name, child);
                }
                syn::Item::Use(line) => {
                    let named = uses_of(&line.tree, &[])
                        .into_iter()
                        .map(|(path, name)| (is_public(&line.vis), path, name));
                    self.modules[at].uses.extend(named);
                }
                syn::Item::Impl(block) => self.impls.push((at, block)),
                _ => self.read_item(at, item),
            }
        }
        Ok(())
    }

    fn read_item(&mut self, module: usize, item: &'static syn::Item) {
        use syn::Item as I;
        let (name, vis, attributes, kind, node, generics) = match item {
            I::Const(i) => (&i.ident, &i.vis, &i.attrs, "const", Node::Value(&i.ty), None),
            I::Static(i) => (&i.ident, &i.vis, &i.attrs, "static", Node::Value(&i.ty), None),
            I::Enum(i) => (&i.ident, &i.vis, &i.attrs, "enum", Node::Type, Some(&i.generics)),
            I::Struct(i) => (&i.ident, &i.vis, &i.attrs, "struct", Node::Type, Some(&i.generics)),
            I::Trait(i) => (&i.ident, &i.vis, &i.attrs, "trait", Node::Type, Some(&i.generics)),
            I::Type(i) => (&i.ident, &i.vis, &i.attrs, "type", Node::Alias(&i.ty), Some(&i.generics)),
            I::Fn(i) => {
                let node = Node::Function(&i.sig, Some(&i.block));
                (&i.sig.ident, &i.vis, &i.attrs, "fn", node, Some(&i.sig.generics))
            }
            _ => return,
        };
        let (public, generics) = (is_public(vis), generics.into_iter().collect());
        let mut about = Item { kind, public, module, attributes, node, generics, ..Item::default() };
        match item {
            I::Struct(i) => about.fields = fields(&i.fields).collect(),
            I::Enum(i) => {
                about.variants = i.variants.iter().map(|variant| variant.ident.to_string()).collect();
                about.fields = i.variants.iter().flat_map(|variant| fields(&variant.fields)).collect();
            }
            _ => {}
        }
        let id = self.insert(name, about);
        self.modules[module].items.insert(name.to_string(), id);
        if let I::Trait(of) = item {
            for inner in &of.items {
                if let syn::TraitItem::Fn(f) = inner {
                    let about = Item { public, module, attributes: &f.attrs, ..Item::default() };
                    self.method(id, about, &f.sig, f.default.as_ref(), &of.generics);
                }
            }
        }
    }

    fn insert(&mut self, name: &syn::Ident, about: Item) -> usize {
        self.items.push(Item { name: name.to_string(), line: name.span().start().line, ..about });
        self.items.len() - 1
    }

    fn method(
        &mut self,
        owner: usize,
        about: Item,
        signature: &'static Signature,
        body: Option<&'static Block>,
        outer: &'static Generics,
    ) {
        let (node, generics) = (Node::Function(signature, body), vec![outer, &signature.generics]);
        let about = Item { kind: "method", owner: Some(owner), node, generics, ..about };
        let id = self.insert(&signature.ident, about);
        self.items[owner].methods.insert(signature.ident.to_string(), id);
    }

    /// Gives what stands in `impl` blocks to its types, which may be of other modules.
    fn bind(&mut self) {
        for (at, block) in std::mem::take(&mut self.impls) {
            let item = |path| self.resolve(at, &words(path)).item;
            let of_trait = block.trait_.as_ref().map(|(_, path, _)| item(path));
            let owner = if let syn::Type::Path(t) = &*block.self_ty { item(&t.path) } else { None };
            let owner = owner.map(|owner| self.real(owner));
            let Some(owner) = owner.filter(|owner| !matches!(self.items[*owner].node, Node::Alias(_))) else {
                for (name, method) in
                    of_trait.flatten().map_or(BTreeMap::new(), |of| self.items[of].methods.clone())
                {
                    self.extensions.entry(name).or_default().push(method);
                }
                continue;
            };
            self.items[owner].traits.extend(of_trait.flatten());
            for inner in &block.items {
                if let syn::ImplItem::Type(t) = inner {
                    self.items[owner].types.insert(t.ident.to_string(), &t.ty);
                } else if let (syn::ImplItem::Fn(f), None) = (inner, of_trait) {
                    let (public, attributes) = (is_public(&f.vis), &f.attrs[..]);
                    let about = Item { public, module: at, attributes, ..Item::default() };
                    self.method(owner, about, &f.sig, Some(&f.block), &block.generics);
                }
            }
        }
    }

    /// The path of a module from the root of its crate.
    pub fn definition(&self, module: usize) -> String {
        let Module { name, parent: Some(parent), .. } = &self.modules[module] else { return String::new() };
        let above = self.definition(*parent);
        if above.is_empty() { name.clone() } else { format!("{above}::{name}") }
    }

    fn root(&self, module: usize) -> usize {
        self.modules[module].parent.map_or(module, |parent| self.root(parent))
    }

    /// What a path means in a module. That of a method leads to the method, that of a variant to its enum.
    fn resolve(&self, at: usize, path: &[String]) -> Found {
        self.follow(at, path, &mut BTreeSet::new())
    }

    fn look(&self, at: usize, name: &str, seen: &mut BTreeSet<(usize, String)>) -> Found {
        let module = &self.modules[at];
        let mut found =
            Found { item: module.items.get(name).copied(), module: module.modules.get(name).copied() };
        if !seen.insert((at, name.to_string())) {
            return found;
        }
        for (_, path, alias) in module.uses.iter().filter(|(.., alias)| alias == name || alias == "*") {
            let variant = |item: &usize| self.items[*item].variants.iter().any(|variant| variant == name);
            found = found.or(match self.follow(at, path, seen) {
                target if alias == name => target,
                Found { module: Some(module), .. } => self.look(module, name, seen),
                Found { item, .. } => Found { item: item.filter(variant), module: None },
            });
        }
        let around = module.parent.filter(|_| module.block);
        around.map_or(found, |around| found.or(self.look(around, name, seen)))
    }

    fn follow(&self, at: usize, path: &[String], seen: &mut BTreeSet<(usize, String)>) -> Found {
        let Some((first, rest)) = path.split_first() else { return Found::default() };
        let of = |module| Found { item: None, module };
        let here = |mut at: usize| {
            while let Module { block: true, parent: Some(around), .. } = self.modules[at] {
                at = around;
            }
            at
        };
        let mut found = match first.as_str() {
            "crate" => of(Some(self.root(at))),
            "self" => of(Some(here(at))),
            "super" => of(self.modules[here(at)].parent),
            _ => match self.look(at, first, seen) {
                Found { item: None, module: None } if *first == self.name => of(Some(0)),
                found => found,
            },
        };
        for word in rest {
            found = match found {
                Found { module: Some(module), .. } if word == "super" => of(self.modules[module].parent),
                Found { module: Some(module), .. } => self.look(module, word, seen),
                Found { item: Some(item), .. } => {
                    let item = self.real(item);
                    let variant = self.items[item].variants.contains(word).then_some(item);
                    Found { item: self.member(item, word).or(variant), module: None }
                }
                nothing => nothing,
            };
        }
        found
    }

    /// The type behind an alias.
    fn real(&self, item: usize) -> usize {
        let Item { node: Node::Alias(syn::Type::Path(target)), module, .. } = &self.items[item] else {
            return item;
        };
        self.resolve(*module, &words(&target.path)).item.unwrap_or(item)
    }

    /// A method of a type, its own or one of its traits.
    fn member(&self, owner: usize, name: &str) -> Option<usize> {
        let of_traits = || self.items[owner].traits.iter().find_map(|of| self.items[*of].methods.get(name));
        self.items[owner].methods.get(name).or_else(of_traits).copied()
    }

    /// What users of the crate reach: public modules that the documentation shows, by their shortest path, each with the public items it exports.
    pub fn exports(&self) -> BTreeMap<String, (usize, BTreeSet<usize>)> {
        let (mut exports, mut seen) = (BTreeMap::new(), BTreeSet::new());
        let mut waiting = VecDeque::from([(0, String::new())]);
        while let Some((at, path)) = waiting.pop_front() {
            if seen.insert(at) {
                let below =
                    |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}::{name}") };
                let module = &self.modules[at];
                let children = module.modules.iter().filter(|(_, child)| self.modules[**child].public);
                waiting.extend(children.map(|(name, child)| (*child, below(name))));
                for (_, target, name) in module.uses.iter().filter(|(public, _, name)| *public && name != "*")
                {
                    let found = self.resolve(at, target).module.filter(|module| self.modules[*module].public);
                    waiting.extend(found.map(|module| (module, below(name))));
                }
                exports.insert(path, (at, self.public_items(at, &mut BTreeSet::new())));
            }
        }
        exports
    }

    fn public_items(&self, at: usize, seen: &mut BTreeSet<usize>) -> BTreeSet<usize> {
        let module = &self.modules[at];
        let mut found: BTreeSet<usize> =
            module.items.values().copied().filter(|i| self.items[*i].public).collect();
        if seen.insert(at) {
            for (_, path, name) in module.uses.iter().filter(|(public, ..)| *public) {
                match (self.resolve(at, path), name.as_str()) {
                    (Found { module: Some(module), .. }, "*") => {
                        found.extend(self.public_items(module, seen))
                    }
                    (target, _) => found.extend(target.item),
                }
            }
        }
        found
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether `#[doc(hidden)]` stands above.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let hides = |a: &Attribute| a.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden");
    attributes.iter().any(|a| a.path().is_ident("doc") && hides(a))
}

fn words(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|word| word.ident.to_string()).collect()
}

fn fields(of: &'static syn::Fields) -> impl Iterator<Item = (String, &'static syn::Type)> {
    let name =
        |k: usize, field: &syn::Field| field.ident.as_ref().map_or(k.to_string(), syn::Ident::to_string);
    of.iter().enumerate().map(move |(k, field)| (name(k, field), &field.ty))
}

/// The paths that a `use` names, each with the name it gets; `*` for all.
fn uses_of(tree: &UseTree, before: &[String]) -> Vec<(Vec<String>, String)> {
    let with = |name: &syn::Ident| [before.to_vec(), vec![name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => uses_of(&path.tree, &with(&path.ident)),
        UseTree::Name(name) if name.ident == "self" => {
            vec![(before.to_vec(), before.last().cloned().unwrap_or_default())]
        }
        UseTree::Name(name) => vec![(with(&name.ident), name.ident.to_string())],
        UseTree::Rename(rename) => vec![(with(&rename.ident), rename.rename.to_string())],
        UseTree::Glob(_) => vec![(before.to_vec(), "*".to_string())],
        UseTree::Group(group) => group.items.iter().flat_map(|tree| uses_of(tree, before)).collect(),
    }
}
