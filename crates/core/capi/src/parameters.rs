//! Parameters as text: `preset=vai-sf, target-floor=2 us`.

use crate::error::{Failure, Place, Report};
use crate::message::Message;
use poseidon_laws::params::ParamError;
use poseidon_laws::{AnyLaw, AnyParams, BuildError, LAWS, Path};
use poseidon_types::Signals;

/// The name that selects a preset. It must come first, because a preset sets all parameters.
const PRESET: &str = "preset";

/// One `name=value` and its place in the text.
#[derive(Clone, Copy)]
struct Setting<'a> {
    name: &'a str,
    value: &'a str,
    place: Place,
}

/// Returns the parameters of the law called `name`, changed by `text`.
pub(crate) fn parse(name: &str, text: &str) -> Result<AnyParams, Report> {
    let Some(mut params) = AnyParams::for_law(name) else { return Err(unknown_law(name)) };
    for (index, setting) in settings(text).enumerate() {
        let Setting { name: key, value, place } = setting?;
        let result = if key != PRESET {
            params.set(key, value)
        } else if index == 0 {
            params.apply_preset(value)
        } else {
            let message = format_args!("a preset sets all parameters: write it first");
            return Err(Report::new(Failure::Syntax, place, message));
        };
        result.map_err(|error| explain(name, key, value, place, error))?;
    }
    Ok(params)
}

/// Builds the law called `name` with the parameters in `text`.
pub(crate) fn build(name: &str, text: &str, path: &Path, supplied: Signals) -> Result<AnyLaw, Report> {
    parse(name, text)?.build(path, supplied).map_err(|error| {
        let (failure, place) = match &error {
            BuildError::MissingSignals { .. } => (Failure::MissingSignals, Place::default()),
            BuildError::Param { error, .. } => (Failure::Range, place_of(text, error)),
            BuildError::Path(_) => (Failure::Path, Place::default()),
            _ => (Failure::Value, Place::default()),
        };
        Report::display(failure, place, &error)
    })
}

/// Splits a text into its settings. An empty text has none.
fn settings(text: &str) -> impl Iterator<Item = Result<Setting<'_>, Report>> {
    let mut offset = 0;
    let items = if text.trim().is_empty() { None } else { Some(text.split(',')) };
    items.into_iter().flatten().map(move |item| {
        let start = offset + (item.len() - item.trim_start().len());
        offset += item.len() + 1;
        let item = item.trim();
        let place = Place { position: to_u32(start), length: to_u32(item.len()) };
        let Some((name, value)) = item.split_once('=') else {
            let message = format_args!("write name=value instead of {item:?}");
            return Err(Report::new(Failure::Syntax, place, message));
        };
        Ok(Setting { name: name.trim(), value: value.trim(), place })
    })
}

/// Returns where the text sets the parameter that is out of range. If several settings do, the last one counts.
fn place_of(text: &str, error: &ParamError) -> Place {
    let ParamError::OutOfRange { name, .. } = error else { return Place::default() };
    let is_meant = |setting: &Setting<'_>| {
        let normalise = |byte: u8| if byte == b'-' { b'_' } else { byte };
        setting.name.bytes().map(normalise).eq(name.bytes())
    };
    let settings = settings(text).filter_map(Result::ok);
    settings.filter(is_meant).last().map_or_else(Place::default, |setting| setting.place)
}

fn unknown_law(name: &str) -> Report {
    let mut report = Report::new(Failure::UnknownName, Place::default(), format_args!("there is no law "));
    let message = &mut report.message;
    message.push(b"\"");
    // A long name must not hide the list.
    let mut start = Message::<40>::EMPTY;
    start.push(name.as_bytes());
    message.push(start.as_bytes());
    message.push(b"\"; the laws are ");
    for (index, law) in LAWS.iter().enumerate() {
        message.push(if index == 0 { b"" } else { b", " });
        message.push(law.name.as_bytes());
    }
    report
}

