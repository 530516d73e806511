//! Writes figures as PNG and PDF, beside the SVG files.
//!
//! This requires the feature `figures-export`. A build without the feature only prints how to enable it.

use crate::Failure;
use crate::study_args::FigureFormat;
use poseidon_lab::report::StudyReport;

pub(crate) use export::{check, export};

#[cfg(not(feature = "figures-export"))]
mod export {
    use super::{Failure, FigureFormat, StudyReport};

    /// The message that a build without the feature prints.
    const HOW_TO_GET_IT: &str = "this poseidon was built without the feature figures-export; for figures as PNG and PDF, in a clone of the project:\n  \
         cargo install --path crates/apps/cli --features figures-export";

    /// Returns an error if this build cannot write these formats.
    pub(crate) fn check(formats: &[FigureFormat]) -> Result<(), Failure> {
        match formats.iter().all(|format| *format == FigureFormat::Svg) {
            true => Ok(()),
            false => Err(Failure::NotBuilt(HOW_TO_GET_IT)),
        }
    }

    /// Writes nothing, because SVG files are written with the report.
    pub(crate) fn export(_: &mut StudyReport, formats: &[FigureFormat]) -> Result<(), Failure> {
        check(formats)
    }
}

#[cfg(feature = "figures-export")]
mod export {
    use super::{Failure, FigureFormat, StudyReport};
    use std::path::PathBuf;
    use std::sync::Arc;
    use svg2pdf::usvg::{self, fontdb};

