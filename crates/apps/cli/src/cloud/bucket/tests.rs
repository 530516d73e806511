//! Tests with the object store in memory of `object_store`.

use super::*;
use object_store::memory::InMemory;

fn bucket(part_size: usize) -> Bucket {
    Bucket::with_store(Box::new(InMemory::new()), "a/prefix", "s3://bucket/a/prefix", part_size)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn temporary_file(test: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("poseidon-bucket-{test}-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    path
}

#[test]
fn exactly_one_of_sixteen_writers_creates_an_object() {
    let bucket = bucket(PART_SIZE);
    let winners = std::thread::scope(|scope| {
        let create = |writer: u8| {
            let bucket = &bucket;
            scope.spawn(move || bucket.create("claims/s/run.1", &[writer]).expect("memory is writable"))
        };
        let writers: Vec<_> = (0..16).map(create).collect();
        writers.into_iter().map(|writer| usize::from(writer.join().expect("no panic"))).sum::<usize>()
    });
    assert_eq!(winners, 1);
}

#[test]
fn objects_are_read_listed_and_deleted_below_the_prefix() {
    let bucket = bucket(PART_SIZE);
    bucket.put("runs/my study/a.json", b"text").expect("memory is writable");
    bucket.put("runs/my study 2/b.json", b"other").expect("memory is writable");
    let object = bucket.get("runs/my study/a.json", 4).expect("memory is readable").expect("it exists");
    assert_eq!(object.bytes, b"text");
    assert!(matches!(bucket.get("runs/my study/a.json", 3), Err(ObjectError::TooLarge { size: 4, .. })));
    assert!(bucket.get("runs/my study/b.json", 4).expect("memory is readable").is_none());
    let listed = bucket.list("runs/my study").expect("memory is readable");
    let keys: Vec<&str> = listed.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(keys, ["runs/my study/a.json"]);
    let info = bucket.info("runs/my study/a.json").expect("memory is readable").expect("it exists");
    assert_eq!((info.key.as_str(), info.size), ("runs/my study/a.json", 4));
    for _ in 0..2 {
        bucket.delete("runs/my study/a.json").expect("a missing object is not an error");
    }
    assert!(bucket.info("runs/my study/a.json").expect("memory is readable").is_none());
}

#[test]
fn a_large_file_goes_in_parts() {
    let bucket = bucket(1_000);
    let bytes: Vec<u8> = (0..3_500_u32).map(|index| (index % 251) as u8).collect();
    let file = temporary_file("parts", &bytes);
    assert!(bucket.create_from_file("blobs/large", &file).expect("memory is writable"));
    assert!(!bucket.create_from_file("blobs/large", &file).expect("memory is writable"));
    let mut content = Vec::new();
    assert!(bucket.read_to("blobs/large", &mut content).expect("memory is readable"));
    assert_eq!(content, bytes);
    std::fs::remove_file(file).expect("the file is ours");
}

#[test]
fn urls_name_a_bucket_and_a_prefix() {
    assert_eq!(parse_url("s3://my-bucket/a/b/"), Some(("my-bucket", "a/b")));
    assert_eq!(parse_url("s3://my-bucket"), Some(("my-bucket", "")));
    for url in ["s3://", "s3:///a", "s3://My", "http://a/b", "s3://a b/c"] {
        assert_eq!(parse_url(url), None, "{url}");
    }
}
