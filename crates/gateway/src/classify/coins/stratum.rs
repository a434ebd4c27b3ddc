//! Stratum: how work of mining is shared out, in lines of JSON.

use crate::classify::message::{Finding, Memory, Message, text_lines};

/// Methods of its forms for Bitcoin and Ethereum.
const METHODS: [&str; 8] = [
    "\"mining.subscribe\"",
    "\"mining.authorize\"",
    "\"mining.configure\"",
    "\"mining.notify\"",
    "\"mining.set_difficulty\"",
    "\"eth_submitLogin\"",
    "\"eth_submitHashrate\"",
    "\"eth_getWork\"",
];
/// What a login of Monero's form has.
const LOGIN: [&str; 4] = ["\"login\"", "\"params\"", "\"pass\"", "\"agent\""];

/// An object in a line, with a method of its own.
pub(super) fn line(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    if !(line.starts_with("{\"") || line.starts_with("{ "))
        || !line.ends_with('}')
        || !line.contains("\"method\"")
    {
        return None;
    }
    let method = METHODS.iter().find(|method| line.contains(**method));
    let found = method.map(|method| Finding::certain(format!("the method {method}")));
    found.or_else(|| {
        LOGIN
            .iter()
            .all(|key| line.contains(key))
            .then(|| Finding::certain("a login with a program's name"))
    })
}
