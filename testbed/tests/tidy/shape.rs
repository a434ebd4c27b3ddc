//! The shape of the code: how large types get, and which tricks stand for a missing name. Each
//! figure has a bound; where the aim is not reached, the bound is what there is, and only goes
//! down.
//!
//! `cargo test -p ringway-testbed --test tidy shape -- --nocapture` prints the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::{report, root, walk};

/// Methods of one type, over all its `impl` blocks outside of tests. The aim for all is 60.
const METHODS: usize = 60;

/// Types that are larger, and how large they may be.
const LARGER: &[(&str, &str, usize)] = &[];

/// Parameters that take unrelated values as one tuple. The aim is 0.
const TUPLES: usize = 0;

/// `match` on a bool. The aim is 5.
const BOOLS: usize = 5;

/// Of a hundred functions of [`LONG`] lines and more, how many have a comment inside. The aim is
/// 60.
const COMMENTED: usize = 70;

/// Lines from which on a function has something to explain.
const LONG: usize = 20;

/// What one file has.
#[derive(Default)]
struct Shape {
    /// Methods by type.
    methods: BTreeMap<String, usize>,
    tuples: Vec<usize>,
    bools: Vec<usize>,
    /// First and last line of long functions.
    long: Vec<(usize, usize)>,
}

impl Shape {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        for input in &signature.inputs {
            if let syn::FnArg::Typed(typed) = input
                && matches!(*typed.pat, syn::Pat::Tuple(_))
                && matches!(*typed.ty, syn::Type::Tuple(_))
            {
                self.tuples.push(typed.span().start().line);
            }
        }
        let (from, to) = (block.span().start().line, block.span().end().line);
        if to.saturating_sub(from) >= LONG {
            self.long.push((from, to));
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = |list: &syn::MetaList| list.tokens.to_string().contains("test");
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(list))
    })
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = path.path.segments.last()
        {
            let count = item.items.iter().filter(
                |item| matches!(item, syn::ImplItem::Fn(method) if !is_test(&method.attrs)),
            );
            *self.methods.entry(last.ident.to_string()).or_default() += count.count();
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        let is_bool = |arm: &syn::Arm| matches!(&arm.pat, syn::Pat::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)));
        if item.arms.iter().any(is_bool) {
            self.bools.push(item.span().start().line);
        }
        visit::visit_expr_match(self, item);
    }
}

/// The files of the product: not its tests, benchmarks and simulators.
fn product() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in [
        "dtl",
        "overlay",
        "transport",
        "client",
        "node",
        "gateway",
        "ringway",
    ] {
        walk(
            &root().join("crates").join(name).join("src"),
            "rs",
            &mut found,
        );
    }
    let tests = |path: &PathBuf| {
        let own = path
            .file_stem()
            .is_some_and(|stem| stem == "tests" || stem == "attacks");
        let below = |part| path.components().any(|name| name.as_os_str() == part);
        !(own || below("tests") || below("attacks"))
    };
    found.retain(tests);
    found
}

fn name(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.display().to_string()
}

/// All shapes, with whether each long function has a comment.
struct Shapes {
    /// Methods and files by crate and type.
    types: BTreeMap<(String, String), (usize, BTreeSet<String>)>,
    tuples: Vec<String>,
    bools: Vec<String>,
    long: usize,
    bare: Vec<String>,
}

fn shapes() -> Shapes {
    let mut all = Shapes {
        types: BTreeMap::new(),
        tuples: Vec::new(),
        bools: Vec::new(),
        long: 0,
        bare: Vec::new(),
    };
    for path in product() {
        let text = fs::read_to_string(&path).unwrap();
        let mut shape = Shape::default();
        shape.visit_file(&syn::parse_file(&text).unwrap());
        let (file, lines) = (name(&path), text.lines().collect::<Vec<_>>());
        let owner = file.split('/').nth(1).unwrap_or_default().to_owned();
        for (kind, methods) in shape.methods {
            let entry = all.types.entry((owner.clone(), kind)).or_default();
            entry.0 += methods;
            entry.1.insert(file.clone());
        }
        let at = |line: usize| format!("{file}:{line}");
        all.tuples.extend(shape.tuples.into_iter().map(at));
        all.bools.extend(shape.bools.into_iter().map(at));
        for (from, to) in shape.long {
            all.long += 1;
            let inside = lines.get(from..to).unwrap_or_default();
            if !inside.iter().any(|line| line.contains("// ")) {
                all.bare.push(format!("{file}:{from}: {} lines", to - from));
            }
        }
    }
    all
}

