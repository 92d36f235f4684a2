//! Which items the body of a function or a cell of a notebook uses.
//!
//! Names are looked up in the scope where they stand. Of a value it is known which types of ours it may be or hold, from
//! signatures and fields; a method is that of the one type among them that has it. Where nothing is known, it is that of
//! the one type that occurs in the same body. If there are several, that is told.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Block, Expr, Generics, Pat, Stmt};

use crate::{Item, Map, Node, words};

/// What a value may be or hold: types of ours, and perhaps something that the sources do not tell.
type Types = BTreeSet<usize>;
const UNKNOWN: usize = usize::MAX;

fn known(types: &Types) -> impl Iterator<Item = usize> {
    types.iter().copied().filter(|of| *of != UNKNOWN)
}

/// What a body uses.
#[derive(Default)]
pub struct Body {
    /// Public items of the crate.
    pub uses: BTreeSet<usize>,
    /// Functions of its own program.
    pub calls: BTreeSet<usize>,
    /// Methods of which the sources do not tell the type, by line.
    pub unclear: BTreeMap<usize, String>,
}

/// The types of ours that a type mentions, as it is written at a place.
struct Mentions<'m> {
    map: &'m Map,
    module: usize,
    owner: Option<usize>,
    generics: &'m [&'static Generics],
    found: Types,
}

impl<'m> Mentions<'m> {
    fn new(map: &'m Map, module: usize, owner: Option<usize>, generics: &'m [&'static Generics]) -> Self {
        Mentions { map, module, owner, generics, found: Types::new() }
    }

    /// At a place inside of an item.
    fn at(map: &'m Map, item: &'m Item, owner: Option<usize>) -> Self {
        Self::new(map, item.module, owner, &item.generics)
    }

    fn of(mut self, written: &'static syn::Type) -> Types {
        self.visit_type(written);
        self.found
    }

    fn insert(&mut self, item: usize) {
        let about = &self.map.items[item];
        let more = match about.node {
            Node::Alias(target) => Some(target),
            // An iterator holds its entries.
            _ if self.found.insert(item) => about.types.get("Item").copied(),
            _ => None,
        };
        if let Some(more) = more {
            self.found.extend(known(&Mentions::at(self.map, about, None).of(more)));
        }
    }
}

impl Visit<'static> for Mentions<'_> {
    fn visit_path(&mut self, path: &'static syn::Path) {
        let names = words(path);
        let generics = self.generics;
        if let (Some(owner), "Self") = (self.owner, names[0].as_str()) {
            match names.get(1).map(|name| self.map.items[owner].types.get(name)) {
                None => self.insert(owner),
                Some(None) => _ = self.found.insert(UNKNOWN),
                Some(Some(written)) => {
                    let here = Mentions::new(self.map, self.map.items[owner].module, Some(owner), generics);
                    self.found.extend(here.of(written));
                }
            }
        } else if let Some(k) = generics.iter().position(|g| g.type_params().any(|p| p.ident == names[0])) {
            self.found.insert(UNKNOWN);
            // Without these generics, for a bound may name its own parameter.
            let mut here = Mentions::new(self.map, self.module, self.owner, &generics[..k]);
            here.visit_generics(generics[k]);
            let found = here.found;
            self.found.extend(found);
        } else {
            let item = self.map.resolve(self.module, &names).item;
            item.into_iter().for_each(|item| self.insert(item));
        }
        visit::visit_path(self, path);
    }

    fn visit_type_infer(&mut self, _: &'static syn::TypeInfer) {
        self.found.insert(UNKNOWN);
    }
}

/// One pass over a body. In a notebook it goes on from cell to cell, with the names of those before.
pub struct Walk<'m> {
    pub map: &'m mut Map,
    module: usize,
    owner: Option<usize>,
    generics: Vec<&'static Generics>,
    names: Vec<(String, Types)>,
    /// What the parts of an expression add up to, what a pattern binds, what the next closure takes.
    sum: Types,
    binding: Types,
    hint: Option<Types>,
    body: Body,
    /// Types that occur, and methods that are called on something unknown.
    occurring: Types,
    lost: Vec<(usize, String)>,
}

impl<'m> Walk<'m> {
    fn new(map: &'m mut Map, module: usize) -> Self {
        let (owner, generics, names, sum, binding, hint, body, (occurring, lost)) = Default::default();
        Walk { map, module, owner, generics, names, sum, binding, hint, body, occurring, lost }
    }

    /// What the body of a function uses.
    pub fn function(map: &'m mut Map, function: usize) -> Body {
        let item = &map.items[function];
        let (module, owner, generics) = (item.module, item.owner, item.generics.clone());
        let Node::Function(signature, body) = item.node else { return Body::default() };
        let mut walk = Walk { owner, generics, ..Walk::new(map, module) };
        walk.enter(signature, body);
        walk.finish()
    }

