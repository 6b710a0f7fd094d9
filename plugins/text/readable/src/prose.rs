//! A text while it is being laid out: paragraphs, lists and quotes, with white space as a reader wants it.
//!
//! White space, line breaks and marks (as `**`) are kept back until text follows them. So none of them stands doubled,
//! at the end of a line, or around nothing, whatever the source does.

use crate::raised::{RAISED, Shift};

/// Deeper lists and quotes are laid out as if they were this deep: each line repeats the marks of all of them.
const MAX_CONTAINERS: usize = 12;

/// Emphasis within emphasis means nothing to a reader.
const MAX_MARKS: usize = 16;

/// More signs of emphasis do not stand together, but a page may have any number of stars.
const MAX_SIGNS: usize = 8;

/// The longest name of a character in HTML is shorter.
const MAX_REFERENCE_BYTES: usize = 40;

/// The name of the mark of a heading.
const HEADING: &str = "h";

#[derive(Default)]
pub struct Prose {
    written: String,
    containers: Vec<Container>,
    /// Containers that are open, and too deep to be shown.
    too_deep: usize,
    gap: Gap,
    /// Whether a line ends on purpose, which Markdown writes with two spaces.
    is_hard_break: bool,
    marks: Vec<Mark>,
    /// So many of the marks have begun; the others wait for text.
    begun_marks: usize,
    /// The marks that ended last, the outermost at the end, and where the text ended then.
    ended_marks: Vec<Mark>,
    ended_at: usize,
    is_markdown: bool,
    at_line_start: bool,
    /// How the next text is shifted, and what stands behind it.
    shift: Option<Shift>,
    shift_end: &'static str,
    /// Where text stands that is raised and without parentheses so far.
    raised_at: Option<usize>,
}

/// What comes before the next text.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Block,
}

/// A list entry or a quote: what stands before its first line, and before the others.
struct Container {
    first: String,
    rest: String,
    is_fresh: bool,
}

/// What stands around a part of a line.
#[derive(PartialEq)]
pub struct Mark {
    pub name: &'static str,
    pub start: String,
    pub end: String,
}

impl Mark {
    /// A link may stand around paragraphs. It goes into the first of them.
    fn waits_for_text(&self) -> bool {
        self.name == "a"
    }

    fn is_emphasis(&self) -> bool {
        !self.end.is_empty() && self.start == self.end
    }

    fn sign(&self) -> Option<char> {
        self.start.chars().next()
    }
}

impl Prose {
    pub fn text() -> Self {
        Self::default()
    }

    pub fn markdown() -> Self {
        Self { is_markdown: true, ..Self::default() }
    }

    /// An empty one of the same kind, with the links that still wait for text.
    pub fn another(&mut self) -> Self {
        let mut another = Self { is_markdown: self.is_markdown, ..Self::default() };
        self.hand_links_to(&mut another);
        another
    }

    /// Gives the links that still wait for text to another one.
    pub fn hand_links_to(&mut self, other: &mut Self) {
        let waiting = self.marks.split_off(self.begun_marks);
        let (links, others) = waiting.into_iter().partition(Mark::waits_for_text);
        self.marks.extend::<Vec<_>>(others);
        other.marks.extend::<Vec<_>>(links);
    }

    pub fn is_markdown(&self) -> bool {
        self.is_markdown
    }

    /// How many bytes are written.
    pub fn written_bytes(&self) -> usize {
        self.written.len()
    }

    /// Begins a part of the line that stands higher or lower.
    pub fn shift(&mut self, shift: Shift) {
        self.end_shift();
        self.shift = Some(shift);
    }

    pub fn end_shift(&mut self) {
        self.shift = None;
        self.raised_at = None;
        // Right behind its text, whatever space follows.
        self.written.push_str(std::mem::take(&mut self.shift_end));
    }

    /// Writes what stands before a part that is shifted. Gives whether anything does.
    fn begin_shift(&mut self, shift: Shift, text: &str) -> bool {
        // The signs of emphasis are none of the text.
        let before = self.written.chars().rev().take(MAX_SIGNS).find(|sign| *sign != '*');
        let before = before.filter(|_| self.gap == Gap::None);
        let (start, end) = before.map_or(("", ""), |before| shift.marks(before, text));
        // Before the marks of a link or of emphasis that wait for the text.
        self.written.push_str(start);
        self.shift_end = end;
        self.raised_at = (start == RAISED).then_some(self.written.len());
        !start.is_empty()
    }

