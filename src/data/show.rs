//! A set as tables and pictures.

use candle_core::DType;

use super::{Dataset, Parts};
use crate::error::{Error, Result};
use crate::figure::{Figure, Image, images};
use crate::table::Table;

impl Dataset {
    /// One line: name, number and shape of the samples, classes, attributes.
    pub fn describe(&self) -> String {
        let shape: Vec<String> = self.x.dims()[1..].iter().map(usize::to_string).collect();
        let attributes = match self.names.attributes.len() {
            0 => String::new(),
            1 => ", 1 attribute".to_string(),
            m => format!(", {m} attributes"),
        };
        format!(
            "{}: {} samples of {} {:?}, {} classes{attributes}",
            self.names.set,
            self.n(),
            shape.join(" × "),
            self.x.dtype(),
            self.k()
        )
    }

    /// Samples and share of each class.
    pub fn class_table(&self) -> Result<Table> {
        let mut table = Table::new(&["class", "name", "samples", "share"]);
        for (class, count) in self.class_counts()?.into_iter().enumerate() {
            let name = self.names.classes[class].clone();
            let share = count as f64 / self.n() as f64;
            table = table.row((class, name, count, share))?;
        }
        Ok(table.caption(&self.describe()))
    }

    /// Mean of each attribute, which of 0 and 1 is the share that has it. Host: one number per attribute.
    ///
    /// Fails: `Data` without attributes.
    pub fn attribute_table(&self) -> Result<Table> {
        let means: Vec<f64> = self.attributes()?.to_dtype(DType::F64)?.mean(0)?.to_vec1()?;
        let mut table = Table::new(&["attribute", "name", "mean"]);
        for (j, mean) in means.into_iter().enumerate() {
            table = table.row((j, self.names.attributes[j].as_str(), mean))?;
        }
        Ok(table.caption(&self.describe()))
    }

    /// Sample `row` as an image. Host: one sample.
    ///
    /// Numbers that are not bytes are taken as shades from 0 to 1. Fails: `Shape` unless samples are
    /// `[1 or 3, height, width]`, `Config` for a row that is not there.
    pub fn image(&self, row: usize) -> Result<Image> {
        if row >= self.n() {
            return Err(Error::config("row", row, format!("0 to {}, the last sample", self.n() - 1)));
        }
        let sample = self.x.get(row)?;
        let &[channels @ (1 | 3), height, width] = sample.dims() else {
            let got = format!("{:?}", sample.dims());
            return Err(Error::shape(
                format!("images of {}", self.names.set),
                "[1 or 3, height, width]",
                got,
            ));
        };
        let bytes = match sample.dtype() {
            DType::U8 => sample,
            _ => (sample.clamp(0.0, 1.0)? * 255.0)?.round()?.to_dtype(DType::U8)?,
        };
        let bytes: Vec<u8> = bytes.permute((1, 2, 0))?.flatten_all()?.to_vec1()?;
        match channels {
            1 => Image::grey(width, height, &bytes),
            _ => Image::rgb(width, height, &bytes),
        }
    }

    /// Contact sheet: the first `columns` images of every class, one class after the other.
    ///
    /// Fails: as [`image`](Dataset::image), and `Config` without a column.
    pub fn sheet(&self, columns: usize) -> Result<Figure> {
        if columns == 0 {
            return Err(Error::config("columns of a contact sheet", 0, "at least 1"));
        }
        let labels = self.labels()?;
        let mut list = Vec::new();
        for (class, name) in self.names.classes.iter().enumerate() {
            for row in (0..self.n()).filter(|row| labels[*row] as usize == class).take(columns) {
                list.push(self.image(row)?.caption(name));
            }
        }
        Ok(images(&list, columns)?.caption(&self.describe()))
    }

    /// Shows the tables of classes and attributes.
    pub fn evcxr_display(&self) {
        let tables = [self.class_table().ok(), self.attribute_table().ok()];
        let html: String = tables.into_iter().flatten().map(|t| t.html()).collect();
        evcxr_runtime::mime_type("text/html").text(html);
        evcxr_runtime::mime_type("text/plain").text(self.describe());
    }
}

impl Parts {
    /// Shows the size of each part.
    pub fn evcxr_display(&self) {
        let parts = [&self.train, &self.validation, &self.test];
        let text: Vec<String> = parts.iter().map(|part| part.describe()).collect();
        evcxr_runtime::mime_type("text/plain").text(text.join("\n"));
    }
}
