//! Behaviour of rules, from their text to their outcomes, without the sandbox.

#[cfg(test)]
mod rules {
    mod batches;
    mod diagnostics;
    mod helpers;
    mod hostile;
    mod lists;
    mod logic;
    mod properties;
    mod support;
    mod values;
}