/// Adds the name and the value to a parameter's error.
fn explain(law: &str, name: &str, value: &str, place: Place, error: ParamError) -> Report {
    match error {
        ParamError::UnknownName => Report::new(
            Failure::UnknownName,
            place,
            format_args!(
                "law {law:?} has no parameter {name:?}; poseidon_param_info_get lists its parameters"
            ),
        ),
        ParamError::UnknownPreset => Report::new(
            Failure::UnknownName,
            place,
            format_args!("law {law:?} has no preset {value:?}; poseidon_preset_info_get lists its presets"),
        ),
        ParamError::OutOfRange { .. } => Report::display(Failure::Range, place, &error),
        _ => Report::new(Failure::Value, place, format_args!("{error}; the value is {value:?}")),
    }
}

/// Texts are at most [`POSEIDON_MAX_TEXT`](crate::structs::POSEIDON_MAX_TEXT) bytes long.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Bytes, Nanos};
    use std::string::{String, ToString};

    const PATH: Path = Path::new(Bytes::new(4_096), BitRate::from_gbps(200), Nanos::new(9_900));

    fn failure(law: &str, text: &str) -> (Failure, u32, u32, String) {
        let report = build(law, text, &PATH, Signals::ALL).expect_err("the text is invalid");
        let message =
            core::str::from_utf8(report.message.as_bytes()).expect("the message is UTF-8").to_string();
        (report.failure, report.place.position, report.place.length, message)
    }

    #[test]
    fn text_sets_parameters() {
        let params = parse("poseidon", " target-floor = 3 us,target_range=40us ").expect("the text is valid");
        let mut expected = AnyParams::for_law("poseidon").expect("the law is registered");
        expected.set("target-floor", "3 us").expect("the value is valid");
        assert_eq!(params, expected);
        assert_eq!(parse("poseidon", "  ").ok(), AnyParams::for_law("poseidon"));
        assert_eq!(parse("poseidon", "preset=paper").ok(), AnyParams::for_law("poseidon"));
        let mut expected = AnyParams::for_law("swift").expect("the law is registered");
        expected.apply_preset("vai-sf").expect("the preset exists");
        assert_eq!(parse("swift", "preset = vai-sf").ok(), Some(expected));
    }

    #[test]
    fn errors_have_a_position_and_a_remedy() {
        let (code, position, length, message) = failure("poseidon", "step=0.5, target-floor=3");
        assert_eq!((code, position, length), (Failure::Value, 10, 14));
        assert_eq!(
            message,
            "target_floor: time without a unit: add one of ns, us, ms, s; the value is \"3\""
        );
        let (code, position, length, message) = failure("poseidon", "step=3, max-rate=400 Gbps");
        assert_eq!((code, position, length), (Failure::Range, 0, 6));
        assert_eq!(message, "law \"poseidon\": step must be at least 0.001 and below 2 (Eq. 2)");
        let (code, position, length, message) = failure("poseidon", "step=1,kk=2");
        assert_eq!((code, position, length), (Failure::UnknownName, 7, 4));
        assert!(message.starts_with("law \"poseidon\" has no parameter \"kk\""), "{message}");
        let (code, position, length, message) = failure("poseidon", "step=1,,");
        assert_eq!((code, position, length), (Failure::Syntax, 7, 0));
        assert_eq!(message, "write name=value instead of \"\"");
        let (code, position, _, message) = failure("swift", "preset=none");
        assert_eq!((code, position), (Failure::UnknownName, 0));
        assert!(message.starts_with("law \"swift\" has no preset \"none\""), "{message}");
        let (code, position, _, _) = failure("swift", "base_target=10 us,preset=vai-sf");
        assert!(matches!(code, Failure::Syntax | Failure::UnknownName), "{code:?} at {position}");
        let (code, _, _, message) = failure("posiedon", "");
        assert_eq!(code, Failure::UnknownName);
        assert!(
            message.starts_with("there is no law \"posiedon\"; the laws are poseidon, swift, "),
            "{message}"
        );
    }

    #[test]
    fn missing_signals_are_named() {
        let report = build("poseidon", "", &PATH, Signals::RTT).expect_err("a signal is missing");
        assert_eq!(report.failure, Failure::MissingSignals);
        let expected = b"law \"poseidon\" needs max-hop-delay; the host supplies rtt";
        assert_eq!(report.message.as_bytes(), expected);
    }

    #[test]
    fn no_law_has_a_parameter_called_preset() {
        for law in LAWS {
            assert!(law.params.iter().all(|param| param.name != PRESET), "{}", law.name);
        }
    }
}
