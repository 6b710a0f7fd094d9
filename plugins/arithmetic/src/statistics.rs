//! `statistics`: what a list of numbers is like.
//!
//! All numbers are brought to whole multiples of one small power of ten, so sums and squares are exact and cheap; only
//! a standard deviation is a root, and rounded where it must be.

use dashu_base::Signed;
use dashu_int::IBig;
use dashu_ratio::RBig;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::amount::Amount;
use crate::number::{Number, Outcome, power_of_ten};
use crate::work::Work;
use crate::{check_digits, settle};

/// A model has no more numbers at hand. All of them are sorted and squared within a call's fuel.
const MAX_NUMBERS: usize = 10_000;

/// More modes than this say that there is none.
const MAX_MODES: usize = 20;

const MAX_PERCENTILES: usize = 100;

/// Calculates statistics over a list of numbers: count, sum, mean, median, modes, extremes, variance, standard deviation and percentiles.
///
/// All are exact, but those named in `rounded`, which are correctly rounded. `variance` and `standard_deviation` are
/// of the whole population; where the numbers are a sample, use those with `sample_`. Percentiles lie linearly between
/// neighbours, as `PERCENTILE.INC` of spreadsheets and the default of NumPy do.
#[tool(
    read_only,
    tags("average", "mean", "median", "deviation", "percentile", "sum"),
    examples(
        {"numbers": [2, 4, 4, 4, 5, 5, 7, 9], "percentiles": [90]} => {
            "count": 8, "sum": "40", "mean": "5", "median": "4.5", "modes": ["4"], "min": "2", "max": "9", "range": "7",
            "variance": "4", "standard_deviation": "2",
            "sample_variance": "4.5714285714", "sample_standard_deviation": "2.1380899353",
            "percentiles": [{"percentile": "90", "value": "7.6"}],
            "rounded": ["sample_variance", "sample_standard_deviation"]
        },
        "exact": {"numbers": [0.1, 0.2, "0.30"], "percentiles": []} => {
            "count": 3, "sum": "0.6", "mean": "0.2", "median": "0.2", "modes": [], "min": "0.1", "max": "0.3", "range": "0.2",
            "variance": "0.0066666667", "standard_deviation": "0.0816496581",
            "sample_variance": "0.01", "sample_standard_deviation": "0.1",
            "percentiles": [], "rounded": ["variance", "standard_deviation"]
        },
    )
)]
pub fn statistics(
    /// The numbers, at most 10,000; as text where one has more than 15 digits
    #[schemars(length(min = 1, max = 10_000))]
    numbers: Vec<Amount>,
    /// The percentiles to give, each from 0 to 100: without this 25 and 75, and none with `[]`
    #[default(vec![Amount::Number(25.into()), Amount::Number(75.into())])]
    percentiles: Vec<Amount>,
    /// Digits after the decimal point, where a value has more
    #[default(10)]
    #[schemars(range(max = 1000))]
    digits: u32,
) -> Result<Statistics, Error> {
    check_digits(digits)?;
    let sample = Sample::read(&numbers)?;
    let percentiles = read_percentiles(&percentiles)?;
    sample.summarize(&percentiles, digits).map_err(Error::invalid)
}

/// The statistics of a list of numbers. Values are in decimal digits.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Statistics {
    pub count: usize,
    pub sum: String,
    pub mean: String,
    pub median: String,
    /// The numbers that occur most often, at most 20; none where no number occurs twice
    pub modes: Vec<String>,
    pub min: String,
    pub max: String,
    /// From the least to the greatest
    pub range: String,
    /// The variance of the whole population
    pub variance: String,
    /// The standard deviation of the whole population
    pub standard_deviation: String,
    /// The variance of a sample; missing for a single number
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_variance: Option<String>,
    /// The standard deviation of a sample; missing for a single number
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_standard_deviation: Option<String>,
    /// In the order asked for
    pub percentiles: Vec<Percentile>,
    /// The names of values that have more digits than are given
    pub rounded: Vec<&'static str>,
}

/// A value that so many percent of the numbers do not exceed.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Percentile {
    pub percentile: String,
    pub value: String,
}

/// Numbers in ascending order, as whole multiples of a unit.
struct Sample {
    sorted: Vec<IBig>,
    unit: RBig,
}

