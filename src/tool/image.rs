//! Makes an image fit for a model: told by its content, decoded within bounds, upright, at most 2,000 pixels a
//! side and 4.5 MB of base64, and PNG or JPEG, which every provider takes.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::imageops;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use crate::message::Block;

/// Largest file that is looked at, in bytes.
pub const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Longest side that is sent, in pixels.
pub const LONGEST_SIDE: u32 = 2000;

/// Most base64 that is sent, in bytes.
pub const MOST_BASE64: usize = 4_500_000;

/// Most pixels that are decoded; a header can promise any number of them.
const MOST_PIXELS: u64 = 64_000_000;

/// Most memory that decoding may take, in bytes.
const MOST_MEMORY: u64 = 320 * 1024 * 1024;

/// An image that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// `image/png` or `image/jpeg`.
    pub mime_type: &'static str,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Pixels, as it is sent.
    pub width: u32,
    /// Pixels, as it is sent.
    pub height: u32,
    /// What it was, such as `JPEG`.
    pub format: &'static str,
    /// Pixels of the original, upright.
    pub original: (u32, u32),
}

impl Prepared {
    /// The block that carries it.
    pub fn block(&self) -> Block {
        Block::Image { mime_type: self.mime_type.to_owned(), data: STANDARD.encode(&self.bytes) }
    }

    /// A line about it, such as `JPEG image, 4000×3000, shown at 2000×1500 (coordinates × 2.00)`.
    pub fn about(&self) -> String {
        let (width, height) = self.original;
        let mut text = format!("{} image, {width}×{height}", self.format);
        if self.original != (self.width, self.height) {
            let factor = f64::from(width) / f64::from(self.width.max(1));
            text.push_str(&format!(", shown at {}×{} (coordinates × {factor:.2})", self.width, self.height));
        }
        text
    }
}

/// What kind of image begins so, such as `a PNG image`; `None` for all else, images that cannot be decoded too.
pub fn sniff(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("a PNG image"),
        [0xff, 0xd8, 0xff, ..] => Some("a JPEG image"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("a GIF image"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("a WebP image"),
        // "BM" alone begins many a text: the reserved bytes must be 0 and the header of a known size.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, _, _, _, _, 12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0, ..] => {
            Some("a BMP image")
        }
        _ => None,
    }
}

/// Makes an image fit for a model. Bytes that are already fit stay as they are; of an animation the first
/// frame is taken.
///
/// # Errors
/// Why it cannot be: a kind that is not known, broken data, too many pixels.
pub fn prepare(bytes: &[u8]) -> Result<Prepared, String> {
    if sniff(bytes).is_none() {
        return Err("it is no image of a known kind (PNG, JPEG, GIF, WebP, BMP)".to_owned());
    }
    let broken = |error: image::ImageError| match error {
        image::ImageError::Limits(_) => "it has too many pixels".to_owned(),
        error => format!("it is broken or cut off ({error})"),
    };
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| format!("it cannot be read ({error})"))?;
    let kind = reader.format().ok_or("its kind is not known")?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err("it has no pixels".to_owned());
    }
    if u64::from(width) * u64::from(height) > MOST_PIXELS || decoder.total_bytes() > MOST_MEMORY {
        return Err(format!("its {width}×{height} pixels are too many"));
    }
    decoder.set_limits(limits).map_err(broken)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    let upright = orientation == Orientation::NoTransforms;
    picture.apply_orientation(orientation);
    let original = (picture.width(), picture.height());
    let format = name(kind);
    let as_it_is = match kind {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        _ => None,
    };
    if let Some(mime_type) = as_it_is.filter(|_| upright && width.max(height) <= LONGEST_SIDE && fits(bytes)) {
        return Ok(Prepared { mime_type, bytes: bytes.to_vec(), width, height, format, original });
    }
    fitted(picture, format, kind == ImageFormat::Jpeg)
}

/// Makes pixels fit for a model, as a clipboard gives them: four bytes each.
///
/// # Errors
/// Where they make no picture, or too large a one.
pub fn of_pixels(width: usize, height: usize, rgba: Vec<u8>) -> Result<Prepared, String> {
    let size = (u32::try_from(width).ok(), u32::try_from(height).ok());
    let whole = |(width, height)| image::RgbaImage::from_raw(width, height, rgba).filter(|_| width > 0 && height > 0);
    let pixels = size.0.zip(size.1).and_then(whole).ok_or("its pixels are not whole")?;
    fitted(DynamicImage::ImageRgba8(pixels), name(ImageFormat::Png), false)
}

/// Scales a picture down as far as it must be, and encodes it.
fn fitted(mut picture: DynamicImage, format: &'static str, photo: bool) -> Result<Prepared, String> {
    let original = (picture.width(), picture.height());
    let (mut width, mut height) = bounded(original);
    loop {
        if (width, height) != (picture.width(), picture.height()) {
            picture = picture.resize_exact(width, height, imageops::FilterType::CatmullRom);
        }
        if let Some((mime_type, bytes)) = encoded(&picture, photo) {
            return Ok(Prepared { mime_type, bytes, width, height, format, original });
        }
        if width.max(height) <= 1 {
            return Err("it cannot be made small enough".to_owned());
        }
        (width, height) = ((width * 3 / 4).max(1), (height * 3 / 4).max(1));
    }
}

fn name(kind: ImageFormat) -> &'static str {
    match kind {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        _ => "unknown",
    }
}

fn fits(bytes: &[u8]) -> bool {
    bytes.len().div_ceil(3) * 4 <= MOST_BASE64
}

