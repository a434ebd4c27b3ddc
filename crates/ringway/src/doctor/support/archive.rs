//! A tar file of regular files (the form `ustar` of POSIX.1-1988): what every system can read.

/// Bytes of a block.
const BLOCK: usize = 512;

/// Bytes of a name.
const NAME: usize = 100;

/// The file so far.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    /// Adds a file, for its owner alone, of the time 0. What exceeds 100 bytes of its name is cut
    /// off.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, field: &[u8]| {
            for (to, from) in header.iter_mut().skip(at).zip(field) {
                *to = *from;
            }
        };
        let name = name.as_bytes();
        put(0, name.get(..NAME).unwrap_or(name));
        put(100, b"0000600\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", content.len()).as_bytes());
        put(136, b"00000000000\0");
        // The sum is that of a header with blanks in its place.
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        let sum = format!("{sum:06o}\0 ");
        for (to, from) in header.iter_mut().skip(148).zip(sum.as_bytes()) {
            *to = *from;
        }
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        let whole = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(whole, 0);
    }

    /// The whole file: two empty blocks end it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.tar");
        let mut archive = Archive::default();
        archive.add("about.txt", b"one\n");
        archive.add("log/two.txt", &[b'x'; 513]);
        archive.add("empty", b"");
        std::fs::write(&path, archive.finish()).unwrap();
        let tar = |words: &[&str]| {
            let output = Command::new("tar").args(words).arg(&path).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(tar(&["-tf"]), "about.txt\nlog/two.txt\nempty\n");
        assert_eq!(tar(&["-xOf"]).len(), 4 + 513);
        assert!(tar(&["-tvf"]).contains("-rw-------"));
    }
}
