//! Completions, man pages and the Markdown reference, all from the one clap definition.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::env::Shells;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::context::Context;
use ringway_terminal::Failure;

/// Prints a shell's completion script. It asks the program, which knows the members.
pub(crate) fn completions(context: &Context, args: &CompletionsArgs) -> Result<(), Failure> {
    let (mut script, name) = (Vec::new(), "ringway");
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell);
    let completer = completer
        .ok_or_else(|| Failure::usage(format_args!("there are no completions for {shell}")))?;
    completer.write_registration("COMPLETE", name, name, name, &mut script)?;
    print(context, &script)
}

/// Prints or writes the manual.
pub(crate) fn man(context: &Context, args: &ManArgs) -> Result<(), Failure> {
    if args.markdown {
        return context.output.line(markdown().trim_end());
    }
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print(context, &page);
    };
    write_pages(dir).map_err(|error| {
        Failure::failed(format_args!(
            "writing the man pages into `{}` failed: {error}",
            dir.display()
        ))
    })?;
    context
        .output
        .note(&format!("man pages written to {}", dir.display()));
    Ok(())
}

fn write_pages(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}

fn print(context: &Context, text: &[u8]) -> Result<(), Failure> {
    context
        .output
        .line(String::from_utf8_lossy(text).trim_end())
}

/// The reference page of all commands.
fn markdown() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = String::from(
        "# Command line\n\nMade from the program's own definition by `ringway man --markdown`.\n",
    );
    section(&root, &mut page);
    page
}

fn section(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let about = wrapped(&format!("{}.", about.trim_end_matches('.')));
    // Writing to a String cannot fail.
    write!(page, "\n## `{name}`\n\n{about}\n").ok();
    let usage = command.clone().render_usage().to_string();
    write!(
        page,
        "\n```text\n{}\n```\n",
        usage.trim_start_matches("Usage: ")
    )
    .ok();
    let top = !name.contains(' ');
    let own = |argument: &&Arg| !argument.is_hide_set() && (top || !argument.is_global_set());
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(own)
        .filter(|a| a.get_id() != "help")
        .collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
        arguments.iter().for_each(|argument| row(argument, page));
    }
    if let Some(examples) = command.get_after_help() {
        write!(page, "\n```text\n{examples}\n```\n").ok();
    }
    command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
        .for_each(|c| section(c, page));
}

/// Prose in lines of at most 100 columns, as all pages have.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= 100
        });
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn row(argument: &Arg, page: &mut String) {
    let values: Vec<&str> = argument
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| name.as_str())
        .collect();
    let takes = argument.get_action().takes_values();
    let value = if takes {
        values.join(" ")
    } else {
        String::new()
    };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let name = format!("{} {value}", flags.join(", ")).trim().to_owned();
    let help = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let named: Vec<String> = argument
        .get_possible_values()
        .iter()
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    let choice = if named.is_empty() || !takes {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    };
    let defaults = argument
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let default = if defaults.is_empty() || !takes {
        String::new()
    } else {
        format!(" (default `{}`)", defaults.join(" "))
    };
    // A bar would end the table's cell.
    writeln!(
        page,
        "| `{name}` | {}{choice}{default} |",
        help.replace('|', "\\|")
    )
    .ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_visible_command() {
        let page = markdown();
        for command in [
            "ringway ring init",
            "ringway send",
            "ringway gate classify",
            "ringway completions",
        ] {
            assert!(page.contains(&format!("## `{command}`")), "{command}");
        }
        assert!(!page.contains("exit-with-stdin") && !page.contains("--markdown` |"));
    }
}
