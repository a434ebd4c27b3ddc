//! `[[receive]]`: which files are taken from whom, and what happens to them; and `[receive]`, the
//! one rule of earlier releases.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Deserializer};

use super::bytes;
use super::check::check_program;
use super::document::Wrong;
use crate::certificate::Name;
use crate::limits::LARGEST_FILE;

/// What is done with files that other members offer. The first rule that fits an offer counts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct ReceiveConfig {
    /// Folder for received files where a rule names no other; a relative one stands in the home
    /// folder.
    pub directory: PathBuf,
    /// In their order. What fits none of them is refused.
    pub rules: Vec<ReceiveRule>,
    /// Whether they stand in the file one by one, as `[[receive]]`: then they have numbers.
    pub numbered: bool,
}

/// One `[[receive]]`: what it fits, and what happens then.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiveRule {
    /// Names of members.
    pub from: Globs,
    /// Names of files.
    pub name: Globs,
    /// What is offered; empty is anything.
    #[serde(rename = "type")]
    pub types: Vec<OfferedType>,
    /// Most bytes of a file, or of all files of a folder.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub max: u64,
    /// Where it goes; a relative folder stands in the home folder.
    pub into: PathBuf,
    /// Whether it waits until a person has accepted it.
    pub ask: bool,
    /// Whether it is refused.
    pub refuse: bool,
    /// A program and its arguments, run once it is there.
    pub run: Vec<String>,
    /// Whether the desktop shows a notification, where there is one.
    pub notify: bool,
}

impl Default for ReceiveRule {
    fn default() -> ReceiveRule {
        ReceiveRule {
            from: Globs::any(),
            name: Globs::any(),
            types: Vec::new(),
            max: LARGEST_FILE,
            into: inbox(),
            ask: false,
            refuse: false,
            run: Vec::new(),
            notify: true,
        }
    }
}

impl ReceiveRule {
    fn takes_everything(&self) -> bool {
        self.from.is_any() && self.name.is_any() && self.types.is_empty()
    }
}

impl Default for ReceiveConfig {
    fn default() -> ReceiveConfig {
        Table::default().into()
    }
}

fn inbox() -> PathBuf {
    PathBuf::from("inbox")
}

/// As it stands in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Rules(Vec<ReceiveRule>),
    Table(Table),
}

/// `[receive]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    directory: PathBuf,
    accept: Vec<String>,
    #[serde(deserialize_with = "bytes::deserialize")]
    max_bytes: u64,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            directory: inbox(),
            accept: vec!["*".to_owned()],
            max_bytes: LARGEST_FILE,
        }
    }
}

impl From<Table> for ReceiveConfig {
    fn from(table: Table) -> ReceiveConfig {
        let rule = ReceiveRule {
            // Names and `*` only, which are globs as they stand.
            from: Globs::new(table.accept).unwrap_or_else(|_| Globs::none()),
            max: table.max_bytes,
            into: table.directory.clone(),
            ..ReceiveRule::default()
        };
        ReceiveConfig {
            directory: table.directory,
            rules: vec![rule],
            numbered: false,
        }
    }
}

impl From<Written> for ReceiveConfig {
    fn from(written: Written) -> ReceiveConfig {
        match written {
            Written::Table(table) => table.into(),
            Written::Rules(rules) => ReceiveConfig {
                directory: inbox(),
                rules,
                numbered: true,
            },
        }
    }
}

impl ReceiveConfig {
    /// The folders that files go to, each with the key that names it.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (String, &Path)> {
        let rules = self.rules.iter().enumerate();
        let taking = rules.filter(|(_, rule)| !rule.refuse);
        taking.map(|(index, rule)| (self.key(index, "into"), rule.into.as_path()))
    }

    /// What a key of the rule at `index` is called in the file.
    fn key(&self, index: usize, key: &str) -> String {
        match key {
            _ if self.numbered => format!("receive.{index}.{key}"),
            "into" => "receive.directory".to_owned(),
            "from" => "receive.accept".to_owned(),
            key => format!("receive.{key}"),
        }
    }

    /// How a folder could be named in the file.
    pub(crate) fn example(&self) -> &'static str {
        if self.numbered {
            "into = \"inbox\""
        } else {
            "directory = \"inbox\""
        }
    }

    /// Refuses rules that cannot be meant.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        for (index, rule) in self.rules.iter().enumerate() {
            let wrong = |key: &str, reason: &str| Err(Wrong::new(self.key(index, key), reason));
            let folder = rule.into.to_str();
            if folder.is_some_and(|text| text.trim().is_empty()) {
                return wrong(
                    "into",
                    &format!("name a folder, such as `{}`", self.example()),
                );
            }
            if rule.into.starts_with("~") {
                let reason = "`~` is not known here: write the whole path, such as `into = \"/home/oslo/Downloads\"`";
                return wrong("into", reason);
            }
            if let Some(name) = rule.from.wrong_name() {
                return wrong(
                    "from",
                    &format!("{name}; or a pattern, such as `from = [\"lab-*\"]`"),
                );
            }
            if rule.refuse && (rule.ask || !rule.run.is_empty()) {
                let reason = "what is refused does not come: remove `refuse = true`, or `ask` and `run` beside it";
                return wrong("refuse", reason);
            }
            if let Some(program) = rule.run.first() {
                let example = "such as `run = [\"/usr/local/bin/sort-scans\"]`";
                if let Err(reason) = check_program(Path::new(program), example) {
                    return wrong("run", &reason);
                }
            }
        }
        self.check_order()
    }

    /// Refuses a rule that none asks, because one before it takes everything.
    fn check_order(&self) -> Result<(), Wrong> {
        let of_all = self.rules.iter().position(ReceiveRule::takes_everything);
        match of_all {
            Some(first) if first + 1 < self.rules.len() => {
                let reason = format!(
                    "this rule is never asked, because rule {} before it fits everything from everybody: let that be the last",
                    first + 1
                );
                Err(Wrong::new(format!("receive.{}", first + 1), reason))
            }
            _ => Ok(()),
        }
    }
}

