//! The part of JSON Schema that Suricata's schema of events is written in. A word that is not known
//! here fails, so that nothing goes unchecked.

use serde_json::Value;

/// Words that say something to people.
const ANNOTATIONS: [&str; 8] = [
    "description",
    "desription",
    "title",
    "suricata",
    "$comment",
    "$defs",
    "minProperties",
    "optional",
];

/// The one pattern that is asked for here: Suricata's times.
const TIME: &str = "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d+[+\\-]\\d+$";

/// All that is wrong with a value by a schema, each with where it is.
pub(super) fn faults(root: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(root, root, value, "", &mut faults);
    faults
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(words) = schema.as_object() else {
        return;
    };
    let mut wrong = |what: String| faults.push(format!("{at}: {what}"));
    for (word, says) in words {
        match word.as_str() {
            "type" if !has_type(says, value) => wrong(format!("{value} is no {says}")),
            "const" if says != value => wrong(format!("{value} is not {says}")),
            "enum" if !says.as_array().unwrap().contains(value) => {
                wrong(format!("{value} is none of {says}"));
            }
            "pattern" => {
                assert_eq!(says, TIME, "another pattern than is known here");
                if !value.as_str().is_some_and(is_time) {
                    wrong(format!("{value} is no time"));
                }
            }
            "required" => {
                for key in says.as_array().unwrap() {
                    if value.get(key.as_str().unwrap()).is_none() {
                        wrong(format!("{key} is missing"));
                    }
                }
            }
            "minItems" => {
                let few = |items: &Vec<Value>| (items.len() as u64) < says.as_u64().unwrap();
                if value.as_array().is_some_and(few) {
                    wrong(format!("fewer items than {says}"));
                }
            }
            "minimum" if value.as_f64() < says.as_f64() => wrong(format!("{value} < {says}")),
            "type"
            | "const"
            | "enum"
            | "minimum"
            | "properties"
            | "additionalProperties"
            | "items"
            | "oneOf"
            | "$ref" => {}
            other => assert!(
                ANNOTATIONS.contains(&other),
                "{at}: {other} is not known here"
            ),
        }
    }
    within(root, schema, value, at, faults);
}

/// What a value contains, and what it refers to.
fn within(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.strip_prefix('#').unwrap()).unwrap();
        check(root, target, value, at, faults);
    }
    if let Some(ways) = schema["oneOf"].as_array() {
        let fits = |way: &&Value| {
            let mut faults = Vec::new();
            check(root, way, value, at, &mut faults);
            faults.is_empty()
        };
        if ways.iter().filter(fits).count() != 1 {
            faults.push(format!("{at}: {value} fits not exactly one"));
        }
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        check(
            root,
            &schema["items"],
            item,
            &format!("{at}[{number}]"),
            faults,
        );
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => faults.push(format!("{at}: no such key")),
            (Value::Null, other) => check(root, other, item, &at, faults),
            (known, _) => check(root, known, item, &at, faults),
        }
    }
}

fn has_type(says: &Value, value: &Value) -> bool {
    match says.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the type {other} is not known here"),
    }
}

fn is_time(text: &str) -> bool {
    let form: String = text
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    form == "0000-00-00T00:00:00.000000+0000"
}
