// The settings that cross-validation tried: a curve for one setting, a surface for two, and a table.

const HELD_OUT_ERROR = "held-out sensor-frame error";
const settingsText = (trial) => trial.settings.map(([name, value]) => `${name} ${value}`).join(", ");

/** Logarithmic if the values differ by a factor of eight or more. */
function axisType(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low > 0 && high >= 8 * low ? "log" : "linear";
}

function addTuning() {
  const { trials, best, at_edge: atEdge, axes } = data.tuning;
  const winner = trials[best];
  const failures = trials.filter((trial) => trial.failure).length;
  appendParagraphs(byId("tuningText"), [
    `${countOf(trials.length, "setting was", "settings were")} compared by the sensor-frame error of held-out ` +
      `landmarks; the trimmed mean leaves out the longest tenth. ` +
      `Best: ${winner.model}${winner.settings.length ? `, ${settingsText(winner)}` : ""}, with an error ` +
      `of ${formatLength(jsonNumber(winner.sensor_error))}.`,
    atEdge.length && `The best ${atEdge.join(" and ")} lies at the end of the range that was tried; a better value ` +
      "may lie beyond it.",
    failures && `${countOf(failures, "setting")} could not be computed.`,
  ]);
  if (axes && axes.names.length === 2) {
    byId("tuningCaption").textContent = "Dots are settings that were tried, crosses settings that could not be " +
      "computed; the ring marks the best. Cells without a dot are interpolated.";
    addPlot("tuningPlot", tuningSurface, "Held-out error by two settings");
  } else if (axes) {
    addPlot("tuningPlot", tuningCurve, "Held-out error by one setting");
  } else {
    byId("tuningPlot").hidden = true;
  }
  const errors = Float64Array.from(trials, (trial) => jsonNumber(trial.sensor_error));
  const names = trials.map((trial) => `${trial.model}${trial.settings.length ? `: ${settingsText(trial)}` : ""}`);
  addTable("tuningTable", "settings", names, [
    { kind: "length", label: HELD_OUT_ERROR, values: errors },
    { kind: "length", label: "median", values: Float64Array.from(trials, (one) => jsonNumber(one.sensor_median)) },
    { kind: "length", label: "trimmed mean", values: Float64Array.from(trials, (t) => jsonNumber(t.sensor_trimmed)) },
    { kind: "length", label: "RMS", values: Float64Array.from(trials, (one) => jsonNumber(one.sensor_rms)) },
    { kind: "number", label: "seconds", values: Float64Array.from(trials, (trial) => trial.seconds) },
    ...(failures ? [{ kind: "text", label: "error message", values: trials.map((trial) => trial.failure) }] : []),
  ], { nameLabel: "setting", sortBy: 1, direction: 1 });
}

const bestRing = (theme, x, y) => ({ type: "scatter", mode: "markers", x: [x], y: [y], hoverinfo: "skip",
  marker: { size: 20, symbol: "circle-open", color: theme.ring, line: { width: 3, color: theme.ring } } });

function tuningCurve(theme) {
  const { names, values: [x], sensor_error: errors } = data.tuning.axes;
  const y = errors.map(jsonNumber);
  const order = range(x.length).filter((i) => Number.isFinite(y[i])).sort((a, b) => x[a] - x[b]);
  const hoverText = (i) => `${plotlyText(names[0])} ${formatNumber(x[i])}<br>${plotlyText(formatLength(y[i]))}`;
  const best = order.reduce((a, b) => (y[b] < y[a] ? b : a), order[0]);
  return {
    traces: [
      { type: "scatter", mode: "lines+markers", x: order.map((i) => x[i]), y: order.map((i) => y[i]),
        hoverinfo: "text", hovertext: order.map(hoverText), line: { color: theme.accent, width: 2 },
        marker: { size: 8, color: theme.accent } },
      bestRing(theme, x[best], y[best]),
    ],
    layout: plotLayout(theme, {
      xaxis: axis2D(theme, plotlyText(names[0]), { type: axisType(x) }),
      yaxis: axis2D(theme, plotlyText(withUnit(HELD_OUT_ERROR)), { type: axisType(order.map((i) => y[i])) }),
    }),
  };
}

/** The heights of the surface: errors, or their logarithms if they differ widely, on the grid of all values tried. */
function surfaceGrid(x, y, errors, computed) {
  const logarithmic = axisType(computed.map((i) => errors[i])) === "log";
  const height = (value) => (logarithmic ? Math.log10(value) : value);
  const distinct = (values) => [...new Set(values)].sort((a, b) => a - b);
  const [across, up] = [distinct(x), distinct(y)];
  const z = up.map(() => across.map(() => null));
  for (const i of computed) z[up.indexOf(y[i])][across.indexOf(x[i])] = height(errors[i]);
  const heights = computed.map((i) => height(errors[i]));
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const ticks = range(5).map((i) => low + (i / 4) * (high - low));
  const ticktext = ticks.map((tick) => formatNumber(logarithmic ? 10 ** tick : tick));
  return { across, up, z, low, high, colourTicks: { tickvals: ticks, ticktext } };
}

function tuningSurface(theme) {
  const { names, values: [x, y], sensor_error: given } = data.tuning.axes;
  const errors = given.map(jsonNumber);
  const computed = range(x.length).filter((i) => Number.isFinite(errors[i]));
  const failed = range(x.length).filter((i) => !Number.isFinite(errors[i]));
  const { across, up, z, low, high, colourTicks } = surfaceGrid(x, y, errors, computed);
  const best = computed.reduce((a, b) => (errors[b] < errors[a] ? b : a), computed[0]);
  const colorscale = colourScale(theme.scale.map(([, colour]) => colour).reverse()); // the smallest error stands out
  const hoverText = (i) => `${plotlyText(names[0])} ${formatNumber(x[i])}<br>` +
    `${plotlyText(names[1])} ${formatNumber(y[i])}<br>` +
    `${Number.isFinite(errors[i]) ? plotlyText(formatLength(errors[i])) : "could not be computed"}`;
  const dots = (rows, marker) => ({ type: "scatter", mode: "markers", x: rows.map((i) => x[i]),
    y: rows.map((i) => y[i]), hoverinfo: "text", hovertext: rows.map(hoverText), marker });
  const ticksAt = (values) => (values.length <= 12 ? { tickvals: values, ticktext: values.map(formatTick) } : {});
  const axis = (name, values) =>
    axis2D(theme, plotlyText(name), { type: axisType(values), showgrid: false, ...ticksAt(values) });
  return {
    traces: [
      { type: "heatmap", x: across, y: up, z, connectgaps: true, zsmooth: false, hoverinfo: "skip", colorscale,
        zmin: low, zmax: high > low ? high : low + 1, opacity: 0.9,
        colorbar: { ...colourBar(theme, plotlyText(withUnit(HELD_OUT_ERROR))), len: 1, ypad: theme.narrow ? 75 : 0,
          ...colourTicks } },
      dots(computed, { size: 7, color: theme.card, line: { width: 1, color: theme.ink } }),
      dots(failed, { size: 9, symbol: "x", color: theme.soft }),
      bestRing(theme, x[best], y[best]),
    ],
    layout: plotLayout(theme, { xaxis: axis(names[0], across), yaxis: axis(names[1], up) }),
  };
}
