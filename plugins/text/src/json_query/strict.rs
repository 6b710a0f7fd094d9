//! Where `jaq` answers and `jq` fails: a division by zero, and a number as the key of an object.
//!
//! Both come from data that is not as the filter's writer thinks, and the answers, the largest number and null, would pass
//! for results. So the filter is rewritten before it is compiled: its divisions and its indices go through functions
//! that look first. What stands within a text goes through one as well, that writes it as `jq` does.
//!
//! Where both sides of an operator have many outputs, and where a text has many in it, they are combined in the order of `jq`.
//!
//! The functions for indices also make what an update leads through (`made`).

use std::iter;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::native::{Fun, bome, v};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part, Path};
use jaq_core::{Exn, Native};
use jaq_json::{Error, Num, Val};

use super::functions::Query;
use super::made;
use super::written::TO_TEXT;

/// The variable that keeps a divisor or an index. No filter can name it, for it is no word.
const KEPT: &str = "$ kept";

/// What fails on a divisor that is zero, and is a division else.
pub const DIVIDE: &str = " divide";

/// The same for the remainder.
pub const REMAINDER: &str = " remainder";

/// What fails on an object that is indexed by anything but a text, and is `.` else, also within a path.
const INDEXED: &str = "_indexed";

/// The same for `.[0]?`, where a failure is nothing.
const INDEXED_OPTIONAL: &str = "_indexed_optional";

/// Whether neither of them has anything to do. What is updated through them is copied, so filters that set something ask this
/// first.
const FITS: &str = "_fits";

/// More indices one after the other are no question, and each of them is a step deeper.
const MAX_CHECKED: usize = 16;

type Filter<'s> = Term<&'s str>;

pub fn divide(left: Val, right: Val) -> Result<Val, Error> {
    check_divisor(&left, &right)?;
    left / right
}

pub fn remainder(left: Val, right: Val) -> Result<Val, Error> {
    let (Val::Num(dividend), Val::Num(divisor)) = (&left, &right) else { return left % right };
    // As in `jq`, which takes the remainder of the whole parts.
    let (Some(dividend), Some(divisor)) = (whole(dividend), whole(divisor)) else {
        return Ok(Val::from(f64::NAN));
    };
    if divisor == Num::Int(0) {
        return Err(zero_divisor(&left, &right));
    }
    Ok(Val::Num(dividend % divisor))
}

/// Without the fraction. None is what is not a number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float beyond the range becomes the end of it, as in jq"
)]
fn whole(number: &Num) -> Option<Num> {
    let float = match number {
        Num::Int(_) | Num::BigInt(_) => return Some(number.clone()),
        Num::Float(number) => *number,
        Num::Dec(digits) => digits.parse().unwrap_or(f64::NAN),
    };
    (!float.is_nan()).then(|| Num::from_integral(float as i128))
}

/// The functions for indices, which are paths as well.
pub fn functions() -> [Fun<Query>; 3] {
    let indexed = Native::new(|mut cv| {
        let key = cv.0.pop_var();
        bome(check_key(&cv.1, &key).map(|()| cv.1))
    });
    let indexed = indexed
        .with_paths(|mut cv| {
            let key = cv.0.pop_var();
            Box::new(iter::once(check_key(&cv.1.0, &key).map(|()| cv.1).map_err(Exn::from)))
        })
        .with_update(|mut cv, update| {
            let key = cv.0.pop_var();
            match check_key(&cv.1, &key) {
                Ok(()) => made::update(cv.1, &key, update),
                Err(error) => bome(Err(error)),
            }
        });
    let optional = Native::new(|mut cv| {
        let key = cv.0.pop_var();
        Box::new(check_key(&cv.1, &key).is_ok().then_some(Ok(cv.1)).into_iter())
    });
    let optional = optional
        .with_paths(|mut cv| {
            let key = cv.0.pop_var();
            Box::new(check_key(&cv.1.0, &key).is_ok().then_some(Ok(cv.1)).into_iter())
        })
        .with_update(|mut cv, update| {
            let key = cv.0.pop_var();
            if check_key(&cv.1, &key).is_ok() { made::update(cv.1, &key, update) } else { bome(Ok(cv.1)) }
        });
    let fits = Native::new(|mut cv| {
        let key = cv.0.pop_var();
        let fits = check_key(&cv.1, &key).is_ok() && made::has_place(&cv.1, &key);
        bome(Ok(Val::Bool(fits)))
    });
    [(INDEXED, v(1), indexed), (INDEXED_OPTIONAL, v(1), optional), (FITS, v(1), fits)]
}

fn check_key(value: &Val, key: &Val) -> Result<(), Error> {
    match (value, key) {
        (Val::Obj(_), Val::TStr(_) | Val::BStr(_)) => Ok(()),
        (Val::Obj(_), key) => Err(Error::str(format!(
            "an object has no entry {key}, for its keys are texts: write it as .[\"{key}\"], or take its values with .[]"
        ))),
        _ => Ok(()),
    }
}

