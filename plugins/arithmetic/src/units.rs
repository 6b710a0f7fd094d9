//! Units and their sizes. Each size is exact, from the definition: SI, the international yard and pound of 1959, the
//! gallons of the United States and of 1985 in Britain, the thermochemical calorie and the BTU of the steam tables.

use crate::effort::Effort;
use crate::expression::{Problem, evaluate};
use crate::number::Number;

/// Sizes are fractions, so no precision is lost with few digits.
const DIGITS: u32 = 50;

/// A unit: its size in the base unit of its dimension, as an expression, and where its zero is.
#[derive(Debug)]
pub struct Unit {
    dimension: &'static str,
    /// The first is the name that is given back. All fit in any case, but those of `CASE_COUNTS`.
    names: &'static [&'static str],
    size: &'static str,
}

/// Rankine degrees from absolute zero to the zero of Fahrenheit, and kelvins to that of Celsius.
const ZEROS: &[(&str, &str)] = &[("C", "273.15"), ("F", "459.67")];

/// Symbols that in letters of another case mean something else: `Mm` is a thousand kilometres, `mM` a concentration,
/// `Nm` a torque and `Pb` a count of bits.
const CASE_COUNTS: &[&str] = &[
    "nm", "mm", "m", "mg", "mL", "ml", "ms", "mm2", "mbar", "mmHg", "mmhg", "MPa", "MJ", "MWh", "TiB", "PB",
    "PiB", "kn", "kB", "KB",
];

