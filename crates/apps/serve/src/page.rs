//! The page: one document with its style, its scripts and uPlot inside.

use poseidon_figures::{
    Axis, Chart, DARK_COLOURS, LineSeries, Marks, Scale, SeriesAppearance, describe_figure,
};
use poseidon_lab::assets::{UPLOT_CSS, UPLOT_JS, UPLOT_LICENSE};
use poseidon_laws::LAWS;
use serde_json::{Value, json};

const INDEX: &str = include_str!("../assets/index.html");
const STYLE: &str = include_str!("../assets/style.css");

/// The scripts share one scope, in this order.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/util.js"),
    include_str!("../assets/completion.js"),
    include_str!("../assets/editor.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/results.js"),
    include_str!("../assets/compare.js"),
    include_str!("../assets/app.js"),
];

/// Returns the page. Its scripts and styles carry the nonce of the content security policy.
pub(crate) fn render_page(nonce: &str) -> String {
    INDEX
        .replace("{{nonce}}", nonce)
        .replace("{{uplot-css}}", UPLOT_CSS)
        .replace("{{style}}", STYLE)
        .replace("{{uplot-license}}", UPLOT_LICENSE)
        .replace("{{uplot-js}}", UPLOT_JS)
        .replace("{{scripts}}", &SCRIPTS.join("\n"))
}

/// Returns the colour and the dashes of each built-in law, as in all figures.
pub(crate) fn law_styles() -> Vec<Value> {
    let laws: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
    let line = |name: &&str| LineSeries {
        name: (*name).to_owned(),
        points: Vec::new(),
        half_widths: Vec::new(),
        is_reference: false,
    };
    let axis = || Axis { label: String::new(), scale: Scale::Linear, from: None, to: None };
    let (title, marks) = (String::new(), Marks::Lines(laws.iter().map(line).collect()));
    let chart = Chart { title, x: axis(), y: axis(), marks, notes: Vec::new() };
    let style = |series: &SeriesAppearance| {
        let dark = DARK_COLOURS.iter().find(|(light, _)| *light == series.colour).map(|(_, dark)| *dark);
        let (name, colour, dashes) = (&series.name, series.colour, series.dashes);
        json!({ "name": name, "colour": colour, "dark": dark.unwrap_or(colour), "dashes": dashes })
    };
    describe_figure(&[chart], &laws).series.iter().map(style).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        let page = render_page("0123");
        assert!(!page.contains("{{") && page.contains("nonce=\"0123\""));
        for address in ["src=\"http", "href=\"http", "url(http", "@import"] {
            assert!(!page.contains(address), "{address}");
        }
        let scripts = SCRIPTS.concat();
        for word in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!scripts.contains(word), "{word} could turn text of a scenario into a script");
        }
        // An end tag inside a script would end it.
        assert!(!scripts.contains("</script") && !STYLE.contains("</style"));
    }

    #[test]
    fn every_law_has_its_own_colour() {
        let styles = law_styles();
        let colours: std::collections::BTreeSet<&str> =
            styles.iter().filter_map(|style| style["colour"].as_str()).collect();
        assert_eq!(colours.len(), LAWS.len());
    }
}
