//! Numbers that are exact fractions, or floats of the precision of `Work`. `dashu` calculates with both; here is what it
//! must not be asked: what has no result, or too long a one.

use dashu_base::{Abs, BitTest, Gcd, Signed, UnsignedAbs};
use dashu_float::round::mode::HalfAway;
use dashu_float::{Context, FBig, FpError, FpResult};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::work::Work;

/// The most digits of a number, before and after its point together. Enough for `2500!`.
pub const MAX_NUMBER_DIGITS: u32 = 10_000;

pub const MAX_BITS: usize = MAX_NUMBER_DIGITS as usize * 3_322 / 1_000;

/// Roots of higher degrees cost less by logarithm.
const MAX_DIRECT_DEGREE: usize = 3;

pub const TOO_CLOSE: &str = "the value is too close to call, because a number before it is not exact: round that first, as in `round(x, 30)`";

pub type Float = FBig<HalfAway, 2>;

#[derive(Clone, Debug)]
pub enum Number {
    Exact(RBig),
    Rounded(Float),
}

/// Why there is no result.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// The value does not exist with any precision.
    Impossible(String),
    /// With this precision.
    Undecided(String),
    /// Within the work that one call may do.
    TooMuchWork,
}

pub type Outcome<T = Number> = Result<T, Failure>;

impl Number {
    pub fn whole(value: impl Into<IBig>) -> Self {
        Self::Exact(RBig::from(value.into()))
    }

    /// The value, if it is an exact whole number.
    pub fn as_whole(&self) -> Option<&IBig> {
        match self {
            Self::Exact(value) if value.is_int() => Some(value.numerator()),
            _ => None,
        }
    }

    /// The exact value, or a float if it is too long and yet of a size that is kept.
    fn exact(value: RBig, work: &Work) -> Outcome {
        if value.numerator().bit_len().max(value.denominator().bit_len()) <= MAX_BITS {
            return Ok(Self::Exact(value));
        }
        if value.is_int() {
            return Err(too_large(None));
        }
        Self::rounded(Self::Exact(value).float(work)?)
    }

    fn rounded(value: Float) -> Outcome {
        let repr = value.repr();
        if repr.is_infinite() {
            return Err(too_large(None));
        }
        let magnitude = repr.exponent().saturating_add_unsigned(repr.significand().bit_len());
        if magnitude > MAX_BITS as isize + 1 {
            return Err(too_large(None));
        }
        Ok(Self::Rounded(if magnitude < -2 * MAX_BITS as isize { Float::ZERO } else { value }))
    }

    fn of(result: FpResult<Float>) -> Outcome {
        match result {
            Ok(value) => Self::rounded(value.value()),
            Err(FpError::Overflow(_)) => Err(too_large(None)),
            Err(FpError::Underflow(_)) => Ok(Self::Rounded(Float::ZERO)),
            Err(_) => Err(too_close()),
        }
    }

    /// A float of the precision, whose bits are the same for each of the same precision.
    pub fn float(&self, work: &Work) -> Outcome<Float> {
        match self {
            Self::Exact(value) => {
                work.charge_product(value.denominator().bit_len(), work.bits, 2)?;
                Ok(value.to_float(work.bits).value())
            }
            Self::Rounded(value) => Ok(value.clone()),
        }
    }

    /// Exactly what is kept, be it rounded or not.
    pub fn fraction(&self, work: &Work) -> Outcome<RBig> {
        match self {
            Self::Exact(value) => Ok(value.clone()),
            Self::Rounded(value) => {
                work.charge(work.bits as u64)?;
                RBig::try_from(value.clone()).map_err(|_| too_close())
            }
        }
    }

