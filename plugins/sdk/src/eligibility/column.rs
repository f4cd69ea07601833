//! Reading columns: a missing value is `None`, never a default.

use super::{Batch, Column, ColumnValues, EvaluationError, Field, RegistrySchema, RowSpace};

impl RegistrySchema {
    /// The field of that path, if there is one.
    pub fn field(&self, space: RowSpace, path: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.space == space && field.path == path)
    }
}

impl Batch {
    /// The column of a field that the rule referred to.
    ///
    /// # Errors
    /// [`EvaluationError::MissingColumn`]: the host did not send it.
    pub fn column(&self, space: RowSpace, path: &str) -> Result<&Column, EvaluationError> {
        let found = self.columns.iter().find(|column| column.space == space && column.path == path);
        found.ok_or_else(|| {
            let root = match space {
                RowSpace::Me => "me",
                RowSpace::Members => "members",
                RowSpace::Programs => "programs",
            };
            EvaluationError::MissingColumn(format!("{root}.{path}"))
        })
    }
}

impl Column {
    /// Returns true if the row has a value.
    ///
    /// ```
    /// use daftar_sdk::eligibility::{Column, ColumnValues, RowSpace};
    ///
    /// let values = ColumnValues::Booleans(vec![1, 0, 0]);
    /// let active = Column { space: RowSpace::Me, path: "active".to_owned(), valid: vec![0b011], values };
    /// assert_eq!((active.boolean(0), active.boolean(1), active.boolean(2)), (Some(true), Some(false), None));
    /// ```
    pub fn is_known(&self, row: usize) -> bool {
        // An empty bitmap means that every bit is set.
        self.valid.is_empty() || self.valid.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }

    /// A boolean.
    pub fn boolean(&self, row: usize) -> Option<bool> {
        match &self.values {
            ColumnValues::Booleans(values) => self.known(values, row).map(|value| value == 1),
            _ => None,
        }
    }

    /// A whole number.
    pub fn integer(&self, row: usize) -> Option<i64> {
        match &self.values {
            ColumnValues::Integers(values) => self.known(values, row),
            _ => None,
        }
    }

    /// A number with a fraction.
    pub fn number(&self, row: usize) -> Option<f64> {
        match &self.values {
            ColumnValues::Numbers(values) => self.known(values, row),
            _ => None,
        }
    }

    /// A day, in days since 1970-01-01.
    pub fn day(&self, row: usize) -> Option<i32> {
        match &self.values {
            ColumnValues::Days(values) => self.known(values, row),
            _ => None,
        }
    }

    /// The number of a code.
    pub fn code(&self, row: usize) -> Option<u32> {
        match &self.values {
            ColumnValues::Codes(values) => self.known(values, row),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, row: usize) -> Option<&str> {
        let ColumnValues::Texts(texts) = &self.values else { return None };
        if !self.is_known(row) {
            return None;
        }
        let start = usize::try_from(*texts.offsets.get(row)?).ok()?;
        let end = usize::try_from(*texts.offsets.get(row.checked_add(1)?)?).ok()?;
        std::str::from_utf8(texts.bytes.get(start..end)?).ok()
    }

    fn known<T: Copy>(&self, values: &[T], row: usize) -> Option<T> {
        values.get(row).copied().filter(|_| self.is_known(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eligibility::TextValues;

    fn column(valid: Vec<u8>, values: ColumnValues) -> Column {
        Column { space: RowSpace::Me, path: "x".to_owned(), valid, values }
    }

    #[test]
    fn an_empty_bitmap_knows_every_row() {
        let days = column(Vec::new(), ColumnValues::Days(vec![1, 2]));
        assert_eq!((days.day(0), days.day(1), days.day(2)), (Some(1), Some(2), None));
    }

    #[test]
    fn texts_lie_end_to_end() {
        let values = TextValues { offsets: vec![0, 2, 2, 5], bytes: "abcdé".as_bytes()[..5].to_vec() };
        let texts = column(vec![0b011], ColumnValues::Texts(values));
        assert_eq!((texts.text(0), texts.text(1), texts.text(2), texts.text(3)), (Some("ab"), Some(""), None, None));
    }

    #[test]
    fn a_value_of_another_type_is_no_value() {
        let codes = column(Vec::new(), ColumnValues::Codes(vec![7]));
        assert_eq!((codes.code(0), codes.boolean(0), codes.integer(0), codes.number(0)), (Some(7), None, None, None));
    }

    #[test]
    fn a_column_that_is_not_there_is_named() {
        let batch = Batch { as_of: 0, rows: 0, members: None, programs: None, columns: Vec::new() };
        let missing = batch.column(RowSpace::Members, "gender");
        assert!(matches!(missing, Err(EvaluationError::MissingColumn(name)) if name == "members.gender"));
    }
}
