//! One direction of a managed connection: the file under way, its windows, and the packets that
//! wait for them.

use std::collections::VecDeque;
use std::time::Duration;

use super::ContentContext;
use crate::flow::Direction;
use crate::inspect::{FileForm, FileHead};
use crate::limits::{FILE_PIECE, MAX_FILE_PIECE, SCAN_OVERLAP, SCAN_PAUSE};
use crate::packet::Packet;
use crate::policy::{Action, File, Ruling};
use crate::stream::{Output, Stream, StreamBounds};
use crate::verdict::machine::QueuedPacket;
use crate::verdict::reset::Broken;
use crate::verdict::{FileEnd, FilePart, FlowId, ScanJob, Verdict};

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) token: u64,
    /// Bytes that it carries.
    pub(super) length: u64,
    /// The window that has to be clean; `None`: it may be a file's last, and what comes next
    /// decides.
    pub(super) needs: Option<u32>,
    pub(super) broken: Broken,
}

impl Held {
    fn new(queued: QueuedPacket<'_>, needs: Option<u32>) -> Self {
        Self {
            token: queued.token,
            length: length(queued.packet),
            needs,
            broken: Broken::by(queued.packet),
        }
    }
}

/// A file under way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) head: FileHead,
    pub(super) ruling: Ruling,
    pub(super) bytes: u64,
    /// What audited files are called while they go by.
    pub(super) number: u64,
    /// Bytes that wait to be a part of an audited file.
    pub(super) piece: Vec<u8>,
    pub(super) window: Vec<u8>,
    repeated: usize,
    /// The position of the window's first byte in the file.
    at: u64,
    begun: bool,
    /// So many bytes of its beginning wait together; 0: no more.
    hold_first: u64,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct HalfStream {
    pub(super) stream: Stream<u64>,
    pub(super) transfer: Option<Transfer>,
    pub(super) held: VecDeque<Held>,
    /// Whole files that count once their last window is clean.
    pub(super) whole: VecDeque<(u32, FilePart)>,
    /// Packets that wait for a gap to be filled; none with fast pass.
    ahead: Vec<Held>,
    /// Those of them that must not go on.
    pub(super) refused: Vec<u64>,
    pub(super) issued: u32,
    pub(super) clean: u32,
    /// When the packet that may be a file's last has waited long enough.
    pub(super) pause: Option<Duration>,
}

impl HalfStream {
    /// From now on packets behind a gap wait until it is filled.
    pub(super) fn wait_behind_gaps(&mut self) {
        self.stream = Stream::new(StreamBounds {
            fast_pass: false,
            ..StreamBounds::default()
        });
    }

    /// Whether a packet behind a gap waits; [`end_waits`](Self::end_waits) ends that.
    pub(super) fn waits_behind_gap(&mut self, packet: QueuedPacket<'_>) -> bool {
        let waits = !self.stream.bounds().fast_pass;
        if waits {
            self.ahead.push(Held::new(packet, None));
        }
        waits
    }

    /// What the stream lets go after a gap was filled comes behind the packet that filled it; what
    /// it forgets never goes on.
    pub(super) fn end_waits(&mut self, now: Duration, output: &Output<u64>) {
        for token in &output.released {
            let Some(index) = self.ahead.iter().position(|held| held.token == *token) else {
                continue;
            };
            let mut held = self.ahead.remove(index);
            held.needs = Some(self.issued);
            if self.is_endless() {
                held.needs = None;
                self.pause = Some(now.saturating_add(SCAN_PAUSE));
            }
            self.held.push_back(held);
        }
        for token in &output.abandoned {
            self.ahead.retain(|held| held.token != *token);
            self.refused.push(*token);
        }
    }

    /// All packets that wait, which are not waited for any more.
    pub(super) fn take_held(&mut self) -> Vec<u64> {
        let held = self.held.drain(..).chain(self.ahead.drain(..));
        held.map(|held| held.token)
            .chain(self.refused.drain(..))
            .collect()
    }

