//! What was typed, as a typed record.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::units::parse_bytes;

/// File I/O straight into GPU or host memory
#[derive(Debug, Parser)]
#[command(
    name = "kvikio",
    version,
    after_help = "Exit codes: 0 all is well, 1 something failed or is wrong, 2 a wrong command line."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(Doctor),
    Demo(Demo),
    Copy(Copy),
    Info(Info),
}

/// Say what this machine offers, which route a file would take, and what to do about what is missing
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// A file to judge (or a directory: its file system). Nothing is written
    pub path: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Read a file into GPU memory (host memory where there is no GPU), check every byte, and compare speeds
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// The file to read; without it a temporary one of random bytes
    pub file: Option<PathBuf>,

    /// Size of the temporary file
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1GiB", conflicts_with = "file")]
    pub size: u64,

    /// The GPU, by its number; without it the first
    #[arg(long, value_name = "N")]
    pub device: Option<u16>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Copy a file or a remote object through the engine, reads overlapping writes
///
/// The copy appears under its name only when it is whole. A file's copy gets its permissions. What has come of a remote
/// object when the command is interrupted is kept beside DST, and the next run goes on from there.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// The file to copy, or the address of a remote object: http://, https://, s3://bucket/key
    #[arg(value_name = "SRC")]
    pub from: PathBuf,

    /// Where to: a file name, or a directory to put the copy in
    #[arg(value_name = "DST")]
    pub to: PathBuf,

    /// Wait until the copy is on the disk
    #[arg(long)]
    pub sync: bool,
}

/// Ask a server what it has at an address: type, size, version, and whether it sends parts
#[derive(Debug, clap::Args)]
pub struct Info {
    /// The address: http://, https://, s3://bucket/key
    pub url: String,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