    /// Puts parentheses around what is raised, for more of it comes, as `+1` in `2<sup><i>n</i>+1</sup>`.
    fn enclose_raised(&mut self) {
        if let Some(at) = self.raised_at.take() {
            self.written.insert(at, '(');
            self.shift_end = ")";
            if self.ended_at >= at {
                self.ended_at += 1;
            }
        }
    }

    /// Adds words, with a space wherever there is white space.
    pub fn words(&mut self, text: &str) {
        let (mut text, shifted) = (text, text.trim());
        if !shifted.is_empty() {
            match self.shift.take() {
                // A space in there parts words as any other, but not what is marked.
                Some(shift) if self.begin_shift(shift, shifted) => text = text.trim_start(),
                Some(_) => {}
                None => self.enclose_raised(),
            }
        }
        for (index, word) in text.split(char::is_whitespace).enumerate() {
            if index > 0 {
                self.space();
            }
            if word.is_empty() {
                continue;
            }
            if self.is_markdown {
                self.begin(word);
                let escaped = escape(word, self.place_of(word));
                self.put(&escaped);
            } else {
                self.raw(word);
            }
        }
    }

    fn place_of(&mut self, word: &str) -> Place {
        // A heading of Markdown may end with such signs too, and they are no part of it.
        if self.at_line_start || (word.starts_with('#') && self.is_in_heading()) {
            return Place::Line;
        }
        // Of a reference the beginning can be in another tag.
        if self.written.ends_with('&')
            && word.starts_with(|first: char| first == '#' || first.is_ascii_alphanumeric())
        {
            self.written.insert(self.written.len() - 1, '\\');
        }
        if self.written.ends_with(' ') { Place::Word } else { Place::Within }
    }

    /// Adds text as it is, within a line.
    pub fn raw(&mut self, text: &str) {
        if !text.is_empty() {
            self.begin(text);
            self.put(text);
        }
    }

    /// Adds lines as they are, as a block of their own.
    pub fn block(&mut self, text: &str) {
        self.end_block();
        // No mark can stand around such lines.
        let waiting = std::mem::take(&mut self.marks);
        for line in text.lines() {
            self.gap = self.gap.max(Gap::Line);
            self.begin(line);
            self.put(line);
        }
        self.marks = waiting;
        self.end_block();
    }

    pub fn space(&mut self) {
        self.gap = self.gap.max(Gap::Space);
    }

    /// Goes on in a new line of the same paragraph; twice, in a new one.
    pub fn break_line(&mut self) {
        // A heading of Markdown is one line.
        if self.is_in_heading() {
            return self.space();
        }
        if self.gap >= Gap::Line {
            return self.end_block();
        }
        self.gap = Gap::Line;
        self.is_hard_break = true;
    }

    fn is_in_heading(&self) -> bool {
        self.marks.iter().any(|mark| mark.name == HEADING)
    }

    pub fn end_line(&mut self) {
        self.end_shift();
        let waiting = self.marks.split_off(self.begun_marks);
        self.end_marks_to(0);
        self.marks.extend(waiting.into_iter().filter(Mark::waits_for_text));
        self.gap = self.gap.max(Gap::Line);
        self.is_hard_break = false;
    }

    pub fn end_block(&mut self) {
        self.end_line();
        // The mark of a list entry stands on the line of its text.
        if !self.containers.last().is_some_and(|container| container.is_fresh) {
            self.gap = Gap::Block;
        }
    }

    pub fn open_container(&mut self, first: &str, rest: &str) {
        self.end_line();
        if self.containers.len() == MAX_CONTAINERS {
            self.too_deep += 1;
            return;
        }
        self.containers.push(Container { first: first.to_owned(), rest: rest.to_owned(), is_fresh: true });
    }

    pub fn close_container(&mut self) {
        self.end_line();
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else {
            self.containers.pop();
        }
    }

