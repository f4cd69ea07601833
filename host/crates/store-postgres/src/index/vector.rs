//! Terms as PostgreSQL takes them without reading a text.

use std::collections::BTreeSet;
use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

/// A `tsvector` in binary: how many terms, then each with a zero byte behind it and no positions. They come in the order of their
/// bytes, as PostgreSQL keeps them.
#[derive(Debug)]
pub(super) struct Vector(pub(super) BTreeSet<String>);

impl ToSql for Vector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(i32::try_from(self.0.len())?);
        for term in &self.0 {
            out.put_slice(term.as_bytes());
            out.put_u8(0);
            out.put_u16(0);
        }
        Ok(IsNull::No)
    }

    accepts!(TS_VECTOR);
    to_sql_checked!();
}