    fn bits(&self, work: &Work) -> usize {
        match self {
            Self::Exact(value) => value.numerator().bit_len() + value.denominator().bit_len(),
            Self::Rounded(_) => work.bits,
        }
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Exact(value) if value.is_zero())
    }

    fn is_rounded_zero(&self) -> bool {
        matches!(self, Self::Rounded(value) if value.repr().significand().is_zero())
    }

    pub fn is_negative(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_negative(),
            Self::Rounded(value) => value.is_negative() && !self.is_rounded_zero(),
        }
    }

    pub fn negate(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value.clone()),
            Self::Rounded(value) => Self::Rounded(-value.clone()),
        }
    }

    pub fn abs(&self) -> Self {
        if self.is_negative() { self.negate() } else { self.clone() }
    }

    fn apply(
        &self,
        other: &Self,
        work: &Work,
        exact: fn(&RBig, &RBig) -> RBig,
        rounded: fn(Float, Float) -> Float,
    ) -> Outcome {
        let are_whole = self.as_whole().is_some() && other.as_whole().is_some();
        // Fractions are brought to lowest terms.
        work.charge_product(self.bits(work), other.bits(work), if are_whole { 1 } else { 4 })?;
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => Self::exact(exact(left, right), work),
            _ => Self::rounded(rounded(self.float(work)?, other.float(work)?)),
        }
    }

    pub fn add(&self, other: &Self, work: &Work) -> Outcome {
        self.apply(other, work, |left, right| left + right, |left, right| left + right)
    }

    pub fn subtract(&self, other: &Self, work: &Work) -> Outcome {
        self.add(&other.negate(), work)
    }

    pub fn multiply(&self, other: &Self, work: &Work) -> Outcome {
        if self.is_zero() || other.is_zero() {
            return Ok(Self::whole(0));
        }
        self.apply(other, work, |left, right| left * right, |left, right| left * right)
    }

    pub fn divide(&self, divisor: &Self, work: &Work) -> Outcome {
        if divisor.is_zero() {
            return Err(impossible("division by zero"));
        }
        if divisor.is_rounded_zero() {
            return Err(too_close());
        }
        work.charge_product(self.bits(work), divisor.bits(work), 4)?;
        self.apply(divisor, work, |left, right| left / right, |left, right| left / right)
    }

    /// The remainder that has the sign of the divisor.
    pub fn remainder(&self, divisor: &Self, work: &Work) -> Outcome {
        let quotient = self.divide(divisor, work)?.round(RBig::floor, 0, work)?;
        self.subtract(&divisor.multiply(&quotient, work)?, work)
    }

    /// Rounds at a digit after the point, or before it where `places` is negative.
    ///
    /// Half the digits of a float are trusted: the true value may lie on the other side of a border that is nearer.
    pub fn round(&self, round: fn(&RBig) -> IBig, places: i32, work: &Work) -> Outcome {
        let power = power_of_ten(places);
        let scaled = Self::Exact(self.fraction(work)?).multiply(&Self::Exact(power.clone()), work)?;
        let value = scaled.fraction(work)?;
        let near = |value: RBig| {
            work.charge_product(value.numerator().bit_len(), value.denominator().bit_len(), 1)?;
            Ok(round(&value))
        };
        let result = near(value.clone())?;
        if let Self::Rounded(_) = self {
            let doubt = value.clone().abs() / RBig::from(IBig::ONE << (work.bits / 2));
            if near(&value - &doubt)? != result || near(value + doubt)? != result {
                return Err(too_close());
            }
        }
        Self::whole(result).divide(&Self::Exact(power), work)
    }

    pub fn min(&self, other: &Self, work: &Work) -> Outcome {
        let is_first = !other.subtract(self, work)?.is_negative();
        Ok(if is_first { self.clone() } else { other.clone() })
    }

    pub fn power(&self, exponent: &Self, work: &Work) -> Outcome {
        if let Some(times) = exponent.as_whole() {
            return self.whole_power(times, work);
        }
        if self.is_negative() {
            return Err(impossible("a negative number has no power with a fraction as exponent"));
        }
        if self.is_zero() {
            if exponent.is_negative() {
                return Err(impossible("division by zero"));
            }
            return if exponent.is_rounded_zero() { Err(too_close()) } else { Ok(Self::whole(0)) };
        }
        if let Self::Exact(exponent) = exponent
            && let Ok(degree) = usize::try_from(exponent.denominator().clone())
            && let Some(root) = self.exact_root(degree, work)?
        {
            return root.whole_power(exponent.numerator(), work);
        }
        exponent.multiply(&self.ln(work)?, work)?.exp(work)
    }

    fn whole_power(&self, exponent: &IBig, work: &Work) -> Outcome {
        if exponent.is_zero() {
            return Ok(Self::whole(1));
        }
        if self.is_zero() {
            return if exponent.is_negative() {
                Err(impossible("division by zero"))
            } else {
                Ok(Self::whole(0))
            };
        }
        if self.abs().as_whole().is_some_and(IBig::is_one) {
            let is_even = !exponent.bit(0);
            return Ok(if is_even { self.abs() } else { self.clone() });
        }
        let times = exponent.to_f64().value();
        if let Self::Exact(base) = self {
            let digits = digits(base) * times.abs();
            if digits <= f64::from(MAX_NUMBER_DIGITS) {
                let times = isize::try_from(exponent.clone()).map_err(|_| too_large(None))?;
                let longest = base.numerator().bit_len().max(base.denominator().bit_len());
                let bits = longest.saturating_sub(1).max(1).saturating_mul(times.unsigned_abs());
                work.charge_product(bits, bits, 1)?;
                return Self::exact(base.pow(times), work);
            }
            if base.is_int() && times > 0.0 {
                return Err(too_large(Some(digits)));
            }
        }
        if self.is_rounded_zero() {
            return if times < 0.0 { Err(too_close()) } else { Ok(self.clone()) };
        }
        if let Some(extreme) = extreme_power(log2(self) * times) {
            return extreme;
        }
        work.charge_product(work.bits, work.bits, 4 * exponent.bit_len() as u64)?;
        Self::of(work.context().powi(self.float(work)?.repr(), exponent.clone()))
    }

    /// The root of a number that is not negative, where it is a fraction.
    fn exact_root(&self, degree: usize, work: &Work) -> Outcome<Option<Self>> {
        let Self::Exact(value) = self else { return Ok(None) };
        if value.is_zero() || value.is_one() {
            return Ok(Some(self.clone()));
        }
        let (numerator, denominator) = (value.numerator().unsigned_abs(), value.denominator());
        // A whole number above 1 to this power would have more bits than there are.
        if degree > numerator.bit_len().max(denominator.bit_len()) {
            return Ok(None);
        }
        work.charge_product(self.bits(work), self.bits(work), 3)?;
        let root = |of: &UBig| Some(of.nth_root(degree)).filter(|root| root.pow(degree) == *of);
        let root = root(&numerator).zip(root(denominator));
        Ok(root.map(|(numerator, denominator)| Self::Exact(RBig::from_parts(numerator.into(), denominator))))
    }

    pub fn root(&self, degree: usize, work: &Work) -> Outcome {
        if degree == 0 {
            return Err(impossible("the degree of a root is 1 or more"));
        }
        if self.is_negative() {
            if degree % 2 == 1 {
                return Ok(self.negate().root(degree, work)?.negate());
            }
            return Err(impossible("a negative number has no such root"));
        }
        if let Some(root) = self.exact_root(degree, work)? {
            return Ok(root);
        }
        if degree > MAX_DIRECT_DEGREE {
            return self.power(&Self::Exact(RBig::from_parts(IBig::ONE, degree.into())), work);
        }
        work.charge_product(work.bits, work.bits, 8)?;
        let (value, context) = (self.float(work)?, work.context());
        Self::of(if degree == 2 {
            context.sqrt(value.repr())
        } else {
            context.nth_root(degree, value.repr())
        })
    }

    pub fn exp(&self, work: &Work) -> Outcome {
        if self.is_zero() {
            return Ok(Self::whole(1));
        }
        let exponent = self.float(work)?;
        if let Some(extreme) = extreme_power(exponent.to_f64().value() * std::f64::consts::LOG2_E) {
            return extreme;
        }
        work.charge_series()?;
        Self::of(work.context().exp(exponent.repr(), Some(&mut work.constants.borrow_mut())))
    }

    /// The natural logarithm.
    pub fn ln(&self, work: &Work) -> Outcome {
        if self.is_zero() || self.is_negative() {
            return Err(impossible("a logarithm needs a number above zero"));
        }
        if self.as_whole().is_some_and(IBig::is_one) {
            return Ok(Self::whole(0));
        }
        if self.is_rounded_zero() {
            return Err(too_close());
        }
        // A third of the digits comes from the series of `dashu`, and the others from a step of Halley's method: the
        // series for all of them costs ten times as much.
        work.charge_series()?;
        let value = self.float(work)?;
        let third = Context::<HalfAway>::new(work.bits / 3 + 20);
        let constants = &mut work.constants.borrow_mut();
        let first = third.ln(value.repr(), Some(constants)).map_err(|_| too_close())?.value();
        let power = work.context().exp(first.repr(), Some(constants)).map_err(|_| too_close())?.value();
        Self::rounded(first + (&value - &power) * 2 / (value + power))
    }

    /// The logarithm to a base: exact where it is a whole number.
    pub fn log(&self, base: &Self, work: &Work) -> Outcome {
        let divisor = base.ln(work)?;
        if divisor.is_zero() {
            return Err(impossible("there is no logarithm to the base 1"));
        }
        let logarithm = self.ln(work)?.divide(&divisor, work)?;
        if let (Self::Exact(value), Self::Exact(_)) = (self, base)
            && let Ok(Self::Exact(whole)) = logarithm.round(RBig::round, 0, work)
            && let Ok(Self::Exact(power)) = base.whole_power(whole.numerator(), work)
            && power == *value
        {
            return Ok(Self::Exact(whole));
        }
        Ok(logarithm)
    }

    pub fn pi(work: &Work) -> Outcome {
        work.charge_series()?;
        Self::rounded(work.context().pi(Some(&mut work.constants.borrow_mut())).value())
    }

    /// The product of the whole numbers up to this one.
    pub fn factorial(&self, work: &Work) -> Outcome {
        let whole = self.whole_or("a factorial")?;
        if whole.is_negative() {
            return Err(impossible("a factorial needs a number that is not negative"));
        }
        let count = u32::try_from(whole.clone()).map_err(|_| too_large(None))?;
        product((2..=count).map(|factor| (IBig::from(factor), IBig::ONE)), 1, work)
    }

    /// In how many ways `chosen` of these can be taken.
    pub fn choose(&self, chosen: &Self, work: &Work) -> Outcome {
        let (all, chosen) = (self.whole_or("`choose`")?, chosen.whole_or("`choose`")?);
        if chosen.is_negative() || all.is_negative() {
            return Err(impossible("`choose` needs numbers that are not negative"));
        }
        if chosen > all {
            return Ok(Self::whole(0));
        }
        let fewer = u32::try_from(chosen.clone().min(all - chosen)).map_err(|_| too_large(None))?;
        product((0..fewer).map(|step| (all - step, IBig::from(step + 1))), 6, work)
    }

    pub fn gcd(&self, other: &Self, work: &Work) -> Outcome {
        let (left, right) = (self.whole_or("`gcd`")?, other.whole_or("`gcd`")?);
        if left.is_zero() && right.is_zero() {
            return Ok(Self::whole(0));
        }
        work.charge_product(left.bit_len(), right.bit_len(), 4)?;
        Ok(Self::whole(left.gcd(right)))
    }

    pub fn lcm(&self, other: &Self, work: &Work) -> Outcome {
        let (left, right) = (self.whole_or("`lcm`")?, other.whole_or("`lcm`")?);
        if left.is_zero() || right.is_zero() {
            return Ok(Self::whole(0));
        }
        let shared = Self::whole(left.clone()).gcd(other, work)?;
        Ok(self.divide(&shared, work)?.multiply(other, work)?.abs())
    }

    fn whole_or(&self, asking: &str) -> Outcome<&IBig> {
        self.as_whole().ok_or_else(|| impossible(format!("{asking} needs whole numbers: round first")))
    }
}

