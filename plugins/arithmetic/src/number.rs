//! Numbers that never lie: exact fractions, or an interval in which the true value is.
//!
//! A fraction that grows beyond the cap goes on as an interval, so that no question of ordinary size is refused.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::Ratio;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::effort::{Effort, limbs};
use crate::fraction::{self, Rational, compare, exact_root, power_of_ten, reduced};
use crate::interval::Interval;
use crate::series;

/// What a number may have before and after its point together. Enough for `2500!`; the work for one operation on
/// numbers of this size stays well within a call's fuel.
pub const MAX_NUMBER_DIGITS: u64 = 10_000;

pub const MAX_BITS: u64 = MAX_NUMBER_DIGITS * 3_322 / 1_000;

/// A number, exact or between bounds.
#[derive(Clone, Debug)]
pub enum Number {
    Exact(Rational),
    Between(Interval),
}

/// Why an operation has no result.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// Whatever the precision.
    Impossible(String),
    /// With this precision.
    Undecided,
    /// Within the work that one call may do.
    TooMuchWork,
}

pub type Outcome<T = Number> = Result<T, Failure>;

/// What a number is rounded from: the whole number below it, and what decides whether the next one is meant.
struct Rounding {
    below: BigInt,
    is_negative: bool,
    is_whole: bool,
    to_half: Ordering,
}

impl Number {
    pub fn whole(value: impl Into<BigInt>) -> Self {
        Self::Exact(Ratio::from_integer(value.into()))
    }

    /// The value, if it is an exact whole number.
    pub fn as_whole(&self) -> Option<&BigInt> {
        match self {
            Self::Exact(value) if value.is_integer() => Some(value.numer()),
            _ => None,
        }
    }

    /// The exact value, or as an interval if it is too long and yet of a size that is kept.
    fn kept(value: Rational, effort: &Effort) -> Outcome {
        if value.numer().bits().max(value.denom().bits()) <= MAX_BITS {
            return Ok(Self::Exact(value));
        }
        if value.is_integer() {
            return Err(too_large(None));
        }
        Interval::of(&value, effort).map(Self::Between)
    }