#[test]
fn types_stay_small_and_values_have_names() {
    let shapes = shapes();
    let mut faults = Vec::new();
    let mut types: Vec<_> = shapes.types.iter().collect();
    types.sort_by_key(|(_, (methods, _))| std::cmp::Reverse(*methods));
    for ((owner, kind), (methods, files)) in types.iter().take(8) {
        println!(
            "{owner}: `{kind}` has {methods} methods in {} files",
            files.len()
        );
    }
    for ((owner, kind), (methods, _)) in types {
        let known = LARGER
            .iter()
            .find(|(of, name, _)| of == owner && name == kind);
        let most = known.map_or(METHODS, |(.., most)| *most);
        if *methods > most {
            faults.push(format!(
                "{owner}: `{kind}` has {methods} methods, at most {most}"
            ));
        }
        if known.is_some() && *methods < most {
            faults.push(format!(
                "{owner}: `{kind}` has {methods} methods: lower its bound"
            ));
        }
    }
    for (what, found, most) in [
        ("tuples as parameters", &shapes.tuples, TUPLES),
        ("`match` on a bool", &shapes.bools, BOOLS),
    ] {
        println!("{what}: {}", found.len());
        if found.len() > most {
            faults.push(format!("{what}: {}, at most {most}", found.len()));
            faults.extend(found.iter().cloned());
        }
    }
    report(&faults);
}

/// Types that see much, and the files that may name them. A part that names the whole makes a
/// circle of files, which can be read only together.
const WHOLES: &[(&str, &str, &[&str])] = &[
    (
        "crates/overlay/src",
        "Chord",
        &["lib.rs", "chord.rs", "chord/"],
    ),
    (
        "crates/node/src",
        "Runtime",
        &["member.rs", "member/runtime.rs", "daemon.rs", "daemon/"],
    ),
    (
        "crates/gateway/src",
        "FlowEngine",
        &[
            "verdict/engine.rs",
            "verdict/gateway.rs",
            "verdict/report.rs",
        ],
    ),
    ("crates/gateway/src", "RunningGateway", &["service/"]),
    ("crates/ringway/src", "run::", &["main.rs"]),
];

#[test]
fn parts_do_not_name_the_whole() {
    let mut faults = Vec::new();
    for path in product() {
        let file = name(&path);
        for (folder, whole, may) in WHOLES {
            let Some(within) = file.strip_prefix(folder) else {
                continue;
            };
            let within = within.trim_start_matches('/');
            if may.iter().any(|may| within.starts_with(may)) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for (number, line) in (1_usize..).zip(code.lines()) {
                let code = line.split("//").next().unwrap_or_default();
                if is_named(code, whole) {
                    faults.push(format!("{file}:{number}: names `{whole}`"));
                }
            }
        }
    }
    report(&faults);
}

/// A word of the code, not a part of one.
fn is_named(code: &str, word: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).unwrap_or_default().chars().next_back();
        let after = code
            .get(at + word.len()..)
            .unwrap_or_default()
            .chars()
            .next();
        !before.is_some_and(part) && (word.ends_with(':') || !after.is_some_and(part))
    })
}

/// A packet's flow is looked up once, by the tracker, and lent to all that judges it.
#[test]
fn a_flow_is_looked_up_once() {
    let folder = root().join("crates/gateway/src/verdict");
    let steps = [
        "machine.rs",
        "inspecting.rs",
        "findings.rs",
        "content/mod.rs",
        "content/sink.rs",
    ];
    for step in steps {
        let text = fs::read_to_string(folder.join(step)).unwrap();
        assert!(!text.contains("tracker."), "{step} looks flows up");
    }
    let engine = fs::read_to_string(folder.join("engine.rs")).unwrap();
    assert_eq!(engine.matches("tracker.handle_packet(").count(), 1);
}

#[test]
fn long_functions_say_why() {
    let shapes = shapes();
    let share = 100 - shapes.bare.len() * 100 / shapes.long.max(1);
    println!(
        "{share} % of {} functions of {LONG} lines and more have a comment inside",
        shapes.long
    );
    if share < COMMENTED {
        let mut faults = shapes.bare;
        faults.push(format!("{share} % have a comment, at least {COMMENTED}"));
        report(&faults);
    }
}

#[test]
fn shapes_are_counted_as_they_stand() {
    let text = "
        struct A;
        impl A {
            fn one(&self, (a, b): (u8, u8), c: (u8, u8)) -> u8 {
                match a == b { true => a, false => b }
            }
            #[cfg(test)]
            fn two((a, b): (u8, u8)) {}
        }
        impl A { fn three() {} }
        impl Clone for A { fn clone(&self) -> A { A } }
        #[cfg(test)]
        mod tests { fn four((a, b): (u8, u8)) {} }
    ";
    let mut shape = Shape::default();
    shape.visit_file(&syn::parse_file(text).unwrap());
    assert_eq!(shape.methods.get("A"), Some(&2));
    assert_eq!((shape.tuples.len(), shape.bools.len()), (1, 1));
}
