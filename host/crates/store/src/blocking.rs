//! Work outside of the threads that serve requests.

use daftar_domain::error::TaskEnded;

use super::StoreError;

/// Runs a function on a thread for blocking work.
///
/// # Errors
/// If the function panicked; without the message of the panic.
pub async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(run).await.map_err(|error| StoreError::Failed(TaskEnded::from(error).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::error::causes;

    #[tokio::test]
    async fn the_error_of_a_panic_omits_its_message() {
        let identifier = String::from("urn:x:a|1");
        let error = blocking(move || assert!(identifier.is_empty(), "{identifier}")).await.unwrap_err();
        let texts: Vec<String> = causes(&error).map(ToString::to_string).collect();
        assert_eq!(texts, ["the store failed", "a task panicked"]);
    }
}