/// To the even neighbour.
pub fn round_half_even(value: &RBig) -> IBig {
    let (towards, away) = (value.trunc(), value.round());
    if is_half(value) && !towards.bit(0) { towards } else { away }
}

/// Towards zero.
pub fn round_half_down(value: &RBig) -> IBig {
    if is_half(value) { value.trunc() } else { value.round() }
}

/// Away from zero.
pub fn round_up(value: &RBig) -> IBig {
    if value.is_negative() { value.floor() } else { value.ceil() }
}

fn is_half(value: &RBig) -> bool {
    *value.denominator() == UBig::from(2_u8)
}

/// The places are limited by the callers.
pub fn power_of_ten(places: i32) -> RBig {
    RBig::from(IBig::from(10)).pow(places as isize)
}

pub fn impossible(message: impl Into<String>) -> Failure {
    Failure::Impossible(message.into())
}

fn too_close() -> Failure {
    Failure::Undecided(TOO_CLOSE.to_owned())
}

pub fn too_large(digits: Option<f64>) -> Failure {
    let result = match digits.filter(|digits| digits.is_finite()) {
        Some(digits) => format!("the result would have about {digits:.0} digits, more than"),
        None => "the result would have more digits than".to_owned(),
    };
    impossible(format!("{result} the {MAX_NUMBER_DIGITS} that are kept"))
}

