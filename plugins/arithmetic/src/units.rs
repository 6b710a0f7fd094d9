//! Units and their sizes. Each size is exact, from the definition: SI, the international yard and pound of 1959, the
//! gallons of the United States and of 1985 in Britain, the thermochemical calorie and the BTU of the steam tables.

use crate::expression::evaluate;
use crate::number::Outcome;
use crate::work::Work;

/// A kind ends with a colon; its units follow, each as names, size and the distance of its zero from the least quantity.
/// All names fit in any case, but those with an exclamation mark: `Mm` is a thousand kilometres, and `Nm` a torque.
static UNITS: &str = include_str!("units.txt");

/// A unit: its size in the base unit of its dimension, as an expression, and where its zero is.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    dimension: &'static str,
    /// With spaces between them. The first is the name that is given back.
    names: &'static str,
    size: &'static str,
    zero: &'static str,
}

impl Unit {
    fn parse(dimension: &'static str, line: &'static str) -> Option<Self> {
        let (names, size) = line.split_once('=')?;
        let (size, zero) = size.split_once('@').unwrap_or((size, "0"));
        Some(Self { dimension, names, size, zero })
    }

    /// The names, each with whether the case of its letters counts.
    fn names(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.names.split_ascii_whitespace().map(|name| (name.trim_start_matches('!'), name.starts_with('!')))
    }

    pub fn name(&self) -> &'static str {
        self.names().next().map_or("", |(name, _)| name)
    }

    /// How many base units it is.
    pub fn size(&self, work: &Work) -> Outcome {
        evaluate(self.size, work)
    }

    /// How many of it there are from the least of all quantities to its zero.
    pub fn zero(&self, work: &Work) -> Outcome {
        evaluate(self.zero, work)
    }

    /// Whether nothing is below the zero of its dimension.
    pub fn has_least(&self) -> bool {
        self.dimension == "temperature"
    }
}

pub fn all() -> Vec<Unit> {
    let mut dimension = "";
    let mut units = Vec::new();
    for line in UNITS.lines() {
        match line.strip_suffix(':') {
            Some(kind) => dimension = kind,
            None => units.extend(Unit::parse(dimension, line)),
        }
    }
    units
}

/// Finds two units of one dimension. The other unit may decide between the meanings of a name.
pub fn pair(from: &str, to: &str) -> Result<(Unit, Unit), String> {
    let units = all();
    let (all_from, all_to) = (find(&units, from)?, find(&units, to)?);
    let narrow = |units: &[&Unit], others: &[&Unit]| -> Vec<Unit> {
        let has_partner = |unit: &Unit| others.iter().any(|other| other.dimension == unit.dimension);
        units.iter().filter(|unit| has_partner(unit)).map(|unit| **unit).collect()
    };
    match (narrow(&all_from, &all_to).as_slice(), narrow(&all_to, &all_from).as_slice()) {
        ([one], [other]) => Ok((*one, *other)),
        ([], _) | (_, []) => Err(no_pair(&units, (from, &all_from), (to, &all_to))),
        ([_], several) => Err(ambiguous(to, several)),
        (several, _) => Err(ambiguous(from, several)),
    }
}

/// The units of a name: by its very letters, or else in any case and number. An error where only the case tells
/// it from a unit.
fn find<'u>(units: &'u [Unit], written: &str) -> Result<Vec<&'u Unit>, String> {
    let having = |fits: &dyn Fn((&str, bool)) -> bool| -> Vec<_> {
        units.iter().filter(|unit| unit.names().any(fits)).collect()
    };
    let name = written.trim().replace('²', "2").replace('³', "3").replace('^', "");
    let single = singular(&name);
    let exact = having(&|(known, _)| known == name || known == single);
    if !exact.is_empty() {
        return Ok(exact);
    }
    let lower = name.to_lowercase().replace([' ', '-'], "_").replace("sq_", "sq");
    let fits = |known: &str| {
        let known = known.to_lowercase();
        known == lower || known == singular(&lower)
    };
    let found = having(&|(known, does_case_count)| !does_case_count && fits(known));
    let near = having(&|(known, _)| fits(known));
    if found.is_empty() && !near.is_empty() {
        return Err(format!(
            "`{}` is no unit here, as the case of its letters counts: write {} if that is meant",
            shorten(written),
            names(near, " or ")
        ));
    }
    Ok(found)
}

fn singular(name: &str) -> &str {
    name.strip_suffix('s').filter(|singular| singular.len() > 2).unwrap_or(name)
}

fn ambiguous(written: &str, units: &[Unit]) -> String {
    format!("`{}` can be {}: write the one that is meant", shorten(written), names(units, " or "))
}

fn no_pair(units: &[Unit], (from, all_from): (&str, &[&Unit]), (to, all_to): (&str, &[&Unit])) -> String {
    let unknown = |written, dimension| {
        let of_kind = units.iter().filter(|unit| unit.dimension == dimension);
        let of_kind = names(of_kind, ", ");
        format!("there is no unit `{}` here: the units of {dimension} are {of_kind}", shorten(written))
    };
    match (all_from.first(), all_to.first()) {
        (Some(one), Some(other)) => format!(
            "`{from}` is a {} and `{to}` a {}: convert between units of one kind",
            one.dimension, other.dimension
        ),
        (Some(known), None) => unknown(to, known.dimension),
        (None, Some(known)) => unknown(from, known.dimension),
        (None, None) => format!(
            "there is no unit `{}` here, and no `{}`: write symbols as `km` or `lb`",
            shorten(from),
            shorten(to)
        ),
    }
}

fn names<'u>(units: impl IntoIterator<Item = &'u Unit>, between: &str) -> String {
    units.into_iter().map(|unit| format!("`{}`", unit.name())).collect::<Vec<_>>().join(between)
}

fn shorten(written: &str) -> String {
    written.chars().take(40).collect()
}