    fn interval(&self, effort: &Effort) -> Outcome<Interval> {
        match self {
            Self::Exact(value) => Interval::of(value, effort),
            Self::Between(interval) => Ok(interval.clone()),
        }
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Exact(value) if value.is_zero())
    }

    /// Whether it is certain.
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_positive(),
            Self::Between(interval) => interval.is_positive(),
        }
    }

    /// Whether it is certain.
    pub fn is_negative(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_negative(),
            Self::Between(interval) => interval.is_negative(),
        }
    }

    pub fn negate(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value),
            Self::Between(interval) => Self::Between(interval.negate()),
        }
    }

    pub fn abs(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(value.abs()),
            Self::Between(interval) => Self::Between(interval.abs()),
        }
    }

    pub fn add(&self, other: &Self, effort: &Effort) -> Outcome {
        if let (Self::Exact(left), Self::Exact(right)) = (self, other) {
            return Self::kept(fraction::sum(left, right, effort)?, effort);
        }
        self.interval(effort)?.add(&other.interval(effort)?, effort).map(Self::Between)
    }

    pub fn subtract(&self, other: &Self, effort: &Effort) -> Outcome {
        self.add(&other.negate(), effort)
    }

    pub fn multiply(&self, other: &Self, effort: &Effort) -> Outcome {
        if self.is_zero() || other.is_zero() {
            return Ok(Self::whole(0));
        }
        if let (Self::Exact(left), Self::Exact(right)) = (self, other) {
            return Self::kept(fraction::product(left, right, effort)?, effort);
        }
        self.interval(effort)?.multiply(&other.interval(effort)?, effort).map(Self::Between)
    }

    pub fn divide(&self, other: &Self, effort: &Effort) -> Outcome {
        if other.is_zero() {
            return Err(impossible("division by zero"));
        }
        if let Self::Exact(divisor) = other {
            return self.multiply(&Self::Exact(divisor.recip()), effort);
        }
        self.interval(effort)?.divide(&other.interval(effort)?, effort).map(Self::Between)
    }

    /// The remainder that has the sign of the divisor.
    pub fn remainder(&self, divisor: &Self, effort: &Effort) -> Outcome {
        let quotient = self.divide(divisor, effort)?.floor(effort)?;
        self.subtract(&divisor.multiply(&quotient, effort)?, effort)
    }

    pub fn floor(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |_| false)
    }

    pub fn ceil(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| !value.is_whole)
    }

    pub fn trunc(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| value.is_negative && !value.is_whole)
    }

    /// Halves away from zero.
    pub fn round(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| value.is_nearer_above(!value.is_negative))
    }

    /// Halves to the even neighbour.
    pub fn round_half_even(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| value.is_nearer_above(value.below.is_odd()))
    }

    /// Halves towards zero.
    pub fn round_half_down(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| value.is_nearer_above(value.is_negative))
    }

    /// Away from zero.
    pub fn round_up(&self, effort: &Effort) -> Outcome {
        self.rounded(effort, |value| !value.is_negative && !value.is_whole)
    }

    /// An interval has a rounded value only where both of its bounds have the same.
    fn rounded(&self, effort: &Effort, is_next: fn(&Rounding) -> bool) -> Outcome {
        let round = |numerator: &BigInt, denominator: &BigInt| {
            let rounding = Rounding::of(numerator, denominator, effort)?;
            let next = is_next(&rounding);
            Ok(rounding.below + u8::from(next))
        };
        match self {
            Self::Exact(value) => round(value.numer(), value.denom()).map(Self::whole),
            Self::Between(interval) => {
                let [low, high] = interval.bounds();
                let value = round(&low.0, &low.1)?;
                if value == round(&high.0, &high.1)? {
                    Ok(Self::whole(value))
                } else {
                    Err(Failure::Undecided)
                }
            }
        }
    }

    pub fn min(&self, other: &Self, effort: &Effort) -> Outcome {
        if let (Self::Exact(left), Self::Exact(right)) = (self, other) {
            let is_first = compare(left, right, effort)?.is_le();
            return Ok(if is_first { self.clone() } else { other.clone() });
        }
        // Which of them it is may be certain, and then an exact one stays so.
        let difference = self.subtract(other, effort)?;
        if difference.is_negative() {
            return Ok(self.clone());
        }
        if difference.is_positive() {
            return Ok(other.clone());
        }
        Ok(Self::Between(self.interval(effort)?.min(&other.interval(effort)?)))
    }

    pub fn max(&self, other: &Self, effort: &Effort) -> Outcome {
        Ok(self.negate().min(&other.negate(), effort)?.negate())
    }

    pub fn power(&self, exponent: &Self, effort: &Effort) -> Outcome {
        if let Some(whole) = exponent.as_whole() {
            return self.whole_power(whole, effort);
        }
        if self.is_negative() {
            return Err(impossible("a negative number has no power with a fraction as exponent"));
        }
        if self.is_zero() {
            return power_of_zero(exponent);
        }
        if let Self::Exact(exponent) = exponent
            && let Some(degree) = exponent.denom().to_u32()
            && let Some(root) = self.simple_root(degree, effort)?
        {
            return root.whole_power(exponent.numer(), effort);
        }
        exponent.multiply(&self.ln(effort)?, effort)?.exp(effort)
    }

    /// The root of a number that is not negative, where that is exact or a square root.
    fn simple_root(&self, degree: u32, effort: &Effort) -> Outcome<Option<Self>> {
        if let Self::Exact(value) = self {
            // A whole number above 1 to this power would have more bits than there are.
            let has_none = u64::from(degree) > value.numer().bits().max(value.denom().bits());
            if value.is_one() || value.is_zero() {
                return Ok(Some(self.clone()));
            }
            if !has_none && let Some(root) = exact_root(value, degree, effort)? {
                return Ok(Some(Self::Exact(root)));
            }
        }
        if degree != 2 {
            return Ok(None);
        }
        self.interval(effort)?.root(2, effort).map(|root| Some(Self::Between(root)))
    }

    fn whole_power(&self, exponent: &BigInt, effort: &Effort) -> Outcome {
        if let Some(simple) = self.power_of_unit(exponent) {
            return Ok(simple);
        }
        if exponent.is_negative() {
            return Self::whole(1).divide(self, effort)?.whole_power(&-exponent, effort);
        }
        if let Self::Exact(base) = self {
            let digits = digits(base) * exponent.to_f64().unwrap_or(f64::INFINITY);
            if digits <= MAX_NUMBER_DIGITS as f64 {
                let times = exponent.to_u64().ok_or_else(|| too_large(None))?;
                return Self::kept(fraction::power(base, times, effort)?, effort);
            }
            if base.is_integer() {
                return Err(too_large(Some(digits)));
            }
        }
        match exponent.to_u64() {
            Some(times) => self.interval(effort)?.power(times, effort).map(Self::Between),
            None if self.is_positive() => {
                self.ln(effort)?.multiply(&Self::whole(exponent.clone()), effort)?.exp(effort)
            }
            None => Err(too_large(None)),
        }
    }

    /// 0, 1 and -1 have powers of any size, and any number has its zeroth.
    fn power_of_unit(&self, exponent: &BigInt) -> Option<Self> {
        if exponent.is_zero() {
            return Some(Self::whole(1));
        }
        let base = self.as_whole()?;
        if base.is_one() || (base.is_zero() && exponent.is_positive()) {
            return Some(self.clone());
        }
        (-base).is_one().then(|| if exponent.is_even() { Self::whole(1) } else { self.clone() })
    }

    /// The root of a degree: exact where there is one.
    pub fn root(&self, degree: u32, effort: &Effort) -> Outcome {
        if degree == 0 {
            return Err(impossible("the degree of a root is 1 or more"));
        }
        if self.is_negative() {
            if degree % 2 == 1 {
                return Ok(self.negate().root(degree, effort)?.negate());
            }
            return Err(impossible("a negative number has no such root"));
        }
        if let Some(root) = self.simple_root(degree, effort)? {
            return Ok(root);
        }
        self.interval(effort)?.root(degree, effort).map(Self::Between)
    }

    pub fn exp(&self, effort: &Effort) -> Outcome {
        if self.is_zero() {
            return Ok(Self::whole(1));
        }
        self.interval(effort)?.exp(effort).map(Self::Between)
    }

    /// The natural logarithm.
    pub fn ln(&self, effort: &Effort) -> Outcome {
        if self.is_zero() || self.is_negative() {
            return Err(impossible("a logarithm needs a number above zero"));
        }
        if self.as_whole().is_some_and(One::is_one) {
            return Ok(Self::whole(0));
        }
        self.interval(effort)?.ln(effort).map(Self::Between)
    }

    /// The logarithm to a base: exact where it is a whole number.
    pub fn log(&self, base: &Self, effort: &Effort) -> Outcome {
        let divisor = base.ln(effort)?;
        if divisor.is_zero() {
            return Err(impossible("there is no logarithm to the base 1"));
        }
        let logarithm = self.ln(effort)?.divide(&divisor, effort)?;
        if let (Self::Exact(value), Self::Exact(_)) = (self, base)
            && let Ok(Self::Exact(whole)) = logarithm.round(effort)
            && let Ok(Self::Exact(power)) = base.whole_power(whole.numer(), effort)
            && fraction::are_equal(&power, value)
        {
            return Ok(Self::Exact(whole));
        }
        Ok(logarithm)
    }

    pub fn pi(effort: &Effort) -> Outcome {
        series::pi(effort).map(Self::Between)
    }

    /// The product of the whole numbers up to this one.
    pub fn factorial(&self, effort: &Effort) -> Outcome {
        let whole = self.whole_or("a factorial")?;
        let count = whole.to_u64().ok_or_else(|| {
            if whole.is_negative() {
                impossible("a factorial needs a number that is not negative")
            } else {
                too_large(None)
            }
        })?;
        let mut product = BigInt::one();
        for factor in 2..=count {
            effort.charge(limbs(&product))?;
            product *= factor;
            if product.bits() > MAX_BITS {
                return Err(too_large(None));
            }
        }
        Ok(Self::whole(product))
    }

    /// In how many ways `chosen` of these can be taken.
    pub fn choose(&self, chosen: &Self, effort: &Effort) -> Outcome {
        let (all, chosen) = (self.whole_or("`choose`")?, chosen.whole_or("`choose`")?);
        if chosen.is_negative() || all.is_negative() {
            return Err(impossible("`choose` needs numbers that are not negative"));
        }
        if chosen > all {
            return Ok(Self::whole(0));
        }
        let fewer = chosen.min(&(all - chosen)).to_u64().ok_or_else(|| too_large(None))?;
        let mut ways = BigInt::one();
        for step in 0..fewer {
            let product = effort.product(&ways, &(all - step))?;
            (ways, _) = effort.quotient(&product, &BigInt::from(step + 1))?;
            if ways.bits() > MAX_BITS {
                return Err(too_large(None));
            }
        }
        Ok(Self::whole(ways))
    }

    pub fn gcd(&self, other: &Self, effort: &Effort) -> Outcome {
        effort.greatest_common_divisor(self.whole_or("`gcd`")?, other.whole_or("`gcd`")?).map(Self::whole)
    }

    pub fn lcm(&self, other: &Self, effort: &Effort) -> Outcome {
        let (left, right) = (self.whole_or("`lcm`")?, other.whole_or("`lcm`")?);
        if left.is_zero() || right.is_zero() {
            return Ok(Self::whole(0));
        }
        // In lowest terms, the one has lost what it shares with the other.
        let ratio = reduced(left.abs(), right.abs(), effort)?;
        Self::kept(Ratio::from_integer(effort.product(ratio.numer(), &right.abs())?), effort)
    }

    /// Moves the point to the right; the places are limited by who asks.
    pub fn times_power_of_ten(&self, places: i64, effort: &Effort) -> Outcome {
        self.multiply(&Self::Exact(power_of_ten(places)), effort)
    }

    fn whole_or(&self, asking: &str) -> Outcome<&BigInt> {
        self.as_whole().ok_or_else(|| impossible(format!("{asking} needs whole numbers: round first")))
    }
}