/// The product of fractions whose products in turn are all whole. `times` is the cost of one, in products of one word.
fn product(factors: impl Iterator<Item = (IBig, IBig)>, times: u64, work: &Work) -> Outcome {
    let mut product = IBig::ONE;
    for (factor, divisor) in factors {
        work.charge_product(product.bit_len(), factor.bit_len(), times)?;
        product = product * factor / divisor;
        if product.bit_len() > MAX_BITS {
            return Err(too_large(None));
        }
    }
    Ok(Number::whole(product))
}

/// The result of a power of two that is beyond what is kept.
fn extreme_power(exponent: f64) -> Option<Outcome> {
    let limit = MAX_BITS as f64;
    if exponent > limit + 2.0 {
        return Some(Err(too_large(None)));
    }
    (exponent < -2.0 * limit).then_some(Ok(Number::Rounded(Float::ZERO)))
}

/// About the logarithm of the size of a number, to tell what is far too large.
fn log2(number: &Number) -> f64 {
    match number {
        Number::Exact(value) => log2_of(value.numerator()) - log2_of(&value.denominator().clone().into()),
        Number::Rounded(value) => log2_of(value.repr().significand()) + value.repr().exponent() as f64,
    }
}

fn log2_of(whole: &IBig) -> f64 {
    // The highest bits decide; the others are only counted.
    let excess = whole.bit_len().saturating_sub(1_000);
    (whole >> excess).to_f64().value().abs().log2() + excess as f64
}

/// About how many digits a number has, to tell by how much it would be too long.
fn digits(value: &RBig) -> f64 {
    let denominator = value.denominator().clone().into();
    log2_of(value.numerator()).max(log2_of(&denominator)) * std::f64::consts::LOG10_2
}