    /// A file of unknown length is under way and scanned; or its beginning waits.
    fn is_endless(&self) -> bool {
        self.transfer.as_ref().is_some_and(|file| {
            file.is_scanned() && (file.head.size.is_none() || file.waits_first())
        })
    }

    /// Bytes of the file under way that have gone on; of one that has ended, with `whole` bytes, if
    /// none is under way.
    pub(super) fn delivered(&self, whole: u64) -> u64 {
        let bytes = self.transfer.as_ref().map_or(whole, |file| file.bytes);
        let waiting = self.held.iter().chain(&self.ahead);
        let waiting = waiting.fold(0_u64, |sum, held| sum.saturating_add(held.length));
        bytes.saturating_sub(waiting)
    }

    /// Takes in the next bytes of a file, and has each window scanned that they complete.
    pub(super) fn take_in(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        window: usize,
        context: &mut ContentContext<'_>,
    ) {
        let Some(file) = &mut self.transfer else {
            return;
        };
        file.bytes = file
            .bytes
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if file.ruling.audit {
            file.gather(bytes, context);
        }
        if !file.is_scanned() {
            return;
        }
        let waited = file.hold_first > 0;
        if file.bytes >= file.hold_first {
            file.hold_first = 0;
        }
        let begun = waited && file.hold_first == 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let fresh = file.window.len().saturating_sub(file.repeated);
            let room = window.saturating_sub(fresh).max(1);
            if fresh == 0 {
                file.window
                    .reserve_exact(file.expected(rest.len()).min(room));
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            file.window.extend_from_slice(now);
            rest = later;
            if file.window.len().saturating_sub(file.repeated) >= window {
                self.issued = self.issued.saturating_add(1);
                let number = self.issued;
                context.scan(file.cut(context.flow(), direction, number, false));
            }
        }
        if begun {
            // What waited together is looked at together, however large a window is.
            self.scan_rest(direction, false, context);
        }
    }

    /// Hands on what is gathered for a part or a window, because memory is short.
    pub(super) fn give_away(&mut self, direction: Direction, context: &mut ContentContext<'_>) {
        self.scan_rest(direction, false, context);
        let gathered = self.transfer.as_mut().filter(|file| !file.piece.is_empty());
        if let Some(file) = gathered {
            context.part(file.part(None));
        }
    }

    /// Whether a packet goes on or waits.
    pub(super) fn hold_or_accept(&mut self, now: Duration, queued: QueuedPacket<'_>) -> Verdict {
        let (packet, endless) = (queued.packet, self.is_endless());
        let carries = !packet.payload.is_empty() || packet.tcp.is_some_and(|tcp| tcp.fin);
        let behind = self.issued > self.clean;
        if !carries || !(behind || endless) {
            return Verdict::ACCEPT;
        }
        let needs = if endless { None } else { Some(self.issued) };
        if needs.is_none() {
            self.pause = Some(now.saturating_add(SCAN_PAUSE));
        }
        self.held.push_back(Held::new(queued, needs));
        Verdict::HOLD
    }

    /// New bytes have come, so that what waited as the last of a file was not; unless they ended
    /// the file, and it was the last of its data. Either way it waits for the windows that were
    /// begun.
    pub(super) fn decide_tail(&mut self) {
        if self.transfer.as_ref().is_some_and(Transfer::waits_first) {
            return;
        }
        let issued = self.issued;
        for held in self.held.iter_mut().filter(|held| held.needs.is_none()) {
            held.needs = Some(issued);
        }
    }

    /// Scans what there is of a window. `last`: the file ends here.
    pub(super) fn scan_rest(
        &mut self,
        direction: Direction,
        last: bool,
        context: &mut ContentContext<'_>,
    ) {
        let Some(file) = &mut self.transfer else {
            return;
        };
        let fresh = file.window.len() > file.repeated;
        if !file.is_scanned() || !(fresh || (last && file.begun)) {
            return;
        }
        self.issued = self.issued.saturating_add(1);
        context.scan(file.cut(context.flow(), direction, self.issued, last));
    }
}