    pub fn notebook(map: &'m mut Map) -> Self {
        let module = map.read_block(None, Vec::new());
        Walk::new(map, module)
    }

    /// What a cell uses, and the module that its items are in.
    pub fn cell(&mut self, block: &'static Block) -> (Body, usize) {
        self.statements(block);
        (self.finish(), self.module)
    }

    /// All uses. A call on something unknown counts if one type that occurs here has a method of that name.
    fn finish(&mut self) -> Body {
        for (line, name) in std::mem::take(&mut self.lost) {
            let able = self.members(&self.occurring, &name);
            self.choose(&able, line);
        }
        self.occurring.clear();
        std::mem::take(&mut self.body)
    }

    fn members(&self, types: &Types, name: &str) -> BTreeMap<usize, usize> {
        known(types).filter_map(|of| Some((self.map.member(self.map.real(of), name)?, of))).collect()
    }

    fn choose(&mut self, able: &BTreeMap<usize, usize>, line: usize) {
        if able.len() == 1 {
            able.keys().for_each(|method| self.mean(*method));
        } else if !able.is_empty() {
            let paths = able.keys().filter_map(|method| self.map.items[*method].path.as_deref());
            let paths: Vec<_> = paths.collect();
            self.body.unclear.extend((!paths.is_empty()).then(|| (line, paths.join(" or "))));
        }
    }

    fn mean(&mut self, item: usize) {
        let this = &self.map.items[item];
        if this.path.is_some() {
            self.body.uses.insert(item);
        } else if this.is_function() && self.map.root(this.module) == self.map.root(self.module) {
            self.body.calls.insert(item);
        }
        self.occurring.extend(this.owner.or(this.is_type().then_some(item)));
    }

    fn note(&mut self, types: Types) -> Types {
        self.occurring.extend(known(&types));
        types
    }

    fn written(&mut self, written: &'static syn::Type) -> Types {
        let types = Mentions::new(self.map, self.module, self.owner, &self.generics).of(written);
        self.note(types)
    }

