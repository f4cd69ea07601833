//! Behaviour of rules, from their text to their outcomes, without the sandbox.

#[cfg(test)]
mod rules {
    mod batches;
    mod columns;
    mod diagnostics;
    mod explain;
    mod fixes;
    mod generated;
    mod helpers;
    mod hostile;
    mod language;
    mod lists;
    mod logic;
    mod missing;
    mod never;
    mod properties;
    mod support;
    mod values;
}
