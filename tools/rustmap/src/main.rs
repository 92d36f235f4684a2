//! `lastlayer-rustmap ROOT` says as JSON which public items a crate has, and which of them its tests and its notebooks
//! use. The notebooks come by the standard input, as name -> code of each cell.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rustmap::{Body, Map, Walk, documentation, read, syn};
use serde_json::{Value, json};

fn main() {
    let (root, mut notebooks) = (std::env::args().nth(1).unwrap_or(".".to_string()), String::new());
    let said = std::io::stdin().read_to_string(&mut notebooks).map_err(|e| e.to_string());
    match said.and_then(|_| survey(Path::new(&root), &notebooks)) {
        Ok(found) => println!("{found}"),
        Err(sentence) => {
            eprintln!("{sentence}");
            std::process::exit(1);
        }
    }
}

fn survey(root: &Path, notebooks: &str) -> Result<Value, String> {
    let mut map = Map::library(&read(root, "src")?, "lastlayer", "src/lib.rs")?;
    let (items, modules) = (items(&map), modules(&map));
    let functions = functions(&mut map, root)?;
    let notebooks: BTreeMap<String, Vec<String>> =
        serde_json::from_str(notebooks).map_err(|e| e.to_string())?;
    let cells = notebooks.iter().map(|(name, texts)| (name, cells(&mut map, name, texts)));
    let cells: BTreeMap<_, _> = cells.collect();
    Ok(json!({ "items": items, "modules": modules, "functions": functions, "cells": cells }))
}

/// The public items of the crate.
fn items(map: &Map) -> Vec<Value> {
    let public = map.items.iter().filter(|item| item.path.is_some());
    let shown = public.map(|item| {
        json!({
            "path": item.path, "kind": item.kind, "is_type": item.is_type(), "line": item.line, "size": item.size(),
            "file": map.modules[item.module].file, "doc": documentation(item.attributes),
            "owner": item.owner.and_then(|owner| map.items[owner].path.as_ref()),
        })
    });
    shown.collect()
}

/// The public modules of the crate, with what each exports.
fn modules(map: &Map) -> BTreeMap<String, Value> {
    let shown =
        map.exports().into_iter().filter(|(path, _)| !path.is_empty()).map(|(path, (at, exports))| {
            let exports: Vec<_> = exports.iter().map(|item| &map.items[*item].path).collect();
            let doc = documentation(map.modules[at].attributes.iter().copied());
            (path, json!({ "doc": doc, "exports": exports }))
        });
    shown.collect()
}

/// What a body uses, and what it calls as places in a list.
fn shown(map: &Map, body: &Body, place: impl Fn(usize) -> Option<usize>, file: &str) -> Value {
    let uses: Vec<_> = body.uses.iter().map(|item| &map.items[*item].path).collect();
    let calls: Vec<_> = body.calls.iter().filter_map(|item| place(*item)).collect();
    let unclear: Vec<_> = body.unclear.iter().map(|(line, said)| format!("{file}:{line}: {said}")).collect();
    json!({ "uses": uses, "calls": calls, "unclear": unclear })
}

/// The functions of the test programs.
fn functions(map: &mut Map, root: &Path) -> Result<Vec<Value>, String> {
    let (sources, first) = (read(root, "tests")?, map.items.len());
    for file in sources.keys() {
        let depth = file.components().count();
        if depth == 2 || (depth == 3 && file.ends_with("main.rs")) {
            map.program(&sources, file)?;
        }
    }
    let all: Vec<usize> = (first..map.items.len()).filter(|item| map.items[*item].is_function()).collect();
    let shown = all.iter().map(|id| {
        let body = Walk::function(map, *id);
        let (item, file) = (&map.items[*id], map.modules[map.items[*id].module].file.display().to_string());
        let mut value = shown(map, &body, |item| all.binary_search(&item).ok(), &file);
        value["test"] = json!(item.is_test().then(|| format!("{file}::{}", item.name)));
        value
    });
    Ok(shown.collect())
}

/// The cells of a notebook; what one calls are earlier cells.
fn cells(map: &mut Map, name: &str, texts: &[String]) -> Vec<Value> {
    let (mut walk, mut modules, mut found) = (Walk::notebook(map), Vec::new(), Vec::new());
    for (k, text) in texts.iter().enumerate() {
        // Lines such as `:help` are the kernel's.
        let lines: Vec<_> = text.lines().map(|line| if line.starts_with(':') { "" } else { line }).collect();
        let block = syn::parse_str(&format!("{{{}\n}}", lines.join("\n")));
        let unread = |e: syn::Error| Body { unclear: [(1, e.to_string())].into(), ..Body::default() };
        let cell = block.map(|block| walk.cell(Box::leak(Box::new(block))));
        let (body, module) = cell.unwrap_or_else(|e| (unread(e), usize::MAX));
        modules.push(module);
        let place = |item: usize| modules.iter().position(|module| *module == walk.map.items[item].module);
        found.push(shown(walk.map, &body, place, &format!("{name}, cell {k}")));
    }
    found
}
