use lastlayer::data::load::{awa2, cub_class_attributes};
use lastlayer::ndarray::array;

use super::{fails, folder, write};

#[test]
fn awa2_reads_names_and_both_matrices() {
    let folder = folder();
    write(&folder, "classes.txt", "     1\tantelope\n     2\tgrizzly+bear\n");
    write(&folder, "predicates.txt", "     1\tblack\n     2\twhite\n     3\tblue\n");
    write(&folder, "predicate-matrix-binary.txt", "0 0 1\n1 0 0\n");
    write(&folder, "predicate-matrix-continuous.txt", " -1.00 0.00   60.5\n 39.25 1.39 0.00\n");
    let animals = awa2(&folder).unwrap();
    assert_eq!(animals.classes, ["antelope", "grizzly+bear"]);
    assert_eq!(animals.attributes, ["black", "white", "blue"]);
    assert_eq!(animals.binary, array![[0., 0., 1.], [1., 0., 0.]]);
    assert_eq!(animals.continuous, array![[-1., 0., 60.5], [39.25, 1.39, 0.]]);
    assert!(animals.table().markdown().contains("| antelope | 1: blue |"));

    write(&folder, "predicate-matrix-binary.txt", "0 0 1\n1 0 2\n");
    fails(awa2(&folder), &["predicate-matrix-binary.txt", "other than 0 and 1"]);
    write(&folder, "predicate-matrix-binary.txt", "0 0 1\n1 0\n");
    fails(awa2(&folder), &["line 2", "2 values instead of 3"]);
    write(&folder, "predicate-matrix-binary.txt", "0 0 1\n");
    fails(awa2(&folder), &["1 rows for 2 classes"]);
    write(&folder, "predicate-matrix-binary.txt", "0 0 x\n");
    fails(awa2(&folder), &["line 1", "\"x\" is no finite number"]);
    std::fs::remove_file(folder.path().join("predicates.txt")).unwrap();
    fails(awa2(&folder), &["predicates.txt", "cvml.ista.ac.at/AwA2"]);
}

#[test]
fn cub_attributes_hold_above_half() {
    let folder = folder();
    write(&folder, "classes.txt", "1 001.Albatross\n2 002.Wren\n");
    write(&folder, "attributes/attributes.txt", "1 red wing\n2 long tail\n");
    write(&folder, "attributes/class_attribute_labels_continuous.txt", "50.0 50.1\n0 100\n");
    let birds = cub_class_attributes(&folder).unwrap();
    assert_eq!(birds.binary, array![[0., 1.], [0., 1.]]);
    assert_eq!(birds.attributes, ["red wing", "long tail"]);
    write(&folder, "attributes/class_attribute_labels_continuous.txt", "50.0 50.1\n0 101\n");
    fails(cub_class_attributes(&folder), &["no percentages"]);
}
