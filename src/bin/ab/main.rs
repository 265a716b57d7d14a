//! `ab`: what arraybridge does, on .npy files from the command line.

mod args;
mod file;
mod job;
mod npy;
mod show;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use arraybridge::Context;
use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use file::{Draft, Input};
use job::Job;

/// Why the tool stops.
enum Failure {
    /// What its one line on stderr says.
    Said(String),
    /// Nobody reads stdout any more: nothing to say.
    Unread,
}

impl Failure {
    /// What went wrong with a file.
    fn at(path: &Path, problem: impl Display) -> Failure {
        Failure::Said(format!("{}: {problem}", path.display()))
    }
}

impl From<arraybridge::Error> for Failure {
    fn from(error: arraybridge::Error) -> Failure {
        Failure::Said(error.to_string())
    }
}

fn main() -> ExitCode {
    let result = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) => return usage(&error),
    };
    match result {
        Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Said(message)) => refuse(&message),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let context = Context::global();
    match command {
        Command::Convert { input, output, request, json } => {
            let (input, map) = Input::open(&input, request.source_dtype)?;
            let job = Job::new(context, &input, map, &request)?;
            let (result, notes) = (job.result.clone(), job.notes.clone());
            let header = result.header();
            let mut draft = Draft::create(&output)?;
            let mut memory = draft.map(&header, result.num_bytes())?;
            let done = job.run(context, &mut memory[header.len()..])?;
            let file_bytes = memory.len() as u64;
            drop(memory);
            draft.publish()?;
            let output = show::Output { path: &output, array: &result, file_bytes };
            print(show::converted(&input, &request, &done, &output, &notes, json))
        }
        Command::Plan { input, request, json } => {
            let (input, map) = Input::open(&input, request.source_dtype)?;
            let job = Job::new(context, &input, map, &request)?;
            print(show::planned(&input, &request, &job, json))
        }
        Command::Detect { input, source_dtype, json } => {
            let (input, map) = Input::open(&input, source_dtype)?;
            print(show::detected(&input, map, json)?)
        }
        Command::Info { json } => print(show::info(context, json)),
    }
}

/// Writes to stdout, which somebody may have closed.
fn print(text: String) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Unread),
        Err(error) => Err(Failure::Said(format!("stdout: {error}"))),
    }
}

/// One line on stderr, whatever file names are made of.
fn refuse(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "ab: {}", show::one_line(message));
    ExitCode::from(2)
}

/// Help where it was asked for; else clap's complaint in one line.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            let paragraphs =
                text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
            let ours =
                paragraphs.take_while(|text| !text.starts_with("Usage:") && !text.starts_with("For more"));
            let message = ours.collect::<Vec<_>>().join("; ");
            let message = message.strip_prefix("error: ").unwrap_or(&message);
            refuse(&format!("{message}; see 'ab --help'"))
        }
    }
}
