// The shape model: the mean shape along one mode at a time, the scores of the clouds, and the variances of the modes.

const MOST_LISTED = 12; // names in a sentence
const shapes = data.shapes && { ...data.shapes, mean: unpacked(data.shapes.mean), modes: unpacked(data.shapes.modes),
  scores: unpacked(data.shapes.scores), scoreDeviations: unpacked(data.shapes.score_deviations) };
const modeCount = shapes ? data.shapes.modes.shape[0] : 0;
const modeView = { mode: 0, against: Math.min(1, modeCount - 1), amount: 2 }; // amount in standard deviations
const modeTitle = (k) => `mode ${k + 1} (${formatPercent(shapes.shares[k])} of the variance)`;

/** The mean shape moved along the chosen mode. */
function shapeAlongMode() {
  const start = modeView.mode * shapes.mean.length;
  return shapes.mean.map((value, i) => value + modeView.amount * shapes.modes[start + i]);
}

/** Points and the lines or the surface between them, in one colour. */
function shapeTraces(points, colour, size, opacity) {
  const rows = range(shapes.drawn.length);
  const all = shapes.drawn.length === m;
  const dots = { type: POINT_TRACE, mode: "markers", ...coordinates(points, rows), hoverinfo: "text", opacity,
    hovertext: shapes.drawn.map((j) => plotlyNames[j]), marker: { size, color: colour, line: { width: 0 } } };
  if (all && hasLinks) {
    const ends = data.links.pairs.flatMap(([a, b]) => [a, b, -1]);
    return [{ type: POINT_TRACE, mode: "lines", ...coordinates(points, ends), hoverinfo: "skip", connectgaps: false,
      opacity, line: { color: colour, width: is3D ? 3 : 1.5 } }, dots];
  }
  if (!all || !is3D || !data.faces || !data.faces.count) return [dots];
  const corners = new Int32Array(decodedBytes(data.faces.data));
  const corner = (c) => Int32Array.from({ length: data.faces.count }, (_, f) => corners[3 * f + c]);
  return [{ type: "mesh3d", ...coordinates(points, rows), i: corner(0), j: corner(1), k: corner(2), color: colour,
    opacity: 0.6 * opacity, hoverinfo: "skip", flatshading: false }];
}

function modesFigure(theme, camera) {
  const size = is3D ? (theme.narrow || shapes.drawn.length > 800 ? 2 : 3.5) : 6;
  const traces = [...shapeTraces(shapes.mean, theme.soft, size, 0.5),
    ...shapeTraces(shapeAlongMode(), theme.cloud, size, 1)];
  return { traces, layout: plotLayout(theme, { ...spatialMargins(theme),
    ...spatialAxes(theme, shapes.axis_ranges, camera, 1) }) };
}

function scoresFigure(theme) {
  const { mode, against } = modeView;
  const column = (values, k) => range(n).map((t) => values[t * modeCount + k]);
  const bars = (k) => ({ type: "data", array: column(shapes.scoreDeviations, k), color: theme.line, thickness: 1,
    width: 0 });
  const axis = (k) => axis2D(theme, `score on mode ${k + 1}`, { zeroline: true, zerolinecolor: theme.line });
  return {
    traces: [{ type: "scatter", mode: "markers", x: column(shapes.scores, mode),
      y: column(shapes.scores, against), error_x: bars(mode), error_y: bars(against), hoverinfo: "text",
      hovertext: range(n).map((t) => plotlyText(data.clouds[t])),
      marker: { size: 8, color: theme.accent } }],
    layout: plotLayout(theme, { xaxis: axis(mode), yaxis: axis(against) }),
  };
}

function screeFigure(theme) {
  const numbers = shapes.shares.map((_, k) => k + 1);
  const percent = (shares) => shares.map((share) => 100 * share);
  const chance = shapes.null_shares && { type: "scatter", mode: "lines+markers", x: numbers,
    y: percent(shapes.null_shares), hoverinfo: "y", line: { color: theme.cloud, width: 1.5 }, marker: { size: 5 } };
  return {
    traces: [{ type: "bar", x: numbers, y: percent(shapes.shares), hoverinfo: "y", marker: { color: theme.accent } },
      ...(chance ? [chance] : [])],
    layout: plotLayout(theme, { xaxis: axis2D(theme, "mode", { showgrid: false, dtick: numbers.length > 12 ? 5 : 1 }),
      yaxis: axis2D(theme, "% of the variance", { rangemode: "tozero", hoverformat: ".1f" }), bargap: 0.25 }),
  };
}

