// The sensors' trajectory, which cloud saw which landmark, and the eigenvalues.

// -- trajectory ----------------------------------------------------------------------------------------------

const AXIS_COLOURS = ["#d55e00", "#009e73", "#3b7ddd"]; // x, y, z
const MOST_TRAJECTORY_LANDMARKS = 1500;
const SENSOR_AXIS = 0.06; // length of a drawn axis, as a share of the largest extent
const sensorPositions = unpacked(data.poses.positions); // (n, d)
const sensorAxes = unpacked(data.poses.axes); // (n, d, d), the columns are the axes of a cloud

/** The range along each axis of everything that the trajectory shows, with a margin for the axes of the sensors. */
function trajectoryRanges() {
  const d = data.dimension;
  const ranges = AXES.map((_, i) => {
    let [low, high] = [Infinity, -Infinity];
    const include = (value) => {
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    range(n).forEach((t) => include(sensorPositions[t * d + i]));
    mappedLandmarks.forEach((j) => include(mapPoints[j * d + i]));
    return [low, high];
  });
  const margin = SENSOR_AXIS * Math.max(...ranges.map(([low, high]) => high - low));
  return ranges.map(([low, high]) => [low - margin, high + margin]);
}

/** Short lines from all sensors along one of their axes. */
function sensorAxisTrace(index, length) {
  const d = data.dimension;
  const ends = AXES.map(() => []);
  for (const t of range(n)) {
    AXES.forEach((_, i) => {
      const start = sensorPositions[t * d + i];
      ends[i].push(start, start + length * sensorAxes[(t * d + i) * d + index], NaN);
    });
  }
  return { type: POINT_TRACE, mode: "lines", hoverinfo: "skip", connectgaps: false,
    line: { color: AXIS_COLOURS[index], width: is3D ? 4 : 2 },
    ...Object.fromEntries(AXES.map((axis, i) => [axis, ends[i]])) };
}

function trajectoryFigure(theme, camera) {
  const ranges = trajectoryRanges();
  const length = SENSOR_AXIS * Math.max(...ranges.map(([low, high]) => high - low));
  const step = Math.max(1, Math.ceil(mappedLandmarks.length / MOST_TRAJECTORY_LANDMARKS));
  const shown = mappedLandmarks.filter((_, i) => i % step === 0);
  const traces = [
    { type: POINT_TRACE, mode: "markers", ...coordinates(mapPoints, shown), hoverinfo: "skip",
      marker: { size: is3D ? 1.8 : 5, color: theme.mesh, line: { width: 0 } } },
    ...AXES.map((_, i) => sensorAxisTrace(i, length)),
    { type: POINT_TRACE, mode: "lines+markers", ...coordinates(sensorPositions, range(n)), hoverinfo: "text",
      hovertext: range(n).map((t) => `${plotlyText(data.clouds[t])}<br>${words.cloud} ${t + 1} of ${n}`),
      line: { color: theme.soft, width: is3D ? 2 : 1 },
      marker: { size: !is3D ? 8 : theme.narrow ? 3 : 4, color: range(n).map((t) => t + 1), colorscale: theme.scale,
        cmin: 1, cmax: Math.max(2, n), line: { width: 0 },
        colorbar: colourBar(theme, `number of the ${words.cloud}`,
          { tickformat: "d", tick0: 1, dtick: Math.max(1, Math.ceil(n / 8)) }) } },
  ];
  const layout = { ...spatialMargins(theme), ...spatialAxes(theme, ranges, camera, 1.2) };
  return { traces, layout: plotLayout(theme, layout) };
}

function addTrajectory() {
  const colours = is3D ? "x orange, y green, z blue" : "x orange, y green";
  byId("trajectoryCaption").textContent = inWords("The origin of each cloud\u2019s own coordinates, mapped by the " +
    `pose of the cloud, with the directions of its axes (${colours}); small dots are the landmarks of the map. The ` +
    "path is that of the sensor only if each cloud was recorded in the sensor\u2019s frame.") +
    (data.unit ? ` Lengths are in ${data.unit}.` : "");
  addPlot("trajectoryPlot", trajectoryFigure, "Sensor positions of the clouds");
}

// -- visibility ----------------------------------------------------------------------------------------------

/** "cloud a", or "clouds a to c" if the block with this index holds several. */
function blockNames(starts, names, index, noun) {
  const last = (index + 1 < starts.length ? starts[index + 1] : names.length) - 1;
  return last > starts[index] ? [`${noun}s `, nameElement(names[starts[index]]), " to ", nameElement(names[last])]
    : [`${noun} `, nameElement(names[starts[index]])];
}

/** Indices at equal distances, so that at most `most` of them are labelled. */
const labelledIndices = (count, most) => range(count).filter((i) => i % Math.max(1, Math.ceil(count / most)) === 0);

function visibilityFigure(theme, shares) {
  const { rows, columns } = data.visibility;
  const clouds = labelledIndices(rows.length, 16);
  const landmarks = labelledIndices(columns.length, theme.narrow ? 2 : 8);
  return {
    traces: [{ type: "heatmap", z: shares, zmin: 0, zmax: 1, colorscale: theme.seen, showscale: false,
      hoverinfo: "none" }],
    layout: plotLayout(theme, {
      xaxis: axis2D(theme, words.landmark, { showgrid: false, tickvals: landmarks, tickangle: 0,
        ticktext: landmarks.map((c) => plotlyText(data.landmarks[columns[c]], 12)) }),
      yaxis: axis2D(theme, words.cloud, { showgrid: false, autorange: "reversed", tickvals: clouds,
        ticktext: clouds.map((r) => plotlyText(data.clouds[rows[r]], 16)) }),
    }),
  };
}

/** A sentence instead of a picture if nearly all was seen. */
function listUnseen() {
  const missing = data.unseen.flatMap(([t, j], i) => [i ? "; " : "", nameElement(truncated(data.landmarks[j], 40)),
    " in ", nameElement(truncated(data.clouds[t], 40))]);
  const all = inWords("Every cloud shows every landmark.");
  const some = inWords(`Every cloud shows every landmark except ${countOf(data.unseen.length, "observation")}: `);
  byId("visibilityPlot").hidden = byId("visibilityReadout").hidden = true;
  byId("visibilityCaption").replaceChildren(data.unseen.length ? some : all, ...missing, data.unseen.length ? "." : "");
}

function addVisibility() {
  if (data.unseen) {
    listUnseen();
    return;
  }
  const { rows, columns } = data.visibility;
  const bytes = new Uint8Array(decodedBytes(data.visibility.data));
  const row = (r) => Array.from(bytes.subarray(r * columns.length, (r + 1) * columns.length), (share) => share / 255);
  const shares = rows.map((_, r) => row(r));
  const hasBlocks = rows.length < n || columns.length < m;
  const describeCell = ({ points: [point] }) => {
    const [r, c] = point.pointIndex || point.pointNumber;
    const share = shares[r][c];
    const found = hasBlocks ? `${formatPercent(share)} of the observations exist` : share ? "seen" : "not seen";
    byId("visibilityReadout").replaceChildren(...blockNames(rows, data.clouds, r, capitalised(words.cloud)), ", ",
      ...blockNames(columns, data.landmarks, c, words.landmark), `: ${found}`);
  };
  addPlot("visibilityPlot", (theme) => visibilityFigure(theme, shares), "Which cloud saw which landmark", describeCell);
  byId("visibilityPlot").style.height = `${Math.round(Math.min(30, Math.max(12, 6 + 0.9 * rows.length)))}rem`;
  byId("visibilityCaption").textContent = inWords("One row per cloud, one column per landmark; blue where the cloud " +
    "saw the landmark." + (hasBlocks ? " A cell stands for several clouds or landmarks; its colour is the share seen."
    : ""));
}

// -- eigenvalues ---------------------------------------------------------------------------------------------

/** The range of a logarithmic axis, with a margin. */
function logRange(values) {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const margin = Math.max(0.3, 0.15 * (high - low));
  return [low - margin, high + margin];
}

function spectrumFigure(theme, values, shown, hasGap) {
  const { dimension, rounding } = data.eigenvalues;
  const [low, high] = logRange(shown);
  const [below, above] = [shown[dimension - 1], shown[dimension]];
  return {
    traces: [{ type: "scatter", mode: "markers", x: range(values.length).map((i) => i + 1), y: shown,
      hoverinfo: "text", hovertext: values.map((value, i) =>
        `eigenvalue ${i + 1}<br>${value < rounding ? "zero to rounding" : formatNumber(value)}`),
      marker: { size: 12, color: values.map((_, i) => (i < dimension ? theme.accent : theme.cloud)),
        symbol: values.map((_, i) => (i < dimension ? "circle" : "diamond")) } }],
    layout: plotLayout(theme, {
      xaxis: axis2D(theme, "number of the eigenvalue", { dtick: values.length > 12 ? undefined : 1, showgrid: false,
        range: [0.5, values.length + 0.5] }),
      yaxis: axis2D(theme, "eigenvalue", { type: "log", exponentformat: "power", range: [low, high],
        dtick: high - low > 1.5 ? Math.ceil((high - low) / 8) : undefined }),
      shapes: hasGap ? [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: below, y1: above, fillcolor: theme.accent,
        opacity: 0.12, line: { width: 0 }, layer: "below" }] : [],
      annotations: hasGap ? [{ xref: "paper", x: 0.03, xanchor: "left", yref: "y", text: "gap", showarrow: false,
        y: (Math.log10(below) + Math.log10(above)) / 2, font: { color: theme.accent, size: 13 } }] : [],
    }),
  };
}