    pub fn open_mark(&mut self, mut mark: Mark) {
        // The same once more says nothing, and Markdown would take its signs for the end.
        if mark.is_emphasis() && self.marks.iter().any(|open| open.name == mark.name) {
            mark.start.clear();
            mark.end.clear();
        }
        if self.marks.len() < MAX_MARKS {
            self.marks.push(mark);
        }
    }

    /// Opens a heading, which stands around a link that waits for its text.
    pub fn open_heading(&mut self, start: String) {
        self.end_block();
        self.marks.insert(0, Mark { name: HEADING, start, end: String::new() });
    }

    /// Ends the mark that was opened last under this name, and those within it.
    pub fn close_mark(&mut self, name: &str) {
        if let Some(index) = self.marks.iter().rposition(|mark| mark.name == name) {
            self.end_marks_to(index);
        }
    }

    pub fn finish(mut self) -> String {
        self.end_shift();
        self.end_marks_to(0);
        self.written
    }

    fn end_marks_to(&mut self, index: usize) {
        while self.marks.len() > index {
            let Some(mark) = self.marks.pop() else { return };
            // A mark that never began stands around nothing.
            if self.begun_marks > self.marks.len() {
                self.begun_marks = self.marks.len();
                if self.ended_at != self.written.len() {
                    self.ended_marks.clear();
                }
                self.written.push_str(&mark.end);
                self.ended_marks.push(mark);
                self.ended_at = self.written.len();
            }
        }
    }

    /// Lets emphasis begin or end right before `next`.
    ///
    /// By CommonMark (6.2) it does neither between a letter and a sign that is on the inside, as in `**Note:**text`. A sign
    /// that ends a phrase goes out of it, and else an empty comment parts the two.
    fn part_marks(&mut self, next: &str) {
        let mut waiting =
            self.marks[self.begun_marks..].iter().filter(|mark| !mark.start.is_empty()).peekable();
        let ended = if self.ended_at == self.written.len() { self.ended_marks.as_slice() } else { &[] };
        let mut ended = ended.iter().rev().filter(|mark| !mark.end.is_empty()).peekable();
        let sign = match (ended.peek(), waiting.peek()) {
            // It goes on.
            (Some(ended), Some(begins)) if ended == begins => return,
            (Some(ended), Some(begins)) if ended.sign() != begins.sign() => return,
            (Some(mark), _) | (None, Some(mark)) if mark.is_emphasis() => mark.sign(),
            _ => return,
        };
        // Those of one sign are one run.
        let is_in_run = |mark: &&Mark| mark.is_emphasis() && mark.sign() == sign;
        let begins = waiting.next_if(is_in_run).is_some();
        let ends: usize = std::iter::from_fn(|| ended.next_if(is_in_run)).map(|mark| mark.end.len()).sum();
        let inner = waiting.find(|mark| !is_in_run(mark)).map_or(next, |mark| &mark.start);
        let mut before = self.written[..self.written.len() - ends].chars().rev();
        let (Some(left), Some(right)) = (before.next(), inner.chars().next()) else { return };
        let is_unread = (ends > 0 && is_sign(left) && right.is_alphanumeric())
            || (begins && left.is_alphanumeric() && is_sign(right));
        if !is_unread {
            return;
        }
        if !begins && ":;,.!?".contains(left) && before.next().is_some_and(char::is_alphanumeric) {
            let marks = self.written.split_off(self.written.len() - ends);
            self.written.pop();
            self.written.push_str(&marks);
            self.written.push(left);
        } else {
            self.written.push_str("<!-- -->");
        }
        self.ended_marks.clear();
    }

    /// Writes how the marks begin that wait for text. One that is the same as the one that just ended goes on.
    fn begin_marks(&mut self) {
        let mut may_go_on = self.ended_at == self.written.len();
        for mark in &self.marks[self.begun_marks..] {
            let ended = self.ended_marks.pop().filter(|ended| may_go_on && ended == mark);
            may_go_on = ended.is_some();
            match ended {
                Some(ended) => self.written.truncate(self.written.len() - ended.end.len()),
                None => {
                    // Right behind such a sign a link would be an image.
                    if mark.start == "[" && self.written.ends_with('!') {
                        self.written.insert(self.written.len() - 1, '\\');
                    }
                    self.written.push_str(&mark.start);
                }
            }
        }
        self.ended_marks.clear();
        self.begun_marks = self.marks.len();
    }

