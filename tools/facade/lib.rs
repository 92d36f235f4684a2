//! lastlayer as the kernel links it: the same names, in one shared library with candle inside.

pub use ::lastlayer::*;
