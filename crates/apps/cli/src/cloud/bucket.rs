//! A bucket of an S3-compatible object store.

use core::time::Duration;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use poseidon_lab::objects::{Object, ObjectError, ObjectInfo, ObjectStorage};
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::Path;
use std::time::SystemTime;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;

/// A request is repeated for this time while the server does not answer.
const RETRY_TIME: Duration = Duration::from_secs(60);

/// The time decides, not the number of retries.
const MAX_RETRIES: usize = 100;

/// One request takes at most this time. A part of a file has to arrive within it.
const REQUEST_TIME: Duration = Duration::from_secs(120);

/// A conditional put whose answer was lost is repeated so often.
const MAX_REPEATS: u32 = 5;

/// Larger files go in parts of this size. S3 has at most 10,000 parts, so a file has at most 320 GB.
const PART_SIZE: usize = 32 << 20;

/// A prefix of a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    store: Box<dyn ObjectStore>,
    prefix: Key,
    url: String,
    part_size: usize,
    runtime: Runtime,
}

/// An error of the URL or of the environment.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// The URL is invalid.
    #[error("{0} is not the URL of an object store; write s3://BUCKET/PREFIX")]
    Url(String),
    /// An environment variable is missing.
    #[error(
        "{0} is not set; an object store needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
    )]
    NoCredentials(&'static str),
    /// The server has no TLS, and this is not permitted.
    #[error(
        "AWS_ENDPOINT_URL is {0}, which sends results without encryption; use https://, or set AWS_ALLOW_HTTP=true"
    )]
    Http(String),
    /// The client cannot be created.
    #[error("{url}: {source}")]
    Client {
        /// The URL.
        url: String,
        /// The cause.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
}

impl Bucket {
    /// Opens `s3://BUCKET/PREFIX` with the credentials and the server in the environment. Sends no request.
    pub(super) fn open(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, OpenError> {
        let (bucket, prefix) = parse_url(url).ok_or_else(|| OpenError::Url(url.to_owned()))?;
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let required = |name| variable(name).ok_or(OpenError::NoCredentials(name));
        let allows_http = variable("AWS_ALLOW_HTTP").is_some_and(|value| value == "true" || value == "1");
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_access_key_id(required("AWS_ACCESS_KEY_ID")?)
            .with_secret_access_key(required("AWS_SECRET_ACCESS_KEY")?)
            .with_region(region.as_deref().unwrap_or("us-east-1"))
            .with_client_options(ClientOptions::new().with_timeout(REQUEST_TIME).with_allow_http(allows_http))
            .with_retry(RetryConfig {
                max_retries: MAX_RETRIES,
                retry_timeout: RETRY_TIME,
                ..RetryConfig::default()
            });
        if let Some(token) = variable("AWS_SESSION_TOKEN") {
            builder = builder.with_token(token);
        }
        if let Some(endpoint) = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")) {
            if !endpoint.starts_with("https://") && !allows_http {
                return Err(OpenError::Http(endpoint));
            }
            builder = builder.with_endpoint(endpoint);
        }
        // Fails if the program has a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client_error =
            |source: Error| OpenError::Client { url: url.to_owned(), source: Box::new(source) };
        let store = builder.build().map_err(client_error)?;
        Self::with_store(Box::new(store), prefix, url, PART_SIZE)
    }

    fn with_store(
        store: Box<dyn ObjectStore>,
        prefix: &str,
        url: &str,
        part_size: usize,
    ) -> Result<Self, OpenError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| OpenError::Client { url: url.to_owned(), source: Box::new(error) })?;
        let prefix = Key::parse(prefix).map_err(|_| OpenError::Url(url.to_owned()))?;
        Ok(Self { store, prefix, url: url.trim_end_matches('/').to_owned(), part_size, runtime })
    }

    fn key(&self, key: &str) -> Result<Key, ObjectError> {
        let full = format!("{}/{key}", self.prefix);
        Key::parse(full.trim_start_matches('/')).map_err(|error| self.request_error(key, error))
    }

    fn request_error(
        &self,
        key: &str,
        source: impl Into<Box<dyn core::error::Error + Send + Sync>>,
    ) -> ObjectError {
        ObjectError::Request { url: format!("{}/{key}", self.url), source: source.into() }
    }

    /// Describes an error of a request. A missing object is not an error, so what is not found is the bucket.
    fn error(&self, key: &str, error: Error) -> ObjectError {
        let url = self.url.clone();
        match error {
            Error::NotFound { .. } => ObjectError::NoBucket { url },
            Error::NotImplemented { .. } => ObjectError::NoConditionalPut { url },
            Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. } => {
                ObjectError::Denied { url: format!("{url}/{key}"), source }
            }
            error => self.request_error(key, error),
        }
    }

    /// Waits for the answer of a request. An object that does not exist is `None`.
    fn wait<T>(
        &self,
        key: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, ObjectError> {
        match self.runtime.block_on(request) {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error(key, error)),
        }
    }

    fn info_of(&self, meta: &ObjectMeta) -> Option<ObjectInfo> {
        let parts: Vec<_> = meta.location.prefix_match(&self.prefix)?.collect();
        let key = parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
        Some(ObjectInfo { key, size: meta.size, modified: meta.last_modified.into() })
    }

    fn read_file(&self, path: &Path) -> Result<FileContent, ObjectError> {
        let file_error = |source| ObjectError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(file_error)?;
        if file.metadata().map_err(file_error)?.len() > self.part_size as u64 {
            return Ok(FileContent::Large(file));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(file_error)?;
        Ok(FileContent::Small(bytes))
    }

    fn put_large(&self, key: &str, path: &Path, file: File) -> Result<(), ObjectError> {
        let object = self.key(key)?;
        self.runtime.block_on(self.put_parts(&object, file)).map_err(|error| match error {
            PartError::File(source) => ObjectError::File { path: path.to_owned(), source },
            PartError::Request(error) => self.error(key, error),
        })
    }

    /// Sends a file in parts. If this fails, the server removes the parts.
    async fn put_parts(&self, key: &Key, mut file: File) -> Result<(), PartError> {
        let mut upload = self.store.put_multipart(key).await?;
        let result = async {
            loop {
                let mut part = Vec::with_capacity(self.part_size);
                let limit = self.part_size as u64;
                if (&mut file).take(limit).read_to_end(&mut part)? == 0 {
                    upload.complete().await?;
                    return Ok(());
                }
                upload.put_part(part.into()).await?;
            }
        }
        .await;
        if result.is_err() {
            let _ = upload.abort().await;
        }
        result
    }
}

