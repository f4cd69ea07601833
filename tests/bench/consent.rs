//! A client that sees what is consented to: how its searches compare with those of a client that sees everything, and whether the
//! time of an answer tells what is hidden from what does not exist.

mod searches;
mod timing;

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    searches::run()?;
    timing::run()
}
