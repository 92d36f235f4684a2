use crate::device::device;
use lastlayer::data::Part;
use lastlayer::data::load::{Cifar100, cifar10, cifar100};
use lastlayer::prelude::*;

use super::{fails, folder, refuses, values, write};

const TEN: &str = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

/// A record whose red plane is `shade`, green `shade + 1`, blue `shade + 2`.
pub fn record(labels: &[u8], shade: u8) -> Vec<u8> {
    let planes = (0..3).flat_map(|plane| vec![shade + plane; 1024]);
    labels.iter().copied().chain(planes).collect()
}

#[test]
fn cifar10_reads_the_five_batches_in_order_from_either_folder() {
    let folder = folder();
    for i in 1..=5 {
        write(&folder, &format!("cifar-10-batches-bin/data_batch_{i}.bin"), record(&[i], 10 * i));
    }
    write(&folder, "cifar-10-batches-bin/test_batch.bin", [record(&[9], 1), record(&[0], 2)].concat());
    write(&folder, "cifar-10-batches-bin/batches.meta.txt", TEN);
    let data = cifar10(&folder, Part::Train, device()).unwrap();
    assert_eq!(data.x.dims(), [5, 3, 32, 32]);
    assert_eq!(values(&data.y), [1., 2., 3., 4., 5.]);
    assert_eq!(values(&data.x.i((4, .., 31, 31)).unwrap()), [50., 51., 52.]);
    assert_eq!(data.names.classes[3], "cat");
    let inner = folder.path().join("cifar-10-batches-bin");
    assert_eq!(values(&cifar10(inner, Part::Test, device()).unwrap().y), [9., 0.]);
    refuses(cifar10(&folder, Part::Validation, device()), &["CIFAR-10"]);
}

#[test]
fn cifar100_has_a_fine_and_a_coarse_label() {
    let folder = folder();
    let names = |n: usize| (0..n).map(|i| format!("name{i}\n")).collect::<String>();
    write(&folder, "train.bin", record(&[19, 99], 7));
    write(&folder, "fine_label_names.txt", names(100));
    write(&folder, "coarse_label_names.txt", names(20));
    let fine = cifar100(&folder, Part::Train, &Cifar100::Fine, device()).unwrap();
    let coarse = cifar100(&folder, Part::Train, &Cifar100::Coarse, device()).unwrap();
    assert_eq!((values(&fine.y), values(&coarse.y)), (vec![99.], vec![19.]));
    assert_eq!(values(&fine.x.i((0, .., 0, 0)).unwrap()), [7., 8., 9.]);
    assert_eq!(coarse.names.classes.len(), 20);
    write(&folder, "train.bin", record(&[20, 99], 7));
    fails(cifar100(&folder, Part::Train, &Cifar100::Coarse, device()), &["label 20 of record 0"]);
}

#[test]
fn cifar_failures_name_the_file_and_the_layout() {
    let folder = folder();
    let load = || cifar10(&folder, Part::Test, device());
    fails(load(), &["batches.meta.txt", "data_batch_1.bin", "www.cs.toronto.edu"]);
    write(&folder, "batches.meta.txt", "cat\ndog\n");
    fails(load(), &["names 2 classes instead of 10"]);
    write(&folder, "batches.meta.txt", TEN);
    fails(load(), &["test_batch.bin"]);
    write(&folder, "test_batch.bin", &record(&[1], 1)[1..]);
    fails(load(), &["holds 3072 bytes", "record of 3073"]);
    write(&folder, "test_batch.bin", []);
    fails(load(), &["holds 0 bytes"]);
    write(&folder, "test_batch.bin", [record(&[1], 1), record(&[10], 1)].concat());
    fails(load(), &["label 10 of record 1"]);
}
