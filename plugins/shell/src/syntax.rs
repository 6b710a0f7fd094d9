//! The syntax tree of a script.

use std::cell::RefCell;
use std::rc::Rc;

/// Commands that run one after the other.
pub type List = Vec<AndOr>;

/// Pipelines joined by `&&` (true) and `||` (false).
#[derive(Debug)]
pub struct AndOr {
    pub first: Pipeline,
    pub rest: Vec<(bool, Pipeline)>,
    /// `&` after it.
    pub is_background: bool,
}

#[derive(Debug)]
pub struct Pipeline {
    pub is_negated: bool,
    /// `time` before it.
    pub timing: Option<Timing>,
    pub stages: Vec<Stage>,
}

/// How `time` writes what it measured.
#[derive(Clone, Copy, Debug)]
pub enum Timing {
    /// Minutes and seconds.
    Bash,
    /// `-p`: seconds.
    Posix,
}

#[derive(Debug)]
pub struct Stage {
    pub command: Command,
    /// `|&` after it: its errors go into the pipe too.
    pub pipes_errors: bool,
}

#[derive(Debug)]
pub enum Command {
    Simple(Simple),
    Compound(Box<Compound>, Vec<Redirect>),
    Function(String, Rc<Command>),
}

#[derive(Debug, Default)]
pub struct Simple {
    /// The line where it begins, from 1.
    pub line: usize,
    pub assignments: Vec<Assignment>,
    pub arguments: Vec<Argument>,
    pub redirects: Vec<Redirect>,
}

/// An argument. Arguments of `declare`, `local`, `export` and `readonly` may be assignments, whose values are not split.
#[derive(Debug)]
pub enum Argument {
    Word(Word),
    Assignment(Assignment),
}

#[derive(Debug)]
pub struct Assignment {
    pub name: String,
    pub subscript: Option<Word>,
    /// `+=`
    pub appends: bool,
    pub value: Assigned,
}

#[derive(Debug)]
pub enum Assigned {
    Word(Word),
    /// `(a [key]=b)`
    Array(Vec<(Option<Word>, Word)>),
}

#[derive(Debug)]
pub enum Compound {
    Subshell(List),
    Group(List),
    If(Vec<(List, List)>, List),
    /// `while`, or `until` where true.
    Loop(bool, List, List),
    /// Without words, over the positional parameters.
    For(String, Option<Vec<Word>>, List),
    ForArithmetic([Word; 3], List),
    Case(Word, Vec<Arm>),
    Test(Test),
    Arithmetic(Word),
}

#[derive(Debug)]
pub struct Arm {
    pub patterns: Vec<Word>,
    pub body: List,
    pub end: ArmEnd,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArmEnd {
    /// `;;`
    Leave,
    /// `;&`
    FallThrough,
    /// `;;&`
    TestNext,
}

/// An expression of `[[ ]]`.
#[derive(Debug)]
pub enum Test {
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Unary(String, Word),
    Binary(Word, String, Word),
}

#[derive(Debug)]
pub struct Redirect {
    /// The file descriptor; `&>` has both 1 and 2.
    pub descriptors: Vec<u32>,
    pub target: Target,
}

#[derive(Debug)]
pub enum Target {
    Read(Word),
    Write(Word),
    Append(Word),
    Descriptor(Word),
    /// A here-document, whose text is read after its line, or a here-string.
    Text(Rc<RefCell<Word>>),
}

pub type Word = Vec<Part>;

#[derive(Clone, Debug)]
pub enum Part {
    Literal(String),
    /// Text that is neither split nor a pattern.
    Quoted(String),
    Double(Word),
    Parameter(Rc<Parameter>),
    /// `$( )`
    Command(Rc<List>),
    /// `<( )`
    Process(Rc<List>),
    /// `>( )`
    Consumer(Rc<List>),
    /// `$(( ))`
    Arithmetic(Rc<Word>),
}

#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    pub subscript: Option<Word>,
    pub operation: Operation,
}

#[derive(Debug)]
pub enum Operation {
    Value,
    Length,
    /// `${!name}`, and the keys of an array
    Indirect,
    /// `${!prefix*}`
    Names,
    /// `-`, `=`, `+` or `?`; with a colon, an empty value is as an unset one.
    Default(char, bool, Word),
    /// `#` and `##`, or `%` and `%%` where the first is true.
    Remove {
        from_end: bool,
        longest: bool,
        pattern: Word,
    },
    /// `/`, `//`, `/#`, `/%`
    Replace {
        kind: char,
        pattern: Word,
        replacement: Word,
    },
    Substring(Word, Option<Word>),
    /// `^`, `^^`, `,` and `,,`
    Case {
        upper: bool,
        all: bool,
    },
    /// `@Q` and the like
    Transform(char),
}

/// A plain word without quotes and expansions.
pub fn plain(word: &Word) -> Option<&str> {
    match word.as_slice() {
        [Part::Literal(text)] => Some(text),
        _ => None,
    }
}
