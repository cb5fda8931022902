// Draws the report from the JSON in #data.  Everything that came with the data is untrusted: it enters the page
// as text nodes (see `make`), and plotly, which reads a little HTML in its labels, gets it escaped (see `label`).
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const solid = data.dimension === 3;
  const AXES = ["x", "y", "z"].slice(0, data.dimension);
  // plotly.js offers to upload the picture's data to its maker unless told not to; a window it opened for that would
  // escape the page's policy
  const QUIET = { displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true,
    plotGlPixelRatio: Math.min(2, Math.max(1, window.devicePixelRatio)) }; // more costs four times the pixels and shows nothing
  const TURNED = { ...QUIET, modeBarButtons: [["toImage", "orbitRotation", "pan3d", "resetCameraDefault3d"]] };
  const FLAT = { ...QUIET, displayModeBar: false };
  const MOST_ROWS = 5000; // of a table at once
  const STILL_AFTER = 1500; // ms without a change before the printed picture is made anew

  // -- data ------------------------------------------------------------------------------------------------

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

  function unpacked(array) {
    const values = Float64Array.from(new Float32Array(bytes(array.data)));
    for (let i = 0; i < values.length; i++) values[i] *= array.times;
    return values;
  }

  const numeric = (value) => (value === null ? NaN : value === "infinite" ? Infinity : value);
  const column = (values, i, d) => Float64Array.from({ length: values.length / d }, (_, j) => values[j * d + i]);
  const every = (count) => Array.from({ length: count }, (_, i) => i);

  const n = data.clouds.length;
  const m = data.landmarks.length;
  const places = unpacked(data.map); // (m, d)
  const warped = unpacked(data.warped); // (n, k, d)
  const drawn = data.drawn || every(m); // (k,)
  const sorts = { landmarks: columnsOf(data.landmarkTable), clouds: columnsOf(data.cloudTable) };
  const figure = { apart: valuesOf("landmarks", "disagreement"), sensed: valuesOf("landmarks", "sensor error") };
  const FIGURES = { apart: "disagreement", sensed: "sensor error" };

  function columnsOf(table) {
    return table.map((one) => ({ ...one, values: unpacked(one.values) }));
  }

  function valuesOf(table, name) {
    return sorts[table].find((one) => one.label === name).values;
  }

  // -- words -----------------------------------------------------------------------------------------------

  const SUPERSCRIPT = { "-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074", 5: "\u2075",
    6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079" };

  /** Three digits that mean something, plainly where that is short. */
  function number(value) {
    if (value === null || Number.isNaN(value)) return "\u2013";
    if (!Number.isFinite(value)) return value > 0 ? "\u221e" : "\u2212\u221e";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 999500 || size < 0.0005) {
      const [digits, power] = value.toExponential(2).split("e");
      const raised = [...String(Number(power))].map((c) => SUPERSCRIPT[c]).join("");
      return `${Number(digits)}\u202f\u00d7\u202f10${raised}`;
    }
    const decimals = Math.max(0, 2 - Math.floor(Math.log10(size)));
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  const plain = (value) => (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6 ? String(Number(value.toPrecision(3))) : number(value));
  const whole = (value) => value.toLocaleString("en");
  const length = (value) => number(value) + (data.unit && Number.isFinite(value) ? `\u00a0${data.unit}` : "");
  const percent = (value) => (Number.isNaN(value) ? "\u2013" : `${Number((100 * value).toPrecision(3))}\u00a0%`);
  const counted = (count, one, many) => `${whole(count)} ${count === 1 ? one : many || one + "s"}`;
  const clipped = (text, most) => (text.length > most ? `${[...text].slice(0, most - 1).join("")}\u2026` : text);

  /** Text for plotly's labels, which would otherwise read tags, entities and links in it. */
  function label(text, most = 48) {
    return clipped(text, most).replace(/[\s\u2028\u2029]+/g, " ")
      .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  const withUnit = (words) => (data.unit ? `${words} (${data.unit})` : words);

  /** An element; strings become text nodes, never markup. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const named = (text) => make("bdi", {}, text); // a name that runs right to left leaves the rest alone

  function paragraphs(into, texts, attributes) {
    for (const text of texts) if (text) into.append(make("p", attributes || {}, ...[].concat(text)));
  }

  // -- themes ----------------------------------------------------------------------------------------------

  // viridis, turned so that the worst stands out from the background
  const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b",
    "#fde725"];
  const evenly = (colours) => colours.map((colour, i) => [i / (colours.length - 1), colour]);
  const THEMES = {
    light: { ink: "#1c2430", soft: "#5a6573", line: "#dfe3e8", grid: "#d3d9e0", card: "#ffffff", accent: "#1f5fa8",
      cloud: "#d1480a", mesh: "#8fa0b3", wash: "#eef3f9", ring: "#d1005d", scale: evenly(VIRIDIS.slice(0, 9).reverse()),
      seen: [[0, "#f3f5f8"], [1, "#2c6aa8"]] },
    dark: { ink: "#e6eaef", soft: "#a3adb9", line: "#313a46", grid: "#3a4451", card: "#191f27", accent: "#7fb3ee",
      cloud: "#ff9a5c", mesh: "#7d8a99", wash: "#1f2935", ring: "#ff7eb6", scale: evenly(VIRIDIS.slice(2)),
      seen: [[0, "#232b35"], [1, "#6ea8e0"]] },
  };
  const DIRECTIONS = ["#d55e00", "#009e73", "#3b7ddd"]; // x, y, z

  const preference = window.matchMedia("(prefers-color-scheme: dark)");
  const small = window.matchMedia("(max-width: 40rem)");
  let chosen = null;
  const themeName = () => chosen || (preference.matches ? "dark" : "light");

  function base(theme, more) {
    return {
      paper_bgcolor: theme.card, plot_bgcolor: theme.card, margin: { l: 60, r: 20, t: 16, b: 48 }, showlegend: false,
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, DejaVu Sans, Arial, sans-serif", size: 13,
        color: theme.ink },
      hoverlabel: { bgcolor: theme.card, bordercolor: theme.soft, font: { color: theme.ink, size: 13 }, align: "left" },
      ...more,
    };
  }

  function flatAxis(theme, title, more) {
    return { title: { text: title, standoff: 12, font: { color: theme.soft } }, gridcolor: theme.grid, linecolor: theme.line,
      zeroline: false, tickfont: { color: theme.soft }, ticks: "outside", tickcolor: theme.line, automargin: true, ...more };
  }

  /** A colour bar beside the picture, or below it where there is no room beside. */
  function bar(theme, title, more) {
    const common = { title: { text: title, side: theme.narrow ? "top" : "right", font: { color: theme.soft } }, thickness: 12,
      outlinewidth: 0, tickfont: { color: theme.soft }, ...more };
    return theme.narrow ? { ...common, orientation: "h", len: 0.9, x: 0.5, y: 0, yanchor: "top", ypad: solid ? 0 : 55 }
      : { ...common, len: 0.75, x: 1.0, xpad: 6 };
  }

  /** Axes of space at one scale, in two or three dimensions; `back` is how far the eye stands. */
  function space(theme, frame, camera, back) {
    const away = theme.narrow ? 1.7 * back : back;
    if (!solid) {
      return {
        xaxis: flatAxis(theme, "x", { range: frame && frame[0] }),
        yaxis: flatAxis(theme, "y", { range: frame && frame[1], scaleanchor: "x", constrain: "domain" }),
      };
    }
    const scene = { aspectmode: "data", dragmode: "orbit", camera: camera ||
      { eye: { x: 1.05 * away, y: -1.5 * away, z: 0.95 * away }, center: { x: 0, y: 0, z: -0.1 } } };
    AXES.forEach((axis, i) => {
      scene[`${axis}axis`] = { title: { text: axis }, range: frame && frame[i], gridcolor: theme.grid, color: theme.soft,
        zerolinecolor: theme.grid, showbackground: false, showspikes: false, nticks: 6, tickfont: { size: 11 } };
    });
    return { scene };
  }

  const cornered = (theme) => (solid ? { margin: { l: 0, r: 0, t: 0, b: theme.narrow ? 70 : 0 } } : {});
  const pointKind = solid ? "scatter3d" : "scatter";

  function coordinates(values, rows) {
    const d = data.dimension;
    return Object.fromEntries(AXES.map((axis, i) => [axis, rows.map((j) => values[j * d + i])]));
  }

  // -- plots -----------------------------------------------------------------------------------------------

  const plots = [];

  /** A picture: live on the screen, and a still one in light colours for paper. */
  function plot(id, describe, words, hover) {
    const live = make("div", { class: "live", role: "figure", "aria-label": words });
    const still = make("img", { class: "still", alt: words });
    at(id).append(live, still);
    const one = { live, still, describe, hover, camera: null, heard: false, timer: 0 };
    plots.push(one);
    return one;
  }

  function draw(one) {
    const { traces, layout } = one.describe({ ...THEMES[themeName()], narrow: small.matches }, one.camera);
    const done = Plotly.react(one.live, traces, layout, layout.scene ? TURNED : FLAT);
    if (!one.heard) listen(one);
    outdated(one);
    return done;
  }

  function listen(one) {
    one.heard = true;
    one.live.on("plotly_relayout", (change) => {
      if (!change["scene.camera"]) return;
      one.camera = change["scene.camera"];
      outdated(one);
    });
    if (one.hover) one.live.on("plotly_hover", one.hover);
  }

  function forget(one) {
    Plotly.purge(one.live);
    Object.assign(one, { camera: null, heard: false });
  }

  function outdated(one) {
    clearTimeout(one.timer);
    one.timer = setTimeout(() => (window.requestIdleCallback || setTimeout)(() => photograph(one)), STILL_AFTER);
  }

  async function photograph(one) {
    const { traces, layout } = one.describe({ ...THEMES.light, narrow: false }, one.camera);
    const kind = one.live.parentElement.classList;
    const [width, height] = kind.contains("tall") ? [860, 516] : kind.contains("short") ? [440, 290] : [860, 360];
    try {
      one.still.src = await Plotly.toImage({ data: traces, layout }, { format: "png", width, height, scale: 1.6 });
    } catch (error) {
      one.still.alt += " (no picture could be made)";
    }
  }

  // -- summary ---------------------------------------------------------------------------------------------

  const TOLD = ["kernel", "bandwidth", "control_points", "smoothing", "modes", "robust", "scaling"];

  function summary() {
    const { name, words } = data.method;
    const share = data.seen / (n * m);
    at("lead").textContent = `${counted(n, "cloud")}, ${counted(m, "landmark")}, ${data.dimension}D, ${words} (${name})`;
    const tuned = data.method.settings.filter(([key, value]) => TOLD.includes(key) && value !== "none" && value !== "False")
      .map(([key, value]) => `${key} ${value}`);
    paragraphs(at("words"), [
      `${counted(n, "cloud")} of ${counted(m, "landmark")} in ${data.dimension}D were brought into one frame by ` +
        `${words}${tuned.length ? ` (${name}: ${tuned.join(", ")})` : ` (${name})`}. ` +
        `Of all pairs of a cloud and a landmark, ${percent(share)} were seen.`,
      data.mirrored.length && [counted(data.mirrored.length, "cloud fits only as a mirror image and has",
        "clouds fit only as mirror images and have"), " no say in the map: ", named(data.mirrored.join(", ")), "."],
      data.setAside !== null && `The robust fit set aside ${counted(data.setAside, "observation")}, ` +
        `${percent(data.setAside / data.seen)} of those seen: each kept a tenth of its weight or less. ` +
        "The figures below leave them out.",
    ]);
    const tiles = at("tiles");
    tiles.append(tile("Disagreement", data.summary.apart,
      "how far the clouds\u2019 images of a landmark lie from their mean, in the map; on the landmarks it was made from"));
    tiles.append(tile("Sensor error", data.summary.sensed,
      "how far a landmark lies from where the other clouds put it, in the clouds\u2019 own frames; on the landmarks it was made from. Left out, they lie farther off: see the tables"));
    const many = data.summary.apart.count;
    tiles.append(make("div", { class: "tile" }, make("h3", {}, "Seen"), make("p", { class: "big" }, percent(share)),
      make("p", {}, `${whole(data.seen)} observations; ${whole(many)} of ${counted(m, "landmark")} ` +
        "can be compared between clouds")));
    findings();
    if (data.notes.length) at("notes").append(make("h3", {}, "Notes"));
    paragraphs(at("notes"), data.notes, { class: "note" });
  }

  function tile(title, figures, meaning) {
    const worst = figures.at === null ? "" : ["; worst ", length(numeric(figures.worst)), ", landmark ",
      named(clipped(data.landmarks[figures.at], 60))];
    return make("div", { class: "tile" }, make("h3", {}, title),
      make("p", { class: "big" }, length(numeric(figures.median)), make("small", {}, " median")),
      make("p", {}, `mean ${length(numeric(figures.mean))}`, ...worst),
      make("p", {}, meaning));
  }

  function findings() {
    const into = at("findings");
    if (!data.findings.length) {
      into.append(make("p", { class: "fine" }, "Nothing found: every check of the registration passed."));
    }
    for (const one of data.findings) {
      const [level, words] = one.severity >= 0.7 ? ["grave", "serious"] : one.severity >= 0.4 ? ["heed", "look at it"]
        : ["mild", "good to know"];
      const meter = make("span", { class: "meter", "aria-hidden": "true" }, make("span"));
      meter.firstChild.style.width = `${Math.round(100 * one.severity)}%`;
      into.append(make("div", { class: "finding" },
        make("div", { class: `level ${level}` }, `${words}, ${Math.round(100 * one.severity)}\u00a0%`, meter),
        make("div", {}, make("h4", {}, one.kind), make("p", {}, one.found),
          make("p", { class: "action" }, `What to do: ${one.action}`))));
    }
  }

  // -- the map ---------------------------------------------------------------------------------------------

  const state = { cloud: 0, factor: 1, colour: "sensed", ringed: null };
  const known = every(m).filter((j) => !Number.isNaN(places[j * data.dimension]));
  const onMap = data.drawn ? drawn.filter((j) => !Number.isNaN(places[j * data.dimension])) : known;
  const counts = valuesOf("landmarks", "seen by");
  const escaped = data.landmarks.map((name) => label(name));

  function quantile(values, share) {
    const sorted = values.filter(Number.isFinite).sort();
    return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 1;
  }

  function colours(theme) {
    const values = figure[state.colour];
    const top = quantile(values, 0.98) || quantile(values, 1) || 1;
    return { top, marker: {
      size: solid ? (theme.narrow || onMap.length > 800 ? 3 : 4.5) : 7, color: onMap.map((j) => (Number.isNaN(values[j]) ? theme.soft : values[j])),
      colorscale: theme.scale, cmin: 0, cmax: top, line: { width: 0 }, opacity: solid ? 1 : 0.9,
      colorbar: bar(theme, label(withUnit(FIGURES[state.colour]))),
    } };
  }

  /** The cloud on the map, drawn `factor` times as far from it as it is, and the lines between them. */
  function residuals() {
    const d = data.dimension;
    const from = state.cloud * drawn.length * d;
    const points = AXES.map(() => new Float64Array(drawn.length));
    const lines = AXES.map(() => new Float64Array(3 * drawn.length).fill(NaN));
    const words = new Array(drawn.length);
    let seen = 0;
    drawn.forEach((j, row) => {
      let square = 0;
      for (let i = 0; i < d; i++) {
        const place = places[j * d + i];
        const off = warped[from + row * d + i] - place;
        const end = place + state.factor * off;
        square += off * off;
        points[i][row] = end;
        lines[i][3 * row] = end;
        lines[i][3 * row + 1] = Number.isNaN(end) ? NaN : place;
      }
      if (!Number.isNaN(square)) seen++;
      words[row] = `${escaped[j]}<br>${label(length(Math.sqrt(square)))} from the map`;
    });
    const axes = (arrays) => Object.fromEntries(AXES.map((axis, i) => [axis, arrays[i]]));
    return { seen, words, points: axes(points), lines: axes(lines) };
  }

  function mapFigure(theme, camera) {
    const traces = [...surface(theme)];
    const now = residuals();
    const shown = at("shown").checked;
    const { marker } = colours(theme);
    traces.push({ type: pointKind, mode: "markers", ...coordinates(places, onMap), marker, hoverinfo: "text",
      hovertext: onMap.map(landmarkWords) });
    traces.push({ type: pointKind, mode: "lines", ...now.lines, line: { color: theme.cloud, width: solid ? 3 : 1.5 },
      hoverinfo: "skip", connectgaps: false, visible: shown, opacity: solid ? 1 : 0.8 });
    traces.push({ type: pointKind, mode: "markers", ...now.points, hoverinfo: "text", hovertext: now.words, visible: shown,
      marker: { size: !solid ? 5.5 : theme.narrow ? 2 : 3, symbol: "diamond", color: theme.cloud, line: { width: 0 } } });
    const ringed = state.ringed === null ? [] : [state.ringed];
    traces.push({ type: pointKind, mode: "markers", ...coordinates(places, ringed), hoverinfo: "skip",
      marker: { size: solid ? 14 : 16, symbol: "circle-open", color: theme.ring, line: { width: 3, color: theme.ring } } });
    return { traces, layout: base(theme, { ...cornered(theme), ...space(theme, data.frame, camera, 1) }) };
  }

  function surface(theme) {
    if (!data.faces || !data.faces.count) return [];
    const corners = new Int32Array(bytes(data.faces.data));
    const visible = at("surface").checked;
    if (solid) {
      const [i, j, k] = [0, 1, 2].map((c) => Int32Array.from({ length: data.faces.count }, (_, f) => corners[3 * f + c]));
      return [{ type: "mesh3d", ...coordinates(places, every(m)), i, j, k, color: theme.mesh, opacity: 0.28, visible,
        hoverinfo: "skip", flatshading: false, lighting: { ambient: 0.65, diffuse: 0.5, specular: 0.1 } }];
    }
    const rows = [...corners].flatMap((corner, i) => (i % 3 === 2 ? [corner, corners[i - 2], -1] : [corner]));
    return [{ type: "scatter", mode: "lines", ...coordinates(places, rows), line: { color: theme.mesh, width: 1 }, visible,
      opacity: 0.6, hoverinfo: "skip", connectgaps: false }];
  }

  function landmarkWords(j) {
    return `${escaped[j]}<br>sensor error ${label(length(figure.sensed[j]))}<br>disagreement ` +
      `${label(length(figure.apart[j]))}<br>seen by ${counts[j]} of ${n}`;
  }

  const mapPlot = plot("mapPlot", mapFigure, "The map of all landmarks with one warped cloud");
  const offset = data.faces && data.faces.count ? 1 : 0;
  const TRACE = { surface: 0, map: offset, lines: offset + 1, points: offset + 2, ring: offset + 3 };

  /** Only the two traces of the cloud change; the others stay as they are. */
  function showCloud() {
    const now = residuals();
    const pair = (axis) => [now.lines[axis], now.points[axis]];
    cloudWords(now.seen);
    outdated(mapPlot);
    const change = Object.fromEntries(AXES.map((axis) => [axis, pair(axis)]));
    return Plotly.restyle(mapPlot.live, { ...change, hovertext: [null, now.words] }, [TRACE.lines, TRACE.points]);
  }

  function cloudWords(seen) {
    const error = valuesOf("clouds", "sensor error")[state.cloud];
    at("cloudName").replaceChildren(named(clipped(data.clouds[state.cloud], 80)),
      make("small", {}, `cloud ${whole(state.cloud + 1)} of ${whole(n)}, ${counted(seen, "point")}` +
        (Number.isNaN(error) ? "" : `, sensor error ${length(error)}`)));
    at("cloud").setAttribute("aria-valuetext", data.clouds[state.cloud]);
  }

  let waiting = false;
  function goTo(cloud) {
    state.cloud = Math.max(0, Math.min(n - 1, cloud));
    at("cloud").value = state.cloud;
    if (waiting) return;
    waiting = true; // a slider moves faster than pictures do: draw the last place, not all of them
    requestAnimationFrame(() => {
      waiting = false;
      showCloud();
    });
  }

  function mapControls() {
    at("cloud").max = n - 1;
    at("cloud").addEventListener("input", (event) => goTo(Number(event.target.value)));
    at("previous").addEventListener("click", () => goTo((state.cloud + n - 1) % n));
    at("next").addEventListener("click", () => goTo((state.cloud + 1) % n));
    at("colour").addEventListener("change", (event) => {
      state.colour = event.target.value;
      mapCaption();
      draw(mapPlot);
    });
    at("factor").addEventListener("change", (event) => {
      state.factor = Number(event.target.value);
      showCloud();
    });
    at("shown").addEventListener("change", (event) => {
      Plotly.restyle(mapPlot.live, { visible: event.target.checked }, [TRACE.lines, TRACE.points]);
    });
    at("surfaceLabel").hidden = !offset;
    if (!solid) at("surfaceLabel").lastChild.textContent = " show the triangles";
    at("surface").addEventListener("change", (event) => {
      Plotly.restyle(mapPlot.live, { visible: event.target.checked }, [TRACE.surface]);
    });
    cloudWords(residuals().seen);
    mapCaption();
  }

  function mapCaption() {
    const values = figure[state.colour];
    const { top } = colours(THEMES.light);
    const above = values.filter((value) => value > top).length;
    const grey = onMap.filter((j) => Number.isNaN(values[j])).length;
    at("mapCaption").textContent = [
      `Round dots: the map, coloured by ${FIGURES[state.colour]}`,
      above ? ` (colours end at ${length(top)}; ${counted(above, "landmark lies", "landmarks lie")} above)` : "",
      grey ? `; grey where fewer than two clouds can be compared` : "",
      ". Small orange diamonds: the cloud chosen below, as its warp places it; lines lead to where the map has the same landmark. ",
      "Where residuals are drawn longer, the cloud is drawn that many times as far from the map as it is. ",
      known.length < m ? `${counted(m - known.length, "landmark has", "landmarks have")} no place in the map. ` : "",
      data.drawn ? `${whole(drawn.length)} of ${whole(m)} landmarks are drawn, evenly chosen. ` : "",
      data.unit ? `Lengths in ${data.unit}. ` : "",
      solid ? "Drag to turn, scroll to zoom." : "Drag to zoom, double-click to return.",
    ].join("");
  }

  function ring(landmark) {
    state.ringed = landmark;
    const change = coordinates(places, [landmark]);
    Plotly.restyle(mapPlot.live, Object.fromEntries(AXES.map((axis) => [axis, [change[axis]]])), [TRACE.ring]);
    outdated(mapPlot);
    at("map").scrollIntoView();
  }

  // -- trajectory ------------------------------------------------------------------------------------------

  const positions = unpacked(data.poses.places);
  const axes = unpacked(data.poses.axes); // (n, d, d), columns are the axes of a cloud

  function trajectoryFigure(theme, camera) {
    const d = data.dimension;
    const everyone = every(n);
    const sizes = AXES.map((_, i) => {
      const all = [...column(positions, i, d), ...known.map((j) => places[j * d + i])];
      return all.reduce((most, one) => Math.max(most, one), -Infinity) - all.reduce((least, one) => Math.min(least, one), Infinity);
    });
    const arm = 0.06 * Math.max(...sizes);
    const step = Math.max(1, Math.ceil(known.length / 1500));
    const traces = [{ type: pointKind, mode: "markers", ...coordinates(places, known.filter((_, i) => i % step === 0)),
      marker: { size: solid ? 1.8 : 5, color: theme.mesh, line: { width: 0 } }, hoverinfo: "skip" }];
    DIRECTIONS.slice(0, d).forEach((colour, a) => {
      const ends = AXES.map(() => []);
      for (const t of everyone) {
        AXES.forEach((_, i) => {
          const start = positions[t * d + i];
          ends[i].push(start, start + arm * axes[(t * d + i) * d + a], NaN);
        });
      }
      traces.push({ type: pointKind, mode: "lines", hoverinfo: "skip", connectgaps: false,
        line: { color: colour, width: solid ? 4 : 2 }, ...Object.fromEntries(AXES.map((axis, i) => [axis, ends[i]])) });
    });
    traces.push({ type: pointKind, mode: "lines+markers", ...coordinates(positions, everyone), hoverinfo: "text",
      hovertext: everyone.map((t) => `${label(data.clouds[t])}<br>cloud ${t + 1} of ${n}`),
      line: { color: theme.soft, width: solid ? 2 : 1 },
      marker: { size: !solid ? 8 : theme.narrow ? 3 : 4, color: everyone.map((t) => t + 1), colorscale: theme.scale, cmin: 1, cmax: Math.max(2, n),
        line: { width: 0 },
        colorbar: bar(theme, "cloud, in order", { tickformat: "d", tick0: 1, dtick: Math.max(1, Math.ceil(n / 8)) }) } });
    return { traces, layout: base(theme, { ...cornered(theme), ...space(theme, null, camera, 1.2) }) };
  }

  function trajectory() {
    at("trajectoryCaption").textContent = "Where the sensor stood: the origin of each cloud\u2019s own coordinates, taken into the map by " +
      "the cloud\u2019s pose, with short arms along its axes (" +
      (solid ? "x orange, y green, z blue" : "x orange, y green") + "); the small dots are the map. " +
      "If the coordinates of a cloud are not those of a sensor, the path has no meaning, but the turns still do." +
      (data.unit ? ` Lengths in ${data.unit}.` : "");
    plot("trajectoryPlot", trajectoryFigure, "Sensor positions of the clouds");
  }

  // -- visibility ------------------------------------------------------------------------------------------

  function visibility() {
    const { rows, columns } = data.visibility;
    const shares = new Uint8Array(bytes(data.visibility.data));
    const z = rows.map((_, r) => Array.from(shares.subarray(r * columns.length, (r + 1) * columns.length), (s) => s / 255));
    const blocks = rows.length < n || columns.length < m;
    const span = (starts, names, i, one) => {
      const last = (i + 1 < starts.length ? starts[i + 1] : names.length) - 1;
      return last > starts[i] ? [`${one}s `, named(names[starts[i]]), " to ", named(names[last])]
        : [`${one} `, named(names[starts[i]])];
    };
    const step = Math.ceil(rows.length / 16);
    const ticks = every(rows.length).filter((r) => r % step === 0);
    const marksOf = (most) => every(columns.length).filter((c) => c % Math.max(1, Math.ceil(columns.length / most)) === 0);
    const describe = (theme, marks) => ({
      traces: [{ type: "heatmap", z, zmin: 0, zmax: 1, colorscale: theme.seen, showscale: false, hoverinfo: "none" }],
      layout: base(theme, {
        xaxis: flatAxis(theme, "landmark", { showgrid: false, tickvals: marks, tickangle: 0,
          ticktext: marks.map((c) => label(data.landmarks[columns[c]], 12)) }),
        yaxis: flatAxis(theme, "cloud", { showgrid: false, autorange: "reversed", tickvals: ticks,
          ticktext: ticks.map((r) => label(data.clouds[rows[r]], 16)) }),
      }),
    });
    const read = ({ points: [point] }) => {
      const [r, c] = point.pointIndex || point.pointNumber;
      const share = z[r][c];
      at("visibilityReadout").replaceChildren(...span(rows, data.clouds, r, "Cloud"), ", ",
        ...span(columns, data.landmarks, c, "landmark"), `: ${blocks ? `${percent(share)} seen` : share ? "seen" : "not seen"}`);
    };
    plot("visibilityPlot", (theme) => describe(theme, marksOf(theme.narrow ? 2 : 8)), "Which cloud saw which landmark", read);
    at("visibilityPlot").style.height = `${Math.round(Math.min(30, Math.max(12, 6 + 0.9 * rows.length)))}rem`;
    at("visibilityCaption").textContent = `A row a cloud, a column a landmark; dark where seen (bright on a dark page).` +
      (blocks ? " There are more than can be drawn: each cell is the share seen of a block of neighbours." : "");
  }

  // -- eigenvalues -----------------------------------------------------------------------------------------

  function spectrum() {
    const { values: given, dimension, rounding } = data.eigenvalues;
    const values = given.map(numeric);
    const floor = Math.max(rounding, 1e-300);
    const shown = values.map((value) => Math.max(value, floor));
    const below = values[dimension - 1];
    const above = values[dimension];
    const ratio = shown[dimension] / shown[dimension - 1];
    const [least, most] = spread(shown);
    const decades = most - least > 1.5 ? Math.ceil((most - least) / 8) : undefined;
    const hasGap = Number.isFinite(above) && above > rounding;
    plot("spectrumPlot", (theme) => ({
      traces: [{ type: "scatter", mode: "markers", x: every(values.length).map((i) => i + 1), y: shown, hoverinfo: "text",
        hovertext: values.map((value, i) => `eigenvalue ${i + 1}<br>${value < floor ? "below rounding" : number(value)}`),
        marker: { size: 12, color: values.map((_, i) => (i < dimension ? theme.accent : theme.cloud)),
          symbol: values.map((_, i) => (i < dimension ? "circle" : "diamond")) } }],
      layout: base(theme, {
        xaxis: flatAxis(theme, "eigenvalue", { dtick: values.length > 12 ? undefined : 1, range: [0.5, values.length + 0.5], showgrid: false }),
        yaxis: flatAxis(theme, "cost left", { type: "log", exponentformat: "power", dtick: decades, range: spread(shown) }),
        shapes: hasGap ? [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: shown[dimension - 1], y1: shown[dimension],
          fillcolor: theme.accent, opacity: 0.12, line: { width: 0 }, layer: "below" }] : [],
        annotations: hasGap ? [{ xref: "paper", x: 0.03, xanchor: "left", y: (Math.log10(shown[dimension - 1]) + Math.log10(shown[dimension])) / 2,
          yref: "y", text: "gap", showarrow: false, font: { color: theme.accent, size: 13 } }] : [],
      }),
    }), "Eigenvalues on a logarithmic scale");
    paragraphs(at("spectrumWords"), [
      `The first ${dimension} eigenvalues (round) are the cost that the warps leave along the ${dimension} ` +
        `${dimension === 1 ? "axis" : "axes"} of the map; the next (diamond) is the cheapest direction that is not part of it.`,
      hasGap ? `Eigenvalue ${dimension + 1} (${number(above)}) is ${number(ratio)} times eigenvalue ${dimension} ` +
        `(${below < floor ? "below rounding" : number(below)}).` : "There is no next eigenvalue above rounding to compare with.",
      hasGap && "A wide gap says that the eigenvectors, and with them the published map (modes paper), are determined by the data. " +
        "If the two nearly coincide, that map may mix directions; the default map (modes auto) does not rest on the gap.",
    ]);
  }

  function spread(values) {
    const logs = values.filter((value) => value > 0).map(Math.log10);
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const room = Math.max(0.3, 0.15 * (high - low));
    return [low - room, high + room];
  }

  // -- tuning ----------------------------------------------------------------------------------------------

  function tuning() {
    const { trials, best, edges, axes: tuned } = data.tuning;
    const winner = trials[best];
    const words = (trial) => trial.settings.map(([name, value]) => `${name} ${value}`).join(", ");
    const failed = trials.filter((trial) => trial.failure).length;
    paragraphs(at("tuningWords"), [
      `${counted(trials.length, "setting was", "settings were")} tried, each judged by landmarks held out, in the sensors\u2019 frames. ` +
        `Best: ${winner.model}${winner.settings.length ? `, ${words(winner)}` : ""}, with an error of ${length(numeric(winner.sensed))}.`,
      edges.length && `The best ${edges.join(" and ")} ends the range that was tried; a better value may lie beyond.`,
      failed && `${counted(failed, "setting")} could not be computed.`,
    ]);
    if (tuned && tuned.names.length === 2) {
      at("tuningCaption").textContent = "Dots: settings that were tried; crosses: could not be computed; ring: the best. " +
        "Cells without a dot are filled in between.";
    }
    if (tuned && tuned.names.length === 2) plot("tuningPlot", tunedSurface, "Held-out error by two settings");
    else if (tuned) plot("tuningPlot", tunedLine, "Held-out error by one setting");
    else at("tuningPlot").hidden = true;
    const numbers = (values) => Float64Array.from(values);
    table("tuningTable", "settings tried", trials.map((trial) => `${trial.model}${trial.settings.length ? `: ${words(trial)}` : ""}`), [
      { kind: "length", label: "held-out sensor error", values: numbers(trials.map((trial) => numeric(trial.sensed))) },
      { kind: "number", label: "seconds", values: numbers(trials.map((trial) => trial.seconds)) },
      ...(failed ? [{ kind: "words", label: "why not", values: trials.map((trial) => trial.failure) }] : []),
    ], { first: "setting", sort: 1, direction: 1 });
  }

  const scaleOf = (values) => (Math.min(...values) > 0 && Math.max(...values) >= 8 * Math.min(...values) ? "log" : "linear");

  function tunedLine(theme) {
    const { names, values: [x], sensed } = data.tuning.axes;
    const y = sensed.map(numeric);
    const order = every(x.length).filter((i) => Number.isFinite(y[i])).sort((a, b) => x[a] - x[b]);
    const least = order.reduce((a, b) => (y[b] < y[a] ? b : a), order[0]);
    return {
      traces: [
        { type: "scatter", mode: "lines+markers", x: order.map((i) => x[i]), y: order.map((i) => y[i]), hoverinfo: "text",
          hovertext: order.map((i) => `${label(names[0])} ${number(x[i])}<br>${label(length(y[i]))}`),
          line: { color: theme.accent, width: 2 }, marker: { size: 8, color: theme.accent } },
        bestRing(theme, x[least], y[least]),
      ],
      layout: base(theme, {
        xaxis: flatAxis(theme, label(names[0]), { type: scaleOf(x) }),
        yaxis: flatAxis(theme, label(withUnit("held-out sensor error")), { type: scaleOf(order.map((i) => y[i])) }),
      }),
    };
  }

  const bestRing = (theme, x, y) => ({ type: "scatter", mode: "markers", x: [x], y: [y], hoverinfo: "skip",
    marker: { size: 20, symbol: "circle-open", color: theme.ring, line: { width: 3, color: theme.ring } } });

  function tunedSurface(theme) {
    const { names, values: [x, y], sensed: given } = data.tuning.axes;
    const sensed = given.map(numeric);
    const fine = every(x.length).filter((i) => Number.isFinite(sensed[i]));
    const wide = scaleOf(fine.map((i) => sensed[i])) === "log";
    const height = (value) => (wide ? Math.log10(value) : value);
    const heights = fine.map((i) => height(sensed[i]));
    const [low, high] = [Math.min(...heights), Math.max(...heights)];
    const unique = (values) => [...new Set(values)].sort((a, b) => a - b);
    const [across, up] = [unique(x), unique(y)];
    const z = up.map(() => across.map(() => null));
    for (const i of fine) z[up.indexOf(y[i])][across.indexOf(x[i])] = height(sensed[i]);
    const least = fine.reduce((a, b) => (sensed[b] < sensed[a] ? b : a), fine[0]);
    const ticks = every(5).map((i) => low + (i / 4) * (high - low));
    const words = (i) => `${label(names[0])} ${number(x[i])}<br>${label(names[1])} ${number(y[i])}<br>` +
      `${Number.isFinite(sensed[i]) ? label(length(sensed[i])) : "could not be computed"}`;
    const lost = every(x.length).filter((i) => !Number.isFinite(sensed[i]));
    const scale = [...theme.scale].reverse().map(([, colour], i, all) => [i / (all.length - 1), colour]); // the best stands out
    const dots = (rows, marker) => ({ type: "scatter", mode: "markers", x: rows.map((i) => x[i]), y: rows.map((i) => y[i]),
      hoverinfo: "text", hovertext: rows.map(words), marker });
    return {
      traces: [
        { type: "heatmap", x: across, y: up, z, connectgaps: true, zsmooth: false, hoverinfo: "skip", colorscale: scale,
          zmin: low, zmax: high > low ? high : low + 1, opacity: 0.9,
          colorbar: { ...bar(theme, label(withUnit("held-out sensor error"))), len: 1, ypad: theme.narrow ? 75 : 0,
            tickvals: ticks, ticktext: ticks.map((tick) => number(wide ? 10 ** tick : tick)) } },
        dots(fine, { size: 7, color: theme.card, line: { width: 1, color: theme.ink } }),
        dots(lost, { size: 9, symbol: "x", color: theme.soft }),
        bestRing(theme, x[least], y[least]),
      ],
      layout: base(theme, {
        xaxis: flatAxis(theme, label(names[0]), { type: scaleOf(across), showgrid: false, tickvals: across.length <= 12 ? across : undefined,
          ticktext: across.length <= 12 ? across.map(plain) : undefined }),
        yaxis: flatAxis(theme, label(names[1]), { type: scaleOf(up), showgrid: false, tickvals: up.length <= 12 ? up : undefined,
          ticktext: up.length <= 12 ? up.map(plain) : undefined }),
      }),
    };
  }

  // -- tables ----------------------------------------------------------------------------------------------

  const SHOWN = {
    count: (value) => whole(value), length: (value) => number(value), number, share: percent,
    part: (value) => (value ? "yes" : "no: mirrored"), words: (value) => value,
  };

  /** A table with a row a name: sorted by its headers, cut to what matches a filter. */
  function table(id, what, names, columns, { first, sort, direction, choose }) {
    const order = { column: sort, direction };
    const body = make("tbody");
    const status = make("span", { role: "status" });
    const filter = make("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
    const headers = [{ label: first, kind: "name" }, ...columns].map((one, index) => {
      const button = make("button", { type: "button" }, one.label);
      if (one.kind === "length" && data.unit) button.append(make("small", {}, ` (${clipped(data.unit, 12)})`));
      button.addEventListener("click", () => {
        const turned = order.column === index ? -order.direction : index === 0 ? 1 : -1;
        Object.assign(order, { column: index, direction: turned });
        fill();
      });
      const printed = make("span", { class: "printed", "aria-hidden": "true" }, button.textContent);
      return make("th", { scope: "col", class: one.kind === "words" ? "words" : "number" }, button, printed);
    });
    const lower = names.map((name) => name.toLowerCase());

    function compare(a, b) {
      if (order.column === 0) return order.direction * collator.compare(names[a], names[b]) || a - b;
      const values = columns[order.column - 1].values;
      if (typeof values[a] === "string") return order.direction * collator.compare(values[a], values[b]) || a - b;
      const [unknownA, unknownB] = [Number.isNaN(values[a]), Number.isNaN(values[b])];
      if (unknownA || unknownB) return unknownA - unknownB || a - b; // what is not known comes last either way
      return values[a] === values[b] ? a - b : order.direction * (values[a] < values[b] ? -1 : 1);
    }

    function fill() {
      const wanted = filter.value.trim().toLowerCase();
      const rows = every(names.length).filter((i) => lower[i].includes(wanted)).sort(compare);
      const most = rows.slice(0, MOST_ROWS);
      body.replaceChildren(...most.map(row));
      status.textContent = (rows.length < names.length ? `${whole(rows.length)} of ` : "") + `${whole(names.length)} ${what}` +
        (most.length < rows.length ? `; the first ${whole(most.length)} are listed, filter to find others` : "");
      headers.forEach((header, index) => {
        header.setAttribute("aria-sort", index !== order.column ? "none" : order.direction > 0 ? "ascending" : "descending");
      });
    }

    function row(i) {
      const name = choose ? make("button", { type: "button", title: "show on the map" }, named(names[i])) : named(names[i]);
      if (choose) name.addEventListener("click", () => choose(i));
      const cells = columns.map((one) => make("td", one.kind === "words" ? { class: "words" } : {}, SHOWN[one.kind](one.values[i])));
      return make("tr", {}, make("td", {}, name), ...cells);
    }

    filter.addEventListener("input", fill);
    const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${what}` },
      make("table", {}, make("thead", {}, make("tr", {}, ...headers)), body));
    const field = make("label", {}, "Filter ", filter);
    at(id).append(make("div", { class: "tools" }, field, status), box);
    fill();
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function tables() {
    const worst = (columns) => 1 + columns.findIndex((one) => one.label === "sensor error");
    table("landmarkTable", "landmarks", data.landmarks, sorts.landmarks,
      { first: "landmark", sort: worst(sorts.landmarks), direction: -1, choose: ring });
    table("cloudTable", "clouds", data.clouds, sorts.clouds, { first: "cloud", sort: worst(sorts.clouds), direction: -1,
      choose: (cloud) => {
        goTo(cloud);
        at("map").scrollIntoView();
      } });
    const explain = "Disagreement and sensor error are root mean squares" +
      (sorts.landmarks.some((one) => one.label === "left out, off by")
        ? "; \u201cleft out, off by\u201d is the median distance between an observation and where everything else puts it, " +
          "were it left out of its cloud" : "") +
      (data.setAside !== null ? "; \u201cweight kept\u201d is the mean share of its weight that the robust fit left an observation" : "") +
      ". A dash stands where nothing can be compared.";
    at("landmarkTable").append(make("p", { class: "caption" }, explain));
  }

  function settings() {
    const list = (title, pairs) => make("div", {}, make("h3", {}, title),
      make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, named(name)), make("dd", {}, named(value))])));
    const into = at("settingLists");
    into.append(list(data.method.name, data.method.settings));
    if (data.settings.length) into.append(list("This run", data.settings));
    into.append(list("Versions", [...data.versions, ["plotly.js", Plotly.version]]));
  }

  // -- the page --------------------------------------------------------------------------------------------

  function theme() {
    if (chosen) document.documentElement.dataset.theme = chosen;
    at("theme").textContent = themeName() === "dark" ? "Light" : "Dark";
  }

  async function redraw() {
    theme();
    for (const one of plots) await draw(one);
  }

  async function open() {
    theme();
    at("theme").addEventListener("click", () => {
      chosen = themeName() === "dark" ? "light" : "dark";
      redraw();
    });
    preference.addEventListener("change", redraw);
    small.addEventListener("change", () => {
      plots.forEach(forget); // a small screen has its bars and its eye elsewhere
      redraw();
    });
    summary();
    mapControls();
    trajectory();
    visibility();
    at("spectrum").hidden = !data.eigenvalues;
    if (data.eigenvalues) spectrum();
    at("tuning").hidden = !data.tuning;
    if (data.tuning) tuning();
    tables();
    settings();
    for (const section of document.querySelectorAll("section:not([hidden])")) {
      at("contents").append(make("a", { href: `#${section.id}` }, section.dataset.short));
    }
    for (const one of plots) {
      await draw(one);
      await new Promise((resume) => setTimeout(resume)); // let the page answer between pictures
    }
    document.documentElement.dataset.ready = "yes";
  }

  open();
})();
