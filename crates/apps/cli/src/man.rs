//! Renders the manual page.

use crate::args::Cli;
use clap::CommandFactory;
use std::io::{self, Write as _};

/// Renders the manual page. There are no other pages, so the command list refers to `--help` for details.
pub(crate) fn render() -> io::Result<Vec<u8>> {
    let command = Cli::command();
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    writeln!(
        text,
        ".SH COMMANDS\n\\fBposeidon\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR prints the options of a command."
    )?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(text, ".TP\n\\fBposeidon {}\\fR\n{}", escape_roff(command.get_name()), escape_roff(&about))?;
    }
    page.render_extra_section(&mut text)?;
    page.render_version_section(&mut text)?;
    Ok(text)
}

/// Escapes hyphens, backslashes, and a leading control character.
fn escape_roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
