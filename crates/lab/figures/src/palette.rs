//! The styles that distinguish series: colour, dashes, marker and hatching.
//!
//! The colours come from Okabe and Ito's palette ("Color universal design", 2008). Yellow is omitted, because it is
//! hard to see on white paper. A name with a fixed style, such as that of a law, has the same colour in every figure.

use super::canvas::{Canvas, Path};
use super::{Chart, Marks};

/// The colour of reference lines.
pub(super) const REFERENCE_COLOUR: &str = "#777777";

/// The fill of reference bars.
const REFERENCE_TINT: &str = "#e4e4e4";

/// The names of series that are references in every chart. Bars have no mark for references, so the name decides.
const REFERENCE_NAMES: [&str; 1] = ["max-min fair"];

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeriesStyle {
    /// The colour.
    pub(super) colour: &'static str,
    /// The colour mixed with white.
    pub(super) tint: &'static str,
    /// The dash pattern; empty for a solid line.
    pub(super) dashes: &'static str,
    marker: Marker,
    is_hollow: bool,
    /// The fill of the bars.
    pub(super) hatching: Hatching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Cross,
    Plus,
}

/// How a bar is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hatching {
    /// Filled with the colour.
    Solid,
    /// Filled with the tint, with lines in these directions.
    Lines(&'static [Direction]),
}

/// The direction of hatching lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Up to the right.
    Rising,
    /// Down to the right.
    Falling,
    /// Horizontal.
    Horizontal,
    /// Vertical.
    Vertical,
}

const STYLES: [SeriesStyle; 7] = {
    use Direction::{Falling, Horizontal, Rising, Vertical};
    use Hatching::{Lines, Solid};
    const fn new_style(
        (colour, tint): (&'static str, &'static str),
        dashes: &'static str,
        marker: Marker,
        is_hollow: bool,
        hatching: Hatching,
    ) -> SeriesStyle {
        SeriesStyle { colour, tint, dashes, marker, is_hollow, hatching }
    }
    [
        new_style(("#0072B2", "#A6CEE4"), "", Marker::Circle, false, Solid),
        new_style(("#D55E00", "#F0C7A6"), "6 2.5", Marker::Square, true, Lines(&[Rising])),
        new_style(("#009E73", "#A6DDCE"), "2 1.8", Marker::TriangleUp, false, Lines(&[])),
        new_style(("#E69F00", "#F6DEA6"), "8 2 2 2", Marker::Diamond, true, Lines(&[Rising, Falling])),
        new_style(("#CC79A7", "#EDD0E0"), "11 3", Marker::TriangleDown, false, Lines(&[Horizontal])),
        new_style(("#000000", "#A6A6A6"), "4 1.5", Marker::Cross, true, Lines(&[Falling])),
        new_style(("#56B4E9", "#C4E5F7"), "7 2 1.5 2 1.5 2", Marker::Plus, true, Lines(&[Vertical])),
    ]
};

/// More colours and their tints, for names with a fixed style beyond the seventh.
const MORE_COLOURS: [(&str, &str); 6] = [
    ("#882255", "#D5B2C4"),
    ("#332288", "#B8B2D5"),
    ("#999933", "#DBDBB8"),
    ("#8B4513", "#D6BEAC"),
    ("#44AA99", "#BEE1DB"),
    ("#7B5CD6", "#D1C6F1"),
];

/// Shades of the colours of the names with a fixed style, for variants of these names: darker, lighter, darkest.
const VARIANT_COLOURS: [[&str; 3]; STYLES.len() + MORE_COLOURS.len()] = [
    ["#00446B", "#6BADD2", "#00273D"],
    ["#803800", "#E7A26B", "#482000"],
    ["#005F45", "#6BC7AE", "#003627"],
    ["#8A5F00", "#F0C76B", "#4E3600"],
    ["#7A4964", "#E1B1CC", "#452939"],
    ["#5A5A5A", "#909090", "#3A3A3A"],
    ["#346C8C", "#9DD4F2", "#1D3D4F"],
    ["#521433", "#BA7F9C", "#2E0C1D"],
    ["#1F1452", "#897FBA", "#110C2E"],
    ["#5C5C1F", "#C4C489", "#343411"],
    ["#53290B", "#BC9376", "#2F1706"],
    ["#29665C", "#93CEC4", "#173A34"],
    ["#4A3780", "#B2A0E7", "#2A1F49"],
];

