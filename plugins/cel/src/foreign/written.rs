//! Values of the crate in CEL syntax, for explanations.

use crate::limits::EXPLAINED_TEXT_CHARACTERS_MAX;
use cel_interpreter::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelNull, CelOptional, CelString, CelTimestamp,
    CelType, CelUInt,
};
use cel_interpreter::common::value::Val;
use std::fmt::Write;

/// The depth to which lists and maps are written.
const DEPTH_MAX: u32 = 4;

/// The value in CEL syntax, possibly truncated.
pub fn written(value: &dyn Val) -> String {
    let mut text = String::new();
    write(value, DEPTH_MAX, &mut text);
    crate::explanation::shortened(&text)
}

fn write(value: &dyn Val, depth: u32, text: &mut String) {
    // The rest would be truncated.
    if text.len() > 4 * EXPLAINED_TEXT_CHARACTERS_MAX {
        return;
    }
    if let Some(boolean) = value.downcast_ref::<CelBool>() {
        push(text, boolean.inner());
    } else if let Some(integer) = value.downcast_ref::<CelInt>() {
        push(text, integer.inner());
    } else if let Some(integer) = value.downcast_ref::<CelUInt>() {
        let _ = write!(text, "{}u", integer.inner());
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        let _ = write!(text, "{:?}", number.inner());
    } else if let Some(string) = value.downcast_ref::<CelString>() {
        let _ = write!(text, "{:?}", string.inner());
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        let _ = write!(text, "b\"{}\"", bytes.inner().escape_ascii());
    } else if let Some(kind) = value.downcast_ref::<CelType>() {
        text.push_str(kind.name());
    } else if let Some(instant) = value.downcast_ref::<CelTimestamp>() {
        let _ = write!(text, "timestamp(\"{}\")", instant.inner().to_rfc3339());
    } else if let Some(duration) = value.downcast_ref::<CelDuration>() {
        let milliseconds = duration.inner().num_milliseconds();
        let (sign, magnitude) = (if milliseconds < 0 { "-" } else { "" }, milliseconds.unsigned_abs());
        let _ = write!(text, "duration(\"{sign}{}.{:03}s\")", magnitude / 1_000, magnitude % 1_000);
    } else if value.downcast_ref::<CelNull>().is_some() {
        text.push_str("null");
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        match optional.option() {
            None => text.push_str("optional.none()"),
            Some(inner) => {
                text.push_str("optional.of(");
                write_below(inner, depth, text);
                text.push(')');
            }
        }
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        text.push('[');
        for (number, item) in list.inner().iter().enumerate() {
            text.push_str(if number > 0 { ", " } else { "" });
            write_below(item.as_ref(), depth, text);
        }
        text.push(']');
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        let mut entries: Vec<_> = map.inner().iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        text.push('{');
        for (number, (key, item)) in entries.into_iter().enumerate() {
            text.push_str(if number > 0 { ", " } else { "" });
            write_below(key.inner(), depth, text);
            text.push_str(": ");
            write_below(item.as_ref(), depth, text);
        }
        text.push('}');
    } else {
        text.push_str(value.get_type().name());
    }
}

fn write_below(value: &dyn Val, depth: u32, text: &mut String) {
    match depth.checked_sub(1) {
        Some(depth) => write(value, depth, text),
        None => text.push('…'),
    }
}

fn push(text: &mut String, value: impl std::fmt::Display) {
    let _ = write!(text, "{value}");
}
