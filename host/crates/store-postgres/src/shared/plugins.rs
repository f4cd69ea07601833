//! Installed plugins.

use super::{PostgresShared, number};
use crate::failure::Failure;
use crate::feed::raise_deployment;
use daftar_store::StoreError;
use daftar_store::shared::{SharedPlugins, StoredList};

/// The parts that files are cut into, in bytes.
const PART_BYTES: usize = 1 << 20;

const REPLACE: &str = "UPDATE daftar.plugin_list AS kept SET revision = before.revision + 1, list = $2, named = $3 \
    FROM (SELECT revision, named FROM daftar.plugin_list WHERE revision = $1 FOR UPDATE) AS before \
    RETURNING before.named";

#[async_trait::async_trait]
impl SharedPlugins for PostgresShared {
    async fn plugin_list(&self) -> Result<StoredList, StoreError> {
        let row = self.database().query_opt("SELECT revision, list FROM daftar.plugin_list", &[]).await?;
        let Some(row) = row else { return Ok(StoredList::default()) };
        let failed = |error: tokio_postgres::Error| Failure::from(&error);
        let revision = row.try_get::<_, i64>(0).map_err(failed)?.unsigned_abs();
        Ok(StoredList { revision, bytes: row.try_get(1).map_err(failed)? })
    }

    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError> {
        let named: Vec<&[u8]> = named.iter().map(<[u8; 32]>::as_slice).collect();
        let mut connection = self.database().connection().await?;
        let replaced = async {
            let transaction = connection.at_work()?.transaction().await?;
            let row = transaction.query_opt(REPLACE, &[&number(seen), &list, &named]).await?;
            let Some(row) = row else { return Ok(None) };
            let before: Vec<Vec<u8>> = row.try_get(0)?;
            let unnamed = "DELETE FROM daftar.plugin_file WHERE digest <> ALL ($1) AND digest <> ALL ($2)";
            transaction.execute(unnamed, &[&named, &before]).await?;
            raise_deployment(&transaction).await?;
            transaction.commit().await?;
            Ok::<_, Failure>(Some(seen.saturating_add(1)))
        };
        let answered = tokio::time::timeout(self.database().answer_timeout(), replaced).await;
        let answered = answered.unwrap_or_else(|_| Err(Failure::slow()));
        connection.keep_unless(answered.as_ref().err());
        answered?.ok_or(StoreError::Overtaken)
    }

    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = Vec::new();
        for part in 0_i32.. {
            // Part by part: a whole file may be larger than the time for one answer allows.
            let asked = "SELECT parts, bytes FROM daftar.plugin_file WHERE digest = $1 AND part = $2";
            let row = self.database().query_opt(asked, &[&digest.as_slice(), &part]).await?;
            let Some(row) = row else { return Ok(None) };
            let failed = |error: tokio_postgres::Error| Failure::from(&error);
            bytes.extend(row.try_get::<_, Vec<u8>>(1).map_err(failed)?);
            if part.saturating_add(1) >= row.try_get::<_, i32>(0).map_err(failed)? {
                break;
            }
        }
        Ok(Some(bytes))
    }

    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError> {
        let parts = i32::try_from(bytes.len().div_ceil(PART_BYTES).max(1)).unwrap_or(i32::MAX);
        let put = "INSERT INTO daftar.plugin_file (digest, part, parts, bytes) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        // One after the other; whoever reads a file whose last part is missing finds none.
        for (part, bytes) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
            self.database().query(put, &[&digest.as_slice(), &part, &parts, &bytes]).await?;
        }
        Ok(())
    }
}
