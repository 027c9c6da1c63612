//! Finds modules of a crate that import each other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::source::Source;
use crate::syntax::{self, InlineModule, Path};

/// The node for what the crate root defines itself.
const ROOT: &str = "(crate root)";

/// Returns the cycles in which the modules of one crate import each other, each once, with the location of every
/// import.
///
/// A module includes everything below it, and is compared with its siblings, at every depth. What the root re-exports
/// counts as an import of the module it comes from.
#[must_use]
pub fn circles(sources: &[Source]) -> Vec<String> {
    let graph = Graph::of(sources);
    let mut seen = BTreeSet::new();
    let shortest = graph.edges.keys().filter_map(|node| graph.circle_from(node));
    let new = shortest.filter(|circle| seen.insert(circle.iter().copied().collect::<BTreeSet<_>>()));
    new.collect::<Vec<_>>().into_iter().map(|circle| graph.describe(&circle)).collect()
}

/// The import graph: which module imports which, and where it first does.
struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    fn of(sources: &[Source]) -> Self {
        let crate_files: Vec<File<'_>> = sources.iter().filter_map(File::of).collect();
        let names = Names::of(&crate_files);
        let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for file in &crate_files {
            for path in syntax::paths(&file.source.shipped) {
                let from = file.module_at(path.at);
                let Some(target) = names.absolute(&from, &path) else { continue };
                let siblings = match from.first() == target.first() {
                    true => names.siblings(&from, &target),
                    false => Some((names.node(from.first()), names.node(target.first()))),
                };
                if let Some((from, to)) = siblings.filter(|(from, to)| from != to) {
                    let place = file.source.finding(path.at, "");
                    edges.entry(from).or_default().entry(to).or_insert_with(|| place.trim_end().to_owned());
                }
            }
        }
        Self { edges }
    }

    /// Returns the shortest path from a module back to itself.
    fn circle_from<'a>(&'a self, start: &'a str) -> Option<Vec<&'a str>> {
        let mut ways = VecDeque::from([vec![start]]);
        let mut reached = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            let next = way.last().and_then(|last| self.edges.get(*last))?;
            for to in next.keys().map(String::as_str) {
                if to == start {
                    return Some(way);
                }
                if self.edges.contains_key(to) && reached.insert(to) {
                    ways.push_back([way.as_slice(), &[to]].concat());
                }
            }
        }
        None
    }

    fn describe(&self, circle: &[&str]) -> String {
        let next = circle.iter().cycle().skip(1);
        let step = |(from, to): (&&str, &&str)| format!("{from} imports {to} at {}", self.edges[*from][*to]);
        circle.iter().zip(next).map(step).collect::<Vec<_>>().join(", ")
    }
}

/// A file with its place in the crate.
struct File<'a> {
    source: &'a Source,
    module: Vec<String>,
    inline: Vec<InlineModule>,
}

impl<'a> File<'a> {
    /// Returns `None` for the file of an additional binary, which is its own crate.
    fn of(source: &'a Source) -> Option<Self> {
        let (_, below) = source.path.split_once("/src/")?;
        if below.starts_with("bin/") {
            return None;
        }
        let is_root = matches!(below, "lib.rs" | "main.rs");
        let names = below.trim_end_matches(".rs").trim_end_matches("/mod").split('/').map(str::to_owned);
        let module = if is_root { Vec::new() } else { names.collect() };
        Some(Self { source, module, inline: syntax::inline_modules(&source.shipped) })
    }

    /// Returns the module that contains a byte of the file.
    fn module_at(&self, at: usize) -> Vec<String> {
        let around = self.inline.iter().filter(|inline| (inline.begin..inline.end).contains(&at));
        self.module.iter().cloned().chain(around.map(|inline| inline.name.clone())).collect()
    }
}

/// The names known to the crate root.
struct Names {
    modules: BTreeSet<String>,
    /// All modules below those, by their paths.
    below: BTreeSet<Vec<String>>,
    /// Names the root re-exports, and the module each comes from.
    reexports: BTreeMap<String, String>,
}

impl Names {
    fn of(files: &[File<'_>]) -> Self {
        let from_files = files.iter().filter_map(|file| file.module.first().cloned());
        let roots: Vec<&File<'_>> = files.iter().filter(|file| file.module.is_empty()).collect();
        let declared = roots.iter().flat_map(|root| syntax::module_names(&root.source.shipped));
        let below = files.iter().flat_map(|file| (1..=file.module.len()).map(|end| file.module[..end].to_vec()));
        let (modules, below) = (from_files.chain(declared).collect(), below.collect());
        let mut names = Self { modules, below, reexports: BTreeMap::new() };
        for root in roots {
            for path in syntax::paths(&root.source.shipped) {
                let is_of_root = root.module_at(path.at).is_empty();
                let target = names.absolute(&[], &path).filter(|_| is_of_root);
                if let (Some(alias), Some(target)) = (path.alias, target.filter(|target| target.len() > 1)) {
                    names.reexports.insert(alias, target[0].clone());
                }
            }
        }
        names
    }

    /// Returns the path from the crate root; `None` if it leads to another crate, or to a child by its bare name.
    fn absolute(&self, from: &[String], path: &Path) -> Option<Vec<String>> {
        let mut module: Vec<String> = match path.names[0].as_str() {
            "crate" => Vec::new(),
            "self" | "super" => from.to_vec(),
            first if from.is_empty() && self.modules.contains(first) => return Some(path.names.clone()),
            _ => return None,
        };
        for name in &path.names {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(module.pop()),
                name => module.push(name.to_owned()),
            }
        }
        Some(module)
    }

    /// Returns the modules that two paths part at, if they part at modules.
    fn siblings(&self, from: &[String], target: &[String]) -> Option<(String, String)> {
        let shared = from.iter().zip(target).take_while(|(one, other)| one == other).count();
        let (from, target) = (from.get(..=shared)?, target.get(..=shared)?);
        self.below.contains(target).then(|| (from.join("::"), target.join("::")))
    }

    /// Returns the node that a name below the root belongs to.
    fn node(&self, first: Option<&String>) -> String {
        match first {
            Some(first) if self.modules.contains(first) => first.clone(),
            Some(first) => self.reexports.get(first).cloned().unwrap_or_else(|| ROOT.to_owned()),
            None => ROOT.to_owned(),
        }
    }
}