/// A file to send.
enum FileContent {
    /// It fits into one request.
    Small(Vec<u8>),
    /// It goes in parts.
    Large(File),
}

/// An error of a file that goes in parts.
enum PartError {
    File(std::io::Error),
    Request(Error),
}

impl From<std::io::Error> for PartError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}

impl From<Error> for PartError {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

impl ObjectStorage for Bucket {
    fn url(&self) -> &str {
        &self.url
    }

    fn get(&self, key: &str, max_size: u64) -> Result<Option<Object>, ObjectError> {
        let path = self.key(key)?;
        let Some(found) = self.wait(key, self.store.get(&path))? else { return Ok(None) };
        let (size, modified) = (found.meta.size, SystemTime::from(found.meta.last_modified));
        if size > max_size {
            return Err(ObjectError::TooLarge { url: format!("{}/{key}", self.url), size, max_size });
        }
        let bytes = self.wait(key, found.bytes())?;
        Ok(bytes.map(|bytes| Object { bytes: bytes.into(), modified }))
    }

    fn read_to(&self, key: &str, sink: &mut dyn Write) -> Result<bool, ObjectError> {
        let path = self.key(key)?;
        let Some(found) = self.wait(key, self.store.get(&path))? else { return Ok(false) };
        let mut chunks = found.into_stream();
        while let Some(chunk) = self.runtime.block_on(chunks.next()) {
            let chunk = chunk.map_err(|error| self.error(key, error))?;
            sink.write_all(&chunk).map_err(|error| self.request_error(key, error))?;
        }
        Ok(true)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, ObjectError> {
        let path = self.key(key)?;
        let mut repeats = 0;
        loop {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let payload = PutPayload::from(bytes.to_vec());
            match self.runtime.block_on(self.store.put_opts(&path, payload, options)) {
                Ok(_) => return Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return Ok(false),
                // The type of the status is private. A server that does not know the header may answer 501.
                Err(error) if error.to_string().contains("501 Not Implemented") => {
                    return Err(ObjectError::NoConditionalPut { url: self.url.clone() });
                }
                // The client repeats no conditional put whose answer was lost. Here, the second one may find the object
                // of the first. The callers compare its content with their own.
                Err(Error::Generic { .. }) if repeats < MAX_REPEATS => {
                    let pause = Duration::from_millis(200 << repeats);
                    self.runtime.block_on(async { tokio::time::sleep(pause).await });
                    repeats += 1;
                }
                Err(error) => return Err(self.error(key, error)),
            }
        }
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        let path = self.key(key)?;
        let answer = self.runtime.block_on(self.store.put(&path, PutPayload::from(bytes.to_vec())));
        answer.map(|_| ()).map_err(|error| self.error(key, error))
    }

    fn create_from_file(&self, key: &str, path: &Path) -> Result<bool, ObjectError> {
        match self.read_file(path)? {
            FileContent::Small(bytes) => self.create(key, &bytes),
            FileContent::Large(_) if self.info(key)?.is_some() => Ok(false),
            FileContent::Large(file) => self.put_large(key, path, file).map(|()| true),
        }
    }

    fn put_file(&self, key: &str, path: &Path) -> Result<(), ObjectError> {
        match self.read_file(path)? {
            FileContent::Small(bytes) => self.put(key, &bytes),
            FileContent::Large(file) => self.put_large(key, path, file),
        }
    }

    fn info(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        let path = self.key(key)?;
        let meta = self.wait(key, self.store.head(&path))?;
        Ok(meta.and_then(|meta| self.info_of(&meta)))
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let path = self.key(key)?;
        self.wait(key, self.store.delete(&path)).map(|_| ())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let path = self.key(prefix)?;
        let list = async {
            let mut objects = Vec::new();
            let mut entries = self.store.list(Some(&path));
            while let Some(entry) = entries.next().await {
                objects.extend(self.info_of(&entry?));
            }
            Ok(objects)
        };
        self.runtime.block_on(list).map_err(|error| self.error(prefix, error))
    }
}

/// Returns the bucket and the prefix of a URL.
fn parse_url(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    let is_bucket = (1..=63).contains(&bucket.len()) && bucket.chars().all(is_name);
    is_bucket.then(|| (bucket, prefix.trim_matches('/')))
}

#[cfg(test)]
mod tests;
