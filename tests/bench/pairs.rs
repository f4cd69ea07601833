//! Whether two kinds of answers can be told apart by their times: the chance that of one of each kind the first takes longer, 0.5 where
//! the time tells nothing.

/// The chance that one of the first is longer than one of the others: the Mann-Whitney statistic over its greatest value.
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

/// By how much that chance strays from 0.5 by luck alone, with so many times of each kind: one standard deviation.
pub fn spread(times: usize) -> f64 {
    ((2 * times + 1) as f64 / (12.0 * (times as f64).powi(2))).sqrt()
}