/// The colours of a figure, each with the colour that replaces it on a dark background. The hue of a series stays the
/// same. Pages use this table; SVG files are always light.
pub const DARK_COLOURS: [(&str, &str); 71] = [
    ("#0072B2", "#4DA3DB"),
    ("#D55E00", "#F08A4B"),
    ("#009E73", "#2FC79A"),
    ("#E69F00", "#F0B840"),
    ("#CC79A7", "#DB93BC"),
    ("#000000", "#E6E6E6"),
    ("#56B4E9", "#8CCBF2"),
    ("#882255", "#C9679A"),
    ("#332288", "#9A8CF0"),
    ("#999933", "#C2C25A"),
    ("#8B4513", "#C98A5B"),
    ("#44AA99", "#6FCFBF"),
    ("#7B5CD6", "#B79CFF"),
    ("#A6CEE4", "#1F4560"),
    ("#F0C7A6", "#5E3518"),
    ("#A6DDCE", "#1B4F40"),
    ("#F6DEA6", "#5C4512"),
    ("#EDD0E0", "#553548"),
    ("#A6A6A6", "#4A4A4A"),
    ("#C4E5F7", "#2C5065"),
    ("#D5B2C4", "#4D2338"),
    ("#B8B2D5", "#2F2A5C"),
    ("#DBDBB8", "#46461F"),
    ("#D6BEAC", "#4A3320"),
    ("#BEE1DB", "#244A44"),
    ("#D1C6F1", "#3B3263"),
    ("#ffffff", "#1b1e23"),
    ("#222222", "#dfe2e7"),
    ("#dddddd", "#363b43"),
    ("#555555", "#adb3bd"),
    (REFERENCE_COLOUR, "#9aa1ab"),
    (REFERENCE_TINT, "#3d434c"),
    ("#00446B", "#9DCCEB"),
    ("#6BADD2", "#326A8E"),
    ("#00273D", "#CDE5F5"),
    ("#803800", "#F7BF9C"),
    ("#E7A26B", "#9C5A31"),
    ("#482000", "#FBDECD"),
    ("#005F45", "#8DE0C7"),
    ("#6BC7AE", "#1F8164"),
    ("#003627", "#C5EFE3"),
    ("#8A5F00", "#F7D896"),
    ("#F0C76B", "#9C782A"),
    ("#4E3600", "#FBEBCA"),
    ("#7A4964", "#EBC4DA"),
    ("#E1B1CC", "#8E607A"),
    ("#452939", "#F5E1EC"),
    ("#5A5A5A", "#B0B0B0"),
    ("#909090", "#808080"),
    ("#3A3A3A", "#CFCFCF"),
    ("#346C8C", "#C0E2F8"),
    ("#9DD4F2", "#5B849D"),
    ("#1D3D4F", "#DFF0FB"),
    ("#521433", "#E1ABC7"),
    ("#BA7F9C", "#834364"),
    ("#2E0C1D", "#F0D4E3"),
    ("#1F1452", "#C7C0F7"),
    ("#897FBA", "#645B9C"),
    ("#110C2E", "#E3DFFB"),
    ("#5C5C1F", "#DDDDA4"),
    ("#C4C489", "#7E7E3A"),
    ("#343411", "#EEEED1"),
    ("#53290B", "#E1BFA5"),
    ("#BC9376", "#835A3B"),
    ("#2F1706", "#F0DED1"),
    ("#29665C", "#B0E5DC"),
    ("#93CEC4", "#48877C"),
    ("#173A34", "#D7F2ED"),
    ("#4A3780", "#D4C4FF"),
    ("#B2A0E7", "#7765A6"),
    ("#2A1F49", "#E9E1FF"),
];

const REFERENCE_DASHES: [&str; 3] = ["4 3", "1.5 2.5", "8 3 1.5 3"];

