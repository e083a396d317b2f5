//! The graph of imports: paths resolved to the module that defines what they name, and its circles.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, Module, ModulePath};

/// An item's home: crate, module, and what is left of the path.
type Home = (String, ModulePath, Vec<String>);

/// All imports between modules of one crate: from, to, and the names that are imported.
pub(crate) fn imports(
    workspace: &BTreeMap<String, Crate>,
    name: &str,
) -> Vec<(ModulePath, ModulePath, BTreeSet<String>)> {
    let mut edges: BTreeMap<(ModulePath, ModulePath), BTreeSet<String>> = BTreeMap::new();
    for (here, module) in &workspace[name].modules {
        let named = module.imports.iter().map(|import| import.path.clone());
        let by_module = module.paths.iter().filter_map(|path| through_import(module, path));
        for path in named.chain(by_module).chain(module.paths.iter().cloned()) {
            let Some((krate, to, rest)) = home_of(workspace, name, here, &path) else { continue };
            if krate == name && to != *here {
                edges.entry((here.clone(), to)).or_default().insert(rest.join("::"));
            }
        }
    }
    edges.into_iter().map(|((from, to), items)| (from, to, items)).collect()
}

/// A path that begins with an imported name, written out.
fn through_import(module: &Module, path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let import = module.imports.iter().find(|import| import.name.as_ref() == Some(first))?;
    Some(import.path.iter().chain(rest).cloned().collect())
}

fn home_of(
    workspace: &BTreeMap<String, Crate>,
    krate: &str,
    here: &[String],
    path: &[String],
) -> Option<Home> {
    let (krate, path) = absolute(workspace, krate, here, path)?;
    follow(workspace, krate, &path, &mut BTreeSet::new())
}

/// A path from the root of its crate; nothing for a foreign crate.
fn absolute(
    workspace: &BTreeMap<String, Crate>,
    krate: &str,
    here: &[String],
    path: &[String],
) -> Option<(String, Vec<String>)> {
    let (first, rest) = path.split_first()?;
    let child: Vec<String> = here.iter().chain([first]).cloned().collect();
    let join = |start: &[String]| start.iter().chain(rest).cloned().collect();
    match first.as_str() {
        "crate" => Some((krate.to_owned(), rest.to_vec())),
        "self" => Some((krate.to_owned(), join(here))),
        "super" => {
            let (_, parent) = here.split_last()?;
            let ups = rest.iter().take_while(|segment| *segment == "super").count();
            let parent = parent.get(..parent.len().checked_sub(ups)?)?;
            let rest = rest.iter().skip(ups);
            Some((krate.to_owned(), parent.iter().chain(rest).cloned().collect()))
        }
        other if workspace.contains_key(other) => Some((other.to_owned(), rest.to_vec())),
        _ if workspace[krate].modules.contains_key(&child) => Some((krate.to_owned(), join(&child))),
        _ => None,
    }
}

/// Follows re-exports to the module that defines the item.
fn follow(
    workspace: &BTreeMap<String, Crate>,
    krate: String,
    path: &[String],
    seen: &mut BTreeSet<(String, Vec<String>)>,
) -> Option<Home> {
    let modules = &workspace[&krate].modules;
    let splits = (0..=path.len()).rev().filter_map(|end| path.split_at_checked(end));
    let (at, rest) = splits.into_iter().find(|(at, _)| modules.contains_key(*at))?;
    let (at, rest) = (at.to_vec(), rest.to_vec());
    let module = &modules[&at];
    let Some(first) = rest.first().filter(|first| !module.defines.contains(*first)) else {
        return Some((krate, at, rest));
    };
    if !seen.insert((krate.clone(), path.to_vec())) {
        return None;
    }
    for import in &module.imports {
        let through = match &import.name {
            Some(name) if name == first => rest.get(1..)?.to_vec(),
            None if import.is_public => rest.clone(),
            _ => continue,
        };
        let target: Vec<String> = import.path.iter().cloned().chain(through).collect();
        let Some((next, path)) = absolute(workspace, &krate, &at, &target) else {
            // A foreign item: its home is where it comes in.
            if import.name.is_some() {
                return Some((krate, at, rest));
            }
            continue;
        };
        if let Some(home) = follow(workspace, next, &path, seen) {
            return Some(home);
        }
    }
    // An item that a macro or an inline module defines.
    Some((krate, at, rest))
}

/// A graph of modules: from, to.
pub(crate) type Edges = BTreeSet<(ModulePath, ModulePath)>;

/// The circles of a graph: sets of nodes each of which reaches all others.
pub(crate) fn circles(edges: &Edges) -> Vec<BTreeSet<Vec<String>>> {
    let mut next: BTreeMap<&[String], Vec<&[String]>> = BTreeMap::new();
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        next.entry(from).or_default().push(to);
    }
    let reached_from = |start: &[String]| {
        let mut reached: BTreeSet<Vec<String>> = BTreeSet::new();
        let mut open: Vec<&[String]> = next.get(start).cloned().unwrap_or_default();
        while let Some(node) = open.pop() {
            if reached.insert(node.to_vec()) {
                open.extend(next.get(node).into_iter().flatten());
            }
        }
        reached
    };
    let reach: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> =
        next.keys().map(|node| (node.to_vec(), reached_from(node))).collect();
    let mut found: Vec<BTreeSet<Vec<String>>> = Vec::new();
    for (node, reached) in reach.iter().filter(|(node, reached)| reached.contains(*node)) {
        let mutual = |other: &&Vec<String>| reach.get(*other).is_some_and(|back| back.contains(node));
        let circle: BTreeSet<Vec<String>> = reached.iter().filter(mutual).cloned().collect();
        if !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}