fn check_divisor(left: &Val, right: &Val) -> Result<(), Error> {
    match (left, right) {
        (Val::Num(_), Val::Num(divisor)) if *divisor == Num::Int(0) => Err(zero_divisor(left, right)),
        _ => Ok(()),
    }
}

fn zero_divisor(left: &Val, right: &Val) -> Error {
    Error::str(format!(
        "{left} cannot be divided by {right}: leave such values out with `select(. != 0)`, or give another value for \
         them with `if … then … else … end`"
    ))
}

/// Whether a filter sets anything, as with `=` or `+=`. Within a text that looks like it, it is taken for that too.
pub fn sets(filter: &str) -> bool {
    let bytes = filter.as_bytes();
    let byte = |at: Option<usize>| at.and_then(|at| bytes.get(at)).copied().unwrap_or_default();
    let is_set = |at: usize| byte(at.checked_add(1)) != b'=' && !b"=!<>".contains(&byte(at.checked_sub(1)));
    filter.match_indices('=').any(|(at, _)| is_set(at))
}

/// Rewrites a filter, and all that is within it. In place, for a filter may be deep, and the stack is not. Gives whether it
/// may have more than one output.
pub fn rewrite(filter: &mut Filter<'_>, sets: bool) -> bool {
    match filter {
        Term::Id | Term::Num(_) | Term::Break(_) | Term::Var(_) | Term::Arr(None) => false,
        Term::Recurse => true,
        Term::Str(..) => rewrite_text(filter, sets),
        Term::Obj(entries) => {
            let mut is_many = false;
            for (key, value) in entries {
                is_many |= rewrite(key, sets);
                is_many |= rewrite_all(value, sets);
            }
            is_many
        }
        Term::Arr(Some(term)) => {
            rewrite(term, sets);
            false
        }
        Term::Neg(term) | Term::Label(_, term) => rewrite(term, sets),
        Term::BinOp(left, operator, right) => {
            let is_left_many = rewrite(left, sets);
            let is_right_many = rewrite(right, sets);
            let is_comma = matches!(operator, BinaryOp::Comma);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                rewrite_pattern(pattern, sets);
            }
            divide_safely(filter);
            if is_left_many && is_right_many {
                take_right_first(filter);
            }
            is_left_many || is_right_many || is_comma
        }
        Term::Fold(_, source, pattern, steps) => {
            rewrite(source, sets);
            rewrite_pattern(pattern, sets);
            rewrite_all(steps, sets);
            true
        }
        Term::TryCatch(term, handler) => {
            let is_many = rewrite(term, sets);
            rewrite_all(handler.as_deref_mut(), sets) || is_many
        }
        Term::IfThenElse(branches, otherwise) => {
            let mut is_many = false;
            for (test, then) in branches {
                is_many |= rewrite(test, sets);
                is_many |= rewrite(then, sets);
            }
            rewrite_all(otherwise.as_deref_mut(), sets) || is_many
        }
        Term::Def(definitions, term) => {
            rewrite_all(definitions.iter_mut().map(|definition| &mut definition.body), sets);
            rewrite(term, sets)
        }
        // Of a function nothing is known, and what is done for those that may have many does no harm to one.
        Term::Call(_, arguments) => {
            rewrite_all(arguments, sets);
            true
        }
        Term::Path(term, Path(parts)) => {
            let mut is_many = rewrite(term, sets);
            for (part, _) in parts {
                is_many |= match part {
                    Part::Index(index) => rewrite(index, sets),
                    Part::Range(None, None) => true,
                    Part::Range(from, to) => rewrite_all(from.iter_mut().chain(to), sets),
                }
            }
            index_safely(filter, sets);
            is_many
        }
    }
}

/// Whether one of them may have more than one output.
fn rewrite_all<'f, 's: 'f>(filters: impl IntoIterator<Item = &'f mut Filter<'s>>, sets: bool) -> bool {
    let mut is_many = false;
    for filter in filters {
        is_many |= rewrite(filter, sets);
    }
    is_many
}

/// A text has what is in it in every combination, as `jq` has them: the first changes fastest. `jaq` lets the last do so.
#[inline(never)]
fn rewrite_text(filter: &mut Filter<'_>, sets: bool) -> bool {
    let Term::Str(format, parts) = filter else { return false };
    let is_plain = format.is_none();
    let mut many: Vec<usize> = Vec::new();
    for (index, part) in parts.iter_mut().enumerate() {
        if rewrite_part(part, is_plain, sets) {
            many.push(index);
        }
    }
    let format = *format;
    let is_many = !many.is_empty();
    // Each but the first is taken before what is left of it, and put behind that.
    let mut behind = Vec::new();
    while let Some(index) = many.pop().filter(|_| !many.is_empty()) {
        let Term::Str(_, parts) = filter else { break };
        let mut right = parts.split_off(index);
        if let Some(StrPart::Term(term)) = right.first_mut() {
            behind.push((std::mem::replace(term, Term::Var(KEPT)), right));
        }
    }
    for (term, right) in behind.into_iter().rev() {
        let left = Box::new(std::mem::take(filter));
        let both = Term::BinOp(left, BinaryOp::Math(Math::Add), Box::new(Term::Str(format, right)));
        *filter = kept(term, both);
    }
    is_many
}