    /// What a function of ours takes, without `self`, and gives, as a method of `on`.
    fn signature(&self, function: usize, on: Option<usize>) -> (Vec<Types>, Types) {
        let item = &self.map.items[function];
        let Node::Function(signature, _) = item.node else { return (Vec::new(), Types::from([UNKNOWN])) };
        let of = |t| Mentions::at(self.map, item, on.or(item.owner)).of(t);
        let takes = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(input) => Some(of(&*input.ty)),
            syn::FnArg::Receiver(_) => None,
        });
        let gives = if let syn::ReturnType::Type(_, t) = &signature.output { of(&**t) } else { Types::new() };
        (takes.collect(), gives)
    }

    /// What the fields of types hold, of one name or of all.
    fn fields(&self, types: &Types, name: Option<String>) -> Option<Types> {
        let here = |of: usize| (of, &self.map.items[self.map.real(of)]);
        let all = known(types)
            .map(here)
            .flat_map(|(of, item)| item.fields.iter().map(move |field| (of, item, field)));
        let wanted = all.filter(|(.., field)| name.as_ref().is_none_or(|name| *name == field.0));
        wanted
            .map(|(of, item, field)| Mentions::at(self.map, item, Some(of)).of(field.1))
            .reduce(|a, b| &a | &b)
    }

    fn find(&self, path: &syn::Path) -> Option<usize> {
        let names = words(path);
        match (self.owner, names[0].as_str(), names.get(1)) {
            (owner, "Self", None) => owner,
            (Some(owner), "Self", Some(name)) => self.map.member(owner, name).or(Some(owner)),
            _ => self.map.resolve(self.module, &names).item,
        }
    }

    /// Walks a function with its arguments as names.
    fn enter(&mut self, signature: &'static syn::Signature, body: Option<&'static Block>) {
        let names = self.names.len();
        self.names.push(("self".to_string(), self.owner.into_iter().collect()));
        signature.inputs.iter().for_each(|input| self.visit_fn_arg(input));
        body.into_iter().for_each(|body| _ = self.block(body));
        self.names.truncate(names);
    }

    fn block(&mut self, block: &'static Block) -> Types {
        let (names, module) = (self.names.len(), self.module);
        let found = self.statements(block);
        self.names.truncate(names);
        self.module = module;
        found
    }

    fn statements(&mut self, block: &'static Block) -> Types {
        let items =
            block.stmts.iter().filter_map(|s| if let Stmt::Item(item) = s { Some(item) } else { None });
        self.module = self.map.read_block(Some(self.module), items.collect());
        let mut last = Types::new();
        for statement in &block.stmts {
            last = self.parts(|walk| walk.visit_stmt(statement));
        }
        last
    }

    fn bind(&mut self, pattern: &'static Pat, types: Types) {
        let outer = std::mem::replace(&mut self.binding, types);
        self.visit_pat(pattern);
        self.binding = outer;
    }

    /// A pattern of a type of ours binds what its fields hold.
    fn variant(&mut self, path: &'static syn::Path, visit: impl FnOnce(&mut Self)) {
        let outer = self.binding.clone();
        if let Some(item) = self.find(path) {
            self.mean(item);
            self.binding = self.fields(&Types::from([item]), None).unwrap_or_default();
        }
        visit(self);
        self.binding = outer;
    }

    /// What the expressions among the parts of something add up to.
    fn parts(&mut self, visit: impl FnOnce(&mut Self)) -> Types {
        let outer = std::mem::take(&mut self.sum);
        visit(self);
        std::mem::replace(&mut self.sum, outer)
    }

    fn expression(&mut self, expression: &'static Expr) -> Types {
        let names = self.names.len();
        let found = match expression {
            Expr::Path(e) => self.path(&e.path),
            Expr::Call(e) => self.call(e),
            Expr::MethodCall(e) => self.method_call(e),
            Expr::Field(e) => {
                let base = self.expression(&e.base);
                let name = match &e.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                self.fields(&base, Some(name)).unwrap_or(base)
            }
            Expr::Struct(e) => {
                let item = self.find(&e.path);
                item.into_iter().for_each(|item| self.mean(item));
                let fields = self.parts(|walk| visit::visit_expr_struct(walk, e));
                item.map_or(fields, |item| Types::from([item]))
            }
            Expr::Closure(e) => {
                let takes = self.hint.take().unwrap_or(Types::from([UNKNOWN]));
                e.inputs.iter().for_each(|input| self.bind(input, takes.clone()));
                self.expression(&e.body)
            }
            Expr::Let(e) => {
                let types = self.expression(&e.expr);
                self.bind(&e.pat, types);
                Types::new()
            }
            Expr::ForLoop(e) => {
                let types = self.expression(&e.expr);
                self.bind(&e.pat, types);
                self.block(&e.body);
                Types::new()
            }
            Expr::Match(e) => {
                let (types, mut found) = (self.expression(&e.expr), Types::new());
                for arm in &e.arms {
                    self.bind(&arm.pat, types.clone());
                    arm.guard.iter().for_each(|(_, guard)| self.visit_expr(guard));
                    found.extend(self.expression(&arm.body));
                    self.names.truncate(names);
                }
                found
            }
            Expr::Block(e) => self.block(&e.block),
            _ => self.parts(|walk| visit::visit_expr(walk, expression)),
        };
        if matches!(expression, Expr::If(_) | Expr::While(_) | Expr::ForLoop(_) | Expr::Closure(_)) {
            self.names.truncate(names);
        }
        self.note(found)
    }

    fn local(&self, path: &syn::Path) -> Option<Types> {
        let name = path.get_ident()?.to_string();
        self.names.iter().rfind(|(known, _)| *known == name).map(|(_, types)| types.clone())
    }

    fn path(&mut self, path: &'static syn::Path) -> Types {
        if let Some(types) = self.local(path) {
            return types;
        }
        let Some(item) = self.find(path) else { return Types::from([UNKNOWN]) };
        self.mean(item);
        match self.map.items[item].node {
            Node::Function(..) => self.signature(item, None).1,
            Node::Value(of) => Mentions::at(self.map, &self.map.items[item], None).of(of),
            _ => Types::from([item]),
        }
    }

    /// Walks arguments; a closure among them takes what the function says, or else what it is called on.
    fn arguments(
        &mut self,
        arguments: impl Iterator<Item = &'static Expr>,
        takes: &[Types],
        on: &Types,
    ) -> Types {
        let mut sum = Types::new();
        for (k, argument) in arguments.enumerate() {
            let takes = takes.get(k).cloned().unwrap_or_else(|| on | &sum);
            self.hint = matches!(argument, Expr::Closure(_)).then_some(takes);
            sum.extend(self.expression(argument));
        }
        sum
    }

    fn call(&mut self, call: &'static syn::ExprCall) -> Types {
        let (arguments, unknown) = (call.args.iter(), Types::from([UNKNOWN]));
        let path = if let Expr::Path(function) = &*call.func { Some(&function.path) } else { None };
        let Some(path) = path.filter(|path| self.local(path).is_none()) else {
            let gives = self.expression(&call.func);
            self.arguments(arguments, &[], &unknown);
            return gives;
        };
        if let Some(item) = self.find(path) {
            self.mean(item);
            let (takes, gives) = self.signature(item, None);
            self.arguments(arguments, &takes, &unknown);
            return if self.map.items[item].is_function() { gives } else { Types::from([item]) };
        }
        let given = self.arguments(arguments, &[], &unknown);
        // `Type::default()` and its like are of a trait.
        let names = words(path);
        let maker = self.map.resolve(self.module, &names[..names.len() - 1]).item;
        if let Some(maker) = maker.filter(|maker| self.map.items[*maker].is_type()) {
            self.mean(maker);
            return Types::from([maker]);
        }
        if call.args.is_empty() { unknown } else { given }
    }

    fn method_call(&mut self, call: &'static syn::ExprMethodCall) -> Types {
        let on = self.expression(&call.receiver);
        let (name, line) = (call.method.to_string(), call.method.span().start().line);
        let mut able = self.members(&on, &name);
        if able.is_empty() {
            // A trait of ours that is in scope gives it to types of others.
            let all = self.map.extensions.get(&name).into_iter().flatten();
            let all = all.filter_map(|method| Some((*method, self.map.items[*method].owner?)));
            let name = |of: usize| [self.map.items[of].name.clone()];
            able = all
                .filter(|(_, of)| self.map.resolve(self.module, &name(*of)).item == Some(*of))
                .take(1)
                .collect();
        }
        if let Some((method, of)) = able.first_key_value() {
            self.choose(&able, line);
            let (takes, gives) = self.signature(*method, Some(*of));
            self.arguments(call.args.iter(), &takes, &on);
            return gives;
        }
        if on.contains(&UNKNOWN) {
            self.lost.push((line, name.clone()));
        }
        let given = self.arguments(call.args.iter(), &[], &on);
        &on | &given
    }

    /// Expressions of a macro, or between the signs of a grammar that is not Rust's.
    fn tokens(&mut self, tokens: TokenStream) {
        let list = TokenTree::Group(Group::new(Delimiter::Bracket, tokens.clone()));
        if let Ok(list) = syn::parse2::<Expr>(list.into()) {
            return self.visit_expr(Box::leak(Box::new(list)));
        }
        let (tokens, mut joint) = (tokens.into_iter().collect::<Vec<_>>(), false);
        let between = |tree: &TokenTree| {
            let second = joint; // half of `::` or `==`
            joint = matches!(tree, TokenTree::Punct(sign) if sign.spacing() == Spacing::Joint);
            match tree {
                TokenTree::Punct(sign) => !joint && !second && ",;:".contains(sign.as_char()),
                TokenTree::Ident(word) => word == "if",
                _ => false,
            }
        };
        for piece in tokens.split(between) {
            match (syn::parse2::<Expr>(piece.iter().cloned().collect()), piece) {
                (Ok(piece), _) => self.visit_expr(Box::leak(Box::new(piece))),
                (Err(_), [TokenTree::Group(group)]) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl Visit<'static> for Walk<'_> {
    fn visit_expr(&mut self, expression: &'static Expr) {
        let found = self.expression(expression);
        self.sum.extend(found);
    }

    fn visit_block(&mut self, block: &'static Block) {
        let found = self.block(block);
        self.sum.extend(found);
    }

    fn visit_local(&mut self, local: &'static syn::Local) {
        let types = self.parts(|walk| local.init.iter().for_each(|init| walk.visit_local_init(init)));
        self.bind(&local.pat, types);
    }

    fn visit_macro(&mut self, call: &'static syn::Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_item_fn(&mut self, item: &'static syn::ItemFn) {
        self.enter(&item.sig, Some(&item.block));
    }

    fn visit_item_impl(&mut self, item: &'static syn::ItemImpl) {
        let own = known(&self.written(&item.self_ty)).next();
        let outer = std::mem::replace(&mut self.owner, own);
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'static syn::ImplItemFn) {
        self.enter(&item.sig, Some(&item.block));
    }

    fn visit_pat_ident(&mut self, pattern: &'static syn::PatIdent) {
        self.names.push((pattern.ident.to_string(), self.binding.clone()));
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_pat_type(&mut self, pattern: &'static syn::PatType) {
        let mut types = self.written(&pattern.ty);
        // `Vec<_>` says less than what is in it.
        if types.remove(&UNKNOWN) {
            types.extend(&self.binding);
        }
        self.bind(&pattern.pat, types);
    }

    fn visit_pat_tuple_struct(&mut self, pattern: &'static syn::PatTupleStruct) {
        self.variant(&pattern.path, |walk| visit::visit_pat_tuple_struct(walk, pattern));
    }

    fn visit_pat_struct(&mut self, pattern: &'static syn::PatStruct) {
        self.variant(&pattern.path, |walk| visit::visit_pat_struct(walk, pattern));
    }

    fn visit_expr_path(&mut self, path: &'static syn::ExprPath) {
        self.path(&path.path);
    }
}
