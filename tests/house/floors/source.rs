//! The source of a crate as modules: what each defines, imports and names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};

/// The path of a module within its crate; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// An import, or a leaf of a group of imports.
#[derive(Debug)]
pub(crate) struct Import {
    /// Segments as written.
    pub path: Vec<String>,
    /// The name it is bound to; `None` for a glob.
    pub name: Option<String>,
    /// Whether others can import through it.
    pub is_public: bool,
}

/// A module with a file of its own.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub file: String,
    pub lines: usize,
    pub defines: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths of at least two segments in code.
    pub paths: BTreeSet<Vec<String>>,
}

/// A crate by its modules.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub modules: BTreeMap<ModulePath, Module>,
}

/// Reads all files below a folder of the workspace.
pub(crate) fn read(root: &Path, folder: &str) -> Crate {
    let mut found = Crate::default();
    let mut folders = vec![root.join(folder)];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let inner = path.strip_prefix(root.join(folder)).unwrap().with_extension("");
                let mut module: ModulePath =
                    inner.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                if matches!(module.last().map(String::as_str), Some("lib" | "main" | "mod")) {
                    module.pop();
                }
                let text = std::fs::read_to_string(&path).unwrap();
                found.modules.insert(module, parse(file, &text));
            }
        }
    }
    // Files that are compiled for tests only may import as they like.
    for (path, module) in &mut found.modules {
        if path.iter().any(|part| part == "tests" || part == "schedules") {
            module.imports.clear();
            module.paths.clear();
        }
    }
    found
}

impl Crate {
    /// A crate made of texts, for the test of the tests.
    pub(crate) fn of_texts(files: &[(Vec<&str>, &str)]) -> Self {
        let module = |(path, text): &(Vec<&str>, &str)| {
            let path: ModulePath = path.iter().map(|&part| part.to_owned()).collect();
            let file = format!("{}.rs", path.join("/"));
            (path, parse(file, text))
        };
        Self { modules: files.iter().map(module).collect() }
    }

    /// The files that name a foreign crate at the beginning of a path.
    pub(crate) fn files_that_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let names = move |module: &&Module| {
            let imports = module.imports.iter().map(|import| &import.path);
            imports.chain(&module.paths).any(|path| {
                let own = self.modules.keys().any(|module| module.last().is_some_and(|last| last == name));
                let first = path.iter().find(|segment| !segment.is_empty());
                // A leading `::` stands for an empty segment: a foreign crate whatever modules there are.
                let foreign = path.first().is_some_and(String::is_empty);
                first.is_some_and(|first| first == name) && (foreign || !own)
            })
        };
        self.modules.values().filter(names).map(|module| module.file.as_str())
    }

    /// The files with their numbers of lines.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.modules.values().map(|module| (module.file.as_str(), module.lines))
    }
}

fn parse(file: String, text: &str) -> Module {
    let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut module = Module { file, lines: text.lines().count(), ..Module::default() };
    for item in &syntax.items {
        if let Some(name) = name_of(item) {
            module.defines.insert(name);
        }
    }
    module.visit_file(&syntax);
    module
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg
            && attribute.meta.require_list().is_ok_and(|list| {
                let condition = list.tokens.to_string();
                condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
            })
    })
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        let start = if item.leading_colon.is_some() { vec![String::new()] } else { Vec::new() };
        self.flatten(&item.tree, start, is_public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        let start = path.leading_colon.is_some().then(String::new);
        let segments: Vec<String> = start.into_iter().chain(segments).collect();
        if segments.len() > 1 {
            self.paths.insert(segments);
        }
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are tokens: paths in them are found by their text.
    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let text = invocation.tokens.to_string().replace(" :: ", "::");
        let words = text.split(|char: char| !(char.is_alphanumeric() || char == '_' || char == ':'));
        for word in words.filter(|word| word.contains("::")) {
            self.paths.insert(word.trim_end_matches(':').split("::").map(str::to_owned).collect());
        }
        visit::visit_macro(self, invocation);
    }
}

impl Module {
    fn flatten(&mut self, tree: &syn::UseTree, mut path: Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.flatten(&inner.tree, path, is_public);
            }
            syn::UseTree::Group(group) => {
                for inner in &group.items {
                    self.flatten(inner, path.clone(), is_public);
                }
            }
            syn::UseTree::Glob(_) => self.imports.push(Import { path, name: None, is_public }),
            syn::UseTree::Name(leaf) => self.leaf(path, &leaf.ident, None, is_public),
            syn::UseTree::Rename(leaf) => self.leaf(path, &leaf.ident, Some(&leaf.rename), is_public),
        }
    }

    fn leaf(
        &mut self,
        mut path: Vec<String>,
        ident: &syn::Ident,
        name: Option<&syn::Ident>,
        is_public: bool,
    ) {
        if ident != "self" {
            path.push(ident.to_string());
        }
        let name = name.map(ToString::to_string).or_else(|| path.last().cloned());
        self.imports.push(Import { path, name, is_public });
    }
}
