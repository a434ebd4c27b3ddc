//! Names and words as they are compared: without what only looks different.

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::{BinaryProperty as _, DefaultIgnorableCodePoint, GeneralCategory};

/// A text in small letters, in compatibility decomposition (NFKD, Unicode UAX 15), without marks
/// that combine with a letter, and without invisible signs (`Default_Ignorable_Code_Point`: soft
/// hyphens, zero-width signs, changes of direction).
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let marks = CodePointMapData::<GeneralCategory>::new();
    let is_mark = |sign: char| marks.get(sign) == GeneralCategory::NonspacingMark;
    let is_seen = |sign: &char| !DefaultIgnorableCodePoint::for_char(*sign);
    let decomposed = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let plain: String = decomposed
        .chars()
        .filter(is_seen)
        .filter(|sign| !is_mark(*sign))
        .collect();
    plain.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn what_looks_alike_is_alike() {
        for text in [
            "evil.exe",
            "EVIL.EXE",
            "\u{ff45}\u{ff56}\u{ff49}\u{ff4c}\u{ff0e}exe",
            "e\u{200b}vil.e\u{feff}xe",
            "ev\u{ad}il.exe",
            "e\u{301}vil.\u{202e}exe",
            "\u{e9}vil.exe",
        ] {
            assert_eq!(folded(text), "evil.exe", "{text:?}");
        }
        assert_eq!(folded("\u{dc}BERGABE"), "ubergabe");
    }
}
