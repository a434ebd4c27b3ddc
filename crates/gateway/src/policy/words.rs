//! Names with wildcards, and words to find in text.

use aho_corasick::AhoCorasick;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::folded::folded;

/// Names with `*`, `?`, `[...]` and `{a,b}`; upper and lower case are the same.
#[derive(Clone, Debug)]
pub(super) struct Names {
    texts: Vec<String>,
    set: GlobSet,
}

impl Names {
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut builder = GlobSetBuilder::new();
        for text in texts {
            let glob = GlobBuilder::new(&folded(text))
                .case_insensitive(true)
                .build()
                .map_err(|error| format!("`{text}` is no name with wildcards: {}", error.kind()))?;
            builder.add(glob);
        }
        Ok(Self {
            texts: sorted(texts),
            set: builder.build().map_err(|error| error.to_string())?,
        })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.set.is_match(folded(name))
    }

    /// Whether the other one's names are all written here, or `*` is.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.texts.iter().any(|text| text == "*") || holds_all(&self.texts, &other.texts)
    }
}

/// Words that are found anywhere in a text; upper and lower case are the same.
#[derive(Clone, Debug)]
pub(super) struct Keywords {
    texts: Vec<String>,
    finder: AhoCorasick,
}

impl Keywords {
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err("an empty keyword is in every text".to_owned());
        }
        let plain: Vec<String> = texts.iter().map(|text| folded(text)).collect();
        if plain.iter().any(|text| text.trim().is_empty()) {
            return Err("a keyword that nobody sees is in every text".to_owned());
        }
        let texts = sorted(&plain);
        let finder = AhoCorasick::new(&texts).map_err(|error| error.to_string())?;
        Ok(Self { texts, finder })
    }

    /// The first of the words in the text.
    pub(super) fn find(&self, text: &str) -> Option<&str> {
        let found = self.finder.find(&folded(text))?;
        self.texts
            .get(found.pattern().as_usize())
            .map(String::as_str)
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        other
            .texts
            .iter()
            .all(|theirs| self.finder.find(theirs).is_some())
    }
}

/// Plain words that are compared as a whole.
#[derive(Clone, Debug)]
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn new(texts: &[String]) -> Self {
        Self(sorted(texts))
    }

    pub(super) fn contains(&self, word: &str) -> bool {
        self.0
            .binary_search_by(|own| own.as_str().cmp(word))
            .is_ok()
            || self.0.binary_search(&word.to_lowercase()).is_ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        holds_all(&self.0, &other.0)
    }
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Both are sorted.
fn holds_all(outer: &[String], inner: &[String]) -> bool {
    inner.iter().all(|text| outer.binary_search(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Keywords, Names, Words};

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn names_match_with_wildcards_in_any_case() {
        let names = Names::parse(&texts(&["*.exe", "secret-[0-9].{doc,pdf}"])).unwrap();
        assert!(names.matches("Setup.EXE") && names.matches("secret-4.pdf"));
        assert!(!names.matches("setup.exe.txt") && !names.matches("secret-x.pdf"));
        assert!(Names::parse(&texts(&["a[b"])).is_err());
    }

    #[test]
    fn keywords_match_any_case_of_any_alphabet() {
        let words = Keywords::parse(&texts(&["Geheim", "ÜBERGABE"])).unwrap();
        assert_eq!(words.find("ganz GEHEIMES"), Some("geheim"));
        assert_eq!(words.find("die Übergabe"), Some("ubergabe"));
        assert_eq!(words.find("ge\u{ad}hei\u{200b}m"), Some("geheim"));
        assert_eq!(words.find("nichts"), None);
        assert!(Keywords::parse(&texts(&[" "])).is_err());
    }

    #[test]
    fn what_is_wider_covers() {
        let (short, long) = (texts(&["secret"]), texts(&["top secret"]));
        let (short, long) = (
            Keywords::parse(&short).unwrap(),
            Keywords::parse(&long).unwrap(),
        );
        assert!(short.covers(&long) && !long.covers(&short));
        assert!(Words::new(&texts(&["a", "B"])).covers(&Words::new(&texts(&["b"]))));
        let all = Names::parse(&texts(&["*"])).unwrap();
        assert!(all.covers(&Names::parse(&texts(&["*.exe"])).unwrap()));
    }
}
