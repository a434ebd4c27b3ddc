//! `ringway ring backup`, `restore` and `promote`.

use std::path::PathBuf;

use clap::Args;
use ringway_node::authority::BackupKey;
use ringway_node::endpoint::Endpoint;

use super::ring::AuthorityFolder;

/// `ringway ring backup`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring backup ring.backup
  ringway ring backup --to age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p ring.backup
  ringway ring backup --passphrase-file /root/backup.passphrase /srv/backup/ring-$(date +%F).backup

The file has the ring's key, and all that the authority knows at this moment; `ringway ring serve`
may run meanwhile. Without --to and --passphrase-file a passphrase is asked for at the terminal. The
file is one of age (https://age-encryption.org): `age --decrypt` opens it, too. Keys of DNS servers
(`ring publish --tsig-key`) are in files of their own, and not in it.")]
pub(crate) struct BackupArgs {
    /// The file to make, which must not be there yet; `-` is stdout
    pub(crate) file: PathBuf,
    /// Encrypt to this key of age (`age-keygen`) and to no passphrase; may be given more than once
    #[arg(long, value_name = "KEY", conflicts_with = "passphrase_file")]
    pub(crate) to: Vec<BackupKey>,
    /// File with the passphrase in its first line, which only you can read
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring restore`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring restore --check ring.backup
  ringway ring restore ring.backup
  ringway ring restore --identity backup.key --standby --dns 192.0.2.2:53 --enrol 192.0.2.2:7410 ring.backup

What is restored is a standby: `ringway ring serve` answers DNS, and takes in what members bring
that it does not know. It signs nothing before `ringway ring promote`. The folder must be empty, or
with --standby hold an earlier backup of the same ring, whose place this one then takes.")]
pub(crate) struct RestoreArgs {
    /// The backup; `-` is stdin
    pub(crate) file: PathBuf,
    /// Only open the backup, look through it, and tell what it has
    #[arg(long, conflicts_with_all = ["standby", "dns", "enrol"])]
    pub(crate) check: bool,
    /// Take the place of an earlier backup in the folder
    #[arg(long)]
    pub(crate) standby: bool,
    /// File with the secret key of age that the backup was made to
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub(crate) identity: Option<PathBuf>,
    /// File with the passphrase in its first line, which only you can read
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Where members ask this machine's DNS server once it is promoted [default: as before]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) dns: Option<Endpoint>,
    /// Where members enrol at this machine once it is promoted [default: as before]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) enrol: Option<Endpoint>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring promote`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring promote

For a folder that was restored from a backup. It takes over what members have brought since
`ringway ring serve` runs there, and begins a new term: members take no later statement of the
authority before, which signs nothing more as soon as it is told. Do it when that one is lost, or
is to be replaced, and let `ringway ring serve` run for some minutes first.")]
pub(crate) struct PromoteArgs {
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}
