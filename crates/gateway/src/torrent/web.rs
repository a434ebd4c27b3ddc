//! What a connection of HTTP brings, read for a `.torrent` file.

use super::TorrentName;
use super::info;
use super::peer::More;
use crate::flow::Direction;
use crate::inspect::{Decoder, FileForm, FileHead, Seen, decoder};
use crate::limits::MAX_METADATA;

/// Media type of such a file (its registration by use, and BEP 3's programs).
const KIND: &str = "application/x-bittorrent";
const ENDING: &str = ".torrent";

/// Reads a connection up to its first file: one that is no torrent ends it.
#[derive(Debug)]
pub(super) struct Web {
    decoder: Box<dyn Decoder>,
    /// The file, and who sends it.
    file: Option<(Direction, Vec<u8>)>,
}

impl Web {
    /// A connection that begins with a request for a file. `None`: this is none.
    pub(super) fn opens(bytes: &[u8]) -> Option<Self> {
        let decoder = bytes.starts_with(b"GET ").then(|| decoder("http"));
        Some(Self {
            decoder: decoder.flatten()?,
            file: None,
        })
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |(_, file)| file.capacity());
        self.decoder.held().saturating_add(file)
    }

    /// Takes in the next bytes of a direction, and returns the names in the file that they
    /// complete.
    pub(super) fn read(&mut self, direction: Direction, bytes: &[u8]) -> (More, Vec<TorrentName>) {
        let (file, mut more, mut names) = (&mut self.file, More::Maybe, Vec::new());
        self.decoder.handle_data(direction, bytes, &mut |seen| {
            let own = || {
                file.as_ref()
                    .is_some_and(|(sender, _)| *sender == direction)
            };
            match seen {
                _ if more == More::No => {}
                Seen::Begin(head) if is_torrent(&head) => *file = Some((direction, Vec::new())),
                Seen::Begin(_) | Seen::Lost(_) => more = More::No,
                Seen::Data(bytes) if own() => {
                    if let Some((_, file)) = file
                        && file.len().saturating_add(bytes.len()) <= MAX_METADATA
                    {
                        file.extend_from_slice(bytes);
                    } else {
                        more = More::No;
                    }
                }
                Seen::End if own() => {
                    names = file
                        .take()
                        .map_or_else(Vec::new, |(_, file)| info::of_file(&file));
                    more = More::No;
                }
                _ => {}
            }
        });
        (more, names)
    }
}

/// A torrent as it is, and not too long.
fn is_torrent(head: &FileHead) -> bool {
    let kind = head.kind.as_deref() == Some(KIND);
    let name = head.name.as_deref().is_some_and(|name| {
        let begins = name.len().checked_sub(ENDING.len());
        let end = begins.and_then(|begins| name.get(begins..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(ENDING))
    });
    let most = u64::try_from(MAX_METADATA).unwrap_or(u64::MAX);
    let fits = head.size.is_none_or(|size| size <= most);
    (kind || name) && fits && head.form == FileForm::Whole
}

#[cfg(test)]
mod tests {
    use super::super::info::tests::{info, infohash};
    use super::super::peer::More;
    use super::Web;
    use crate::flow::Direction::{FromClient, FromServer};

    fn read(request: &str, answer: &[u8], step: usize) -> (Vec<String>, More) {
        let mut web = Web::opens(request.as_bytes()).unwrap();
        assert_eq!(web.read(FromClient, request.as_bytes()).0, More::Maybe);
        for part in answer.chunks(step) {
            let (more, names) = web.read(FromServer, part);
            if more == More::No {
                return (names.into_iter().map(|name| name.name).collect(), more);
            }
        }
        (Vec::new(), More::Maybe)
    }

    fn file() -> Vec<u8> {
        let info = info("A film", 2_000);
        assert_ne!(infohash(&info).bytes(), &[0; 20]);
        [b"d8:announce3:url4:info".as_slice(), &info, b"e"].concat()
    }

    #[test]
    fn torrent_files_are_read_by_type_or_name() {
        let file = file();
        let length = file.len();
        let by_type = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-bittorrent\r\nContent-Length: {length}\r\n\r\n"
        );
        let by_name = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        for (target, head) in [("/get.php?id=7", &by_type), ("/a.Torrent", &by_name)] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            for step in [1, 100, usize::MAX] {
                let answer = [head.as_bytes(), &file].concat();
                let (names, more) = read(&request, &answer, step);
                assert_eq!(
                    (names.as_slice(), more),
                    (["A film".to_owned()].as_slice(), More::No)
                );
            }
        }
    }

    #[test]
    fn other_files_end_it_with_their_head() {
        let request = "GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n";
        let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<";
        assert_eq!(read(request, page, usize::MAX), (Vec::new(), More::No));
        let huge = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-bittorrent\r\nContent-Length: 9000000\r\n\r\nd";
        assert_eq!(read(request, huge, usize::MAX), (Vec::new(), More::No));
        assert!(Web::opens(b"POST /a HTTP/1.1\r\n").is_none());
    }
}