impl Transfer {
    /// `hold_first`: so many bytes of its beginning wait together.
    pub(super) fn new(head: FileHead, ruling: Ruling, number: u64, hold_first: u64) -> Self {
        Self {
            head,
            ruling,
            bytes: 0,
            number,
            piece: Vec::new(),
            window: Vec::new(),
            repeated: 0,
            at: 0,
            begun: false,
            hold_first,
        }
    }

    /// Takes the next bytes of an audited file, and hands on what has come together.
    fn gather(&mut self, mut bytes: &[u8], context: &mut ContentContext<'_>) {
        while !bytes.is_empty() {
            if self.piece.len().saturating_add(bytes.len()) < FILE_PIECE {
                if self.piece.capacity() == 0 {
                    let most = self.expected(bytes.len()).min(FILE_PIECE);
                    self.piece = Vec::with_capacity(most);
                }
                self.piece.extend_from_slice(bytes);
                return;
            }
            let room = MAX_FILE_PIECE.saturating_sub(self.piece.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.piece.reserve_exact(now.len());
            self.piece.extend_from_slice(now);
            context.part(self.part(None));
            bytes = later;
        }
    }

    /// The bytes of an audited file that wait.
    pub(super) fn part(&mut self, end: Option<FileEnd>) -> FilePart {
        FilePart {
            file: self.number,
            bytes: std::mem::take(&mut self.piece),
            keep: self.ruling.keep,
            end,
        }
    }

    /// Says of an audited file that it has no end.
    pub(super) fn cut_off(&mut self) -> Option<FilePart> {
        let audited = self.ruling.audit;
        audited.then(|| self.part(Some(FileEnd::CutOff)))
    }

    /// Its bytes are not looked at.
    pub(super) fn is_passed_on(&self) -> bool {
        self.ruling.action == Action::Allow && !self.ruling.audit
    }

    /// Its beginning is under way, which waits together.
    fn waits_first(&self) -> bool {
        self.hold_first > 0
    }

    fn is_scanned(&self) -> bool {
        self.ruling.action == Action::Scan
    }

    /// Bytes for which there should be room when the last `came` of those counted are put
    /// somewhere: all that are to come, if that is known.
    fn expected(&self, came: usize) -> usize {
        let size = self.head.size.unwrap_or_default();
        let left = usize::try_from(size.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        left.saturating_add(came)
    }

    /// Takes the window for scanning; its end stays, because signatures may lie across.
    fn cut(&mut self, flow: FlowId, direction: Direction, number: u32, last: bool) -> ScanJob {
        let keep = self.window.len().saturating_sub(SCAN_OVERLAP);
        let overlap = self.window.get(keep..).unwrap_or_default().to_vec();
        let repeated = std::mem::replace(&mut self.repeated, overlap.len());
        let first = !std::mem::replace(&mut self.begun, true);
        let at = self.at;
        self.at = at.saturating_add(u64::try_from(keep).unwrap_or(u64::MAX));
        ScanJob {
            flow,
            direction,
            number,
            bytes: std::mem::replace(&mut self.window, overlap),
            repeated,
            at,
            first,
            last,
            name: self.head.name.clone(),
        }
    }
}

fn length(packet: &Packet<'_>) -> u64 {
    u64::try_from(packet.payload.len()).unwrap_or(u64::MAX)
}

impl FileHead {
    /// What the policy is asked about.
    pub(super) fn facts(&self) -> File<'_> {
        let name = self.name.as_deref();
        let extension = name
            .and_then(|name| name.rsplit_once('.'))
            .map(|(_, end)| end);
        File {
            name,
            kind: self.kind.as_deref().or(extension),
            size: self.size,
            part: self.form == FileForm::Part,
        }
    }
}
