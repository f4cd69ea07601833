//! How often somebody may call: the three buckets.
