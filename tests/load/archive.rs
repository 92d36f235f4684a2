use std::io::Write;
use std::path::Path;

use lastlayer::data::load::unpack;

use super::{fails, folder, gzip, refuses, write, zip_of};

pub fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        raw_name(&mut header, name);
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A name that the tar crate would itself refuse to write.
fn raw_name(header: &mut tar::Header, name: &str) {
    let field = &mut header.as_mut_bytes()[..100];
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
}

/// A tar with one special entry.
fn tar_with(kind: tar::EntryType, name: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    raw_name(&mut header, name);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.as_mut_bytes()[157..161].copy_from_slice(b"/etc");
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend([0; 1024]);
    bytes
}

/// Names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const FILES: [(&str, &[u8]); 2] = [("./train/cat/1.txt", b"meow"), ("top.txt", b"")];

#[test]
fn zip_tar_and_gzipped_tar_unpack_to_the_same_files() {
    let tar = tar_of(&FILES);
    for bytes in [tar.clone(), gzip(&tar), zip_of(&FILES, true), zip_of(&FILES, false)] {
        let folder = folder();
        let archive = write(&folder, "archive", bytes);
        let into = folder.path().join("set");
        assert_eq!(unpack(&archive, &into).unwrap(), into);
        assert_eq!(std::fs::read(into.join("train/cat/1.txt")).unwrap(), b"meow");
        assert_eq!(names(&into), [".unpacked", "top.txt", "train"]);
        assert_eq!(names(folder.path()), ["archive", "set"], "nothing is left beside the folder");
    }
}

#[test]
fn unpacking_again_changes_nothing_and_other_folders_are_left_alone() {
    let folder = folder();
    let archive = write(&folder, "a.zip", zip_of(&FILES, true));
    let into = folder.path().join("set");
    unpack(&archive, &into).unwrap();
    std::fs::write(into.join("top.txt"), "mine").unwrap();
    unpack(&archive, &into).unwrap();
    assert_eq!(std::fs::read(into.join("top.txt")).unwrap(), b"mine");

    let other = write(&folder, "b.zip", zip_of(&FILES[..1], true));
    refuses(unpack(&other, &into), &["set", "was not made by `unpack` from this archive"]);
    write(&folder, "own/file", "mine");
    refuses(unpack(&archive, folder.path().join("own")), &["own"]);
    refuses(unpack(&archive, &other), &["b.zip"]);
    // An empty folder is as good as none.
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    unpack(&archive, folder.path().join("empty")).unwrap();
}

#[test]
fn names_that_lead_out_are_refused_and_nothing_is_written() {
    for name in ["../evil", "a/../../evil", "/tmp/lastlayer-evil", "..", "c:\\evil", "..\\evil"] {
        for bytes in [zip_of(&[("good", b"x"), (name, b"x")], true), tar_of(&[("good", b"x"), (name, b"x")])]
        {
            let folder = folder();
            std::fs::create_dir(folder.path().join("inner")).unwrap();
            let archive = write(&folder, "inner/archive", bytes);
            fails(
                unpack(&archive, folder.path().join("inner/set")),
                &["archive", "could lead out of the folder"],
            );
            assert_eq!(names(folder.path()), ["inner"]);
            assert_eq!(names(&folder.path().join("inner")), ["archive"]);
        }
    }
    assert!(!Path::new("/tmp/lastlayer-evil").exists());
}

#[test]
fn links_devices_and_duplicates_are_refused() {
    use tar::EntryType;
    let kinds = [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Block, EntryType::Fifo];
    for kind in kinds {
        let folder = folder();
        let archive = write(&folder, "a.tgz", gzip(&tar_with(kind, "link", 0)));
        fails(unpack(&archive, folder.path().join("set")), &["\"link\" is a link or a device"]);
        assert_eq!(names(folder.path()), ["a.tgz"]);
    }
    let folder = folder();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", zip::write::SimpleFileOptions::default()).unwrap();
    let archive = write(&folder, "a.zip", zip.finish().unwrap().into_inner());
    fails(unpack(&archive, folder.path().join("set")), &["\"link\" is a link or a device"]);
    let archive = write(&folder, "b.tar", tar_of(&[("same", b"1"), ("./same", b"2")]));
    fails(unpack(&archive, folder.path().join("set")), &["is there twice"]);
}

#[test]
fn damaged_and_oversized_archives_leave_nothing_behind() {
    let noise: Vec<u8> = (0..4000u64).map(|i| (lastlayer::seed::Seed::new(2).draw(i) >> 56) as u8).collect();
    let tar = tar_of(&[("noise", &noise)]);
    let packed = gzip(&tar);
    let zip = zip_of(&[("noise", &noise)], true);
    let mut wrong_sum = packed.clone();
    let end = wrong_sum.len();
    wrong_sum[end - 6] ^= 1;
    let cases = [
        (packed[..2000].to_vec(), "is truncated; download it again"),
        (packed[..packed.len() - 4].to_vec(), "is truncated; download it again"),
        (tar[..2000].to_vec(), "download it again"),
        (zip[..2000].to_vec(), "download it again"),
        (wrong_sum, "is damaged"),
        (gzip(b"not a tar"), "archive"),
        (b"hello".to_vec(), "neither zip nor tar nor gzip"),
        (Vec::new(), "neither zip nor tar nor gzip"),
        (tar_of(&[]), "archive"),
        (zip_of(&[], true), "is empty"),
        (tar_with(tar::EntryType::Regular, "huge", 9 << 30), "unpacks to more than 8 GiB"),
        (tar_with(tar::EntryType::Regular, "short", 5000), "download it again"),
        (tar_with(tar::EntryType::GNULongName, "long", 1 << 20), "too long"),
    ];
    for (i, (bytes, words)) in cases.into_iter().enumerate() {
        let folder = folder();
        let archive = write(&folder, "archive", bytes);
        let message = fails(unpack(&archive, folder.path().join("set")), &["archive", words]);
        assert_eq!(names(folder.path()), ["archive"], "case {i}: {message}");
    }
    fails(unpack("/none.zip", "/tmp/none"), &["/none.zip"]);
}

#[test]
fn a_long_name_and_a_comment_of_git_are_understood() {
    let folder = folder();
    let long = "d/".repeat(60) + &"n".repeat(120);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_pax_extensions([("comment", b"a commit".as_slice())]).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o644);
    builder.append_data(&mut header, &long, b"ok".as_slice()).unwrap();
    let mut bytes = Vec::new();
    bytes.write_all(&builder.into_inner().unwrap()).unwrap();
    let archive = write(&folder, "a.tar", bytes);
    unpack(&archive, folder.path().join("set")).unwrap();
    assert_eq!(std::fs::read(folder.path().join("set").join(long)).unwrap(), b"ok");
}