impl Sample {
    fn read(numbers: &[Amount]) -> Result<Self, Error> {
        if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
            return Err(Error::invalid(format!("`numbers` has {}: give 1 to {MAX_NUMBERS}", numbers.len())));
        }
        let mut decimals = Vec::with_capacity(numbers.len());
        for (place, number) in numbers.iter().enumerate() {
            let wrong = |reason| Error::invalid(format!("number {} of `numbers`: {reason}", place + 1));
            decimals.push(number.decimal().map_err(wrong)?);
        }
        let places = decimals.iter().map(|decimal| decimal.places).max().unwrap_or_default();
        let mut sorted: Vec<_> = decimals.iter().map(|decimal| decimal.in_units(places)).collect();
        sorted.sort_unstable();
        Ok(Self { sorted, unit: power_of_ten(-places) })
    }

    fn summarize(&self, percentiles: &[RBig], digits: u32) -> Result<Statistics, String> {
        let mut writer = Writer { digits, rounded: Vec::new() };
        let count = IBig::from(self.sorted.len());
        let sum: IBig = self.sorted.iter().sum();
        let squares: IBig = self.sorted.iter().map(IBig::sqr).sum();
        // The square of the unit times the square of the count times the variance.
        let spread = RBig::from(&count * squares - sum.sqr()) * self.unit.sqr();
        let variance = &spread / count.sqr();
        let (least, greatest) = (self.at(&RBig::ZERO), self.at(&RBig::ONE));

        let mut statistics = Statistics {
            count: self.sorted.len(),
            sum: writer.write("sum", self.scale(&sum))?,
            mean: writer.write("mean", self.scale(&sum) / &count)?,
            median: writer.write("median", self.at(&(RBig::ONE / IBig::from(2))))?,
            modes: self.modes().map(|mode| writer.write("modes", mode)).collect::<Result<_, _>>()?,
            min: writer.write("min", least.clone())?,
            max: writer.write("max", greatest.clone())?,
            range: writer.write("range", greatest - least)?,
            variance: writer.write("variance", variance.clone())?,
            standard_deviation: writer.write_root("standard_deviation", variance)?,
            ..Statistics::default()
        };
        if self.sorted.len() > 1 {
            let variance = spread / (&count * (&count - IBig::ONE));
            statistics.sample_variance = Some(writer.write("sample_variance", variance.clone())?);
            statistics.sample_standard_deviation =
                Some(writer.write_root("sample_standard_deviation", variance)?);
        }
        for percentile in percentiles {
            let value = writer.write("percentiles", self.at(&(percentile / IBig::from(100))))?;
            let percentile = writer.write("percentiles", percentile.clone())?;
            statistics.percentiles.push(Percentile { percentile, value });
        }
        writer.rounded.dedup();
        Ok(Statistics { rounded: writer.rounded, ..statistics })
    }

    /// The value at a share of the way from the least to the greatest number, between neighbours.
    fn at(&self, share: &RBig) -> RBig {
        let (index, between) = (share * IBig::from(self.sorted.len() - 1)).split_at_point();
        let index = usize::try_from(index).unwrap_or_default();
        match self.sorted.get(index..) {
            Some([below, above, ..]) => (between * (above - below) + below) * &self.unit,
            Some([last]) => self.scale(last),
            _ => RBig::ZERO,
        }
    }

    fn modes(&self) -> impl Iterator<Item = RBig> {
        let runs = || self.sorted.chunk_by(|left, right| left == right);
        let longest = runs().map(<[_]>::len).max().unwrap_or_default();
        let modes = runs().filter(move |run| longest > 1 && run.len() == longest).take(MAX_MODES);
        modes.filter_map(<[_]>::first).map(|mode| self.scale(mode))
    }

    fn scale(&self, multiple: &IBig) -> RBig {
        &self.unit * multiple
    }
}

fn read_percentiles(percentiles: &[Amount]) -> Result<Vec<RBig>, Error> {
    if percentiles.len() > MAX_PERCENTILES {
        return Err(Error::invalid(format!(
            "`percentiles` has more than {MAX_PERCENTILES}: give those that matter"
        )));
    }
    let read = |percentile: &Amount| {
        let value = percentile.decimal().ok()?.value();
        (!value.is_negative() && value <= RBig::from(100)).then_some(value)
    };
    let wrong = |percentile: &Amount| {
        let written: String = percentile.text().chars().take(40).collect();
        Error::invalid(format!("`{written}` is no percentile: give numbers from 0 to 100, as 95 or 99.9"))
    };
    percentiles.iter().map(|percentile| read(percentile).ok_or_else(|| wrong(percentile))).collect()
}

/// Writes values, and keeps the names of those that are rounded.
struct Writer {
    digits: u32,
    rounded: Vec<&'static str>,
}

impl Writer {
    fn write(&mut self, name: &'static str, value: RBig) -> Result<String, String> {
        let number = Number::Exact(value);
        self.settle(name, |_| Ok(number.clone()))
    }

    fn write_root(&mut self, name: &'static str, square: RBig) -> Result<String, String> {
        let square = Number::Exact(square);
        self.settle(name, |work| square.root(2, work))
    }

    fn settle(&mut self, name: &'static str, calculate: impl Fn(&Work) -> Outcome) -> Result<String, String> {
        let written = settle(self.digits, calculate)?;
        if !written.exact {
            self.rounded.push(name);
        }
        Ok(written.decimal)
    }
}
