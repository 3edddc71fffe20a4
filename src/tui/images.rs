//! Images that go into a message: read by content, upright, scaled down, and of a kind that every model takes.

use std::io::{Cursor, Read};
use std::path::Path;

use base64::Engine as _;
use image::{DynamicImage, ImageFormat, ImageReader, Limits, RgbaImage};

use super::prompt::chips::Image;

/// Longest side, in pixels.
const SIDE: u32 = 2000;
/// Largest size as base64, in bytes.
const ENCODED: usize = 4_500_000;
/// Largest file that is read.
const FILE: u64 = 64 * 1024 * 1024;
/// Characters of base64 in which an image's size is looked for.
const HEAD: usize = 128 * 1024;
/// Largest image that is decoded, in pixels on a side.
const DECODED: u32 = 20_000;

/// Reads an image file.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read(path: &Path) -> Result<Image, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > FILE {
        return Err("it is no file, or too large".to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    prepare(bytes)
}

/// An image from a clipboard's pixels.
///
/// # Errors
/// Where they make no image.
pub fn of_pixels(width: usize, height: usize, rgba: Vec<u8>) -> Result<Image, String> {
    let size = (u32::try_from(width).ok(), u32::try_from(height).ok());
    let (Some(width), Some(height)) = size else { return Err("the image is too large".to_owned()) };
    let pixels = RgbaImage::from_raw(width, height, rgba).ok_or("the clipboard's image is not whole")?;
    encode(DynamicImage::ImageRgba8(pixels))
}

/// Makes an image's bytes fit to be sent.
fn prepare(bytes: Vec<u8>) -> Result<Image, String> {
    let format = image::guess_format(&bytes).map_err(|_| "it is no image of a known kind".to_owned())?;
    let mut reader = ImageReader::with_format(Cursor::new(&bytes), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(DECODED);
    limits.max_image_height = Some(DECODED);
    limits.max_alloc = Some(512 * 1024 * 1024);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| format!("the image does not decode: {error}"))?;
    let turn = orientation(&bytes);
    let (width, height) = (picture.width(), picture.height());
    let sendable = matches!(format, ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP | ImageFormat::Gif);
    let encoded = bytes.len().div_ceil(3) * 4;
    if sendable && turn == 1 && width.max(height) <= SIDE && encoded <= ENCODED {
        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
        return Ok(Image { mime_type: format.to_mime_type().to_owned(), data, width, height });
    }
    encode(turned(picture, turn))
}

/// Columns and rows of an image as base64, from its head alone; `None` where they do not stand there.
pub fn size_of(data: &str) -> Option<(u32, u32)> {
    // Whole groups of four characters decode for themselves.
    let head = data.get(..data.len().min(HEAD) / 4 * 4)?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(head).ok()?;
    ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?.into_dimensions().ok()
}

fn orientation(bytes: &[u8]) -> u32 {
    let read = exif::Reader::new().read_from_container(&mut Cursor::new(bytes)).ok();
    let field = read.as_ref().and_then(|exif| exif.get_field(exif::Tag::Orientation, exif::In::PRIMARY));
    field.and_then(|field| field.value.get_uint(0)).unwrap_or(1)
}

fn turned(picture: DynamicImage, orientation: u32) -> DynamicImage {
    match orientation {
        2 => picture.fliph(),
        3 => picture.rotate180(),
        4 => picture.flipv(),
        5 => picture.rotate90().fliph(),
        6 => picture.rotate90(),
        7 => picture.rotate270().fliph(),
        8 => picture.rotate270(),
        _ => picture,
    }
}

fn encode(picture: DynamicImage) -> Result<Image, String> {
    let mut side = SIDE;
    let mut picture = picture;
    while side >= 200 {
        if picture.width().max(picture.height()) > side {
            picture = picture.resize(side, side, image::imageops::FilterType::Triangle);
        }
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let mut bytes = Cursor::new(Vec::new());
            let written = match format {
                ImageFormat::Jpeg => DynamicImage::ImageRgb8(picture.to_rgb8()).write_to(&mut bytes, format),
                _ => picture.write_to(&mut bytes, format),
            };
            written.map_err(|error| error.to_string())?;
            let bytes = bytes.into_inner();
            if bytes.len().div_ceil(3) * 4 <= ENCODED {
                let data = base64::engine::general_purpose::STANDARD.encode(bytes);
                let mime_type = format.to_mime_type().to_owned();
                return Ok(Image { mime_type, data, width: picture.width(), height: picture.height() });
            }
        }
        side /= 2;
    }
    Err("the image cannot be made small enough".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(width, height).write_to(&mut bytes, ImageFormat::Png).expect("written");
        bytes.into_inner()
    }

    #[test]
    fn small_images_pass_untouched_and_large_ones_are_scaled() {
        let small = png(10, 5);
        let image = prepare(small.clone()).expect("an image");
        assert_eq!(image.data, base64::engine::general_purpose::STANDARD.encode(&small));
        let image = prepare(png(2500, 100)).expect("an image");
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
        let image = prepare(bytes).expect("an image");
        assert!(image.data.len() <= ENCODED && image.width >= 900, "{} {}", image.data.len(), image.width);
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
        let image = prepare(bytes).expect("an image");
        assert_eq!((image.width, image.height), (32, 64));
        let sent = base64::engine::general_purpose::STANDARD.decode(&image.data).expect("base64");
        let sent = image::load_from_memory(&sent).expect("decodes").to_rgb8();
        assert!(sent.get_pixel(16, 8).0[0] > 150 && sent.get_pixel(16, 56).0[2] > 150);
        assert_eq!(orientation(&base64::engine::general_purpose::STANDARD.decode(image.data).expect("base64")), 1);
    }

    /// traps.md B133: arboard gives what a clipboard holds as pixels; a file in BMP is made PNG.
    #[test]
    fn b133_bmp_becomes_png() {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(3, 3).write_to(&mut bytes, ImageFormat::Bmp).expect("written");
        assert_eq!(prepare(bytes.into_inner()).expect("an image").mime_type, "image/png");
    }

    /// traps.md B137.
    #[test]
    fn b137_odd_images_are_refused_without_harm() {
        assert!(prepare(Vec::new()).is_err());
        assert!(prepare(b"\x89PNG\r\n\x1a\n".to_vec()).is_err());
        let mut bomb = png(1, 1);
        bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        assert!(prepare(bomb).is_err());
        let mut torn = png(50, 50);
        torn.truncate(60);
        assert!(prepare(torn).is_err());
        assert!(of_pixels(5, 5, vec![0; 3]).is_err());
        assert_eq!(turned(DynamicImage::new_rgb8(4, 2), 6).width(), 2);
    }
}
