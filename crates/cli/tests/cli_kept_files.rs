//! The files beside a log on the command line: `verify` and `export` name those that are missing, `artifact --save` takes them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::fs;
use std::sync::Arc;

use binary::Place;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use taskreel::files::LocalFileStore;
use taskreel::{Part, PostedTask, System};

/// A place with a log that refers to a file of 6,000 letters, which stands in the folder `files`.
fn log() -> Place {
    let place = Place::new();
    let part = json!({"type": "file", "content": {"name": "a.txt", "bytes": "YWFh".repeat(2_000), "mimeType": "text/plain"}});
    let artifact = json!({"id": "art_file", "parts": [part]});
    let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "content": "hi"}]});
    let task = json!({"id": "with-0001", "messages": [message], "artifacts": [artifact]});
    let task = PostedTask::from_json(&JsonText::from(task), &mut taskreel::Ports::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = LocalFileStore::new(place.path().join("files")).unwrap().instead_of_log();
        let system = System::builder(place.path().join("taskreel-log"))
            .file_store(Arc::new(store))
            .start()
            .await
            .unwrap();
        system.submit(task).await.unwrap().finished().await.unwrap();
        system.submit(Part::text("another")).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
    });
    place
}

#[test]
fn a_file_beside_the_log_is_examined_named_and_saved() {
    let place = log();
    let files = place.path().join("files");
    let files = files.to_str().unwrap();
    let kept = place.path().join("files/artifacts/with-0001/art_file/a.txt");
    assert_eq!(fs::read(&kept).unwrap(), vec![b'a'; 6_000]);

    let plain = place.run("verify").ended(0);
    assert!(plain.out().contains("not checked: whether the files beside the log"), "{}", plain.out());
    assert!(!place.run(&format!("verify --files {files}")).ended(0).out().contains("files beside the log"));
    let exported = place.run("export").ended(0);
    assert!(exported.err().contains("1 file beside the log"), "{}", exported.err());
    let shown = place.run("artifact with-0001 art_file").ended(0).out();
    assert!(shown.contains("6000 bytes, beside the log: sha256 "), "{shown}");
    let part = place.run("artifact with-0001 art_file --json").ended(0).json().remove(0);
    assert_eq!(part.pointer("/content/0/size").and_then(Value::as_u64), Some(6_000), "{part}");
    let without = place.run("artifact with-0001 art_file --save out").ended(1);
    assert!(without.err().contains("--files DIR"), "{}", without.err());
    place.run(&format!("artifact with-0001 art_file --save out --files {files}")).ended(0);
    assert_eq!(fs::read(place.path().join("out/a.txt")).unwrap().len(), 6_000);

    fs::write(&kept, "changed").unwrap();
    let found = place.run(&format!("verify --files {files}")).ended(1).out();
    assert!(found.contains("file") && found.contains("another content"), "{found}");
    let finding = place.run(&format!("verify --files {files} --json")).ended(1).json().remove(0);
    assert_eq!(finding["kind"], "file");
    fs::remove_file(&kept).unwrap();
    let found = place.run(&format!("verify --files {files}")).ended(1).out();
    assert!(found.contains("is missing"), "{found}");
    let gaps = place.run(&format!("export --files {files}")).ended(0).err();
    assert!(
        gaps.contains("a gap: artifact art_file, part 1") && gaps.contains("1 are missing or changed"),
        "{gaps}"
    );
    place.run(&format!("artifact with-0001 art_file --save out2 --files {files}")).ended(1);
    // The folder of the store is not made by a look at it.
    let refused = place.run("verify --files nowhere").ended(2).err();
    assert!(refused.contains("cannot look at the file store in nowhere"), "{refused}");
    assert!(!place.path().join("nowhere").exists());
    place.run("replay --all").ended(0);
}

#[test]
fn an_extract_names_the_gaps_of_its_own_records_alone_and_the_files_may_stand_in_any_store_and_layout() {
    let place = log();
    let kept = place.path().join("files/artifacts/with-0001/art_file/a.txt");
    // Each file is named once, by the records that are exported.
    for filter in ["", "--kind Submitted", "--limit 1000"] {
        let err = place.run(&format!("export {filter}")).ended(0).err();
        assert!(err.contains("1 file beside the log"), "{filter}: {err}");
    }
    let err = place.run("export --text another --files files").ended(0).err();
    assert!(err.contains("an extract of") && !err.contains("beside the log"), "{err}");

    // A second store has it, in the layout of a2a-utils 0.2.0.
    let flat = place.path().join("old/with-0001/art_file");
    fs::create_dir_all(&flat).unwrap();
    fs::rename(&kept, flat.join("a.txt")).unwrap();
    place.run("verify --files files").ended(1);
    place.run("verify --files files --files old").ended(0);
    assert!(
        place.run("export --files old --files files").ended(0).err().contains("0 are missing or changed")
    );
    place.run("artifact with-0001 art_file --save out --files files --files old").ended(0);
    assert_eq!(fs::read(place.path().join("out/a.txt")).unwrap().len(), 6_000);
}
