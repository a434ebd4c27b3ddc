//! What the messages of each built-in signature have, for the kernel: printed, and as the
//! documentation lists it.

use toml::{Table, Value};

use super::judged::FILES;

fn texts(entry: &Table, key: &str) -> Vec<String> {
    let list = entry.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(|text| text.replace('\n', "\\n")).collect()
}

fn patterns(entry: &Table) -> Vec<String> {
    let list = entry.get("pattern").and_then(Value::as_array);
    let patterns = list.into_iter().flatten().filter_map(Value::as_table);
    patterns
        .map(|pattern| {
            let text = pattern.get("text").and_then(Value::as_str);
            let hex = pattern.get("hex").and_then(Value::as_str);
            text.map_or_else(|| hex.unwrap().to_owned(), |text| format!("'{text}'"))
        })
        .collect()
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("`{text}`")).collect();
    quoted.join(" or ")
}

/// A row for each signature that has more to say than its patterns.
fn rows() -> Vec<String> {
    let mut rows = Vec::new();
    for file in FILES {
        let file: Table = file.parse().unwrap();
        for entry in file["signature"].as_array().unwrap() {
            let entry = entry.as_table().unwrap();
            let name = entry["name"].as_str().unwrap();
            let (opening, needs) = (texts(entry, "opening"), texts(entry, "needs"));
            let (patterns, naming) = (patterns(entry), texts(entry, "naming"));
            let by_name = entry.contains_key("hosts") || entry.contains_key("alpn");
            let ports = entry.get("only_ports").and_then(Value::as_array);
            let mut has = if let Some(ports) = ports {
                format!("everything on port {}", ports[0])
            } else if !opening.is_empty() {
                quoted(&opening)
            } else if patterns.is_empty() && !by_name {
                "anything: always asked about".to_owned()
            } else {
                quoted(&patterns)
            };
            if !needs.is_empty() {
                has = format!("{has}; in the head {}", quoted(&needs));
            }
            if !naming.is_empty() {
                has = format!("{has}; telling names: {}", quoted(&naming));
            }
            let after = texts(entry, "name_after");
            if !after.is_empty() {
                has = format!("{has}; telling names behind {}", quoted(&after));
            }
            let told = !opening.is_empty() || !needs.is_empty() || !naming.is_empty();
            if ports.is_some() || told || !after.is_empty() || has.starts_with("anything") {
                rows.push(format!("| `{name}` | {has} |"));
            }
        }
    }
    rows
}

#[test]
fn the_documentation_lists_what_each_signature_makes_necessary() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/classification.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let missing: Vec<String> = rows()
        .into_iter()
        .filter(|row| !page.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "rows to be put in:\n{}",
        missing.join("\n")
    );
}
