//! The live view at a terminal.

use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use ringway_gateway::accounting::Grouping;
use ringway_terminal::Failure;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use super::board::{BARS, Board, Sort};
use super::{HEADINGS, SECOND, cells, heading_of, sample};
use crate::cli::TopArgs;
use crate::context::Context;

/// How long the thread of keys waits before it looks whether anybody still wants them.
const KEYS_PAUSE: Duration = Duration::from_millis(200);
/// Columns of the names, of figures, and of bars.
const NAME: u16 = 28;
const FIGURE: u16 = 12;
/// Eighths of a bar's height.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Draw,
    Sample,
    End,
}

/// Shows the board until `q`.
pub(super) async fn run(context: &Context, args: &TopArgs, board: Board) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init().map_err(Failure::failed)?;
    let mut view = View {
        board,
        typing: false,
        fault: None,
    };
    let shown = show(context, args, &mut view, &mut terminal).await;
    ratatui::try_restore().map_err(Failure::failed)?;
    shown
}

async fn show(
    context: &Context,
    args: &TopArgs,
    view: &mut View,
    terminal: &mut DefaultTerminal,
) -> Result<(), Failure> {
    let mut keys = keys();
    let mut ticks = interval(SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal
            .draw(|frame| view.draw(frame))
            .map_err(Failure::failed)?;
        let wish = tokio::select! {
            _ = ticks.tick() => Wish::Sample,
            key = keys.recv() => key.map_or(Wish::End, |key| view.obey(key)),
        };
        match wish {
            Wish::End => return Ok(()),
            Wish::Draw => {}
            Wish::Sample => match sample(context, args, view.board.by()).await {
                Ok(top) => {
                    view.fault = None;
                    view.board.take(top);
                }
                // A gateway that restarts is back soon.
                Err(failure) => view.fault = Some(failure.message().to_owned()),
            },
        }
    }
}

/// Keys, from a thread of their own: reading them waits.
fn keys() -> UnboundedReceiver<KeyEvent> {
    let (keys, received) = unbounded_channel();
    std::thread::spawn(move || {
        while !keys.is_closed() {
            let key = match event::poll(KEYS_PAUSE) {
                Ok(true) => event::read(),
                Ok(false) => continue,
                Err(_) => return,
            };
            match key {
                // A resize is drawn with the next sample.
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if keys.send(key).is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    });
    received
}

/// What is on the screen.
struct View {
    board: Board,
    /// Keys go to the filter.
    typing: bool,
    /// Why there is no newer sample.
    fault: Option<String>,
}

impl View {
    fn obey(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::End;
        }
        if self.typing {
            return self.type_in(key.code);
        }
        let grouping = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::End,
            KeyCode::Char('/') => {
                self.typing = true;
                return Wish::Draw;
            }
            KeyCode::Char('b') => return self.sort(Sort::Rate),
            KeyCode::Char('f') => return self.sort(Sort::Flows),
            KeyCode::Char('n') => return self.sort(Sort::Name),
            KeyCode::Char('a') => Grouping::App,
            KeyCode::Char('h') => Grouping::Host,
            KeyCode::Char('r') => Grouping::Rule,
            KeyCode::Char('c') => Grouping::Class,
            KeyCode::Char('m') => Grouping::Member,
            _ => return Wish::Draw,
        };
        self.board.regroup(grouping);
        Wish::Sample
    }

    fn sort(&mut self, sort: Sort) -> Wish {
        self.board.sort = sort;
        Wish::Draw
    }

    fn type_in(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.board.filter.clear();
            }
            KeyCode::Backspace => {
                self.board.filter.pop();
            }
            KeyCode::Char(letter) => self.board.filter.push(letter),
            _ => {}
        }
        Wish::Draw
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let rows = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [head, body, foot] = rows.areas(frame.area());
        frame.render_widget(Paragraph::new(self.board.summary()), head);
        let titles = HEADINGS.map(|heading| heading_of(heading, &self.board));
        let titles = titles.into_iter().chain(["LAST 30 S"]);
        let lines = self.board.lines().into_iter().map(|line| {
            let cells = cells(&line).into_iter().enumerate();
            let mut cells: Vec<Text<'_>> = cells
                .map(|(column, cell)| match column {
                    0 => Text::from(cell),
                    _ => Text::from(cell).right_aligned(),
                })
                .collect();
            cells.push(Text::from(bars(&line.bars)));
            Row::new(cells)
        });
        let bars = u16::try_from(BARS).unwrap_or(u16::MAX);
        let figures = [Constraint::Length(FIGURE); HEADINGS.len() - 1];
        let widths = [Constraint::Min(NAME)]
            .into_iter()
            .chain(figures)
            .chain([Constraint::Length(bars)]);
        let header = Row::new(titles).style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_widget(Table::new(lines, widths).header(header), body);
        frame.render_widget(Paragraph::new(self.foot()), foot);
    }

    fn foot(&self) -> String {
        match (&self.fault, self.typing) {
            (Some(fault), _) => fault.clone(),
            (None, true) => format!("filter: {}_  (enter keeps it, esc drops it)", self.board.filter),
            (None, false) => "a app  h host  r rule  c class  m member | b rate  f flows  n name | / filter  q end".to_owned(),
        }
    }
}

