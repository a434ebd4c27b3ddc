//! Help, version and mistakes of a command line.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::report_line;

/// Shows what clap made of the arguments: help and version on stdout, a mistake as one line on
/// stderr. `root` is the definition that was parsed. `meant` are words that people try, with the
/// command that does what they mean; a command's own name, wherever it stands, need not be there.
pub fn explain(
    root: &clap::Command,
    error: &clap::Error,
    arguments: &[OsString],
    meant: &[(&str, &str)],
) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone needs no help any more.
            error.print().ok();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if is_json(arguments) => {
            let named = command_named(root, arguments);
            let message = format!("a command is missing: `{named} --help` lists them");
            report_line(&message, true, true);
            ExitCode::from(2)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // As above.
            write!(std::io::stderr().lock(), "{}", error.render()).ok();
            ExitCode::from(2)
        }
        _ => {
            let hint = command_meant(root, error, meant).unwrap_or_else(|| {
                let message = summary(&error.render().to_string());
                format!(
                    "{message} (see `{} --help`)",
                    command_named(root, arguments)
                )
            });
            report_line(&hint, true, is_json(arguments));
            ExitCode::from(2)
        }
    }
}

/// Whether errors are objects. What was parsed does not tell: it failed.
fn is_json(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--json")
}

/// The paragraphs of a clap error that say what is wrong, without usage and hints at `--help`.
fn summary(rendered: &str) -> String {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let telling = text
        .split("\n\n")
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    telling
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// What to type in place of a command that is not there: one of that name in another place, or one
/// that does what the word means.
fn command_meant(
    root: &clap::Command,
    error: &clap::Error,
    meant: &[(&str, &str)],
) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let elsewhere = root.get_subcommands().find_map(|group| {
        let command = group.find_subcommand(word)?;
        (!command.is_hide_set()).then(|| format!("{} {}", group.get_name(), command.get_name()))
    });
    let by_meaning = || {
        let pair = meant.iter().find(|(tried, _)| tried == word)?;
        Some(pair.1.to_owned())
    };
    let command = elsewhere.or_else(by_meaning)?;
    let name = root.get_name();
    Some(format!(
        "there is no command `{word}`: `{name} {command}` is (see `{name} {command} --help`)"
    ))
}

/// `help COMMAND` in place of `COMMAND --help`, also within a group of commands. Anything else
/// stays as it is.
#[must_use]
pub fn with_help(root: &clap::Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut at = root;
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        let Some(next) = argument.to_str().and_then(|word| at.find_subcommand(word)) else {
            if argument == "help" && at.has_subcommands() {
                arguments.remove(index);
                arguments.push("--help".into());
            }
            break;
        };
        at = next;
    }
    arguments
}

/// The command that the arguments lead to, such as `ringway ring init`.
fn command_named(root: &clap::Command, arguments: &[OsString]) -> String {
    let (mut at, mut name) = (root, root.get_name().to_owned());
    for argument in arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
    {
        if let Some(next) = at.find_subcommand(argument) {
            name = format!("{name} {}", next.get_name());
            at = next;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, value_parser};

    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn root() -> Command {
        let priority = Arg::new("priority")
            .long("priority")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(u32).range(0..=1000));
        let send = Command::new("send").arg(priority);
        let ring = Command::new("ring").subcommand(Command::new("init"));
        Command::new("ringway").subcommands([send, ring])
    }

    #[test]
    fn a_mistake_becomes_one_line_without_usage() {
        let error = root()
            .try_get_matches_from(words("ringway send --priority -1"))
            .unwrap_err();
        let summary = summary(&error.render().to_string());
        assert!(
            summary.contains("-1") && summary.contains("not in 0"),
            "{summary}"
        );
        assert!(
            !summary.contains("Usage") && !summary.contains("For more"),
            "{summary}"
        );
    }

    #[test]
    fn the_hint_names_the_command_with_the_mistake() {
        let named = |text| command_named(&root(), &words(text));
        assert_eq!(named("ringway --json ring init"), "ringway ring init");
        assert_eq!(named("ringway nonsense"), "ringway");
    }

    #[test]
    fn unknown_commands_lead_to_what_is_meant() {
        let meant = [("found", "ring init")];
        let hint = |text: &str| {
            let error = root().try_get_matches_from(words(text)).unwrap_err();
            command_meant(&root(), &error, &meant)
        };
        for tried in ["init", "found"] {
            let expected = format!(
                "there is no command `{tried}`: `ringway ring init` is (see `ringway ring init --help`)"
            );
            assert_eq!(hint(&format!("ringway {tried} x")), Some(expected));
        }
        assert_eq!(hint("ringway nonsense"), None);
        assert_eq!(hint("ringway send --priority x"), None);
    }

    #[test]
    fn help_is_an_option_of_what_follows() {
        let helped = |text: &str| with_help(&root(), words(text)).join(" ".as_ref());
        assert_eq!(helped("ringway help"), "ringway --help");
        assert_eq!(helped("ringway help ring init"), "ringway ring init --help");
        assert_eq!(helped("ringway ring help init"), "ringway ring init --help");
        // A member or a file may be called so.
        assert_eq!(helped("ringway send help"), "ringway send help");
    }
}
