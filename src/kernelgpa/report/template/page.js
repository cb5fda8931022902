// Fills the page: summary, plots, tables, settings.

const SUMMARY_SETTINGS = ["kernel", "bandwidth", "control_points", "smoothing", "robust"];
const SETTING_TITLES = { input: "Input", output: "Output" };
const SERIOUS = 0.7; // severities from here on
const MODERATE = 0.4;

function addSummary() {
  const { name, description } = data.method;
  const seenShare = data.observation_count / (n * m);
  const settings = data.method.settings
    .filter(([key, value]) => SUMMARY_SETTINGS.includes(key) && value !== "none")
    .map(([key, value]) => `${key} ${value}`);
  byId("lead").textContent =
    inWords(`${countOf(n, "cloud")}, ${countOf(m, "landmark")}, ${data.dimension}D, ${description} (${name})`);
  appendParagraphs(byId("summaryText"), [
    inWords(`${countOf(n, "cloud")} of ${countOf(m, "landmark")} in ${data.dimension}D were registered into one ` +
      `coordinate system by ${description} (${[name, ...settings].join(", ")}). ` +
      `${formatPercent(seenShare)} of all pairs of a cloud and a landmark were seen.`),
    data.mirrored.length && [inWords(`${countOf(data.mirrored.length, "cloud fits only as a mirror image and does",
      "clouds fit only as mirror images and do")} not contribute to the map: `),
      nameElement(data.mirrored.join(", ")), "."],
    data.rejected !== null && `Robust fitting rejected ${countOf(data.rejected, "observation")}, ` +
      `${formatPercent(data.rejected / data.observation_count)} of those seen: each kept at most 10 % of its weight. ` +
      "The errors below leave them out.",
    capitalised(data.choice),
    data.certificate,
  ]);
  byId("tiles").append(
    errorTile("Disagreement", data.summary.disagreement,
      "Distance in the map between a landmark\u2019s position in one cloud and its mean over all " +
      "clouds. Measured on the landmarks that the map was fitted to."),
    errorTile(capitalised(words.sensor_error), data.summary.sensor_error,
      "Distance in a cloud\u2019s own coordinates between a landmark and its prediction, as if this " +
      "cloud had not seen it."),
    createElement("div", { class: "tile" }, createElement("h3", {}, "Visibility"),
      createElement("p", { class: "big" }, formatPercent(seenShare), createElement("small", {}, " of all pairs")),
      createElement("p", {}, `${formatCount(data.observation_count)} observations; ` +
        inWords(`${formatCount(data.summary.disagreement.count)} of ${countOf(m, "landmark")} can be compared`))));
  addFindings();
  if (data.notes.length) byId("notes").append(createElement("h3", {}, "Notes"));
  appendParagraphs(byId("notes"), data.notes, { class: "note" });
}

function errorTile(title, statistics, meaning) {
  const worst = statistics.at === null ? [] : ["; worst ", formatLength(jsonNumber(statistics.worst)),
    `, ${words.landmark} `, nameElement(truncated(data.landmarks[statistics.at], 60))];
  const leftOut = hasColumn("landmarks", "left_out_residual") ?
    " The tables also list left-out residuals in the map." : "";
  return createElement("div", { class: "tile" }, createElement("h3", {}, title),
    createElement("p", { class: "big" }, formatLength(jsonNumber(statistics.median)),
      createElement("small", {}, " median")),
    createElement("p", {}, `mean ${formatLength(jsonNumber(statistics.mean))}`, ...worst),
    createElement("p", {}, inWords(`${meaning}${leftOut}`)));
}