/// Thirty seconds as bars, the highest of them full; the latest is the last one.
fn bars(samples: &[u64]) -> String {
    let most = samples.iter().copied().max().unwrap_or(0).max(1);
    let bar = |sample: &u64| {
        let eighths = sample.saturating_mul(8).div_ceil(most);
        let level = usize::try_from(eighths).unwrap_or(usize::MAX);
        LEVELS.get(level).copied().unwrap_or('█')
    };
    samples.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use ringway_gateway::accounting::{Grouping, Row, Totals};
    use ringway_gateway::flow::Count;
    use ringway_gateway::service::Top;

    use super::{Board, View, Wish, bars};

    fn view() -> View {
        let mut board = Board::new(Grouping::App, String::new());
        for (at_ms, bytes) in [(0, 0), (1_000, 3_000_000)] {
            let to_client = Count { packets: 1, bytes };
            let totals = Totals {
                flows: 1,
                live: 1,
                to_client,
                ..Totals::default()
            };
            let name = "bittorrent".to_owned();
            board.take(Top {
                at_ms,
                rows: vec![Row { name, totals }],
                exact: true,
                ..Top::default()
            });
        }
        View {
            board,
            typing: false,
            fault: None,
        }
    }

    fn press(view: &mut View, letters: &str) -> Vec<Wish> {
        let keys = letters.chars().map(KeyCode::Char);
        keys.map(|key| view.obey(KeyEvent::new(key, KeyModifiers::NONE)))
            .collect()
    }

    #[test]
    fn rates_and_bars_are_on_the_screen() {
        let mut terminal = Terminal::new(TestBackend::new(140, 8)).unwrap();
        terminal.draw(|frame| view().draw(frame)).unwrap();
        let shown = terminal.backend().to_string();
        for part in ["bittorrent", "2.86 MiB", "LAST 30 S", "█", "q end"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn keys_regroup_filter_and_end() {
        let mut view = view();
        assert_eq!(press(&mut view, "h"), [Wish::Sample]);
        assert_eq!(view.board.by(), Grouping::Host);
        press(&mut view, "/qa");
        // While a filter is typed letters are letters.
        assert_eq!((view.board.filter.as_str(), view.typing), ("qa", true));
        view.obey(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert_eq!(press(&mut view, "q"), [Wish::End]);
    }

    #[test]
    fn the_highest_bar_is_full() {
        assert_eq!(bars(&[0, 1, 50, 100]), " ▁▄█");
        assert_eq!(bars(&[0, 0]), "  ");
    }
}