    /// Writes what was kept back, for text follows.
    fn begin(&mut self, next: &str) {
        match self.gap {
            _ if self.written.is_empty() => self.begin_line(),
            Gap::None if self.is_markdown => self.part_marks(next),
            Gap::None => {}
            Gap::Space if self.at_line_start => {}
            Gap::Space => self.written.push(' '),
            Gap::Line => {
                if self.is_markdown && self.is_hard_break {
                    self.written.push_str("  ");
                }
                self.new_line();
            }
            Gap::Block => {
                self.new_empty_line();
                self.new_line();
            }
        }
        self.gap = Gap::None;
        self.is_hard_break = false;
        self.begin_marks();
    }

    fn put(&mut self, text: &str) {
        self.written.push_str(text);
        self.at_line_start = false;
    }

    fn new_line(&mut self) {
        self.written.push('\n');
        self.begin_line();
    }

    fn begin_line(&mut self) {
        for container in &mut self.containers {
            self.written.push_str(if container.is_fresh { &container.first } else { &container.rest });
            container.is_fresh = false;
        }
        self.at_line_start = true;
    }

    /// A line with nothing but what goes on over it, as the mark of a quote.
    fn new_empty_line(&mut self) {
        self.written.push('\n');
        let start = self.written.len();
        for container in self.containers.iter().take_while(|container| !container.is_fresh) {
            self.written.push_str(&container.rest);
        }
        let length = self.written[start..].trim_end().len();
        self.written.truncate(start + length);
    }
}

/// Where a word begins.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// At the start of a line.
    Line,
    /// Behind a space.
    Word,
    /// Right behind something else.
    Within,
}

/// Puts a backslash before what Markdown would take for a mark.
pub fn escape(word: &str, place: Place) -> String {
    let mut escaped = String::with_capacity(word.len() + 2);
    // Of `1.` the dot is the mark.
    let block_mark = (place == Place::Line && begins_block(word))
        .then(|| word.bytes().take_while(u8::is_ascii_digit).count());
    for (index, sign) in word.char_indices() {
        let rest = &word[index + sign.len_utf8()..];
        let is_mark = match sign {
            _ if block_mark == Some(index) => true,
            '\\' | '*' | '`' | '[' | ']' | '<' => true,
            // Between letters it is no mark: `snake_case`.
            '_' => {
                !(word[..index].ends_with(char::is_alphanumeric) && rest.starts_with(char::is_alphanumeric))
            }
            // Alone it can only begin something, and nothing ends it: `~5`.
            '~' => index > 0 || place != Place::Word || rest.is_empty() || rest.starts_with('~'),
            '&' => begins_reference(rest),
            _ => false,
        };
        if is_mark {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

/// Whether what follows a `&` makes a character of it, as in `&lt;` and `&#60;`. Which names there are matters not.
fn begins_reference(rest: &str) -> bool {
    let Some(end) = rest.bytes().take(MAX_REFERENCE_BYTES).position(|sign| sign == b';') else {
        return false;
    };
    let name = &rest[..end];
    let digits = name.trim_start_matches(['#', 'x', 'X']);
    match name.strip_prefix('#') {
        Some(_) => !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !name.is_empty() && name.bytes().all(|sign| sign.is_ascii_alphanumeric()),
    }
}

/// What CommonMark takes for punctuation, and a little more.
fn is_sign(sign: char) -> bool {
    !sign.is_alphanumeric() && !sign.is_whitespace()
}

/// Whether a word at the start of a line would begin a heading, a quote, a list or a rule, or underline a heading.
fn begins_block(word: &str) -> bool {
    let after_digits = word.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let is_all = |mark: u8| word.bytes().all(|sign| sign == mark);
    word == "+"
        || word.starts_with('>')
        || is_all(b'#')
        || is_all(b'-')
        || is_all(b'=')
        || (after_digits.len() < word.len() && matches!(after_digits, "." | ")"))
}