    /// An error while exporting a figure.
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum ExportError {
        /// There is no font for the labels.
        #[error(
            "there are no fonts on this machine, so figures as PNG or PDF would have no labels; install one, such as \
             fonts-dejavu-core on Debian"
        )]
        NoFonts,
        /// A font has no glyphs for a label.
        #[error("no font on this machine has the characters of {0:?}; install a font such as DejaVu Sans")]
        NoGlyphs(String),
        /// The SVG cannot be read.
        #[error("{0}")]
        Svg(#[from] usvg::Error),
        /// The figure is too large.
        #[error("the figure is too large for a PNG; use PDF")]
        TooLarge,
        /// The pixels cannot be encoded.
        #[error("{0}")]
        Png(String),
        /// The figure cannot be converted to PDF.
        #[error("{0}")]
        Pdf(svg2pdf::ConversionError),
    }

    /// The resolution at which SVG units become pixels: 96 per inch.
    const SVG_DPI: f32 = 96.0;

    /// The resolution of PNG files, as papers require it.
    const PNG_DPI: f32 = 300.0;

    /// Sans-serif fonts whose widths are close to those that the figures expect.
    const PREFERRED_FONTS: [&str; 5] = ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans"];

    /// Returns an error if this machine cannot write these formats.
    pub(crate) fn check(formats: &[FigureFormat]) -> Result<(), Failure> {
        if formats.iter().any(|format| *format != FigureFormat::Svg) {
            options().map_err(|error| Failure::Run(error.to_string()))?;
        }
        Ok(())
    }

    /// Writes the figures of a report in these formats, and adds the files to the report.
    pub(crate) fn export(report: &mut StudyReport, formats: &[FigureFormat]) -> Result<(), Failure> {
        let others: Vec<FigureFormat> =
            formats.iter().copied().filter(|format| *format != FigureFormat::Svg).collect();
        if others.is_empty() || report.svg_figures.is_empty() {
            return Ok(());
        }
        let options = options().map_err(|error| Failure::Run(error.to_string()))?;
        let mut files = Vec::new();
        for (svg, file) in report.svg_figures.iter().zip(&report.figure_files) {
            for format in &others {
                let path = PathBuf::from(file).with_extension(extension(*format));
                let failure = |error: ExportError| Failure::Run(format!("{}: {error}", path.display()));
                let bytes = convert(svg, *format, &options).map_err(failure)?;
                std::fs::write(&path, bytes).map_err(Failure::file(&path))?;
                files.push(path.to_string_lossy().into_owned());
            }
        }
        report.figure_files.extend(files);
        Ok(())
    }

    const fn extension(format: FigureFormat) -> &'static str {
        match format {
            FigureFormat::Svg => "svg",
            FigureFormat::Png => "png",
            FigureFormat::Pdf => "pdf",
        }
    }

    /// Returns the conversion options with the fonts of this machine.
    fn options() -> Result<usvg::Options<'static>, ExportError> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        options_with_fonts(fonts)
    }

    fn options_with_fonts(mut fonts: fontdb::Database) -> Result<usvg::Options<'static>, ExportError> {
        let has_family = |name: &str| {
            fonts
                .faces()
                .any(|face| face.families.iter().any(|(family, _)| family.eq_ignore_ascii_case(name)))
        };
        let preferred = PREFERRED_FONTS.into_iter().find(|name| has_family(name)).map(str::to_owned);
        let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
        let family = preferred.or_else(any).ok_or(ExportError::NoFonts)?;
        fonts.set_sans_serif_family(&family);
        fonts.set_serif_family(&family);
        Ok(usvg::Options { font_family: family, fontdb: Arc::new(fonts), ..usvg::Options::default() })
    }

    /// Converts an SVG figure to another format.
    fn convert(svg: &str, format: FigureFormat, options: &usvg::Options<'_>) -> Result<Vec<u8>, ExportError> {
        let tree = usvg::Tree::from_str(svg, options)?;
        check_labels(tree.root())?;
        match format {
            FigureFormat::Svg => Ok(svg.as_bytes().to_vec()),
            FigureFormat::Png => to_png(&tree),
            FigureFormat::Pdf => {
                let page = svg2pdf::PageOptions { dpi: SVG_DPI };
                svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page).map_err(ExportError::Pdf)
            }
        }
    }

    fn to_png(tree: &usvg::Tree) -> Result<Vec<u8>, ExportError> {
        let scale = PNG_DPI / SVG_DPI;
        let size = tree.size().to_int_size().scale_by(scale).ok_or(ExportError::TooLarge)?;
        let mut pixels =
            resvg::tiny_skia::Pixmap::new(size.width(), size.height()).ok_or(ExportError::TooLarge)?;
        resvg::render(tree, resvg::tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| ExportError::Png(error.to_string()))
    }

    /// Returns an error if a label has no glyphs.
    fn check_labels(group: &usvg::Group) -> Result<(), ExportError> {
        for node in group.children() {
            match node {
                usvg::Node::Group(group) => check_labels(group)?,
                usvg::Node::Text(text) if text.flattened().children().is_empty() => {
                    let label = text.chunks().iter().map(usvg::TextChunk::text).collect();
                    return Err(ExportError::NoGlyphs(label));
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const SVG: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="25.4mm" height="12.7mm" viewBox="0 0 100 50"
            font-family="Helvetica, Arial, sans-serif"><rect width="100" height="50" fill="#ffffff"/>TEXT</svg>"##;

        fn svg(text: &str) -> String {
            SVG.replace("TEXT", &format!("<text x=\"5\" y=\"30\" font-size=\"20\">{text}</text>"))
        }

        /// Returns the width and the height in the header of a PNG file.
        fn png_size(bytes: &[u8]) -> (u32, u32) {
            let number =
                |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("the header is there"));
            (number(16), number(20))
        }

        #[test]
        fn no_fonts_are_an_error_with_a_remedy() {
            let error = options_with_fonts(fontdb::Database::new()).expect_err("there are no fonts");
            assert!(error.to_string().contains("install one"), "{error}");
        }

        #[test]
        fn labels_appear_in_both_formats() {
            let Ok(options) = options() else {
                return eprintln!("SKIPPED: there are no fonts on this machine");
            };
            let png = |svg: &str| convert(svg, FigureFormat::Png, &options).expect("the figure is valid");
            let (with_label, without) = (png(&svg("rate (Gbps)")), png(&SVG.replace("TEXT", "")));
            assert_eq!(&with_label[1..4], b"PNG");
            // One inch has 300 pixels.
            assert_eq!((png_size(&with_label), png_size(&without)), ((300, 150), (300, 150)));
            assert!(with_label.len() > without.len() + 500, "{} {}", with_label.len(), without.len());
            let pdf = |svg: &str| convert(svg, FigureFormat::Pdf, &options).expect("the figure is valid");
            let (with_label, without) = (pdf(&svg("rate (Gbps)")), pdf(&SVG.replace("TEXT", "")));
            assert!(with_label.starts_with(b"%PDF"));
            let has_font =
                |pdf: &[u8]| pdf.windows(9).any(|window| window == b"/FontFile" || window == b"/Type/Fon");
            assert!(has_font(&with_label) && !has_font(&without), "the PDF embeds the font of its labels");
        }

        #[test]
        fn an_invalid_figure_is_an_error() {
            let Ok(options) = options() else {
                return eprintln!("SKIPPED: there are no fonts on this machine");
            };
            assert!(matches!(convert("<svg", FigureFormat::Png, &options), Err(ExportError::Svg(_))));
        }
    }
}
