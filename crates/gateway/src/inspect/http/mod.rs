//! HTTP/1: requests and their answers in order, the files in their bodies.

mod body;
mod form;
mod head;
mod line;

use std::collections::VecDeque;

use self::body::{Body, Piece};
use self::form::Form;
use self::head::{Answer, Fields, Request};
use super::held::{Held, Reason};
use super::names::{file_name, in_target};
use super::reading::{Emit, Reading, opposite};
use super::{FileHead, Seen};
use crate::flow::Direction;
use crate::limits::{MAX_HTTP_HEAD, MAX_PIPELINED};

/// What differs between the web and transfers that borrowed its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Web,
    Gnutella,
    FastTrack,
}

/// A request whose answer has not begun.
#[derive(Debug)]
struct Asked {
    of_head: bool,
    connect: bool,
    upgrade: bool,
    name: Option<String>,
}

/// One direction: the head that is being collected, or the body behind it.
#[derive(Debug, Default)]
struct Side {
    held: Held,
    body: Option<(Body, Sink)>,
}

/// What a body is.
#[derive(Debug)]
enum Sink {
    /// Nothing of interest.
    Ignore,
    File,
    Form(Box<Form>),
}

/// Requests and answers of one connection.
#[derive(Debug)]
pub(super) struct Exchange {
    dialect: Dialect,
    /// Who sends the requests.
    asker: Direction,
    requests: Side,
    answers: Side,
    asked: VecDeque<Asked>,
    /// A name for files whose request has none.
    announced: Option<String>,
}

impl Exchange {
    /// The web's: the side that opened the connection asks.
    pub(super) fn web() -> Self {
        Self::new(Dialect::Web, Direction::FromClient, None)
    }

    pub(super) fn new(dialect: Dialect, asker: Direction, announced: Option<String>) -> Self {
        Self {
            dialect,
            asker,
            requests: Side::default(),
            answers: Side::default(),
            asked: VecDeque::new(),
            announced,
        }
    }

    fn handle_requests(&mut self, input: &mut &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        loop {
            if self.requests.body.is_some() {
                if !self.requests.handle_body(input, emit)? {
                    return Ok(());
                }
                continue;
            }
            // What follows a CONNECT is no request unless it is refused.
            if !input.is_empty() && self.asked.iter().any(|asked| asked.connect) {
                return Err("tunnel");
            }
            match self.requests.held.head(input, MAX_HTTP_HEAD)? {
                None => return Ok(()),
                // RFC 9112 §2.2: an empty line before a request is passed over.
                Some(head) if head == b"\r\n" => {}
                Some(head) => self.handle_request(&head, emit)?,
            }
        }
    }

    fn handle_request(&mut self, head: &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        let request = Request::parse(head)?;
        let body = request.body()?;
        let name = self.dialect.name(&request.target);
        let sink = self.request_sink(&request, &body, name.as_ref(), emit)?;
        let method = request.method.as_str();
        // Responses to these methods carry no file, whatever the target's name.
        let no_file = ["HEAD", "CONNECT", "OPTIONS", "TRACE", "DELETE", "PUT"].contains(&method);
        let name = name.or_else(|| self.announced.clone());
        let asks = !no_file && matches!(sink, Sink::Ignore | Sink::Form(_));
        if asks && (name.is_some() || self.dialect != Dialect::Web) {
            emit(Seen::Offer(FileHead {
                name: name.clone(),
                sender: Some(opposite(self.asker)),
                ..FileHead::default()
            }));
        }
        // Each request is kept until its response has come, so a client must not pile them up.
        if self.asked.len() >= MAX_PIPELINED {
            return Err("too many requests without answers");
        }
        self.asked.push_back(Asked {
            of_head: method == "HEAD",
            connect: method == "CONNECT",
            upgrade: request.fields.get("upgrade").is_some(),
            name: if no_file { None } else { name },
        });
        self.requests.body = Some((body, sink));
        Ok(())
    }

    /// What a request's body is; where it is a file, its beginning is emitted.
    fn request_sink(
        &self,
        request: &Request,
        body: &Body,
        in_target: Option<&String>,
        emit: Emit<'_>,
    ) -> Result<Sink, Reason> {
        if matches!(body, Body::Length(0)) {
            return Ok(Sink::Ignore);
        }
        let fields = &request.fields;
        if let Some(boundary) = fields.form_boundary()? {
            return Ok(Sink::Form(Box::new(Form::new(&boundary, self.asker))));
        }
        let kind = fields.kind();
        let given = fields.file_name();
        // The fields of a form are no file, unless they are named as one.
        let is_form = kind.as_deref() == Some("application/x-www-form-urlencoded");
        if is_form && given.is_none() && request.method != "PUT" {
            return Ok(Sink::Ignore);
        }
        emit(Seen::Begin(FileHead {
            name: given.or_else(|| in_target.cloned()),
            kind,
            size: match body {
                Body::Length(length) => Some(*length),
                _ => None,
            },
            sender: Some(self.asker),
            form: fields.form(false),
        }));
        Ok(Sink::File)
    }

    fn handle_answers(&mut self, input: &mut &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        loop {
            if self.answers.body.is_some() {
                if !self.answers.handle_body(input, emit)? {
                    return Ok(());
                }
                continue;
            }
            // Without its request it is not known whether a response has a body.
            if !input.is_empty() && self.asked.is_empty() {
                return Err("an answer without its request");
            }
            // An answer of HTTP/0.9 has no head: what would be read as one is the file.
            if !begins_answer(&self.answers.held.beginning(input, 5)) {
                return Err("an answer without a head");
            }
            let Some(mut head) = self.answers.held.head(input, MAX_HTTP_HEAD)? else {
                return Ok(());
            };
            // Early programs left out the version.
            if self.dialect == Dialect::Gnutella && head.starts_with(b"HTTP ") {
                head.splice(..4, *b"HTTP/1.0");
            }
            self.handle_answer(&head, emit)?;
        }
    }

