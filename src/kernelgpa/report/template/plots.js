// What all plots share: themes, axes, colour bars, and drawing on the screen and for paper.

// plotly.js offers to upload the plot's data to its maker unless this is switched off; a window opened for that would
// escape the page's content security policy
const PLOT_CONFIG = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true,
  plotGlPixelRatio: Math.min(2, Math.max(1, window.devicePixelRatio)) }; // higher ratios cost time and look the same
const CONFIG_3D = { ...PLOT_CONFIG, modeBarButtons: [["toImage", "orbitRotation", "pan3d", "resetCameraDefault3d"]] };
const CONFIG_2D = { ...PLOT_CONFIG, displayModeBar: false };
const PRINT_DELAY = 1500; // milliseconds without a change before the image for paper is made again

// viridis, reversed so that the largest values stand out from the background
const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b",
  "#fde725"];
const colourScale = (colours) => colours.map((colour, i) => [i / (colours.length - 1), colour]);
const THEMES = {
  light: { ink: "#1c2430", soft: "#5a6573", line: "#dfe3e8", grid: "#d3d9e0", card: "#ffffff", accent: "#1f5fa8",
    cloud: "#d1480a", mesh: "#8fa0b3", ring: "#d1005d", scale: colourScale(VIRIDIS.slice(0, 9).reverse()),
    seen: [[0, "#f3f5f8"], [1, "#2c6aa8"]] },
  dark: { ink: "#e6eaef", soft: "#a3adb9", line: "#313a46", grid: "#3a4451", card: "#191f27", accent: "#7fb3ee",
    cloud: "#ff9a5c", mesh: "#7d8a99", ring: "#ff7eb6", scale: colourScale(VIRIDIS.slice(2)),
    seen: [[0, "#232b35"], [1, "#6ea8e0"]] },
};

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const narrowScreen = window.matchMedia("(max-width: 40rem)");
let chosenTheme = null; // until the reader presses the button the system decides
const themeName = () => chosenTheme || (prefersDark.matches ? "dark" : "light");

function plotLayout(theme, more) {
  return {
    paper_bgcolor: theme.card, plot_bgcolor: theme.card, margin: { l: 60, r: 20, t: 16, b: 48 }, showlegend: false,
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, DejaVu Sans, Arial, sans-serif", size: 13,
      color: theme.ink },
    hoverlabel: { bgcolor: theme.card, bordercolor: theme.soft, font: { color: theme.ink, size: 13 }, align: "left" },
    ...more,
  };
}

function axis2D(theme, title, more) {
  return { title: { text: title, standoff: 12, font: { color: theme.soft } }, gridcolor: theme.grid,
    linecolor: theme.line, zeroline: false, tickfont: { color: theme.soft }, ticks: "outside", tickcolor: theme.line,
    automargin: true, ...more };
}

/** A colour bar beside the plot, or below it on a narrow screen. */
function colourBar(theme, title, more) {
  const common = { title: { text: title, side: theme.narrow ? "top" : "right", font: { color: theme.soft } },
    thickness: 12, outlinewidth: 0, tickfont: { color: theme.soft }, ...more };
  return theme.narrow ? { ...common, orientation: "h", len: 0.9, x: 0.5, y: 0, yanchor: "top", ypad: is3D ? 0 : 55 }
    : { ...common, len: 0.75, x: 1.0, xpad: 6 };
}

/** Sides of the box of a plot, of which the diagonal is 2 whatever its proportions: also a flat one fits the view. */
function boxSides(ranges) {
  const extents = ranges.map(([low, high]) => high - low);
  const diagonal = Math.hypot(...extents) || 1;
  return Object.fromEntries(AXES.map((axis, i) => [axis, Math.max(0.02, 2 * extents[i] / diagonal)]));
}

/** Spatial axes with equal scales, in two or three dimensions; `distance` is that of the camera. */
function spatialAxes(theme, ranges, camera, distance) {
  if (!is3D) {
    return {
      xaxis: axis2D(theme, "x", { range: ranges[0] }),
      yaxis: axis2D(theme, "y", { range: ranges[1], scaleanchor: "x", constrain: "domain" }),
    };
  }
  const away = theme.narrow ? 1.7 * distance : distance;
  const scene = { aspectmode: "manual", aspectratio: boxSides(ranges), dragmode: "orbit", camera: camera ||
    { eye: { x: 1.05 * away, y: -1.5 * away, z: 0.95 * away }, center: { x: 0, y: 0, z: -0.1 } } };
  AXES.forEach((axis, i) => {
    scene[`${axis}axis`] = { title: { text: axis }, range: ranges[i], gridcolor: theme.grid,
      color: theme.soft, zerolinecolor: theme.grid, showbackground: false, showspikes: false, nticks: 6,
      tickfont: { size: 11 } };
  });
  return { scene };
}

const spatialMargins = (theme) => (is3D ? { margin: { l: 0, r: 0, t: 0, b: theme.narrow ? 70 : 0 } } : {});
const POINT_TRACE = is3D ? "scatter3d" : "scatter";

// -- drawing -------------------------------------------------------------------------------------------------

const plots = [];

/** A plot: interactive on the screen, an image in light colours on paper. */
function addPlot(id, figure, description, onHover) {
  const screen = createElement("div", { class: "interactive", role: "figure", "aria-label": description });
  const paper = createElement("img", { class: "paper", alt: description });
  byId(id).append(screen, paper);
  const plot = { screen, paper, figure, onHover, camera: null, listening: false, timer: 0 };
  plots.push(plot);
  return plot;
}

function drawPlot(plot) {
  const { traces, layout } = plot.figure({ ...THEMES[themeName()], narrow: narrowScreen.matches }, plot.camera);
  const drawn = Plotly.react(plot.screen, traces, layout, layout.scene ? CONFIG_3D : CONFIG_2D);
  if (!plot.listening) addListeners(plot);
  schedulePaperImage(plot);
  return drawn;
}

function addListeners(plot) {
  plot.listening = true;
  plot.screen.on("plotly_relayout", (change) => {
    if (!change["scene.camera"]) return;
    plot.camera = change["scene.camera"];
    schedulePaperImage(plot);
  });
  if (plot.onHover) plot.screen.on("plotly_hover", plot.onHover);
}

function resetPlot(plot) {
  Plotly.purge(plot.screen);
  Object.assign(plot, { camera: null, listening: false });
}

function schedulePaperImage(plot) {
  clearTimeout(plot.timer);
  plot.timer = setTimeout(() => (window.requestIdleCallback || setTimeout)(() => makePaperImage(plot)), PRINT_DELAY);
}

async function makePaperImage(plot) {
  const { traces, layout } = plot.figure({ ...THEMES.light, narrow: false }, plot.camera);
  const classes = plot.screen.parentElement.classList;
  const [width, height] = classes.contains("tall") ? [860, 516] : classes.contains("short") ? [440, 290] : [860, 360];
  try {
    plot.paper.src = await Plotly.toImage({ data: traces, layout }, { format: "png", width, height, scale: 1.6 });
  } catch (error) {
    plot.paper.alt += ` (no image could be made: ${error.message})`;
  }
}