impl Rounding {
    fn of(numerator: &BigInt, denominator: &BigInt, effort: &Effort) -> Outcome<Self> {
        let (below, rest) = effort.quotient(numerator, denominator)?;
        let to_half = (&rest * 2_u32).cmp(denominator);
        Ok(Self { below, is_negative: numerator.is_negative(), is_whole: rest.is_zero(), to_half })
    }

    fn is_nearer_above(&self, is_half_up: bool) -> bool {
        self.to_half.is_gt() || (self.to_half.is_eq() && is_half_up)
    }
}

pub fn impossible(message: impl Into<String>) -> Failure {
    Failure::Impossible(message.into())
}

pub fn too_large(digits: Option<f64>) -> Failure {
    let result = match digits.filter(|digits| digits.is_finite()) {
        Some(digits) => format!("the result would have about {digits:.0} digits, more than"),
        None => "the result would have more digits than".to_owned(),
    };
    impossible(format!("{result} the {MAX_NUMBER_DIGITS} that are kept"))
}

fn power_of_zero(exponent: &Number) -> Outcome {
    if exponent.is_positive() {
        Ok(Number::whole(0))
    } else if exponent.is_negative() {
        Err(impossible("division by zero"))
    } else {
        Err(Failure::Undecided)
    }
}

/// How many digits a number has, roughly: only to refuse what is far too large, and to say by how much.
fn digits(value: &Rational) -> f64 {
    let logarithm = |part: &BigInt| {
        part.to_f64()
            .filter(|part| part.is_finite())
            .map_or(part.bits() as f64 * std::f64::consts::LOG10_2, |part| part.abs().log10())
    };
    logarithm(value.numer()).max(logarithm(value.denom()))
}
