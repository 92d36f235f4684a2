use crate::device::device;
use lastlayer::data::load::{csv_table, data_dir, npz};

use super::{fails, folder, refuses};

#[test]
fn data_dir_is_the_variable_or_an_error_that_says_to_set_it() {
    match std::env::var_os("LASTLAYER_DATA") {
        Some(folder) => assert_eq!(data_dir().unwrap(), std::path::PathBuf::from(folder)),
        None => {
            refuses(data_dir(), &["LASTLAYER_DATA is not set", "export LASTLAYER_DATA="]);
        }
    }
}

#[test]
fn files_above_the_bound_are_refused_before_they_are_read() {
    let folder = folder();
    let path = folder.path().join("long");
    // Sparse: three GiB that no disk holds.
    std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
    fails(npz(&path), &["long", "more than 2 GiB"]);
    fails(csv_table(&path, &Default::default(), device()), &["long", "more than 2 GiB"]);
    // A folder is no file, and the message still says what is expected.
    fails(npz(folder.path()), &["An .npz file is"]);
}
