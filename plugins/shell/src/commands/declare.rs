//! Commands about variables and options.

use std::rc::Rc;

use crate::call::{self, Call, chomp, split_value, text_of};
use crate::escape;
use crate::shell::{Options, Outcome, Stop, Value, Variable, fail, is_name};
use crate::stream::Channel;

/// `declare`, `local`, `export` and `readonly`
pub fn declare(call: &mut Call<'_>) -> Outcome {
    let options = call.options("aAirxpngfF", "", false)?;
    if options.has('p') || options.rest.is_empty() {
        return print(call, &options.rest);
    }
    if options.has('f') || options.has('F') {
        return fail("option `-f` or `-F` is not supported by this shell: -a -A -i -n -r -x -p -g are");
    }
    let in_function = call.shell.state.scopes.len() > 1;
    if call.name == "local" && !in_function {
        return fail("can only be used in a function");
    }
    let is_local = in_function && !matches!(call.name, "export" | "readonly") && !options.has('g');
    for argument in &options.rest {
        let (name, value) = split_value(argument);
        let appends = name.ends_with('+') && value.is_some();
        let name = name.trim_end_matches('+');
        if !is_name(name) {
            return fail(format!("`{argument}': not a valid identifier"));
        }
        if options.has('n') {
            refer(call, name, value.unwrap_or_default(), is_local)?;
            continue;
        }
        call.shell.writable(name)?;
        if is_local && let Some(scope) = call.shell.state.scopes.last_mut() {
            scope.entry(name.to_owned()).or_default();
        }
        add_attributes(call, name, &options);
        if let Some(value) = value {
            call.shell.assign_text(name, value.to_owned(), appends)?;
        }
        call.shell.variable_mut(name).is_readonly |= options.has('r') || call.name == "readonly";
    }
    Ok(0)
}

/// Gives a variable the kind and the flags of the options. That it is read-only comes after its value.
fn add_attributes(call: &mut Call<'_>, name: &str, options: &call::Options) {
    let variable = call.shell.variable_mut(name);
    variable.is_integer |= options.has('i');
    variable.is_exported |= options.has('x') || call.name == "export";
    if options.has('A') && !matches!(variable.value, Some(Value::Map(_))) {
        variable.value = Some(Value::Map([].into()));
    } else if options.has('a') && variable.value.is_none() {
        variable.value = Some(Value::List([].into()));
    }
}

/// Makes a variable that stands for another one.
fn refer(call: &mut Call<'_>, name: &str, target: &str, is_local: bool) -> Outcome<()> {
    let is_name = target.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    if target.is_empty() || !is_name {
        return fail(format!("{name}: `{target}' is no name of a variable, which `-n` needs"));
    }
    let value = Some(Value::Text(target.to_owned()));
    let variable = Variable { value, is_reference: true, ..Variable::default() };
    let scopes = &mut call.shell.state.scopes;
    let scope = if is_local { scopes.len() - 1 } else { 0 };
    scopes[scope].insert(name.to_owned(), Rc::new(variable));
    Ok(())
}

fn print(call: &mut Call<'_>, names: &[String]) -> Outcome {
    let mut status = 0;
    let names: Vec<String> = if names.is_empty() {
        call.shell.environment().into_iter().map(|(name, _)| name).collect()
    } else {
        names.to_vec()
    };
    for name in names {
        let Some(variable) = call.shell.variable(&name) else {
            call.complain(&format!("{name}: not found"))?;
            status = 1;
            continue;
        };
        let (flags, value) = written(variable);
        call.line(format!("declare -{flags} {name}{value}"))?;
    }
    Ok(status)
}

