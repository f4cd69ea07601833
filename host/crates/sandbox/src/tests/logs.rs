//! The log lines of plugins in the server's log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::PluginUsage;
use crate::package::Package;
use crate::testing::guest::host_with;
use crate::testing::pack_guest::{LOG, PackGuest};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a guest on this thread, and returns the lines that were logged during the run.
fn logged(guest: &PackGuest) -> (Vec<serde_json::Value>, PluginUsage) {
    let host = host_with(None);
    let plugin = host.load(&Package::read(guest.build()).unwrap()).unwrap();
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::INFO)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || plugin.try_out(&host.engine)).unwrap();
    let bytes = captured.0.lock().unwrap().clone();
    let lines = String::from_utf8(bytes).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), plugin.usage())
}

#[test]
fn a_line_names_the_plugin_its_version_and_its_level() {
    // One line by the instance of the smoke call, and two by the calls that read the contents.
    let describe = r#"(call $log (i32.const 3) (i32.const 70000) (i32.const 12)) (global.get $descriptions)"#;
    let top = r#"(data (i32.const 70000) "odd\0a\1b[2J code")"#;
    let (lines, usage) = logged(&PackGuest { imports: LOG, top, describe, ..PackGuest::default() });
    assert_eq!((lines.len(), usage.log_lines, usage.log_lines_suppressed), (3, 3, 0));
    assert_eq!(lines[0]["level"], "WARN");
    let fields = &lines[0]["fields"];
    assert_eq!(fields["message"], "plugin log");
    assert_eq!((&fields["plugin.name"], &fields["plugin.version"]), (&"test".into(), &"1.0.0".into()));
    assert_eq!(fields["plugin.line"], "odd  [2J cod");
}

#[test]
fn a_plugin_above_the_log_rate_is_served_and_suppressed_lines_are_counted() {
    let describe = "(local $left i32) (local.set $left (i32.const 300))
        (loop $again
            (call $log (i32.const 2) (i32.const 1024) (i32.const 4))
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (global.get $descriptions)";
    let (lines, usage) = logged(&PackGuest { imports: LOG, describe, ..PackGuest::default() });
    assert_eq!(usage.faults, []);
    assert_eq!(usage.log_lines + usage.log_lines_suppressed, 900);
    assert!(usage.log_lines >= 20 && usage.log_lines < 100, "{}", usage.log_lines);
    assert!(lines.len() < 200, "{}", lines.len());
}

#[test]
fn lines_below_the_log_level_are_neither_written_nor_counted() {
    let describe = "(call $log (i32.const 0) (i32.const 1024) (i32.const 4))
        (call $log (i32.const 1) (i32.const 1024) (i32.const 4))
        (global.get $descriptions)";
    let (lines, usage) = logged(&PackGuest { imports: LOG, describe, ..PackGuest::default() });
    assert_eq!((lines.len(), usage.log_lines, usage.log_lines_suppressed), (0, 0, 0));
}
