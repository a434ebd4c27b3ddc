//! Conditions in CEL, for what the typed ones cannot say.

use std::sync::Arc;

use cel::{Context, Program, Value};

use super::facts::{File, FlowFacts, Item};

/// Variables that say something of the flow before the classifier has finished.
const EARLY: [&str; 5] = ["l4", "client_ip", "client_port", "server_ip", "server_port"];
/// Variables that need the classifier's answer.
const FOUND: [&str; 5] = ["app", "confidence", "host", "member", "infohash"];
/// Variables that say something of a file or message.
const CONTENT: [&str; 5] = [
    "file_name",
    "file_type",
    "file_size",
    "file_part",
    "message",
];

/// A compiled expression that gives a boolean.
#[derive(Clone)]
pub(super) struct Expression {
    text: String,
    program: Arc<Program>,
    needs_found: bool,
    needs_content: bool,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl Expression {
    /// Compiles an expression, and tries it on an example to see that it gives true or false.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let program = Program::compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let detail = first.map_or_else(String::new, |error| format!(": {}", error.msg));
            format!("`{text}` is no CEL expression{detail}")
        })?;
        let (needs_found, needs_content) = {
            let references = program.references();
            let known = || EARLY.iter().chain(&FOUND).chain(&CONTENT);
            // Otherwise a misspelt name would fail only once a flow meets the rule.
            for variable in references.variables() {
                if !known().any(|name| *name == variable) {
                    let names: Vec<&str> = known().copied().collect();
                    return Err(format!(
                        "`{variable}` is no variable; there are {}",
                        names.join(", ")
                    ));
                }
            }
            (
                FOUND.iter().any(|name| references.has_variable(name)),
                CONTENT.iter().any(|name| references.has_variable(name)),
            )
        };
        let expression = Self {
            text: text.to_owned(),
            program: Arc::new(program),
            needs_found,
            needs_content,
        };
        match expression.value(&FlowFacts::example(), Some(&Item::File(File::default()))) {
            Ok(Value::Bool(_)) => Ok(expression),
            Ok(other) => Err(format!(
                "`{text}` gives {:?} and must give true or false",
                other.type_of()
            )),
            Err(error) => Err(format!("`{text}` cannot be computed: {error}")),
        }
    }

    pub(super) fn needs_found(&self) -> bool {
        self.needs_found
    }

    pub(super) fn needs_content(&self) -> bool {
        self.needs_content
    }

    /// Whether it gives true; what cannot be computed for these facts is no match.
    pub(super) fn holds(&self, flow: &FlowFacts<'_>, item: Option<&Item<'_>>) -> bool {
        matches!(self.value(flow, item), Ok(Value::Bool(true)))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    fn value(
        &self,
        flow: &FlowFacts<'_>,
        item: Option<&Item<'_>>,
    ) -> Result<Value, cel::ExecutionError> {
        let mut context = Context::default();
        let (file, message) = match item {
            Some(Item::File(file)) => (*file, ""),
            Some(Item::Message(text)) => (File::default(), *text),
            None => (File::default(), ""),
        };
        let found = flow.found;
        let texts = [
            ("l4", flow.l4.name().to_owned()),
            ("client_ip", flow.client.ip().to_canonical().to_string()),
            ("server_ip", flow.server.ip().to_canonical().to_string()),
            (
                "app",
                found.map_or("", |found| found.application).to_owned(),
            ),
            (
                "confidence",
                found.map_or("", |found| found.confidence.name()).to_owned(),
            ),
            (
                "host",
                found.and_then(|found| found.host).unwrap_or("").to_owned(),
            ),
            (
                "member",
                found
                    .and_then(|found| found.member)
                    .unwrap_or("")
                    .to_owned(),
            ),
            (
                "infohash",
                found
                    .and_then(|found| found.infohash)
                    .map_or_else(String::new, |hash| hash.to_string()),
            ),
            ("file_name", file.name.unwrap_or("").to_owned()),
            ("file_type", file.kind.unwrap_or("").to_owned()),
            ("message", message.to_owned()),
        ];
        for (name, text) in texts {
            context.add_variable_from_value(name, Value::String(Arc::new(text)));
        }
        context.add_variable_from_value("file_part", Value::Bool(file.part));
        let numbers = [
            ("client_port", i64::from(flow.client.port())),
            ("server_port", i64::from(flow.server.port())),
            // Unknown sizes are -1: no comparison with a bound from below holds by accident.
            (
                "file_size",
                file.size
                    .map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX)),
            ),
        ];
        for (name, number) in numbers {
            context.add_variable_from_value(name, Value::Int(number));
        }
        self.program.execute(&context)
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{File, FlowFacts, Item};
    use super::Expression;

    #[test]
    fn expressions_see_flows_and_items() {
        let flow = FlowFacts::example();
        let ports = Expression::parse("server_port in [80, 8080] || client_ip.startsWith('10.')");
        assert!(ports.unwrap().holds(&flow, None));
        let file = Expression::parse("file_name.endsWith('.iso') && file_size > 1000").unwrap();
        assert!(file.needs_content() && !file.needs_found());
        let item = |size| {
            Item::File(File {
                name: Some("a.iso"),
                size,
                ..File::default()
            })
        };
        assert!(file.holds(&flow, Some(&item(Some(2_000)))));
        assert!(!file.holds(&flow, Some(&item(None))));
    }

    #[test]
    fn expressions_without_boolean_or_variable_are_refused() {
        for (text, reason) in [
            ("1 +", "no CEL expression"),
            ("server_port + 1", "true or false"),
            ("colour == 'red'", "no variable"),
            ("app > 3", "cannot be computed"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
