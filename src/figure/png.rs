//! Images inside an SVG: PNG bytes as a data address.

/// Pixels to embed.
pub(super) struct Pixels {
    pub width: usize,
    pub height: usize,
    /// Three bytes per pixel, row by row.
    pub rgb: Vec<u8>,
}

impl Pixels {
    /// The bytes of a PNG file. Fails only where the bytes do not match the size.
    pub fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(file)
    }
}

/// Base64 with padding, as a data address needs it.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |w, b| (w << 8) | u32::from(*b)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let sign = ALPHABET[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { char::from(sign) } else { '=' });
        }
    }
    text
}