/// Patterns of names: `*` is any number of characters, `?` one, `[a-z]` one of these, `{a,b}` a
/// choice. Upper and lower case are the same.
#[derive(Clone, Debug)]
pub struct Globs {
    texts: Vec<String>,
    set: GlobSet,
}

impl Globs {
    pub(super) fn new(texts: Vec<String>) -> Result<Globs, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for text in &texts {
            set.add(GlobBuilder::new(text).case_insensitive(true).build()?);
        }
        let set = set.build()?;
        Ok(Globs { texts, set })
    }

    fn any() -> Globs {
        Globs::new(vec!["*".to_owned()]).unwrap_or_else(|_| Globs::none())
    }

    fn is_any(&self) -> bool {
        self.texts.iter().any(|text| text == "*")
    }

    fn none() -> Globs {
        Globs {
            texts: Vec::new(),
            set: GlobSet::empty(),
        }
    }

    /// Why one that has nothing of a pattern in it is no member's name either.
    fn wrong_name(&self) -> Option<String> {
        let plain = self
            .texts
            .iter()
            .filter(|text| !text.contains(['*', '?', '[', '{']));
        let mut wrong = plain.filter_map(|text| text.parse::<Name>().err());
        wrong.next().map(|error| error.to_string())
    }

    /// Whether one of them fits.
    #[must_use]
    pub fn fit(&self, name: &str) -> bool {
        self.set.is_match(name)
    }
}

impl PartialEq for Globs {
    fn eq(&self, other: &Globs) -> bool {
        self.texts == other.texts
    }
}

impl<'de> Deserialize<'de> for Globs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Globs, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        Globs::new(texts).map_err(serde::de::Error::custom)
    }
}

/// What is offered. The content of a file is not known before it is there: by its name's extension
/// it is an image, or whatever else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfferedType {
    /// Any file.
    File,
    /// A folder.
    Folder,
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Film.
    Video,
    /// Text, tables, slides.
    Document,
    /// Files in a file.
    Archive,
    /// What a double click, or a shell, would run.
    Program,
}

impl OfferedType {
    /// As they stand in the file.
    pub(super) const WORDS: &'static [&'static str] = &[
        "file", "folder", "image", "audio", "video", "document", "archive", "program",
    ];

    /// Whether a file of this name is of this type.
    pub(crate) fn fits_file(self, name: &str) -> bool {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        let extension = extension.unwrap_or_default().to_lowercase();
        let among = |extensions: &[&str]| extensions.contains(&extension.as_str());
        match self {
            OfferedType::File => true,
            OfferedType::Folder => false,
            OfferedType::Image => among(IMAGES),
            OfferedType::Audio => among(AUDIO),
            OfferedType::Video => among(VIDEO),
            OfferedType::Document => among(DOCUMENTS),
            OfferedType::Archive => among(ARCHIVES),
            OfferedType::Program => among(PROGRAMS),
        }
    }
}

const IMAGES: &[&str] = &[
    "jpg", "jpeg", "png", "gif", "webp", "avif", "heic", "heif", "tif", "tiff", "bmp", "svg",
    "raw", "dng", "cr2", "cr3", "nef", "arw", "xcf", "psd",
];
const AUDIO: &[&str] = &[
    "mp3", "ogg", "oga", "opus", "flac", "wav", "m4a", "aac", "aiff", "wma", "mid", "midi",
];
const VIDEO: &[&str] = &[
    "mp4", "m4v", "mkv", "webm", "mov", "avi", "mpg", "mpeg", "ogv", "wmv", "mts", "3gp",
];
const DOCUMENTS: &[&str] = &[
    "pdf", "txt", "md", "rst", "tex", "csv", "rtf", "odt", "ods", "odp", "doc", "docx", "xls",
    "xlsx", "ppt", "pptx", "epub", "ps", "log",
];
const ARCHIVES: &[&str] = &[
    "zip", "tar", "gz", "tgz", "bz2", "tbz", "xz", "txz", "zst", "tzst", "lz4", "7z", "rar",
    "cpio", "iso", "img",
];
const PROGRAMS: &[&str] = &[
    "exe",
    "com",
    "bat",
    "cmd",
    "ps1",
    "vbs",
    "js",
    "jse",
    "wsf",
    "hta",
    "msi",
    "msix",
    "scr",
    "pif",
    "cpl",
    "lnk",
    "reg",
    "jar",
    "dll",
    "sh",
    "bash",
    "py",
    "pl",
    "rb",
    "run",
    "appimage",
    "desktop",
    "deb",
    "rpm",
    "apk",
    "flatpakref",
    "snap",
    "app",
    "dmg",
    "pkg",
    "command",
    "docm",
    "xlsm",
    "pptm",
];