const fn unit(dimension: &'static str, names: &'static [&'static str], size: &'static str) -> Unit {
    Unit { dimension, names, size }
}

static UNITS: &[Unit] = &[
    unit("length", &["nm", "nanometer", "nanometre"], "1e-9"),
    unit("length", &["um", "µm", "μm", "micrometer", "micrometre", "micron"], "1e-6"),
    unit("length", &["mm", "millimeter", "millimetre"], "0.001"),
    unit("length", &["cm", "centimeter", "centimetre"], "0.01"),
    unit("length", &["m", "meter", "metre"], "1"),
    unit("length", &["km", "kilometer", "kilometre"], "1000"),
    unit("length", &["in", "inch", "inches", "\""], "0.0254"),
    unit("length", &["ft", "foot", "feet", "'"], "0.3048"),
    unit("length", &["yd", "yard"], "0.9144"),
    unit("length", &["mi", "mile"], "1609.344"),
    unit("length", &["nmi", "nautical_mile"], "1852"),
    unit("length", &["au", "astronomical_unit"], "149597870700"),
    unit("length", &["ly", "light_year", "lightyear"], "9460730472580800"),
    unit("mass", &["ug", "µg", "μg", "mcg", "microgram"], "1e-9"),
    unit("mass", &["mg", "milligram"], "1e-6"),
    unit("mass", &["g", "gram", "gramme"], "0.001"),
    unit("mass", &["kg", "kilogram", "kilo"], "1"),
    unit("mass", &["t", "tonne", "metric_ton", "ton"], "1000"),
    unit("mass", &["oz", "ounce"], "0.45359237 / 16"),
    unit("mass", &["lb", "lbs", "pound"], "0.45359237"),
    unit("mass", &["st", "stone"], "0.45359237 * 14"),
    unit("mass", &["short_ton", "us_ton", "ton"], "0.45359237 * 2000"),
    unit("mass", &["long_ton", "imperial_ton", "ton"], "0.45359237 * 2240"),
    unit("mass", &["oz_t", "troy_ounce", "ozt"], "0.0311034768"),
    unit("mass", &["carat", "ct"], "0.0002"),
    unit("temperature", &["K", "kelvin"], "1"),
    unit(
        "temperature",
        &["C", "°C", "celsius", "degc", "degree_celsius", "degrees_celsius", "centigrade"],
        "1",
    ),
    unit("temperature", &["F", "°F", "fahrenheit", "degf", "degree_fahrenheit", "degrees_fahrenheit"], "5/9"),
    unit("temperature", &["R", "°R", "rankine"], "5/9"),
    unit(
        "volume",
        &["mL", "ml", "milliliter", "millilitre", "cc", "cm3", "cubic_centimeter", "cubic_centimetre"],
        "1e-6",
    ),
    unit("volume", &["cL", "centiliter", "centilitre"], "1e-5"),
    unit("volume", &["dL", "deciliter", "decilitre"], "1e-4"),
    unit("volume", &["L", "liter", "litre"], "0.001"),
    unit("volume", &["m3", "cubic_meter", "cubic_metre"], "1"),
    unit("volume", &["in3", "cubic_inch", "cubic_inches"], "0.0254^3"),
    unit("volume", &["ft3", "cubic_foot", "cubic_feet"], "0.3048^3"),
    unit("volume", &["yd3", "cubic_yard"], "0.9144^3"),
    unit("volume", &["us_gallon", "us_gal", "gallon", "gal"], "0.003785411784"),
    unit("volume", &["us_quart", "us_qt", "quart", "qt"], "0.003785411784 / 4"),
    unit("volume", &["us_pint", "us_pt", "pint", "pt"], "0.003785411784 / 8"),
    unit("volume", &["us_cup", "cup"], "0.003785411784 / 16"),
    unit(
        "volume",
        &["us_floz", "us_fluid_ounce", "us_fl_oz", "floz", "fl_oz", "fluid_ounce"],
        "0.003785411784 / 128",
    ),
    unit("volume", &["us_tbsp", "us_tablespoon", "tbsp", "tablespoon"], "0.003785411784 / 256"),
    unit("volume", &["us_tsp", "us_teaspoon", "tsp", "teaspoon"], "0.003785411784 / 768"),
    unit("volume", &["imperial_gallon", "uk_gallon", "imperial_gal", "gallon", "gal"], "0.00454609"),
    unit("volume", &["imperial_quart", "uk_quart", "imperial_qt", "quart", "qt"], "0.00454609 / 4"),
    unit("volume", &["imperial_pint", "uk_pint", "imperial_pt", "pint", "pt"], "0.00454609 / 8"),
    unit("volume", &["imperial_cup", "uk_cup", "cup"], "0.00454609 / 16"),
    unit(
        "volume",
        &[
            "imperial_floz",
            "uk_floz",
            "imperial_fluid_ounce",
            "imperial_fl_oz",
            "floz",
            "fl_oz",
            "fluid_ounce",
        ],
        "0.00454609 / 160",
    ),
    unit("volume", &["metric_cup", "cup"], "0.00025"),
    unit("volume", &["metric_tbsp", "metric_tablespoon", "tbsp", "tablespoon"], "0.000015"),
    unit("volume", &["metric_tsp", "metric_teaspoon", "tsp", "teaspoon"], "0.000005"),
    unit("volume", &["oil_barrel", "bbl", "barrel"], "0.003785411784 * 42"),
    unit("time", &["ns", "nanosecond"], "1e-9"),
    unit("time", &["us", "µs", "μs", "microsecond"], "1e-6"),
    unit("time", &["ms", "millisecond"], "0.001"),
    unit("time", &["s", "sec", "second"], "1"),
    unit("time", &["min", "minute"], "60"),
    unit("time", &["h", "hr", "hour"], "3600"),
    unit("time", &["day", "d"], "86400"),
    unit("time", &["week", "wk"], "604800"),
    unit("time", &["month"], "365.2425 * 86400 / 12"),
    unit("time", &["year", "yr"], "365.2425 * 86400"),
    unit("data", &["bit", "b"], "1"),
    unit("data", &["kbit", "kilobit"], "1e3"),
    unit("data", &["Mbit", "Mb", "megabit"], "1e6"),
    unit("data", &["Gbit", "Gb", "gigabit"], "1e9"),
    unit("data", &["Tbit", "Tb", "terabit"], "1e12"),
    unit("data", &["B", "byte", "octet"], "8"),
    unit("data", &["kB", "KB", "kilobyte"], "8e3"),
    unit("data", &["MB", "megabyte"], "8e6"),
    unit("data", &["GB", "gigabyte"], "8e9"),
    unit("data", &["TB", "terabyte"], "8e12"),
    unit("data", &["PB", "petabyte"], "8e15"),
    unit("data", &["KiB", "kibibyte"], "8 * 1024"),
    unit("data", &["MiB", "mebibyte"], "8 * 1024^2"),
    unit("data", &["GiB", "gibibyte"], "8 * 1024^3"),
    unit("data", &["TiB", "tebibyte"], "8 * 1024^4"),
    unit("data", &["PiB", "pebibyte"], "8 * 1024^5"),
    unit("data", &["Kibit", "Kib", "kibibit"], "1024"),
    unit("data", &["Mibit", "Mib", "mebibit"], "1024^2"),
    unit("data", &["Gibit", "Gib", "gibibit"], "1024^3"),
    unit("speed", &["m/s", "mps", "meter_per_second", "meters_per_second", "metres_per_second"], "1"),
    unit("speed", &["km/h", "kph", "kmh", "kilometers_per_hour", "kilometres_per_hour"], "1000/3600"),
    unit("speed", &["mph", "mi/h", "miles_per_hour"], "1609.344/3600"),
    unit("speed", &["knot", "kn", "kt", "kts"], "1852/3600"),
    unit("speed", &["ft/s", "fps", "feet_per_second"], "0.3048"),
    unit("speed", &["c", "speed_of_light"], "299792458"),
    unit("area", &["mm2", "square_millimeter", "square_millimetre"], "1e-6"),
    unit("area", &["cm2", "square_centimeter", "square_centimetre"], "1e-4"),
    unit("area", &["m2", "sqm", "square_meter", "square_metre"], "1"),
    unit("area", &["are"], "100"),
    unit("area", &["ha", "hectare"], "10000"),
    unit("area", &["km2", "square_kilometer", "square_kilometre"], "1e6"),
    unit("area", &["in2", "sqin", "square_inch", "square_inches"], "0.0254^2"),
    unit("area", &["ft2", "sqft", "square_foot", "square_feet"], "0.3048^2"),
    unit("area", &["yd2", "sqyd", "square_yard"], "0.9144^2"),
    unit("area", &["acre", "ac"], "4840 * 0.9144^2"),
    unit("area", &["mi2", "sqmi", "square_mile"], "1609.344^2"),
    unit("energy", &["J", "joule"], "1"),
    unit("energy", &["kJ", "kilojoule"], "1e3"),
    unit("energy", &["MJ", "megajoule"], "1e6"),
    unit("energy", &["GJ", "gigajoule"], "1e9"),
    unit("energy", &["Wh", "watt_hour"], "3600"),
    unit("energy", &["kWh", "kilowatt_hour"], "3.6e6"),
    unit("energy", &["MWh", "megawatt_hour"], "3.6e9"),
    unit("energy", &["cal", "calorie"], "4.184"),
    unit("energy", &["kcal", "Cal", "Calorie", "kilocalorie"], "4184"),
    unit("energy", &["BTU", "british_thermal_unit"], "1055.05585262"),
    unit("energy", &["eV", "electronvolt"], "1.602176634e-19"),
    unit("energy", &["ft_lbf", "foot_pound"], "0.3048 * 0.45359237 * 9.80665"),
    unit("pressure", &["Pa", "pascal"], "1"),
    unit("pressure", &["hPa", "hectopascal"], "100"),
    unit("pressure", &["kPa", "kilopascal"], "1e3"),
    unit("pressure", &["MPa", "megapascal"], "1e6"),
    unit("pressure", &["mbar", "millibar"], "100"),
    unit("pressure", &["bar"], "1e5"),
    unit("pressure", &["atm", "atmosphere"], "101325"),
    unit(
        "pressure",
        &["psi", "pound_per_square_inch", "pounds_per_square_inch"],
        "0.45359237 * 9.80665 / 0.0254^2",
    ),
    unit("pressure", &["mmHg", "mmhg", "millimeter_of_mercury"], "133.322387415"),
    unit("pressure", &["inHg", "inch_of_mercury"], "25.4 * 133.322387415"),
    unit("pressure", &["torr"], "101325/760"),
];

impl Unit {
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// How many base units it is.
    pub fn size(&self) -> Result<Number, Problem> {
        evaluate(self.size, &Effort::digits(DIGITS))
    }

    /// How many of it there are from the least of all quantities to its zero.
    pub fn zero(&self) -> Result<Number, Problem> {
        let zero = ZEROS.iter().find(|(name, _)| *name == self.name()).map_or("0", |(_, zero)| zero);
        evaluate(zero, &Effort::digits(DIGITS))
    }

    /// Whether nothing is below the zero of its dimension.
    pub fn has_least(&self) -> bool {
        self.dimension == "temperature"
    }
}

#[cfg(test)]
pub fn all() -> &'static [Unit] {
    UNITS
}