fn rewrite_part(part: &mut StrPart<&str, Filter<'_>>, is_plain: bool, sets: bool) -> bool {
    let StrPart::Term(term) = part else { return false };
    let is_many = rewrite(term, sets);
    // A format, as in `@csv "\(.a)"`, makes a text by itself.
    if is_plain {
        let value = Box::new(std::mem::take(term));
        *term = Term::BinOp(value, BinaryOp::Pipe(None), Box::new(Term::Call(TO_TEXT, Vec::new())));
    }
    is_many
}

fn rewrite_pattern(pattern: &mut Pattern<&str>, sets: bool) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(entries) => entries.iter_mut().for_each(|entry| rewrite_pattern(entry, sets)),
        Pattern::Obj(entries) => {
            for (key, entry) in entries {
                rewrite(key, sets);
                rewrite_pattern(entry, sets);
            }
        }
    }
}

/// `l / r` becomes a call, and `l /= r` becomes `r as $kept | l |= . / $kept`.
#[inline(never)]
fn divide_safely(filter: &mut Filter<'_>) {
    let Term::BinOp(left, BinaryOp::Math(math) | BinaryOp::UpdateMath(math), right) = filter else { return };
    let name = match math {
        Math::Div => DIVIDE,
        Math::Rem => REMAINDER,
        Math::Add | Math::Sub | Math::Mul => return,
    };
    let (left, right) = (std::mem::take(&mut **left), std::mem::take(&mut **right));
    *filter = if matches!(filter, Term::BinOp(_, BinaryOp::Math(_), _)) {
        Term::Call(name, vec![left, right])
    } else {
        let divided = Term::Call(name, vec![Term::Id, Term::Var(KEPT)]);
        kept(right, Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(divided)))
    };
}

/// `l + r` becomes `r as $kept | l + $kept`, where both may have many outputs: `jq` takes each of the right with all of the
/// left, and `jaq` the other way round.
#[inline(never)]
fn take_right_first(filter: &mut Filter<'_>) {
    let right = match filter {
        Term::BinOp(_, BinaryOp::Math(_) | BinaryOp::Cmp(_), right) => &mut **right,
        Term::Call(DIVIDE | REMAINDER, arguments) => match arguments.last_mut() {
            Some(right) => right,
            None => return,
        },
        _ => return,
    };
    let right = std::mem::replace(right, Term::Var(KEPT));
    let then = std::mem::take(filter);
    *filter = kept(right, then);
}

fn kept<'s>(value: Filter<'s>, then: Filter<'s>) -> Filter<'s> {
    Term::BinOp(Box::new(value), BinaryOp::Pipe(Some(Pattern::Var(KEPT))), Box::new(then))
}

/// `t[i]` becomes `i as $kept | (t | _indexed($kept))[$kept]`.
///
/// The literal keys of most filters stay as they are. In one that sets something all keys go this way, and instead of the
/// function stands `if _fits($kept) then . else _indexed($kept) end`.
#[inline(never)]
fn index_safely(filter: &mut Filter<'_>, sets: bool) {
    let Term::Path(term, Path(parts)) = filter else { return };
    let (mut term, parts) = (std::mem::take(&mut **term), std::mem::take(parts));
    let mut safe = Vec::new();
    let mut checked = 0;
    for (part, optional) in parts {
        let index = match part {
            Part::Index(index) if (sets || !matches!(index, Term::Str(..))) && checked < MAX_CHECKED => index,
            part => {
                safe.push((part, optional));
                continue;
            }
        };
        if !safe.is_empty() {
            term = Term::Path(Box::new(term), Path(std::mem::take(&mut safe)));
        }
        let check = match optional {
            Opt::Optional => INDEXED_OPTIONAL,
            Opt::Essential => INDEXED,
        };
        checked += 1;
        // A number or a text means the same wherever it stands; all else is looked at once, and before the path.
        let is_literal = is_literal(&index);
        let key = if is_literal { index.clone() } else { Term::Var(KEPT) };
        let mut check = Term::Call(check, vec![key.clone()]);
        if sets {
            let fits = Term::Call(FITS, vec![key.clone()]);
            check = Term::IfThenElse(vec![(fits, Term::Id)], Some(Box::new(check)));
        }
        let base = Term::BinOp(Box::new(term), BinaryOp::Pipe(None), Box::new(check));
        term = Term::Path(Box::new(base), Path(vec![(Part::Index(key), optional)]));
        if !is_literal {
            term = kept(index, term);
        }
    }
    *filter = if safe.is_empty() { term } else { Term::Path(Box::new(term), Path(safe)) };
}

fn is_literal(index: &Filter<'_>) -> bool {
    match index {
        Term::Num(_) => true,
        Term::Str(None, parts) => !parts.iter().any(|part| matches!(part, StrPart::Term(_))),
        _ => false,
    }
}
