//! Trees of questions with a picture or a name at every end.

use super::canvas::{Anchor, Canvas, GREY, INK};
use super::font::{CAP, fit, text_width};
use super::geometry::{Point, Rect};
use super::images::Image;
use super::panel::Theme;
use super::save::Entry;
use super::{Chart, Figure};
use crate::error::{Error, Result};

/// A question with two ways on, or an end.
///
/// ```
/// use lastlayer::prelude::*;
/// let grey = Image::grey(2, 2, &[90; 4])?;
/// let root = Branch::question("stripes?", Branch::leaf("zebra").image(grey), Branch::leaf("horse"));
/// assert!(tree(&root)?.svg().contains("zebra"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    label: String,
    image: Option<Image>,
    /// What follows from yes, then from no.
    ways: Vec<Branch>,
    /// Questions to the furthest end, and number of ends.
    depth: usize,
    ends: usize,
}

impl Branch {
    /// An end.
    pub fn leaf(label: &str) -> Branch {
        Branch { label: label.to_string(), image: None, ways: Vec::new(), depth: 0, ends: 1 }
    }

    /// A question, what follows from yes, and what follows from no.
    pub fn question(label: &str, yes: Branch, no: Branch) -> Branch {
        let (depth, ends) = (1 + yes.depth.max(no.depth), yes.ends + no.ends);
        Branch { label: label.to_string(), image: None, ways: vec![yes, no], depth, ends }
    }

    /// Puts a picture at an end.
    pub fn image(mut self, image: Image) -> Branch {
        self.image = Some(image);
        self
    }
}

/// Tree of questions, from the left; ends stand in one column on the right.
///
/// The height follows from the number of ends. Fails: `Config` for more than 12 questions in a row or 100 ends.
///
/// ```
/// use lastlayer::prelude::*;
/// let small = Branch::question("purrs?", Branch::leaf("cat"), Branch::leaf("ferret"));
/// let figure = tree(&Branch::question("smaller than a dog?", small, Branch::leaf("horse")))?;
/// assert!(figure.csv().starts_with("node,parent,answer,label\n"));
/// assert_eq!(figure.csv().lines().count(), 1 + 5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn tree(root: &Branch) -> Result<Figure> {
    if root.depth > 12 || root.ends > 100 {
        let got = format!("{} questions deep with {} ends", root.depth, root.ends);
        return Err(Error::config("tree", got, "at most 12 questions deep and 100 ends; draw a part of it"));
    }
    Ok(Figure::new(Chart::Tree(root.clone())))
}

const ANSWERS: [&str; 2] = ["yes", "no"];
/// Dashes of the way from no.
const NO: [f64; 2] = [4.0, 3.0];

impl Branch {
    fn pictured(&self) -> bool {
        self.image.is_some() || self.ways.iter().any(Branch::pictured)
    }

    fn row(&self, theme: &Theme) -> f64 {
        theme.text * if self.pictured() { 3.4 } else { 1.8 }
    }

    /// Height that the tree needs.
    pub(super) fn height(&self, theme: &Theme) -> f64 {
        self.ends as f64 * self.row(theme) + 4.0
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme) {
        let widest = self.widest_end(theme);
        let picture = if self.pictured() { self.row(theme) + 2.0 } else { 0.0 };
        let column = (outer.width() - widest - picture - 6.0) / self.depth.max(1) as f64;
        let layout = Layout {
            left: outer.left,
            column,
            row: outer.height() / self.ends as f64,
            ends: outer.left + self.depth as f64 * column,
            theme,
        };
        layout.draw(canvas, self, 0, outer.top);
    }

    fn widest_end(&self, theme: &Theme) -> f64 {
        match self.ways.is_empty() {
            true => text_width(&self.label, theme.text),
            false => self.ways.iter().map(|way| way.widest_end(theme)).fold(0.0, f64::max),
        }
    }

    pub(super) fn describe(&self) -> String {
        match &self.ways[..] {
            [yes, no] => format!("{}? yes: {}; no: {}", self.label, yes.nested(), no.nested()),
            _ => self.label.clone(),
        }
    }

    fn nested(&self) -> String {
        if self.ways.is_empty() { self.describe() } else { format!("({})", self.describe()) }
    }

    pub(super) fn names(&self) -> Vec<(String, usize)> {
        match self.ways.is_empty() {
            true => vec![(self.label.clone(), 1)],
            false => self.ways.iter().flat_map(Branch::names).collect(),
        }
    }

    /// One row per question and end: its number, the number it hangs from, the answer that leads to it, its words.
    pub(super) fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        let mut waiting = vec![(self, None)];
        let mut number = 0;
        while let Some((branch, from)) = waiting.pop() {
            let (parent, answer) = match from {
                None => (Entry::Empty, Entry::Empty),
                Some((parent, way)) => (Entry::Count(parent), Entry::Text(ANSWERS[way])),
            };
            emit(&[Entry::Count(number), parent, answer, Entry::Text(&branch.label)]);
            let ways = branch.ways.iter().enumerate().rev();
            waiting.extend(ways.map(|(way, next)| (next, Some((number, way)))));
            number += 1;
        }
    }
}

/// Where things stand: questions by depth in columns, ends in rows.
struct Layout<'a> {
    left: f64,
    column: f64,
    row: f64,
    ends: f64,
    theme: &'a Theme,
}

impl Layout<'_> {
    /// Draws a branch whose first end is the row at `top`; returns the height at which it is entered.
    fn draw(&self, canvas: &mut Canvas, branch: &Branch, depth: usize, top: f64) -> f64 {
        let size = self.theme.text;
        let [yes, no] = &branch.ways[..] else {
            let y = top + self.row / 2.0;
            let mut x = self.ends;
            if let Some(image) = &branch.image {
                let half = 0.47 * self.row;
                let area = Rect { left: x, top: y - half, right: x + 2.0 * half, bottom: y + half };
                canvas.image(&image.pixels(), area, false);
                x = area.right + 6.0;
            }
            canvas.text_middle(&branch.label, (x, y), Anchor::Start, size, INK);
            return y;
        };
        let upper = self.draw(canvas, yes, depth + 1, top);
        let lower = self.draw(canvas, no, depth + 1, top + yes.ends as f64 * self.row);
        let y = (upper + lower) / 2.0;
        let x = self.left + depth as f64 * self.column;
        let gap = 4.0;
        // Room for the answer between the fork and what it leads to.
        let fork = x + self.column - text_width("yes", size) - 2.0 * gap;
        let label = fit(&branch.label, size, fork - x - 2.0 * gap);
        canvas.text_middle(&label, (x, y), Anchor::Start, size, INK);
        canvas.line(&[(x + text_width(&label, size) + gap, y), (fork, y)], GREY, self.theme.line);
        for (way, (end, to)) in [(upper, yes), (lower, no)].into_iter().enumerate() {
            let next = if to.ways.is_empty() { self.ends } else { x + self.column };
            let line: [Point; 3] = [(fork, y), (fork, end), (next - gap, end)];
            canvas.dashed(&line, GREY, self.theme.line, if way == 0 { &[] } else { &NO });
            let above = end - size * (1.0 - CAP) - 1.0;
            canvas.text(ANSWERS[way], (fork + gap, above), Anchor::Start, 0.85 * size, GREY);
        }
        y
    }
}