function addSpectrum() {
  const { dimension, rounding } = data.eigenvalues;
  const values = data.eigenvalues.values.map(jsonNumber);
  const floor = Math.max(rounding, 1e-300);
  const shown = values.map((value) => Math.max(value, floor));
  const hasGap = Number.isFinite(values[dimension]) && values[dimension] > rounding;
  const plot = addPlot("spectrumPlot", (theme) => spectrumFigure(theme, values, shown, hasGap),
    "Eigenvalues, logarithmic scale");
  byId("spectrumDetails").addEventListener("toggle", () => { // a folded plot has no size
    resetPlot(plot);
    drawPlot(plot);
  });
  const last = values[dimension - 1] < floor ? "zero to rounding" : formatNumber(values[dimension - 1]);
  appendParagraphs(byId("spectrumText"), [
    `The first ${dimension} eigenvalues of the cost (circles) are the costs of the ${dimension} eigenvectors that ` +
      "the published map is made of; the next one (diamond) is that of the cheapest direction outside of it. The " +
      "axes of the map are ordered by their spread, which can be another order.",
    hasGap ? `Eigenvalue ${dimension + 1} (${formatNumber(values[dimension])}) is ` +
      `${formatNumber(shown[dimension] / shown[dimension - 1])} times eigenvalue ${dimension} (${last}).`
      : "No further eigenvalue lies above rounding, so there is no gap to compare.",
    hasGap && "A wide gap means that the data determine the eigenvectors, and with them the map of the published " +
      "method (modes \u201cpaper\u201d). If the two eigenvalues nearly coincide, that map may mix directions. The " +
      "default map (modes \u201cauto\u201d) does not depend on the gap.",
  ]);
}
