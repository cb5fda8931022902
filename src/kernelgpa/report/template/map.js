// The map of all landmarks, with one cloud at a time drawn on it.

const MOST_NAMES = 300; // landmarks that can be distinguished in the plot
const SHRUNK = 0.97; // of the surface
const MAPPED_BY = data.eigenvalues ? "mapped by its warp" : "moved by its pose";
const view = { cloud: 0, factor: 1, colour: "sensor_error", highlighted: null };
const drawnOnMap = data.drawn ? drawnLandmarks.filter(hasPosition) : mappedLandmarks;
const cloudCounts = columnValues("landmarks", "clouds");
const plotlyNames = data.landmarks.map((name) => plotlyText(name));

function quantile(values, share) {
  const sorted = values.filter(Number.isFinite).sort();
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 1;
}

/** The value of the last colour: a few outliers do not take the colours from all others. */
function colourLimit() {
  const values = landmarkErrors[view.colour];
  return quantile(values, 0.98) || quantile(values, 1) || 1;
}

function mapMarker(theme) {
  const values = landmarkErrors[view.colour];
  return {
    size: is3D ? (theme.narrow || drawnOnMap.length > 800 ? 3 : 4.5) : 7,
    color: drawnOnMap.map((j) => (Number.isNaN(values[j]) ? theme.soft : values[j])),
    colorscale: theme.scale, cmin: 0, cmax: colourLimit(), line: { width: 0 }, opacity: is3D ? 1 : 0.9,
    colorbar: colourBar(theme, plotlyText(withUnit(ERROR_NAMES[view.colour]))),
  };
}

/** The chosen cloud, with its distances from the map enlarged by `view.factor`, and the lines between the two. */
function cloudResiduals() {
  const d = data.dimension;
  const start = view.cloud * drawnLandmarks.length * d;
  const points = AXES.map(() => new Float64Array(drawnLandmarks.length));
  const lines = AXES.map(() => new Float64Array(3 * drawnLandmarks.length).fill(NaN));
  const hoverTexts = new Array(drawnLandmarks.length);
  let seen = 0;
  drawnLandmarks.forEach((j, row) => {
    let square = 0;
    for (let i = 0; i < d; i++) {
      const position = mapPoints[j * d + i];
      const residual = warpedPoints[start + row * d + i] - position;
      const end = position + view.factor * residual;
      square += residual * residual;
      points[i][row] = end;
      lines[i][3 * row] = end;
      lines[i][3 * row + 1] = Number.isNaN(end) ? NaN : position;
    }
    if (!Number.isNaN(square)) seen++;
    hoverTexts[row] = `${plotlyNames[j]}<br>${plotlyText(formatLength(Math.sqrt(square)))} from the ${words.map}`;
  });
  const byAxis = (arrays) => Object.fromEntries(AXES.map((axis, i) => [axis, arrays[i]]));
  return { seen, hoverTexts, points: byAxis(points), lines: byAxis(lines) };
}

function mapFigure(theme, camera) {
  const residuals = cloudResiduals();
  const visible = byId("showCloud").checked;
  const highlighted = view.highlighted === null ? [] : [view.highlighted];
  const traces = [
    ...surfaceTraces(theme),
    ...linkTraces(theme),
    { type: POINT_TRACE, mode: byId("showNames").checked ? "markers+text" : "markers", visible: !isPainted(),
      ...coordinates(mapPoints, drawnOnMap), marker: mapMarker(theme), hoverinfo: "text",
      hovertext: drawnOnMap.map(landmarkHoverText), text: drawnOnMap.map((j) => plotlyText(data.landmarks[j], 16)),
      textposition: "top center", textfont: { color: theme.ink, size: 11 } },
    { type: POINT_TRACE, mode: "lines", ...residuals.lines, line: { color: theme.cloud, width: is3D ? 3 : 1.5 },
      hoverinfo: "skip", connectgaps: false, visible, opacity: is3D ? 1 : 0.8 },
    { type: POINT_TRACE, mode: "markers", ...residuals.points, hoverinfo: "text", hovertext: residuals.hoverTexts,
      visible, marker: { size: !is3D ? 5.5 : theme.narrow ? 2 : 3, symbol: "diamond", color: theme.cloud,
        line: { width: 0 } } },
    { type: POINT_TRACE, mode: "markers", ...coordinates(mapPoints, highlighted), hoverinfo: "skip",
      marker: { size: is3D ? 14 : 16, symbol: "circle-open", color: theme.ring,
        line: { width: 3, color: theme.ring } } },
  ];
  const layout = { ...spatialMargins(theme), ...spatialAxes(theme, data.axis_ranges, camera, 1) };
  return { traces, layout: plotLayout(theme, layout) };
}

