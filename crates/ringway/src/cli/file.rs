//! Options of a daemon from a file: `--config FILE` of `gate up`, `node` and `ring serve`.
//!
//! The file is TOML, and its keys are the names of the command's options without their hyphens at
//! the front. What it sets becomes arguments behind those that were given, so that there is one
//! definition of every option, its default and its check. An option that was given wins.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, Parser as _};
use toml::de::{DeTable, DeValue};

use super::{Cli, GateCommand, UpArgs};
use crate::limits::CONFIG_FILE;

/// Options that stand on a command line only: which file to read is not said by the file.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// What is wrong with a file of options, in one line: where, and the mend.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileError(String);

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The arguments, with those that the file of `--config` sets and the command line does not.
///
/// # Errors
/// The file cannot be read, is no TOML, has an unknown key, or a value that its option refuses.
pub(crate) fn with_file(mut arguments: Vec<OsString>) -> Result<Vec<OsString>, FileError> {
    // Mistakes of the command line are told once all arguments are there.
    let lenient = Cli::command().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(&arguments) else {
        return Ok(arguments);
    };
    let mut command = Cli::command();
    command.build();
    let (mut command, mut matches) = (&command, &matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else {
            return Ok(arguments);
        };
        (command, matches) = (found, inner);
    }
    let has_file = command.get_name() != "check" && has(command, "config");
    let file = has_file.then(|| matches.get_one::<PathBuf>("config"));
    if let Some(path) = file.flatten() {
        arguments.extend(OptionsFile::read(path)?.arguments(command, Some(matches))?);
    }
    Ok(arguments)
}

/// What `gate up` does with this file alone, and how many options the file sets.
///
/// # Errors
/// As [`with_file`], and when an option is missing that `gate up` needs.
pub(crate) fn gate_options(path: &Path) -> Result<(Box<UpArgs>, usize), FileError> {
    let mut root = Cli::command();
    root.build();
    let mut words: Vec<OsString> = ["ringway", "gate", "up"].map(OsString::from).into();
    let found = ["gate", "up"]
        .iter()
        .try_fold(&root, |at, name| at.find_subcommand(name));
    let file = OptionsFile::read(path)?;
    if let Some(command) = found {
        words.extend(file.arguments(command, None)?);
    }
    let options = words.len().saturating_sub(3);
    let wrong = |reason: &str| FileError(format!("{}: {reason}", path.display()));
    let parsed = Cli::try_parse_from(words).map_err(|error| {
        let rendered = error.render().to_string();
        let telling = rendered.split("\n\n").next().unwrap_or_default();
        wrong(telling.trim_start_matches("error: "))
    })?;
    match parsed.command {
        super::Command::Gate(GateCommand::Up(args)) => Ok((args, options)),
        _ => Err(wrong("these are no options of `gate up`")),
    }
}

/// What this process, a `ring serve`, would be started with now.
///
/// # Errors
/// As [`with_file`].
pub(crate) fn serve_options() -> Result<super::ServeArgs, FileError> {
    let arguments = with_file(std::env::args_os().collect())?;
    let first_line = |error: clap::Error| {
        let rendered = error.render().to_string();
        FileError(rendered.lines().next().unwrap_or_default().to_owned())
    };
    match Cli::try_parse_from(arguments).map_err(first_line)?.command {
        super::Command::Ring(super::RingCommand::Serve(args)) => Ok(args),
        _ => Err(FileError("this is no `ring serve`".to_owned())),
    }
}

fn has(command: &Command, id: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == id)
}

/// A file as it was read.
struct OptionsFile<'a> {
    path: &'a Path,
    text: String,
}