function describeMode() {
  const step = `${modeView.amount < 0 ? "\u2212" : "+"}${Math.abs(modeView.amount).toFixed(1)} standard deviations`;
  const start = modeView.mode * shapes.mean.length;
  let square = 0;
  for (let i = 0; i < shapes.mean.length; i++) square += shapes.modes[start + i] ** 2;
  const moved = Math.abs(modeView.amount) * Math.sqrt(square / shapes.drawn.length);
  byId("modeText").replaceChildren(step, createElement("small", {},
    inWords(`landmarks move by ${formatLength(moved)} (root mean square)`)));
  byId("modeAmount").setAttribute("aria-valuetext", step);
}

/** Sentences below the plots: what the model is made of, and what it found. */
function describeShapes() {
  const part = shapes.drawn.length < m
    ? `${formatCount(shapes.drawn.length)} of ${formatCount(m)} landmarks are drawn. ` : "";
  byId("modesCaption").textContent = inWords("Grey: the mean shape. Orange: the mean shape moved along the mode by " +
    `the number of standard deviations that the slider sets. ${part}` +
    (is3D ? "Drag to rotate, scroll to zoom." : ""));
  byId("scoresCaption").textContent = inWords("One dot per cloud: its coordinates along two modes, in standard " +
    "deviations. A bar shows what unseen landmarks leave open. Point at a dot to see its name.");
  const listed = (names) => names.slice(0, MOST_LISTED).flatMap((name, i) => [i ? ", " : "", nameElement(name)])
    .concat(names.length > MOST_LISTED ? ` and ${names.length - MOST_LISTED} more` : "");
  const [bad, wrong] = [shapes.badly_predicted, shapes.rejected.map(([cloud, landmark]) => `${landmark} of ${cloud}`)];
  appendParagraphs(byId("modesFound"), [
    `The model has ${countOf(shapes.count, "mode")}. ` + (shapes.null_shares ? inWords("The line shows the shares " +
      "that modes would have by chance, if landmarks did not move together (95 % quantile).") : ""),
    inWords("A landmark that a cloud did not see is predicted with an error of " +
      `${formatLength(shapes.expected_error)} on average. This was measured with landmarks that were hidden from the ` +
      "model."),
    bad.length && [inWords("The others predict these clouds badly, which therefore count less: "), ...listed(bad), "."],
    wrong.length && ["Observations that no shape explains, which are not used: ", ...listed(wrong), "."],
  ]);
}

function addModeOptions() {
  const option = (k) => createElement("option", { value: k }, modeTitle(k));
  byId("mode").append(...range(modeCount).map(option));
  byId("against").append(...range(modeCount).map(option));
  byId("against").value = modeView.against;
  byId("scoreControls").hidden = byId("scoresPlot").hidden = byId("scoresCaption").hidden = modeCount < 2;
}

function addModes() {
  addModeOptions();
  const plot = addPlot("modesPlot", modesFigure, "The mean shape along a mode");
  const scores = modeCount > 1 && addPlot("scoresPlot", scoresFigure, "Scores of the clouds on two modes");
  addPlot("screePlot", screeFigure, "Share of the variance of each mode");
  let pending = false;
  const change = (found) => {
    Object.assign(modeView, found);
    describeMode();
    if (pending) return;
    pending = true; // a slider moves faster than a plot can be drawn
    requestAnimationFrame(() => {
      pending = false;
      drawPlot(plot);
    });
  };
  byId("modeAmount").addEventListener("input", (event) => change({ amount: Number(event.target.value) }));
  byId("mode").addEventListener("change", (event) => {
    change({ mode: Number(event.target.value) });
    if (scores) drawPlot(scores);
  });
  byId("against").addEventListener("change", (event) => {
    modeView.against = Number(event.target.value);
    drawPlot(scores);
  });
  describeMode();
  describeShapes();
}