/** Lines between landmarks: those of the data, or from each landmark to its neighbours. */
function linkTraces(theme) {
  if (!hasLinks) return [];
  const rows = data.links.pairs.flatMap(([a, b]) => [a, b, -1]); // no landmark -1: the line ends there
  return [{ type: POINT_TRACE, mode: "lines", ...coordinates(mapPoints, rows), hoverinfo: "skip", connectgaps: false,
    line: { color: theme.mesh, width: is3D ? 3 : 1.5 }, visible: byId("showLinks").checked }];
}

/** The vertices of the surface, drawn closer to their centroid: landmarks on it would be half hidden. */
function shrunkSurface() {
  const d = data.dimension;
  const vertices = unpacked(data.surface.vertices);
  const count = vertices.length / d;
  const centroid = AXES.map((_, i) => range(count).reduce((sum, v) => sum + vertices[v * d + i], 0) / count);
  return vertices.map((value, at) => centroid[at % d] + SHRUNK * (value - centroid[at % d]));
}

/** Whether the surface has the colours of the landmarks, which are its vertices and, drawn as dots, would hide it. */
function isPainted() {
  const dense = is3D && !data.surface && data.faces && data.faces.count && m > MOST_NAMES;
  return Boolean(dense && byId("showSurface").checked && !landmarkErrors[view.colour].some(Number.isNaN));
}

function paint(theme) {
  const { colorscale, cmin, cmax, colorbar } = mapMarker(theme);
  return { intensity: landmarkErrors[view.colour], colorscale, cmin, cmax, colorbar, hoverinfo: "text",
    hovertext: range(m).map(landmarkHoverText) };
}

function surfaceTraces(theme) {
  const faces = data.surface ? data.surface.faces : data.faces;
  if (!faces || !faces.count) return [];
  const corners = new Int32Array(decodedBytes(faces.data));
  const vertices = data.surface ? shrunkSurface() : mapPoints;
  const visible = byId("showSurface").checked;
  if (is3D) {
    const corner = (c) => Int32Array.from({ length: faces.count }, (_, f) => corners[3 * f + c]);
    return [{ type: "mesh3d", ...coordinates(vertices, range(vertices.length / data.dimension)),
      i: corner(0), j: corner(1), k: corner(2), visible, flatshading: false,
      lighting: { ambient: 0.65, diffuse: 0.5, specular: 0.1 }, ...(isPainted() ? paint(theme)
        : { color: theme.mesh, opacity: data.surface ? 1 : 0.28, hoverinfo: "skip" }) }];
  }
  const rows = [...corners].flatMap((corner, i) => (i % 3 === 2 ? [corner, corners[i - 2], -1] : [corner]));
  return [{ type: "scatter", mode: "lines", ...coordinates(vertices, rows), line: { color: theme.mesh, width: 1 },
    visible, opacity: 0.6, hoverinfo: "skip", connectgaps: false }];
}

function landmarkHoverText(j) {
  return `${plotlyNames[j]}<br>${words.sensor_error} ${plotlyText(formatLength(landmarkErrors.sensor_error[j]))}<br>` +
    `disagreement ${plotlyText(formatLength(landmarkErrors.disagreement[j]))}<br>` +
    `seen by ${cloudCounts[j]} of ${n} ${words.clouds}`;
}

const mapPlot = addPlot("mapPlot", mapFigure, "The map of all landmarks with one warped cloud");
const hasSurface = Boolean(data.surface || (data.faces && data.faces.count));
const hasLinks = Boolean(data.links && data.links.pairs.length);
const firstTrace = Number(hasSurface) + Number(hasLinks);
const TRACE = { surface: 0, links: Number(hasSurface), map: firstTrace, lines: firstTrace + 1, points: firstTrace + 2,
  highlight: firstTrace + 3 };
/** Updates only the two traces of the cloud; the others do not change. */
function updateCloud() {
  const residuals = cloudResiduals();
  const pair = (axis) => [residuals.lines[axis], residuals.points[axis]];
  describeCloud(residuals.seen);
  schedulePaperImage(mapPlot);
  const change = Object.fromEntries(AXES.map((axis) => [axis, pair(axis)]));
  const hovertext = [null, residuals.hoverTexts];
  return Plotly.restyle(mapPlot.screen, { ...change, hovertext }, [TRACE.lines, TRACE.points]);
}

function describeCloud(seen) {
  const error = columnValues("clouds", "sensor_error")[view.cloud];
  byId("cloudName").replaceChildren(nameElement(truncated(data.clouds[view.cloud], 80)),
    createElement("small", {}, `${words.cloud} ${formatCount(view.cloud + 1)} of ${formatCount(n)}, ` +
      countOf(seen, "point") +
      (Number.isNaN(error) ? "" : `, ${words.sensor_error} ${formatLength(error)}`)));
  byId("cloud").setAttribute("aria-valuetext", data.clouds[view.cloud]);
}

