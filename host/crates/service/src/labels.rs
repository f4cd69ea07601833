//! Labels of published codes where reports by SQL read them: in the store that several servers share.
//!
//! **Invariant:** labels are stored before a vocabulary snapshot is published, so that a record seldom has a code
//! without a label. Labels that could not be stored then, and those of codes of open vocabularies, are stored later by
//! the task that synchronizes with other servers.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use daftar_domain::error::AppError;
use daftar_store::shared::{CodeLabel, Shared};
use daftar_vocabulary::{Generation, Vocabularies};

/// The labels of the current snapshot; nothing is done if the store belongs to a single server.
#[derive(Default)]
pub(crate) struct PublishedLabels {
    shared: OnceLock<Arc<dyn Shared>>,
    /// The snapshot whose labels were stored last.
    put: Mutex<Weak<Generation>>,
}

impl PublishedLabels {
    /// Sets the store of the labels.
    pub(crate) fn put_into(&self, shared: Arc<dyn Shared>) {
        // The first store stays: a process has one register.
        let _is_first = self.shared.set(shared);
    }

    /// Publishes a snapshot after storing its labels. It is published even if they cannot be stored.
    pub(crate) async fn publish(&self, vocabularies: &Vocabularies, generation: Generation) {
        let outcome = self.put(&generation).await;
        let published = vocabularies.publish(generation);
        match outcome {
            Ok(()) => self.note(&published),
            Err(error) => {
                tracing::warn!(error = %error, "labels of codes cannot be written for reports; it is tried again");
            }
        }
    }

    /// Stores the labels of the current snapshot, unless they are stored already.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn catch_up(&self, vocabularies: &Vocabularies) -> Result<(), AppError> {
        let current = vocabularies.current();
        let is_put = self.put.lock().unwrap_or_else(PoisonError::into_inner).ptr_eq(&Arc::downgrade(&current));
        if !is_put {
            self.put(&current).await?;
            self.note(&current);
        }
        Ok(())
    }

    fn note(&self, published: &Arc<Generation>) {
        *self.put.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(published);
    }

    async fn put(&self, generation: &Generation) -> Result<(), AppError> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        Ok(shared.put_labels(labels(generation)).await?)
    }
}

/// The labels of all codes of a snapshot.
fn labels(generation: &Generation) -> Vec<CodeLabel> {
    let mut labels = Vec::new();
    for vocabulary in generation.vocabularies() {
        for concept in vocabulary.concepts() {
            let uri = concept.uri_text();
            labels.extend(concept.labels().enumerate().map(|(place, (language, text))| CodeLabel {
                uri: uri.clone(),
                language: language.to_owned(),
                place,
                text: text.to_owned(),
            }));
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_store_sled::testing::shared_store;
    use daftar_vocabulary::testing::{VocabularyBuilder, generation_of};

    fn sexes(codes: &[(&str, &str)]) -> Generation {
        generation_of([VocabularyBuilder::new("urn:sex").concepts(codes.iter().copied()).pack()])
    }

    #[tokio::test]
    async fn labels_are_put_with_each_snapshot_and_later_where_the_store_was_away() {
        let (store, labels) = (shared_store(), PublishedLabels::default());
        labels.put_into(store.clone());
        let vocabularies = Vocabularies::new(generation_of([]));
        labels.publish(&vocabularies, sexes(&[("1", "male")])).await;
        let put: Vec<_> = store.labels().into_iter().map(|label| (label.uri, label.text, label.place)).collect();
        assert_eq!(put, [("urn:sex#1".to_owned(), "male".to_owned(), 0)]);

        store.set_away(true);
        labels.publish(&vocabularies, sexes(&[("1", "male"), ("2", "female")])).await;
        assert_eq!((store.labels().len(), vocabularies.current().code_count()), (1, 2), "published nevertheless");
        labels.catch_up(&vocabularies).await.unwrap_err();
        store.set_away(false);
        labels.catch_up(&vocabularies).await.unwrap();
        assert_eq!(store.labels().len(), 2);
    }
}