/// Finds two units of one dimension. What a name alone leaves open, the other unit may decide.
pub fn pair(from: &str, to: &str) -> Result<(&'static Unit, &'static Unit), String> {
    let (all_from, all_to) = (find(from)?, find(to)?);
    let has_partner =
        |unit: &Unit, others: &[&Unit]| others.iter().any(|other| other.dimension == unit.dimension);
    let narrow = |units: &[&'static Unit], others: &[&Unit]| -> Vec<&'static Unit> {
        units.iter().copied().filter(|unit| has_partner(unit, others)).collect()
    };
    match (narrow(&all_from, &all_to).as_slice(), narrow(&all_to, &all_from).as_slice()) {
        ([one], [other]) => Ok((one, other)),
        ([], _) | (_, []) => Err(no_pair(from, &all_from, to, &all_to)),
        ([_], several) => Err(ambiguous(to, several)),
        (several, _) => Err(ambiguous(from, several)),
    }
}

/// The units of a name: by its very letters, or else whatever their case and number. An error where only the case tells
/// it from a unit.
fn find(written: &str) -> Result<Vec<&'static Unit>, String> {
    let name = written.trim().replace('²', "2").replace('³', "3").replace("^", "");
    let is_exact = |known: &str| known == name || known == singular(&name);
    let exact = having(is_exact);
    if !exact.is_empty() {
        return Ok(exact);
    }
    let lower = name.to_lowercase().split([' ', '-']).collect::<Vec<_>>().join("_").replace("sq_", "sq");
    let fits = |known: &str| {
        let known = known.to_lowercase();
        known == lower || known == singular(&lower)
    };
    let units = having(|known| !CASE_COUNTS.contains(&known) && fits(known));
    let near = having(fits);
    if units.is_empty() && !near.is_empty() {
        return Err(format!(
            "`{}` is no unit here, as the case of its letters counts: write {} if that is meant",
            shorten(written),
            names(near.into_iter(), " or ")
        ));
    }
    Ok(units)
}