let updatePending = false;
function selectCloud(cloud) {
  view.cloud = Math.max(0, Math.min(n - 1, cloud));
  byId("cloud").value = view.cloud;
  if (updatePending) return;
  updatePending = true; // a slider moves faster than a plot can be drawn: draw only the last cloud chosen
  requestAnimationFrame(() => {
    updatePending = false;
    updateCloud();
  });
}

function addMapControls() {
  byId("cloud").max = n - 1;
  byId("cloud").addEventListener("input", (event) => selectCloud(Number(event.target.value)));
  byId("previous").addEventListener("click", () => selectCloud((view.cloud + n - 1) % n));
  byId("next").addEventListener("click", () => selectCloud((view.cloud + 1) % n));
  byId("colour").addEventListener("change", (event) => {
    view.colour = event.target.value;
    writeMapCaption();
    drawPlot(mapPlot);
  });
  byId("factor").addEventListener("change", (event) => {
    view.factor = Number(event.target.value);
    updateCloud();
  });
  byId("showCloud").addEventListener("change", (event) => {
    Plotly.restyle(mapPlot.screen, { visible: event.target.checked }, [TRACE.lines, TRACE.points]);
  });
  byId("showSurfaceLabel").hidden = !hasSurface;
  if (!is3D) byId("showSurfaceLabel").lastChild.textContent = " show the triangles";
  byId("showCloud").checked = !isPainted();
  byId("showSurface").addEventListener("change", () => {
    writeMapCaption();
    drawPlot(mapPlot);
  });
  addLineControls();
  describeCloud(cloudResiduals().seen);
  writeMapCaption();
}

/** The names of landmarks and the lines between them. */
function addLineControls() {
  byId("showNamesLabel").hidden = drawnOnMap.length > MOST_NAMES;
  byId("showNames").addEventListener("change", (event) => {
    Plotly.restyle(mapPlot.screen, { mode: event.target.checked ? "markers+text" : "markers" }, [TRACE.map]);
  });
  byId("showLinksLabel").hidden = !hasLinks;
  if (!hasLinks) return;
  byId("showLinksText").textContent = data.links.guessed ? "join neighbours" : "show the wireframe";
  byId("showLinks").checked = !data.links.guessed;
  byId("showLinks").addEventListener("change", (event) => {
    Plotly.restyle(mapPlot.screen, { visible: event.target.checked }, [TRACE.links]);
  });
}

function writeMapCaption() {
  const values = landmarkErrors[view.colour];
  const limit = colourLimit();
  const above = values.filter((value) => value > limit).length;
  const hasGrey = drawnOnMap.some((j) => Number.isNaN(values[j]));
  const unmapped = m - mappedLandmarks.length;
  byId("mapCaption").textContent = inWords([
    isPainted() ? `The surface of the map is coloured by the ${ERROR_NAMES[view.colour]} of its vertices, the landmarks`
      : `Round dots are the landmarks of the map, coloured by ${ERROR_NAMES[view.colour]}`,
    above ? ` (colours end at ${formatLength(limit)}; ${countOf(above, "landmark has", "landmarks have")} more)` : "",
    hasGrey ? "; grey dots were seen by fewer than two clouds and cannot be compared" : "",
    `. Small orange diamonds are the points of the cloud chosen below, ${MAPPED_BY}; a line connects each point `,
    "with its landmark. ",
    "Enlarged residuals are drawn 5 or 20 times as long as they are. ",
    data.surface ? "The surface is the mean of all surfaces, mapped by the warps of their clouds, and drawn " +
      "3 % smaller so that the landmarks on it can be seen. " : "",
    unmapped ? `${countOf(unmapped, "landmark has", "landmarks have")} no position in the map. ` : "",
    data.drawn ? `${formatCount(drawnLandmarks.length)} of ${formatCount(m)} landmarks are drawn, evenly chosen. ` : "",
    data.unit ? `Lengths are in ${data.unit}. ` : "",
    is3D ? "Drag to rotate, scroll to zoom." : "Drag to zoom, double-click to reset.",
  ].join(""));
}

function highlightLandmark(landmark) {
  view.highlighted = landmark;
  const change = coordinates(mapPoints, [landmark]);
  const update = Object.fromEntries(AXES.map((axis) => [axis, [change[axis]]]));
  Plotly.restyle(mapPlot.screen, update, [TRACE.highlight]);
  schedulePaperImage(mapPlot);
  byId("map").scrollIntoView();
}