    fn handle_answer(&mut self, head: &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        let answer = Answer::parse(head)?;
        if matches!(answer.status, 100 | 102..=199) {
            return Ok(());
        }
        let asked = self.asked.pop_front();
        let asked = asked.ok_or("an answer without its request")?;
        match answer.status {
            101 if asked.upgrade => return Err("tunnel"),
            101 => return Err("a change of protocol that nobody asked for"),
            200..=299 if asked.connect => return Err("tunnel"),
            _ => {}
        }
        let body = answer.body(asked.of_head)?;
        if matches!(body, Body::Length(0)) {
            self.answers.body = Some((body, Sink::Ignore));
            return Ok(());
        }
        // What comes instead of the file, such as a page that says why not, does not have its name.
        let name = asked.name.filter(|_| (200..=299).contains(&answer.status));
        let given = answer.fields.file_name();
        emit(Seen::Begin(FileHead {
            name: given
                .or_else(|| self.dialect.own_name(&answer.fields))
                .or(name),
            kind: answer.fields.kind(),
            size: answer.size(&body),
            sender: Some(opposite(self.asker)),
            form: answer.fields.form(answer.status == 206),
        }));
        self.answers.body = Some((body, Sink::File));
        Ok(())
    }
}

impl Side {
    /// Whether the body is over.
    fn handle_body(&mut self, input: &mut &[u8], emit: Emit<'_>) -> Result<bool, Reason> {
        let Some((body, sink)) = &mut self.body else {
            return Ok(true);
        };
        while let Some(piece) = body.next(input)? {
            match (piece, &mut *sink) {
                (Piece::Data(data), Sink::File) => emit(Seen::Data(data)),
                (Piece::Data(data), Sink::Form(form)) => form.handle_data(data, emit)?,
                (Piece::Data(_), Sink::Ignore) => {}
                (Piece::End, sink) => {
                    if matches!(sink, Sink::File) {
                        emit(Seen::End);
                    }
                    self.body = None;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn held(&self) -> usize {
        let body = match &self.body {
            Some((body, Sink::Form(form))) => body.held().saturating_add(form.held()),
            Some((body, _)) => body.held(),
            None => 0,
        };
        body.saturating_add(self.held.len())
    }
}

impl Reading for Exchange {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if direction == self.asker {
            self.handle_requests(input, emit)
        } else {
            self.handle_answers(input, emit)
        }
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        if direction != self.asker
            && let Some((Body::Close, Sink::File)) = self.answers.body.take()
        {
            emit(Seen::End);
        }
        Ok(())
    }

    fn begins_head(&self, direction: Direction) -> bool {
        direction == self.asker
            && self.dialect == Dialect::Web
            && self.requests.body.is_none()
            && self.requests.held.is_empty()
    }

    fn certain_data(&self, direction: Direction) -> u64 {
        let nothing_asked =
            self.asked.is_empty() && self.requests.body.is_none() && self.requests.held.is_empty();
        match &self.answers.body {
            Some((Body::Length(left), Sink::File))
                if direction != self.asker && nothing_asked && self.dialect == Dialect::Web =>
            {
                *left
            }
            _ => 0,
        }
    }

    fn pass_over(
        &mut self,
        direction: Direction,
        bytes: u64,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if direction != self.asker
            && let Some((Body::Length(left), _)) = &mut self.answers.body
        {
            *left = left.saturating_sub(bytes);
        }
        self.read(direction, &mut [].as_slice(), emit)
    }

    fn held(&self) -> usize {
        let names = self.asked.iter().filter_map(|asked| asked.name.as_ref());
        let names = names.fold(0_usize, |sum, name| sum.saturating_add(name.capacity()));
        let queue = self.asked.capacity().saturating_mul(size_of::<Asked>());
        let sides = self.requests.held().saturating_add(self.answers.held());
        let announced = self.announced.as_ref().map_or(0, String::capacity);
        [names, queue, announced]
            .into_iter()
            .fold(sides, usize::saturating_add)
    }
}

/// Whether bytes may begin a status line, as far as they go: early programs of Gnutella leave out
/// the version.
fn begins_answer(bytes: &[u8]) -> bool {
    let starts = |line: &[u8]| {
        let length = line.len().min(bytes.len());
        bytes.get(..length) == line.get(..length)
    };
    starts(b"HTTP/") || starts(b"HTTP ")
}

impl Dialect {
    /// The name of the file that a request asks for.
    fn name(self, target: &str) -> Option<String> {
        match self {
            Self::Web => in_target(target),
            // By its hash.
            Self::Gnutella if target.starts_with("/uri-res/") => None,
            Self::FastTrack if target.starts_with("/.hash=") => None,
            Self::Gnutella | Self::FastTrack => in_target(target),
        }
    }

    /// A name that stands in header lines of the dialect.
    fn own_name(self, fields: &Fields) -> Option<String> {
        if self != Self::FastTrack {
            return None;
        }
        // Tag 2 is a file's name and 4 its title.
        ["2=", "4="].into_iter().find_map(|tag| {
            let mut tags = fields.all("x-kazaatag");
            tags.find_map(|value| file_name(value.strip_prefix(tag)?))
        })
    }
}
