//! Images that go into a message: from files and from the clipboard's pixels.

use std::io::{Cursor, Read};
use std::path::Path;

use base64::Engine as _;
use image::ImageReader;

use super::prompt::chips::Image;
use crate::home::open_regular;
use crate::tool::image::{self as pictures, MOST_BYTES, Prepared};

/// Characters of base64 in which an image's size is looked for.
const HEAD: usize = 128 * 1024;

/// Reads an image file.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read(path: &Path) -> Result<Image, String> {
    let file = open_regular(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err("it is too large".to_owned());
    }
    prepare(&bytes)
}

/// An image from a clipboard's pixels.
///
/// # Errors
/// Where they make no image.
pub fn of_pixels(width: usize, height: usize, rgba: Vec<u8>) -> Result<Image, String> {
    pictures::of_pixels(width, height, rgba).map(chip)
}

/// Makes an image's bytes fit to be sent.
fn prepare(bytes: &[u8]) -> Result<Image, String> {
    pictures::prepare(bytes).map(chip)
}

fn chip(prepared: Prepared) -> Image {
    Image {
        mime_type: prepared.mime_type.to_owned(),
        data: base64::engine::general_purpose::STANDARD.encode(&prepared.bytes),
        width: prepared.width,
        height: prepared.height,
    }
}

/// Columns and rows of an image as base64, from its head alone; `None` where they do not stand there.
pub fn size_of(data: &str) -> Option<(u32, u32)> {
    // Whole groups of four characters decode for themselves.
    let head = data.get(..data.len().min(HEAD) / 4 * 4)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(head).ok()?;
    ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?.into_dimensions().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{DynamicImage, ImageFormat};
    use pictures::MOST_BASE64;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(width, height).write_to(&mut bytes, ImageFormat::Png).expect("written");
        bytes.into_inner()
    }

    #[test]
    fn small_images_pass_untouched_and_large_ones_are_scaled() {
        let small = png(10, 5);
        let image = prepare(&small).expect("an image");
        assert_eq!(image.data, base64::engine::general_purpose::STANDARD.encode(&small));
        let image = prepare(&png(2500, 100)).expect("an image");
        assert_eq!((image.width, image.height), (2000, 80));
        assert_eq!(size_of(&image.data), Some((2000, 80)));
        assert_eq!((size_of("no image"), size_of("")), (None, None));
    }

    /// traps.md B134.
    #[test]
    fn b134_what_is_too_large_is_made_smaller_whatever_it_holds() {
        // Noise does not compress.
        let mut random = fastrand::Rng::with_seed(7);
        let pixels = image::RgbImage::from_fn(1900, 1900, |_, _| image::Rgb(std::array::from_fn(|_| random.u8(..))));
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(pixels).write_to(&mut bytes, ImageFormat::Png).expect("written");
        let bytes = bytes.into_inner();
        assert!(bytes.len() > 9_000_000);
        let image = prepare(&bytes).expect("an image");
        assert!(image.data.len() <= MOST_BASE64 && image.width >= 900, "{} {}", image.data.len(), image.width);
    }

    /// traps.md B136: a photograph of a phone held upright, red at its top, stored lying on its side.
    #[test]
    fn b136_what_was_turned_stands_upright() {
        let red_left =
            image::RgbImage::from_fn(64, 32, |x, _| image::Rgb(if x < 32 { [220, 20, 20] } else { [20, 20, 220] }));
        let mut jpeg = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(red_left).write_to(&mut jpeg, ImageFormat::Jpeg).expect("written");
        let jpeg = jpeg.into_inner();
        // One tag: 0x0112, a short, 6.
        let mut exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
        let length = (exif.len() as u16 + 2).to_be_bytes();
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xe1, length[0], length[1]];
        bytes.append(&mut exif);
        bytes.extend_from_slice(&jpeg[2..]);
        let image = prepare(&bytes).expect("an image");
        assert_eq!((image.width, image.height), (32, 64));
        let sent = base64::engine::general_purpose::STANDARD.decode(&image.data).expect("base64");
        let sent = image::load_from_memory(&sent).expect("decodes").to_rgb8();
        assert!(sent.get_pixel(16, 8).0[0] > 150 && sent.get_pixel(16, 56).0[2] > 150);
    }

    /// traps.md B133: arboard gives what a clipboard holds as pixels; a file in BMP is made PNG.
    #[test]
    fn b133_bmp_becomes_png() {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(3, 3).write_to(&mut bytes, ImageFormat::Bmp).expect("written");
        assert_eq!(prepare(bytes.get_ref()).expect("an image").mime_type, "image/png");
    }

    /// traps.md B137.
    #[test]
    fn b137_odd_images_are_refused_without_harm() {
        assert!(prepare(&[]).is_err());
        assert!(prepare(b"\x89PNG\r\n\x1a\n").is_err());
        let mut bomb = png(1, 1);
        bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        assert!(prepare(&bomb).is_err());
        let mut torn = png(50, 50);
        torn.truncate(60);
        assert!(prepare(&torn).is_err());
        assert!(of_pixels(5, 5, vec![0; 3]).is_err());
    }
}