function addFindings() {
  const problems = data.findings.filter((finding) => !finding.note);
  if (!problems.length) {
    byId("findings").append(createElement("p", { class: "passed" }, "Every check of the registration passed."));
  }
  appendParagraphs(byId("findings"), [problems.length && "Severity runs from 0 to 100: from 70 on (serious), do " +
    "not rely on the result before the finding is resolved; from 40 on (moderate), check what it names; below " +
    "(minor), know it when you read the numbers."], { class: "caption" });
  for (const finding of data.findings) {
    const percent = Math.round(100 * finding.severity);
    const level = finding.note ? "note" : finding.severity >= SERIOUS ? "serious"
      : finding.severity >= MODERATE ? "moderate" : "minor";
    const meter = createElement("span", { class: "meter", "aria-hidden": "true" }, createElement("span"));
    meter.firstChild.style.width = `${percent}%`;
    byId("findings").append(createElement("div", { class: "finding" },
      createElement("div", { class: `level ${level}` },
        finding.note ? "note" : `${level}, severity ${percent}\u00a0of\u00a0100`, meter),
      createElement("div", {}, createElement("h4", {}, finding.kind), createElement("p", {}, finding.found),
        createElement("p", { class: "action" }, `What to do: ${finding.action}`))));
  }
}

function addSettings() {
  const readable = (name) => name.replace(/^(input|output)\./, "").replace(/_/g, " ");
  const list = (title, pairs) => createElement("div", {}, createElement("h3", {}, title), createElement("dl", {},
    ...pairs.flatMap(([name, value]) =>
      [createElement("dt", {}, nameElement(readable(name))), createElement("dd", {}, nameElement(value))])));
  byId("settingLists").append(list(`Method: ${data.method.name}`, data.method.settings));
  for (const [section, title] of Object.entries(SETTING_TITLES)) {
    const pairs = data.settings.filter(([name]) => name.startsWith(`${section}.`));
    if (pairs.length) byId("settingLists").append(list(title, pairs));
  }
  const others = data.settings.filter(([name]) => !/^(input|method|output)\./.test(name));
  if (others.length) byId("settingLists").append(list("Other settings", others));
  byId("settingLists").append(list("Versions", [...data.versions, ["plotly.js", Plotly.version]]));
}

function applyTheme() {
  if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
  byId("theme").textContent = themeName() === "dark" ? "Light" : "Dark";
}

async function redraw() {
  applyTheme();
  for (const plot of plots) await drawPlot(plot);
}

function addPageControls() {
  byId("theme").addEventListener("click", () => {
    chosenTheme = themeName() === "dark" ? "light" : "dark";
    redraw();
  });
  prefersDark.addEventListener("change", redraw);
  narrowScreen.addEventListener("change", () => {
    plots.forEach(resetPlot); // colour bars and cameras differ on narrow screens
    redraw();
  });
}

/** The words of the page that its markup holds. */
function nameSections() {
  const titles = { map: words.map, clouds: words.clouds, landmarks: words.landmarks };
  for (const [id, title] of Object.entries(titles)) {
    byId(`${id}Title`).textContent = byId(id).dataset.short = capitalised(title);
  }
  byId("sensorOption").textContent = words.sensor_error;
  byId("showCloudText").textContent = `show the ${words.cloud}`;
}

async function fillPage() {
  applyTheme();
  nameSections();
  addPageControls();
  addSummary();
  addMapControls();
  byId("modes").hidden = !shapes;
  if (shapes) addModes();
  byId("specimens").hidden = !hasColumn("clouds", "procrustes_distance");
  if (!byId("specimens").hidden) addSpecimens();
  byId("trajectory").hidden = !words.trajectory;
  if (!byId("trajectory").hidden) addTrajectory();
  addVisibility();
  byId("spectrum").hidden = !data.eigenvalues;
  if (data.eigenvalues) addSpectrum();
  byId("tuning").hidden = !data.tuning;
  if (data.tuning) addTuning();
  addTables();
  addSettings();
  for (const section of document.querySelectorAll("section:not([hidden])")) {
    byId("contents").append(createElement("a", { href: `#${section.id}` }, section.dataset.short));
  }
  for (const plot of plots) {
    await drawPlot(plot);
    await new Promise((resume) => setTimeout(resume)); // the page stays responsive between plots
  }
  document.documentElement.dataset.ready = "yes";
}

fillPage();
