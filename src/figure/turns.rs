//! Frames that take turns in one picture. What all of them show is written once, however many there are.

use std::collections::HashMap;
use std::fmt::Write;

use super::canvas::escape;

/// Elements between two parts that move are kept once only if they are longer than this, in bytes: the group that
/// every frame then needs on their other side is about as long.
const WORTH: usize = 256;

/// One frame: what is said about it, and its elements one below the other.
pub(super) struct Frame {
    pub caption: String,
    pub title: String,
    pub body: String,
}

/// A stretch of the drawing: what each frame shows of its own, and then what all of them show.
struct Stretch {
    own: Vec<String>,
    shared: String,
}

/// The frames as groups, each seen for `seconds` in its turn, between the elements that all of them share.
///
/// A group says which frame it belongs to, from 1. A frame has one for its title, with its caption as `aria-label` and
/// the height of the page that the titles take as `data-height`; whoever shows the caption elsewhere may cut that off.
/// A reader that does not animate goes by the attribute of the groups, so there only the last frame is seen; nothing
/// inside may have a visibility of its own.
pub(super) fn write(frames: &[Frame], titles: i32, seconds: f64) -> String {
    let n = frames.len();
    let mut text = String::new();
    let group = |text: &mut String, i: usize, more: &str, inside: &str| {
        let still = if i + 1 == n { "visible" } else { "hidden" };
        let turn = turn(i, n, seconds);
        let _ =
            write!(text, "<g data-frame=\"{}\" visibility=\"{still}\"{more}>\n{turn}\n{inside}</g>\n", i + 1);
    };
    for (i, frame) in frames.iter().enumerate() {
        let more = format!(" aria-label=\"{}\" data-height=\"{titles}\"", escape(&frame.caption));
        group(&mut text, i, &more, &frame.title);
    }
    let bodies: Vec<Vec<&str>> = frames.iter().map(|frame| elements(&frame.body)).collect();
    for stretch in stretches(&bodies) {
        for (i, own) in stretch.own.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
            group(&mut text, i, "", own);
        }
        text.push_str(&stretch.shared);
    }
    text
}

/// The animation that shows frame `i` of `n` in its turn: hidden before and after, for ever.
fn turn(i: usize, n: usize, seconds: f64) -> String {
    // The end of one turn and the start of the next are the same text, so that one frame is seen at any time.
    let micro = |value: f64| (value * 1e6).round() / 1e6;
    let [from, to] = [i, i + 1].map(|k| micro(k as f64 / n as f64));
    let (values, times) = match i {
        0 => ("visible;hidden", format!("0;{to}")),
        _ if i + 1 == n => ("hidden;visible", format!("0;{from}")),
        _ => ("hidden;visible;hidden", format!("0;{from};{to}")),
    };
    format!(
        "<animate attributeName=\"visibility\" values=\"{values}\" keyTimes=\"{times}\" dur=\"{}s\" \
         calcMode=\"discrete\" repeatCount=\"indefinite\"/>",
        micro(n as f64 * seconds),
    )
}

/// The elements of a drawing, none of which contains another: a line that closes itself, or lines up to an end tag.
fn elements(body: &str) -> Vec<&str> {
    let mut list = Vec::new();
    let (mut start, mut end) = (0, 0);
    for line in body.split_inclusive('\n') {
        end += line.len();
        if line.trim_end().ends_with("/>") || line.starts_with("</") {
            list.push(&body[start..end]);
            start = end;
        }
    }
    list.extend(Some(&body[start..]).filter(|rest| !rest.is_empty()));
    list
}

/// Elements that all frames have, in an order that is that of every frame.
fn common<'a>(frames: &[Vec<&'a str>]) -> Vec<&'a str> {
    let [first, rest @ ..] = frames else { return Vec::new() };
    let mut shared = first.clone();
    for frame in rest {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, element) in frame.iter().enumerate() {
            places.entry(element).or_default().push(place);
        }
        let mut from = 0;
        shared.retain(|element| {
            let list = places.get(element).map_or(&[][..], Vec::as_slice);
            let next = list.get(list.partition_point(|place| *place < from));
            from = next.map_or(from, |place| place + 1);
            next.is_some()
        });
    }
    shared
}

/// The drawing of all frames, cut where frames differ. What lies above what stays so: each frame's own elements and
/// the shared ones come in the order in which the frame drew them.
fn stretches(frames: &[Vec<&str>]) -> Vec<Stretch> {
    let shared = common(frames);
    let mut rest: Vec<&[&str]> = frames.iter().map(Vec::as_slice).collect();
    // How many elements a frame has before the next shared one, or before its end.
    let before = |frame: &[&str], next: Option<&&str>| {
        frame.iter().position(|element| Some(element) == next).unwrap_or(frame.len())
    };
    let mut list: Vec<Stretch> = Vec::new();
    for next in shared.iter().map(Some).chain([None]) {
        let own: Vec<String> = rest.iter().map(|frame| frame[..before(frame, next)].concat()).collect();
        for frame in &mut rest {
            let passed = before(frame, next) + usize::from(next.is_some());
            *frame = &frame[passed.min(frame.len())..];
        }
        let shared = next.map_or(String::new(), |element| element.to_string());
        match list.last_mut() {
            Some(last) if own.iter().all(String::is_empty) => last.shared.push_str(&shared),
            // Before the first part that moves, nothing is too short.
            Some(last) if last.shared.len() < WORTH && last.own.iter().any(|own| !own.is_empty()) => {
                for (whole, own) in last.own.iter_mut().zip(own) {
                    *whole = [whole.as_str(), &last.shared, &own].concat();
                }
                last.shared = shared;
            }
            _ => list.push(Stretch { own, shared }),
        }
    }
    list
}
