//! The syntax tree of an awk program.

use std::rc::Rc;

use crate::regular::Regular;

#[derive(Debug)]
pub enum Expression {
    Number(f64),
    Text(Rc<str>),
    Regular(Rc<Pattern>),
    Variable(Name),
    Field(Box<Expression>),
    Entry(Name, Vec<Expression>),
    Assign(Option<Operator>, Box<Expression>, Box<Expression>),
    Conditional(Box<[Expression; 3]>),
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    ToNumber(Box<Expression>),
    Binary(Operator, Box<[Expression; 2]>),
    /// With true, `!~`.
    Match(bool, Box<[Expression; 2]>),
    In(Vec<Expression>, Name),
    Concatenation(Vec<Expression>),
    /// A change by one, before or after the value is taken.
    Step {
        target: Box<Expression>,
        by: f64,
        is_prefix: bool,
    },
    Builtin(Builtin, Vec<Expression>),
    Call(String, Vec<Expression>),
    Getline {
        source: Source,
        target: Option<Box<Expression>>,
    },
    Group(Box<Expression>),
}

pub struct Pattern {
    pub regular: Regular,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Pattern")
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Name {
    Global(usize),
    Local(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
pub enum Source {
    Input,
    File(Box<Expression>),
    Command(Box<Expression>),
}

#[derive(Clone, Copy, Debug)]
pub enum Builtin {
    Asort,
    Asorti,
    Atan2,
    Close,
    Fflush,
    Gensub,
    Gsub,
    Index,
    Length,
    Match,
    /// A function of one number.
    Number(fn(f64) -> f64),
    Rand,
    Split,
    Sprintf,
    Srand,
    Strftime,
    Sub,
    Substr,
    System,
    Systime,
    Tolower,
    Toupper,
}

pub const BUILTINS: [(&str, Builtin); 27] = [
    ("atan2", Builtin::Atan2),
    ("close", Builtin::Close),
    ("cos", Builtin::Number(f64::cos)),
    ("exp", Builtin::Number(f64::exp)),
    ("fflush", Builtin::Fflush),
    ("gensub", Builtin::Gensub),
    ("gsub", Builtin::Gsub),
    ("index", Builtin::Index),
    ("int", Builtin::Number(f64::trunc)),
    ("length", Builtin::Length),
    ("log", Builtin::Number(f64::ln)),
    ("match", Builtin::Match),
    ("rand", Builtin::Rand),
    ("sin", Builtin::Number(f64::sin)),
    ("split", Builtin::Split),
    ("sprintf", Builtin::Sprintf),
    ("sqrt", Builtin::Number(f64::sqrt)),
    ("srand", Builtin::Srand),
    ("strftime", Builtin::Strftime),
    ("sub", Builtin::Sub),
    ("substr", Builtin::Substr),
    ("system", Builtin::System),
    ("systime", Builtin::Systime),
    ("tolower", Builtin::Tolower),
    ("toupper", Builtin::Toupper),
    ("asort", Builtin::Asort),
    ("asorti", Builtin::Asorti),
];

#[derive(Debug)]
pub enum Statement {
    Expression(Expression),
    Print { arguments: Vec<Expression>, is_format: bool, target: Option<(Redirect, Expression)> },
    If(Expression, Box<Statement>, Option<Box<Statement>>),
    While(Expression, Box<Statement>),
    DoWhile(Box<Statement>, Expression),
    For(Option<Box<Statement>>, Option<Expression>, Option<Box<Statement>>, Box<Statement>),
    ForIn(Expression, Name, Box<Statement>),
    Block(Vec<Statement>),
    Delete(Name, Option<Vec<Expression>>),
    Next,
    NextFile,
    Exit(Option<Expression>),
    Return(Option<Expression>),
    Break,
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Redirect {
    Write,
    Append,
    Command,
}

#[derive(Debug)]
pub enum When {
    Begin,
    End,
    Always,
    If(Expression),
    /// From one match to another; the number is that of its state.
    Range(Expression, Expression, usize),
}

#[derive(Debug)]
pub struct Function {
    pub parameters: usize,
    pub body: Statement,
}

#[derive(Debug, Default)]
pub struct Program {
    pub rules: Vec<(When, Option<Statement>)>,
    pub functions: std::collections::HashMap<String, Rc<Function>>,
    pub globals: Vec<String>,
    pub ranges: usize,
}
