//! A PNG writer small enough to need no crate: one filterless pass, runs coded with the fixed Huffman table.

/// Pixels to embed.
pub(super) struct Pixels {
    pub width: usize,
    pub height: usize,
    /// Three bytes per pixel, row by row.
    pub rgb: Vec<u8>,
}

impl Pixels {
    /// The bytes of a PNG file.
    pub fn encode(&self) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((self.height as u32).to_be_bytes());
        header.extend([8, 2, 0, 0, 0]); // eight bits, RGB, deflate, filters, no interlace
        let mut raw = Vec::with_capacity(self.rgb.len() + self.height);
        for row in self.rgb.chunks(3 * self.width.max(1)) {
            raw.push(0);
            raw.extend(row);
        }
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, data) in [(b"IHDR", header), (b"IDAT", zlib(&raw)), (b"IEND", Vec::new())] {
            let start = file.len() + 4;
            file.extend((data.len() as u32).to_be_bytes());
            file.extend(kind);
            file.extend(data);
            let check = crc32(&file[start..]);
            file.extend(check.to_be_bytes());
        }
        file
    }
}

/// Deflate with one kind of match: the pixel before, repeated. It is what flat images and their rows consist of.
fn zlib(raw: &[u8]) -> Vec<u8> {
    let mut bits = Bits { bytes: vec![0x78, 0x01], pending: 0, count: 0 };
    bits.push(0b011, 3); // last block, fixed Huffman codes
    let mut i = 0;
    while i < raw.len() {
        let run = if i < 3 {
            0
        } else {
            raw[i..].iter().zip(&raw[i - 3..]).take(258).take_while(|(a, b)| a == b).count()
        };
        if run >= 4 {
            bits.length(run);
            bits.push(0b01000, 5); // distance 3 is code 2, sent from its high bit
            i += run;
        } else {
            bits.literal(u32::from(raw[i]));
            i += 1;
        }
    }
    bits.literal(256);
    let mut out = bits.finish();
    let (mut a, mut b) = (1u32, 0u32);
    for byte in raw {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    out.extend(((b << 16) | a).to_be_bytes());
    out
}

struct Bits {
    bytes: Vec<u8>,
    pending: u32,
    count: u32,
}

impl Bits {
    /// Low bit first, as deflate packs everything but Huffman codes.
    fn push(&mut self, value: u32, count: u32) {
        self.pending |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Huffman code, high bit first.
    fn code(&mut self, value: u32, count: u32) {
        self.push(value.reverse_bits() >> (32 - count), count);
    }

    /// Symbol of the fixed table (RFC 1951, 3.2.6).
    fn literal(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xC0 + symbol - 280, 8),
        }
    }

    /// Length of a match, 3 to 258: a symbol and extra bits (RFC 1951, 3.2.5).
    fn length(&mut self, run: usize) {
        let run = run as u32;
        if run == 258 {
            return self.literal(285);
        }
        let past = run - 3;
        let extra = (32 - past.leading_zeros()).saturating_sub(3);
        let symbol = 257 + (extra << 2) + (past >> extra);
        self.literal(symbol);
        self.push(past & ((1 << extra) - 1), extra);
    }

    fn finish(mut self) -> Vec<u8> {
        self.push(0, (8 - self.count) % 8);
        self.bytes
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { 0xEDB8_8320 ^ (c >> 1) } else { c >> 1 })
    };
    !bytes.iter().fold(!0, step)
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