/// Returns the style of the series with this index. After seven series, the colours and shapes repeat with different
/// dashes and hatching. In every second round, hollow and filled markers are swapped and tints are white.
pub(super) fn style(index: usize) -> SeriesStyle {
    let (round, position) = (index / STYLES.len(), index % STYLES.len());
    let (base, shifted) = (STYLES[position], STYLES[(position + round) % STYLES.len()]);
    let is_odd = round % 2 == 1;
    let tint = if is_odd { "#ffffff" } else { base.tint };
    let is_hollow = base.is_hollow != is_odd;
    SeriesStyle { dashes: shifted.dashes, hatching: shifted.hatching, tint, is_hollow, ..base }
}

/// Returns the style of the name at this position in the list of names with fixed styles.
fn fixed_style(position: usize) -> SeriesStyle {
    let style = style(position);
    match position.checked_sub(STYLES.len()).and_then(|position| MORE_COLOURS.get(position)) {
        Some((colour, tint)) => SeriesStyle { colour, tint, ..style },
        None => style,
    }
}

/// Returns the style of a variant of the name at this position. The variant has a shade of the name's colour, and the
/// shapes of another style.
fn variant_style(position: usize, number: usize, shapes: SeriesStyle) -> SeriesStyle {
    let shade = VARIANT_COLOURS.get(position).and_then(|shades| shades.get(number));
    match shade {
        Some(colour) => SeriesStyle { colour, tint: fixed_style(position).tint, ..shapes },
        None => shapes,
    }
}

/// The style of reference bars.
const REFERENCE_STYLE: SeriesStyle = SeriesStyle {
    colour: REFERENCE_COLOUR,
    tint: REFERENCE_TINT,
    dashes: "4 3",
    marker: Marker::Circle,
    is_hollow: true,
    hatching: Hatching::Lines(&[]),
};

/// A series of a figure.
#[derive(Debug)]
struct StyledSeries<'a> {
    name: &'a str,
    /// Whether the series is the only series in each of its panels.
    is_alone: bool,
    style: SeriesStyle,
}

/// The style of each series, which is the same in all panels of a figure.
#[derive(Debug, Default)]
pub(super) struct StyleMap<'a> {
    /// The series, in order of appearance.
    series: Vec<StyledSeries<'a>>,
    references: Vec<&'a str>,
}

impl<'a> StyleMap<'a> {
    /// Assigns styles to all series of a figure. The style of a name in `fixed_names` depends only on its position in
    /// that list. A variant of such a name, such as `hpcc-0` of `hpcc`, has a shade of its colour: the parts before their
    /// first hyphens are equal. The other names get the remaining styles, in order of appearance.
    pub(super) fn new(charts: &'a [Chart], fixed_names: &[&str]) -> Self {
        let mut styles = Self::collect(charts);
        let first_part = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        let base_position =
            |name: &str| fixed_names.iter().position(|fixed| first_part(fixed) == first_part(name));
        // The first part alone stands for the whole name: `theta` for `theta-powertcp`.
        let position = |name: &str| {
            let exact = fixed_names.iter().position(|fixed| *fixed == name);
            exact.or_else(|| base_position(name).filter(|_| !name.contains('-')))
        };
        let taken: Vec<usize> = styles.series.iter().filter_map(|series| position(series.name)).collect();
        let mut free = (0..).filter(|index| !taken.contains(index));
        let mut variant_counts = vec![0; fixed_names.len()];
        for series in &mut styles.series {
            series.style = match (position(series.name), base_position(series.name)) {
                _ if REFERENCE_NAMES.contains(&series.name) => REFERENCE_STYLE,
                (Some(position), _) => fixed_style(position),
                (None, Some(base)) => {
                    let number = variant_counts[base];
                    variant_counts[base] += 1;
                    variant_style(base, number, style(free.next().unwrap_or(0)))
                }
                (None, None) => style(free.next().unwrap_or(0)),
            };
        }
        styles
    }

