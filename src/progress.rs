//! Progress of a long run: whole lines in a notebook, a bar on a terminal, silence elsewhere.
//!
//! ```
//! use lastlayer::prelude::*;
//! let mut progress = Progress::new("drawing", 3)?;
//! for i in 0..3 {
//!     progress.step(&format!("picture {i}"));
//! }
//! assert_eq!(progress.done(), 3);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::kernel::in_kernel;

/// Lines printed over a whole run in a notebook, whose output is line-buffered and kept.
const LINES: usize = 10;
/// Shortest time between two drawings of the bar.
const FRAME: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 30;

/// How progress is shown.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::progress::Show;
/// let mut quiet = Progress::with("fit", 2, Show::Silent)?;
/// quiet.step("loss 0.5"); // counts, and prints nothing
/// assert_eq!(quiet.done(), 1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// About ten whole lines on standard output.
    Lines,
    /// One line that redraws itself on standard output.
    Bar,
    /// Nothing.
    Silent,
}

impl Show {
    /// Lines in a notebook; a bar if standard output is a terminal and this is the main thread (bars of several
    /// threads would overwrite each other, and tests run on threads of their own); else nothing.
    pub fn detect() -> Show {
        if in_kernel() {
            Show::Lines
        } else if std::io::stdout().is_terminal() && std::thread::current().name() == Some("main") {
            Show::Bar
        } else {
            Show::Silent
        }
    }
}

/// Counts the steps of a run and tells how long it will still take.
///
/// Checked by `tests/progress.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::progress::Show;
/// let mut progress = Progress::with("epoch", 10, Show::Silent)?;
/// progress.step("");
/// let line = progress.line("loss 0.5", std::time::Duration::from_secs(2));
/// assert_eq!(line, "epoch  1/10  loss 0.5  2.0 s elapsed, about 18 s left");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    what: String,
    total: usize,
    done: usize,
    show: Show,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Progress over `total` steps, shown as the place demands.
    ///
    /// Fails: `Config` if `total` is zero.
    pub fn new(what: &str, total: usize) -> Result<Progress> {
        Progress::with(what, total, Show::detect())
    }

    /// Progress that is shown as you say. Fails: `Config` if `total` is zero.
    pub fn with(what: &str, total: usize, show: Show) -> Result<Progress> {
        if total == 0 {
            return Err(Error::config(format!("steps of {what:?}"), total, "at least 1"));
        }
        let what = what.to_string();
        Ok(Progress { what, total, done: 0, show, started: Instant::now(), drawn: None })
    }

    /// Marks one step as done and shows it if it is time; `note` is a few words such as the loss.
    pub fn step(&mut self, note: &str) {
        self.done = (self.done + 1).min(self.total);
        if let Some(text) = self.due(note) {
            let mut out = std::io::stdout().lock();
            // Nobody is told if standard output is closed: progress is a courtesy, the run goes on.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Shows a line of its own where progress is shown.
    pub(crate) fn note(&self, note: &str) {
        if self.show != Show::Silent {
            let _ = writeln!(std::io::stdout().lock(), "{note}");
        }
    }

    /// Steps done so far.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Text to print after this step, if any.
    fn due(&mut self, note: &str) -> Option<String> {
        let last = self.done == self.total;
        match self.show {
            Show::Silent => None,
            // A line each time the count passes another tenth.
            Show::Lines => {
                let tenth = |done: usize| done * LINES / self.total;
                (last || tenth(self.done) > tenth(self.done - 1))
                    .then(|| self.line(note, self.started.elapsed()) + "\n")
            }
            Show::Bar => {
                let now = Instant::now();
                if !last && self.drawn.is_some_and(|drawn| now - drawn < FRAME) {
                    return None;
                }
                self.drawn = Some(now);
                let filled = WIDTH * self.done / self.total;
                let bar = "█".repeat(filled) + &"·".repeat(WIDTH - filled);
                let end = if last { "\n" } else { "" };
                Some(format!("\r\x1b[2K{bar} {}{end}", self.line(note, self.started.elapsed())))
            }
        }
    }

    /// One whole line: count, note, time spent, time left.
    pub fn line(&self, note: &str, elapsed: Duration) -> String {
        let width = self.total.to_string().len();
        let mut line = format!("{} {:>width$}/{}", self.what, self.done, self.total);
        if !note.is_empty() {
            line += &format!("  {note}");
        }
        line += &format!("  {} elapsed", clock(elapsed));
        if self.done > 0 && self.done < self.total {
            let left = elapsed.mul_f64((self.total - self.done) as f64 / self.done as f64);
            line += &format!(", about {} left", clock(left));
        }
        line
    }

    /// Shows where the run stands.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.line("", self.started.elapsed()));
    }
}

/// A duration as people say it.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{}:{:02} min", s as u64 / 60, s as u64 % 60),
        s => format!("{}:{:02} h", s as u64 / 3600, s as u64 / 60 % 60),
    }
}