/// The size that keeps the shape within [`LONGEST_SIDE`].
fn bounded((width, height): (u32, u32)) -> (u32, u32) {
    let longest = width.max(height);
    if longest <= LONGEST_SIDE {
        return (width, height);
    }
    let scaled = |side: u32| (u64::from(side) * u64::from(LONGEST_SIDE) / u64::from(longest)).max(1) as u32;
    (scaled(width), scaled(height))
}

/// The picture as PNG or JPEG, whichever suits it and is small enough.
fn encoded(picture: &DynamicImage, photo: bool) -> Option<(&'static str, Vec<u8>)> {
    if !photo {
        let mut bytes = Vec::new();
        let encoder = PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive);
        // 16 bits a channel help no model.
        let written = match picture.color().has_alpha() {
            true => picture.to_rgba8().write_with_encoder(encoder),
            false => picture.to_rgb8().write_with_encoder(encoder),
        };
        if written.is_ok() && fits(&bytes) {
            return Some(("image/png", bytes));
        }
    }
    let flat = on_white(picture);
    for quality in [80, 60, 40] {
        let mut bytes = Vec::new();
        let written = flat.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, quality));
        if written.is_ok() && fits(&bytes) {
            return Some(("image/jpeg", bytes));
        }
    }
    None
}

/// Without transparency, which JPEG does not have.
fn on_white(picture: &DynamicImage) -> image::RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let mut flat = image::RgbImage::new(picture.width(), picture.height());
    for (out, pixel) in flat.pixels_mut().zip(picture.to_rgba8().pixels()) {
        let alpha = u16::from(pixel[3]);
        let mixed = |channel: u8| ((u16::from(channel) * alpha + 255 * (255 - alpha)) / 255) as u8;
        *out = image::Rgb([mixed(pixel[0]), mixed(pixel[1]), mixed(pixel[2])]);
    }
    flat
}

#[cfg(test)]
pub(super) mod testing {
    //! Images for tests.

    use super::*;

    /// A picture of noise, which no format makes small; its first pixel is red.
    pub fn noise(width: u32, height: u32) -> DynamicImage {
        let mut random = fastrand::Rng::with_seed(7);
        let mut picture = image::RgbImage::from_fn(width, height, |_, _| image::Rgb([random.u8(..), random.u8(..), 0]));
        picture.put_pixel(0, 0, image::Rgb([255, 0, 0]));
        DynamicImage::ImageRgb8(picture)
    }

    /// A picture in that format.
    pub fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).expect("encodes");
        bytes.into_inner()
    }

    /// A PNG of that size.
    pub fn png(width: u32, height: u32) -> Vec<u8> {
        written(&noise(width, height), ImageFormat::Png)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    fn decoded(prepared: &Prepared) -> DynamicImage {
        image::load_from_memory(&prepared.bytes).expect("decodes")
    }

    #[test]
    fn what_is_fit_stays_byte_for_byte() {
        let bytes = png(1, 1);
        let prepared = prepare(&bytes).expect("fit");
        assert_eq!((prepared.mime_type, &prepared.bytes), ("image/png", &bytes));
        assert_eq!(prepared.about(), "PNG image, 1×1");
    }

    /// traps.md B133.
    #[test]
    fn other_formats_become_png() {
        for format in [ImageFormat::Gif, ImageFormat::WebP, ImageFormat::Bmp] {
            let prepared = prepare(&written(&noise(8, 4), format)).expect("converted");
            assert_eq!((prepared.mime_type, prepared.width, prepared.height), ("image/png", 8, 4), "{format:?}");
            decoded(&prepared);
        }
    }

    #[test]
    fn large_images_are_made_smaller() {
        let prepared = prepare(&png(2600, 1300)).expect("fit");
        assert!(prepared.width <= LONGEST_SIDE && fits(&prepared.bytes));
        assert_eq!((prepared.original, prepared.width), ((2600, 1300), prepared.height * 2));
        assert!(prepared.about().contains("2600×1300, shown at"), "{}", prepared.about());
        decoded(&prepared);
    }

    /// traps.md B136.
    #[test]
    fn exif_orientation_is_applied() {
        let plain = written(&noise(16, 8), ImageFormat::Jpeg);
        // An EXIF segment that says orientation 6: the first row is the right side.
        let tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut turned = plain[..2].to_vec();
        turned.extend_from_slice(&[0xff, 0xe1]);
        turned.extend_from_slice(&(2 + 6 + tiff.len() as u16).to_be_bytes());
        turned.extend_from_slice(b"Exif\0\0");
        turned.extend_from_slice(tiff);
        turned.extend_from_slice(&plain[2..]);
        let prepared = prepare(&turned).expect("fit");
        assert_eq!((prepared.width, prepared.height), (8, 16));
        let again = prepare(&prepared.bytes).expect("fit");
        assert_eq!((again.width, again.height), (8, 16), "no orientation is left in it");
    }

    /// traps.md B137.
    #[test]
    fn bombs_and_broken_images_are_refused() {
        // A PNG header that promises 30,000 × 30,000 pixels.
        let mut bomb = png(1, 1);
        bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        let sum = crc(&bomb[12..29]);
        bomb[29..33].copy_from_slice(&sum.to_be_bytes());
        let why = prepare(&bomb).expect_err("too large");
        assert!(why.contains("too many"), "{why}");
        let whole = png(64, 64);
        for broken in [&b""[..], b"GIF89a", &whole[..20], &whole[..whole.len() / 2], b"\xff\xd8\xff\xe0", b"plain"] {
            assert!(prepare(broken).is_err());
        }
        assert_eq!(sniff(b"GIF is a format"), None);
        assert_eq!(sniff(b"BM the bookmark"), None);
    }

    fn crc(bytes: &[u8]) -> u32 {
        let mut sum = u32::MAX;
        for byte in bytes {
            sum ^= u32::from(*byte);
            for _ in 0..8 {
                sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            }
        }
        !sum
    }
}
