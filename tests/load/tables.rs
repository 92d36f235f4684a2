use crate::device::device;
use lastlayer::prelude::*;

use super::npz::table;
use super::{folder, write};

#[test]
fn tables_of_every_format_train_a_network_as_they_are() {
    let folder = folder();
    let csv = write(&folder, "a.csv", "u,v,label\n0.25,1,no\n0.5,2,yes\n0.75,3,yes\n");
    let npz = write(&folder, "b.npz", table("'|i1'", &[0, 1, 0])); // f64, as numpy saves by default
    let tables = [
        load::csv_table(csv, &load::CsvTable::default(), device()).unwrap(),
        load::bundled("breast_cancer", device()).unwrap(),
        load::npz_table(&npz, device()).unwrap(),
        load::adbench(&npz, device()).unwrap(),
        load::exported(
            &npz,
            &load::ExportKeys { features: Some("X".into()), ..Default::default() },
            device(),
        )
        .unwrap()
        .data,
    ];
    for data in tables {
        let net = SplitNet::new(zoo::mlp(&[data.d(), 4]).unwrap(), 1, Seed::new(1), device()).unwrap();
        let loss =
            || bce_logits(&net.scores_of(&data).unwrap(), &data.y).unwrap().to_scalar::<f32>().unwrap();
        let (before, trainer) = (loss(), Trainer::adam(1e-3).epochs(20).batch(3).silent());
        let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
        let run = trainer.fit(&mut logistic, &data);
        assert!(run.is_ok(), "{}: {}", data.names.set, run.unwrap_err());
        assert!(loss() < before, "{}: {before} became {}", data.names.set, loss());
    }
}