    /// Collects the names of all series, without their styles.
    fn collect(charts: &'a [Chart]) -> Self {
        let mut styles = Self::default();
        for chart in charts {
            let (references, names): (Vec<_>, Vec<_>) = match &chart.marks {
                Marks::Lines(lines) | Marks::Points(lines) => lines
                    .iter()
                    .map(|line| (line.name.as_str(), line.is_reference))
                    .partition(|series| series.1),
                Marks::Bars { series, .. } => {
                    (Vec::new(), series.iter().map(|bars| (bars.name.as_str(), false)).collect())
                }
            };
            for (name, _) in references {
                if !styles.references.contains(&name) {
                    styles.references.push(name);
                }
            }
            let is_alone = names.len() == 1;
            for (name, _) in names {
                match styles.series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.is_alone &= is_alone,
                    None => styles.series.push(StyledSeries { name, is_alone, style: style(0) }),
                }
            }
        }
        styles
    }

    /// Returns the index of a series. The index also determines how far markers are shifted along the line, so that
    /// markers of different series do not coincide.
    pub(super) fn index(&self, name: &str) -> usize {
        self.series.iter().position(|series| series.name == name).unwrap_or(0)
    }

    /// Returns the style of a series.
    pub(super) fn style(&self, name: &str) -> SeriesStyle {
        let Some(series) = self.series.get(self.index(name)) else { return style(0) };
        // A line that is alone in its panel needs no dashes, which would hide its peaks.
        if series.is_alone { SeriesStyle { dashes: "", ..series.style } } else { series.style }
    }

    /// Returns the dash pattern of a reference line.
    pub(super) fn reference_dashes(&self, name: &str) -> &'static str {
        let index = self.references.iter().position(|reference| *reference == name).unwrap_or(0);
        REFERENCE_DASHES[index % REFERENCE_DASHES.len()]
    }
}

impl SeriesStyle {
    /// Draws the series marker.
    pub(super) fn draw_marker(&self, canvas: &mut Canvas, (x, y): (f64, f64), radius: f64) {
        let polygon = |corners: &[(f64, f64)]| {
            let mut path = Path::default();
            let corners: Vec<_> =
                corners.iter().map(|&(dx, dy)| (x + radius * dx, y + radius * dy)).collect();
            path.polygon(&corners);
            path
        };
        let two_lines = |lines: [[(f64, f64); 2]; 2]| {
            let mut path = Path::default();
            for line in lines {
                path.polyline(&line.map(|(dx, dy)| (x + radius * dx, y + radius * dy)));
            }
            path
        };
        // All markers have about the same area, so that none of them stands out.
        let path = match self.marker {
            Marker::Circle => {
                let attributes = self.marker_attributes();
                return canvas.shape("circle", &[("cx", x), ("cy", y), ("r", radius)], &attributes);
            }
            Marker::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::TriangleUp => polygon(&[(-1.2, 0.9), (0.0, -1.2), (1.2, 0.9)]),
            Marker::TriangleDown => polygon(&[(-1.2, -0.9), (0.0, 1.2), (1.2, -0.9)]),
            Marker::Diamond => polygon(&[(-1.3, 0.0), (0.0, -1.3), (1.3, 0.0), (0.0, 1.3)]),
            Marker::Cross => two_lines([[(-1.0, -1.0), (1.0, 1.0)], [(-1.0, 1.0), (1.0, -1.0)]]),
            Marker::Plus => two_lines([[(-1.2, 0.0), (1.2, 0.0)], [(0.0, -1.2), (0.0, 1.2)]]),
        };
        canvas.path(&path, &self.marker_attributes());
    }