/// The flags and the value of a variable, as `declare -p` writes them.
fn written(variable: &Variable) -> (String, String) {
    let quoted = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`");
        format!("\"{text}\"")
    };
    let mut flags = String::new();
    let value = match &variable.value {
        None => String::new(),
        Some(Value::Text(text)) => format!("={}", quoted(text)),
        Some(Value::List(list)) => {
            flags.push('a');
            let entry = |(key, value): (&usize, &String)| format!("[{key}]={}", quoted(value));
            format!("=({})", list.iter().map(entry).collect::<Vec<_>>().join(" "))
        }
        Some(Value::Map(map)) => {
            flags.push('A');
            let entries =
                map.iter().map(|(key, value)| format!("[{}]={} ", escape::quote(key), quoted(value)));
            format!("=({})", entries.collect::<String>())
        }
    };
    flags.extend(variable.is_integer.then_some('i'));
    flags.extend(variable.is_readonly.then_some('r'));
    flags.extend(variable.is_exported.then_some('x'));
    (if flags.is_empty() { "-".to_owned() } else { flags }, value)
}

pub fn unset(call: &mut Call<'_>) -> Outcome {
    let options = call.options("vf", "", false)?;
    for name in &options.rest {
        if let Some((name, key)) = name.split_once('[') {
            let key = key.trim_end_matches(']');
            let is_map = matches!(
                call.shell.variable(name).and_then(|variable| variable.value.as_ref()),
                Some(Value::Map(_))
            );
            let index = if is_map { 0 } else { call.shell.index(name, key)? };
            match &mut call.shell.variable_mut(name).value {
                Some(Value::List(list)) => drop(list.remove(&index)),
                Some(Value::Map(map)) => drop(map.remove(key)),
                _ => {}
            }
            continue;
        }
        call.shell.writable(name)?;
        if options.has('f') || (call.shell.variable(name).is_none() && !options.has('v')) {
            call.shell.state.functions.remove(name);
        } else {
            call.shell.unset(name);
        }
    }
    Ok(0)
}

pub fn set(call: &mut Call<'_>) -> Outcome {
    let mut arguments = call.arguments.iter();
    while let Some(argument) = arguments.next() {
        let is_on = match argument.chars().next() {
            Some('-') => true,
            Some('+') => false,
            _ => {
                let rest = std::iter::once(argument).chain(arguments).cloned().collect();
                call.shell.state.positional = Rc::new(rest);
                return Ok(0);
            }
        };
        if argument == "--" {
            call.shell.state.positional = Rc::new(arguments.cloned().collect());
            return Ok(0);
        }
        for letter in argument[1..].chars() {
            let name = if letter == 'o' { arguments.next().map(String::as_str) } else { None };
            set_option(&mut call.shell.state.options, letter, name.unwrap_or_default(), is_on)?;
        }
    }
    Ok(0)
}

/// Sets an option of a shell by its letter, or by its name after `-o`.
pub fn set_option(options: &mut Options, letter: char, name: &str, is_on: bool) -> Outcome<()> {
    let name = match letter {
        'o' => name,
        'e' => "errexit",
        'u' => "nounset",
        'f' => "noglob",
        'a' => "allexport",
        'x' => "xtrace",
        'E' => "errtrace",
        'h' | 'B' | 'm' => return Ok(()),
        _ => return refuse_option(&format!("-{letter}"), "-a -e -u -f -x -E -o"),
    };
    let option = match name {
        "errexit" => &mut options.exits_on_error,
        "nounset" => &mut options.refuses_unset,
        "noglob" => &mut options.no_glob,
        "allexport" => &mut options.exports_all,
        "xtrace" => &mut options.traces,
        "errtrace" => &mut options.traces_errors,
        "pipefail" => &mut options.pipefail,
        "posix" => return Ok(()),
        _ => return refuse_option(name, "allexport errexit errtrace nounset noglob xtrace pipefail"),
    };
    *option = is_on;
    Ok(())
}

fn refuse_option(option: &str, supported: &str) -> Outcome<()> {
    let message = format!("option `{option}` is not supported by this shell: {supported} are");
    Err(Stop::Fail(2, message))
}

pub fn shopt(call: &mut Call<'_>) -> Outcome {
    let given = call.options("suq", "", false)?;
    let is_on = given.has('s');
    let options = &mut call.shell.state.options;
    for name in &given.rest {
        match name.as_str() {
            "nullglob" => options.null_glob = is_on,
            "dotglob" => options.dot_glob = is_on,
            "nocasematch" => options.ignores_case = is_on,
            "globstar" => options.globstar = is_on,
            "lastpipe" => options.keeps_last_stage = is_on,
            "inherit_errexit" => options.inherits_exit = is_on,
            "extglob" | "expand_aliases" => {}
            _ => {
                return fail(format!(
                    "option `{name}` is not supported by this shell: nullglob dotglob nocasematch globstar extglob are"
                ));
            }
        }
    }
    Ok(0)
}

/// Reads a line into variables.
pub fn read(call: &mut Call<'_>) -> Outcome {
    let options = call.options("ra:d:n:p:st:eu:", "", false)?;
    let is_raw = options.has('r');
    let end = options.value('d').map_or(b'\n', |text| text.bytes().next().unwrap_or(0));
    let input = match options.value('u') {
        None => call.io.input.clone(),
        Some(number) => match number.parse().ok().and_then(|number| call.io.channel(number)) {
            Some(Channel::Input(input)) => input,
            _ => return fail(format!("{number}: Bad file descriptor")),
        },
    };
    let mut bytes = match options.value('n') {
        Some(count) => input.read(count.parse().unwrap_or(1)),
        None => input.read_until(end),
    };
    while !is_raw && bytes.ends_with(b"\\\n") {
        bytes.truncate(bytes.len() - 2);
        bytes.extend(input.read_until(end));
    }
    let is_complete = bytes.last() == Some(&end) || (options.has('n') && !bytes.is_empty());
    if bytes.last() == Some(&end) {
        bytes.pop();
    }
    let line = text_of(&bytes);
    let separators = call
        .shell
        .variable("IFS")
        .map_or(" \t\n".to_owned(), |_| call.shell.get("IFS").unwrap_or_default().to_owned());
    if let Some(name) = options.value('a') {
        let fields = split(&line, &separators, usize::MAX, is_raw);
        call.shell.variable_mut(name).value = Some(Value::List(fields.into_iter().enumerate().collect()));
    } else if options.rest.is_empty() {
        call.shell.set("REPLY", line)?;
    } else {
        let mut fields = split(&line, &separators, options.rest.len(), is_raw).into_iter();
        for name in &options.rest {
            call.shell.set(name, fields.next().unwrap_or_default())?;
        }
    }
    Ok(i32::from(!is_complete))
}

/// Splits a line into at most so many fields, of which the last one has the rest.
fn split(line: &str, separators: &str, most: usize, is_raw: bool) -> Vec<String> {
    let is_blank = |sign: char| separators.contains(sign) && sign.is_whitespace();
    let line = line.trim_start_matches(is_blank);
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut signs = line.chars().peekable();
    let mut has_field = false;
    while let Some(sign) = signs.next() {
        if sign == '\\' && !is_raw {
            field.extend(signs.next());
            has_field = true;
        } else if separators.contains(sign) && fields.len() + 1 < most {
            fields.push(std::mem::take(&mut field));
            has_field = false;
            let mut was_hard = !is_blank(sign);
            while let Some(next) = signs
                .peek()
                .copied()
                .filter(|next| is_blank(*next) || (!was_hard && separators.contains(*next)))
            {
                was_hard |= !is_blank(next);
                signs.next();
            }
        } else {
            field.push(sign);
            has_field = true;
        }
    }
    if has_field {
        let mut last = field.trim_end_matches(is_blank).to_owned();
        // One separator at the end of the rest is dropped if there is no other one.
        if fields.len() + 1 == most
            && last.matches(|sign| separators.contains(sign)).count() == 1
            && last.ends_with(|sign| separators.contains(sign))
        {
            last.pop();
        }
        fields.push(last);
    }
    fields
}

/// `mapfile` and `readarray`
pub fn mapfile(call: &mut Call<'_>) -> Outcome {
    let options = call.options("td:n:s:", "", false)?;
    let number = |flag: char| match options.value(flag) {
        None => Ok(0),
        Some(text) => text.parse::<usize>().or_else(|_| fail(format!("{text}: invalid number of lines"))),
    };
    let (mut skipped, most) = (number('s')?, number('n')?);
    let name = options.rest.first().map_or("MAPFILE", String::as_str);
    let end = options.value('d').map_or(b'\n', |text| text.bytes().next().unwrap_or(0));
    let mut list = Vec::new();
    while !call.io.input.is_at_end() && (most == 0 || list.len() < most) {
        let mut line = call.io.input.read_until(end);
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        if options.has('t') && line.last() == Some(&end) {
            line.pop();
        }
        list.push(text_of(if end == b'\n' && options.has('t') { chomp(&line) } else { &line }));
    }
    call.shell.writable(name)?;
    call.shell.variable_mut(name).value = Some(Value::List(list.into_iter().enumerate().collect()));
    Ok(0)
}

/// `getopts`: the next option of the positional parameters, or of the arguments behind its name.
pub fn next_option(call: &mut Call<'_>) -> Outcome {
    let [known, variable, rest @ ..] = call.arguments else {
        return Err(Stop::Fail(2, "usage: getopts optstring name [argument ...]".to_owned()));
    };
    let arguments = if rest.is_empty() { call.shell.state.positional.to_vec() } else { rest.to_vec() };
    let index = call.shell.get("OPTIND").and_then(|text| text.parse::<usize>().ok()).unwrap_or(1).max(1);
    let argument =
        arguments.get(index - 1).filter(|argument| argument.len() > 1 && argument.starts_with('-'));
    let Some(letters) = argument.filter(|argument| *argument != "--") else {
        call.shell.set("OPTIND", (index + usize::from(argument.is_some())).to_string())?;
        return call.shell.set(variable, "?").map(|()| 1);
    };
    let (last, place) = call.shell.state.next_option;
    let place = if last == index && letters.is_char_boundary(place) { place } else { 1 };
    let Some(letter) = letters[place..].chars().next() else {
        return fail("the options changed while they were read");
    };
    let after = &letters[place + letter.len_utf8()..];
    let takes_value =
        known.split_once(letter).filter(|_| letter != ':').map(|(_, rest)| rest.starts_with(':'));
    let behind = if after.is_empty() { (index + 1, 1) } else { (index, letters.len() - after.len()) };
    let (next, found, value) = match (takes_value, arguments.get(index)) {
        (Some(true), _) if !after.is_empty() => ((index + 1, 1), letter, Some(after.to_owned())),
        (Some(true), Some(value)) => ((index + 2, 1), letter, Some(value.clone())),
        (Some(true), None) => ((index + 1, 1), ':', None),
        (Some(false), _) => (behind, letter, None),
        (None, _) => (behind, '?', None),
    };
    let is_silent = known.starts_with(':');
    let is_wrong = matches!(found, '?' | ':');
    if is_wrong && !is_silent {
        let problem = if found == ':' { "option requires an argument" } else { "illegal option" };
        call.complain(&format!("{problem} -- {letter}"))?;
    }
    call.shell.state.next_option = next;
    call.shell.set("OPTIND", next.0.to_string())?;
    match value.or((is_wrong && is_silent).then(|| letter.to_string())) {
        Some(value) => call.shell.set("OPTARG", value)?,
        None => call.shell.unset("OPTARG"),
    }
    call.shell.set(variable, if is_wrong && !is_silent { '?' } else { found }).map(|()| 0)
}