impl OptionsFile<'_> {
    fn read(path: &Path) -> Result<OptionsFile<'_>, FileError> {
        let refused =
            |reason: &dyn fmt::Display| FileError(format!("{}: {reason}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| refused(&error))?;
        // A pipe would be waited for, and what is longer is no file of options.
        if !metadata.is_file() || metadata.len() > CONFIG_FILE {
            return Err(refused(&format_args!(
                "it is no regular file of at most {CONFIG_FILE} bytes"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
        Ok(OptionsFile { path, text })
    }

    /// What the file sets, as `--key=value`; nothing that `given` has from its user, and nothing
    /// that such an option excludes.
    fn arguments(
        &self,
        command: &Command,
        given: Option<&ArgMatches>,
    ) -> Result<Vec<OsString>, FileError> {
        let table = DeTable::parse(&self.text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            self.wrong(&at, error.message())
        })?;
        let mut set = Vec::new();
        // Also what does not count now is checked: it will, once the argument is left out.
        for (key, value) in table.get_ref() {
            let arg =
                option(command, key.get_ref()).map_err(|why| self.wrong(&key.span(), &why))?;
            let values = texts(arg, value.get_ref())
                .map_err(|why| self.wrong(&value.span(), &format!("`{}`: {why}", key.get_ref())))?;
            self.check(command, arg, &values, &value.span())?;
            if !overridden(command, arg, given) {
                set.extend(values);
            }
        }
        Ok(set)
    }

    /// Has the option's own definition look at each value, so that the error names the line.
    fn check(
        &self,
        command: &Command,
        arg: &Arg,
        values: &[OsString],
        at: &Range<usize>,
    ) -> Result<(), FileError> {
        if !arg.get_action().takes_values() {
            return Ok(());
        }
        // Of a command of its own, in which no other option is missing; those that it excludes have
        // to be known there.
        let others = command.get_arg_conflicts_with(arg).into_iter().cloned();
        let alone = Command::new("ringway")
            .arg(arg.clone().required(false))
            .args(others.map(|other| other.required(false)));
        let words = std::iter::once(OsString::from("ringway"));
        let checked = alone.try_get_matches_from(words.chain(values.iter().cloned()));
        checked.map(drop).map_err(|error| {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            self.wrong(at, first.trim_start_matches("error: "))
        })
    }

    fn wrong(&self, at: &Range<usize>, reason: &str) -> FileError {
        let before = self.text.bytes().take(at.start);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        FileError(format!("{}:{line}: {reason}", self.path.display()))
    }
}

/// The option of this name, if a file may set it.
fn option<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let named = |name: &str| {
        command.get_arguments().find(|arg| {
            let known = !arg.is_hide_set() && !NOT_IN_FILES.contains(&arg.get_id().as_str());
            // Of the options of every command only those with a value say how a daemon works.
            let fits = !arg.is_global_set() || arg.get_action().takes_values();
            known && fits && arg.get_long() == Some(name)
        })
    };
    named(key).ok_or_else(|| {
        let hyphens = key.replace('_', "-");
        match named(&hyphens) {
            Some(_) => format!("`{key}` is written `{hyphens}`, as the option --{hyphens}"),
            None => format!(
                "`{key}` is no option of `{}`, whose --help lists them",
                command.get_bin_name().unwrap_or(command.get_name())
            ),
        }
    })
}

/// True if the command line has said otherwise.
fn overridden(command: &Command, arg: &Arg, given: Option<&ArgMatches>) -> bool {
    let Some(given) = given else { return false };
    let by_user = |id: &str| {
        let source = given
            .try_contains_id(id)
            .is_ok()
            .then(|| given.value_source(id));
        source.flatten() == Some(ValueSource::CommandLine)
    };
    // The definition says it of one of the two only.
    let excludes = |one: &Arg, other: &Arg| {
        let excluded = command.get_arg_conflicts_with(one);
        excluded.iter().any(|arg| arg.get_id() == other.get_id())
    };
    let mut others = command
        .get_arguments()
        .filter(|other| by_user(other.get_id().as_str()));
    by_user(arg.get_id().as_str())
        || others.any(|other| excludes(arg, other) || excludes(other, arg))
}

/// The value as arguments: none for a flag that is false.
fn texts(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<OsString>, String> {
    let name = arg.get_long().unwrap_or_default();
    let takes = arg.get_action().takes_values();
    let list = matches!(arg.get_action(), ArgAction::Append);
    match value {
        DeValue::Boolean(on) if !takes => {
            Ok(on.then(|| format!("--{name}").into()).into_iter().collect())
        }
        _ if !takes => Err("true or false is needed".to_owned()),
        DeValue::Array(values) if list => {
            let items = values.iter().map(|value| scalar(name, value.get_ref()));
            items.collect()
        }
        value if list => scalar(name, value)
            .map(|argument| vec![argument])
            .map_err(|why| format!("{why}, or a list of such")),
        value => scalar(name, value).map(|argument| vec![argument]),
    }
}

fn scalar(name: &str, value: &DeValue<'_>) -> Result<OsString, String> {
    match value {
        DeValue::String(text) => Ok(format!("--{name}={text}").into()),
        DeValue::Integer(number) => Ok(format!("--{name}={number}").into()),
        DeValue::Float(number) => Ok(format!("--{name}={number}").into()),
        _ => Err("a text in quotes or a number is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command as Parsed;
    use crate::cli::gate::PresetChoice;

    /// `gate up` with a file of this text and these arguments.
    fn up(text: &str, arguments: &[&str]) -> Result<UpArgs, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.toml");
        std::fs::write(&path, text).unwrap();
        let words = ["ringway", "gate", "up", "--config", path.to_str().unwrap()];
        let words = words.iter().chain(arguments).map(OsString::from).collect();
        let words = with_file(words).map_err(|error| error.to_string())?;
        let parsed = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        match parsed.command {
            Parsed::Gate(GateCommand::Up(args)) => Ok(*args),
            _ => panic!("another command"),
        }
    }

    const BORDER: &str =
        "policy = \"office.toml\"\ninside = [\"lan0\", \"lan1\"]\noutside = \"wan0\"\n";

    #[test]
    fn file_sets_what_arguments_do_not() {
        let args = up(
            &format!(
                "{BORDER}enforce = true\nqueues = 4\nkeep-audit = \"7d\"\nmask = 0x00ff0000\n"
            ),
            &[],
        )
        .unwrap();
        assert_eq!(args.mask, 0x00ff_0000);
        assert_eq!(args.inside, ["lan0", "lan1"]);
        assert_eq!(args.outside, ["wan0"]);
        assert_eq!((args.queues, args.enforce, args.leave), (4, true, false));
        assert_eq!(args.keep_audit.as_secs(), 7 * 86_400);
        let args = up(BORDER, &["--inside", "br0", "--policy=home.toml"]).unwrap();
        assert_eq!(
            (args.inside, args.policy),
            (vec!["br0".to_owned()], Some("home.toml".into()))
        );
        // One of the program's own takes the place of the file's.
        let args = up(BORDER, &["--preset", "vpn"]).unwrap();
        assert_eq!((args.policy, args.preset), (None, Some(PresetChoice::Vpn)));
        let args = up("preset = \"home\"\ninside = \"lan0\"\n", &[]).unwrap();
        assert_eq!(
            (args.preset, args.outside.len()),
            (Some(PresetChoice::Home), 0)
        );
        // Without a value to be given, the other option is.
        let args = up(&format!("{BORDER}enforce = true\n"), &["--observe"]).unwrap();
        assert!(!args.enforce);
    }

    #[test]
    fn options_of_both_sources_are_checked_together() {
        let metrics = format!("{BORDER}metrics = \"192.0.2.1:9710\"\n");
        assert!(up(&metrics, &["--metrics-public"]).unwrap().metrics_public);
        let missing = up("inside = \"lan0\"\n", &["--outside", "wan0"]).unwrap_err();
        assert!(missing.contains("--policy <FILE>"), "{missing}");
    }

    #[test]
    fn wrong_files_are_refused_with_line_and_key() {
        for (text, line, word) in [
            (
                "polcy = \"x\"",
                1,
                "`polcy` is no option of `ringway gate up`",
            ),
            ("\nkeep_audit = \"7d\"", 2, "is written `keep-audit`"),
            ("\n\nqueues = 0", 3, "1..=64"),
            ("queues = [1]", 1, "`queues`: a text in quotes or a number"),
            ("enforce = \"yes\"", 1, "`enforce`: true or false"),
            ("inside = { a = 1 }", 1, "or a list of such"),
            ("inside = \"lan0\"\nkeep-audit = \"soon\"", 2, "soon"),
            ("mask = 0o17", 1, "0o17"),
            ("\npreset = \"castle\"", 2, "castle"),
            ("config = \"x\"", 1, "no option"),
            ("exit-with-stdin = true", 1, "no option"),
            ("[gate]\ninside = \"lan0\"", 1, "`gate` is no option"),
            ("inside = ", 1, "gate.toml:1"),
            ("quiet = true", 1, "no option"),
        ] {
            let refused = up(text, &["--outside", "wan0"]).unwrap_err();
            let place = format!("gate.toml:{line}: ");
            assert!(
                refused.contains(&place) && refused.contains(word),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn other_commands_read_no_file() {
        let words: Vec<OsString> = ["ringway", "gate", "check", "--config", "/absent"]
            .map(Into::into)
            .into();
        assert_eq!(with_file(words.clone()), Ok(words));
        let words: Vec<OsString> = ["ringway", "node", "--config", "/absent"]
            .map(Into::into)
            .into();
        assert!(
            with_file(words)
                .unwrap_err()
                .to_string()
                .starts_with("/absent: ")
        );
    }
}