    fn marker_attributes(&self) -> [(&'static str, &'static str); 3] {
        let fill = if self.is_hollow { "#ffffff" } else { self.colour };
        [("fill", fill), ("stroke", self.colour), ("stroke-width", "1")]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{line, line_chart};
    use super::*;

    #[test]
    fn no_two_series_differ_by_hue_alone() {
        // Test more series than a reader can distinguish.
        for (i, j) in (0..2 * STYLES.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (a, b) = (style(i), style(j));
            assert_ne!((a.dashes, a.marker), (b.dashes, b.marker), "{i} {j}");
            let is_white = |style: SeriesStyle| style.tint == "#ffffff" && style.hatching != Hatching::Solid;
            if a.hatching != Hatching::Solid || b.hatching != Hatching::Solid {
                assert_ne!((a.hatching, is_white(a)), (b.hatching, is_white(b)), "{i} {j}");
            }
            if i < STYLES.len() {
                assert_ne!(a.dashes, b.dashes, "{i} {j}");
                assert_ne!(a.marker, b.marker, "{i} {j}");
            }
        }
    }

    #[test]
    fn every_colour_has_a_dark_variant() {
        let dark = |colour: &str| DARK_COLOURS.iter().find(|(light, _)| *light == colour).map(|pair| pair.1);
        let mut styles: Vec<SeriesStyle> = (0..12).map(fixed_style).collect();
        let variants =
            (0..12).flat_map(|law| (0..3).map(move |number| variant_style(law, number, STYLES[0])));
        styles.extend(variants.chain([REFERENCE_STYLE]));
        for (i, style) in styles.iter().enumerate() {
            let (colour, tint) = (dark(style.colour), dark(style.tint));
            assert!(colour.is_some() && tint.is_some(), "{style:?}");
            assert!(styles[..i].iter().all(|other| dark(other.colour) != colour), "{style:?}");
        }
    }

    #[test]
    fn a_series_has_the_same_style_in_all_panels() {
        let chart = |names: &[&str]| line_chart(names.iter().map(|name| line(name, &[])).collect());
        let charts = [chart(&["hpcc", "swift"]), chart(&["queue"]), chart(&["swift"])];
        let styles = StyleMap::new(&charts, &[]);
        assert_eq!(["hpcc", "swift", "queue"].map(|name| styles.index(name)), [0, 1, 2]);
        // The queue is alone in its panel; the law is not.
        assert_eq!(styles.style("queue").dashes, "");
        assert_eq!(styles.style("swift").dashes, STYLES[1].dashes);
    }

    #[test]
    fn a_fixed_name_has_the_same_style_in_every_figure() {
        let fixed: Vec<String> = (0..12).map(|law| format!("law {law}")).collect();
        let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
        let figure = |names: &[&str]| [line_chart(names.iter().map(|name| line(name, &[])).collect())];
        for (position, name) in fixed.iter().enumerate() {
            let figures = [figure(&["other", name, "law 1"]), figure(&["law 1", "third", name, "other"])];
            let styles = figures.each_ref().map(|charts| StyleMap::new(charts, &fixed).style(name));
            assert_eq!(styles, [fixed_style(position); 2], "{name}");
        }
        // No two fixed names have the same colour, and the first ones look as before.
        for (i, j) in (0..fixed.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            assert_ne!(fixed_style(i).colour, fixed_style(j).colour, "{i} {j}");
            assert_ne!(fixed_style(i).tint, fixed_style(j).tint, "{i} {j}");
        }
        assert!((0..STYLES.len()).all(|position| fixed_style(position) == style(position)));
    }

    #[test]
    fn other_names_avoid_the_styles_of_fixed_names() {
        let charts = [line_chart(["own", "law 1", "another"].map(|name| line(name, &[])).to_vec())];
        let styles = StyleMap::new(&charts, &["law 0", "law 1"]);
        let expected = [("own", style(0)), ("law 1", style(1)), ("another", style(2))];
        assert_eq!(expected.map(|(name, _)| styles.style(name)), expected.map(|(_, style)| style));
        let charts = [line_chart(["own", "law 0"].map(|name| line(name, &[])).to_vec())];
        let styles = StyleMap::new(&charts, &["law 0", "law 1"]);
        assert_eq!(["own", "law 0"].map(|name| styles.style(name)), [style(1), style(0)]);
    }

    #[test]
    fn variants_have_a_shade_of_the_colour_of_their_law() {
        let names = ["hpcc", "hpcc-0", "swift", "hpcc-vai-sf", "hpccx", "max-min fair", "theta", "theta-own"];
        let charts = [line_chart(names.map(|name| line(name, &[])).to_vec())];
        let styles = StyleMap::new(&charts, &["poseidon", "swift", "hpcc", "theta-powertcp"]);
        let colours = names.map(|name| styles.style(name).colour);
        let shades = VARIANT_COLOURS[2];
        assert_eq!(colours[..4], [STYLES[2].colour, shades[0], STYLES[1].colour, shades[1]]);
        assert_eq!(colours[5..], [REFERENCE_COLOUR, STYLES[3].colour, VARIANT_COLOURS[3][0]]);
        // Variants also differ in their shapes.
        let shapes = names.map(|name| (styles.style(name).dashes, styles.style(name).marker));
        for (i, j) in (0..5).flat_map(|i| (0..i).map(move |j| (i, j))) {
            assert_ne!(shapes[i], shapes[j], "{} {}", names[i], names[j]);
        }
    }
}