fn having(fits: impl Fn(&str) -> bool) -> Vec<&'static Unit> {
    UNITS.iter().filter(|unit| unit.names.iter().any(|known| fits(known))).collect()
}

fn singular(name: &str) -> &str {
    name.strip_suffix('s').filter(|singular| singular.len() > 2).unwrap_or(name)
}

fn ambiguous(written: &str, units: &[&Unit]) -> String {
    format!(
        "`{}` can be {}: write the one that is meant",
        shorten(written),
        names(units.iter().copied(), " or ")
    )
}

fn no_pair(from: &str, all_from: &[&Unit], to: &str, all_to: &[&Unit]) -> String {
    match (all_from.first(), all_to.first()) {
        (Some(one), Some(other)) => format!(
            "`{from}` is a {} and `{to}` a {}: convert between units of one kind",
            one.dimension, other.dimension
        ),
        (Some(known), None) => unknown(to, known),
        (None, Some(known)) => unknown(from, known),
        (None, None) => {
            format!(
                "there is no unit `{}` here, and no `{}`: write symbols as `km` or `lb`",
                shorten(from),
                shorten(to)
            )
        }
    }
}

fn unknown(written: &str, partner: &Unit) -> String {
    let of_kind = UNITS.iter().filter(|unit| unit.dimension == partner.dimension);
    format!(
        "there is no unit `{}` here: the units of {} are {}",
        shorten(written),
        partner.dimension,
        names(of_kind, ", ")
    )
}

fn names<'u>(units: impl Iterator<Item = &'u Unit>, between: &str) -> String {
    units.map(|unit| format!("`{}`", unit.name())).collect::<Vec<_>>().join(between)
}

fn shorten(written: &str) -> String {
    written.chars().take(40).collect()
}
