//! What results need from an object store. The command implements it for S3.

use core::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

/// An object store, below one prefix. Keys are relative to that prefix, and consist of names separated by `/`.
///
/// An implementation guarantees two things, on which results depend: an object appears with all of its bytes or not at
/// all, and of several concurrent calls of [`Self::create`] with one key, exactly one creates the object.
pub trait ObjectStorage: Debug + Send + Sync {
    /// Returns the URL of the prefix, for messages.
    fn url(&self) -> &str;

    /// Returns an object of at most `max_size` bytes. Returns `None` if there is no such object.
    fn get(&self, key: &str, max_size: u64) -> Result<Option<Object>, ObjectError>;

    /// Writes the content of an object to `sink`. Returns `false` if there is no such object.
    fn read_to(&self, key: &str, sink: &mut dyn Write) -> Result<bool, ObjectError>;

    /// Creates an object unless it exists, and returns whether it did. The server decides.
    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, ObjectError>;

    /// Creates or replaces an object.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), ObjectError>;

    /// Creates an object from a file unless it exists, and returns whether it did. The key determines the content: of a
    /// large file, which goes in parts, several writers may write the same bytes.
    fn create_from_file(&self, key: &str, file: &Path) -> Result<bool, ObjectError>;

    /// Creates or replaces an object from a file.
    fn put_file(&self, key: &str, file: &Path) -> Result<(), ObjectError>;

    /// Returns the size and the time of an object. Returns `None` if there is no such object.
    fn info(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError>;

    /// Deletes an object, if it exists.
    fn delete(&self, key: &str) -> Result<(), ObjectError>;

    /// Lists the objects whose key begins with `prefix`, which is a sequence of complete names, in no particular order.
    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError>;
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The content.
    pub bytes: Vec<u8>,
    /// When it was written, by the clock of the server.
    pub modified: SystemTime,
}

/// The metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key, relative to the prefix of the store.
    pub key: String,
    /// The number of bytes.
    pub size: u64,
    /// When it was written, by the clock of the server.
    pub modified: SystemTime,
}

/// An error of an object store.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The bucket does not exist.
    #[error(
        "{url}: the bucket does not exist; create it, or correct the name (AWS_ENDPOINT_URL names the server)"
    )]
    NoBucket {
        /// The URL.
        url: String,
    },
    /// The server refuses the credentials.
    #[error(
        "{url}: the server refuses access ({source}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and \
         the permissions: results need to get, put, delete and list objects"
    )]
    Denied {
        /// The URL of the object.
        url: String,
        /// The answer.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
    /// The server ignores or rejects conditional puts.
    #[error(
        "{url}: the server does not honour conditional puts (If-None-Match: *), by which tasks claim runs; use a server \
         that does, such as Amazon S3, or write into folders and collect them with `poseidon merge`"
    )]
    NoConditionalPut {
        /// The URL.
        url: String,
    },
    /// The server cannot be reached, or does not answer as S3 does.
    #[error("{url}: {source}; check AWS_ENDPOINT_URL and that the server runs; finished runs are kept")]
    Request {
        /// The URL of the object.
        url: String,
        /// The cause.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
    /// An object is too large.
    #[error(
        "{url} has {size} bytes, but at most {max_size} are expected; no version of this program wrote it"
    )]
    TooLarge {
        /// The URL of the object.
        url: String,
        /// Its size.
        size: u64,
        /// The limit.
        max_size: u64,
    },
    /// A local file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}
