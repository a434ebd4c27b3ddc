//! Help, version and mistakes of a command line.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::failure::report_line;

/// Shows what clap made of the arguments: help and version on stdout, a mistake as one line on
/// stderr. `root` is the definition that was parsed.
pub fn explain(root: &clap::Command, error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone needs no help any more.
            error.print().ok();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // As above.
            write!(std::io::stderr().lock(), "{}", error.render()).ok();
            ExitCode::from(2)
        }
        _ => {
            let json = arguments.iter().any(|argument| argument == "--json");
            let message = summary(&error.render().to_string());
            let hint = format!(
                "{message} (see `{} --help`)",
                command_named(root, arguments)
            );
            report_line(&hint, true, json);
            ExitCode::from(2)
        }
    }
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
}
