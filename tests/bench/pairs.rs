//! Tests whether two kinds of responses can be distinguished by their times: the probability that of one of each kind
//! the first takes longer, 0.5 if they cannot.

/// The chance that one of the first is longer than one of the others: the Mann-Whitney statistic over its greatest
/// value.
pub fn chance_of_longer(times: &[f64], others: &[f64]) -> f64 {
    let mut sorted = others.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let shorter: f64 = times
        .iter()
        .map(|time| {
            let below = sorted.partition_point(|other| other < time);
            let not_above = sorted.partition_point(|other| other <= time);
            (below + not_above) as f64 / 2.0
        })
        .sum();
    shorter / (times.len() as f64 * others.len() as f64)
}

/// Standard deviation of that probability from 0.5 for indistinguishable kinds, with this number of times of each.
pub fn spread(times: usize) -> f64 {
    ((2 * times + 1) as f64 / (12.0 * (times as f64).powi(2))).sqrt()
}
