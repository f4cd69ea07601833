//! The register in memory: dense rows, columns, bitmaps, words of names; filters, totals and sorts run on these.
